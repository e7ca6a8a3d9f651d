"""Which node a Pod gets, which devices, and what is said when there are none."""

import re

from portal.kube.resources import DEVICE_CLASSES, NODES
from tests.contract import objects
from tests.contract.room import Room


def test_the_scheduler_says_why_a_pod_fits_nowhere(room: Room) -> None:
    device_class = room.machine("gpu-0")
    room.claim("much", objects.request(device_class, count=2))
    pod = room.pod("waiting", claims={"device": "much"})
    message = room.until_unschedulable("waiting", "cannot allocate all claims")
    assert re.match(r"^0/\d+ nodes are available: ", message)
    conditions = {item["type"]: item for item in room.get_pod("waiting")["status"]["conditions"]}
    assert conditions["PodScheduled"]["reason"] == "Unschedulable"
    event = room.until_event(pod, "FailedScheduling")
    assert event["type"] == "Warning"
    assert event["message"]


def test_a_cordoned_node_is_not_chosen_until_it_is_opened(room: Room) -> None:
    node = room.node("closed", unschedulable=True)
    room.publish(node, [objects.device("gpu-0")])
    room.claim("one", objects.request(room.device_class()))
    room.pod("waiting", claims={"device": "one"})
    room.until_unschedulable("waiting")
    assert not room.get_claim("one").get("status")
    room.client.patch(NODES, node, {"spec": {"unschedulable": None}})
    assert room.until_running("waiting")["spec"]["nodeName"] == node


def test_a_tainted_node_is_for_pods_that_tolerate_it(room: Room) -> None:
    taint = {"key": "contract.example.com/reserved", "value": "yes", "effect": "NoSchedule"}
    node = room.node("reserved", taints=[taint])
    room.publish(node, [objects.device("gpu-0")])
    device_class = room.device_class()
    room.claim("one", objects.request(device_class))
    room.pod("stranger", claims={"device": "one"})
    room.until_unschedulable("stranger", "taint")
    room.claim("two", objects.request(device_class))
    toleration = {"key": taint["key"], "operator": "Equal", "value": "yes", "effect": "NoSchedule"}
    room.pod("guest", claims={"device": "two"}, tolerations=[toleration])
    assert room.until_running("guest")["spec"]["nodeName"] == node


def test_a_node_that_is_not_ready_is_not_chosen(room: Room) -> None:
    node = room.node("ill", ready=False)
    room.wait_for(
        lambda: any(
            taint["key"] == "node.kubernetes.io/not-ready"
            for taint in room.client.get(NODES, node)["spec"].get("taints", ())
        ),
        "the taint of a node that is not ready",
    )
    room.publish(node, [objects.device("gpu-0")])
    room.claim("one", objects.request(room.device_class()))
    room.pod("waiting", claims={"device": "one"})
    room.until_unschedulable("waiting")
    room.kubelet.adopt(node, ready=True)
    assert room.until_running("waiting")["spec"]["nodeName"] == node


def test_devices_of_an_incomplete_pool_do_not_count(room: Room) -> None:
    node = room.node()
    room.publish(node, [objects.device("gpu-0")], slices=2)
    room.claim("one", objects.request(room.device_class()))
    room.pod("waiting", claims={"device": "one"})
    room.until_unschedulable("waiting", "cannot allocate all claims")
    room.publish(node, [objects.device("gpu-1")], slices=2)
    room.until_running("waiting")


def test_only_the_newest_generation_of_a_pool_counts(room: Room) -> None:
    node = room.node()
    room.publish(node, [objects.device("old")], generation=1)
    room.publish(node, [objects.device("new")], generation=2)
    device_class = room.device_class()
    room.claim("one", objects.request(device_class))
    room.pod("user", claims={"device": "one"})
    room.until_running("user")
    assert room.devices_of("one") == [(node, "new")]
    room.claim("two", objects.request(device_class))
    room.pod("waiting", claims={"device": "two"})
    room.until_unschedulable("waiting", "cannot allocate all claims")


def test_selectors_of_class_and_request_both_decide(room: Room) -> None:
    node = room.node()
    room.publish(
        node,
        [
            objects.device("small", memory="20Gi"),
            objects.device("large", memory="80Gi"),
            objects.device("other", memory="80Gi", attributes={"model": {"string": "another"}}),
        ],
    )
    device_class = room.device_class("contract", f"device.attributes['{room.driver}'].model == 'contract'")
    at_least = f"device.capacity['{room.driver}'].memory.compareTo(quantity('40Gi')) >= 0"
    room.claim("one", objects.request(device_class, at_least))
    room.pod("user", claims={"device": "one"})
    room.until_running("user")
    assert room.devices_of("one") == [(node, "large")]


def test_a_count_gives_different_devices_of_one_node(room: Room) -> None:
    device_class = room.machine("gpu-0", "gpu-1", "gpu-2")
    room.claim("two", objects.request(device_class, count=2))
    room.pod("user", claims={"device": "two"})
    room.until_running("user")
    assert len(set(room.devices_of("two"))) == 2


def test_all_takes_every_matching_device_of_a_node(room: Room) -> None:
    device_class = room.machine("gpu-0", "gpu-1", "gpu-2")
    every = {"name": "every", "exactly": {"deviceClassName": device_class, "allocationMode": "All"}}
    room.claim("all", every)
    room.pod("user", claims={"device": "all"})
    room.until_running("user")
    assert len(set(room.devices_of("all"))) == 3


def test_a_constraint_brings_devices_of_two_drivers_together(room: Room) -> None:
    node, network = room.node(), f"net.{room.driver}"
    attribute = "resource.kubernetes.io/pcieRoot"

    def at(name: str, root: str) -> objects.Object:
        return objects.device(name, attributes={attribute: {"string": root}})

    room.publish(node, [at("gpu-0", "pci0000:10"), at("gpu-1", "pci0000:20")])
    room.publish(node, [at("nic-0", "pci0000:20"), at("nic-1", "pci0000:30")], driver=network)
    nics = room.name("nics")
    room.create(DEVICE_CLASSES, objects.device_class(nics, f"device.driver == '{network}'"))
    room.claim(
        "pair",
        objects.request(room.device_class(), name="gpu"),
        objects.request(nics, name="nic"),
        constraints=[{"requests": ["gpu", "nic"], "matchAttribute": attribute}],
    )
    room.pod("user", claims={"pair": "pair"})
    room.until_running("user")
    assert set(room.devices_of("pair")) == {(node, "gpu-1"), (node, "nic-0")}


def test_a_pod_waits_for_a_class_that_is_not_there_yet(room: Room) -> None:
    room.machine("gpu-0")
    room.claim("one", objects.request(room.name("late")))
    room.pod("waiting", claims={"device": "one"})
    room.until_unschedulable("waiting", f"device class {room.name('late')} does not exist")
    room.device_class("late")
    room.until_running("waiting")


def test_a_broken_selector_stops_the_pod_instead_of_being_skipped(room: Room) -> None:
    device_class = room.machine("gpu-0")
    room.claim("one", objects.request(device_class, f"device.attributes['{room.driver}'].absent == 'x'"))
    pod = room.pod("stuck", claims={"device": "one"})
    room.until_unschedulable("stuck", "absent")
    assert room.until_event(pod, "FailedScheduling")["type"] == "Warning"
    assert not room.get_claim("one").get("status")
    assert not room.get_pod("stuck")["spec"].get("nodeName")
