"""Gathers what `comparison` judges: reports of many nodes and what the mirror knows around them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q

from inventory.cdi import comparison
from inventory.cdi.runtime import completed, setting_of
from inventory.coverage import Coverage, coverage_of_all
from inventory.models import (
    CdiNode,
    CdiSpecFile,
    Claim,
    ClaimDevice,
    Cluster,
    Device,
    Node,
    Pod,
    Pool,
    RuntimeClass,
    Stream,
)

# Attributes by whose values specs call devices, too.
_NAMING = ("index", "minor", "uuid")

# As many names as every database takes in one query, and what fits into memory with its devices.
BATCH = 500

Key = tuple[int, str]  # cluster, node name


@dataclass(frozen=True)
class Judged:
    """A node that may report, with its files, and what follows from them."""

    node: CdiNode
    cluster: Cluster
    coverage: Coverage
    # Its row in the mirror; None when the cluster has no such node (as far as is known).
    mirrored: Node | None
    files: Sequence[CdiSpecFile]
    # `CdiNode.runtime`, completed by what the kubelet says.
    runtime: Mapping[str, Any]
    verdict: comparison.Verdict
    # When the next report is overdue; None before the first.
    due_at: datetime | None


def judge_nodes(nodes: Sequence[CdiNode], *, now: datetime) -> list[Judged]:
    """Judges nodes in a fixed number of queries per `BATCH` of them, in the given order."""
    coverage = coverage_of_all(now=now)
    known = [node for node in nodes if node.cluster_id in coverage]
    return [
        judged
        for start in range(0, len(known), BATCH)
        for judged in _judge(known[start : start + BATCH], coverage, now=now)
    ]


def _judge(nodes: Sequence[CdiNode], coverage: Mapping[int, Coverage], *, now: datetime) -> list[Judged]:
    files: dict[int, list[CdiSpecFile]] = defaultdict(list)
    for file in CdiSpecFile.objects.filter(node__in=nodes).order_by("directory", "name"):
        files[file.node_id].append(file)
    around = _Around(nodes)
    judged = []
    for node in nodes:
        covered = coverage[node.cluster_id]
        mirrored = around.mirrored.get((node.cluster_id, node.name))
        runtime = completed(node.runtime, mirrored.container_runtime if mirrored else "")
        report = report_of(node, files[node.pk], runtime=runtime)
        surroundings = around.of(node, in_step=covered.in_step)
        judged.append(
            Judged(
                node=node,
                cluster=covered.cluster,
                coverage=covered,
                mirrored=mirrored,
                files=files[node.pk],
                runtime=runtime,
                verdict=comparison.judge(
                    report,
                    surroundings,
                    node=node.name,
                    expected_uids=settings.CDI_OWNERS,
                    now=now,
                ),
                due_at=comparison.due_at(report) if report else None,
            )
        )
    return judged


def report_of(
    node: CdiNode, files: Sequence[CdiSpecFile], *, runtime: Mapping[str, Any]
) -> comparison.Report | None:
    """A stored report as `comparison` takes it; None before the first."""
    if node.received_at is None:
        return None
    return comparison.Report(
        received_at=node.received_at,
        reporting_since=node.reporting_since or node.received_at,
        interval=timedelta(seconds=node.interval_seconds),
        directories=[
            comparison.Directory(d["path"], d["state"], d["uid"], d["mode"]) for d in node.directories
        ],
        files=[_file(file) for file in files],
        files_left_out=node.files_left_out,
        setting=setting_of(runtime),
        handlers=runtime.get("handlers"),
        writers=node.writers,
    )


def _file(file: CdiSpecFile) -> comparison.File:
    return comparison.File(
        directory=file.directory,
        name=file.name,
        uid=file.uid,
        mode=file.mode,
        modified_at=file.modified_at,
        kind=file.kind,
        valid=file.valid,
        unread=file.unread,
        claim_uid=file.claim_uid,
        devices=tuple(device["name"] for device in file.devices),
        problems=sum(problem["level"] == "error" for problem in file.problems),
    )


class _Around:
    """The mirror around some nodes, read at once."""

    def __init__(self, nodes: Sequence[CdiNode]) -> None:
        self.clusters = {node.cluster_id for node in nodes}
        self.names = {node.name for node in nodes}
        mirrored = Node.objects.filter(cluster__in=self.clusters, name__in=self.names)
        self.mirrored: dict[Key, Node] = {(node.cluster_id, node.name): node for node in mirrored}
        self.published = self._published()
        self.drivers: dict[int, set[str]] = defaultdict(set)
        pools = Pool.objects.filter(cluster__in=self.clusters).order_by()
        for cluster, driver in pools.values_list("cluster_id", "driver").distinct():
            self.drivers[cluster].add(driver)
        self.claims = self._claims(nodes)
        self.held = self._held()
        self.runtime_classes = self._runtime_classes()

    def of(self, node: CdiNode, *, in_step: bool) -> comparison.Surroundings:
        key = (node.cluster_id, node.name)
        mirrored = self.mirrored.get(key)
        return comparison.Surroundings(
            in_step=in_step,
            published=self.published.get(key, ()),
            drivers=self.drivers.get(node.cluster_id, ()),
            claims=self.claims.get(node.cluster_id, {}),
            held=self.held.get(key, ()),
            labels=mirrored.labels if mirrored else {},
            runtime_classes=self.runtime_classes.get(node.cluster_id),
        )

    def _published(self) -> dict[Key, list[comparison.Published]]:
        found: dict[Key, list[comparison.Published]] = defaultdict(list)
        devices = Device.objects.filter(cluster__in=self.clusters, node_name__in=self.names)
        columns = (
            "cluster_id", "node_name", "pool__driver", "name", "hardware_id", "identity",
            "profile__attributes", "first_seen_at",
        )  # fmt: skip
        rows = devices.values_list(*columns)
        for cluster, node, driver, name, hardware, identity, attributes, seen in rows:
            naming = {k: v for k, v in attributes.items() if k.rpartition("/")[2] in _NAMING}
            aliases = {name, hardware, *_values(identity), *_values(naming)} - {""}
            found[cluster, node].append(
                comparison.Published(driver, name, frozenset(alias.lower() for alias in aliases), seen)
            )
        return found

    def _runtime_classes(self) -> dict[int, list[comparison.RuntimeClass]]:
        """By cluster; without clusters where the desk may not see them, or does not at present."""
        watched = Stream.objects.filter(
            cluster__in=self.clusters, resource="runtimeclasses", state=Stream.State.WATCHING
        )
        found: dict[int, list[comparison.RuntimeClass]] = {
            cluster: [] for cluster in watched.values_list("cluster_id", flat=True)
        }
        for row in RuntimeClass.objects.filter(cluster__in=found):
            selector = row.scheduling.get("nodeSelector") or {}
            found[row.cluster_id].append(comparison.RuntimeClass(row.name, row.handler, selector))
        return found

    def _claims(self, nodes: Sequence[CdiNode]) -> dict[int, dict[str, str | None]]:
        found: dict[int, dict[str, str | None]] = defaultdict(dict)
        named = CdiSpecFile.objects.filter(node__in=nodes).exclude(claim_uid="").values("claim_uid")
        claims = Claim.objects.filter(cluster__in=self.clusters, uid__in=named)
        for cluster, uid, allocated, node in claims.values_list(
            "cluster_id", "uid", "allocated", "node_name"
        ):
            found[cluster][uid] = node if allocated else None
        return found

    def _held(self) -> dict[Key, list[comparison.HeldClaim]]:
        """Claims on the nodes that a running Pod uses: only those are surely prepared there."""
        here = Q(cluster__in=self.clusters, node_name__in=self.names)
        running = set(Pod.objects.filter(here, phase="Running").values_list("cluster_id", "uid"))
        claims = {
            claim.pk: claim
            for claim in Claim.objects.filter(here, allocated=True, deleted_at=None).only(
                "cluster_id", "node_name", "uid", "allocated_at", "status"
            )
            if any((claim.cluster_id, user.get("uid")) in running for user in _consumers(claim.status))
        }
        drivers: dict[int, set[str]] = defaultdict(set)
        parts = ClaimDevice.objects.filter(claim__in=claims).order_by()
        for key, driver in parts.values_list("claim_id", "driver").distinct():
            drivers[key].add(driver)
        found: dict[Key, list[comparison.HeldClaim]] = defaultdict(list)
        for key, claim in claims.items():
            found[claim.cluster_id, claim.node_name].append(
                comparison.HeldClaim(claim.uid, frozenset(drivers[key]), claim.allocated_at)
            )
        return found


def _consumers(status: dict[str, Any]) -> list[dict[str, Any]]:
    return status.get("reservedFor") or []


def _values(attributes: Mapping[str, Any]) -> set[str]:
    """The texts and numbers among attributes, as texts."""
    return {
        str(value)
        for typed in attributes.values()
        for kind, value in typed.items()
        if kind in {"string", "int"} and isinstance(value, (str, int))
    }
