"""What is mirrored besides devices and claims: what each kind says, and who moves it."""

from collections.abc import Callable, Mapping

import pytest

from portal.kube.client import Client
from portal.kube.errors import Forbidden, Invalid
from portal.kube.resources import (
    JOBS,
    NODES,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
    RUNTIME_CLASSES,
    Resource,
)
from portal.kube.watch import Event
from tests.contract import objects
from tests.contract.objects import Object
from tests.contract.room import Room

Served = Callable[[str, str], Resource]


@pytest.fixture
def served(client: Client, is_real: bool) -> Served:
    """A resource in the version that the cluster prefers; a real cluster may not serve it at all."""

    def find(group: str, plural: str) -> Resource:
        for resources in client.served(group).values():
            if plural in resources:
                return resources[plural]
        if is_real:
            pytest.skip(f"the cluster does not serve {plural}.{group}")
        raise AssertionError(f"the embedded cluster serves {plural}.{group}")

    return find


def conditions(obj: Object) -> Mapping[str, str]:
    """Type → status."""
    return {item["type"]: item["status"] for item in obj.get("status", {}).get("conditions", ())}


def job(room: Room, name: str, **spec: object) -> Object:
    pod = objects.pod(name, node_selector=room.label)
    template = {"metadata": {"labels": room.label}, "spec": pod["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"template": template, **spec},
    }


def test_a_node_tells_the_versions_of_its_kubelet_and_runtime(room: Room) -> None:
    node = room.node()
    info = {
        "architecture": "amd64", "bootID": "b", "containerRuntimeVersion": "containerd://2.1.4",
        "kernelVersion": "6.8.0", "kubeletVersion": "v1.36.2", "machineID": "m",
        "operatingSystem": "linux", "osImage": "contract", "systemUUID": "s",
    }  # fmt: skip
    room.client.patch(NODES, node, {"status": {"nodeInfo": info}}, subresource="status")
    assert info.items() <= room.client.get(NODES, node)["status"]["nodeInfo"].items()


def test_a_runtime_class_has_to_exist_before_pods_name_it(room: Room) -> None:
    name = room.name("sandbox")
    with pytest.raises(Forbidden, match="not found"):
        room.pod("early", runtimeClassName=name)
    body = {
        "apiVersion": RUNTIME_CLASSES.api_version,
        "kind": "RuntimeClass",
        "metadata": {"name": name},
        "handler": "sandbox",
        "overhead": {"podFixed": {"memory": "160Mi"}},
    }
    room.create(RUNTIME_CLASSES, body)
    found = room.client.get(RUNTIME_CLASSES, name)
    assert (found["handler"], found["overhead"]) == ("sandbox", body["overhead"])
    assert room.pod("later", runtimeClassName=name)["spec"]["overhead"] == {"memory": "160Mi"}
    with pytest.raises(Invalid):
        room.client.patch(RUNTIME_CLASSES, name, {"handler": "another"})


def test_the_health_of_devices_is_in_the_pods_container(room: Room, is_real: bool) -> None:
    room.claim("one", objects.request(room.machine("gpu-0")))
    pod = room.pod("user", claims={"device": "one"})
    room.until_running("user")
    ((pool, device),) = room.devices_of("one")
    health = {"resourceID": f"{room.driver}/{pool}/{device}", "health": "Unhealthy"}
    status = {
        "name": "main", "image": pod["spec"]["containers"][0]["image"], "imageID": "", "ready": True,
        "restartCount": 0,
        "allocatedResourcesStatus": [{"name": "claim:device", "resources": [health]}],
    }  # fmt: skip
    body = {"status": {"containerStatuses": [status]}}
    room.client.patch(PODS, "user", body, namespace=room.namespace, subresource="status")
    (kept,) = room.get_pod("user")["status"]["containerStatuses"]
    if is_real and "allocatedResourcesStatus" not in kept:
        pytest.skip("the cluster's API server has ResourceHealthStatus off: it drops the field")
    assert kept["allocatedResourcesStatus"] == status["allocatedResourcesStatus"]


def test_conditions_of_devices_are_in_the_claim_as_long_as_it_has_them(room: Room) -> None:
    room.claim("one", objects.request(room.machine("nic-0")))
    room.pod("user", claims={"device": "one"})
    room.until_running("user")
    ((pool, device),) = room.devices_of("one")
    condition = {
        "type": "Ready", "status": "False", "reason": "LinkDown", "message": "no carrier",
        "lastTransitionTime": "2026-01-12T07:30:00Z",
    }  # fmt: skip
    report = {"driver": room.driver, "pool": pool, "device": device, "conditions": [condition]}
    written = room.client.patch(
        RESOURCE_CLAIMS, "one", {"status": {"devices": [report]}}, namespace=room.namespace,
        subresource="status",
    )  # fmt: skip
    assert written["status"]["devices"] == [report]
    with pytest.raises(Invalid):
        room.client.patch(
            RESOURCE_CLAIMS, "one", {"status": {"devices": [{**report, "device": "nic-9"}]}},
            namespace=room.namespace, subresource="status",
        )  # fmt: skip
    room.delete_pod("user")
    assert not room.until_free("one").get("status", {}).get("devices")


def test_a_rule_taints_devices_for_all_who_come(room: Room, served: Served) -> None:
    rules = served("resource.k8s.io", "devicetaintrules")
    device_class = room.machine("gpu-0")
    taint = {"key": "contract.example.com/spare", "value": "yes", "effect": "NoSchedule"}
    rule = {
        "apiVersion": rules.api_version,
        "kind": "DeviceTaintRule",
        "metadata": {"name": room.name("spare")},
        "spec": {"deviceSelector": {"driver": room.driver}, "taint": taint},
    }
    made = room.create(rules, rule)
    assert made["spec"]["taint"]["timeAdded"]
    room.claim("one", objects.request(device_class))
    room.pod("user", claims={"device": "one"})
    room.until_unschedulable("user", "cannot allocate all claims")
    room.client.delete(rules, made["metadata"]["name"])
    room.until_running("user")


def test_a_quota_tells_what_is_used(room: Room) -> None:
    device_class = room.device_class()
    key = f"{device_class}.deviceclass.resource.k8s.io/devices"
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "devices"},
        "spec": {"hard": {key: "5"}},
    }
    room.create(RESOURCE_QUOTAS, body)

    def status() -> Object:
        found = room.client.get(RESOURCE_QUOTAS, "devices", namespace=room.namespace)
        return dict(found.get("status") or {})

    room.wait_for(lambda: status().get("hard") == {key: "5"}, "the quota's first sync")
    room.wait_for(lambda: room.is_admitted(device_class), "claims admitted under the quota")
    room.claim("one", objects.request(device_class, count=3))
    room.wait_for(lambda: status().get("used") == {key: "3"}, "three devices counted")


def test_pods_of_a_job_name_it_as_their_owner(room: Room) -> None:
    room.node()
    made = room.create(JOBS, job(room, "work", parallelism=2, completions=2))

    def pods() -> list[Object]:
        found = room.client.list_all(
            PODS, namespace=room.namespace, label_selector="batch.kubernetes.io/job-name=work"
        )
        return found if len(found) == 2 else []

    for pod in room.wait_for(pods, "two Pods"):
        (owner,) = pod["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Job", made["metadata"]["uid"])
        assert owner["controller"] is True


def test_a_suspended_job_waits_and_may_still_be_sent_elsewhere(room: Room) -> None:
    room.node()
    room.create(JOBS, job(room, "later", suspend=True))

    def seen() -> Object | None:
        found = room.client.get(JOBS, "later", namespace=room.namespace)
        return found if conditions(found).get("Suspended") == "True" else None

    waiting = room.wait_for(seen, "the Job suspended") or {}
    assert not waiting["status"].get("startTime")
    selector = {**room.label, "kubernetes.io/hostname": room.name("a")}
    body = {"spec": {"template": {"spec": {"nodeSelector": selector}}}}
    room.client.patch(JOBS, "later", body, namespace=room.namespace)
    room.client.patch(JOBS, "later", {"spec": {"suspend": False}}, namespace=room.namespace)

    def started() -> bool:
        found = room.client.get(JOBS, "later", namespace=room.namespace)
        return bool(found["status"].get("startTime")) and conditions(found).get("Suspended") == "False"

    room.wait_for(started, "the Job resumed")
    cleared = {"spec": {"template": {"spec": {"nodeSelector": None}}}}
    with pytest.raises(Invalid):
        room.client.patch(JOBS, "later", cleared, namespace=room.namespace)


def test_a_pod_group_tells_its_policy_and_its_workload(room: Room, served: Served) -> None:
    groups = served("scheduling.k8s.io", "podgroups")
    workloads = served("scheduling.k8s.io", "workloads")
    policy = {"gang": {"minCount": 2}}
    head = {"apiVersion": groups.api_version, "metadata": {"name": "run"}}
    templates = [{"name": "ranks", "schedulingPolicy": policy}]
    room.create(workloads, {**head, "kind": "Workload", "spec": {"podGroupTemplates": templates}})
    reference: Object = {"workloadRef": {"workloadName": "run", "templateName": "ranks"}}
    if groups.api_version.endswith("v1alpha2"):
        names = {"workloadName": "run", "podGroupTemplateName": "ranks"}
        reference = {"podGroupTemplateRef": {"workload": names}}
    spec = {"schedulingPolicy": policy, **reference}
    room.create(groups, {**head, "kind": "PodGroup", "spec": spec})
    (listed,) = room.client.list_all(groups, namespace=room.namespace)
    assert spec.items() <= listed["spec"].items()
    with pytest.raises(Invalid):
        room.client.patch(
            groups, "run", {"spec": {"schedulingPolicy": {"gang": {"minCount": 5}}}}, namespace=room.namespace
        )


@pytest.mark.parametrize(
    ("group", "plural"),
    [
        ("node.k8s.io", "runtimeclasses"),
        ("scheduling.k8s.io", "podgroups"),
        ("scheduling.k8s.io", "workloads"),
        ("resource.k8s.io", "devicetaintrules"),
        ("kueue.x-k8s.io", "clusterqueues"),
        ("kueue.x-k8s.io", "localqueues"),
        ("kueue.x-k8s.io", "resourceflavors"),
        ("kueue.x-k8s.io", "workloads"),
    ],
)
def test_every_kind_can_be_listed_and_watched_from_there(
    client: Client, served: Served, group: str, plural: str
) -> None:
    resource = served(group, plural)
    *_, last = client.list_pages(resource, limit=1)
    with client.watch(resource, resource_version=last.resource_version, timeout_seconds=2) as watch:
        events = [event for batch in watch for event in batch if isinstance(event, Event)]
    assert all(event.type in ("ADDED", "MODIFIED", "DELETED") for event in events)
