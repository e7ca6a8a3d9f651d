"""What projects cost, month by month."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from decimal import Decimal

from claims.models import Allocation
from claims.money.charges import charges
from claims.money.costs import month_start, next_month, visible_projects
from claims.money.pricing import price_list
from inventory.models import Observation
from portal import access
from portal.accounts.models import Project, User

# Project (None = nobody known) and currency.
_Key = tuple[int | None, str]


@dataclass(frozen=True)
class MonthlyCost:
    """`months[i]` holds what was used in the month that begins at `starts[i]`; None for a month before
    anything was observed, of which nothing is known."""

    starts: Sequence[datetime]
    months: Sequence[Mapping[_Key, Decimal] | None]
    projects: Mapping[int, Project]
    # Something was used that no price is known for.
    unpriced: bool
    # Where the months begin.
    zone: tzinfo = UTC

    @property
    def currencies(self) -> list[str]:
        return sorted({currency for month in self.months if month for _project, currency in month})

    def payers(self, currency: str) -> list[Project | None]:
        """Who paid in this currency, who paid most first; None (last) is nobody known."""
        totals: dict[int | None, Decimal] = {}
        for month in self.months:
            for (project, of), amount in (month or {}).items():
                if of == currency:
                    totals[project] = totals.get(project, Decimal(0)) + amount
        ordered = sorted(totals, key=lambda pk: (pk is None, -totals[pk], pk or 0))
        return [None if pk is None else self.projects[pk] for pk in ordered]

    def amount(self, index: int, payer: Project | None, currency: str) -> Decimal | None:
        """What a payer paid in a month: zero where nothing was used, None where nobody knows."""
        month = self.months[index]
        return None if month is None else month.get((payer.pk if payer else None, currency), Decimal(0))


def monthly_costs(*, user: User, now: datetime, months: int, zone: tzinfo = UTC) -> MonthlyCost:
    """The last `months` calendar months (in `zone`) with the present one so far, of the projects that `user`
    may see; with what nobody pays for, for those who see all costs."""
    starts = [month_start(now, zone)]
    while len(starts) < months:
        starts.insert(0, month_start(starts[0] - timedelta(days=1), zone))
    projects = {project.pk: project for project in visible_projects(user)}
    of = None if access.may_see_costs_of_all(user) else list(projects)
    since, prices = observed_since(), price_list()
    told: list[Mapping[_Key, Decimal] | None] = []
    unpriced = False
    for start in starts:
        end = next_month(start, zone)
        if since is None or end <= since:
            told.append(None)
            continue
        statement = charges(start=start, end=end, now=now, projects=of, prices=prices)
        month: dict[_Key, Decimal] = {}
        for line in statement.lines:
            if line.amount is not None:
                key = line.project_id, line.currency
                month[key] = month.get(key, Decimal(0)) + line.amount
        told.append(month)
        unpriced = unpriced or statement.unpriced
    return MonthlyCost(starts, told, projects, unpriced, zone)


def observed_since() -> datetime | None:
    """When the first cluster was looked at for the first time, or the first interval of the ledger began."""
    first = Observation.objects.order_by("id").values_list("observed_at", flat=True).first()
    held = Allocation.objects.order_by("started_at").values_list("started_at", flat=True).first()
    return min((at for at in (first, held) if at is not None), default=None)
