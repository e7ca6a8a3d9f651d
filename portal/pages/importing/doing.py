"""What an import does: each line through the same functions as the pages, all of it in one transaction.

A dry run does everything and takes it back, so that it tells exactly what would happen; so does a run with a
fault in any line. Doing the same import again changes nothing.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import transaction
from django.utils import timezone
from django.utils.dateparse import parse_date, parse_datetime
from django.utils.translation import gettext as _

from inventory.bindings import NAMESPACE, UnableToBind, bind, end
from inventory.models import Cluster, NamespaceBinding
from portal.accounts import memberships
from portal.accounts.invitations import UnableToInvite, invite, open_invitations
from portal.accounts.models import Membership, Project, User
from portal.accounts.projects import UnableToChangeProject, change_project, create_project
from portal.pages.importing.reading import SHAPES, Fault, read

INVITED_FOR = timedelta(days=30)
EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2999, 12, 31, tzinfo=UTC)


@dataclass(frozen=True)
class Change:
    """What a line (`cells`) does: `kind` is new, changed or same; `text` says it for people."""

    table: str
    line: int
    kind: str
    text: str
    cells: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Invited:
    """Somebody without an account got an invitation; its secret is nowhere else."""

    email: str
    project: str
    secret: str


@dataclass
class Outcome:
    """`applied` says whether it was done; with any fault it never is."""

    changes: list[Change] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    invited: list[Invited] = field(default_factory=list)
    applied: bool = False
    # The plan was another one than `seen`: it was shown again instead of being done.
    differs: bool = False

    @property
    def plan(self) -> str:
        """Names what would be done: two runs with the same plan do the same, in every cell."""
        said = json.dumps([asdict(change) for change in self.changes], sort_keys=True)
        # A page sends lines within a cell as browsers end them.
        said = said.replace("\\r\\n", "\\n")
        return hashlib.sha256(said.encode()).hexdigest()

    @property
    def counts(self) -> dict[str, int]:
        """How many lines are new, changed and same."""
        kinds = [change.kind for change in self.changes]
        return {kind: kinds.count(kind) for kind in ("new", "changed", "same")}


@dataclass(frozen=True)
class By:
    """Who imports, when, from where."""

    actor: User
    now: datetime
    source_ip: str | None = None


class _Wrong(Exception):
    """A line that cannot be done; `column` names the cell."""

    def __init__(self, column: str, message: str) -> None:
        super().__init__(message)
        self.column, self.message = column, message


def run(
    *,
    tables: Mapping[str, str],
    actor: User,
    now: datetime,
    apply: bool = False,
    seen: str | None = None,
    source_ip: str | None = None,
) -> Outcome:
    """Imports CSV texts by the name of their table (projects, members, namespaces); absent or "" = none.

    Without `apply` nothing is changed. `seen` is the plan that somebody agreed to: when the world has moved
    on since, nothing is changed either, and the outcome `differs`.
    """
    outcome, by = Outcome(), By(actor, now, source_ip)
    with transaction.atomic():
        for shape in SHAPES:
            rows, faults = read(tables.get(shape.name, ""), shape)
            outcome.faults += faults
            line = LINES[shape.name]
            for row in rows:
                try:
                    with transaction.atomic():
                        kind, text = line(row.cells, by, outcome)
                except _Wrong as wrong:
                    outcome.faults.append(Fault(shape.name, row.line, wrong.column, wrong.message))
                else:
                    outcome.changes.append(Change(shape.name, row.line, kind, text, row.cells))
        outcome.differs = seen is not None and seen != outcome.plan
        outcome.applied = apply and not outcome.faults and not outcome.differs
        if not outcome.applied:
            outcome.invited = []
            transaction.set_rollback(True)
    return outcome


# --- one line of each table ------------------------------------------------------------------------


def _project(cells: Mapping[str, str], by: By, outcome: Outcome) -> tuple[str, str]:  # noqa: ARG001 - one signature
    slug = cells["project"]
    limits = {"name": 120, "cost_centre": 40, "description": 1000}
    for column, most in limits.items():
        if len(cells.get(column, "")) > most:
            raise _Wrong(column, _("This is longer than %(n)s characters.") % {"n": most})
    there = Project.objects.filter(slug=slug).first()
    try:
        if there is None:
            _valid_slug(slug)
            create_project(
                slug=slug,
                name=cells["name"],
                description=cells.get("description", ""),
                cost_centre=cells.get("cost_centre", ""),
                actor=by.actor,
                now=by.now,
                source_ip=by.source_ip,
            )
            return "new", _("project %(name)s") % {"name": cells["name"]}
        wanted = {column: cells.get(column, getattr(there, column)) for column in limits}
        different = [column for column, value in wanted.items() if value != getattr(there, column)]
        if not different:
            return "same", _("project %(name)s") % {"name": there.name}
        change_project(project=there, **wanted, actor=by.actor, now=by.now, source_ip=by.source_ip)
    except UnableToChangeProject as unable:
        column = "project" if unable.field == "slug" else unable.field
        raise _Wrong(column, unable.message) from unable
    return "changed", _("project %(name)s: %(columns)s") % {
        "name": wanted["name"],
        "columns": ", ".join(different),
    }


def _member(cells: Mapping[str, str], by: By, outcome: Outcome) -> tuple[str, str]:
    project, role = _project_of(cells), cells["role"].lower()
    if role not in Membership.Role.values:
        raise _Wrong("role", _("A role is member or lead."))
    user = memberships.find_person(cells["person"])
    if user is None:
        return _invite(project, cells["person"], role, by, outcome)
    names = {"person": user, "project": project.name, "role": Membership.Role(role).label}
    there = Membership.objects.filter(project=project, user=user).select_related("user", "project").first()
    try:
        if there is None:
            memberships.take_in(
                project=project,
                user=user,
                role=role,
                actor=by.actor,
                now=by.now,
                source_ip=by.source_ip,
            )
            return "new", _("%(person)s in %(project)s as %(role)s") % names
        if there.role == role:
            return "same", _("%(person)s in %(project)s as %(role)s") % names
        names["before"] = there.get_role_display()
        memberships.change_role(
            membership=there, role=role, actor=by.actor, now=by.now, source_ip=by.source_ip
        )
    except UnableToChangeProject as unable:
        column = {"username": "person"}.get(unable.field, "role")
        raise _Wrong(column, unable.message) from unable
    return "changed", _("%(person)s in %(project)s: %(before)s → %(role)s") % names


def _invite(project: Project, email: str, role: str, by: By, outcome: Outcome) -> tuple[str, str]:
    """Somebody who is not here yet, by e-mail address: a link takes them in."""
    try:
        validate_email(email)
    except ValidationError:
        raise _Wrong(
            "person",
            _("Nobody here has this name. Who has no account yet is named by e-mail address and invited."),
        ) from None
    names = {"email": email, "project": project.name, "role": Membership.Role(role).label}
    open_ones = open_invitations(project, now=by.now).filter(email__iexact=email, role=role)
    if open_ones.exists():
        return "same", _("%(email)s is invited to %(project)s as %(role)s") % names
    try:
        _invitation, secret = invite(
            project=project,
            role=role,
            email=email,
            lifetime=INVITED_FOR,
            actor=by.actor,
            now=by.now,
            source_ip=by.source_ip,
        )
    except UnableToInvite as unable:
        raise _Wrong("person", unable.message) from unable
    outcome.invited.append(Invited(email, project.name, secret))
    return "new", _("invitation of %(email)s to %(project)s as %(role)s") % names


def _namespace(cells: Mapping[str, str], by: By, outcome: Outcome) -> tuple[str, str]:  # noqa: ARG001 - one signature
    project, namespace = _project_of(cells), cells["namespace"]
    cluster = Cluster.objects.filter(name=cells["cluster"]).first()
    if cluster is None:
        raise _Wrong("cluster", _("There is no cluster of this name."))
    if not NAMESPACE.fullmatch(namespace):
        raise _Wrong("namespace", _("A namespace has up to 63 lower-case letters, digits and hyphens."))
    start, until = _moment(cells, "from"), _moment(cells, "until")
    names = {"namespace": f"{cluster.name}/{namespace}", "project": project.name}
    there = _same_binding(project, cluster, namespace, start=start, now=by.now)
    try:
        if there is None:
            bind(
                cluster=cluster,
                namespace=namespace,
                project=project,
                now=by.now,
                valid_from=start,
                valid_until=until,
                actor=by.actor,
                source_ip=by.source_ip,
            )
            return "new", _("%(namespace)s is bound to %(project)s") % names
        if there.valid_until == until or (until is None and "until" not in cells):
            return "same", _("%(namespace)s is bound to %(project)s") % names
        if until is None:
            raise _Wrong("until", _("The binding has an end, which cannot be taken away: bind it anew then."))
        end(binding=there, valid_until=until, now=by.now, actor=by.actor, source_ip=by.source_ip)
    except UnableToBind as unable:
        column = {"valid_until": "until"}.get(unable.field, "namespace")
        raise _Wrong(column, unable.message) from unable
    return "changed", _("%(namespace)s: its binding to %(project)s has another end") % names


def _same_binding(
    project: Project, cluster: Cluster, namespace: str, *, start: datetime | None, now: datetime
) -> NamespaceBinding | None:
    """The binding that a line means: the one of that start or, without one, the one that holds."""
    found = NamespaceBinding.objects.filter(project=project, cluster=cluster, namespace=namespace)
    if start is not None:
        return found.filter(valid_from=start).first()
    lasting = found.filter(valid_from__lte=now)
    return lasting.filter(valid_until=None).first() or lasting.filter(valid_until__gt=now).first()


LINES: dict[str, Callable[[Mapping[str, str], By, Outcome], tuple[str, str]]] = {
    "projects": _project,
    "members": _member,
    "namespaces": _namespace,
}


# --- cells -----------------------------------------------------------------------------------------


def _project_of(cells: Mapping[str, str]) -> Project:
    project = Project.objects.filter(slug=cells["project"]).first()
    if project is None:
        raise _Wrong("project", _("There is no project of this short name, neither here nor in this import."))
    return project


def _valid_slug(slug: str) -> None:
    field_ = Project._meta.get_field("slug")
    try:
        field_.run_validators(slug)
    except ValidationError as error:
        raise _Wrong("project", " ".join(error.messages)) from error


def _moment(cells: Mapping[str, str], column: str) -> datetime | None:
    """A day (its beginning) or a time; in the reader's time zone unless it names one."""
    text = cells.get(column, "")
    if not text:
        return None
    try:
        day = parse_date(text)
        found = datetime(day.year, day.month, day.day) if day else parse_datetime(text)  # noqa: DTZ001 - made aware below
    except ValueError:
        found = None
    if found is None:
        raise _Wrong(column, _("Write a day as 2026-03-31, or a time as 2026-03-31T12:00."))
    aware = timezone.make_aware(found) if found.tzinfo is None else found
    if not EARLIEST <= aware <= LATEST:
        raise _Wrong(column, _("Choose a time between the years 2000 and 2999."))
    return aware
