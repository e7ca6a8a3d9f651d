"""How claims live: what allocates them, who joins, what frees them (``facts``: Kubernetes, claims)."""

from datetime import datetime

import pytest

from portal.kube.errors import AlreadyExists, Invalid
from portal.kube.resources import PODS, RESOURCE_CLAIMS
from tests.contract import objects
from tests.contract.gates import minor_version
from tests.contract.room import Room

FINALIZER = "resource.kubernetes.io/delete-protection"


def reserved_for(room: Room, claim: str) -> set[str]:
    """Names of the Pods that reserve a claim."""
    return {entry["name"] for entry in (room.get_claim(claim).get("status") or {}).get("reservedFor", ())}


def test_a_claim_that_no_pod_names_is_never_allocated(room: Room) -> None:
    device_class = room.machine("gpu-0", "gpu-1")
    room.claim("idle", objects.request(device_class))
    room.claim("asked", objects.request(device_class))
    room.pod("user", claims={"device": "asked"})
    room.until_allocated("asked")  # so the scheduler has been here, and a device is left
    assert not room.get_claim("idle").get("status")


def test_the_first_pod_gets_the_claim_its_devices_and_itself_a_node(room: Room) -> None:
    device_class = room.machine("gpu-0")
    node = room.name("a")
    room.claim("one", objects.request(device_class, name="accelerator"))
    room.pod("user", claims={"device": "one"})
    pod = room.until_running("user")
    claim = room.get_claim("one")
    assert pod["spec"]["nodeName"] == node
    result = claim["status"]["allocation"]["devices"]["results"][0]
    assert (result["request"], result["driver"], result["pool"], result["device"]) == (
        "accelerator",
        room.driver,
        node,
        "gpu-0",
    )
    assert claim["status"]["reservedFor"] == [
        {"resource": "pods", "name": "user", "uid": pod["metadata"]["uid"]}
    ]
    assert FINALIZER in claim["metadata"]["finalizers"]
    terms = claim["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"]
    assert terms[0]["matchFields"] == [{"key": "metadata.name", "operator": "In", "values": [node]}]
    stamp = claim["status"]["allocation"].get("allocationTimestamp")
    assert stamp is None or datetime.fromisoformat(stamp).tzinfo is not None


def test_a_second_pod_joins_what_the_first_was_given(room: Room) -> None:
    device_class = room.machine("gpu-0")
    room.claim("shared", objects.request(device_class))
    room.pod("first", claims={"device": "shared"})
    allocation = room.until_allocated("shared")["status"]["allocation"]
    room.pod("second", claims={"device": "shared"})
    room.until_running("second")
    assert reserved_for(room, "shared") == {"first", "second"}
    assert room.get_claim("shared")["status"]["allocation"] == allocation


def test_the_devices_stay_until_the_last_pod_leaves_and_the_claim_lives_on(room: Room) -> None:
    device_class = room.machine("gpu-0")
    uid = room.claim("shared", objects.request(device_class))["metadata"]["uid"]
    room.pod("first", claims={"device": "shared"})
    room.pod("second", claims={"device": "shared"})
    room.until_running("first")
    room.until_running("second")
    room.delete_pod("first")
    room.wait_for(lambda: reserved_for(room, "shared") == {"second"}, "only the second Pod left")
    assert room.get_claim("shared")["status"]["allocation"]
    room.delete_pod("second")
    freed = room.until_free("shared")
    assert freed["metadata"]["uid"] == uid
    room.pod("third", claims={"device": "shared"})
    again = room.until_allocated("shared")
    assert again["metadata"]["uid"] == uid
    assert reserved_for(room, "shared") == {"third"}


def test_a_finished_pod_holds_nothing_any_more(room: Room) -> None:
    device_class = room.machine("gpu-0")
    room.claim("batch", objects.request(device_class))
    room.pod("worker", claims={"device": "batch"})
    room.until_running("worker")
    room.kubelet.finish(room.namespace, "worker")
    room.until_free("batch")
    assert room.get_pod("worker")["status"]["phase"] == "Succeeded"


def test_a_freed_device_goes_to_the_pod_that_waits_for_it(room: Room) -> None:
    device_class = room.machine("gpu-0")
    room.claim("mine", objects.request(device_class))
    room.pod("holder", claims={"device": "mine"})
    room.until_running("holder")
    room.claim("yours", objects.request(device_class))
    room.pod("waiting", claims={"device": "yours"})
    room.until_unschedulable("waiting", "cannot allocate all claims")
    room.delete_pod("holder")
    room.until_running("waiting")
    assert room.devices_of("yours") == [(room.name("a"), "gpu-0")]
    assert not room.get_claim("mine").get("status")


def test_a_higher_priority_does_not_take_a_held_device(room: Room, is_real: bool) -> None:
    if is_real and minor_version(room.client) >= 37:
        pytest.skip("later schedulers may preempt who holds a device (KEP-5690)")
    device_class = room.machine("gpu-0")
    room.claim("mine", objects.request(device_class))
    room.pod("holder", claims={"device": "mine"})
    room.until_running("holder")
    room.claim("yours", objects.request(device_class))
    room.pod("urgent", claims={"device": "yours"}, priorityClassName="system-node-critical")
    room.until_unschedulable("urgent", "cannot allocate all claims")
    assert reserved_for(room, "mine") == {"holder"}
    assert room.get_pod("holder")["status"]["phase"] == "Running"


def test_claims_from_templates_belong_to_their_pod(room: Room) -> None:
    device_class = room.machine("gpu-0")
    room.template("wish", objects.request(device_class))
    room.pod("user", templates={"accelerator": "wish"})
    pod = room.until_running("user")
    (status,) = pod["status"]["resourceClaimStatuses"]
    assert status["name"] == "accelerator"
    claim = room.get_claim(status["resourceClaimName"])
    metadata = claim["metadata"]
    assert metadata["name"].startswith("user-accelerator-")
    assert metadata["annotations"]["resource.kubernetes.io/pod-claim-name"] == "accelerator"
    assert metadata["labels"] == {"contract": "from-template"}
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("Pod", "user", pod["metadata"]["uid"])
    assert owner["controller"] is True
    room.delete_pod("user")
    room.until_gone(PODS, "user")
    room.until_gone(RESOURCE_CLAIMS, metadata["name"])


def test_a_pod_waits_for_a_template_that_is_not_there_yet(room: Room) -> None:
    device_class = room.machine("gpu-0")
    pod = room.pod("early", templates={"accelerator": "late"})
    room.wait_for(
        lambda: any(event["type"] == "Warning" for event in room.events_of(pod)),
        "a warning about the template",
    )
    assert not room.get_pod("early")["spec"].get("nodeName")
    room.template("late", objects.request(device_class))
    room.until_running("early")


def test_a_pod_that_names_an_unknown_claim_waits_for_it(room: Room) -> None:
    device_class = room.machine("gpu-0", "gpu-1")
    room.pod("early", claims={"device": "late"})
    room.claim("other", objects.request(device_class))
    room.pod("barrier", claims={"device": "other"})
    room.until_running("barrier")  # so the scheduler had its chance with the one before
    assert not room.get_pod("early")["spec"].get("nodeName")
    assert room.get_pod("early")["status"]["phase"] == "Pending"
    room.claim("late", objects.request(device_class))
    room.until_running("early")


def test_a_gracefully_deleted_pod_keeps_its_device_until_the_kubelet_is_done(room: Room) -> None:
    device_class = room.machine("gpu-0")
    room.claim("held", objects.request(device_class))
    room.pod("leaving", claims={"device": "held"})
    room.until_running("leaving")
    with room.kubelet.paused():
        room.delete_pod("leaving")
        going = room.get_pod("leaving")
        assert going["metadata"]["deletionTimestamp"]
        assert going["metadata"]["deletionGracePeriodSeconds"] == 30
        assert reserved_for(room, "held") == {"leaving"}
        assert room.get_claim("held")["status"]["allocation"]
    room.until_gone(PODS, "leaving")
    room.until_free("held")


def test_a_pod_without_node_goes_at_once(room: Room) -> None:
    device_class = room.device_class()
    room.claim("nowhere", objects.request(device_class))
    room.pod("lost", claims={"device": "nowhere"})
    room.delete_pod("lost")
    room.until_gone(PODS, "lost")


def test_a_reserved_claim_outlives_its_deletion_until_the_pod_is_gone(room: Room) -> None:
    device_class = room.machine("gpu-0")
    room.claim("doomed", objects.request(device_class))
    room.pod("user", claims={"device": "doomed"})
    room.until_running("user")
    room.client.delete(RESOURCE_CLAIMS, "doomed", namespace=room.namespace)
    assert room.get_claim("doomed")["metadata"]["deletionTimestamp"]
    assert reserved_for(room, "doomed") == {"user"}
    room.delete_pod("user")
    room.until_gone(RESOURCE_CLAIMS, "doomed")


def test_a_claim_of_a_known_name_is_made_once(room: Room) -> None:
    device_class = room.device_class()
    made = room.claim("request-7f3a", objects.request(device_class))
    with pytest.raises(AlreadyExists):
        room.claim("request-7f3a", objects.request(device_class))
    assert room.get_claim("request-7f3a")["metadata"]["uid"] == made["metadata"]["uid"]


def test_what_a_claim_asks_for_cannot_be_changed(room: Room) -> None:
    device_class = room.device_class()
    claim = room.claim("fixed", objects.request(device_class))
    claim["spec"]["devices"]["requests"][0]["exactly"]["count"] = 2
    with pytest.raises(Invalid) as refused:
        room.client.replace(RESOURCE_CLAIMS, "fixed", claim, namespace=room.namespace)
    assert refused.value.status == 422
    assert {cause.field for cause in refused.value.causes} == {"spec"}
    assert "immutable" in refused.value.causes[0].message


def test_at_most_256_consumers_reserve_a_claim(room: Room) -> None:
    device_class = room.machine("gpu-0")
    room.claim("crowded", objects.request(device_class))
    room.pod("user", claims={"device": "crowded"})
    room.until_allocated("crowded")
    crowd = [{"resource": "pods", "name": f"pod-{number}", "uid": f"uid-{number}"} for number in range(257)]
    with pytest.raises(Invalid) as refused:
        room.client.patch(
            RESOURCE_CLAIMS,
            "crowded",
            {"status": {"reservedFor": crowd}},
            namespace=room.namespace,
            subresource="status",
            dry_run=True,
        )
    assert any(cause.field == "status.reservedFor" for cause in refused.value.causes)
