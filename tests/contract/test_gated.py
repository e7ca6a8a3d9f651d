"""What hangs on feature gates. A real cluster may have them off: then the API server drops the field, and we
skip."""

from collections.abc import Callable

import pytest

from portal.kube.client import Client
from portal.kube.resources import PODS, RESOURCE_CLAIMS
from tests.contract import objects
from tests.contract.gates import is_on, minor_version
from tests.contract.objects import Object
from tests.contract.room import Room

Needs = Callable[[str], None]


@pytest.fixture
def needs(client: Client, is_real: bool) -> Needs:
    """Skip the test where a real cluster has the gate off."""

    def check(gate: str) -> None:
        on = is_on(client, gate)
        if not on and is_real:
            pytest.skip(f"the cluster's API server has {gate} off: it drops the fields")
        assert on, f"the embedded cluster has {gate} on, as 1.36 has"

    return check


def test_a_tainted_device_is_for_requests_that_tolerate_it(room: Room, needs: Needs) -> None:
    taint = {"key": "contract.example.com/ill", "value": "yes", "effect": "NoSchedule"}
    tainted = objects.device("gpu-0", taints=[taint])
    needs("DRADeviceTaints")
    node = room.node()
    room.publish(node, [tainted])
    device_class = room.device_class()
    room.claim("careful", objects.request(device_class))
    room.pod("careful", claims={"device": "careful"})
    room.until_unschedulable("careful", "cannot allocate all claims")
    toleration = {"key": taint["key"], "operator": "Exists", "effect": "NoSchedule"}
    room.claim("bold", objects.request(device_class, tolerations=[toleration]))
    room.pod("bold", claims={"device": "bold"})
    room.until_running("bold")
    assert room.devices_of("bold") == [(node, "gpu-0")]


def test_of_alternatives_the_first_that_fits_is_taken(room: Room, needs: Needs) -> None:
    node = room.node()
    room.publish(node, [objects.device("small", memory="20Gi")])
    device_class = room.device_class()
    large = f"device.capacity['{room.driver}'].memory.compareTo(quantity('40Gi')) >= 0"
    choice = {
        "name": "gpu",
        "firstAvailable": [
            {
                "name": "large",
                "deviceClassName": device_class,
                "selectors": [{"cel": {"expression": large}}],
                "allocationMode": "ExactCount",
                "count": 1,
            },
            {"name": "any", "deviceClassName": device_class, "allocationMode": "ExactCount", "count": 1},
        ],
    }
    needs("DRAPrioritizedList")
    room.claim("either", choice)
    room.pod("user", claims={"device": "either"})
    room.until_running("user")
    (result,) = room.get_claim("either")["status"]["allocation"]["devices"]["results"]
    assert (result["request"], result["device"]) == ("gpu/any", "small")


def test_partitions_and_the_whole_exclude_one_another(room: Room, needs: Needs) -> None:
    def drawing(name: str, amount: str) -> Object:
        counters = {"slices": {"value": amount}}
        return objects.device(name, consumesCounters=[{"counterSet": "gpu-0", "counters": counters}])

    counters = [{"name": "gpu-0", "counters": {"slices": {"value": "2"}}}]
    needs("DRAPartitionableDevices")
    node = room.node()
    devices = [drawing("whole", "2"), drawing("half-0", "1"), drawing("half-1", "1")]
    if minor_version(room.client) >= 35:
        room.publish(node, [], slices=2, sharedCounters=counters)
        room.publish(node, devices, slices=2)
    else:  # 1.34 wants counters in the slice of the devices that draw on them
        room.publish(node, devices, sharedCounters=counters)
    device_class = room.device_class()
    room.claim("first", objects.request(device_class, count=2))
    room.pod("first", claims={"device": "first"})
    room.until_running("first")
    held = {name for _, name in room.devices_of("first")}
    assert held == {"half-0", "half-1"}
    room.claim("second", objects.request(device_class))
    room.pod("second", claims={"device": "second"})
    room.until_unschedulable("second", "cannot allocate all claims")


def test_shares_of_a_device_add_up_to_its_capacity(room: Room, needs: Needs) -> None:
    shared = objects.device("gpu-0", allowMultipleAllocations=True)
    shared["capacity"]["memory"]["requestPolicy"] = {
        "default": "1Gi",
        "validRange": {"min": "1Gi", "step": "1Gi"},
    }
    needs("DRAConsumableCapacity")
    node = room.node()
    room.publish(node, [shared])
    device_class = room.device_class()
    for name, memory in (("first", "30Gi"), ("second", "10Gi")):
        room.claim(name, objects.request(device_class, capacity={"requests": {"memory": memory}}))
        room.pod(name, claims={"device": name})
        room.until_running(name)
        (result,) = room.get_claim(name)["status"]["allocation"]["devices"]["results"]
        assert result["device"] == "gpu-0"
        assert list(result["consumedCapacity"].values()) == [memory]
        assert result["shareID"]
    room.claim("third", objects.request(device_class, capacity={"requests": {"memory": "1Gi"}}))
    room.pod("third", claims={"device": "third"})
    room.until_unschedulable("third", "cannot allocate all claims")


def test_an_extended_resource_becomes_a_claim_of_the_schedulers(room: Room, needs: Needs) -> None:
    resource = f"{room.prefix}.example.com/gpu"
    needs("DRAExtendedResource")
    node = room.node()
    room.publish(node, [objects.device("gpu-0")])
    room.device_class("served", extendedResourceName=resource)
    body = objects.pod("user", node_selector=room.label)
    body["spec"]["containers"][0]["resources"]["limits"] = {resource: "1"}
    body["spec"]["containers"][0]["resources"]["requests"][resource] = "1"
    room.create(PODS, body)
    pod = room.until_running("user")
    status = pod["status"]["extendedResourceClaimStatus"]
    (mapping,) = status["requestMappings"]
    assert (mapping["containerName"], mapping["resourceName"]) == ("main", resource)
    claim = room.get_claim(status["resourceClaimName"])
    assert claim["metadata"]["annotations"]["resource.kubernetes.io/extended-resource-claim"] == "true"
    assert [owner["uid"] for owner in claim["metadata"]["ownerReferences"]] == [pod["metadata"]["uid"]]
    assert claim["status"]["reservedFor"][0]["uid"] == pod["metadata"]["uid"]
    (result,) = claim["status"]["allocation"]["devices"]["results"]
    assert (result["device"], result["request"]) == ("gpu-0", mapping["requestName"])
    room.delete_pod("user")
    room.until_gone(RESOURCE_CLAIMS, status["resourceClaimName"])
