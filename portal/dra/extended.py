"""Extended resources: what Device Plugins advertise, and classes that stand in for them (KEP-5004)."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from portal.dra.availability import unavailable
from portal.dra.cluster import Feasibility, Room
from portal.dra.model import (
    Container,
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    Node,
    ObjectMeta,
    Pod,
    ResourceClaim,
    ResourceClaimSpec,
    Toleration,
)
from portal.dra.outcomes import Reason
from portal.dra.units import NANO, nanos

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
_FINISHED = ("Succeeded", "Failed")


def requested_by(pod: Pod, resource: str) -> int:
    """Whole units that a Pod asks of its node's Device Plugin.

    Containers count together with sidecars; an init container counts if it alone asks for more.

    What the scheduler serves through a claim of its own is not asked of the plugin.
    """
    served = pod.status.extended_resource_claim_status
    if served is not None and any(item.resource_name == resource for item in served.request_mappings):
        return 0
    running = sum(_asked(container, resource) for container in pod.spec.containers)
    sidecars = 0
    highest = 0
    for container in pod.spec.init_containers:
        amount = _asked(container, resource)
        if container.restart_policy == "Always":
            sidecars += amount
            highest = max(highest, sidecars)
        else:
            highest = max(highest, sidecars + amount)
    return max(running + sidecars, highest)


def free_units(nodes: Iterable[Node], pods: Iterable[Pod], *, resource: str) -> dict[str, int]:
    """Units left on each node that advertises the resource; negative where more is used than allocatable."""
    used: dict[str, int] = defaultdict(int)
    for pod in pods:
        if pod.spec.node_name and pod.status.phase not in _FINISHED:
            used[pod.spec.node_name] += requested_by(pod, resource)
    return {
        node.metadata.name: _units(node.status.allocatable[resource]) - used[node.metadata.name]
        for node in nodes
        if resource in node.status.allocatable
    }


def feasible_nodes(
    nodes: Sequence[Node],
    pods: Iterable[Pod],
    *,
    resource: str,
    amount: int = 1,
    tolerations: Sequence[Toleration] = (),
    node_selector: Mapping[str, str] | None = None,
) -> Feasibility:
    """Nodes that take new Pods and have `amount` units left; nodes without the resource do not appear."""
    free = free_units(nodes, pods, resource=resource)
    found: list[str] = []
    rejected: dict[str, Reason] = {}
    for node in nodes:
        name = node.metadata.name
        if name not in free:
            continue
        reason = unavailable(node, tolerations=tolerations, node_selector=node_selector)
        if reason is None and free[name] < amount:
            params = {"node": name, "resource": resource, "free": max(0, free[name]), "wanted": amount}
            reason = Reason(code="resource-short", params=params)
        if reason is None:
            found.append(name)
        else:
            rejected[name] = reason
    return Feasibility(nodes=tuple(found), rejected=rejected)


def how_many_more(
    nodes: Sequence[Node],
    pods: Iterable[Pod],
    *,
    resource: str,
    amount: int = 1,
    tolerations: Sequence[Toleration] = (),
    node_selector: Mapping[str, str] | None = None,
) -> Room:
    """How many further Pods that each ask for `amount` (at least 1) units would find them now."""
    everything = tuple(pods)
    free = free_units(nodes, everything, resource=resource)
    feasible = feasible_nodes(
        nodes,
        everything,
        resource=resource,
        amount=amount,
        tolerations=tolerations,
        node_selector=node_selector,
    )
    per_node = {name: free[name] // amount for name in feasible.nodes}
    return Room(count=sum(per_node.values()), exact=True, per_node=per_node)


def class_for(classes: Iterable[DeviceClass], resource: str) -> DeviceClass | None:
    """The class that serves an extended resource: the one created last, then the first by name.

    Every class also serves `deviceclass.resource.kubernetes.io/<its name>`.
    """
    everything = list(classes)
    if resource.startswith(IMPLICIT_PREFIX):
        name = resource.removeprefix(IMPLICIT_PREFIX)
        return next((item for item in everything if item.metadata.name == name), None)
    serving = sorted(
        (item for item in everything if item.spec.extended_resource_name == resource),
        key=lambda item: item.metadata.name,
    )
    return max(serving, key=lambda item: item.metadata.creation_timestamp or "", default=None)


def claim_for(device_class: DeviceClass, *, count: int, namespace: str = "", name: str = "") -> ResourceClaim:
    """The claim that the scheduler would make of `count` units of an extended resource."""
    request = DeviceRequest(
        name="container-0-request-0",
        exactly=ExactDeviceRequest(
            device_class_name=device_class.metadata.name, allocation_mode="ExactCount", count=count
        ),
    )
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=(request,))),
    )


def _asked(container: Container, resource: str) -> int:
    amount = container.resources.requests.get(resource, container.resources.limits.get(resource))
    return 0 if amount is None else _units(amount)


def _units(value: str | int | float) -> int:
    return -(-nanos(value) // NANO)
