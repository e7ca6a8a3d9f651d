"""What names a DeviceClass: claims, templates, and Pods that ask for its extended resource."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Any

from django.db.models import Q, TextField
from django.db.models.functions import Cast

from inventory.models import Claim, ClaimTemplate, DeviceClass, Pod

# Nobody reads more; the count beyond is told as "more than".
SHOWN = 500


@dataclass(frozen=True)
class ClassUser:
    """One object that would be stranded (or go on without its class) if the class were deleted."""

    kind: str
    namespace: str
    name: str
    # A claim that holds devices keeps them; one that does not would never get any.
    holds: bool = False


# Rooms above the inventory know what offers a class: (cluster, name of the class) to names.
_offering: list[Callable[[int, str], Sequence[str]]] = []


def register_offering(names: Callable[[int, str], Sequence[str]]) -> None:
    """Let `flavors_of` ask this too; asked once however often it is registered."""
    if names not in _offering:
        _offering.append(names)


def flavors_of(device_class: DeviceClass) -> Sequence[str]:
    """Names of the flavors of the catalogue that are served by the class on its cluster."""
    return [name for names in _offering for name in names(device_class.cluster_id, device_class.name)]


@dataclass(frozen=True)
class Demand:
    """What an entry of the catalogue asks of a class: its own `expressions` must hold besides."""

    name: str
    expressions: Sequence[str] = ()


_demanding: list[Callable[[int, str], Sequence[Demand]]] = []


def register_demands(demands: Callable[[int, str], Sequence[Demand]]) -> None:
    """Let `demands_of` ask this too; asked once however often it is registered."""
    if demands not in _demanding:
        _demanding.append(demands)


def demands_of(cluster_id: int, name: str) -> Sequence[Demand]:
    """What flavors ask of a class of a cluster."""
    return [demand for demands in _demanding for demand in demands(cluster_id, name)]


def users_of(device_class: DeviceClass) -> Sequence[ClassUser]:
    """Users of a class on its cluster, by kind, namespace and name; `SHOWN` of a kind at most."""
    return [*_claims(device_class), *_templates(device_class), *_pods(device_class)]


def _claims(device_class: DeviceClass) -> Iterator[ClassUser]:
    claims = Claim.objects.filter(cluster=device_class.cluster_id).annotate(text=Cast("spec", TextField()))
    found = claims.filter(text__contains=f'"{device_class.name}"').order_by("namespace", "name")
    for claim in found.only("namespace", "name", "spec", "allocated")[:SHOWN]:
        if device_class.name in set(class_names_in(claim.spec)):
            yield ClassUser("ResourceClaim", claim.namespace, claim.name, holds=claim.allocated)


def _templates(device_class: DeviceClass) -> Iterator[ClassUser]:
    templates = ClaimTemplate.objects.filter(cluster=device_class.cluster_id)
    found = templates.annotate(text=Cast("spec", TextField())).filter(text__contains=f'"{device_class.name}"')
    for template in found.order_by("namespace", "name")[:SHOWN]:
        if device_class.name in set(class_names_in(template.spec)):
            yield ClassUser("ResourceClaimTemplate", template.namespace, template.name)


def _pods(device_class: DeviceClass) -> Iterator[ClassUser]:
    # The name that the class gives itself, and the one that every class has.
    names = {f"deviceclass.resource.kubernetes.io/{device_class.name}"}
    if device_class.extended_resource_name:
        names.add(device_class.extended_resource_name)
    pods = Pod.objects.filter(cluster=device_class.cluster_id).exclude(phase__in=("Succeeded", "Failed"))
    asking = pods.annotate(text=Cast("extended_resources", TextField())).filter(
        reduce(or_, (Q(text__contains=f'"{name}"') for name in sorted(names)))
    )
    for pod in asking.only("namespace", "name", "extended_resources").order_by("namespace", "name")[:SHOWN]:
        if names.intersection(pod.extended_resources):
            yield ClassUser("Pod", pod.namespace, pod.name)


def names_class(spec: Mapping[str, Any], name: str) -> bool:
    """Whether a claim's spec asks for devices of the class."""
    return name in set(class_names_in(spec))


def class_names_in(spec: Mapping[str, Any]) -> Iterator[str]:
    """Names of the classes in a claim's spec, subrequests included."""
    devices = spec.get("devices") if isinstance(spec, dict) else None
    for request in (devices or {}).get("requests") or []:
        for asked in [request.get("exactly"), *(request.get("firstAvailable") or [])]:
            if asked:
                yield str(asked.get("deviceClassName", ""))
