"""The ledger's invariants, checked on the stored rows. A violation is named, never mended silently.

======================  ==============================================================================
negative-interval       it ends before it begins, or is less than certain
overlap                 two claims held one exclusive device (`contests`)
over-capacity           shares, counters or units in use exceed what there is, so that idle is negative
not-conserved           allocated + idle + unavailable + unknown is not the time a piece of hardware existed
open-unknown            open here, and the last completed list does not know it
missing                 held in the mirror, and not open here
archive-damaged         a file of archived observations is gone or was changed
======================  ==============================================================================
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import Any

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from claims.history.curves import moment, us
from claims.history.watched import watched
from claims.ledger import archive
from claims.ledger.conservation import (
    SECOND,
    UNTOLD,
    WHOLE,
    Excess,
    Number,
    Piece,
    Sums,
    Use,
    add_up,
    amounts_of,
    parts_of,
)
from claims.ledger.published import DeviceName, World, piece_name
from claims.models import Allocation, LedgerCursor
from inventory.coverage import coverage_of
from inventory.models import (
    Claim,
    ClaimDevice,
    Cluster,
    CountedUnits,
    Observation,
    Pod,
    Stream,
)

Kind = Observation.Kind
FINISHED = ("Succeeded", "Failed")
_ROW = (
    *("driver", "pool_name", "device_name", "share_id", "consumed_capacity", "capacity", "counters"),
    *("started_us", "ended_us", "contested"),
)


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One broken invariant: `code` names which, `where` the interval or device, `detail` what is wrong."""

    code: str
    where: str
    detail: str


@dataclass
class Audited:
    """`sums` is the time of all pieces of hardware up to now."""

    violations: list[Violation] = field(default_factory=list)
    sums: Sums = field(default_factory=Sums)
    pieces: int = 0
    since: datetime | None = None


def audit(*, cluster: Cluster, now: datetime) -> Audited:
    """Everything about the ledger of `cluster`. Reads all of it."""
    found = Audited()
    found.violations += _negative(cluster)
    found.violations += _overlaps(cluster)
    _conserve(cluster, now, found)
    found.violations += _units(cluster)
    found.violations += _unknown_open(cluster)
    found.violations += _missing(cluster)
    found.violations += _archived(cluster)
    return found


def _negative(cluster: Cluster) -> Iterator[Violation]:
    rows = Allocation.objects.filter(cluster=cluster).filter(
        Q(ended_at__lt=F("started_at"))
        | Q(end_uncertainty_us__lt=0)
        | Q(start_uncertainty_us__lt=0)
        | Q(end_cut_us__lt=0)
    )
    for row in rows.iterator():
        yield Violation(
            code="negative-interval", where=_where(row), detail=f"from {row.started_at} to {row.ended_at}"
        )


def _overlaps(cluster: Cluster) -> Iterator[Violation]:
    """Exclusive devices (no share, no admin access) belong to one claim at a time."""
    for row in Allocation.objects.filter(cluster=cluster, contested=True).order_by("started_at", "id"):
        others = Allocation.objects.filter(
            Q(ended_at=None) | Q(ended_at__gt=row.started_at),
            cluster=cluster,
            kind=Allocation.Kind.CLAIM,
            driver=row.driver,
            pool_name=row.pool_name,
            device_name=row.device_name,
            share_id="",
            admin_access=False,
            started_at__lte=row.started_at,
        ).exclude(pk=row.pk)
        for other in others.order_by("started_at", "id")[:1]:
            yield Violation(
                code="overlap",
                where=_where(row),
                detail=f"also held by {other.namespace}/{other.claim_name} "
                f"from {other.started_at} to {other.ended_at or 'now'}",
            )


# --- conservation ---------------------------------------------------------------------------------------


def _conserve(cluster: Cluster, now: datetime, found: Audited) -> None:
    seen = watched(_coverage(cluster, now), since=moment(0), now=now)
    found.since = moment(seen.known_from) if seen is not None else None
    for piece, _members, blanks in pieces(cluster, now):
        _judge(piece, blanks, found)
    found.violations += _shared_partitions(cluster, us(now))


def _shared_partitions(cluster: Cluster, now: int) -> Iterator[Violation]:
    """Shares of what itself draws on counters: they may not exceed its own capacities either."""
    rows = _rows(cluster).exclude(share_id="").exclude(counters={})
    for name, held in groupby(rows.iterator(chunk_size=5_000), key=lambda row: tuple(row[:3])):
        uses = [_use((*row[:6], {}, *row[7:]), now) for row in held]
        piece = Piece("/".join(name), [use.of_device() for use in uses])
        _sums, excess = add_up(piece, ())
        if excess is not None:
            yield _exceeded(piece, excess)


def pieces(
    cluster: Cluster, now: datetime, *, world: World | None = None
) -> Iterator[tuple[Piece, Sequence[DeviceName], Sequence[tuple[int, int]]]]:
    """Every piece of hardware with the devices that it is published as, and the times that nobody saw."""
    ends = us(now)
    seen = watched(_coverage(cluster, now), since=moment(0), now=now)
    blanks = seen.blanks(0, ends) if seen is not None else []
    world = world or World.load(cluster, ends)
    shared: dict[str, Piece] = {}
    for name, rows in groupby(_rows(cluster).iterator(chunk_size=5_000), key=lambda row: tuple(row[:3])):
        device: Any = name
        uses = [_use(row, ends) for row in rows]
        world.join(device, frozenset().union(*(use.counters for use in uses)))
        sets = world.sets_of(device)
        if not sets:
            piece = world.piece(device)
            piece.uses = [use.of_device() for use in uses]
            yield piece, [device], blanks
        for one in sets:
            piece = shared.setdefault(piece_name(device, one), Piece(piece_name(device, one), cut=True))
            piece.uses += [use.of_set(one) for use in uses]
    for device in world.left():
        sets = world.sets_of(device)
        if not sets:
            yield world.piece(device), [device], blanks
        for one in sets:
            shared.setdefault(piece_name(device, one), Piece(piece_name(device, one), cut=True))
    for named, piece in shared.items():
        for device in world.members(named):
            piece.published += world.published.get(device, ())
            piece.barred += world.barred.get(device, ())
        yield piece, world.members(named), blanks


@dataclass(frozen=True)
class _Use:
    """One allocation; `counters` are the sets that its device draws on."""

    start: int
    end: int
    parts: Mapping[str, Number]
    counters: frozenset[str]
    apart: str

    def of_device(self) -> Use:
        return Use(self.start, self.end, self.parts, self.apart)

    def of_set(self, counter_set: str) -> Use:
        """What it takes of one set; all of it where nobody told how much."""
        parts = {
            name: part
            for name, part in self.parts.items()
            if name == WHOLE or name.rpartition("/")[0] == counter_set
        }
        return Use(self.start, self.end, parts, self.apart)


def _use(row: Sequence[Any], now: int) -> _Use:
    _driver, _pool, _device, share_id, consumed, capacity, counters, start, end, contested = row
    amounts = amounts_of(consumed, capacity) if share_id else {}
    parts = parts_of(shared=bool(share_id), amounts=amounts, counters=counters)
    sets = frozenset(name.rpartition("/")[0] for name in counters)
    apart = SECOND if contested else UNTOLD if share_id and not amounts else ""
    return _Use(start, now if end is None else end, parts, sets, apart)


def _rows(cluster: Cluster) -> QuerySet[Any, Any]:
    rows = Allocation.objects.filter(cluster=cluster, kind=Allocation.Kind.CLAIM, admin_access=False)
    ordered = rows.order_by("driver", "pool_name", "device_name", "started_at")
    return ordered.values_list(*_ROW)


def _judge(piece: Piece, blanks: Sequence[tuple[int, int]], found: Audited) -> None:
    sums, excess = add_up(piece, blanks)
    found.sums.add(sums)
    found.pieces += 1
    if excess is not None:
        found.violations.append(_exceeded(piece, excess))
    if not sums.conserved:
        found.violations.append(Violation(code="not-conserved", where=piece.name, detail=str(sums)))


def _exceeded(piece: Piece, excess: Excess) -> Violation:
    what = f" of {excess.what}" if excess.what else ""
    return Violation(
        code="over-capacity",
        where=piece.name,
        detail=f"{float(excess.share):.0%}{what} in use at {moment(excess.at):%Y-%m-%dT%H:%M:%S.%fZ}",
    )


def _coverage(cluster: Cluster, now: datetime) -> Any:
    return coverage_of(cluster, Stream.objects.filter(cluster=cluster), now=now)


def _archived(cluster: Cluster) -> Iterator[Violation]:
    """The ledger can be rebuilt: what was moved into files is still there."""
    for fault in archive.damaged(cluster=cluster):
        yield Violation(code="archive-damaged", where=fault.file_name, detail=fault.reason)


# --- what is open ---------------------------------------------------------------------------------------


def _listed(cluster: Cluster, resource: str) -> bool:
    streams = Stream.objects.filter(cluster=cluster, resource=resource)
    return streams.exclude(listed_at=None).exists()


def _settled(rows: QuerySet[Any], cluster: Cluster, uid: str) -> QuerySet[Any]:
    """Without those of which something is observed that is not folded yet."""
    cursor = LedgerCursor.objects.filter(cluster=cluster).first()
    newer = Observation.objects.filter(
        cluster=cluster, uid=OuterRef(uid), id__gt=cursor.observation_id if cursor else 0
    )
    return rows.exclude(Exists(newer))


def _unknown_open(cluster: Cluster) -> Iterator[Violation]:
    """An open interval must be a claim that the mirror knows as allocated, or a Pod that runs, once those
    have been listed."""
    known = {
        Allocation.Kind.CLAIM: Claim.objects.filter(
            cluster=cluster, allocated=True, uid=OuterRef("claim_uid"), epoch=OuterRef("epoch")
        ),
        Allocation.Kind.UNITS: Pod.objects.filter(cluster=cluster, uid=OuterRef("claim_uid")).exclude(
            phase__in=FINISHED
        ),
    }
    resources = {Allocation.Kind.CLAIM: "resourceclaims", Allocation.Kind.UNITS: "pods"}
    for kind, mirrored in known.items():
        if not _listed(cluster, resources[kind]):
            continue
        rows = Allocation.objects.filter(cluster=cluster, kind=kind, ended_at=None)
        for row in _settled(rows.exclude(Exists(mirrored)), cluster, "claim_uid").iterator():
            yield Violation(
                code="open-unknown",
                where=_where(row),
                detail="still open here, and the mirror knows no such allocation",
            )


def _missing(cluster: Cluster) -> Iterator[Violation]:
    """Every device that the mirror knows as allocated must be open here, and the units of every Pod that
    runs."""
    here = Allocation.objects.filter(
        cluster=cluster,
        claim_uid=OuterRef("claim__uid"),
        epoch=OuterRef("claim__epoch"),
        driver=OuterRef("driver"),
        pool_name=OuterRef("pool_name"),
        device_name=OuterRef("device_name"),
        share_id=OuterRef("share_id"),
        ended_at=None,
    )
    lacking = ClaimDevice.objects.exclude(Exists(here)).filter(claim=OuterRef("pk"))
    claims = Claim.objects.filter(Exists(lacking), cluster=cluster, allocated=True)
    for claim in _settled(claims, cluster, "uid").iterator():
        yield Violation(
            code="missing",
            where=f"{claim.namespace}/{claim.name} uid {claim.uid} epoch {claim.epoch}",
            detail="allocated on the cluster, and not all of it is open here",
        )
    units = Allocation.objects.filter(
        cluster=cluster, claim_uid=OuterRef("uid"), kind=Allocation.Kind.UNITS, ended_at=None
    )
    pods = Pod.objects.filter(cluster=cluster).exclude(extended_resources={}).exclude(node_name="")
    pods = pods.exclude(phase__in=FINISHED).exclude(Exists(units)).defer("labels", "annotations")
    for pod in _settled(pods, cluster, "uid").iterator():
        served = set(pod.extended_mapping.values())
        if any(count > 0 for name, count in pod.extended_resources.items() if name not in served):
            yield Violation(
                code="missing",
                where=f"{pod.namespace}/{pod.name} uid {pod.uid}",
                detail="has units on the cluster, and none is open here",
            )


def _units(cluster: Cluster) -> Iterator[Violation]:
    """No more units are in use on a node than it has."""
    open_units: Counter[tuple[str, str]] = Counter()
    rows = Allocation.objects.filter(cluster=cluster, kind=Allocation.Kind.UNITS, ended_at=None)
    for node, resource, units in rows.values_list("node_name", "extended_resource", "units").iterator():
        open_units[node, resource] += units
    there = CountedUnits.objects.filter(cluster=cluster)
    for node, resource, capacity in there.values_list("node_name", "resource", "capacity").iterator():
        if (used := open_units[node, resource]) > capacity:
            yield Violation(
                code="over-capacity",
                where=f"{resource} on {node}",
                detail=f"{used} units in use of {capacity}",
            )


def _where(row: Allocation) -> str:
    return (
        f"{row.driver}/{row.pool_name}/{row.device_name} "
        f"{row.namespace}/{row.claim_name} uid {row.claim_uid} epoch {row.epoch}"
    )
