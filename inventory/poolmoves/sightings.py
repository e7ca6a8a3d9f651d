"""The devices of a node pool as both ways tell of them: what a Device Plugin counts and what DRA names, node
by node, with every difference named.

The worst of them is two managers of one device: while a plugin and a driver offer the same hardware, the
scheduler's two books may hand it out twice.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from inventory.models import CountedUnits, Device, Node, Pool, Twin
from inventory.poolmoves.pool import CANARY, Members, NodePool
from inventory.products import PARTITION

# What a node's labels say about how many pieces it has.
COUNT_LABELS = ("nvidia.com/gpu.count", "gpu.intel.com/device.count")


@dataclass(frozen=True, kw_only=True)
class NodeSighting:
    """One node. `units` are of the extended resource, and `pieces` how many pieces of hardware those are
    (None = it advertises none); `devices` are whole devices that its driver publishes, each piece once;
    `twins` further names of theirs; `labelled` what the node's labels say (None = nothing)."""

    node: str
    part: str
    ready: bool
    units: int | None
    pieces: int | None
    used: int | None
    devices: int
    held: int
    twins: int
    partitions: int
    labelled: int | None
    differences: tuple[str, ...]

    @property
    def dangerous(self) -> bool:
        return "both-managers" in self.differences

    @property
    def words(self) -> list[str]:
        return [difference_words(code, self) for code in self.differences]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """All nodes of the pool, and their sums by part (CANARY, OLD)."""

    rows: Sequence[NodeSighting]
    # Pools of its driver that the scheduler would not use, by name.
    broken_pools: Sequence[str]

    def total(self, part: str) -> Mapping[str, int]:
        """{"nodes", "units", "pieces", "devices", "held", "twins", "differences"} of a part."""
        sums: Counter[str] = Counter(nodes=0, units=0, pieces=0, devices=0, held=0, twins=0, differences=0)
        for row in self.rows:
            if row.part == part:
                sums.update(
                    nodes=1,
                    units=row.units or 0,
                    pieces=row.pieces or 0,
                    devices=row.devices,
                    held=row.held,
                    twins=row.twins,
                    differences=bool(row.differences),
                )
        return dict(sums)

    @property
    def dangers(self) -> list[str]:
        """Nodes whose hardware has two managers."""
        return [row.node for row in self.rows if row.dangerous]


def compare(pool: NodePool, members: Members) -> Comparison:
    """Both inventories of a pool; four queries, whatever its size."""
    counted = {
        row.node_name: row
        for row in CountedUnits.objects.filter(
            cluster=pool.cluster, resource=pool.extended_resource, capacity__gt=0
        )
        if row.node_name in members.parts
    }
    published = _published(pool, members)
    rows = [
        _sighting(
            node=members.nodes[name],
            part=part,
            counted=counted.get(name),
            published=published.get(name, Counter()),
        )
        for name, part in members.parts.items()
    ]
    return Comparison(rows=rows, broken_pools=_broken(pool, members))


def _published(pool: NodePool, members: Members) -> Mapping[str, Counter[str]]:
    """By node: "devices", "held", "partitions" and "twins" of the pool's driver."""
    here = Device.objects.filter(cluster=pool.cluster).exclude(node_name="").order_by()
    drivers = {
        name for name in Pool.objects.filter(cluster=pool.cluster).values_list("driver", flat=True)
        if pool.is_its_driver(name)
    }  # fmt: skip
    rows = here.filter(pool__driver__in=drivers).values_list("pk", "node_name", "profile__kind", "state")
    doubles = set(Twin.objects.filter(cluster=pool.cluster, counts=False).values_list("device_id", flat=True))
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for pk, node, kind, state in rows.iterator():
        if node not in members.parts:
            continue
        if kind == PARTITION:
            found[node]["partitions"] += 1
        elif pk in doubles:
            found[node]["twins"] += 1
        else:
            found[node]["devices"] += 1
            found[node]["held"] += state in (Device.State.HELD, Device.State.PARTLY)
    return found


def _sighting(
    *, node: Node, part: str, counted: CountedUnits | None, published: Counter[str]
) -> NodeSighting:
    pieces = None if counted is None else -(-counted.capacity // max(counted.replicas, 1))
    labelled = next((n for label in COUNT_LABELS if (n := _whole(node.labels.get(label))) is not None), None)
    devices, partitions = published["devices"], published["partitions"]
    return NodeSighting(
        node=node.name,
        part=part,
        ready=node.ready and not node.unschedulable,
        units=counted.capacity if counted else None,
        pieces=pieces,
        used=counted.used if counted else None,
        devices=devices,
        held=published["held"],
        twins=published["twins"],
        partitions=partitions,
        labelled=labelled,
        differences=tuple(
            _differences(
                part=part, pieces=pieces, devices=devices, partitions=partitions, labelled=labelled,
                plain=counted is None or counted.kind != PARTITION, twins=published["twins"],
                ready=node.ready and not node.unschedulable,
            )
        ),
    )  # fmt: skip


def _differences(
    *,
    part: str,
    pieces: int | None,
    devices: int,
    partitions: int,
    labelled: int | None,
    plain: bool,
    twins: int,
    ready: bool,
) -> Iterable[str]:
    named = bool(devices or partitions)
    if pieces is not None and named:
        yield "both-managers"
    if pieces is not None and devices and plain and pieces != devices:
        yield "counts-differ"
    if pieces is None and not named:
        yield "neither"
    if part == CANARY and not named and pieces is not None:
        yield "canary-without-driver"
    if labelled is not None and plain and not partitions:
        seen = devices if devices else pieces
        if seen is not None and seen != labelled:
            yield "labels-differ"
    if twins:
        yield "twins"
    if not ready:
        yield "not-ready"


def difference_words(code: str, row: NodeSighting) -> str:
    """A difference as a sentence."""
    sentences = {
        "both-managers": _(
            "Danger: a Device Plugin and a DRA driver both manage this node's hardware, and may hand out the"
            " same device twice. Stop one of them here."
        ),
        "counts-differ": _(
            "The plugin counts %(pieces)s pieces of hardware, the driver publishes %(devices)s."
        ),
        "neither": _("Neither a plugin nor a driver tells of any device here."),
        "canary-without-driver": _(
            "It is of the canary, and its devices are still counted by the plugin only."
        ),
        "labels-differ": _("The node's labels speak of %(labelled)s pieces of hardware, seen are %(seen)s."),
        "twins": _("%(twins)s further names of the same hardware are published."),
        "not-ready": _("The node takes no Pods at present: it is cordoned or not ready."),
    }
    told = {
        "pieces": row.pieces,
        "devices": row.devices,
        "labelled": row.labelled,
        "seen": row.devices or row.pieces,
        "twins": row.twins,
    }
    return sentences[code] % told


def _broken(pool: NodePool, members: Members) -> list[str]:
    """Pools on the members' nodes that the scheduler does not use."""
    rows = Pool.objects.filter(cluster=pool.cluster).order_by("driver", "name")
    return [
        row.name
        for row in rows
        if row.name in members.parts
        and pool.is_its_driver(row.driver)
        and (not row.complete or row.problem or row.missing_gate)
    ]


def _whole(text: object) -> int | None:
    said = str(text)
    return int(said) if said.isascii() and said.isdigit() and len(said) < 6 else None
