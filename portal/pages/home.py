"""The first page after signing in: what is announced, what is mine, what needs me, what it costs and how much
is left, how the clusters are."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from claims.models import Request
from claims.models.requests import FINAL_STATES
from claims.requests.approvals import decidable
from claims.requests.running import Running, running
from inventory.coverage import Coverage, coverage_of_all
from inventory.proposals.news import waiting as proposals_that_wait
from inventory.tallies import Tally, tallies
from portal import access, htmx
from portal.accounts.models import Announcement, Project, User
from portal.pages.usage import allowances, costs

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
class Need:
    """A request that waits for its owner: `why` is failed, expiring or pod."""

    request: Request
    why: str


@require_safe
def home(request: HttpRequest) -> HttpResponse:
    """The page, or its live part for htmx."""
    user, now = access.person(request), timezone.now()
    own = list(
        Project.objects.filter(memberships__user=user, archived_at=None).order_by("name")[:PROJECTS_SHOWN]
    )
    quotas = allowances(own, now=now)
    context: dict[str, Any] = {
        "requests": _requests(user, now=now),
        "needs": _needs(user, now=now),
        # Auditors look on; they decide nothing.
        "to_decide": 0 if user.is_auditor else decidable(user).count(),
        "class_proposals": proposals_that_wait(user) if access.may_administer(user) else (0, 0),
        "fleets": _fleets(now=now),
        "costs": costs(own, now=now),
        "quotas": [(project, quotas[project.pk]) for project in own if quotas.get(project.pk)],
        "can_request": Project.objects.workable_by(user).exists(),
        "month": timezone.localtime(now),
    }
    if not htmx.wants_partial(request):
        context["announcements"] = list(Announcement.objects.for_reader(user, now=now))
    return htmx.render(request, "pages/home.html", context, partial="live")


def _requests(user: User, *, now: datetime) -> Sequence[Running]:
    mine = Request.objects.filter(requester=user).exclude(state__in=FINAL_STATES)
    latest = mine.select_related("project", "cluster", "flavor").order_by("-created_at")
    return running(list(latest[:REQUESTS_SHOWN]), now=now)


def _needs(user: User, *, now: datetime) -> list[Need]:
    """The person's own requests that go nowhere without them, most urgent first."""
    mine = Request.objects.filter(requester=user).select_related("project", "cluster", "flavor")
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
