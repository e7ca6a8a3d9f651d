"""How many devices were held, free or unavailable, and of how many nobody can say: over time, by product.

Four sources, put together exactly:

- *Held* is what the ledger says. Admin access holds nothing; a shared device is held while anybody has a
  share of it, and a device of which a partition is held is held.
- *How many there are* is what the mirror has now, and what came and went before, backwards.
- *Unavailable* likewise, from the observations that tell since when devices could not be had.
- *Unknown* is what nobody is known to hold while changes can have gone unseen (a lost gap), and every device
  of a cluster that is not in step, since then. What one allocation held before a gap and after, it held.

Of the time before a cluster was followed there is nothing to say: no level, which is not zero. Partitions are
alternatives to the device that they are cut from and are not counted; neither are the units that Device
Plugins count without naming them, of which there is no history.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import BigIntegerField, Case, Count, F, IntegerField, Q, QuerySet, Sum, Value, When
from django.db.models.fields.json import KeyTextTransform

from claims.history.curves import BEHIND, LOST, NOTHING, Cells, Curve, Grid, Level, added, moment, us
from claims.history.watched import watched
from claims.models import Allocation
from inventory.coverage import Coverage, coverage_of_all
from inventory.models import Device, DeviceProfile, Observation
from inventory.products import PARTITION

Kind = Observation.Kind
COMINGS = {Kind.DEVICE_APPEARED: 1, Kind.DEVICE_GONE: -1}
BARRIERS = (Kind.DEVICE_UNAVAILABLE, Kind.DEVICE_AVAILABLE)
# One per bucket; None = nothing is known of that time.
Levels = Sequence[Level | None]


@dataclass(frozen=True)
class Occupancy:
    grid: Grid
    by_product: Mapping[str, Levels]

    def levels(self, product: str = "") -> Levels:
        """Of one product, or of all together."""
        nothing: Levels = [None] * self.grid.count
        if product:
            return self.by_product.get(product, nothing)
        return [added(levels) for levels in zip(*self.by_product.values(), strict=True)] or nothing


def mean(levels: Levels) -> Level | None:
    """Over all buckets of which something is known."""
    known = [level for level in levels if level is not None]
    total = added(known)
    return Level(*(part / len(known) for part in total)) if total is not None else None


def occupancy(*, grid: Grid, now: datetime, cluster: str = "") -> Occupancy:
    """The occupancy of one cluster (by name) or of all; a fixed number of queries per cluster."""
    kinds = _Kinds.load()
    merged: dict[str, list[Level | None]] = {}
    for coverage in coverage_of_all(now=now).values():
        if cluster not in ("", coverage.cluster.name):
            continue
        for product, levels in _of_cluster(coverage, grid=grid, kinds=kinds).items():
            before = merged.get(product, [None] * grid.count)
            merged[product] = [added(pair) for pair in zip(before, levels, strict=True)]
    return Occupancy(grid, dict(sorted(merged.items())))


@dataclass(frozen=True)
class _Kinds:
    """What profiles are called, and which are of partitions; both by digest."""

    products: Mapping[str, str]
    partitions: frozenset[str]

    @classmethod
    def load(cls) -> "_Kinds":
        rows = list(DeviceProfile.objects.values_list("digest", "product", "driver", "kind"))
        return cls(
            products={digest: product or driver for digest, product, driver, _kind in rows},
            partitions=frozenset(digest for digest, _product, _driver, kind in rows if kind == PARTITION),
        )


class _Curves(defaultdict[str, Curve]):
    """A curve per product."""

    def __init__(self, cells: Cells) -> None:
        super().__init__(lambda: Curve(cells))


def _of_cluster(coverage: Coverage, *, grid: Grid, kinds: _Kinds) -> dict[str, Levels]:
    pk = coverage.cluster.pk
    seen = watched(coverage, since=moment(grid.start), now=moment(grid.now))
    if seen is None:
        return {}
    cells = Cells.cut(grid, known_from=seen.known_from, in_step_until=seen.in_step_until, lost=seen.lost)
    there, barred, parts = _Curves(cells), _Curves(cells), _Curves(cells)
    _walk_devices(pk, grid, kinds, there=there, barred=barred, parts=parts)
    held = _held(pk, cells, kinds)
    return {
        product: _levels(
            cells,
            there=there[product].means(),
            barred=barred[product].means(),
            held=[
                whole + part
                for whole, part in zip(held[product].means(), parts[product].means(), strict=True)
            ],
        )
        for product in {*there, *held}
    }


def _levels(
    cells: Cells, *, there: Sequence[float], barred: Sequence[float], held: Sequence[float]
) -> list[Level | None]:
    """The mean level of each bucket over the part of it that is known."""

    def level(cell: int) -> Level | None:
        state = cells.states[cell]
        if state == NOTHING:
            return None
        if state == BEHIND:
            return Level(unknown=there[cell])
        # Somebody may hold a device that its driver does not publish.
        rest = max(there[cell] - held[cell], 0.0)
        if state == LOST:
            return Level(held=held[cell], unknown=rest)
        unavailable = min(barred[cell], rest)
        return Level(held=held[cell], free=rest - unavailable, unavailable=unavailable)

    result: list[Level | None] = []
    for bucket in cells.by_bucket():
        known = [(cells.length(cell), found) for cell in bucket if (found := level(cell)) is not None]
        time = sum(length for length, _level in known)
        total = added(Level(*(part * length / time for part in found)) for length, found in known)
        result.append(total)
    return result


# --- devices: backwards from what there is now ----------------------------------------------------


def _walk_devices(
    cluster: int, grid: Grid, kinds: _Kinds, *, there: _Curves, barred: _Curves, parts: _Curves
) -> None:
    """Fill in how many devices there were, how many could not be had, and of how many a part was held."""

    def bar(reason: str | None, product: str, at: int | None, by: int) -> None:
        if not reason:
            return
        curve = (parts if reason == Device.Reason.PARENT_HELD else barred)[product]
        if at is None:
            curve.begin(by)
        else:
            curve.change(at, by)
            # What is there now is known; what was before is that without the changes since.
            curve.begin(-by)

    now = Device.objects.filter(cluster=cluster).exclude(profile__kind=PARTITION).order_by()
    for digest, state, reason, count in now.values_list("profile__digest", "state", "reason").annotate(
        Count("pk")
    ):
        product = kinds.products[digest]
        there[product].begin(count)
        bar(reason if state == Device.State.UNAVAILABLE else "", product, None, count)
    for kind, at, digest, reason, was, barrier, count in _device_changes(cluster, grid):
        if digest not in kinds.products or digest in kinds.partitions:
            continue
        product, when = kinds.products[digest], us(at)
        if kind in BARRIERS:
            bar(reason, product, when, count)
            bar(was, product, when, -count)
        else:
            by = count * COMINGS[Kind(kind)]
            there[product].change(when, by)
            there[product].begin(-by)
            bar(barrier, product, when, by)


def _device_changes(cluster: int, grid: Grid) -> Iterable[tuple[Any, ...]]:
    """What came, went, and could (not) be had within the grid: alike changes of one instant together."""
    rows = Observation.objects.filter(
        cluster=cluster,
        kind__in=[*COMINGS, *BARRIERS],
        at__gt=moment(grid.start),
        at__lte=moment(grid.now),
    )
    told = {
        name: KeyTextTransform(key, "facts")
        for name, key in (
            ("digest", "profile"),
            ("why", "reason"),
            ("was", "was"),
            ("barrier", "unavailable"),
        )
    }
    return (
        rows.order_by()
        .annotate(**told)
        .values_list("kind", "at", *told)
        .annotate(Count("pk"))
        .iterator(chunk_size=5_000)
    )


# --- the ledger's part ------------------------------------------------------------------------------


def _held(cluster: int, cells: Cells, kinds: _Kinds) -> _Curves:
    """How many devices the ledger says were held. Whole devices are added up by the database."""
    start, end = cells.grid.start, cells.grid.now
    # Of units that nobody names there is no level to compare with.
    rows = Allocation.objects.filter(cluster=cluster, admin_access=False, kind=Allocation.Kind.CLAIM)
    rows = rows.exclude(profile_digest__in=kinds.partitions).order_by()
    whole, curves = rows.filter(share_id=""), _Curves(cells)
    lasting = Q(ended_us=None) | Q(ended_us__gt=start)
    for product, driver, count in (
        whole.filter(lasting, started_us__lte=start).values_list("product", "driver").annotate(Count("pk"))
    ):
        curves[product or driver].begin(count)
    for column, sign in (("started_us", 1), ("ended_us", -1)):
        inside = whole.filter(**{f"{column}__gt": start, f"{column}__lt": end})
        for product, driver, bucket, passed, count, times in _by_cell(inside, column, cells):
            cell = cells.index[bucket, passed]
            curves[product or driver].change_in(cell, sign * count, sign * times)
    for product, begun, ended in _shared(rows.exclude(share_id="").filter(lasting, started_us__lt=end)):
        curves[product].change(begun, 1)
        if ended is not None:
            curves[product].change(ended, -1)
    return curves


def _by_cell(rows: QuerySet[Allocation], column: str, cells: Cells) -> Iterable[tuple[Any, ...]]:
    """Rows by product and cell: how many, and the sum of their times in `column`."""
    whole = BigIntegerField()
    bucket = (F(column) - Value(cells.grid.start, output_field=whole)) / Value(
        cells.grid.width, output_field=whole
    )
    passed: Any = Value(0)
    for edge in cells.extra:
        passed += Case(
            When(**{f"{column}__gte": edge}, then=Value(1)), default=Value(0), output_field=IntegerField()
        )
    return (
        rows.annotate(bucket=bucket, passed=passed)
        .values_list("product", "driver", "bucket", "passed")
        .annotate(Count("pk"), Sum(column))
        .iterator()
    )


def _shared(rows: QuerySet[Allocation]) -> Iterable[tuple[str, int, int | None]]:
    """When shared devices were held at all: the intervals of each, with those that overlap made one."""
    device = ("driver", "pool_name", "device_name")
    values = rows.order_by(*device, "started_us").values_list(*device, "product", "started_us", "ended_us")
    present: tuple[str, ...] = ()
    product, begun, until = "", 0, None
    for driver, pool, name, what, start, end in values.iterator(chunk_size=5_000):
        if present == (driver, pool, name) and (until is None or start <= until):
            until = None if until is None or end is None else max(until, end)
            continue
        if present:
            yield product, begun, until
        present, product, begun, until = (driver, pool, name), what or driver, start, end
    if present:
        yield product, begun, until
