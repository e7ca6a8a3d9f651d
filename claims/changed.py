"""Changes of requests as pages tell them: what became of each, and what the reader may do about it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from claims.approvals import open_roles, role_of
from claims.change_decisions import matter_of
from claims.models import ChangeDecision, Decision, Flavor, Request, RequestChange
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
    """The same changes with what `user` may do."""
    return [_told(change, user) for change in changes]


def asker_of(change: RequestChange) -> int:
    """Who answers a condition: the one who asked."""
    return change.request.requester_id if change.origin == Origin.APPROVER else change.person_id


def may_answer(user: User, change: RequestChange) -> bool:
    """Whether the person may accept a condition."""
    return change.state == State.OFFERED and asker_of(change) == user.pk and not user.is_auditor


def _told(change: RequestChange, user: User) -> Told:
    decisions = list(change.decisions.all())
    matter = matter_of(change)
    may = change.state == State.WAITING and change.origin == Origin.MEMBER
    if may:
        try:
            role_of(user, matter, decisions)
        except PermissionDenied:
            may = False
    opened = change.state in (State.WAITING, State.OFFERED)
    works = access.may_work_in(user, change.request.project) if opened else False
    return Told(
        change=change,
        lines=_lines(change.current, change.wanted),
        offered=_lines(change.wanted, change.offered) if change.origin == Origin.MEMBER else [],
        decisions=decisions,
        missing=open_roles(matter, decisions),
        may_decide=may,
        may_answer=may_answer(user, change),
        may_withdraw=opened and works and change.origin == Origin.MEMBER,
    )


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
