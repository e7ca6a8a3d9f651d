"""Whether a sample can come from where its device is. Labels name nodes and Pods, and the mirror knows where
these are: what contradicts it is not used.

It proves nothing of a sample without such labels, or with labels that its exporter made up as they should be.
Labels that Prometheus itself puts on a target (`node`, `instance`, and whatever relabelling adds) are none of
the exporter's making, so that one of another node betrays itself by them.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from inventory.models import Cluster, Device, Node, Pod
from portal.sql import chunks

# Where usual configurations, and exporters, have the node.
NODE_LABELS = (
    *("node", "kubernetes_node", "nodename", "instance", "Hostname", "hostname"),
    *("exported_node", "exported_instance"),
)
# Where they have the Pod that uses the device, or the exporter's own: both are on its node.
POD_LABELS = (("namespace", "pod"), ("exported_namespace", "exported_pod"), ("pod_namespace", "pod_name"))
CHUNK = 500
_PORT = re.compile(r":\d{1,5}$")
_ADDRESS = re.compile(r"[0-9.]+|\[?[0-9a-f:]*:[0-9a-f:.]*\]?")

PodName = tuple[str, str]


@dataclass(frozen=True)
class Nodes:
    """The nodes of a cluster by what labels may call them: by their names, and by these without a domain."""

    whole: Mapping[str, frozenset[str]]
    short: Mapping[str, frozenset[str]]

    def named(self, text: str) -> frozenset[str]:
        """The nodes that a label can mean; none = it is no name of a node."""
        name = _PORT.sub("", text.strip().casefold())
        if not name or _ADDRESS.fullmatch(name):
            return frozenset()
        if found := self.whole.get(name):
            return found
        # "gpu-01.example.org" may be the node "gpu-01", but "gpu-01.south" is not "gpu-01.north".
        host, dot, _domain = name.partition(".")
        return (self.whole if dot else self.short).get(host, frozenset())

    def elsewhere(self, labels: Mapping[str, str], at: frozenset[str], *, besides: str = "") -> str:
        """What a label says that names other nodes than those that the device is `at` (none = not known) and
        that other labels name; "" = no contradiction. `besides` is one more label that names the node."""
        possible = at
        for label in (besides, *NODE_LABELS):
            text = labels.get(label, "")
            found = self.named(text) if text else None
            if found:
                possible = possible & found if possible else found
                if not possible:
                    return text
        return ""


def nodes_of(cluster: Cluster) -> Nodes:
    """One query."""
    whole: dict[str, frozenset[str]] = {}
    short: dict[str, set[str]] = {}
    for name in Node.objects.filter(cluster=cluster).values_list("name", flat=True):
        whole[name.casefold()] = frozenset({name})
        short.setdefault(name.casefold().partition(".")[0], set()).add(name)
    return Nodes(whole, {text: frozenset(names) for text, names in short.items()})


def places_of(cluster: Cluster, hardware_ids: Collection[str]) -> Mapping[str, frozenset[str]]:
    """The nodes that drivers publish these pieces on, by hardware id; absent where they do not."""
    found: dict[str, set[str]] = {}
    for some in chunks(sorted(set(hardware_ids)), CHUNK):
        rows = Device.objects.filter(cluster=cluster, hardware_id__in=some).exclude(node_name="")
        for piece, node in rows.values_list("hardware_id", "node_name"):
            found.setdefault(piece, set()).add(node)
    return {piece: frozenset(nodes) for piece, nodes in found.items()}


def pods_in(labels: Mapping[str, str]) -> Iterator[PodName]:
    """The Pods that labels name."""
    for namespace, pod in POD_LABELS:
        if labels.get(namespace) and labels.get(pod):
            yield labels[namespace], labels[pod]


def where_pods_ran(cluster: Cluster, pods: Collection[PodName], *, since: datetime) -> Mapping[PodName, str]:
    """The nodes of those that the mirror has, and that were there at `since`: a Pod of the same name may have
    run elsewhere before."""
    found: dict[PodName, str] = {}
    for some in chunks(sorted(set(pods)), CHUNK):
        rows = Pod.objects.filter(
            cluster=cluster, namespace__in={space for space, _name in some}, name__in={n for _s, n in some},
            created_at__lte=since,
        ).exclude(node_name="")  # fmt: skip
        found |= {
            (space, name): node for space, name, node in rows.values_list("namespace", "name", "node_name")
        }
    return found
