"""Changes of requests as pages tell them: what became of each, and what the reader may do about it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from claims.changes.decisions import matter_of
from claims.models import ChangeDecision, Decision, Flavor, Request, RequestChange
from claims.requests.approvals import open_roles
from portal import access
from portal.accounts.models import Membership, User
from portal.templatetags.ui import human_duration

State = RequestChange.State
Origin = RequestChange.Origin


@dataclass(frozen=True, kw_only=True)
class Line:
    """One thing that changes: its name, as it was, and as it shall be."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, kw_only=True)
class Told:
    """A change with what `user` may do about it."""

    change: RequestChange
    lines: Sequence[Line]
    # An approver's condition, beside what was asked for.
    offered: Sequence[Line]
    decisions: Sequence[ChangeDecision]
    missing: Sequence[str]
    may_decide: bool
    may_answer: bool
    may_withdraw: bool

    @property
    def of_approver(self) -> bool:
        return self.change.origin == Origin.APPROVER

    @property
    def missing_words(self) -> str:
        return _(" and ").join(str(Decision.Role(role).label) for role in self.missing)


def changes_of(request: Request, user: User) -> list[Told]:
    """The changes of one request, the latest first. Three queries at most."""
    rows = RequestChange.objects.filter(request=request)
    return told(related(rows).order_by("-created_at", "-pk"), user)


def decidable_changes(user: User) -> QuerySet[RequestChange]:
    """Changes that wait for a decision in projects that `user` leads; all for administrators and auditors."""
    rows = RequestChange.objects.filter(state=State.WAITING)
    if access.may_read_everything(user):
        return rows
    led = Membership.objects.filter(user=user, role=Membership.Role.LEAD).values("project")
    for_lead = Q(approval__in=[Flavor.Approval.LEAD, Flavor.Approval.BOTH])
    return rows.filter(for_lead, request__project__in=led)


def related(rows: QuerySet[RequestChange]) -> QuerySet[RequestChange]:
    """With everything that is told of them."""
    return (
        rows.select_related(
            "person",
            "offered_by",
            "successor",
            "request__project",
            "request__cluster",
            "request__requester",
            "request__flavor",
        )
        .defer("request__cluster__kubeconfig_encrypted", "request__spec", "successor__spec", "spec")
        .prefetch_related("decisions__person")
    )


def told(changes: Iterable[RequestChange], user: User) -> list[Told]:
    """The same changes with what `user` may do; one query beside theirs."""
    roles = dict(Membership.objects.filter(user=user).values_list("project_id", "role"))
    return [_told(change, user, roles) for change in changes]


def asker_of(change: RequestChange) -> int:
    """Who answers a condition: the one who asked."""
    return change.request.requester_id if change.origin == Origin.APPROVER else change.person_id


def may_answer(user: User, change: RequestChange) -> bool:
    """Whether the person may accept a condition."""
    return change.state == State.OFFERED and asker_of(change) == user.pk and not user.is_auditor


def _told(change: RequestChange, user: User, roles: Mapping[int, str]) -> Told:
    decisions = list(change.decisions.all())
    matter = matter_of(change)
    missing = open_roles(matter, decisions)
    opened = change.state in (State.WAITING, State.OFFERED)
    asked = change.origin == Origin.MEMBER
    role = roles.get(change.request.project_id)
    return Told(
        change=change,
        lines=_lines(change.current, change.wanted),
        offered=_lines(change.wanted, change.offered) if change.origin == Origin.MEMBER else [],
        decisions=decisions,
        missing=missing,
        may_decide=asked and change.state == State.WAITING and _may_decide(user, change, decisions, role),
        may_answer=may_answer(user, change),
        may_withdraw=opened and asked and _may_work(user, change, role),
    )


def _may_decide(
    user: User, change: RequestChange, decisions: Sequence[ChangeDecision], role: str | None
) -> bool:
    """`claims.requests.approvals.role_of` as a question, without a query per change."""
    if user.is_auditor or (change.person_id == user.pk and not change.own_approval):
        return False
    if any(decision.person_id == user.pk for decision in decisions):
        return False
    missing = open_roles(matter_of(change), decisions)
    if access.may_administer(user):
        return bool(missing)
    return Decision.Role.LEAD in missing and role == Membership.Role.LEAD


def _may_work(user: User, change: RequestChange, role: str | None) -> bool:
    """`portal.access.may_work_in` without a query per change."""
    if user.is_auditor or change.request.project.archived_at is not None:
        return False
    return access.may_administer(user) or role is not None


def _lines(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Line]:
    names = {
        "count": _("How many"),
        "min_memory": _("Memory of each, at least"),
        "duration_hours": _("For how long"),
        "purpose": _("Purpose"),
    }
    return [
        Line(name=names[key], before=_shown(key, before.get(key)), after=_shown(key, value))
        for key, value in after.items()
        if key in names and value != before.get(key)
    ]


def _shown(key: str, value: Any) -> str:
    if key == "duration_hours" and isinstance(value, int):
        return human_duration(timedelta(hours=value))
    return str(value) if value not in (None, "") else _("any")
