"""Cost: what was used in a period, by project, with its arithmetic; as a page and as CSV.

Of more lines than anybody reads, the page has one for each project, and leads to the project's own. What a
project comes to is the sum of its lines wherever it is told.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from django.conf import settings
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from claims.money.books import DEVICE, Centres
from claims.money.charges import charges
from claims.money.costs import Period, visible_projects
from claims.money.pricing import Line, Statement, price_list
from claims.views.statements import zone
from portal import access, csvs, htmx
from portal.access import person
from portal.accounts.models import Project, User
from portal.money import MICROSECONDS_PER_HOUR

COLUMNS = (
    "project", "cost_centre", "device_class", "product", "device_hours", "price_per_device_hour", "currency",
    "amount", "exact_numerator", "exact_denominator", "running", "from", "to", "as_of",
    # What is counted, of how much: GiB-hours are in "device_hours" as well, which is the former name.
    "unit", "per", "unit_hours",
)  # fmt: skip


# More lines than these of several projects are folded.
MOST_LINES = 200
PROJECTS_PER_PAGE = 100


@dataclass(frozen=True, kw_only=True)
class ProjectLines:
    """The lines of one project (None = nobody known), what they come to per currency, and the cost centres
    that it belonged to in that time."""

    project: Project | None
    cost_centres: Sequence[str]
    lines: Sequence[Line]
    totals: Mapping[str, Decimal]

    @property
    def device_hours(self) -> Fraction | None:
        """Of the lines that count devices; None = there are none. Other units do not add up with them."""
        counted = [line.device_microseconds for line in self.lines if line.unit == DEVICE]
        return sum(counted, Fraction(0)) / MICROSECONDS_PER_HOUR if counted else None

    @property
    def running(self) -> int:
        return sum(line.running for line in self.lines)

    @property
    def unpriced(self) -> bool:
        return any(line.per_hour is None for line in self.lines)


@require_safe
def cost(request: HttpRequest) -> HttpResponse:
    """The cost of a period; this month unless the address says otherwise."""
    now, user = timezone.now(), person(request)
    period = Period.parse(request.GET, now=now, zone=zone())
    project, statement, projects = _fetch(user, request.GET.get("project", ""), period, now=now)
    prices = price_list()
    groups = _groups(statement, projects, prices.centres)
    folded = len(groups) > 1 and len(statement.lines) > MOST_LINES
    # What nobody pays for needs somebody's attention, and leads to no project's page.
    known = [group for group in groups if folded and group.project]
    context = {
        "period": period,
        "project": project,
        "projects": projects,
        "many": len(groups) > 1,
        "page": Paginator(known, PROJECTS_PER_PAGE).get_page(request.GET.get("page")) if folded else None,
        "groups": [group for group in groups if not (folded and group.project)],
        "statement": statement,
        "book": prices.current(now),
        "now": now,
        "export_url": f"{reverse('cost-export')}?{request.GET.urlencode()}",
        "zone": settings.ORGANISATION_ZONE,
        "sees_all": access.may_see_costs_of_all(user),
    }
    return htmx.render(request, "claims/cost.html", context, partial="lines")


@require_safe
def cost_export(request: HttpRequest) -> HttpResponseBase:
    """The same lines as CSV; numbers do not depend on the reader's language."""
    now, user = timezone.now(), person(request)
    period = Period.parse(request.GET, now=now, zone=zone())
    if period.errors:
        # A file of the present month would pass for what was asked for; the page says what could not be read.
        return htmx.redirect(request, f"{reverse('cost')}?{request.GET.urlencode()}")
    _project, statement, projects = _fetch(user, request.GET.get("project", ""), period, now=now)
    by_id = {project.pk: project for project in projects}
    centres = price_list().centres
    rows = (_row(line, by_id, statement, centres, now=now) for line in statement.lines)
    return csvs.download(f"cost-{period.start:%Y%m%d}.csv", COLUMNS, rows)


def _fetch(
    user: User, slug: str, period: Period, *, now: datetime
) -> tuple[Project | None, Statement, list[Project]]:
    projects = visible_projects(user)
    project = None
    if slug:
        project = next((p for p in projects if p.slug == slug), None)
        if project is None:
            raise Http404
    chosen = [project.pk] if project else [p.pk for p in projects]
    everything = project is None and access.may_see_costs_of_all(user)
    statement = charges(start=period.start, end=period.end, now=now, projects=None if everything else chosen)
    return project, statement, projects


def _groups(statement: Statement, projects: Sequence[Project], centres: Centres) -> list[ProjectLines]:
    by_id = {project.pk: project for project in projects}
    grouped: dict[int | None, list[Line]] = {}
    for line in statement.lines:
        grouped.setdefault(line.project_id, []).append(line)
    result = []
    for project_id, lines in grouped.items():
        totals: dict[str, Decimal] = {}
        for line in lines:
            if line.amount is not None:
                totals[line.currency] = totals.get(line.currency, Decimal(0)) + line.amount
        project = by_id.get(project_id) if project_id is not None else None
        codes = centres.during(project.pk, statement.start, statement.end) if project else []
        result.append(ProjectLines(project=project, cost_centres=codes, lines=lines, totals=totals))
    return sorted(result, key=lambda g: (g.project is None, g.project.name if g.project else ""))


def _row(
    line: Line, projects: Mapping[int, Project], statement: Statement, centres: Centres, *, now: datetime
) -> list[str]:
    project = projects.get(line.project_id) if line.project_id is not None else None
    return [
        project.slug if project else "unattributed",
        "; ".join(centres.during(project.pk, statement.start, statement.end)) if project else "",
        line.device_class,
        line.product,
        line.hours_text,
        line.price,
        line.currency,
        "" if line.amount is None else str(line.amount),
        "" if line.exact is None else str(line.exact.numerator),
        "" if line.exact is None else str(line.exact.denominator),
        str(line.running),
        statement.start.isoformat(),
        statement.end.isoformat(),
        now.isoformat(),
        line.unit,
        line.per,
        line.hours_text,
    ]
