"""Whether a node takes new Pods: cordoned, not ready and tainted ones do not, unless it is tolerated."""

from collections.abc import Mapping, Sequence

from portal.dra.model import Node, Taint, Toleration
from portal.dra.outcomes import Reason
from portal.dra.taints import PREVENTING, tolerates

_UNSCHEDULABLE = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_NOT_READY = Taint(key="node.kubernetes.io/not-ready", effect="NoExecute")
_UNREACHABLE = Taint(key="node.kubernetes.io/unreachable", effect="NoExecute")


def unavailable(
    node: Node, *, tolerations: Sequence[Toleration] = (), node_selector: Mapping[str, str] | None = None
) -> Reason | None:
    """Why a Pod with these tolerations and this node selector would not be placed on the node, if so.

    A node is ready unless it says that it is not: its condition Ready is False or Unknown.
    """
    name = node.metadata.name
    for label, value in (node_selector or {}).items():
        if node.metadata.labels.get(label) != value:
            return Reason(code="node-not-selected", params={"node": name, "label": f"{label}={value}"})
    if node.spec.unschedulable and not _tolerated(_UNSCHEDULABLE, tolerations):
        return Reason(code="node-cordoned", params={"node": name})
    ready = next((item.status for item in node.status.conditions if item.type == "Ready"), "True")
    if ready != "True" and not _tolerated(_NOT_READY if ready == "False" else _UNREACHABLE, tolerations):
        return Reason(code="node-not-ready", params={"node": name})
    for taint in node.spec.taints:
        if taint.effect in PREVENTING and not _tolerated(taint, tolerations):
            text = f"{taint.key}{'=' if taint.value else ''}{taint.value}:{taint.effect}"
            return Reason(code="node-tainted", params={"node": name, "taint": text})
    return None


def _tolerated(taint: Taint, tolerations: Sequence[Toleration]) -> bool:
    return any(tolerates(item, taint) for item in tolerations)
