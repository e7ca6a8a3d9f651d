"""Device Plugin resources are counted as kube-scheduler counts them; classes stand in by age."""

from typing import Any

import pytest

from portal.dra import extended
from portal.dra.cluster import how_many_more
from portal.dra.model import DeviceClass, Node, Pod, Toleration, decode_object
from tests.dra.builders import device, device_class, fleet, node, slice_of

GPU = "example.com/gpu"


def with_gpus(name: str, amount: object = "8", **body: Any) -> Node:
    return node(name, status={"allocatable": {GPU: amount}}, **body)


def pod(
    amount: object = "1",
    *,
    on: str = "n1",
    phase: str = "Running",
    init: Any = (),
    status: Any = None,
    **resources: Any,
) -> Pod:
    containers = [{"name": "c", "resources": resources or {"limits": {GPU: amount}}}]
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"nodeName": on, "containers": containers, "initContainers": list(init)},
        "status": {"phase": phase, **(status or {})},
    }
    found: Any = decode_object(document)
    assert isinstance(found, Pod)
    return found


def init(amount: str, **rest: Any) -> dict[str, Any]:
    return {"name": "i", "resources": {"limits": {GPU: amount}}, **rest}


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (pod("2"), 2),
        (pod(3), 3),
        (pod(requests={GPU: "2"}, limits={GPU: "2"}), 2),
        (pod(limits={"cpu": "4"}), 0),
        (pod("1", init=[init("4")]), 4),
        (pod("3", init=[init("2")]), 3),
        (pod("1", init=[init("1", restartPolicy="Always")]), 2),
        (pod("1", init=[init("2", restartPolicy="Always"), init("3")]), 5),
        (
            pod(
                "2",
                status={
                    "extendedResourceClaimStatus": {
                        "resourceClaimName": "c",
                        "requestMappings": [{"containerName": "c", "resourceName": GPU, "requestName": "r"}],
                    }
                },
            ),
            0,
        ),
    ],
)
def test_what_a_pod_asks_of_the_plugin(found: Pod, expected: int) -> None:
    assert extended.requested_by(found, GPU) == expected


def test_units_left_count_running_pods_of_the_node_only() -> None:
    nodes = [with_gpus("n1"), with_gpus("n2", "4"), node("n3")]
    pods = [
        pod("2"),
        pod("1", on="n2"),
        pod("5", phase="Succeeded"),
        pod("5", phase="Failed"),
        pod("1", on=""),
    ]
    assert extended.free_units(nodes, pods, resource=GPU) == {"n1": 6, "n2": 3}


def test_nodes_have_to_take_pods_and_have_enough_left() -> None:
    nodes = [
        with_gpus("full"),
        with_gpus("cordoned", spec={"unschedulable": True}),
        with_gpus("tainted", spec={"taints": [{"key": "gpu", "effect": "NoSchedule"}]}),
        with_gpus("fine"),
        node("none"),
    ]
    pods = [pod("7", on="full")]
    found = extended.feasible_nodes(nodes, pods, resource=GPU, amount=2)
    assert found.nodes == ("fine",)
    assert {name: reason.code for name, reason in found.rejected.items()} == {
        "full": "resource-short",
        "cordoned": "node-cordoned",
        "tainted": "node-tainted",
    }
    assert str(found.rejected["full"]) == "node full has 1 of example.com/gpu left, 2 are wanted"
    tolerant = extended.feasible_nodes(
        nodes, pods, resource=GPU, amount=2, tolerations=[Toleration(key="gpu", operator="Exists")]
    )
    assert tolerant.nodes == ("tainted", "fine")


def test_room_is_counted_in_whole_pods_per_node() -> None:
    nodes = [with_gpus("n1"), with_gpus("n2", "3")]
    found = extended.how_many_more(nodes, [pod("1")], resource=GPU, amount=2)
    assert (found.count, found.per_node) == (4, {"n1": 3, "n2": 1})


def aged(name: str, created: str | None, resource: str | None = GPU) -> DeviceClass:
    document = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name, "creationTimestamp": created},
        "spec": {"extendedResourceName": resource},
    }
    found: Any = decode_object(document)
    assert isinstance(found, DeviceClass)
    return found


@pytest.mark.parametrize(
    ("classes", "resource", "expected"),
    [
        ([aged("old", "2025-01-01T00:00:00Z"), aged("new", "2025-02-01T00:00:00Z")], GPU, "new"),
        ([aged("b", "2025-01-01T00:00:00Z"), aged("a", "2025-01-01T00:00:00Z")], GPU, "a"),
        ([aged("a", None, "example.com/other")], GPU, None),
        ([aged("a", None, None)], "deviceclass.resource.kubernetes.io/a", "a"),
        ([aged("a", None, None)], "deviceclass.resource.kubernetes.io/b", None),
        ([], GPU, None),
    ],
)
def test_the_class_that_serves_a_resource(
    classes: list[DeviceClass], resource: str, expected: str | None
) -> None:
    found = extended.class_for(classes, resource)
    assert (found.metadata.name if found is not None else None) == expected


def test_units_of_an_extended_resource_become_a_claim() -> None:
    where = fleet(slice_of(*(device(f"d{i}") for i in range(5))))
    claim = extended.claim_for(device_class("gpu"), count=2)
    assert how_many_more(where, claim).count == 2
