"""Watching quotas: who has come to be over one, and, where a quota says so, ending the newest requests.

Called upon every observation, and from time to time, since months and validity pass by themselves. A project
that is as it was costs nothing but the look; where something is to be done, it is looked at again with the
project locked.
"""

from collections.abc import Collection
from datetime import datetime
from typing import Any

from django.db import transaction

from claims.models import Quota, Request
from claims.quotas.crossing import settle, tell_released
from claims.quotas.facts import Gathered, gather
from claims.quotas.guard import lock, what_of
from claims.quotas.standing import Standing, newest_over
from claims.quotas.words import amount, terms_of
from claims.requests.states import LIVE
from claims.requests.transitions import transition
from inventory.models import Cluster, NamespaceBinding
from portal import access

State = Request.State
Reason = Request.Reason


def watch(*, now: datetime, cluster: Cluster | None = None) -> int:
    """Settle the quotas of all projects, or of those that have something to do with a cluster. Returns how
    many requests were ended. Not inside a transaction."""
    quotas = Quota.objects.all().holding(now).select_related("project", "flavor")
    if cluster is not None:
        quotas = quotas.filter(project__in=NamespaceBinding.objects.filter(cluster=cluster).values("project"))
    found = list(quotas.order_by("pk"))
    if not found:
        return 0
    gathered = gather(found, now=now)
    stirring = {quota.project_id for quota in found if _stirs(quota, gathered.standing(quota), gathered)}
    return sum(_settle(project, now=now) for project in sorted(stirring))


def end_over_quota(*, request: Request, words: str, now: datetime) -> bool:
    """End a request, by the desk itself, since its project is over a quota: what waits is cancelled, what is
    there is released; Pods of people stay. `words` name the quota. Returns whether it was us."""
    told: dict[str, Any] = {
        "reason": Reason.OVER_QUOTA,
        "end_reason": Reason.OVER_QUOTA,
        "message": words,
        "action": "request.over-quota",
        "hold_wanted": False,
        "now": now,
    }
    for state in (*LIVE, State.CREATING):
        if transition(request, to=State.ENDING, expected=state, due_at=now, attempts=0, **told):
            return True
    return any(
        transition(request, to=State.CANCELLED, expected=state, ended_at=now, due_at=None, **told)
        for state in (State.WAITING_FOR_APPROVAL, State.SUBMITTED, State.APPROVED)
    )


def would_end(quota: Quota, current: Standing, gathered: Gathered) -> list[Request]:
    """The requests that a releasing quota ends now, the newest first."""
    if quota.action != Quota.Action.RELEASE:
        return []
    rows = gathered.requests.get(quota.project_id, ())
    active = {request.pk: request for request in rows if request.state != State.ENDING}
    ages = {pk: request.created_at for pk, request in active.items()}
    going = [request.pk for request in rows if request.state == State.ENDING]
    return [active[pk] for pk in newest_over(current, ages, going=going)]


# --- inside -----------------------------------------------------------------------------------------


def _stirs(quota: Quota, current: Standing, gathered: Gathered) -> bool:
    if current.over != (quota.over_since is not None):
        return True
    return bool(would_end(quota, current, gathered)) and not access.only_looks()


def _settle(project: int, *, now: datetime) -> int:
    """One project, with nobody else settling anything about it."""
    ended = 0
    with transaction.atomic():
        quotas = list(
            Quota.objects.filter(project=project)
            .holding(now)
            .select_related("project", "flavor")
            .order_by("pk")
        )
        if not quotas:
            return 0
        lock(quotas[0].project)
        done: set[int] = set()
        for quota in quotas:
            # Anew for each: what the one before ended no longer counts.
            gathered = gather([quota], now=now)
            current = gathered.standing(quota)
            settle(quota, current, now=now)
            if access.only_looks():
                continue
            ended += len(_release(quota, would_end(quota, current, gathered), done, now=now))
    return ended


def _release(quota: Quota, requests: Collection[Request], done: set[int], *, now: datetime) -> list[Request]:
    limit = amount(terms_of(quota).limit, kind=quota.kind, currency=quota.currency)
    words = f"{what_of(quota)}: {limit}"
    ended = []
    for request in requests:
        if request.pk not in done and end_over_quota(request=request, words=words, now=now):
            done.add(request.pk)
            ended.append(request)
    tell_released(quota, ended, now=now)
    return ended
