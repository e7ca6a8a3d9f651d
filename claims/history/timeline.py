"""The ledger as bars on lanes: who held what, as much of it as the reader may know.

A lane is a device, a node or a project. A window of time may hold more intervals than a screen has room for:
what is shorter than the finest time that can be seen is drawn together with its neighbours, as one bar that
says how many it stands for.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import chain, islice
from typing import NamedTuple

from django.db.models import QuerySet

from claims.history.curves import us
from claims.history.intervals import HistoryFilter, allocations
from claims.history.spans import newest_first
from claims.history.watched import watched
from claims.models import Allocation
from inventory.coverage import Coverage, coverage_of_all
from portal import access
from portal.accounts.models import Project, User

DEVICE, NODE, PROJECT = "device", "node", "project"
LANES_BY = (DEVICE, NODE, PROJECT)
# Beyond this a chart tells nothing; the reader narrows what is shown.
MOST_LANES = 400
MOST_INTERVALS = 100_000
_COLUMNS = (
    *("cluster_id", "driver", "pool_name", "device_name", "node_name", "product", "project_id"),
    *("namespace", "claim_name", "started_us", "ended_us", "end_uncertainty_us", "extended_resource", "kind"),
)


class Bar(NamedTuple):
    """[start, end) in microseconds since 1970; `end` None = held now. A bar of several intervals has their
    number in `many`, and no claim; its project is None unless it is the same for all."""

    start: int
    end: int | None
    project: int | None
    claim: str = ""
    many: int = 1
    # It ended then, or at most so much later.
    uncertainty: int = 0


@dataclass
class Lane:
    """`blanks` are the times of which nothing is known there."""

    key: str
    name: str
    note: str
    cluster: str
    node: str
    bars: list[Bar] = field(default_factory=list)
    blanks: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True)
class Timeline:
    start: int
    end: int
    now: int
    lanes: Sequence[Lane]
    projects: Mapping[int, Project]
    # How many lanes there are in all; those beyond MOST_LANES are left out.
    lane_count: int
    # Not all intervals could be looked at.
    cut: bool


def timeline(
    *,
    wanted: HistoryFilter,
    start: datetime,
    end: datetime,
    now: datetime,
    viewer: User,
    by: str = DEVICE,
    resolution: int = 0,
) -> Timeline:
    """What the filter admits in [start, end), whatever period it names itself. Bars of one lane that are
    shorter than `resolution` microseconds and no farther apart are drawn together."""
    rows = newest_first(allocations(replace(wanted, start=start, end=end), viewer=viewer), start=start)
    coverage = coverage_of_all(now=now)
    clusters = {pk: known.cluster.name for pk, known in coverage.items()}
    lanes, cut = _lanes(rows, by=by, viewer=viewer, clusters=clusters)
    ordered = sorted(
        lanes.values(),
        key=lambda lane: (lane.cluster, _natural(lane.node), _natural(lane.name), lane.key),
    )
    shown = ordered[:MOST_LANES]
    for lane in shown:
        lane.bars = list(together(lane.bars, resolution=resolution, now=us(now)))
    if by != PROJECT:
        _blank(shown, coverage.values(), start=start, end=end, now=now, resolution=resolution)
    named = {bar.project for lane in shown for bar in lane.bars} - {None}
    return Timeline(
        start=us(start),
        end=us(end),
        now=us(now),
        lanes=shown,
        projects=Project.objects.in_bulk(sorted(pk for pk in named if pk is not None)),
        lane_count=len(ordered),
        cut=cut,
    )


def together(bars: Iterable[Bar], *, resolution: int, now: int) -> Iterator[Bar]:
    """The bars of a lane in order of time, with those too short to be seen made one with their neighbours."""
    last: Bar | None = None
    for bar in sorted(bars, key=lambda bar: bar.start):
        if last is None:
            last = bar
            continue
        begin, end = last.start, now if last.end is None else last.end
        short = (now if bar.end is None else bar.end) - bar.start < resolution and end - begin < resolution
        if short and bar.end is not None and last.end is not None and bar.start - end < resolution:
            last = Bar(
                start=begin,
                end=max(end, bar.end),
                project=last.project if last.project == bar.project else None,
                many=last.many + bar.many,
            )
        else:
            yield last
            last = bar
    if last is not None:
        yield last


def _lanes(
    rows: Sequence[QuerySet[Allocation]], *, by: str, viewer: User, clusters: Mapping[int, str]
) -> tuple[dict[str, Lane], bool]:
    everything = access.may_read_everything(viewer)
    detailed = set() if everything else set(Project.objects.detailed_to(viewer).values_list("pk", flat=True))
    names = {} if by != PROJECT else dict(Project.objects.values_list("pk", "name"))
    lanes: dict[str, Lane] = {}
    # Admin access looks at devices without holding them.
    values = (
        part.filter(admin_access=False).order_by("-started_at", "-id").values_list(*_COLUMNS, named=True)
        for part in rows
    )
    read = 0
    told = chain.from_iterable(part.iterator(chunk_size=5_000) for part in values)
    for row in islice(told, MOST_INTERVALS + 1):
        read += 1
        place = row.node_name or row.pool_name
        if by == DEVICE:
            key = f"{row.cluster_id}/{row.driver}/{row.pool_name}/{row.device_name}"
            # Units of a Device Plugin have no names.
            name = row.extended_resource if row.kind == Allocation.Kind.UNITS else row.device_name
            note = row.product
        elif by == NODE:
            key, name, note = f"{row.cluster_id}/{place}", place, ""
        else:
            key, name, note = str(row.project_id or ""), names.get(row.project_id, ""), ""
        if (lane := lanes.get(key)) is None:
            where = (clusters.get(row.cluster_id, ""), place) if by != PROJECT else ("", "")
            lane = lanes[key] = Lane(key, name, note, *where)
        claim = f"{row.namespace}/{row.claim_name}" if everything or row.project_id in detailed else ""
        lane.bars.append(
            Bar(row.started_us, row.ended_us, row.project_id, claim, uncertainty=row.end_uncertainty_us)
        )
    return lanes, read > MOST_INTERVALS


def _blank(
    lanes: Sequence[Lane],
    coverage: Iterable[Coverage],
    *,
    start: datetime,
    end: datetime,
    now: datetime,
    resolution: int,
) -> None:
    """Enter of which time nothing is known."""
    until = min(end, now)
    blanks: dict[str, Sequence[tuple[int, int]]] = {}
    wanted = {lane.cluster for lane in lanes}
    for known in coverage:
        if known.cluster.name in wanted and (seen := watched(known, since=start, now=now)) is not None:
            blanks[known.cluster.name] = _drawn(seen.blanks(us(start), us(until)), resolution)
    for lane in lanes:
        lane.blanks = blanks.get(lane.cluster, ())


def _drawn(blanks: Iterable[tuple[int, int]], resolution: int) -> list[tuple[int, int]]:
    """Blanks in order, with those made one that are nearer to each other than can be seen."""
    drawn: list[tuple[int, int]] = []
    for begin, ended in blanks:
        if drawn and begin - drawn[-1][1] < resolution:
            drawn[-1] = drawn[-1][0], ended
        else:
            drawn.append((begin, ended))
    return drawn


def _natural(name: str) -> list[tuple[int, str]]:
    """gpu-2 before gpu-10."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d{1,18})", name)]


def held_time(lane: Lane, *, start: int, end: int, now: int) -> int:
    """How long the lane was held within [start, end) by anybody, in microseconds; overlapping bars count
    once."""
    total, until = 0, start
    for bar in sorted(lane.bars, key=lambda bar: bar.start):
        low, high = max(bar.start, until), min(now if bar.end is None else bar.end, end)
        if high > low:
            total += high - low
            until = high
    return total
