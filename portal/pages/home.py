"""The first page after signing in: what is mine, what needs me, what it costs, how the clusters are."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from claims.charges import charges
from claims.models import Request
from claims.models.requests import FINAL_STATES
from inventory.coverage import Coverage, coverage_of_all
from inventory.tallies import Tally, tallies
from portal import access, htmx
from portal.accounts.models import Project, User

REQUESTS_SHOWN = 10
PROJECTS_SHOWN = 5
EXPIRES_SOON = timedelta(hours=24)
FAILED_RECENTLY = timedelta(days=3)
State = Request.State


@dataclass(frozen=True)
class Fleet:
    """One cluster and how its devices are, as far as that may be told now."""

    coverage: Coverage
    tally: Tally


@dataclass(frozen=True)
class Cost:
    """What a project has cost this month so far; several currencies stay apart."""

    project: Project
    totals: Mapping[str, Decimal]
    # Something was used that no price is known for.
    unpriced: bool


@dataclass(frozen=True)
class Need:
    """A request that waits for its owner: `why` is failed, expiring or pod."""

    request: Request
    why: str


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """The page, or its live part for htmx."""
    user, now = access.person(request), timezone.now()
    context: dict[str, Any] = {
        "requests": _requests(user),
        "needs": _needs(user, now=now),
        "fleets": _fleets(now=now),
        "costs": _costs(user, now=now),
        "can_request": Project.objects.workable_by(user).exists(),
        "month": timezone.localtime(now),
    }
    return htmx.render(request, "pages/home.html", context, partial="live")


def _requests(user: User) -> Sequence[Request]:
    mine = Request.objects.filter(requester=user).exclude(state__in=FINAL_STATES)
    return list(mine.select_related("project", "cluster").order_by("-created_at")[:REQUESTS_SHOWN])


def _needs(user: User, *, now: datetime) -> list[Need]:
    """The person's own requests that go nowhere without them, most urgent first."""
    mine = Request.objects.filter(requester=user).select_related("project", "cluster")
    failed = mine.filter(state=State.FAILED, changed_at__gt=now - FAILED_RECENTLY)
    living = mine.exclude(state__in=FINAL_STATES)
    expiring = living.filter(expires_at__lt=now + EXPIRES_SOON, allocated_at__isnull=False)
    waiting = living.filter(state=State.WAITING_FOR_POD)
    needs: dict[int, Need] = {}
    for why, rows in (("failed", failed), ("expiring", expiring), ("pod", waiting)):
        for row in rows.order_by("-changed_at")[:REQUESTS_SHOWN]:
            needs.setdefault(row.pk, Need(row, why))
    return list(needs.values())[:REQUESTS_SHOWN]


def _fleets(*, now: datetime) -> list[Fleet]:
    """Every cluster; where the mirror is not in step, all its devices count as unknown."""
    coverage = coverage_of_all(now=now)
    counted = tallies(coverage)
    return [Fleet(known, counted[pk]) for pk, known in coverage.items()]


def _costs(user: User, *, now: datetime) -> list[Cost]:
    """This calendar month (the reader's) of the person's own projects."""
    start = timezone.localtime(now).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    own = list(
        Project.objects.filter(memberships__user=user, archived_at=None).order_by("name")[:PROJECTS_SHOWN]
    )
    statement = charges(start=start, end=now, now=now, projects=[project.pk for project in own])
    totals: dict[int | None, dict[str, Decimal]] = defaultdict(dict)
    for line in statement.lines:
        if line.amount is not None:
            sums = totals[line.project_id]
            sums[line.currency] = sums.get(line.currency, Decimal(0)) + line.amount
    unpriced = {line.project_id for line in statement.lines if line.amount is None}
    return [Cost(project, totals[project.pk], project.pk in unpriced) for project in own]
