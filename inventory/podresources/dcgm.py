"""Labels of the DCGM exporter's metrics as sightings. Pure.

The exporter asks the kubelet's PodResources socket itself and writes what it hears beside each value:
``DCGM_FI_DEV_GPU_UTIL{UUID="GPU-…", Hostname="gpu-01", namespace="team", pod="train-0", container="main"}``.
A GPU that no Pod has is there without a Pod, so that an answer tells of every GPU of the nodes in it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from inventory.podresources.sightings import Key, Sighting

# Where Prometheus keeps its own labels of the target ("honorLabels: false"), those of the exporter are
# renamed to exported_…, and the plain ones name the exporter's Pod.
_POD = ("exported_pod", "pod", "pod_name")
_NAMESPACE = ("exported_namespace", "namespace", "pod_namespace")
_CONTAINER = ("exported_container", "container", "container_name")
_POD_UID = ("exported_pod_uid", "pod_uid")
_NODE = ("node", "kubernetes_node", "nodename", "Hostname")

_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_A_LABEL = re.compile(_LABEL)
_A_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(\.{_LABEL})*")
_A_UUID = re.compile(r"(?:GPU|MIG)-[!-~]{1,200}")
_A_UID = re.compile(r"[0-9A-Za-z-]{0,64}")
_A_NUMBER = re.compile(r"\d{1,5}")
_A_PROFILE = re.compile(r"[0-9a-z.+]{1,40}")


def assignments_from_labels(
    series: Iterable[Mapping[str, str]], *, node_label: str = ""
) -> Mapping[str, Sequence[Sighting]]:
    """Node name → the devices that its Pods have; a node whose GPUs are all idle has none.

    `series` are the label sets of one metric of every GPU, of one complete answer. `node_label` names the
    label with the node's name; "" takes the first of node, kubernetes_node, nodename and Hostname. Series
    whose labels name no GPU, no node, or what cannot be a Pod, are left out.
    """
    told: dict[str, dict[Key, Sighting]] = {}
    for labels in series:
        node = labels.get(node_label, "") if node_label else _first(labels, _NODE)
        uuid = labels.get("UUID") or labels.get("uuid") or ""
        if not (_A_NAME.fullmatch(node) and _A_UUID.fullmatch(uuid)):
            continue
        found = told.setdefault(node, {})
        # A target's own labels are no Pod's that has the GPU: all three are from one kind or none is.
        exported = "exported_pod" in labels or "exported_namespace" in labels
        names = _POD[:1] if exported else _POD[1:]
        pod = _first(labels, names)
        if not pod:
            continue
        sighting = Sighting(
            namespace=_first(labels, _NAMESPACE[:1] if exported else _NAMESPACE[1:]),
            pod=pod,
            container=_first(labels, _CONTAINER[:1] if exported else _CONTAINER[1:]),
            device_id=uuid,
            part=_part(labels),
            pod_uid=_first(labels, _POD_UID),
        )
        if _possible(sighting):
            found[sighting.key] = sighting
    return {node: [found[key] for key in sorted(found)] for node, found in told.items()}


def _part(labels: Mapping[str, str]) -> str:
    """The MIG instance, which the exporter tells by number beside the uuid of the whole GPU."""
    instance, profile = labels.get("GPU_I_ID", ""), labels.get("GPU_I_PROFILE", "")
    if not _A_NUMBER.fullmatch(instance):
        return ""
    return f"MIG {profile} #{instance}" if _A_PROFILE.fullmatch(profile) else f"MIG #{instance}"


def _possible(sighting: Sighting) -> bool:
    return bool(
        _A_LABEL.fullmatch(sighting.namespace)
        and _A_NAME.fullmatch(sighting.pod)
        and _A_LABEL.fullmatch(sighting.container)
        and _A_UID.fullmatch(sighting.pod_uid)
    )


def _first(labels: Mapping[str, str], names: Iterable[str]) -> str:
    return next((labels[name] for name in names if labels.get(name)), "")
