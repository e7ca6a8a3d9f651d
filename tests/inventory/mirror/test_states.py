"""Free, held, partly held, unavailable and why."""

import pytest

from inventory.models import Device
from tests.inventory.conftest import Mirror
from tests.inventory.objects import Json, allocation, changed, claim, gpu, node, pod, resource_slice, result


def states(*names: str) -> list[tuple[str, str]]:
    found = {d.name: (d.state, d.reason) for d in Device.objects.all()}
    return [found[name] for name in names]


def state() -> tuple[str, str]:
    return states("gpu-0")[0]


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (node(ready=False), "node-not-ready"),
        (node(unschedulable=True), "node-cordoned"),
        (node(taints=[{"key": "maintenance", "effect": "NoSchedule"}]), "node-tainted"),
        (node("other"), "node-missing"),
    ],
)
def test_a_node_that_takes_no_pod_makes_its_devices_unavailable(
    mirror: Mirror, made: Json, reason: str
) -> None:
    mirror.see(resource_slice("s1", [gpu(0)]))
    mirror.see(made)
    assert state() == ("unavailable", reason)
    mirror.see(node())
    assert state() == ("free", "")


def test_a_taint_that_only_advises_against_a_node_does_not_matter(mirror: Mirror) -> None:
    mirror.see(resource_slice("s1", [gpu(0)]))
    mirror.see(node(taints=[{"key": "old", "effect": "PreferNoSchedule"}]))
    assert state() == ("free", "")


def test_a_node_that_is_deleted_makes_its_devices_unavailable(mirror: Mirror) -> None:
    made = node()
    mirror.see(made)
    mirror.see(resource_slice("s1", [gpu(0)]))
    mirror.see(made, deleted=True)
    assert state() == ("unavailable", "node-missing")


def test_a_held_device_is_held_whatever_its_node_does(mirror: Mirror) -> None:
    mirror.see(resource_slice("s1", [gpu(0)]))
    mirror.see(claim(allocated=allocation(result("gpu-0"))))
    mirror.see(node(ready=False))
    assert state() == ("held", "")


def test_whether_a_device_could_be_had_is_kept_for_history(mirror: Mirror) -> None:
    mirror.see(node())
    mirror.see(resource_slice("s1", [gpu(0)]))
    mirror.see(node(unschedulable=True))
    mirror.see(node(ready=False))
    mirror.see(claim(allocated=allocation(result("gpu-0"))))
    told = mirror.observed("device-unavailable", "device-available")
    assert [(o.kind, o.facts["was"], o.facts.get("reason")) for o in told] == [
        ("device-unavailable", "", "node-cordoned"),
        ("device-unavailable", "node-cordoned", "node-not-ready"),
        # Somebody holds it: that is told by the claim.
        ("device-available", "node-not-ready", None),
    ]


def test_partitions_that_make_room_for_each_other_are_not_told_of(mirror: Mirror) -> None:
    mirror.see(node())
    mirror.see(*partitioned())
    mirror.see(claim("half", allocated=allocation(result("gpu-0-mig-0"))))
    told = mirror.observed("device-unavailable", "device-available")
    assert [(o.name, o.facts.get("reason")) for o in told] == [("gpu-0", "counters-used")]
    mirror.see(node(ready=False))
    (_whole, rest) = mirror.observed("device-unavailable")
    assert (rest.name, rest.facts["reason"]) == ("gpu-0-mig-1", "node-not-ready")


def test_a_heartbeat_of_a_node_touches_no_device(mirror: Mirror) -> None:
    made = node()
    mirror.see(made)
    mirror.see(resource_slice("s1", [gpu(0)]))
    Device.objects.update(state="held")
    type(mirror.cluster).objects.update(mirror_version=50)
    mirror.see(changed(made))
    assert state() == ("held", ""), "looked at again without need"


def shared() -> Json:
    return gpu(0, allowMultipleAllocations=True)


def share(name: str, amount: str) -> Json:
    taken = result("gpu-0", shareID=f"share-{name}", consumedCapacity={"memory": amount})
    return claim(name, allocated=allocation(taken))


def test_a_shared_device_is_partly_held_until_a_capacity_is_used_up(mirror: Mirror) -> None:
    mirror.see(node())
    mirror.see(resource_slice("s1", [shared()]))
    mirror.see(share("a", "10Gi"))
    assert state() == ("partly", "")
    mirror.see(share("b", "30Gi"))
    assert state() == ("held", "")
    mirror.see(share("b", "30Gi"), deleted=True)
    assert state() == ("partly", "")


def test_the_rest_of_a_shared_device_can_be_out_of_reach(mirror: Mirror) -> None:
    mirror.see(node(unschedulable=True))
    mirror.see(resource_slice("s1", [shared()]))
    mirror.see(share("a", "10Gi"))
    assert state() == ("partly", "node-cordoned")


def partitioned() -> list[Json]:
    """One GPU that can be had as a whole, or as two halves."""
    sets = [{"name": "set-0", "counters": {"slices": {"value": "2"}, "memory": {"value": "40Gi"}}}]

    def uses(slices: str, memory: str) -> list[Json]:
        return [
            {"counterSet": "set-0", "counters": {"slices": {"value": slices}, "memory": {"value": memory}}}
        ]

    half = {"type": {"string": "mig"}, "profile": {"string": "3g.20gb"}, "parentUUID": {"string": "GPU-n1-0"}}
    devices = [
        gpu(0, consumesCounters=uses("2", "40Gi")),
        *(
            {"name": f"gpu-0-mig-{n}", "attributes": half, "consumesCounters": uses("1", "20Gi")}
            for n in (0, 1)
        ),
    ]
    return [
        resource_slice("counters", [], sharedCounters=sets, count=2),
        resource_slice("devices", devices, count=2),
    ]


def test_partitions_and_their_parent_exclude_each_other(mirror: Mirror) -> None:
    names = ("gpu-0", "gpu-0-mig-0", "gpu-0-mig-1")
    mirror.see(node())
    mirror.see(*partitioned())
    assert states(*names) == [("free", "")] * 3
    half = claim("half", allocated=allocation(result("gpu-0-mig-0")))
    mirror.see(half)
    assert states(*names) == [("unavailable", "counters-used"), ("held", ""), ("free", "")]
    mirror.see(half, deleted=True)
    assert states(*names) == [("free", "")] * 3
    mirror.see(claim("whole", allocated=allocation(result("gpu-0"))))
    assert states(*names) == [("held", ""), *[("unavailable", "counters-used")] * 2]


def test_a_device_that_is_usable_on_several_nodes_needs_one_that_takes_pods(mirror: Mirror) -> None:
    spread = resource_slice("s1", [gpu(0)], node="")
    spread["spec"]["pool"]["name"] = "fabric"
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["n1", "n2"]}]}
    spread["spec"]["nodeSelector"] = {"nodeSelectorTerms": [term]}
    mirror.see(spread)
    mirror.see(node("n3"))
    assert state() == ("unavailable", "node-missing")
    mirror.see(node("n1", unschedulable=True))
    assert state() == ("unavailable", "node-cordoned")
    mirror.see(node("n2"))
    assert state() == ("free", "")


def test_a_device_that_is_usable_everywhere_needs_any_node(mirror: Mirror) -> None:
    spread = resource_slice("s1", [gpu(0)], node="", allNodes=True)
    spread["spec"]["pool"]["name"] = "fabric"
    mirror.see(spread)
    assert state() == ("unavailable", "node-missing")
    mirror.see(node("n1"))
    assert state() == ("free", "")


def test_devices_of_one_slice_may_be_on_different_nodes(mirror: Mirror) -> None:
    spread = resource_slice(
        "s1", [gpu(0, nodeName="n1"), gpu(1, allNodes=True)], node="", perDeviceNodeSelection=True
    )
    spread["spec"]["pool"]["name"] = "fabric"
    mirror.see(spread)
    mirror.see(node("n2"))
    assert states("gpu-0", "gpu-1") == [("unavailable", "node-missing"), ("free", "")]


# --- health ---------------------------------------------------------------------------------------


def health() -> str:
    return str(Device.objects.get(name="gpu-0").health)


@pytest.mark.parametrize(("effect", "told"), [("NoSchedule", "tainted"), ("None", "good")])
def test_a_held_device_is_tainted_all_the_same(mirror: Mirror, effect: str, told: str) -> None:
    mirror.see(node())
    mirror.see(claim(allocated=allocation(result("gpu-0"))))
    mirror.see(resource_slice("s1", [gpu(0, taints=[{"key": "example.com/xid", "effect": effect}])]))
    assert (state(), health()) == (("held", ""), told)


@pytest.mark.parametrize(
    ("attribute", "value", "told"),
    [
        ("health", {"string": "HealthIssues"}, "unhealthy"),
        ("health", {"string": "Healthy"}, "good"),
        ("healthy", {"bool": False}, "unhealthy"),
        ("healthy", {"bool": True}, "good"),
        ("healthy", {"int": 0}, "good"),
    ],
)
def test_a_driver_may_say_how_a_device_is(mirror: Mirror, attribute: str, value: Json, told: str) -> None:
    mirror.see(node())
    made = gpu(0)
    made["attributes"] |= {attribute: value}
    mirror.see(resource_slice("s1", [made]))
    assert (state(), health()) == (("free", ""), told)


def test_a_kubelet_that_calls_a_device_unhealthy_is_believed_while_the_pod_runs(mirror: Mirror) -> None:
    mirror.see(node())
    mirror.see(resource_slice("s1", [gpu(0), gpu(1)]))
    device = Device.objects.select_related("pool").get(name="gpu-0")
    named = f"{device.pool.driver}/{device.pool.name}/gpu-0"

    def running(health: str) -> Json:
        told = [{"name": "claim:gpu", "resources": [{"resourceID": named, "health": health}]}]
        statuses = [{"name": "main", "allocatedResourcesStatus": told}]
        return pod(claims={"gpu": "train"}, on="n1", containerStatuses=statuses)

    made = running("Unhealthy")
    mirror.see(made)
    assert health() == "unhealthy"
    assert Device.objects.get(name="gpu-1").health == "good"
    mirror.see(changed(made, status=running("Healthy")["status"]))
    assert health() == "good"
    mirror.see(changed(made))
    assert health() == "unhealthy"
    mirror.see(made, deleted=True)
    assert health() == "good"
