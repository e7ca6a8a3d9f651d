"""Work that does not start, or starts only in part."""

from collections import defaultdict
from collections.abc import Iterable

from inventory.findings.facts import FINISHED, EventRow, Facts, GroupRow, PodRow
from inventory.findings.model import NOW, Found
from inventory.models import Severity

# Controllers whose Pods are of use one by one, so that some waiting is nothing wrong.
ONE_BY_ONE = frozenset({"", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Node"})
# From so many Pods on it is the node rather than a Pod.
PODS_OF_A_BROKEN_NODE = 3

Group = tuple[str, str, str]  # namespace, kind and name of the work


def partly_allocated(facts: Facts) -> Iterable[Found]:
    """Of the claims of one Job, Workload or PodGroup some hold devices while others wait: the devices are of
    no use to anybody until the rest comes. A group that has all Pods that it needs at once does not wait."""
    allocated = {(claim.namespace, claim.name): claim.allocated for claim in facts.claims}
    members: dict[Group, list[set[tuple[str, str]]]] = defaultdict(list)
    for pod in facts.pods.values():
        if pod.claim_names and pod.phase not in FINISHED and pod.deleted_at is None:
            work = facts.work_of(pod)
            if work[1] not in ONE_BY_ONE:
                # A claim that the controller has not made yet waits, too: each of its kind for itself.
                members[work].append(
                    {
                        (pod.namespace, claim or f"{pod.uid}/{entry}")
                        for entry, claim in pod.claim_names.items()
                    }
                )
    for work, pods in members.items():
        namespace, kind, name = work
        group = facts.groups.get((namespace, name)) if kind == "PodGroup" else None
        claims = set().union(*pods, _shared(namespace, group))
        held = sum(allocated.get(key, False) for key in claims)
        whole = sum(all(allocated.get(key, False) for key in needed) for needed in pods)
        enough = group is not None and group.min_count is not None and whole >= group.min_count
        if 0 < held < len(claims) and not enough:
            yield Found(
                subject=f"{namespace}/{kind}/{name}",
                object_kind="workload",
                namespace=namespace,
                name=name,
                code="partly-allocated",
                severity=Severity.WARNING,
                params={
                    "owner": f"{kind} {namespace}/{name}", "held": held, "wanted": len(claims),
                },
                holds_for=facts.thresholds.group_partly,
            )  # fmt: skip


def _shared(namespace: str, group: GroupRow | None) -> set[tuple[str, str]]:
    """Claims that a group shares among its Pods."""
    return {(namespace, claim) for claim in group.claims.values() if claim} if group is not None else set()


def long_pending(facts: Facts) -> Iterable[Found]:
    """Pods that want devices and have no node, by what owns them, with the scheduler's words."""
    waiting: dict[Group, list[PodRow]] = defaultdict(list)
    for pod in facts.pods.values():
        if (
            not pod.node
            and pod.phase not in FINISHED
            and pod.deleted_at is None
            and pod.created_at is not None
            and (pod.claim_names or pod.extended)
        ):
            work = facts.work_of(pod)
            waiting[work if work[2] else (pod.namespace, "Pod", pod.name)].append(pod)
    for (namespace, kind, name), pods in waiting.items():
        oldest = min(pods, key=lambda pod: (pod.created_at or facts.now, pod.name))
        # Held back on purpose, by a queue: it is not the scheduler that finds nothing.
        gated = "scheduling gates" in oldest.message
        yield Found(
            subject=f"{namespace}/{kind}/{name}",
            object_kind="pod" if kind == "Pod" else "workload",
            namespace=namespace,
            name=name,
            code="pending-gated" if gated else "pending" if oldest.message else "pending-unseen",
            severity=Severity.INFO if gated else Severity.WARNING,
            params={
                "owner": f"{kind} {namespace}/{name}", "pods": len(pods), "said": oldest.message[:1000],
            },
            since=oldest.created_at,
            holds_for=facts.thresholds.pending,
        )  # fmt: skip


def failed_preparations(facts: Facts) -> Iterable[Found]:
    """Nodes on which drivers could not prepare devices for Pods that are still there."""
    by_node: dict[str, list[EventRow]] = defaultdict(list)
    for event in facts.failed_preparations:
        pod = facts.pods.get(event.pod_uid)
        if pod is not None and pod.node and not _started(pod):
            by_node[pod.node].append(event)
    for node, events in by_node.items():
        latest = max(events, key=lambda event: (event.last_at, event.pod_name))
        yield Found(
            subject=node,
            object_kind="node",
            name=node,
            code="prepare-failed",
            severity=Severity.BAD if len(events) >= PODS_OF_A_BROKEN_NODE else Severity.WARNING,
            params={
                "node": node,
                "pods": len(events),
                "pod": f"{latest.namespace}/{latest.pod_name}",
                "said": latest.message[:1000],
            },
            holds_for=NOW,
        )


def _started(pod: PodRow) -> bool:
    """The preparation has succeeded since."""
    return pod.phase == "Running" or pod.phase in FINISHED
