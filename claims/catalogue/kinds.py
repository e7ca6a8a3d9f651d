"""Which kinds of device the claims of a spec may be given, as prices see them: by its classes and its own
selectors, on the nodes that its Pods can go to, and by what it asks of capacities.

Reads the spec as it goes to the cluster, so that whatever was chosen counts: memory, alternatives, further
parts, a share of a device, an expression of one's own.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from claims.catalogue.candidates import candidates_of
from claims.catalogue.placements import selects
from claims.money.expected import Candidate
from inventory.mirror import matching
from inventory.mirror.writer import features_of
from inventory.models import ClassProfile, Cluster, Device, DeviceProfile, Node
from portal.dra.features import Features


@dataclass(frozen=True, kw_only=True)
class Sought:
    """A claim's spec, and where its Pods may go (labels of nodes)."""

    cluster: Cluster
    spec: Mapping[str, Any]
    node_selector: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """So many devices of one of these kinds."""

    name: str
    count: int
    candidates: Sequence[Candidate]


@dataclass
class Kinds:
    """The kinds of device of some clusters' classes; as many queries for many specs as for one, unless a
    selector reads what only the single device has."""

    # By (cluster, class).
    members: Mapping[tuple[int, str], set[int]]
    single: Mapping[tuple[int, str], set[int]]
    profiles: Mapping[int, DeviceProfile]
    # (node's labels, kinds of device on it) by cluster; only of clusters where somebody selects nodes.
    nodes: Mapping[int, Sequence[tuple[Mapping[str, str], set[int]]]]

    @classmethod
    def load(cls, sought: Sequence[Sought]) -> "Kinds":
        clusters = {one.cluster.pk for one in sought}
        names = {
            ask.get("deviceClassName", "") for one in sought for asks in asks_of(one.spec) for ask in asks
        }
        members: dict[tuple[int, str], set[int]] = defaultdict(set)
        single: dict[tuple[int, str], set[int]] = defaultdict(set)
        rows = ClassProfile.objects.filter(device_class__cluster__in=clusters, device_class__name__in=names)
        for cluster, name, profile, device in rows.values_list(
            "device_class__cluster", "device_class__name", "profile", "device"
        ):
            members[cluster, name].add(profile)
            if device is not None:
                single[cluster, name].add(device)
        profiles = DeviceProfile.objects.in_bulk({pk for found in members.values() for pk in found})
        return cls(members, single, profiles, _nodes({one.cluster.pk for one in sought if one.node_selector}))

    def of(self, sought: Sought) -> list[list[Wanted]]:
        """For each request of the spec what it may be: one, or alternatives in order."""
        features = features_of(sought.cluster.server_version, served=sought.cluster.served)
        reachable = self._reachable(sought)
        return [
            [self._wanted(sought.cluster, ask, reachable, features) for ask in asks]
            for asks in asks_of(sought.spec)
        ]

    def _reachable(self, sought: Sought) -> set[int] | None:
        """Kinds of device on the nodes that are selected; None = any."""
        if not sought.node_selector:
            return None
        here = self.nodes.get(sought.cluster.pk, ())
        return set().union(*(kinds for labels, kinds in here if selects(sought.node_selector, labels)))

    def _wanted(
        self, cluster: Cluster, ask: Mapping[str, Any], reachable: set[int] | None, features: Features
    ) -> Wanted:
        name = str(ask.get("deviceClassName") or "")
        key = cluster.pk, name
        pks = [pk for pk in sorted(self.members.get(key, ())) if reachable is None or pk in reachable]
        expressions = matching.compile_all(matching.expressions_of(ask), features=features)
        found = matching.match(
            expressions,
            [self.profiles[pk] for pk in pks],
            cluster_id=cluster.pk,
            devices=self.single.get(key),
        )
        kinds = found.profiles | set(found.devices.values())
        return Wanted(
            name=name,
            count=int(ask.get("count") or 1),
            candidates=candidates_of(
                (self.profiles[pk] for pk in pks if pk in kinds),
                device_class=name,
                cluster=cluster,
                requested=(ask.get("capacity") or {}).get("requests") or {},
            ),
        )


def asks_of(spec: Mapping[str, Any]) -> list[list[Mapping[str, Any]]]:
    """What each request of a claim's spec (resource.k8s.io/v1) asks for: one thing, or one of several."""
    requests = (spec.get("devices") or {}).get("requests") or ()
    return [
        list(request["firstAvailable"]) if request.get("firstAvailable") else [request.get("exactly") or {}]
        for request in requests
    ]


def _nodes(clusters: Iterable[int]) -> Mapping[int, list[tuple[Mapping[str, str], set[int]]]]:
    wanted = list(clusters)
    if not wanted:
        return {}
    kinds: dict[tuple[int, str], set[int]] = defaultdict(set)
    rows = Device.objects.filter(cluster__in=wanted).exclude(node_name="").order_by()
    for cluster, node, profile in rows.values_list("cluster", "node_name", "profile").distinct():
        kinds[cluster, node].add(profile)
    found: dict[int, list[tuple[Mapping[str, str], set[int]]]] = defaultdict(list)
    for cluster, name, labels in Node.objects.filter(cluster__in=wanted).values_list(
        "cluster", "name", "labels"
    ):
        found[cluster].append((labels, kinds[cluster, name]))
    return found
