"""Extended resources that DRA serves (KEP 5004): a Pod asks for ``nvidia.com/gpu: 1`` and gets a claim made
for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portal.demo.store import Object
from portal.dra.model import Container, DeviceClass, Node, Pod

from .claims import EXTENDED_RESOURCE_CLAIM
from .fit import IMPLICIT_PREFIX, is_extended, nanos
from .world import owner_reference

ONE = 10**9


@dataclass(frozen=True, slots=True)
class Wish:
    """``count`` devices of a class for one container, asked for under the name of an extended resource."""

    container: str
    resource: str
    request: str
    device_class: str
    count: int


def classes_by_resource(classes: Mapping[tuple[str, str], DeviceClass]) -> dict[str, str]:
    """Which class serves which extended resource; of several the newest, then the first by name, as
    upstream."""
    chosen: dict[str, DeviceClass] = {}
    for device_class in classes.values():
        if resource := device_class.spec.extended_resource_name:
            rival = chosen.get(resource)
            if rival is None or _outranks(device_class, rival):
                chosen[resource] = device_class
    served = {resource: device_class.metadata.name for resource, device_class in chosen.items()}
    served.update({IMPLICIT_PREFIX + name: name for _, name in classes})
    return served


def _outranks(one: DeviceClass, other: DeviceClass) -> bool:
    mine, theirs = one.metadata.creation_timestamp or "", other.metadata.creation_timestamp or ""
    return mine > theirs or (mine == theirs and one.metadata.name < other.metadata.name)


def wishes_of(pod: Pod, served: Mapping[str, str]) -> list[Wish]:
    """All extended resources of a Pod that a class could serve, container by container."""
    found = []
    for index, container in enumerate((*pod.spec.init_containers, *pod.spec.containers)):
        for number, (resource, amount) in enumerate(sorted(_extended(container).items())):
            if amount and resource in served:
                found.append(
                    Wish(
                        container=container.name,
                        resource=resource,
                        request=f"container-{index}-request-{number}",
                        device_class=served[resource],
                        count=amount // ONE,
                    )
                )
    return found


def _extended(container: Container) -> dict[str, int]:
    amounts = {**container.resources.limits, **container.resources.requests}
    return {name: nanos(str(value)) for name, value in amounts.items() if is_extended(name)}


def left_to_dra(asked: Sequence[Wish], node: Node) -> list[Wish]:
    """What the node's own device plugins do not serve: the rest is for devices."""
    return [wish for wish in asked if not nanos(str(node.status.allocatable.get(wish.resource, "0")))]


def claim_for(raw_pod: Object, asked: Sequence[Wish]) -> Object:
    """The claim that the scheduler makes for a Pod, ready to be created."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": f"{raw_pod['metadata']['name']}-extended-resources-",
            "namespace": raw_pod["metadata"]["namespace"],
            "annotations": {EXTENDED_RESOURCE_CLAIM: "true"},
            "ownerReferences": [owner_reference(raw_pod)],
        },
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": wish.request,
                        "exactly": {
                            "deviceClassName": wish.device_class,
                            "allocationMode": "ExactCount",
                            "count": wish.count,
                        },
                    }
                    for wish in asked
                ]
            }
        },
    }


def claim_status(claim_name: str, asked: Sequence[Wish]) -> Object:
    """The Pod's ``status.extendedResourceClaimStatus``."""
    return {
        "resourceClaimName": claim_name,
        "requestMappings": [
            {"containerName": wish.container, "resourceName": wish.resource, "requestName": wish.request}
            for wish in asked
        ],
    }
