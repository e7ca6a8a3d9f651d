"""Which cost centre a project belongs to, and from when on. What is past stays as it was booked."""

from datetime import datetime

from django.db import transaction
from django.db.models import F, Min, Q
from django.utils.translation import gettext as _

from claims.models import CostCentre, Statement
from inventory.models import NamespaceBinding
from portal import texts
from portal.accounts import audit
from portal.accounts.models import Project, User


class UnableToAssign(Exception):
    """The project stays where it is; `message` says why, `field` names the input."""

    def __init__(self, message: str, *, field: str) -> None:
        super().__init__(message)
        self.message, self.field = message, field


def assign(
    *,
    project: Project,
    code: str,
    valid_from: datetime,
    actor: User,
    now: datetime,
    source_ip: str | None = None,
) -> CostCentre:
    """Move a project to a cost centre from a moment on, until the next move that is recorded. The first time,
    what it had until then is recorded, too. Raises UnableToAssign for a time that is closed."""
    try:
        code = texts.name(code)
    except texts.UncleanText as unclean:
        raise UnableToAssign(unclean.message, field="code") from None
    if len(code) > 40:
        raise UnableToAssign(_("At most 40 characters."), field="code")
    closed = (
        Statement.objects.filter(project=project, state=Statement.State.CLOSED).order_by("-ends_at").first()
    )
    if closed is not None and valid_from < closed.ends_at:
        raise UnableToAssign(_("%(month)s is closed.") % {"month": closed.month}, field="valid_from")
    with transaction.atomic():
        Project.objects.select_for_update().get(pk=project.pk)
        rows = list(CostCentre.objects.filter(project=project).order_by("valid_from"))
        if not rows and (since := _since(project)) < valid_from:
            rows = [
                CostCentre.objects.create(
                    project=project, code=project.cost_centre, valid_from=since,
                    recorded_at=now, recorded_by=actor,
                )
            ]  # fmt: skip
        if any(row.valid_from == valid_from for row in rows):
            raise UnableToAssign(_("It moves at that very moment already."), field="valid_from")
        before = [row for row in rows if row.valid_from < valid_from]
        after = [row for row in rows if row.valid_from > valid_from]
        if before:
            before[-1].valid_until = valid_from
            before[-1].save(update_fields=["valid_until"])
        made = CostCentre.objects.create(
            project=project, code=code, valid_from=valid_from, recorded_at=now, recorded_by=actor,
            valid_until=after[0].valid_from if after else None,
        )  # fmt: skip
        if valid_from <= now and not any(row.valid_from <= now for row in after):
            project.cost_centre = code
            project.save(update_fields=["cost_centre"])
        audit.record(
            now=now,
            actor=actor,
            action="costcentre.assign",
            target=project,
            project=project,
            before={"cost_centre": before[-1].code if before else ""},
            after={"cost_centre": code, "valid_from": valid_from.isoformat()},
            source_ip=source_ip,
        )
    return made


def remember(*, project: Project, now: datetime) -> None:
    """The project's own field is about to be changed for the first time: what it had until now is recorded,
    so that nothing that is past, or closed, belongs elsewhere all at once."""
    known = Project.objects.filter(pk=project.pk).first()
    if known is None or known.cost_centre == project.cost_centre:
        return
    if (since := _since(known)) >= now or CostCentre.objects.filter(project=project).exists():
        return
    CostCentre.objects.create(project=project, code=known.cost_centre, valid_from=since, recorded_at=now)


def _since(project: Project) -> datetime:
    """From when on it may have to pay: namespaces may be its own from before the desk knew it."""
    first = NamespaceBinding.objects.filter(project=project).aggregate(first=Min("valid_from"))["first"]
    return min(project.created_at, first or project.created_at)


def follow(*, project: Project, now: datetime) -> None:
    """The project's own field was changed (its form, an import): from now on it belongs there."""
    rows = CostCentre.objects.filter(project=project)
    last = rows.filter(valid_from__lte=now).order_by("-valid_from").first()
    if last is None or last.code == project.cost_centre:
        return
    following = rows.filter(valid_from__gt=now).order_by("valid_from").first()
    with transaction.atomic():
        last.valid_until = now
        last.save(update_fields=["valid_until"])
        CostCentre.objects.create(
            project=project, code=project.cost_centre, valid_from=now, recorded_at=now,
            valid_until=following.valid_from if following else None,
        )  # fmt: skip


def settle(*, now: datetime) -> int:
    """Let projects show the cost centre that they have moved to, as it was planned; how many have moved."""
    due = CostCentre.objects.filter(valid_from__lte=now).filter(Q(valid_until=None) | Q(valid_until__gt=now))
    moved = 0
    for project, code in due.exclude(code=F("project__cost_centre")).values_list("project", "code"):
        # Nobody typed it: nothing follows from it.
        moved += Project.objects.filter(pk=project).update(cost_centre=code)
    return moved
