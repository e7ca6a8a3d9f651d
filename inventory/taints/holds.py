"""Who holds something at a place: claims with devices there, and Pods with units that are only counted."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import Q

from inventory.models import Claim, ClaimDevice, Pod
from inventory.models.taints import Place
from inventory.taints.concerned import Concern, concerns_of
from inventory.taints.places import Scope, Where, devices_at

FINISHED = ("Succeeded", "Failed")


@dataclass(frozen=True, kw_only=True)
class Hold:
    """A claim or, where units are only counted, a Pod; `things` are the devices or amounts that it has."""

    namespace: str
    name: str
    uid: str
    counted: bool
    things: Sequence[str]
    # Names of the Pods that use it.
    pods: Sequence[str]
    concern: Concern = field(default_factory=Concern)


def holds_at(place: Place | Where, *, now: datetime) -> list[Hold]:
    """By namespace and name; a fixed number of queries. Claims with admin access hold nothing."""
    found = [*_claims(place), *_counted(place)]
    behind = concerns_of(place.cluster.pk, [(hold.namespace, hold.uid) for hold in found], now=now)
    return [
        Hold(
            namespace=hold.namespace, name=hold.name, uid=hold.uid, counted=hold.counted, things=hold.things,
            pods=hold.pods, concern=behind[hold.uid],
        )
        for hold in sorted(found, key=lambda hold: (hold.namespace, hold.name))
    ]  # fmt: skip


def concerns_at(place: Place | Where, *, now: datetime) -> list[Concern]:
    """The same, only whose it is."""
    return [hold.concern for hold in holds_at(place, now=now)]


def _claims(place: Place | Where) -> list[Hold]:
    there = Q(device__in=devices_at(place))
    if place.scope == Scope.NODE:
        # Also of devices that no driver publishes any more.
        there |= Q(claim__node_name=place.node_name)
    elif place.scope == Scope.CLUSTER:
        there = Q()
    rows = ClaimDevice.objects.filter(
        there, claim__cluster=place.cluster, claim__allocated=True, admin_access=False
    )
    devices: dict[int, list[str]] = defaultdict(list)
    for claim, name in rows.order_by("device_name").values_list("claim_id", "device_name"):
        devices[claim].append(name)
    claims = Claim.objects.filter(pk__in=rows.values("claim"))
    return [
        Hold(
            namespace=namespace, name=name, uid=uid, counted=False, things=devices[pk], pods=_pods_of(status)
        )
        for pk, namespace, name, uid, status in claims.values_list("pk", "namespace", "name", "uid", "status")
    ]  # fmt: skip


def _pods_of(status: Mapping[str, object]) -> list[str]:
    reserved = status.get("reservedFor")
    entries = reserved if isinstance(reserved, list) else []
    return [str(entry.get("name", "")) for entry in entries if entry.get("resource") == "pods"]


def _counted(place: Place | Where) -> list[Hold]:
    if place.scope not in (Scope.NODE, Scope.CLUSTER):
        return []
    pods = Pod.objects.filter(cluster=place.cluster).exclude(phase__in=FINISHED).exclude(node_name="")
    if place.scope == Scope.NODE:
        pods = pods.filter(node_name=place.node_name)
    columns = ("namespace", "name", "uid", "extended_resources", "extended_mapping")
    rows = pods.exclude(extended_resources={}).values_list(*columns)
    return [
        Hold(
            namespace=namespace, name=name, uid=uid, counted=True, pods=[name],
            things=[f"{count} × {resource}" for resource, count in left.items()],
        )
        for namespace, name, uid, resources, mapping in rows
        if (left := {key: count for key, count in resources.items() if key not in set(mapping.values())})
    ]  # fmt: skip
