"""Where a finding leads: the page of what it is about, as long as that is there."""

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Any
from urllib.parse import urlencode

from django.db.models import QuerySet
from django.urls import reverse

from inventory.models import Claim, Device, DeviceClass, Finding, Node, Pod


def links(findings: Collection[Finding]) -> Mapping[int, str]:
    """The page of what each finding (by primary key, its cluster joined) is about; absent where it is gone.
    A query for each kind of object at most."""
    existing = _Existing(findings)
    found = {f.pk: _PAGES[f.object_kind](f, existing) for f in findings if f.object_kind in _PAGES}
    return {pk: url for pk, url in found.items() if url}


class _Existing:
    """Which of the objects that findings are about are there now."""

    def __init__(self, findings: Collection[Finding]) -> None:
        self._findings = findings

    @cached_property
    def nodes(self) -> Collection[tuple[int, str]]:
        return set(self._rows(Node, "node", "pool").values_list("cluster_id", "name"))

    @cached_property
    def classes(self) -> Collection[tuple[int, str]]:
        return set(self._rows(DeviceClass, "class").values_list("cluster_id", "name"))

    @cached_property
    def pods(self) -> Collection[tuple[int, str, str]]:
        return set(self._rows(Pod, "pod").values_list("cluster_id", "namespace", "name"))

    @cached_property
    def claims(self) -> Collection[tuple[int, str, str]]:
        return set(self._rows(Claim, "claim").values_list("cluster_id", "namespace", "name"))

    @cached_property
    def devices(self) -> Collection[int]:
        wanted = {finding.params.get("id") for finding in self._findings} - {None}
        return set(Device.objects.filter(pk__in=wanted).values_list("pk", flat=True))

    @cached_property
    def devices_by_name(self) -> Mapping[tuple[int, str], int]:
        """Devices of findings that know only the name: "driver/pool/name"."""
        rows = self._rows(Device, "device").values_list(
            "cluster_id", "pool__driver", "pool__name", "name", "pk"
        )
        return {(cluster, f"{driver}/{pool}/{name}"): pk for cluster, driver, pool, name, pk in rows}

    def _rows(self, model: type[Any], *object_kinds: str) -> QuerySet[Any]:
        wanted = [finding for finding in self._findings if finding.object_kind in object_kinds]
        rows: QuerySet[Any] = model._default_manager.filter(
            cluster__in={finding.cluster_id for finding in wanted},
            name__in={finding.name for finding in wanted},
        )
        return rows


def _node(finding: Finding, existing: _Existing) -> str:
    there = (finding.cluster_id, finding.name) in existing.nodes
    return reverse("node-detail", args=[finding.cluster.name, finding.name]) if there else ""


def _device(finding: Finding, existing: _Existing) -> str:
    pk = finding.params.get("id")
    if pk is None:
        pk = existing.devices_by_name.get((finding.cluster_id, finding.subject))
    elif pk not in existing.devices:
        pk = None
    return reverse("device-detail", args=[pk]) if pk else ""


def _claim(finding: Finding, existing: _Existing) -> str:
    there = (finding.cluster_id, finding.namespace, finding.name) in existing.claims
    args = [finding.cluster.name, finding.namespace, finding.name]
    return reverse("claim-detail", args=args) if there else ""


def _pod(finding: Finding, existing: _Existing) -> str:
    there = (finding.cluster_id, finding.namespace, finding.name) in existing.pods
    args = [finding.cluster.name, finding.namespace, finding.name]
    return reverse("pod-detail", args=args) if there else ""


def _workload(finding: Finding, _existing: _Existing) -> str:
    """The subject is namespace/kind/name, and names may have slashes. What waits is there; later it may be
    gone."""
    _namespace, _slash, rest = finding.subject.partition("/")
    kind, _slash, name = rest.partition("/")
    if not (finding.namespace and kind and name) or finding.resolved_at is not None:
        return ""
    return reverse("workload-detail", args=[finding.cluster.name, finding.namespace, kind, name])


def _namespace(finding: Finding, _existing: _Existing) -> str:
    return reverse("namespace-detail", args=[finding.cluster.name, finding.name]) if finding.name else ""


def _pool(finding: Finding, existing: _Existing) -> str:
    """Most drivers name a pool after its node."""
    if (finding.cluster_id, finding.name) in existing.nodes:
        return reverse("node-detail", args=[finding.cluster.name, finding.name])
    narrowed = {"cluster": finding.cluster.name, "driver": finding.params.get("driver", "")}
    return f"{reverse('device-list')}?{urlencode(narrowed)}"


def _cluster(finding: Finding, _existing: _Existing) -> str:
    return reverse("contract-detail", args=[finding.cluster.name])


def _class(finding: Finding, existing: _Existing) -> str:
    there = (finding.cluster_id, finding.name) in existing.classes
    return (
        reverse("class-detail", args=[finding.cluster.name, finding.name]) if there else reverse("class-list")
    )


def _taint_rule(finding: Finding, _existing: _Existing) -> str:
    return reverse("cluster-detail", args=[finding.cluster.name]) + "#h-taint-rules"


def _pod_devices(finding: Finding, _existing: _Existing) -> str:
    page = reverse("cluster-pod-devices", args=[finding.cluster.name])
    return f"{page}?{urlencode({'q': finding.name})}"


def _metrics(finding: Finding, _existing: _Existing) -> str:
    return reverse("monitoring-detail", args=[finding.cluster.name])


_PAGES: Mapping[str, Callable[[Finding, _Existing], str]] = {
    "node": _node,
    "device": _device,
    "claim": _claim,
    "pod": _pod,
    "workload": _workload,
    "namespace": _namespace,
    "pool": _pool,
    "cluster": _cluster,
    "class": _class,
    "taint-rule": _taint_rule,
    "pod-devices": _pod_devices,
    "metrics": _metrics,
}
