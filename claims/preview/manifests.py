"""What would be sent to the cluster for an ask, by each way that its flavor has there."""

from dataclasses import dataclass

from claims.asks.values import Reading
from claims.catalogue.stock import wish_of
from claims.models import Request
from claims.requests import manifests, snippets
from claims.requests.rehearsal import api_version


@dataclass(frozen=True, kw_only=True)
class Written:
    """A manifest as it would be sent (or copied); `used` tells the way that is used from the other one."""

    backend: str
    kind: str
    text: str
    used: bool


def written(reading: Reading) -> list[Written]:
    """What would be sent to the cluster (DRA) or copied into Pods (Device Plugin); the way that is used
    comes first."""
    placement, count = reading.placement, reading.count
    if reading.project is None or not reading.namespace or count is None:
        return []
    name = manifests.object_name(project=reading.project.slug, key=reading.key or "00000000")
    found = []
    spec = reading.spec
    if spec is None and placement is not None and placement.device_class:
        spec = manifests.claim_spec(wish_of(placement, count=count))
    if spec is not None:
        build = manifests.claim_template if reading.shape == Request.Shape.TEMPLATE else manifests.claim
        owner = manifests.Owner(
            key=reading.key or "…",
            project=reading.project.slug,
            requester=reading.requester,
            cost_centre=reading.project.cost_centre,
            purpose=reading.purpose,
        )
        manifest = build(name=name, namespace=reading.namespace, owner=owner, spec=spec)
        if reading.cluster is not None:
            manifest = manifests.for_version(manifest, api_version(reading.cluster))
        used = reading.backend == Request.Backend.DRA
        found.append(
            Written(
                backend=Request.Backend.DRA,
                kind=manifest["kind"],
                text=manifests.as_yaml(manifest),
                used=used,
            )
        )
    if placement is not None and placement.extended_resource:
        use = snippets.Use(
            object_name=name,
            namespace=reading.namespace,
            shape=Request.Shape.ENTITLEMENT,
            key=reading.key or "…",
            resource=placement.extended_resource,
            count=count,
            node_selector=placement.node_selector,
            tolerations=placement.tolerations,
        )
        used = reading.backend == Request.Backend.PLUGIN
        found.append(
            Written(
                backend=Request.Backend.PLUGIN,
                kind="Pod",
                text=manifests.as_yaml(snippets.pod(use)),
                used=used,
            )
        )
    return sorted(found, key=lambda one: not one.used)
