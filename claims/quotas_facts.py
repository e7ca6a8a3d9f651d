"""The facts about quotas: what projects hold and ask for, from the ledger, the mirror and the requests. For
any number of quotas together; the number of queries depends neither on them nor on the fleet."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction

from django.db.models import Q

from claims.charges import charges
from claims.costs import month_start, next_month
from claims.models import Allocation, Quota, Request, RequestPod
from claims.monthly import observed_since
from claims.pricing import MICROSECOND, PriceList, Statement, Usage, price_list, share, statement
from claims.quotas import NOTHING, Facts, Held, Standing, standing
from claims.quotas_catalogue import Catalogue, memory_of
from claims.quotas_words import terms_of
from inventory.models import Pod
from portal import money

State = Request.State
Kind = Quota.Kind
FINISHED = ("Succeeded", "Failed")
_COLUMNS = (
    *("project_id", "cluster_id", "request_id", "request__flavor_id", "request__options", "request_name"),
    *("device_class", "product", "share_id", "consumed_capacity", "capacity", "units", "replicas"),
    *("extended_resource", "started_at", "ended_at", "end_uncertainty_us"),
)


@dataclass(frozen=True, kw_only=True)
class _Interval:
    """One interval of the ledger, as far as quotas are concerned."""

    project: int
    request: int | None
    flavors: frozenset[int]
    device_class: str
    product: str
    units: int
    # Of each unit: the share of a piece of hardware.
    quantity: Fraction
    memory: int | None
    start: datetime
    end: datetime | None
    uncertain: timedelta

    @property
    def held(self) -> Held:
        return Held(
            request=self.request,
            flavors=self.flavors,
            units=self.units,
            quantity=self.quantity,
            memory=self.memory,
            device_class=self.device_class,
            product=self.product,
        )

    @property
    def pieces(self) -> Fraction:
        """Pieces of hardware."""
        return self.quantity * self.units


@dataclass(kw_only=True)
class Gathered:
    """Facts of several projects at one instant."""

    now: datetime
    prices: PriceList
    catalogue: Catalogue
    intervals: Mapping[int, Sequence[_Interval]]
    units: Mapping[int, Sequence[Held]]
    requests: Mapping[int, Sequence[Request]]
    # Of everything, by project; None = nothing was ever observed.
    spent: Mapping[int, Statement] | None

    def facts(self, quota: Quota, *, without: Collection[int] = ()) -> Facts:
        """Those of one quota; requests in `without` (primary keys) ask for nothing."""
        project, flavor = quota.project_id, quota.flavor_id
        intervals = [i for i in self.intervals.get(project, ()) if flavor is None or flavor in i.flavors]
        spent = None if self.spent is None else self.spent.get(project)
        if spent is not None and flavor is not None:
            start = month_start(self.now)
            spent = statement(
                [_usage(i) for i in intervals], self.prices, start=start, end=self.now, now=self.now
            )
        return Facts(
            held=[*(i.held for i in intervals if i.end is None), *self.units.get(project, ())],
            asked=[
                self.catalogue.asked(request)
                for request in self.requests.get(project, ())
                if request.state != State.ENDING and request.pk not in without
            ],
            spent=spent,
            unseen=sum((self._unseen(i) for i in intervals), NOTHING),
        )

    def standing(
        self, quota: Quota, *, besides: Iterable[Request] = (), without: Collection[int] = ()
    ) -> Standing:
        """How the quota's project stands to it, `besides` as if asked for already."""
        return standing(
            terms_of(quota),
            self.facts(quota, without=without),
            now=self.now,
            prices=self.prices,
            besides=[self.catalogue.asked(request) for request in besides],
        )

    def _unseen(self, interval: _Interval) -> Fraction:
        """Device-hours of this month in which it may have gone on without being seen."""
        if interval.end is None or not interval.uncertain:
            return NOTHING
        lower = max(interval.end, month_start(self.now))
        upper = min(interval.end + interval.uncertain, self.now)
        time = max(timedelta(0), upper - lower)
        return interval.pieces * Fraction(time // MICROSECOND, money.MICROSECONDS_PER_HOUR)


def gather(quotas: Collection[Quota], *, now: datetime) -> Gathered:
    """What these quotas need to know."""
    projects = {quota.project_id for quota in quotas}
    kinds = {quota.kind for quota in quotas}
    monthly = bool(kinds & {Kind.HOURS, Kind.MONEY})
    catalogue = Catalogue.load(deep=bool(kinds & {Kind.MEMORY, Kind.MONEY}))
    prices = price_list() if monthly else PriceList(books=())
    # The month of a single flavor has to be looked through; of everything the database adds it up.
    whole_month = any(q.flavor_id is not None and q.kind in (Kind.HOURS, Kind.MONEY) for q in quotas)
    requests: dict[int, list[Request]] = defaultdict(list)
    rows = Request.objects.filter(project__in=projects).active().defer("spec", "purpose", "message")
    for request in rows.order_by("pk"):
        requests[request.project_id].append(request)
    spent: dict[int, Statement] | None = None
    if monthly and observed_since() is not None:
        spent = _spent(projects, prices, now=now)
    intervals = _intervals(projects, catalogue, whole_month=whole_month, monthly=monthly, now=now)
    return Gathered(
        now=now,
        prices=prices,
        catalogue=catalogue,
        intervals=intervals,
        units=_units([request for found in requests.values() for request in found], catalogue),
        requests=requests,
        spent=spent,
    )


def _intervals(
    projects: Collection[int], catalogue: Catalogue, *, whole_month: bool, monthly: bool, now: datetime
) -> Mapping[int, Sequence[_Interval]]:
    """What is held now; with `whole_month` what was held in this month too, with `monthly` of it what may
    have gone on unseen."""
    wanted = Q(ended_at=None)
    if whole_month:
        wanted |= Q(ended_at__gt=month_start(now))
    elif monthly:
        wanted |= Q(ended_at__gt=month_start(now), end_uncertainty_us__gt=0)
    rows = Allocation.objects.filter(wanted, project__in=projects, admin_access=False, started_at__lte=now)
    found: dict[int, list[_Interval]] = defaultdict(list)
    for row in rows.order_by().values(*_COLUMNS).iterator(chunk_size=5_000):
        share_id, consumed, capacity = row["share_id"], row["consumed_capacity"], row["capacity"]
        found[row["project_id"]].append(
            _Interval(
                project=row["project_id"],
                request=row["request_id"],
                flavors=catalogue.flavors_of_result(
                    cluster=row["cluster_id"],
                    flavor=row["request__flavor_id"],
                    options=row["request__options"] or {},
                    part=row["request_name"],
                    made_of=row["device_class"] or row["extended_resource"],
                ),
                device_class=row["device_class"],
                product=row["product"],
                units=row["units"],
                quantity=share(consumed, capacity) if share_id else Fraction(1, row["replicas"]),
                memory=memory_of(consumed if share_id else capacity),
                start=row["started_at"],
                end=row["ended_at"],
                uncertain=row["end_uncertainty_us"] * MICROSECOND,
            )
        )
    return found


def _units(requests: Collection[Request], catalogue: Catalogue) -> Mapping[int, Sequence[Held]]:
    """Units that Pods of entitlements have and that the ledger does not know (yet); three queries at most."""
    entitled = {r.pk: r for r in requests if r.shape == Request.Shape.ENTITLEMENT}
    if not entitled:
        return {}
    linked = RequestPod.objects.filter(request__in=entitled).values_list(
        "cluster_id", "pod_uid", "request_id"
    )
    owners = {(cluster, uid): request for cluster, uid, request in linked}
    kept = Allocation.objects.filter(
        kind=Allocation.Kind.UNITS, claim_uid__in=[uid for _cluster, uid in owners]
    )
    told = set(kept.values_list("cluster_id", "claim_uid"))
    pods = Pod.objects.filter(uid__in=[uid for _cluster, uid in owners]).exclude(node_name="")
    found: dict[int, list[Held]] = defaultdict(list)
    columns = ("cluster_id", "uid", "extended_resources")
    for cluster, uid, resources in pods.exclude(phase__in=FINISHED).values_list(*columns):
        owner = owners.get((cluster, uid))
        if owner is None or (cluster, uid) in told:
            continue
        request = entitled[owner]
        units = int(resources.get(request.extended_resource) or 0)
        part = catalogue.asked(request).groups[0][0]
        if units > 0:
            found[request.project_id].append(
                Held(
                    request=owner,
                    flavors=part.flavors,
                    units=units,
                    memory=part.memory,
                    product=part.products[0],
                )
            )
    return found


def _spent(projects: Collection[int], prices: PriceList, *, now: datetime) -> dict[int, Statement]:
    """This month so far, by project."""
    start = month_start(now)
    whole = charges(start=start, end=next_month(now), now=now, projects=projects, prices=prices)
    return {
        project: Statement(
            start=start,
            end=whole.end,
            lines=tuple(line for line in whole.lines if line.project_id == project),
            totals={},
        )
        for project in projects
    }


def _usage(interval: _Interval) -> Usage:
    return Usage(
        project_id=interval.project,
        device_class=interval.device_class,
        product=interval.product,
        start=interval.start,
        end=interval.end,
        quantity=interval.pieces,
    )
