"""Whatever a cluster says of an object, it is stored, or told as a problem of that object; its neighbour is
stored all the same, and the follower goes on."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import transaction
from hypothesis import given
from hypothesis import strategies as st

from inventory.autoscaling.groups import Unreadable
from inventory.autoscaling.status import read
from inventory.mirror.writer import Writer
from inventory.models import SyncProblem
from portal.kube.resources import QUEUED_WORKLOADS, SCHEDULING_WORKLOADS, Resource
from tests.fuzzing.garbage import MANY, SOME, TEXTS, damaged, trying
from tests.inventory.conftest import RESOURCES, RESOURCES_OF_GROUPS, Mirror, cluster, mirror
from tests.inventory.mirror.test_queues import condition, job, quota
from tests.inventory.objects import (
    Json,
    allocation,
    changed,
    claim,
    device_class,
    event,
    gpu,
    meta,
    namespace,
    node,
    pod,
    resource_slice,
    result,
    runtime_class,
    taint_rule,
    template,
)

__all__ = ["cluster", "mirror"]

BUDGETS = [SOME // 10, pytest.param(MANY // 4, marks=pytest.mark.long)]
KUEUE = "kueue.x-k8s.io/v1beta1"
AT = "2026-03-01T09:00:00Z"
AMOUNTS = [{"name": "nvidia.com/gpu", "nominalQuota": "8"}]
OWNER = {"kind": "Job", "name": "train", "uid": "uid-train", "controller": True, "apiVersion": "batch/v1"}


def of_kueue(kind: str, name: str, spec: Json, status: Json, space: str = "") -> Json:
    metadata = meta(name, namespace=space) | {"ownerReferences": [OWNER]}
    return {"apiVersion": KUEUE, "kind": kind, "metadata": metadata, "spec": spec, "status": status}


# Each kind that is followed: how one of a name looks, with as much in it as is read.
GOOD: dict[str, tuple[Resource | None, Callable[[str], Json]]] = {
    "nodes": (None, lambda name: node(name, taints=[{"key": "k", "effect": "NoSchedule", "value": "v"}])),
    "resourceslices": (None, lambda name: resource_slice(name, [gpu(0), gpu(1)], node=name)),
    "deviceclasses": (None, lambda name: device_class(name, "device.driver == 'gpu.nvidia.com'")),
    "resourceclaims": (
        None, lambda name: claim(name, allocation=allocation(result("gpu-0"), timestamp=AT)),
    ),
    "resourceclaimtemplates": (None, template),
    "pods": (
        None, lambda name: pod(
            name, claims={"gpu": "train"}, extended={"nvidia.com/gpu": "1"}, on="n1", phase="Running",
            startTime=AT,
        ),
    ),
    "events": (None, lambda name: event(pod(name, claims={"gpu": "train"}), count=3)),
    "namespaces": (None, lambda name: namespace(name, team="tides")),
    "devicetaintrules": (None, lambda name: taint_rule(name, driver="gpu.nvidia.com", pool="n1")),
    "runtimeclasses": (None, lambda name: runtime_class(name, handler="kata")),
    "resourcequotas": (None, lambda name: named(quota(hard={"pods": "4"}, used={"pods": "1"}), name)),
    "jobs": (
        None, lambda name: named(
            changed(job(pod(claims={"gpu": "train"})), status={"conditions": [condition("Complete")]}), name
        ),
    ),
    "podgroups": (
        None, lambda name: {
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
            "metadata": meta(name, namespace="ns"),
            "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
            "status": {"conditions": [condition("PodGroupScheduled", "False", reason="Unschedulable")]},
        },
    ),
    "workloads": (
        SCHEDULING_WORKLOADS, lambda name: {
            "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "Workload",
            "metadata": meta(name, namespace="ns"),
            "spec": {
                "controllerRef": {"apiGroup": "batch", "kind": "Job", "name": "train"},
                "podGroupTemplates": [{"name": "w", "schedulingPolicy": {"gang": {"minCount": 2}}}],
            },
        },
    ),
    "clusterqueues": (
        None, lambda name: of_kueue(
            "ClusterQueue", name,
            {"cohort": "all", "resourceGroups": [{"flavors": [{"name": "f", "resources": AMOUNTS}]}]},
            {
                "pendingWorkloads": 3, "admittedWorkloads": 1, "conditions": [condition("Active")],
                "flavorsUsage": [{"name": "f", "resources": [{"name": "nvidia.com/gpu", "total": "4"}]}],
            },
        ),
    ),
    "localqueues": (
        None, lambda name: of_kueue(
            "LocalQueue", name, {"clusterQueue": "gpus"}, {"pendingWorkloads": 3}, "ns"
        ),
    ),
    "resourceflavors": (
        None, lambda name: of_kueue("ResourceFlavor", name, {"nodeLabels": {"zone": "a"}}, {})
    ),
    "queuedworkloads": (
        QUEUED_WORKLOADS, lambda name: of_kueue(
            "Workload", name,
            {"queueName": "gpus", "priority": 3, "podSets": [{"name": "main", "count": 2}]},
            {"conditions": [condition("QuotaReserved")], "admission": {"clusterQueue": "gpus"}}, "ns",
        ),
    ),
}  # fmt: skip


def named(obj: Json, name: str) -> Json:
    return obj | {"metadata": obj["metadata"] | {"name": name, "uid": f"uid-{name}"}}


@contextmanager
def undone() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@pytest.mark.django_db
@pytest.mark.parametrize("examples", BUDGETS)
@pytest.mark.parametrize("stream", GOOD)
def test_a_damaged_object_stops_no_other(mirror: Mirror, stream: str, examples: int) -> None:
    known, make = GOOD[stream]
    good = make("one")
    resource = known or (RESOURCES | RESOURCES_OF_GROUPS)[good["kind"]]

    def apply(*objects: Any, checkpoint: str) -> None:
        # One of its own each time: what a writer remembers is not taken back with a transaction.
        writer = Writer(cluster_id=mirror.cluster.pk, holder="me", features=mirror.writer.features)
        writer.apply([mirror.batch(*objects, resource=resource, checkpoint=checkpoint)])

    @trying(examples)
    @given(bad=damaged(make("two")), first=st.booleans())
    def see(bad: Any, first: bool) -> None:
        with undone():
            apply(*([bad, good] if first else [good, bad]), checkpoint="9")
            apply(changed_version(bad), checkpoint="10")
            assert not SyncProblem.objects.filter(resource=resource.stream, name="one").exists()

    with undone():
        apply(good, checkpoint="9")
        assert not SyncProblem.objects.exists(), SyncProblem.objects.values_list("path", "reason")
    see()


def changed_version(obj: Any) -> Any:
    """The same, told once more."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    return obj | {"metadata": metadata | {"resourceVersion": "10"}} if isinstance(metadata, dict) else obj


@pytest.mark.django_db
def test_a_name_that_no_database_takes_stops_nobody(mirror: Mirror) -> None:
    wrong = [
        *({"name": name} for name in ("two\x00", "\u202etwo", "t" * 254)),
        *({key: "a\x00b"} for key in ("namespace", "uid", "resourceVersion")),
    ]
    for known, make in GOOD.values():
        good = make("one")
        resource = known or (RESOURCES | RESOURCES_OF_GROUPS)[good["kind"]]
        bad = [make("two") | {"metadata": make("two")["metadata"] | metadata} for metadata in wrong]
        mirror.apply(mirror.batch(*bad, good, resource=resource, checkpoint="9"))
        problems = SyncProblem.objects.filter(resource=resource.stream)
        assert not problems.filter(name="one").exists()
        assert "metadata has a NUL in a name" in list(problems.values_list("reason", flat=True))


def test_every_kind_that_is_followed_is_tried(mirror: Mirror) -> None:
    tried = {
        (known or (RESOURCES | RESOURCES_OF_GROUPS)[make("x")["kind"]]).stream
        for known, make in GOOD.values()
    }
    assert tried == set(mirror.writer.resources)


OLD = """Cluster-autoscaler status at 2026-03-01 09:00:00.123 +0000 UTC:
Cluster-wide:
  Health:      Healthy (ready=3 unready=0 notStarted=0 registered=3)
NodeGroups:
  Name:        gpu-pool
  Health:      Healthy (ready=3 cloudProviderTarget=3 (minSize=0, maxSize=8))
  ScaleUp:     NoActivity (ready=3 cloudProviderTarget=3)
"""


@pytest.mark.nodatabase
@pytest.mark.parametrize("examples", BUDGETS)
def test_what_an_autoscaler_writes_is_read_or_called_unreadable(examples: int) -> None:
    @trying(examples * 10)
    @given(start=st.integers(0, len(OLD)), length=st.integers(0, 40), put=TEXTS, whole=st.booleans())
    def see(start: int, length: int, put: str, whole: bool) -> None:
        status: Any = put if whole else OLD[:start] + put + OLD[start + length :]
        for told in ({"data": {"status": status}}, {"data": status}, {"data": {"status": [status]}}):
            try:
                groups, _at = read(told)
            except Unreadable:
                continue
            assert all(group.name for group in groups)

    groups, at = read({"data": {"status": OLD}})
    assert (len(groups), at is not None) == (1, True)
    see()
