"""Quotas, Jobs, groups of Pods, and Kueue's queues, in every version that clusters serve them in."""

from typing import Any

import msgspec
import pytest

from inventory.mirror.jobs import pods_use_devices
from inventory.models import (
    ClusterQueue,
    Job,
    LocalQueue,
    Pod,
    PodGroup,
    QueuedWorkload,
    ResourceFlavor,
    ResourceQuota,
    SchedulingWorkload,
)
from portal.kube.resources import QUEUED_WORKLOADS, SCHEDULING_WORKLOADS
from tests.inventory.conftest import Mirror
from tests.inventory.objects import Json, changed, meta, pod


def condition(kind: str, status: str = "True", **more: str) -> Json:
    return {"type": kind, "status": status, "lastTransitionTime": "2026-03-01T09:00:00Z"} | more


# --- quotas -------------------------------------------------------------------------------------------


def quota(**status: Any) -> Json:
    key = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": meta("devices", namespace="ns"),
        "spec": {"hard": {key: "4", "requests.nvidia.com/gpu": 2}},
        "status": status,
    }


def test_a_quota_says_what_is_allowed_and_used(mirror: Mirror) -> None:
    key = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
    mirror.see(quota(hard={key: "4"}, used={key: "3"}))
    row = ResourceQuota.objects.get()
    assert (row.hard, row.used, row.counted) == ({key: "4"}, {key: "3"}, True)


def test_a_quota_that_was_not_counted_yet_is_not_in_force(mirror: Mirror) -> None:
    mirror.see(quota())
    row = ResourceQuota.objects.get()
    assert (row.hard["requests.nvidia.com/gpu"], row.used, row.counted) == ("2", {}, False)


# --- jobs ---------------------------------------------------------------------------------------------


def job(template: Json, **more: Any) -> Json:
    owner = {"kind": "JobSet", "name": "sweep", "uid": "uid-sweep", "controller": True}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta("train", namespace="ns", ownerReferences=[owner])
        | {"labels": {"kueue.x-k8s.io/queue-name": "gpus"}},
        "spec": {"parallelism": 2, "completions": 4, "suspend": True, "template": {"spec": template["spec"]}},
        "status": {},
    } | more


@pytest.mark.parametrize(
    ("template", "uses"),
    [
        (pod(claims={"gpu": "train"}), True),
        (pod(extended={"nvidia.com/gpu": "1"}), True),
        (pod(), False),
    ],
)
def test_only_jobs_whose_pods_use_devices_are_of_interest(template: Json, *, uses: bool) -> None:
    assert pods_use_devices(msgspec.json.encode(job(template))) is uses


def test_a_job_that_cannot_be_read_is_of_interest_so_that_it_is_reported() -> None:
    assert pods_use_devices(b'{"spec": []}')


def test_a_job_is_kept_with_what_made_it_and_its_queue(mirror: Mirror) -> None:
    waiting = job(pod(claims={"gpu": "train"}))
    mirror.see(waiting)
    row = Job.objects.get()
    assert (row.owner_kind, row.owner_name, row.owner_uid) == ("JobSet", "sweep", "uid-sweep")
    assert (row.queue_name, row.suspended, row.parallelism, row.completions) == ("gpus", True, 2, 4)
    mirror.see(changed(waiting, status={"succeeded": 4, "conditions": [condition("Complete")]}))
    row = Job.objects.get()
    assert (row.outcome, row.succeeded, row.finished_at is not None) == ("Complete", 4, True)


def test_a_pod_leads_to_its_job(mirror: Mirror) -> None:
    made = pod(claims={"gpu": "train"})
    made["metadata"]["ownerReferences"] = [
        {"kind": "Job", "name": "train", "uid": "uid-train", "controller": True}
    ]
    mirror.see(made)
    row = Pod.objects.get()
    assert (row.owner_kind, row.owner_name, row.owner_uid) == ("Job", "train", "uid-train")


# --- health of a Pod's devices ------------------------------------------------------------------------


def test_the_kubelet_tells_the_health_of_each_device(mirror: Mirror) -> None:
    told = [
        {
            "name": "claim:gpu",
            "resources": [
                {"resourceID": "gpu.nvidia.com/gpu=gpu-0", "health": "Unhealthy", "message": "ECC errors"},
                {"resourceID": "gpu.nvidia.com/gpu=gpu-1"},
            ],
        }
    ]
    statuses = [{"name": "main", "allocatedResourcesStatus": told}]
    mirror.see(pod(claims={"gpu": "train"}, on="n1", containerStatuses=statuses))
    one = {"container": "main", "resource": "claim:gpu"}
    assert Pod.objects.get().device_health == [
        {**one, "device": "gpu.nvidia.com/gpu=gpu-0", "health": "Unhealthy", "message": "ECC errors"},
        {**one, "device": "gpu.nvidia.com/gpu=gpu-1", "health": "Unknown", "message": ""},
    ]


# --- groups of Pods -----------------------------------------------------------------------------------


def group(spec: Json, **status: Any) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": meta("ring", namespace="ns"),
        "spec": spec | {"schedulingPolicy": {"gang": {"minCount": 4}}},
        "status": status,
    }


@pytest.mark.parametrize(
    ("version", "reference"),
    [
        ("v1beta1", {"workloadRef": {"workloadName": "sweep", "templateName": "workers"}}),
        (
            "v1alpha2",
            {
                "podGroupTemplateRef": {
                    "workload": {"workloadName": "sweep", "podGroupTemplateName": "workers"}
                }
            },
        ),
    ],
)
def test_a_group_says_how_many_belong_together(mirror: Mirror, version: str, reference: Json) -> None:
    mirror.see(group(reference), version=version)
    row = PodGroup.objects.get()
    assert (row.workload_name, row.template_name, row.min_count) == ("sweep", "workers", 4)


def test_claims_of_a_group_are_known_by_the_names_they_got(mirror: Mirror) -> None:
    claims = [
        {"name": "shared", "resourceClaimName": "link"},
        {"name": "own", "resourceClaimTemplateName": "each"},
    ]
    mirror.see(
        group({"resourceClaims": claims}, resourceClaimStatuses=[{"name": "own", "resourceClaimName": "x7"}])
    )
    assert PodGroup.objects.get().claim_names == {"shared": "link", "own": "x7"}


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({"schedulingGroup": {"podGroupName": "ring"}}, "ring"),
        ({"workloadRef": {"name": "sweep", "podGroup": "workers"}}, "sweep/workers"),
    ],
)
def test_a_pod_says_which_group_it_is_of(mirror: Mirror, spec: Json, name: str) -> None:
    made = pod(claims={"gpu": "train"})
    made["spec"] |= spec
    mirror.see(made)
    assert Pod.objects.get().pod_group == name


@pytest.mark.parametrize(
    ("version", "spec"),
    [
        (
            "v1beta1",
            {
                "podGroupTemplates": [
                    {"name": "workers", "schedulingPolicy": {"gang": {"minCount": 3}}},
                    {"name": "eval", "schedulingPolicy": {"basic": {}}},
                ]
            },
        ),
        (
            "v1alpha1",
            {
                "podGroups": [
                    {"name": "workers", "policy": {"gang": {"minCount": 3}}},
                    {"name": "eval", "policy": {"basic": {}}},
                ]
            },
        ),
    ],
)
def test_a_workload_lists_its_groups(mirror: Mirror, version: str, spec: Json) -> None:
    obj = {
        "apiVersion": f"scheduling.k8s.io/{version}",
        "kind": "Workload",
        "metadata": meta("sweep", namespace="ns"),
        "spec": spec | {"controllerRef": {"kind": "Job", "name": "train"}},
    }
    mirror.see(obj, resource=SCHEDULING_WORKLOADS, version=version)
    row = SchedulingWorkload.objects.get()
    assert row.groups == [{"name": "workers", "min_count": 3}, {"name": "eval", "min_count": None}]
    assert (row.controller_kind, row.controller_name) == ("Job", "train")


# --- Kueue --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "cohort"), [("v1beta2", "cohortName"), ("v1beta1", "cohort")])
def test_a_cluster_queue_says_quota_and_usage(mirror: Mirror, version: str, cohort: str) -> None:
    amounts = {"name": "nvidia.com/gpu", "nominalQuota": 8, "borrowingLimit": "4"}
    used = [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "total": "9", "borrowed": "1"}]}]
    obj = {
        "apiVersion": f"kueue.x-k8s.io/{version}",
        "kind": "ClusterQueue",
        "metadata": meta("research"),
        "spec": {
            cohort: "institute",
            "queueingStrategy": "BestEffortFIFO",
            "resourceGroups": [
                {
                    "coveredResources": ["nvidia.com/gpu"],
                    "flavors": [{"name": "h100", "resources": [amounts]}],
                }
            ],
        },
        "status": {"flavorsUsage": used, "pendingWorkloads": 3, "admittedWorkloads": 2},
    }
    mirror.see(obj, version=version)
    row = ClusterQueue.objects.get()
    assert (row.cohort, row.pending, row.admitted, row.active) == ("institute", 3, 2, True)
    assert row.quotas == [
        {"flavor": "h100", "resource": "nvidia.com/gpu", "nominal": "8", "borrowing": "4", "lending": None}
    ]
    assert (row.usage, row.borrowed) == ({"h100": {"nvidia.com/gpu": "9"}}, {"h100": {"nvidia.com/gpu": "1"}})


def test_a_queue_that_is_stopped_says_why(mirror: Mirror) -> None:
    stopped = condition("Active", "False", reason="Stopped", message="the queue is stopped")
    mirror.see(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "LocalQueue",
            "metadata": meta("gpus", namespace="ns"),
            "spec": {"clusterQueue": "research", "stopPolicy": "Hold"},
            "status": {"conditions": [stopped]},
        }
    )
    row = LocalQueue.objects.get()
    assert (row.cluster_queue, row.active, row.message, row.stop_policy) == (
        *("research", False),
        *("the queue is stopped", "Hold"),
    )


def test_a_local_queue_of_the_older_version_says_its_usage(mirror: Mirror) -> None:
    obj = {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "LocalQueue",
        "metadata": meta("gpus", namespace="ns"),
        "status": {
            "flavorUsage": [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "total": "2"}]}]
        },
    }
    mirror.see(obj, version="v1beta1")
    assert LocalQueue.objects.get().usage == {"h100": {"nvidia.com/gpu": "2"}}


def test_a_flavor_says_which_nodes_it_stands_for(mirror: Mirror) -> None:
    mirror.see(
        {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "ResourceFlavor",
            "metadata": meta("h100"),
            "spec": {"nodeLabels": {"gpu": "h100"}},
        }
    )
    assert ResourceFlavor.objects.get().node_labels == {"gpu": "h100"}


def queued(*conditions: Json, spec: Json | None = None, **status: Any) -> Json:
    owner = {"kind": "Job", "name": "train", "uid": "uid-train", "controller": True}
    return {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "Workload",
        "metadata": meta("job-train", namespace="ns", ownerReferences=[owner]),
        "spec": {"queueName": "gpus", "priority": 10, "podSets": [{"name": "main", "count": 2}]}
        | (spec or {}),
        "status": {"conditions": list(conditions)} | status,
    }


WAITS = condition("QuotaReserved", "False", reason="Pending", message="insufficient quota for h100")


@pytest.mark.parametrize(
    ("obj", "state", "reason"),
    [
        (queued(), "pending", ""),
        (queued(WAITS), "pending", "Pending"),
        (queued(condition("QuotaReserved", reason="Quota")), "reserved", "Quota"),
        (queued(condition("QuotaReserved"), condition("Admitted", reason="In")), "admitted", "In"),
        (
            queued(condition("QuotaReserved"), condition("Evicted", reason="Preempted")),
            "evicted",
            "Preempted",
        ),
        (
            queued(condition("Admitted"), condition("Finished", reason="JobFinished")),
            "finished",
            "JobFinished",
        ),
        (queued(WAITS, spec={"active": False}), "inactive", "Pending"),
    ],
)
def test_where_a_workload_stands_is_the_latest_stage_that_holds(
    mirror: Mirror, obj: Json, state: str, reason: str
) -> None:
    mirror.see(obj, resource=QUEUED_WORKLOADS)
    row = QueuedWorkload.objects.get()
    assert (row.state, row.reason) == (state, reason)


def test_a_workload_says_what_it_asks_for_and_what_it_got(mirror: Mirror) -> None:
    asked = [{"name": "main", "resources": {"nvidia.com/gpu": "2"}}]
    waiting = queued(WAITS, resourceRequests=asked)
    mirror.see(waiting, resource=QUEUED_WORKLOADS)
    row = QueuedWorkload.objects.get()
    assert (row.queue_name, row.cluster_queue, row.priority, row.owner_uid) == ("gpus", "", 10, "uid-train")
    assert row.message == "insufficient quota for h100"
    none: Json = {"flavors": {}, "usage": {}}
    assert row.pod_sets == [
        {"name": "main", "count": 2, "requests": {"nvidia.com/gpu": "2"}, **none},
    ]
    assignment = {
        "name": "main",
        "flavors": {"nvidia.com/gpu": "h100"},
        "resourceUsage": {"nvidia.com/gpu": 2},
    }
    admission = {"clusterQueue": "research", "podSetAssignments": [assignment]}
    status = {"conditions": [condition("Admitted")], "admission": admission}
    mirror.see(changed(waiting, status=status), resource=QUEUED_WORKLOADS)
    row = QueuedWorkload.objects.get()
    assert (row.cluster_queue, row.pod_sets[0]["flavors"]) == ("research", {"nvidia.com/gpu": "h100"})
    assert row.pod_sets[0]["usage"] == {"nvidia.com/gpu": "2"}
