"""What history must know of the units that Pods get from Device Plugins: what they were, and which of a Pod's
extended resources came as a claim instead.

Units are never named, but the labels of their node say what they are. And the scheduler may serve an
extended resource with devices of a claim that it makes (KEP 5004): those are told by the claim, and by it
alone. Anybody can write the annotation of such a claim; so it counts for one only if the Pod's status names
it, which the scheduler writes, and the claim is owned by that very Pod.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from inventory import plugins
from inventory.mirror.turn import Kind, Turn
from inventory.models import Claim, Node, Pod
from portal.sql import chunks

ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
# The entry of `Pod.claim_names` for the claim that its status names; no entry of a spec can be called so.
EXTENDED = "(extended resources)"


def described(node: Node | None, resources: Iterable[str]) -> list[dict[str, Any]]:
    """What one unit of each resource is on this node now; nothing where the node is not known yet."""
    if node is None:
        return []
    found = []
    for resource in sorted(resources):
        unit = plugins.describe(resource, labels=node.labels, advertised=node.capacity)
        found.append(
            {
                "resource": resource,
                "product": unit.product[:128],
                "vendor": unit.vendor,
                "kind": unit.kind,
                "sharing": unit.sharing,
                "replicas": max(unit.replicas, 1),
                "memory_bytes": unit.memory_bytes,
            }
        )
    return found


def nodes_of(turn: Turn, pods: Iterable[Pod]) -> Mapping[str, Node]:
    """The nodes of those Pods that ask for units, by name."""
    names = {pod.node_name for pod in pods if pod.extended_resources and pod.node_name}
    found: dict[str, Node] = {}
    for some in chunks(sorted(names)):
        rows = Node.objects.filter(cluster_id=turn.cluster_id, name__in=some)
        found |= {node.name: node for node in rows.only("name", "labels", "capacity")}
    return found


def note_nodes(turn: Turn, nodes: Sequence[Node]) -> None:
    """Complete what was told of Pods that came before their node; these nodes are new."""
    by_name = {node.name: node for node in nodes}
    for names in chunks(sorted(by_name)):
        pods = Pod.objects.filter(cluster_id=turn.cluster_id, node_name__in=names)
        for pod in pods.exclude(extended_resources={}).defer("labels", "annotations"):
            turn.observe(
                Kind.POD_DETAILED,
                # Once for each: what is known from the beginning is never contradicted.
                key=f"pod/{pod.uid}/detailed",
                moment=turn.observed(),
                namespace=pod.namespace,
                name=pod.name,
                uid=pod.uid,
                facts={"units": described(by_name[pod.node_name], pod.extended_resources)},
            )


def note_claims_of(turn: Turn, pods: Collection[Pod]) -> None:
    """Tell which claims were made for these Pods' extended resources, as far as the claims are known."""
    wanted = {
        (pod.namespace, pod.claim_names[EXTENDED]): pod for pod in pods if pod.claim_names.get(EXTENDED)
    }
    for names in chunks(sorted({name for _, name in wanted})):
        claims = Claim.objects.filter(cluster_id=turn.cluster_id, name__in=names).exclude(owner_pod_uid="")
        for uid, namespace, name, owner in claims.values_list("uid", "namespace", "name", "owner_pod_uid"):
            pod = wanted.get((namespace, name))
            if pod is not None and pod.uid == owner:
                _note_pair(turn, pod, uid, name)


def note_pods_of(turn: Turn, claims: Collection[Claim]) -> None:
    """The same for claims that have just come, as far as their Pods are known."""
    wanted = {
        claim.owner_pod_uid: claim
        for claim in claims
        if claim.owner_pod_uid and ANNOTATION in claim.annotations
    }
    for uids in chunks(sorted(wanted)):
        for pod in Pod.objects.filter(cluster_id=turn.cluster_id, uid__in=uids):
            claim = wanted[pod.uid]
            if (pod.namespace, pod.claim_names.get(EXTENDED)) == (claim.namespace, claim.name):
                _note_pair(turn, pod, claim.uid, claim.name)


def _note_pair(turn: Turn, pod: Pod, claim_uid: str, claim_name: str) -> None:
    facts = {"pod": pod.uid, "claim": claim_uid, "resources": pod.extended_mapping}
    for what, uid, name in (("pod", pod.uid, pod.name), ("claim", claim_uid, claim_name)):
        turn.observe(
            Kind.EXTENDED_CLAIM,
            key=f"{what}/{uid}/extended/{claim_uid if what == 'pod' else pod.uid}",
            moment=turn.observed(),
            namespace=pod.namespace,
            name=name,
            uid=uid,
            facts=facts,
        )
