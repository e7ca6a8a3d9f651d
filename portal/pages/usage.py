"""What projects use now, this month and before, and how much they may: for the first page and theirs."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from django.db.models import Q
from django.utils import timezone

from claims.models import Allocation
from claims.money.books import DEVICE
from claims.money.charges import charges
from claims.money.monthly import observed_since
from claims.money.pricing import Statement
from inventory.models import NamespaceBinding, ResourceQuota
from inventory.queues import DeviceQuota, device_quotas
from portal.accounts.models import Project
from portal.dra.quantity import InvalidQuantity, Quantity


@dataclass
class Spent:
    """A project's use in a period: money by currency, which stay apart, and device-hours."""

    totals: dict[str, Decimal] = field(default_factory=dict)
    # None: nothing is counted by the device, but by the GiB or by shares, which do not add up with them.
    device_hours: Fraction | None = Fraction(0)
    # Something was used that no price is known for.
    unpriced: bool = False

    @property
    def hours(self) -> Decimal | None:
        """Device-hours with one place, as people read them."""
        return None if self.device_hours is None else Decimal(round(self.device_hours * 10)) / 10


@dataclass(frozen=True)
class Bar:
    """An amount of money and that of the month before (None: nothing was observed then), and how long their
    bars are, in percent of the longest."""

    currency: str
    amount: Decimal
    before: Decimal | None
    percent: float
    percent_before: float


@dataclass(frozen=True)
class Cost:
    """What a project has cost this month so far, and in the whole month before."""

    project: Project
    now: Spent
    bars: Sequence[Bar]


@dataclass(frozen=True)
class Allowance:
    """A quota on devices in one of the project's namespaces. `percent` None: it cannot be reckoned."""

    quota: DeviceQuota
    percent: float | None

    @property
    def name(self) -> str:
        """What it limits, without what Kubernetes wraps it in."""
        return self.quota.key.removeprefix("requests.").removesuffix(".deviceclass.resource.k8s.io/devices")

    @property
    def full(self) -> bool:
        return self.percent is not None and self.percent >= 100


def month_of(now: datetime) -> datetime:
    """The beginning of the reader's calendar month."""
    return timezone.localtime(now).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def costs(projects: Sequence[Project], *, now: datetime) -> list[Cost]:
    """This calendar month of each project beside the month before, with bars to one scale per currency."""
    start = month_of(now)
    keys = [project.pk for project in projects]
    present = _spent(charges(start=start, end=now, now=now, projects=keys))
    before_start = month_of(start - timedelta(days=1))
    known = (since := observed_since()) is not None and since < start
    before = _spent(charges(start=before_start, end=start, now=now, projects=keys))
    longest: dict[str, Decimal] = defaultdict(Decimal)
    for spent in (*present.values(), *before.values()):
        for currency, amount in spent.totals.items():
            longest[currency] = max(longest[currency], amount)

    def percent(amount: Decimal, currency: str) -> float:
        return float(100 * amount / longest[currency]) if longest[currency] else 0.0

    def bar(pk: int, currency: str) -> Bar:
        amount = present[pk].totals.get(currency, Decimal(0))
        earlier = before[pk].totals.get(currency, Decimal(0))
        return Bar(
            currency,
            amount,
            earlier if known else None,
            percent(amount, currency),
            percent(earlier, currency),
        )

    return [
        Cost(
            project,
            present[project.pk],
            [bar(project.pk, c) for c in sorted({*present[project.pk].totals, *before[project.pk].totals})],
        )
        for project in projects
    ]


def _spent(statement: Statement) -> defaultdict[int, Spent]:
    found: defaultdict[int, Spent] = defaultdict(Spent)
    for line in statement.lines:
        if (project := line.project_id or 0) not in found:
            found[project] = Spent(device_hours=None)
        spent = found[project]
        if line.unit == DEVICE:
            spent.device_hours = (spent.device_hours or 0) + line.device_hours
        if line.amount is None:
            spent.unpriced = True
        else:
            spent.totals[line.currency] = spent.totals.get(line.currency, Decimal(0)) + line.amount
    return found


def allowances(projects: Collection[Project], *, now: datetime) -> Mapping[int, Sequence[Allowance]]:
    """Quotas on devices in the namespaces that the projects have now, by project; two queries."""
    lasting = Q(valid_until=None) | Q(valid_until__gt=now)
    bindings = NamespaceBinding.objects.filter(lasting, project__in=projects, valid_from__lte=now)
    owners = {(cluster, name): project for cluster, name, project in bindings.values_list(
        "cluster_id", "namespace", "project_id"
    )}  # fmt: skip
    if not owners:
        return {}
    rows = ResourceQuota.objects.filter(
        cluster__in={cluster for cluster, _name in owners}, namespace__in={name for _cluster, name in owners}
    )
    found: dict[int, list[Allowance]] = defaultdict(list)
    for quota in device_quotas(rows.select_related("cluster")):
        owner = owners.get((quota.quota.cluster_id, quota.quota.namespace))
        if owner is not None:
            found[owner].append(Allowance(quota, _percent(quota)))
    return found


def _percent(quota: DeviceQuota) -> float | None:
    if not quota.quota.counted:
        return None
    try:
        used, hard = Quantity.parse(quota.used or "0").nanos, Quantity.parse(quota.hard).nanos
    except InvalidQuantity:
        return None
    # Nothing is allowed, and nothing is used: it is full all the same.
    return min(100 * used / hard, 100.0) if hard > 0 else 100.0


def held_now(projects: Collection[Project]) -> Mapping[int, int]:
    """How many devices (or shares of devices) each project holds by the ledger; one query."""
    rows = Allocation.objects.filter(ended_at=None, admin_access=False, project__in=projects)
    found: dict[int, int] = defaultdict(int)
    for project, units in rows.order_by().values_list("project_id", "units"):
        found[project or 0] += units
    return found
