"""The mirror as `portal.dra` sees it: one immutable fleet per version of a cluster's mirror."""

import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db.models import QuerySet

from inventory.mirror.writer import features_of
from inventory.models import Claim, Cluster, DeviceClass, DeviceTaintRule, Node, ResourceSlice
from portal.dra import model as dra
from portal.dra.features import Features
from portal.dra.fleet import Fleet

T = TypeVar("T")

# Fleets are large; a desk looks at few clusters at a time.
MAX_CACHED = 4


@dataclass
class _Known:
    """The last fleet of a cluster, and the versions that it was built from."""

    fleet_version: int
    mirror_version: int
    fleet: Fleet


_lock = threading.Lock()
_cached: "OrderedDict[int, _Known]" = OrderedDict()


def fleet(cluster: Cluster) -> Fleet:
    """The cluster's fleet as mirrored now. Cheap while the mirror does not change, and cheaper than
    building it while only claims change."""
    fleet_version, mirror_version = Cluster.objects.values_list("fleet_version", "mirror_version").get(
        pk=cluster.pk
    )
    features = features_of(cluster.server_version, served=cluster.served)
    with _lock:
        known = _cached.get(cluster.pk)
        if known is not None and known.fleet.features != features:
            # The cluster was upgraded, or serves more than before.
            known = None
        if known is not None and known.mirror_version == mirror_version:
            _cached.move_to_end(cluster.pk)
            return known.fleet
    if known is not None and known.fleet_version == fleet_version:
        built = known.fleet.with_claims(claims_of(cluster))
    else:
        built = _build(cluster, features)
    with _lock:
        _cached[cluster.pk] = _Known(fleet_version, mirror_version, built)
        _cached.move_to_end(cluster.pk)
        while len(_cached) > MAX_CACHED:
            _cached.popitem(last=False)
    return built


def _build(cluster: Cluster, features: Features) -> Fleet:
    return Fleet.build(
        slices=_slices(cluster),
        classes=_classes(cluster),
        nodes=_nodes(cluster),
        claims=claims_of(cluster),
        taint_rules=taint_rules(cluster),
        features=features,
    )


def _slices(cluster: Cluster) -> Iterator[dra.ResourceSlice]:
    for manifest in (
        ResourceSlice.objects.filter(cluster=cluster).values_list("manifest", flat=True).iterator()
    ):
        decoded = dra.decode_object(manifest)
        if isinstance(decoded, dra.ResourceSlice):
            yield decoded


def _classes(cluster: Cluster) -> Iterator[dra.DeviceClass]:
    rows = DeviceClass.objects.filter(cluster=cluster).values_list("name", "created_at", "spec")
    for name, created_at, spec in rows:
        # Of two classes that serve the same extended resource, the newer one does.
        born = {"creationTimestamp": created_at.strftime("%Y-%m-%dT%H:%M:%SZ")} if created_at else {}
        yield _decoded("DeviceClass", {"name": name, **born}, {"spec": spec}, dra.DeviceClass)


def taint_rules(cluster: Cluster) -> Iterator[dra.DeviceTaintRule]:
    """The cluster's rules as mirrored now."""
    for name, spec in DeviceTaintRule.objects.filter(cluster=cluster).values_list("name", "spec"):
        yield _decoded("DeviceTaintRule", {"name": name}, {"spec": spec}, dra.DeviceTaintRule)


def _nodes(cluster: Cluster) -> Iterator[dra.Node]:
    rows: QuerySet[Node] = Node.objects.filter(cluster=cluster)
    for node in rows.iterator():
        body = {
            "spec": {"unschedulable": node.unschedulable, "taints": node.taints},
            "status": {
                "capacity": node.capacity,
                "allocatable": node.allocatable,
                "conditions": [{"type": "Ready", "status": "True" if node.ready else "False"}],
            },
        }
        yield _decoded("Node", {"name": node.name, "uid": node.uid, "labels": node.labels}, body, dra.Node)


def claims_of(cluster: Cluster, *, without: Collection[str] = ()) -> Iterator[dra.ResourceClaim]:
    """The claims that hold something there, which alone matter to an allocation; `without` those with these
    uids."""
    rows = Claim.objects.filter(cluster=cluster, allocated=True).exclude(uid__in=without)
    for namespace, name, uid, spec, status in rows.values_list("namespace", "name", "uid", "spec", "status"):
        metadata = {"namespace": namespace, "name": name, "uid": uid}
        yield _decoded("ResourceClaim", metadata, {"spec": spec, "status": status}, dra.ResourceClaim)


def _decoded(kind: str, metadata: Mapping[str, Any], body: Mapping[str, Any], expected: type[T]) -> T:
    version = "v1" if kind == "Node" else "resource.k8s.io/v1"
    decoded = dra.decode_object({"apiVersion": version, "kind": kind, "metadata": metadata, **body})
    assert isinstance(decoded, expected)  # the kind says so
    return decoded
