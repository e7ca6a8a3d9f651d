"""Approvals: who may decide about a request, deciding, and the queue of what waits for a decision.

A decision is written once, in the transaction that moves the request on, with the request's row locked: of
two who decide at the same moment, one is told that it was decided. Where a lead and an administrator have to
agree, they are two persons.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from claims.asks.reading import WrongValue, read_text
from claims.asks.values import UnableToSubmit
from claims.bookings.conflicts import keep_clear
from claims.catalogue.places import Place, places_of
from claims.catalogue.stock import FleetOf
from claims.models import ChangeDecision, Decision, Flavor, Placement, Request
from claims.models.requests import RequestQuerySet
from claims.money.expected import Cost, together
from claims.money.pricing import PriceList
from claims.quotas.guard import OverQuota, approve, lock, verdicts
from claims.quotas.guard import Verdict as QuotaVerdict
from claims.requests.amounts import costs_of_all
from claims.requests.making import patience
from claims.requests.transitions import record, transition
from inventory.snapshot import fleet
from portal import access
from portal.accounts.models import Membership, Project, User

State = Request.State
Role = Decision.Role
Verdict = Decision.Verdict

MAX_COMMENT = 1_000
Decided = Decision | ChangeDecision

_ROLES: Mapping[str, Sequence[str]] = {
    Flavor.Approval.NONE: (),
    Flavor.Approval.LEAD: (Role.LEAD,),
    Flavor.Approval.ADMINISTRATOR: (Role.ADMINISTRATOR,),
    Flavor.Approval.BOTH: (Role.LEAD, Role.ADMINISTRATOR),
}
# Who waits for a device, wherever on the way.
_WAITING = (State.WAITING_FOR_APPROVAL, State.WAITING_FOR_DEVICE)


@dataclass(frozen=True, kw_only=True)
class Matter:
    """What decides who may decide, of a request or of a change of one."""

    approval: str
    requester_id: int
    own_approval: bool
    project: Project


class UnableToDecide(Exception):
    """Nothing was decided; `field` is "comment", "over_quota", or "" for the whole."""

    def __init__(self, message: str, field: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.field = field


def open_roles(request: Request | Matter, decisions: Collection[Decided]) -> list[str]:
    """Whose agreement is still missing."""
    given = {decision.role for decision in decisions}
    return [role for role in _ROLES[request.approval] if role not in given]


def role_of(user: User, request: Request | Matter, decisions: Collection[Decided]) -> str:
    """As what the person may decide now. Raises PermissionDenied with the reason.

    An administrator may stand in for a lead, but not for both."""
    missing = open_roles(request, decisions)
    if request.requester_id == user.pk and not request.own_approval:
        raise PermissionDenied(_("Somebody else decides about a request of your own."))
    if any(decision.person_id == user.pk for decision in decisions):
        raise PermissionDenied(_("You have decided already; the other decision is somebody else's."))
    if Role.ADMINISTRATOR in missing and access.may_administer(user):
        return Role.ADMINISTRATOR
    if Role.LEAD in missing and access.may_lead(user, request.project):
        return Role.LEAD
    raise PermissionDenied(_("Only %(who)s may decide about it.") % {"who": _who(missing)})


def may_decide(user: User, request: Request, decisions: Collection[Decision]) -> bool:
    """The same as a question, for pages."""
    if request.state != State.WAITING_FOR_APPROVAL:
        return False
    try:
        role_of(user, request, decisions)
    except PermissionDenied:
        return False
    return True


def decide(
    *,
    request: Request,
    user: User,
    verdict: str,
    comment: object,
    now: datetime,
    over_quota: bool = False,
    source_ip: str | None = None,
) -> None:
    """Approve or reject. With the last agreement that was missing the request goes on to the cluster; one
    rejection ends it. `over_quota`: an administrator approves knowing that it is over a quota. Raises
    UnableToDecide, and PermissionDenied for who may not."""
    if access.only_looks():
        raise UnableToDecide(access.why_only_looks())
    text = read_comment(comment, verdict)
    with transaction.atomic():
        # Before the request, as everybody does who settles something about the project's quotas.
        lock(request.project)
        request.refresh_from_db(from_queryset=Request.objects.select_for_update())
        decisions = list(request.decisions.all())
        if request.state != State.WAITING_FOR_APPROVAL:
            raise UnableToDecide(
                _("It no longer waits for a decision: it is “%(state)s”.")
                % {"state": State(request.state).label}
            )
        role = role_of(user, request, decisions)
        if verdict == Verdict.APPROVED and request.project.archived_at is not None:
            raise UnableToDecide(_("This project is archived."))
        if verdict == Verdict.APPROVED and not (
            role == Role.LEAD and Role.ADMINISTRATOR in _ROLES[request.approval]
        ):
            # Where an administrator has to agree too, it is theirs to go over a quota.
            _within_quota(request, user=user, knowingly=over_quota, now=now, ip=source_ip)
        try:
            with transaction.atomic():
                made = Decision.objects.create(
                    request=request, role=role, verdict=verdict, person=user, comment=text, at=now
                )
        except IntegrityError:
            raise UnableToDecide(_("Somebody decided at the same moment.")) from None
        if verdict == Verdict.REJECTED:
            transition(
                request,
                to=State.REJECTED,
                expected=State.WAITING_FOR_APPROVAL,
                now=now,
                actor=user,
                action="request.reject",
                message=text,
                ip=source_ip,
                ended_at=now,
            )
        else:
            agree(request, made, [*decisions, made], actor=user, now=now, source_ip=source_ip)


def agree(
    request: Request,
    made: Decision,
    decisions: Collection[Decision],
    *,
    actor: User,
    now: datetime,
    source_ip: str | None = None,
) -> None:
    """`made` was just added to the decisions about a request: with the last one that was missing it goes on
    to the cluster. Inside the caller's transaction, with the request locked. Raises UnableToDecide."""
    if open_roles(request, decisions):
        after = {"approved_as": made.role, **({"message": made.comment} if made.comment else {})}
        record(request, "request.approve", actor=actor, now=now, after=after, ip=source_ip)
        return
    try:
        keep_clear(request=request, now=now)
    except UnableToSubmit as error:
        # Booked while it waited.
        raise UnableToDecide(" ".join(text for said in error.errors.values() for text in said)) from error
    transition(
        request,
        to=State.APPROVED,
        expected=State.WAITING_FOR_APPROVAL,
        now=now,
        actor=actor,
        action="request.approve",
        ip=source_ip,
        # The wait for a device begins now.
        expires_at=now + patience(request.duration),
        due_at=now,
        attempts=0,
    )


def _within_quota(request: Request, *, user: User, knowingly: bool, now: datetime, ip: str | None) -> None:
    try:
        over = approve(request, user=user, knowingly=knowingly, now=now)
    except OverQuota as refused:
        raise UnableToDecide(refused.message, "over_quota" if refused.knowingly else "") from refused
    if over:
        words = " ".join(one.words for one in over)
        record(request, "request.beyond-quota", actor=user, now=now, after={"message": words}, ip=ip)


def read_comment(comment: object, verdict: str) -> str:
    """What is said with a decision; a rejection needs it. Raises UnableToDecide."""
    try:
        text = read_text({"comment": comment}, "comment", limit=MAX_COMMENT)
    except WrongValue as error:
        raise UnableToDecide(str(error), "comment") from None
    if verdict == Verdict.REJECTED and not text:
        raise UnableToDecide(_("Say why, so that the person knows what to change."), "comment")
    return text


def _who(roles: Sequence[str]) -> str:
    words = {Role.LEAD: _("a lead of the project"), Role.ADMINISTRATOR: _("an administrator")}
    return _(" or ").join(words[Role(role)] for role in roles) or _("nobody")


# --- the queue --------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A request that waits for a decision, and what a decision would mean."""

    request: Request
    decisions: Sequence[Decision]
    missing: Sequence[str]
    may_decide: bool
    # Where the flavor would be served; None = described by the person.
    place: Place | None
    # Other requests for the same thing there that wait for a device or a decision.
    others: int
    # What each part of it would cost if it were held for the whole time, whichever device it will be.
    costs: Sequence[Cost]
    # What it means for the quotas that it counts for.
    quotas: Sequence[QuotaVerdict] = ()

    @property
    def expected(self) -> Cost:
        """All parts together."""
        return together(self.costs)

    @property
    def cost(self) -> Fraction | None:
        """The most that it can come to; None = something of it has no price."""
        amount = self.expected.amount
        return None if amount is None or self.expected.unpriced else amount.high

    @property
    def currency(self) -> str:
        return self.expected.currency

    @property
    def over_quota(self) -> bool:
        """Whether only an administrator may approve it, knowingly."""
        return any(one.refuses for one in self.quotas)

    @property
    def fits(self) -> bool | None:
        """Whether so many are free now; None = not known."""
        if self.place is None or self.place.free is None:
            return None
        return self.place.free >= self.request.count

    @property
    def missing_words(self) -> str:
        return _(" and ").join(str(Role(role).label) for role in self.missing)


def decidable(user: User) -> RequestQuerySet:
    """Requests that wait for a decision in projects that `user` leads; all for administrators and
    auditors."""
    rows = Request.objects.filter(state=State.WAITING_FOR_APPROVAL)
    if access.may_read_everything(user):
        return rows
    led = Membership.objects.filter(user=user, role=Membership.Role.LEAD).values("project")
    waits_for_lead = Q(approval__in=[Flavor.Approval.LEAD, Flavor.Approval.BOTH])
    return rows.filter(waits_for_lead, project__in=led)


def queue(
    rows: Sequence[Request], *, user: User, prices: PriceList, now: datetime, fleet_of: FleetOf = fleet
) -> list[Waiting]:
    """These waiting requests (with project, cluster and flavor) with the effect of a decision; a fixed number
    of queries."""
    decisions: dict[int, list[Decision]] = {request.pk: [] for request in rows}
    for decision in Decision.objects.filter(request__in=rows).select_related("person").order_by("at"):
        decisions[decision.request_id].append(decision)
    flavors = {request.flavor_id for request in rows if request.flavor_id}
    placements = Placement.objects.filter(flavor__in=flavors).select_related("flavor", "cluster")
    places = places_of(list(placements), now=now, fleet_of=fleet_of)
    by_target: dict[tuple[int | None, int, str], Place] = {
        (place.placement.flavor_id, place.placement.cluster_id, place.placement.pool): place
        for place in places.values()
    }
    others = Request.objects.filter(state__in=_WAITING, cluster__in={request.cluster_id for request in rows})
    targets = [_target(*row) for row in others.values_list("flavor", "cluster", "pool", "device_class")]
    led = _led_by(user)
    served = [by_target.get((request.flavor_id, request.cluster_id, request.pool)) for request in rows]
    costs = costs_of_all(
        [
            (request, place.stock.candidates if place else ())
            for request, place in zip(rows, served, strict=True)
        ],
        prices,
        now=now,
    )
    quotas = verdicts(rows, now=now)
    told = []
    for number, request in enumerate(rows):
        target = _target(request.flavor_id, request.cluster_id, request.pool, request.device_class)
        place = served[number]
        told.append(
            Waiting(
                request=request,
                decisions=decisions[request.pk],
                missing=open_roles(request, decisions[request.pk]),
                may_decide=_may(user, request, decisions[request.pk], led),
                place=place,
                others=max(0, targets.count(target) - 1),
                costs=costs[number],
                quotas=quotas[number],
            )
        )
    return told


def _led_by(user: User) -> set[int]:
    rows = Membership.objects.filter(user=user, role=Membership.Role.LEAD)
    return set(rows.values_list("project_id", flat=True))


def _may(user: User, request: Request, decisions: Collection[Decision], led: Collection[int]) -> bool:
    """`may_decide` without a query per request."""
    if user.is_auditor or (request.requester_id == user.pk and not request.own_approval):
        return False
    if any(decision.person_id == user.pk for decision in decisions):
        return False
    missing = open_roles(request, decisions)
    if access.may_administer(user):
        return bool(missing)
    return Role.LEAD in missing and request.project_id in led


def _target(
    flavor: int | None, cluster: int, pool: str, device_class: str
) -> tuple[int | None, int, str, str]:
    return (flavor, cluster, pool, "" if flavor else device_class)
