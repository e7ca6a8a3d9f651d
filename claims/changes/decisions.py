"""Deciding about changes of requests, and approving on a condition: less time or fewer devices than were
asked for, which the requester accepts or withdraws from.

The same rules as for requests (`claims.requests.approvals`): who may decide, two persons where two have to
agree, one decision per role. A condition counts as its approver's agreement as soon as it is accepted.
"""

from collections.abc import Mapping
from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from claims.asks.reading import WHOLE
from claims.asks.values import UnableToSubmit
from claims.changes.applying import apply, move
from claims.changes.changing import Origin, Release, State, not_now
from claims.changes.limits import try_out
from claims.changes.news import tell_approvers, tell_requester
from claims.changes.wanted import HOUR, UnableToChangeRequest, Wanted, as_typed, read_wanted
from claims.models import ChangeDecision, Decision, Request, RequestChange
from claims.quotas import guard as quotas_guard
from claims.requests.actions import cancel
from claims.requests.approvals import (
    Matter,
    UnableToDecide,
    Verdict,
    agree,
    open_roles,
    read_comment,
    role_of,
)
from claims.requests.making import patience, request_of
from claims.requests.rehearsal import Connect, rehearse
from claims.requests.transitions import record
from inventory.clusters import client_for
from portal import access
from portal.accounts.models import User

# What a condition may set.
CONDITIONS = ("count", "duration_hours")


def decide(
    *,
    change: RequestChange,
    user: User,
    verdict: str,
    comment: object,
    now: datetime,
    condition: Mapping[str, object] | None = None,
    source_ip: str | None = None,
) -> None:
    """Approve, reject, or approve on a `condition` (count, duration with duration_unit). With the last
    agreement that was missing it is done. Raises UnableToDecide, and PermissionDenied for who may not."""
    if access.only_looks():
        raise UnableToDecide(access.why_only_looks())
    text = read_comment(comment, verdict)
    with transaction.atomic():
        # Before any of the project's requests, as everybody does who settles something about its quotas.
        quotas_guard.lock(change.request.project)
        _lock(change)
        request = change.request
        if change.state != State.WAITING or change.origin != Origin.MEMBER:
            raise UnableToDecide(not_now(change))
        decisions = list(change.decisions.all())
        role = role_of(user, matter_of(change), decisions)
        if verdict == Verdict.APPROVED and request.project.archived_at is not None:
            raise UnableToDecide(_("This project is archived."))
        if verdict == Verdict.APPROVED and condition:
            found = _condition(
                request, change.wanted, condition, person=change.person, release=change.release, now=now
            )
            offered = found.wanted
            offer = {**change.wanted, **offered}
            move(
                change, (State.WAITING,), State.OFFERED, now=now,
                offered=offer, offered_as=role, offered_by=user, comment=text,
            )  # fmt: skip
            after = {**offered, **({"message": text} if text else {})}
            record(request, "request.change-offer", actor=user, now=now, after=after, ip=source_ip)
            change.comment = text
            tell_requester(change, actor=user, now=now)
            return
        _decided(change, role, verdict, person=user, comment=text, now=now)
        after = {"message": text} if text else {}
        if verdict == Verdict.REJECTED:
            move(change, (State.WAITING,), State.REJECTED, now=now, message=text, ended_at=now)
            record(request, "request.change-reject", actor=user, now=now, after=after, ip=source_ip)
            tell_requester(change, actor=user, now=now)
            return
        record(
            request,
            "request.change-approve",
            actor=user,
            now=now,
            after={"approved_as": role, **after},
            ip=source_ip,
        )
        if not open_roles(matter_of(change), list(change.decisions.all())):
            apply(change, actor=user, now=now)


def offer(
    *,
    request: Request,
    user: User,
    condition: Mapping[str, object],
    comment: object,
    now: datetime,
    source_ip: str | None = None,
) -> RequestChange:
    """Approve a request that waits for approval, on a condition. Raises UnableToDecide, and PermissionDenied
    for who may not."""
    if access.only_looks():
        raise UnableToDecide(access.why_only_looks())
    text = read_comment(comment, Verdict.APPROVED)
    with transaction.atomic():
        request.refresh_from_db(from_queryset=Request.objects.select_for_update())
        if request.state != Request.State.WAITING_FOR_APPROVAL:
            raise UnableToDecide(
                _("It no longer waits for a decision: it is “%(state)s”.")
                % {"state": Request.State(request.state).label}
            )
        role = role_of(user, request, list(request.decisions.all()))
        found = _condition(
            request, {}, condition, person=request.requester, release=Release.WHEN_SERVED, now=now
        )
        change = RequestChange(
            request=request,
            origin=Origin.APPROVER,
            current=dict(found.current),
            wanted=dict(found.wanted),
            offered=dict(found.wanted),
            offered_as=role,
            offered_by=user,
            person=user,
            comment=text,
            reason=text,
            state=State.OFFERED,
            created_at=now,
            changed_at=now,
        )
        try:
            with transaction.atomic():
                change.save(force_insert=True)
        except IntegrityError:
            raise UnableToDecide(_("A condition was set already; it waits for the requester.")) from None
        after = {**change.wanted, **({"message": text} if text else {})}
        record(
            request, "request.offer", actor=user, now=now, before=change.current, after=after, ip=source_ip
        )
        tell_requester(change, actor=user, now=now)
    return change


def accept(
    *,
    change: RequestChange,
    user: User,
    now: datetime,
    source_ip: str | None = None,
    connect: Connect = client_for,
) -> None:
    """Take what was offered: the approver's agreement counts, and it goes on. The cluster judges again what
    is to be created. Raises UnableToChangeRequest; talks to the cluster: not inside a transaction."""
    if access.only_looks():
        raise UnableToChangeRequest({WHOLE: [access.why_only_looks()]})
    if change.state != State.OFFERED:
        raise UnableToChangeRequest({WHOLE: [not_now(change)]})
    request, errors = change.request, dict[str, list[str]]()
    person = request.requester if change.origin == Origin.APPROVER else change.person
    found = read_wanted(
        request, as_typed(change.offered), user=person, now=now, release=change.release, errors=errors
    )
    if found is None:
        raise UnableToChangeRequest(errors)
    amended = None
    if change.origin == Origin.APPROVER:
        amended = request_of(found.ask, key=request.key, now=now)
        try:
            rehearse(amended, connect=connect)
        except UnableToSubmit as error:
            raise UnableToChangeRequest(
                {WHOLE: [text for s in error.errors.values() for text in s]}
            ) from error
    else:
        try_out(change, found, now=now, connect=connect)
    with transaction.atomic():
        quotas_guard.lock(request.project)
        _lock(change)
        wanted = dict(change.offered)
        if not move(change, (State.OFFERED,), State.WAITING, now=now, wanted=wanted, replaces=found.replaces):
            raise UnableToChangeRequest({WHOLE: [not_now(change)]})
        change.replaces = found.replaces
        record(change.request, "request.change-accept", actor=user, now=now, after=wanted, ip=source_ip)
        if amended is None:
            _agreed_to_change(change, user=user, now=now)
        else:
            _agreed_to_request(change, amended, user=user, now=now, source_ip=source_ip)


def decline(*, change: RequestChange, user: User, now: datetime, source_ip: str | None = None) -> None:
    """Withdraw from what was offered; of a request that waited for approval, the request itself."""
    if change.origin == Origin.APPROVER:
        cancel(request=change.request, user=user, now=now, source_ip=source_ip)
        change.refresh_from_db()


def matter_of(change: RequestChange) -> Matter:
    """What decides who may decide."""
    return Matter(
        approval=change.approval,
        requester_id=change.person_id,
        own_approval=change.own_approval,
        project=change.request.project,
    )


# --- inside ---------------------------------------------------------------------------------------


def _condition(
    request: Request,
    wanted: Mapping[str, object],
    condition: Mapping[str, object],
    *,
    person: User,
    release: str,
    now: datetime,
) -> Wanted:
    """What the condition comes to: less of what was asked for, by the rules of the form."""
    errors: dict[str, list[str]] = {}
    typed = {name: condition[name] for name in ("count", "duration", "duration_unit") if condition.get(name)}
    if "count" not in typed and "duration" not in typed:
        raise UnableToDecide(_("Say what you would agree to: fewer devices, or less time."), "count")
    typed = {**as_typed(wanted), **typed}
    found = read_wanted(request, typed, user=person, now=now, release=release, errors=errors)
    if found is None:
        if WHOLE in errors and not wanted:
            raise UnableToDecide(_("That is what was asked for; approve it as it is."), "count")
        name, said = next(iter(errors.items()))
        raise UnableToDecide(" ".join(said), name if name in ("count", "duration") else "count")
    asked = {
        "count": wanted.get("count", request.count),
        "duration_hours": wanted.get("duration_hours", request.duration // HOUR),
    }
    set_to = {"count": found.ask.count, "duration_hours": found.ask.duration // HOUR}
    if any(set_to[name] > asked[name] for name in CONDITIONS):  # type: ignore[operator]  # whole numbers, kept as JSON
        raise UnableToDecide(_("A condition gives less than was asked for, not more."), "count")
    if set_to == asked:
        raise UnableToDecide(_("That is what was asked for; approve it as it is."), "count")
    return found


def _agreed_to_change(change: RequestChange, *, user: User, now: datetime) -> None:
    assert change.offered_by is not None
    role, comment = change.offered_as, change.comment
    _decided(change, role, Verdict.APPROVED, person=change.offered_by, comment=comment, now=now)
    if open_roles(matter_of(change), list(change.decisions.all())):
        tell_approvers(change, now=now)
    else:
        apply(change, actor=user, now=now)


def _agreed_to_request(
    change: RequestChange, amended: Request, *, user: User, now: datetime, source_ip: str | None
) -> None:
    request = change.request
    assert change.offered_by is not None
    move(change, (State.WAITING,), State.APPLIED, now=now, ended_at=now)
    waiting = Request.objects.filter(pk=request.pk, state=Request.State.WAITING_FOR_APPROVAL)
    if not waiting.update(
        count=amended.count,
        duration=amended.duration,
        spec=amended.spec,
        expires_at=now + patience(amended.duration),
        changed_at=now,
    ):
        raise UnableToChangeRequest({WHOLE: [_("It no longer waits for a decision.")]})
    request.refresh_from_db()
    try:
        quotas_guard.admit_again(request, now=now)
    except quotas_guard.OverQuota as over:
        raise UnableToChangeRequest({WHOLE: [over.message]}) from over
    made = Decision.objects.create(
        request=request,
        role=change.offered_as,
        verdict=Verdict.APPROVED,
        person=change.offered_by,
        comment=change.comment,
        at=now,
    )
    try:
        agree(request, made, list(request.decisions.all()), actor=user, now=now, source_ip=source_ip)
    except UnableToDecide as error:
        raise UnableToChangeRequest({WHOLE: [error.message]}) from error


def _decided(
    change: RequestChange, role: str, verdict: str, *, person: User, comment: str, now: datetime
) -> None:
    try:
        with transaction.atomic():
            ChangeDecision.objects.create(
                change=change, role=role, verdict=verdict, person=person, comment=comment, at=now
            )
    except IntegrityError:
        raise UnableToDecide(_("Somebody decided at the same moment.")) from None


def _lock(change: RequestChange) -> None:
    """The request first, then its change: everybody locks in that order."""
    change.request.refresh_from_db(from_queryset=Request.objects.select_for_update())
    change.refresh_from_db(from_queryset=RequestChange.objects.select_for_update())
