"""Flavors for administrators: making, changing, ordering and archiving them.

Every change names the version that it was made from. Who changes an older one is told of the conflict and
loses nothing: not what the other did, and not what they typed.
"""

from datetime import datetime
from typing import Any

from django.contrib.auth.models import Group
from django.db import IntegrityError, models, transaction
from django.utils.translation import gettext as _

from claims.asks.reading import WHOLE
from claims.catalogue.flavor_terms import HOUR, Terms, UnableToChangeFlavor, terms_of
from claims.models import Flavor
from portal.accounts import audit
from portal.accounts.models import Project, User


def create(*, terms: Terms, user: User, now: datetime, source_ip: str | None = None) -> Flavor:
    """Make a flavor, last in the catalogue. Raises UnableToChangeFlavor."""
    with transaction.atomic():
        _refuse_taken(terms, other=None)
        last = Flavor.objects.aggregate(last=models.Max("position"))["last"] or 0
        flavor = Flavor(position=last + 1, created_at=now, changed_at=now, changed_by=user, **_columns(terms))
        try:
            with transaction.atomic():
                flavor.save(force_insert=True)
        except IntegrityError:
            raise _taken("slug") from None
        _set_audience(flavor, terms)
        audit.record(
            now=now, actor=user, action="flavor.create", target=flavor, after=terms.as_dict(),
            source_ip=source_ip,
        )  # fmt: skip
    return flavor


def update(
    *,
    flavor: Flavor,
    terms: Terms,
    seen_version: int,
    user: User,
    now: datetime,
    source_ip: str | None = None,
) -> None:
    """Make these the flavor's terms, if it still is at `seen_version`. Raises UnableToChangeFlavor; nothing
    is changed then."""
    with transaction.atomic():
        _refuse_taken(terms, other=flavor)
        claim_version(flavor, seen_version=seen_version, user=user, now=now)
        before, after = audit.changes(terms_of(flavor).as_dict(), terms.as_dict())
        if after is None:
            return
        Flavor.objects.filter(pk=flavor.pk).update(**_columns(terms))
        _set_audience(flavor, terms)
        flavor.refresh_from_db()
        audit.record(
            now=now, actor=user, action="flavor.change", target=flavor, before=before, after=after,
            source_ip=source_ip,
        )  # fmt: skip


def archive(
    *, flavor: Flavor, archived: bool, user: User, now: datetime, source_ip: str | None = None
) -> None:
    """Take the flavor out of the catalogue, or put it back. Requests that were made of it go on. Harmless
    when it is so already."""
    with transaction.atomic():
        changed = Flavor.objects.filter(pk=flavor.pk, archived_at__isnull=archived).update(
            archived_at=now if archived else None, version=models.F("version") + 1, changed_at=now,
            changed_by=user,
        )  # fmt: skip
        flavor.refresh_from_db()
        if changed:
            audit.record(
                now=now, actor=user, action="flavor.archive" if archived else "flavor.restore",
                target=flavor, after={"archived": archived}, source_ip=source_ip,
            )  # fmt: skip


def move(*, flavor: Flavor, up: bool, user: User, now: datetime, source_ip: str | None = None) -> None:
    """One place up or down in the catalogue; nothing happens at its ends."""
    with transaction.atomic():
        # Locked, so that two who move at once do not both start from the same order.
        rows = list(Flavor.objects.select_for_update().order_by("position", "name", "pk"))
        keys = [row.pk for row in rows]
        index = keys.index(flavor.pk)
        other = index + (-1 if up else 1)
        if not 0 <= other < len(keys):
            return
        keys[index], keys[other] = keys[other], keys[index]
        positions = {row.pk: row.position for row in rows}
        for position, pk in enumerate(keys, 1):
            if positions[pk] != position:
                Flavor.objects.filter(pk=pk).update(position=position)
        audit.record(
            now=now, actor=user, action="flavor.move", target=flavor, before={"position": index + 1},
            after={"position": other + 1}, source_ip=source_ip,
        )  # fmt: skip


def claim_version(flavor: Flavor, *, seen_version: int, user: User, now: datetime) -> None:
    """Compare-and-set of the version, inside the transaction of the change. Raises UnableToChangeFlavor with
    `conflict` when the flavor is no longer at `seen_version`."""
    changed = Flavor.objects.filter(pk=flavor.pk, version=seen_version).update(
        version=seen_version + 1, changed_at=now, changed_by=user
    )
    if changed:
        return
    current = Flavor.objects.select_related("changed_by").filter(pk=flavor.pk).first()
    if current is None:
        raise UnableToChangeFlavor({WHOLE: [_("It was deleted meanwhile.")]}, conflict=True)
    raise UnableToChangeFlavor(
        {
            WHOLE: [
                _(
                    "%(who)s changed it meanwhile. Nothing was saved; what you typed is still here. Compare "
                    "it with what holds now, and save again."
                )
                % {"who": current.changed_by or _("Somebody")}
            ]
        },
        conflict=True,
    )


def _refuse_taken(terms: Terms, *, other: Flavor | None) -> None:
    rows = Flavor.objects.exclude(pk=other.pk) if other else Flavor.objects.all()
    for name in ("slug", "name"):
        if rows.filter(**{name: getattr(terms, name)}).exists():
            raise _taken(name)


def _taken(name: str) -> UnableToChangeFlavor:
    return UnableToChangeFlavor({name: [_("Another flavor (perhaps an archived one) has it already.")]})


def _set_audience(flavor: Flavor, terms: Terms) -> None:
    flavor.projects.set(Project.objects.filter(slug__in=terms.projects))
    flavor.groups.set(Group.objects.filter(name__in=terms.groups))


def _columns(terms: Terms) -> dict[str, Any]:
    columns = terms.as_dict()
    for name in ("projects", "groups"):
        del columns[name]
    for bound in ("min", "default", "max"):
        columns[f"{bound}_duration"] = columns.pop(f"{bound}_hours") * HOUR
    return columns
