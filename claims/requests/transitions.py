"""How requests change their state: by a compare-and-set with an audit entry in the same transaction, and in
no other way. Whatever has to happen on the cluster afterwards is marked as due and done by
`claims.requests.pursuit`.
"""

from datetime import datetime
from typing import Any

from django.db import transaction

from claims.models import Request, RequestChange
from claims.requests import news
from claims.requests.states import LIVE
from claims.signals import work_due
from portal.accounts import audit
from portal.accounts.models import User

State = Request.State


def transition(
    request: Request,
    *,
    to: str,
    expected: str,
    now: datetime,
    action: str,
    actor: User | None = None,
    reason: str = "",
    message: str = "",
    ip: str | None = None,
    **columns: Any,
) -> bool:
    """Compare-and-set of the state, with its audit entry; other columns go along. Returns whether it was
    us who changed it; `request` is refreshed either way."""
    with transaction.atomic():
        changed = (
            Request.objects.filter(pk=request.pk, state=expected).update(
                state=to, reason=reason, message=message, changed_at=now, **columns
            )
            == 1
        )
        request.refresh_from_db()
        if changed:
            record(
                request,
                action,
                actor=actor,
                now=now,
                before={"state": str(expected)},
                after={"state": str(to), **({"reason": str(reason)} if reason else {})},
                ip=ip,
            )
            news.tell_of_transition(request, before=expected, actor=actor, now=now)
            if to not in LIVE and to != State.WAITING_FOR_APPROVAL:
                # What was still to be said about it has become pointless.
                RequestChange.objects.filter(request=request).open().update(
                    state=RequestChange.State.WITHDRAWN, changed_at=now, ended_at=now
                )
            if request.due_at is not None:
                announce(request)
    return changed


def end(
    request: Request,
    expected: tuple[str, ...],
    *,
    now: datetime,
    actor: User | None,
    reason: str,
    action: str,
    ip: str | None,
) -> bool:
    """Begin to wind the request up, from any of the `expected` states. Returns whether it was us."""
    return any(
        transition(
            request,
            to=State.ENDING,
            expected=state,
            now=now,
            actor=actor,
            reason=reason,
            end_reason=reason,
            action=action,
            ip=ip,
            hold_wanted=False,
            due_at=now,
            attempts=0,
        )
        for state in expected
    )


def announce(request: Request) -> None:
    """Tell the workers, as soon as the transaction is over, that there is something to do on a cluster."""
    transaction.on_commit(lambda: work_due.send(Request, request_id=request.pk))


def record(
    request: Request,
    action: str,
    *,
    actor: User | None,
    now: datetime,
    before: dict[str, Any] | None = None,
    after: dict[str, Any] | None = None,
    ip: str | None = None,
) -> None:
    """One audit entry about the request; its page shows them as the timeline."""
    audit.record(
        action=action,
        actor=actor,
        target=request,
        target_id=str(request.key),
        project=request.project,
        before=before,
        after=after,
        source_ip=ip,
        now=now,
    )
