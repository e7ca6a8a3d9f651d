"""Held devices that nobody uses: how long is counted, told, and, where the flavor says so, ended.

Idle is what the desk has seen to be idle: the hold alone has the device, while the cluster is in step. Time
in which the desk saw nothing (out of step, nobody counted) is not idle time; it neither adds nor takes away.
Whatever changes about the request begins the count anew.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.urls import reverse
from django.utils.translation import gettext_noop

from claims.models import Idleness, Request
from claims.requests.desk_acts import give_back_idle
from claims.requests.news import name_of
from claims.requests.reminders import people_of
from inventory.coverage import coverage_of_all
from portal.accounts.notifications.kinds import Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import Text

# A longer pause between two looks may hide a Pod that came and went.
LONGEST_PAUSE = timedelta(minutes=5)
# From the reminder to the release.
GRACE = timedelta(hours=1)
HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class Idle:
    """What the page of a request says: idle for so long (as far as known), and from when it is told and
    given back (`released_after` None = never)."""

    idle_for: timedelta
    told_after: timedelta
    released_after: timedelta | None


def idle_of(request: Request) -> Idle | None:
    """None where nothing is counted, or nothing yet. One query, only for what a flavor has counted."""
    if request.state != Request.State.ALLOCATED or not request.flavor or not request.flavor.idle_hours:
        return None
    row = Idleness.objects.filter(request=request).first()
    if row is None or not row.idle_for:
        return None
    after = request.flavor.idle_hours * HOUR
    return Idle(row.idle_for, after, after + GRACE if request.flavor.idle_release else None)


def look(*, now: datetime) -> None:
    """Count what has been idle since the last look, and do what follows. Queries grow with the number of
    idle holds only."""
    idle = Request.objects.filter(
        state=Request.State.ALLOCATED,
        shape=Request.Shape.CLAIM,
        hold_wanted=True,
        flavor__idle_hours__gt=0,
    ).exclude(reason=Request.Reason.PARTLY)
    Idleness.objects.exclude(request__in=idle).delete()
    rows = {row.request_id: row for row in Idleness.objects.filter(request__in=idle)}
    coverage = coverage_of_all(now=now)
    for request in idle.select_related("project", "requester", "flavor"):
        if request.cluster_id not in coverage or not coverage[request.cluster_id].in_step:
            continue
        row = rows.get(request.pk)
        if row is None:
            Idleness.objects.get_or_create(request=request, defaults={"counted_at": now})
        elif _count(row, request, now=now):
            _follow_up(row, request, now=now)


def _count(row: Idleness, request: Request, *, now: datetime) -> bool:
    """Whether it was us who counted up to now: of two workers one does."""
    passed = now - row.counted_at
    if passed <= timedelta():
        return False
    before = row.counted_at
    if request.changed_at > before:
        row.idle_for, row.reminded_at = timedelta(), None
    elif passed <= LONGEST_PAUSE:
        row.idle_for += passed
    row.counted_at = now
    return bool(
        Idleness.objects.filter(pk=row.pk, counted_at=before).update(
            idle_for=row.idle_for, reminded_at=row.reminded_at, counted_at=now
        )
    )


def _follow_up(row: Idleness, request: Request, *, now: datetime) -> None:
    assert request.flavor is not None, "only flavors have it counted"
    after = request.flavor.idle_hours * HOUR
    if row.idle_for < after:
        return
    if row.reminded_at is None:
        with transaction.atomic():
            if Idleness.objects.filter(pk=row.pk, reminded_at=None).update(reminded_at=now):
                _remind(request, now=now)
    elif request.flavor.idle_release and row.idle_for >= after + GRACE and now >= row.reminded_at + GRACE:
        give_back_idle(request=request, now=now)


def _remind(request: Request, *, now: datetime) -> None:
    assert request.flavor is not None, "only flavors have it counted"
    body = (
        Text(gettext_noop("Unless a Pod joins it, the desk gives the device back in %(left)s."), left=GRACE)
        if request.flavor.idle_release
        else Text(gettext_noop("If you no longer need it, please release it: others wait, and it costs."))
    )
    tell(
        people=people_of(request),
        kind=Kind.IDLE,
        subject=Text(
            gettext_noop("Nobody has used %(request)s for %(long)s; only its hold keeps the device."),
            request=name_of(request),
            long=request.flavor.idle_hours * HOUR,
        ),
        body=body,
        url=reverse("request-detail", args=[request.key]),
        project=request.project,
        key=f"idle:{request.key}:{now.isoformat()}",
        thread=str(request.key),
        facts={"request": str(request.key), "idle_hours": request.flavor.idle_hours},
        now=now,
    )
