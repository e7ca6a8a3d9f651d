"""Objects that autoscalers work by: MachineDeployments of Cluster API with the annotations of its autoscaler
provider, and NodePools of Karpenter."""

from collections.abc import Iterable, Mapping
from typing import Any

from inventory.autoscaling.groups import MAX_GROUPS, MAX_LABELS, Group, count, labels, part, text

_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-{}-size"
_CAPACITY = "capacity.cluster-autoscaler.kubernetes.io/{}"
NODE_POOL = "karpenter.sh/nodepool"


def of_machine_deployments(items: Iterable[Mapping[str, Any]]) -> list[Group]:
    """Those that the autoscaler may scale: they name their least and their most."""
    found: list[Group] = []
    for item in items:
        annotations = part(item, "metadata", "annotations") or {}
        maximum = count(part(annotations, _SIZE.format("max")))
        name = text(part(item, "metadata", "name"))
        if maximum is None or not name or len(found) == MAX_GROUPS:
            continue
        resource = text(part(annotations, _CAPACITY.format("gpu-type")), 317)
        found.append(
            Group(
                name=f"MachineDeployment/{text(part(item, 'metadata', 'namespace'), 63)}/{name}",
                minimum=count(part(annotations, _SIZE.format("min"))) or 0,
                maximum=maximum,
                current=count(part(item, "status", "replicas")) or 0,
                target=count(part(item, "spec", "replicas")),
                labels=_pairs(part(annotations, _CAPACITY.format("labels"))),
                resource=resource,
                units=(count(part(annotations, _CAPACITY.format("gpu-count"))) or 0) if resource else 0,
            )
        )
    return found


def of_node_pools(items: Iterable[Mapping[str, Any]]) -> list[Group]:
    """NodePools; most of them name no number of nodes as their bound."""
    found: list[Group] = []
    for item in items:
        name = text(part(item, "metadata", "name"))
        if not name or len(found) == MAX_GROUPS:
            continue
        ready = next(
            (one for one in part(item, "status", "conditions") or () if part(one, "type") == "Ready"), None
        )
        stuck = ""
        if part(ready, "status") == "False":
            stuck = text(part(ready, "message"), 300) or text(part(ready, "reason")) or "NotReady"
        own = labels(part(item, "spec", "template", "metadata", "labels"))
        found.append(
            Group(
                name=name,
                minimum=count(part(item, "spec", "replicas")) or 0,
                maximum=count(part(item, "spec", "limits", "nodes")),
                current=count(part(item, "status", "resources", "nodes")) or 0,
                stuck=stuck,
                labels={**own, NODE_POOL: name},
            )
        )
    return found


def _pairs(value: Any) -> dict[str, str]:
    """Labels as "name=value,name=value"."""
    pairs = [one.partition("=") for one in text(value, 4_000).split(",")[:MAX_LABELS] if "=" in one]
    return labels({name.strip(): each.strip() for name, _equal, each in pairs})
