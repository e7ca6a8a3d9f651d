"""Nodes, Pods, Events, templates and classes."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from inventory.mirror.batches import Gap
from inventory.mirror.nodes import is_extended_resource
from inventory.mirror.pods import uses_devices
from inventory.models import ClaimTemplate, ClassProfile, DeviceClass, Node, Pod, PodEvent, Stream
from tests.inventory.conftest import Mirror
from tests.inventory.objects import (
    Json,
    changed,
    device_class,
    event,
    gpu,
    node,
    pod,
    resource_slice,
    template,
)

NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)


# --- nodes --------------------------------------------------------------------------------------------


def test_a_node_keeps_what_its_device_plugins_advertise(mirror: Mirror) -> None:
    mirror.see(node(taints=[{"key": "a", "effect": "NoExecute", "timeAdded": "2026-03-01T08:00:00Z"}]))
    row = Node.objects.get()
    assert (row.ready, row.unschedulable, row.kubelet_version) == (True, False, "v1.36.2")
    assert (row.capacity, row.allocatable) == ({"nvidia.com/gpu": "4"}, {"nvidia.com/gpu": "3"})
    dated = {"timeAdded": "2026-03-01T08:00:00Z"}
    assert row.taints == [{"key": "a", "value": "", "effect": "NoExecute", **dated}]


@pytest.mark.parametrize(
    ("name", "extended"),
    [
        ("nvidia.com/gpu", True),
        ("cpu", False),
        ("hugepages-1Gi", False),
        ("example.kubernetes.io/x", False),
        ("requests.nvidia.com/gpu", False),
    ],
)
def test_extended_resources_are_told_by_their_domain(name: str, extended: bool) -> None:
    assert is_extended_resource(name) is extended


def test_a_node_that_goes_down_and_up_is_observed_at_the_times_of_its_condition(mirror: Mirror) -> None:
    made = node()
    mirror.see(made)
    mirror.see(changed(made, status=node(ready=False)["status"]))
    mirror.see(changed(made))
    mirror.see(made, deleted=True)
    seen = [(o.kind, o.source) for o in mirror.observed()]
    assert seen == [
        ("node-up", "condition"),
        ("node-down", "condition"),
        ("node-up", "condition"),
        ("node-down", "observed"),
    ]


# --- Pods ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "uses"),
    [
        (pod(), False),
        (pod(claims={"gpu": "train"}), True),
        (pod(extended={"nvidia.com/gpu": "1"}), True),
        (pod(extendedResourceClaimStatus={"resourceClaimName": "x"}), True),
        ({"spec": 5}, True),
    ],
)
def test_only_pods_that_use_devices_are_of_interest(made: Json, uses: bool) -> None:
    assert uses_devices(msgspec.json.encode(made)) is uses


def test_a_pod_keeps_what_it_uses_and_why_it_waits(mirror: Mirror) -> None:
    waits = {"type": "PodScheduled", "status": "False", "message": "cannot allocate all claims"}
    mirror.see(
        pod(
            claims={"gpu": "train"},
            extended={"nvidia.com/gpu": "2"},
            conditions=[waits],
            resourceClaimStatuses=[{"name": "each", "resourceClaimName": "work-each-x7"}],
        )
    )
    row = Pod.objects.get()
    assert (row.phase, row.node_name, row.unschedulable_message) == (
        "Pending",
        "",
        "cannot allocate all claims",
    )
    assert row.claim_names == {"gpu": "train"}
    assert row.extended_resources == {"nvidia.com/gpu": 2}


def test_claims_of_templates_are_known_by_the_names_they_got(mirror: Mirror) -> None:
    made = pod(
        claims={"gpu": "x"}, resourceClaimStatuses=[{"name": "gpu", "resourceClaimName": "work-gpu-x7"}]
    )
    made["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimTemplateName": "each"}]
    mirror.see(made)
    assert Pod.objects.get().claim_names == {"gpu": "work-gpu-x7"}


def test_a_pod_tells_which_containers_use_which_claims(mirror: Mirror) -> None:
    made = pod(claims={"gpu": "train", "nic": "net"})
    uses = [{"name": "gpu"}, {"name": "nic", "request": "fast"}]
    made["spec"]["containers"][0] |= {"image": "", "resources": {"claims": uses}}
    made["spec"]["initContainers"] = [
        {
            "name": "warm",
            "image": "registry.example.org/warm:1",
            "resources": {"claims": [{"name": "gpu"}]},
        }
    ]
    mirror.see(made)
    assert Pod.objects.get().claim_uses == [
        {"container": "warm", "claim": "gpu", "request": "", "image": "registry.example.org/warm:1"},
        {"container": "main", "claim": "gpu", "request": "", "image": ""},
        {"container": "main", "claim": "nic", "request": "fast", "image": ""},
    ]


def test_init_containers_run_before_the_others(mirror: Mirror) -> None:
    made = pod(extended={"nvidia.com/gpu": "1"})
    made["spec"]["containers"] *= 2
    made["spec"]["initContainers"] = [{"name": "i", "resources": {"requests": {"nvidia.com/gpu": "3"}}}]
    mirror.see(made)
    assert Pod.objects.get().extended_resources == {"nvidia.com/gpu": 3}


@pytest.mark.parametrize(
    ("init", "count"),
    [
        ([("2", "Always")], 4),
        ([("2", "Always"), ("3", None)], 5),
        ([("3", None), ("2", "Always")], 4),
        ([("1", "Always"), ("1", "Always"), ("1", None)], 4),
        ([("x", "Always"), ("1", None)], 2),
    ],
)
def test_sidecars_run_beside_the_others(
    mirror: Mirror, init: list[tuple[str, str | None]], count: int
) -> None:
    made = pod(extended={"nvidia.com/gpu": "1"})
    made["spec"]["containers"] *= 2
    made["spec"]["initContainers"] = [
        {"name": f"i{n}", "restartPolicy": policy, "resources": {"limits": {"nvidia.com/gpu": amount}}}
        for n, (amount, policy) in enumerate(init)
    ]
    mirror.see(made)
    assert Pod.objects.get().extended_resources == {"nvidia.com/gpu": count}


def test_a_pod_has_finished_when_its_last_sidecar_has(mirror: Mirror) -> None:
    def ended(minute: int) -> dict[str, Any]:
        return {"state": {"terminated": {"finishedAt": f"2026-03-01T09:{minute}:00Z"}}}

    done = pod(claims={"gpu": "train"}, on="n1", phase="Succeeded", containerStatuses=[ended(50)])
    done["status"]["initContainerStatuses"] = [ended(10), ended(55)]
    mirror.see(done)
    found = Pod.objects.get().finished_at
    assert found is not None
    assert found.minute == 55


def test_a_pod_is_scheduled_and_finished_once(mirror: Mirror) -> None:
    waiting = pod(claims={"gpu": "train"})
    running = pod(claims={"gpu": "train"}, on="n1", phase="Running")
    ended = {"state": {"terminated": {"finishedAt": "2026-03-01T09:50:00Z"}}}
    done = pod(claims={"gpu": "train"}, on="n1", phase="Succeeded", containerStatuses=[ended])
    mirror.see(waiting)
    mirror.see(running)
    mirror.see(done)
    mirror.see(changed(done))
    mirror.see(done, deleted=True)
    assert [(o.kind, o.at, o.source) for o in mirror.observed()] == [
        ("pod-scheduled", NINE, "condition"),
        ("pod-finished", datetime(2026, 3, 1, 9, 50, tzinfo=UTC), "pod"),
    ]
    assert Pod.objects.count() == 0


def test_a_running_pod_that_is_deleted_has_finished(mirror: Mirror) -> None:
    made = pod(claims={"gpu": "train"}, on="n1", phase="Running")
    mirror.see(made)
    mirror.see(made, deleted=True)
    finished = mirror.observed("pod-finished")[0]
    assert (finished.source, finished.facts["deleted"]) == ("observed", True)


# --- Events -------------------------------------------------------------------------------------------


def test_the_latest_event_of_each_reason_is_kept(mirror: Mirror) -> None:
    made = pod(claims={"gpu": "train"})
    mirror.see(made)
    mirror.see(event(made, message="first"))
    mirror.see(event(made, message="later", lastTimestamp="2026-03-01T09:05:00Z", count=7))
    mirror.see(event(made, message="out of order", lastTimestamp="2026-03-01T09:01:00Z"))
    row = PodEvent.objects.get()
    assert (row.pod_name, row.message, row.count) == ("work", "later", 7)
    assert row.last_at == datetime(2026, 3, 1, 9, 5, tzinfo=UTC)


def test_an_event_of_the_new_api_has_its_time_and_count_in_a_series(mirror: Mirror) -> None:
    made = pod(claims={"gpu": "train"})
    mirror.see(made)
    series = {"count": 3, "lastObservedTime": "2026-03-01T09:20:00.123456Z"}
    mirror.see(
        event(made, lastTimestamp=None, eventTime="2026-03-01T09:00:00.000001Z", count=None, series=series)
    )
    row = PodEvent.objects.get()
    assert (row.count, row.last_at.minute) == (3, 20)


def test_an_event_may_come_before_its_pod(mirror: Mirror) -> None:
    made = pod(claims={"gpu": "train"})
    mirror.see(event(made))
    assert PodEvent.objects.count() == 0
    mirror.see(made)
    assert PodEvent.objects.count() == 1


def test_a_version_of_events_that_is_gone_is_no_gap_in_history(mirror: Mirror) -> None:
    made = pod(claims={"gpu": "train"})
    mirror.see(made)
    mirror.lists(event(made), kind="Event", gap=Gap(since=NINE, lost=True))
    assert PodEvent.objects.count() == 1
    assert mirror.observed("gap") == []


def test_events_of_other_pods_are_not_kept_and_go_with_their_pod(mirror: Mirror) -> None:
    made = pod(claims={"gpu": "train"})
    mirror.see(made)
    mirror.see(event(made), event(pod("other")))
    assert [e.pod_name for e in PodEvent.objects.all()] == ["work"]
    mirror.see(made, deleted=True)
    assert PodEvent.objects.count() == 0


def test_an_event_object_that_expires_leaves_what_it_said(mirror: Mirror) -> None:
    made = pod(claims={"gpu": "train"})
    mirror.see(made)
    said = event(made)
    mirror.see(said)
    mirror.see(said, deleted=True)
    assert PodEvent.objects.count() == 1


# --- templates and classes ----------------------------------------------------------------------------


def test_a_template_keeps_its_inner_spec(mirror: Mirror) -> None:
    made = template()
    mirror.see(made)
    assert ClaimTemplate.objects.get().spec["devices"]["requests"][0]["name"] == "gpu"
    mirror.lists(kind="ResourceClaimTemplate")
    assert ClaimTemplate.objects.count() == 0


IS_GPU = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"


def matches(name: str) -> list[tuple[str | None, str]]:
    rows = ClassProfile.objects.filter(device_class__name=name).select_related("device", "profile")
    return sorted((row.device.name if row.device else None, row.profile.product) for row in rows)


def test_a_class_matches_kinds_whichever_comes_first(mirror: Mirror) -> None:
    mirror.see(device_class("early", IS_GPU))
    mirror.see(resource_slice("s1", [gpu(0), gpu(1)]))
    mirror.see(device_class("late", IS_GPU), device_class("none", "device.driver == 'other'"))
    product = "NVIDIA A100-SXM4-40GB"
    assert (matches("early"), matches("late"), matches("none")) == ([(None, product)], [(None, product)], [])


def test_more_devices_of_a_known_kind_add_no_match(mirror: Mirror) -> None:
    mirror.see(device_class("gpus", IS_GPU))
    mirror.see(resource_slice("s1", [gpu(0)]))
    mirror.see(resource_slice("s2", [gpu(0, node="n2")], node="n2"))
    assert ClassProfile.objects.count() == 1


def test_a_class_that_reads_identity_matches_single_devices(mirror: Mirror) -> None:
    mirror.see(resource_slice("s1", [gpu(0), gpu(1)]))
    mirror.see(device_class("one", "device.attributes['gpu.nvidia.com'].uuid == 'GPU-n1-1'"))
    assert matches("one") == [("gpu-1", "NVIDIA A100-SXM4-40GB")]
    mirror.see(resource_slice("s2", [gpu(0, node="n2")], node="n2"))
    assert len(matches("one")) == 1


def test_a_class_that_changes_is_judged_anew(mirror: Mirror) -> None:
    mirror.see(resource_slice("s1", [gpu(0)]))
    made = device_class("gpus", IS_GPU)
    mirror.see(made)
    mirror.see(changed(made, spec=device_class("gpus", "device.driver == 'other'")["spec"]))
    assert matches("gpus") == []


@pytest.mark.parametrize(
    "expression", ["device.driver ==", "device.attributes['gpu.nvidia.com'].nosuch == 'x'", "1 + 1"]
)
def test_a_class_that_cannot_be_evaluated_says_why(mirror: Mirror, expression: str) -> None:
    mirror.see(resource_slice("s1", [gpu(0)]))
    mirror.see(device_class("broken", expression))
    assert DeviceClass.objects.get().problem != ""
    assert matches("broken") == []


def test_streams_count_their_objects_and_keep_their_checkpoint(mirror: Mirror) -> None:
    mirror.lists(node("n1"), node("n2"), kind="Node")
    stream = Stream.objects.get(resource="nodes")
    assert (stream.object_count, stream.resource_version, stream.listed_at) == (2, "5000", mirror.now)
    made = node("n3")
    mirror.see(made)
    stream.refresh_from_db()
    assert (stream.object_count, stream.resource_version) == (3, made["metadata"]["resourceVersion"])
