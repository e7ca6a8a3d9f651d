"""What is kept of units of Device Plugins and of claims made for extended resources, for the ledger."""

import random
from typing import Any

import pytest

from inventory.models import Pod
from tests.inventory.conftest import Mirror
from tests.inventory.objects import Json, allocation, changed, claim, gpu, node, pod, resource_slice, result

LABELS = {
    "nvidia.com/gpu.product": "A100-SXM4-40GB-SHARED",
    "nvidia.com/gpu.replicas": "4",
    "nvidia.com/gpu.sharing-strategy": "time-slicing",
}
ANNOTATED = {"resource.kubernetes.io/extended-resource-claim": "true"}


def labelled() -> Json:
    made = node()
    made["metadata"]["labels"] |= LABELS
    return made


def served_by(name: str) -> dict[str, Any]:
    """The status that the scheduler gives a Pod whose extended resources a claim serves."""
    return {
        "extendedResourceClaimStatus": {
            "resourceClaimName": name,
            "requestMappings": [
                {
                    "containerName": "main",
                    "resourceName": "nvidia.com/gpu",
                    "requestName": "container-0-request-0",
                }
            ],
        }
    }


def made_for(owner: str, **metadata: Any) -> Json:
    reference = {"apiVersion": "v1", "kind": "Pod", "name": "work", "uid": owner, "controller": True}
    return claim(
        "work-extended",
        allocated=allocation(result("gpu-0", request="container-0-request-0")),
        **{"annotations": ANNOTATED, "ownerReferences": [reference], **metadata},
    )


def test_a_pod_tells_what_its_units_were_by_the_labels_of_its_node(mirror: Mirror) -> None:
    mirror.see(labelled())
    mirror.see(pod(extended={"nvidia.com/gpu": "2"}, on="n1"))
    (scheduled,) = mirror.observed("pod-scheduled")
    (unit,) = scheduled.facts["units"]
    assert scheduled.facts["extended"] == {"nvidia.com/gpu": 2}
    assert (unit["resource"], unit["product"]) == ("nvidia.com/gpu", "A100 SXM4 40GB")
    assert (unit["replicas"], unit["sharing"]) == (4, "time-slicing")
    assert mirror.observed("pod-detailed") == []


def test_a_node_that_comes_later_completes_what_was_told_of_its_pods_once(mirror: Mirror) -> None:
    mirror.see(pod(extended={"nvidia.com/gpu": "2"}, on="n1"))
    (scheduled,) = mirror.observed("pod-scheduled")
    assert scheduled.facts["units"] == []
    mirror.see(labelled())
    mirror.see(labelled(), deleted=True)
    mirror.see(node())
    (detailed,) = mirror.observed("pod-detailed")
    assert (detailed.uid, detailed.facts["units"][0]["replicas"]) == (scheduled.uid, 4)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_claim_for_extended_resources_is_told_of_both_by_pod_and_claim(
    mirror: Mirror, order: tuple[int, int]
) -> None:
    mirror.see(labelled())
    work = pod(extended={"nvidia.com/gpu": "1"}, on="n1", **served_by("work-extended"))
    seen = [work, made_for(work["metadata"]["uid"])]
    for index in order:
        mirror.see(seen[index])
    pair = mirror.observed("extended-claim")
    assert {o.uid for o in pair} == {seen[0]["metadata"]["uid"], seen[1]["metadata"]["uid"]}
    for told in pair:
        assert told.facts["resources"] == {"container-0-request-0": "nvidia.com/gpu"}
    # Seen again, nothing is added.
    mirror.see(changed(work, status=work["status"] | {"phase": "Running"}))
    assert len(mirror.observed("extended-claim")) == 2
    assert Pod.objects.get().extended_mapping == {"container-0-request-0": "nvidia.com/gpu"}


@pytest.mark.parametrize("faked", ["owner", "status", "namespace"])
def test_an_annotation_alone_makes_no_claim_for_extended_resources(mirror: Mirror, faked: str) -> None:
    status = {} if faked == "status" else served_by("work-extended")
    work = pod(extended={"nvidia.com/gpu": "1"}, on="n1", **status)
    owner = "another" if faked == "owner" else work["metadata"]["uid"]
    told = made_for(owner)
    if faked == "namespace":
        told["metadata"]["namespace"] = "other"
    mirror.see(work)
    mirror.see(told)
    assert mirror.observed("extended-claim") == []


def test_a_partition_tells_what_it_draws_on_and_of_how_much(mirror: Mirror) -> None:
    drawn = [{"counterSet": "gpu-0-counter-set", "counters": {"memory": {"value": "10Gi"}}}]
    part = gpu(0) | {"name": "gpu-0-mig", "consumesCounters": drawn}
    shared = [
        {"name": "gpu-0-counter-set", "counters": {"memory": {"value": "40Gi"}, "slices": {"value": "8"}}}
    ]
    counters = resource_slice("counters", [], count=2, sharedCounters=shared)
    parts = resource_slice("parts", [part], count=2)
    slices = [counters, parts]
    random.Random(1).shuffle(slices)
    for one in slices:
        mirror.see(one)
    mirror.see(claim(allocated=allocation(result("gpu-0-mig"), result("gpu-0-gone"))))
    (allocated,) = mirror.observed("claim-allocated")
    told, other = allocated.facts["devices"]
    assert told["counters"] == {"gpu-0-counter-set/memory": {"used": "10Gi", "total": "40Gi"}}
    assert "counters" not in other


@pytest.mark.parametrize(
    ("asked", "count"), [("1.5Ki", 1536), ("0.0009765625Ki", 1), ("9999999E", 2**63 - 1)]
)
def test_units_are_counted_however_their_number_is_written(mirror: Mirror, asked: str, count: int) -> None:
    mirror.see(pod(extended={"nvidia.com/gpu": asked}, on="n1"))
    assert Pod.objects.get().extended_resources == {"nvidia.com/gpu": count}
    assert mirror.observed("pod-scheduled")
