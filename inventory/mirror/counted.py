"""Counted units of Device Plugins, kept up to date in the transaction that changes what they hang on: a
node's resources and labels, the Pods on it, and the devices that DRA drivers publish of it."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from inventory import plugins
from inventory.mirror import reach
from inventory.mirror.kind import save
from inventory.mirror.turn import Turn
from inventory.models import CountedUnits, Device, Node, Pod, Stream
from portal.sql import chunks

FINISHED = ("Succeeded", "Failed")
MOST = 2**31 - 1
_COLUMNS = (
    *("vendor", "product", "kind", "memory_bytes", "sharing", "replicas", "mig_strategy", "capacity"),
    *("allocatable", "used", "free", "unavailable", "both_ways", "counts"),
)


def refresh(turn: Turn) -> None:
    """Settle the units of all nodes that the turn has touched."""
    if turn.pods_listed:
        # Until then nothing was known of what Pods use.
        every = CountedUnits.objects.filter(cluster_id=turn.cluster_id).values_list("node_name", flat=True)
        turn.dirty_counts |= set(every)
    touched = turn.dirty_counts | turn.dirty_nodes
    if not touched:
        return
    pods_seen = Stream.objects.filter(
        cluster_id=turn.cluster_id, resource="pods", listed_at__isnull=False
    ).exists()
    for names in chunks(sorted(touched)):
        _refresh(turn, names, pods_seen=pods_seen)


def _refresh(turn: Turn, names: Sequence[str], *, pods_seen: bool) -> None:
    here = CountedUnits.objects.filter(cluster_id=turn.cluster_id, node_name__in=names)
    stored = {(row.node_name, row.resource): row for row in here}
    nodes = Node.objects.filter(cluster_id=turn.cluster_id, name__in=names).exclude(capacity={})
    found = list(nodes)
    if not found and not stored:
        return
    used = _used(turn.cluster_id, names) if pods_seen else None
    vendors = _vendors(turn.cluster_id, [node.name for node in found])
    changed: list[CountedUnits] = []
    kept: set[tuple[str, str]] = set()
    for node in found:
        for row in _units(node, used=used, vendors=vendors.get(node.name, frozenset())):
            key = (row.node_name, row.resource)
            kept.add(key)
            old = stored.get(key)
            row.pk = old.pk if old is not None else None
            if old is None or any(getattr(old, name) != getattr(row, name) for name in _COLUMNS):
                changed.append(row)
    save(changed, _COLUMNS)
    gone = [row.pk for key, row in stored.items() if key not in kept]
    for ids in chunks(gone):
        CountedUnits.objects.filter(pk__in=ids).delete()
    turn.changed = turn.changed or bool(changed or gone)


def _units(
    node: Node, *, used: Mapping[str, Counter[str]] | None, vendors: frozenset[str]
) -> Iterable[CountedUnits]:
    takes_pods = reach.node_reason(node) == reach.Reason.NONE
    for resource in sorted(node.capacity):
        capacity = whole(node.capacity[resource])
        # A plugin that is gone leaves its resource with zero units behind.
        if not capacity:
            continue
        unit = plugins.describe(resource, labels=node.labels, advertised=node.capacity)
        allocatable = min(whole(node.allocatable.get(resource, 0)), capacity)
        taken = None if used is None else min(used.get(node.name, Counter())[resource], MOST)
        held = min(taken or 0, capacity)
        free = max(allocatable - held, 0) if takes_pods and taken is not None else 0
        both_ways = bool(unit.vendor) and unit.vendor in vendors
        yield CountedUnits(
            cluster_id=node.cluster_id,
            node_name=node.name,
            resource=resource[:317],
            vendor=unit.vendor[:63],
            product=unit.product[:128],
            kind=unit.kind,
            memory_bytes=unit.memory_bytes,
            sharing=unit.sharing[:63],
            replicas=min(unit.replicas, MOST),
            mig_strategy=unit.mig_strategy[:32],
            capacity=capacity,
            allocatable=allocatable,
            used=taken,
            free=free,
            unavailable=capacity - held - free,
            both_ways=both_ways,
            counts=unit.counts and not both_ways,
        )


def _used(cluster_id: int, names: Sequence[str]) -> Mapping[str, Counter[str]]:
    """Units that unfinished Pods ask for, by node and resource."""
    used: dict[str, Counter[str]] = defaultdict(Counter)
    pods = Pod.objects.filter(cluster_id=cluster_id, node_name__in=names).exclude(phase__in=FINISHED)
    for node, resources in pods.values_list("node_name", "extended_resources"):
        for name, count in resources.items():
            used[node][name] += whole(count)
    return used


def _vendors(cluster_id: int, names: Sequence[str]) -> Mapping[str, frozenset[str]]:
    """Vendors of the devices that DRA drivers publish, by node."""
    vendors: dict[str, set[str]] = defaultdict(set)
    devices = Device.objects.filter(cluster_id=cluster_id, node_name__in=names).order_by()
    for node, driver in devices.values_list("node_name", "pool__driver").distinct():
        vendors[node].add(plugins.vendor_of(driver))
    return {node: frozenset(found - {""}) for node, found in vendors.items()}


def whole(count: object) -> int:
    """Extended resources are whole numbers; anything else is not ours to guess."""
    text = str(count)
    return min(int(text), MOST) if text.isascii() and text.isdigit() and len(text) < 20 else 0
