"""Whether a device can be reached: is there a node that would take a Pod and on which the device is
usable?"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from inventory.models import Device, Node, ResourceSlice
from portal.dra import model as dra
from portal.dra import nodeselector
from portal.dra.taints import PREVENTING
from portal.sql import chunks

Reason = Device.Reason


def node_reason(node: Node) -> Reason:
    """Why a node would not take a Pod that tolerates nothing; NONE if it would."""
    if not node.ready:
        return Reason.NOT_READY
    if node.unschedulable:
        return Reason.CORDONED
    if any(taint.get("effect") in PREVENTING for taint in node.taints):
        return Reason.NODE_TAINTED
    return Reason.NONE


def obstacles(*, cluster_id: int, devices: Sequence[tuple[int, int, str]]) -> Mapping[int, Reason]:
    """For devices (pk, slice pk, name) that are usable on several nodes: NONE where one of them would take
    a Pod, else what stands against it on one of them, or that there is none."""
    if not devices:
        return {}
    nodes = [
        (dra.Node(metadata=dra.ObjectMeta(name=node.name, labels=node.labels)), node_reason(node))
        for node in Node.objects.filter(cluster_id=cluster_id).only(
            "name", "labels", "ready", "unschedulable", "taints"
        )
    ]
    names: dict[int, dict[str, int]] = defaultdict(dict)
    for pk, slice_id, name in devices:
        names[slice_id][name] = pk
    found: dict[int, Reason] = {pk: Reason.NODE_MISSING for pk, _, _ in devices}
    for ids in chunks(names):
        for slice_id, manifest in ResourceSlice.objects.filter(pk__in=ids).values_list("pk", "manifest"):
            item = dra.decode_object(manifest)
            # We stored nothing else.
            assert isinstance(item, dra.ResourceSlice)
            found |= _of_slice(item, names[slice_id], nodes)
    return found


def _of_slice(
    item: dra.ResourceSlice, wanted: Mapping[str, int], nodes: Sequence[tuple[dra.Node, Reason]]
) -> dict[int, Reason]:
    spec = item.spec
    if not spec.per_device_node_selection:
        return dict.fromkeys(
            wanted.values(), _best(spec.node_selector, nodes, everywhere=bool(spec.all_nodes))
        )
    return {
        wanted[device.name]: _best(device.node_selector, nodes, everywhere=bool(device.all_nodes))
        for device in spec.devices
        if device.name in wanted
    }


def _best(
    selector: dra.NodeSelector | None, nodes: Sequence[tuple[dra.Node, Reason]], *, everywhere: bool
) -> Reason:
    against = Reason.NODE_MISSING
    for node, reason in nodes:
        if not (everywhere or (selector is not None and _admits(selector, node))):
            continue
        if reason == Reason.NONE:
            return Reason.NONE
        against = reason
    return against


def _admits(selector: dra.NodeSelector, node: dra.Node) -> bool:
    try:
        return nodeselector.matches(selector, node)
    except nodeselector.UnusableSelector:
        # The scheduler would not use it either.
        return False
