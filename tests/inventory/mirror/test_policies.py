"""What administrators lay over a cluster: namespaces, taint rules, runtimes."""

import pytest

from inventory import snapshot
from inventory.models import Device, DeviceTaintRule, Namespace, Node, RuntimeClass
from tests.inventory.conftest import Mirror
from tests.inventory.objects import (
    changed,
    gpu,
    namespace,
    node,
    resource_slice,
    runtime_class,
    taint_rule,
)


def test_a_namespace_is_kept_with_its_labels(mirror: Mirror) -> None:
    mirror.see(namespace("ns", team="alpha"))
    row = Namespace.objects.get()
    assert (row.name, row.labels, row.admin_access) == ("ns", {"team": "alpha"}, False)


@pytest.mark.parametrize("label", ["resource.kubernetes.io/admin-access", "resource.k8s.io/admin-access"])
def test_a_namespace_that_admits_admin_access_is_marked(mirror: Mirror, label: str) -> None:
    mirror.see(namespace("monitoring", **{label: "true"}))
    assert Namespace.objects.get().admin_access


def test_a_deleted_namespace_is_gone(mirror: Mirror) -> None:
    obj = namespace("ns")
    mirror.see(obj)
    mirror.see(obj, deleted=True)
    assert not Namespace.objects.exists()


def test_a_runtime_class_is_kept_with_its_handler(mirror: Mirror) -> None:
    mirror.see(runtime_class("nvidia", handler="nvidia-cdi"))
    row = RuntimeClass.objects.get()
    assert (row.name, row.handler, row.overhead) == ("nvidia", "nvidia-cdi", {"cpu": "250m"})


def test_a_node_tells_its_runtime_and_kernel(mirror: Mirror) -> None:
    obj = node()
    obj["status"]["nodeInfo"] |= {
        "containerRuntimeVersion": "containerd://2.1.4",
        "kernelVersion": "6.12.41",
        "osImage": "Debian 13",
    }
    mirror.see(obj)
    row = Node.objects.get()
    assert (row.container_runtime, row.kernel_version, row.os_image, row.kubelet_version) == (
        *("containerd://2.1.4", "6.12.41", "Debian 13"),
        "v1.36.2",
    )


def test_a_heartbeat_of_a_node_leaves_the_version_of_the_mirror(mirror: Mirror) -> None:
    obj = node()
    mirror.see(obj)
    version = type(mirror.cluster).objects.get().mirror_version
    mirror.see(changed(obj))
    assert type(mirror.cluster).objects.get().mirror_version == version


# --- rules --------------------------------------------------------------------------------------------


def states() -> dict[str, tuple[str, str]]:
    return {device.name: (device.state, device.reason) for device in Device.objects.all()}


FREE, TAINTED = ("free", ""), ("unavailable", "device-tainted")


@pytest.fixture
def two_gpus(mirror: Mirror) -> Mirror:
    mirror.see(node())
    mirror.see(resource_slice("s", [gpu(0), gpu(1)]))
    return mirror


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
def test_a_rule_makes_the_devices_it_selects_unavailable(two_gpus: Mirror, effect: str) -> None:
    two_gpus.see(taint_rule("fan", driver="gpu.nvidia.com", pool="n1", device="gpu-1", effect=effect))
    assert states() == {"gpu-0": FREE, "gpu-1": TAINTED}


def test_a_rule_without_effect_only_informs(two_gpus: Mirror) -> None:
    two_gpus.see(taint_rule("fan", driver="gpu.nvidia.com", effect="None"))
    assert states() == {"gpu-0": FREE, "gpu-1": FREE}


def test_devices_are_free_again_when_the_rule_is_gone(two_gpus: Mirror) -> None:
    rule = taint_rule("fan", driver="gpu.nvidia.com")
    two_gpus.see(rule)
    assert states() == {"gpu-0": TAINTED, "gpu-1": TAINTED}
    two_gpus.see(rule, deleted=True)
    assert states() == {"gpu-0": FREE, "gpu-1": FREE}


def test_a_rule_that_selects_other_devices_frees_the_earlier_ones(two_gpus: Mirror) -> None:
    rule = taint_rule("fan", device="gpu-0")
    two_gpus.see(rule)
    spec = rule["spec"] | {"deviceSelector": {"device": "gpu-1"}}
    two_gpus.see(changed(rule, spec=spec))
    assert states() == {"gpu-0": FREE, "gpu-1": TAINTED}


def test_a_rule_without_selector_selects_nothing(two_gpus: Mirror) -> None:
    rule = taint_rule("fan")
    del rule["spec"]["deviceSelector"]
    two_gpus.see(rule)
    assert states() == {"gpu-0": FREE, "gpu-1": FREE}
    assert not DeviceTaintRule.objects.get().selects


def test_a_device_that_comes_under_a_rule_is_unavailable_at_once(mirror: Mirror) -> None:
    mirror.see(node())
    mirror.see(taint_rule("fan", driver="gpu.nvidia.com"))
    mirror.see(resource_slice("s", [gpu(0)]))
    assert states() == {"gpu-0": TAINTED}
    assert [o.facts["rule"] for o in mirror.observed("device-tainted")] == ["fan"]


def test_what_a_rule_does_is_history_of_each_device(two_gpus: Mirror) -> None:
    rule = taint_rule("fan", driver="gpu.nvidia.com")
    two_gpus.see(rule)
    two_gpus.see(changed(rule, status={"conditions": [{"type": "EvictionInProgress", "status": "True"}]}))
    two_gpus.see(rule, deleted=True)
    seen = [
        (o.kind, o.name, o.facts["rule"]) for o in two_gpus.observed("device-tainted", "device-untainted")
    ]
    assert seen == [
        *(("device-tainted", "gpu-0", "fan"), ("device-tainted", "gpu-1", "fan")),
        *(("device-untainted", "gpu-0", "fan"), ("device-untainted", "gpu-1", "fan")),
    ]


def test_the_engine_is_fed_the_rules_where_the_cluster_serves_them(two_gpus: Mirror) -> None:
    two_gpus.cluster.served = {"devicetaintrules": "resource.k8s.io/v1beta2"}
    two_gpus.cluster.save(update_fields=["served"])
    two_gpus.see(taint_rule("fan", device="gpu-1"))
    fleet = snapshot.fleet(two_gpus.cluster)
    taints = {device.device.name: [t.key for t in device.taints] for device in fleet.devices()}
    assert taints == {"gpu-0": [], "gpu-1": ["example.com/fan"]}


def test_rules_reach_the_engine_as_soon_as_the_cluster_serves_them(two_gpus: Mirror) -> None:
    two_gpus.see(taint_rule("fan", device="gpu-1"))
    before = snapshot.fleet(two_gpus.cluster)
    assert not any(device.taints for device in before.devices())
    two_gpus.cluster.served = {"devicetaintrules": "resource.k8s.io/v1beta2"}
    assert any(device.taints for device in snapshot.fleet(two_gpus.cluster).devices())


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1alpha3"])
def test_a_rule_is_read_in_every_version_that_is_served(two_gpus: Mirror, version: str) -> None:
    rule = taint_rule("fan", device="gpu-1")
    two_gpus.see(rule | {"apiVersion": f"resource.k8s.io/{version}"}, version=version)
    assert states() == {"gpu-0": FREE, "gpu-1": TAINTED}


def test_the_age_of_a_taint_is_that_of_the_rule_unless_it_says_otherwise(mirror: Mirror) -> None:
    old, told = taint_rule("old"), taint_rule("told")
    told["spec"]["taint"]["timeAdded"] = "2026-02-01T00:00:00Z"
    mirror.see(old, told)
    ages = DeviceTaintRule.objects.order_by("name").values_list("added_at__month", flat=True)
    assert list(ages) == [3, 2]
