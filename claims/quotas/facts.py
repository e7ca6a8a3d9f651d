"""The facts about quotas: what projects hold and ask for, from the ledger, the mirror and the requests. For
any number of quotas together; the number of queries depends neither on them nor on the fleet."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from fractions import Fraction

from django.conf import settings
from django.db.models import F, Q

from claims.models import Allocation, Quota, Request, RequestChange, RequestPod
from claims.money.charges import charges
from claims.money.costs import month_start, next_month
from claims.money.monthly import observed_since
from claims.money.months import zone_named
from claims.money.pricing import MICROSECOND, PriceList, Statement, Usage, price_list, share, statement
from claims.quotas.catalogue import Catalogue, memory_of
from claims.quotas.standing import NOTHING, Facts, Held, Standing, standing
from claims.quotas.words import terms_of
from inventory.models import Pod
from portal.money import MICROSECONDS_PER_HOUR

State = Request.State
Kind = Quota.Kind
FINISHED = ("Succeeded", "Failed")
# Device time alone.
NO_PRICES = PriceList(books=())
_COLUMNS = (
    *("project_id", "cluster_id", "request_id", "request__flavor_id", "request__options", "request_name"),
    *("device_class", "product", "profile_digest", "extended_resource", "share_id", "consumed_capacity"),
    *("capacity", "counters", "units", "replicas", "started_at", "ended_at", "end_uncertainty_us"),
)
# The request whose place another takes, and when it gives its devices back.
_PLACE = {
    "first": F("took_place_by__request"),
    "first_release": F("took_place_by__release"),
    "first_reason": F("took_place_by__request__reason"),
}


@dataclass(frozen=True, kw_only=True)
class _Interval:
    """One interval of the ledger, as far as quotas are concerned; `usage` of all its units together."""

    request: int | None
    flavors: frozenset[int]
    units: int
    memory: int | None
    usage: Usage
    uncertain: timedelta

    @property
    def held(self) -> Held:
        return Held(
            request=self.request,
            flavors=self.flavors,
            units=self.units,
            quantity=self.usage.quantity / self.units,
            memory=self.memory,
            usage=self.usage,
        )


@dataclass(kw_only=True)
class Gathered:
    """Facts of several projects at one instant."""

    now: datetime
    # Whose months count.
    zone: tzinfo
    prices: PriceList
    catalogue: Catalogue
    intervals: Mapping[int, Sequence[_Interval]]
    units: Mapping[int, Sequence[Held]]
    requests: Mapping[int, Sequence[Request]]
    # This month of everything, by project: as device time, and priced. None = nothing was ever observed.
    time: Mapping[int, Statement] | None
    money: Mapping[int, Statement] | None

    def facts(self, quota: Quota, *, without: Collection[int] = ()) -> Facts:
        """Those of one quota; requests in `without` (primary keys) ask for nothing."""
        project, flavor = quota.project_id, quota.flavor_id
        intervals = [i for i in self.intervals.get(project, ()) if flavor is None or flavor in i.flavors]
        return Facts(
            held=[*(i.held for i in intervals if i.usage.end is None), *self.units.get(project, ())],
            asked=[
                replace(self.catalogue.asked(request), replaces=_replaced(request))
                for request in self.requests.get(project, ())
                if request.state != State.ENDING and request.pk not in without
            ],
            spent=self._spent(quota, intervals),
            unseen=sum((self._unseen(i) for i in intervals), NOTHING),
        )

    def _spent(self, quota: Quota, intervals: Sequence[_Interval]) -> Statement | None:
        """This month as the quota counts it."""
        whole = self.money if quota.kind == Kind.MONEY else self.time
        if whole is None or quota.flavor_id is None:
            return None if whole is None else whole.get(quota.project_id)
        prices = self.prices if quota.kind == Kind.MONEY else NO_PRICES
        usages = [interval.usage for interval in intervals]
        return statement(usages, prices, start=month_start(self.now, self.zone), end=self.now, now=self.now)

    def standing(
        self,
        quota: Quota,
        *,
        besides: Iterable[Request] = (),
        without: Collection[int] = (),
        replaced: int | None = None,
    ) -> Standing:
        """How the quota's project stands to it, `besides` as if asked for already: in the place of `replaced`
        (a primary key), if there is one."""
        return standing(
            terms_of(quota),
            self.facts(quota, without=without),
            now=self.now,
            prices=self.prices,
            zone=self.zone,
            besides=[replace(self.catalogue.asked(request), replaces=replaced) for request in besides],
        )

    def _unseen(self, interval: _Interval) -> Fraction:
        """Device-hours of this month in which it may have gone on without being seen."""
        end = interval.usage.end
        if end is None or not interval.uncertain:
            return NOTHING
        lower = max(end, month_start(self.now, self.zone))
        upper = min(end + interval.uncertain, self.now)
        time = max(timedelta(0), upper - lower)
        return interval.usage.quantity * Fraction(time // MICROSECOND, MICROSECONDS_PER_HOUR)


def gather(quotas: Collection[Quota], *, now: datetime, zone: tzinfo | None = None) -> Gathered:
    """What these quotas need to know; months are those of `zone`, None = of the organisation."""
    zone = zone or zone_named(settings.ORGANISATION_ZONE)
    projects = {quota.project_id for quota in quotas}
    kinds = {quota.kind for quota in quotas}
    monthly = bool(kinds & {Kind.HOURS, Kind.MONEY})
    prices = price_list() if Kind.MONEY in kinds else NO_PRICES
    catalogue = Catalogue.load(deep=bool(kinds & {Kind.MEMORY, Kind.MONEY}), prices=prices)
    # The month of a single flavor has to be looked through; of everything the database adds it up.
    whole_month = any(q.flavor_id is not None and q.kind in (Kind.HOURS, Kind.MONEY) for q in quotas)
    requests: dict[int, list[Request]] = defaultdict(list)
    rows = Request.objects.filter(project__in=projects).active().defer("spec", "purpose", "message")
    for request in rows.annotate(**_PLACE).order_by("pk"):
        requests[request.project_id].append(request)
    observed = monthly and observed_since() is not None
    time = _spent(projects, NO_PRICES, zone=zone, now=now) if observed and Kind.HOURS in kinds else None
    money = _spent(projects, prices, zone=zone, now=now) if observed and Kind.MONEY in kinds else None
    month = month_start(now, zone)
    intervals = _intervals(
        projects, catalogue, month=month, whole_month=whole_month, monthly=monthly, now=now
    )
    return Gathered(
        now=now,
        zone=zone,
        prices=prices,
        catalogue=catalogue,
        intervals=intervals,
        units=_units([request for found in requests.values() for request in found], catalogue),
        requests=requests,
        time=time,
        money=money,
    )


def _replaced(request: Request) -> int | None:
    """The request whose place `request` (as `gather` reads it) takes, if that gives its devices back by
    itself. Where Pods keep them all the same, both have theirs."""
    if getattr(request, "first_release", None) != RequestChange.Release.WHEN_SERVED:
        return None
    if getattr(request, "first_reason", "") == Request.Reason.STILL_USED:
        return None
    first: int | None = getattr(request, "first", None)
    return first


def _intervals(
    projects: Collection[int],
    catalogue: Catalogue,
    *,
    month: datetime,
    whole_month: bool,
    monthly: bool,
    now: datetime,
) -> Mapping[int, Sequence[_Interval]]:
    """What is held now; with `whole_month` what was held since `month` began too, with `monthly` of it what
    may have gone on unseen."""
    wanted = Q(ended_at=None)
    if whole_month:
        wanted |= Q(ended_at__gt=month)
    elif monthly:
        wanted |= Q(ended_at__gt=month, end_uncertainty_us__gt=0)
    rows = Allocation.objects.filter(wanted, project__in=projects, admin_access=False, started_at__lte=now)
    found: dict[int, list[_Interval]] = defaultdict(list)
    for row in rows.order_by().values(*_COLUMNS).iterator(chunk_size=5_000):
        share_id, consumed, capacity = row["share_id"], row["consumed_capacity"], row["capacity"]
        usage = Usage(
            project_id=row["project_id"],
            device_class=row["device_class"],
            product=row["product"],
            start=row["started_at"],
            end=row["ended_at"],
            quantity=share(consumed, capacity) if share_id else Fraction(row["units"], row["replicas"]),
            profile=row["profile_digest"],
            resource=row["extended_resource"],
            consumed=consumed,
            capacity=capacity,
            counters=row["counters"],
        )
        found[row["project_id"]].append(
            _Interval(
                request=row["request_id"],
                flavors=catalogue.flavors_of_result(
                    cluster=row["cluster_id"],
                    flavor=row["request__flavor_id"],
                    options=row["request__options"] or {},
                    part=row["request_name"],
                    made_of=row["device_class"] or row["extended_resource"],
                ),
                units=row["units"],
                memory=memory_of(consumed if share_id else capacity),
                usage=usage,
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
                )
            )
    return found


def _spent(
    projects: Collection[int], prices: PriceList, *, zone: tzinfo, now: datetime
) -> dict[int, Statement]:
    """This month so far, by project."""
    start = month_start(now, zone)
    whole = charges(start=start, end=next_month(now, zone), now=now, projects=projects, prices=prices)
    return {
        project: Statement(
            start=start,
            end=whole.end,
            lines=tuple(line for line in whole.lines if line.project_id == project),
            totals={},
        )
        for project in projects
    }
