"""Claims: what they hold, their epochs, and each beginning and end as one observation."""

from datetime import UTC, datetime, timedelta

import pytest

from inventory.mirror.batches import Gap
from inventory.mirror.writer import Writer
from inventory.models import Claim, ClaimDevice, Device, Observation
from tests.inventory.conftest import NOW, Mirror
from tests.inventory.objects import allocation, changed, claim, gpu, node, pod, resource_slice, result

STAMP = "2026-03-01T09:30:00Z"
STAMPED = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


def fleet(mirror: Mirror) -> None:
    mirror.see(node())
    mirror.see(resource_slice("s1", [gpu(0), gpu(1)]))


def state_of(name: str) -> str:
    return str(Device.objects.get(name=name).state)


def kinds(mirror: Mirror) -> list[tuple[str, object]]:
    skipped = ("device-appeared", "node-up")
    return [(o.kind, o.facts.get("epoch")) for o in mirror.observed() if o.kind not in skipped]


def test_a_claim_that_nobody_uses_is_created_and_holds_nothing(mirror: Mirror) -> None:
    fleet(mirror)
    mirror.see(claim())
    row = Claim.objects.get()
    assert (row.allocated, row.epoch, row.node_name) == (False, 0, "")
    (created,) = mirror.observed("claim-created")
    assert (created.at, created.source) == (datetime(2026, 3, 1, 8, tzinfo=UTC), "creationTimestamp")


def test_an_allocation_holds_the_device_and_keeps_all_facts(mirror: Mirror) -> None:
    fleet(mirror)
    mirror.see(claim(allocated=allocation(result("gpu-1"), timestamp=STAMP), reserved_for=("work",)))
    row = Claim.objects.get()
    assert (row.allocated, row.epoch, row.node_name, row.allocated_at) == (True, 1, "n1", STAMPED)
    held = ClaimDevice.objects.get()
    assert (held.device_name, held.device, held.request) == ("gpu-1", Device.objects.get(name="gpu-1"), "gpu")
    assert (state_of("gpu-0"), state_of("gpu-1")) == ("free", "held")
    (allocated,) = mirror.observed("claim-allocated")
    assert (allocated.at, allocated.source, allocated.uncertainty_us) == (STAMPED, "allocationTimestamp", 0)
    device = Device.objects.select_related("profile").get(name="gpu-1")
    assert allocated.facts == {
        "epoch": 1,
        "node": "n1",
        "owner_pod_uid": "",
        "devices": [
            {
                "driver": "gpu.nvidia.com",
                "pool": "n1",
                "device": "gpu-1",
                "request": "gpu",
                "share_id": "",
                "admin_access": False,
                "consumed_capacity": {},
                "device_class": "gpu.nvidia.com",
                "hardware_id": "GPU-n1-1",
                "profile": device.profile.digest,
                "product": "NVIDIA A100-SXM4-40GB",
                "capacity": {"gpu.nvidia.com/memory": {"value": "40Gi"}},
                "node": "n1",
            }
        ],
    }
    (joined,) = mirror.observed("consumer-joined")
    assert joined.facts["consumer"] == {
        "resource": "pods",
        "api_group": "",
        "name": "work",
        "uid": "uid-work",
    }


def test_a_claim_lives_through_several_allocations(mirror: Mirror) -> None:
    fleet(mirror)
    first = claim()
    mirror.see(first)
    for device in ("gpu-0", "gpu-1"):
        held = claim(allocated=allocation(result(device)), reserved_for=("work",))
        mirror.see(changed(first, status=held["status"]))
        assert state_of(device) == "held"
        mirror.see(changed(first, status={}))
        assert state_of(device) == "free"
    assert kinds(mirror) == [
        ("claim-created", None),
        *(("claim-allocated", 1), ("consumer-joined", 1), ("consumer-left", 1), ("claim-released", 1)),
        *(("claim-allocated", 2), ("consumer-joined", 2), ("consumer-left", 2), ("claim-released", 2)),
    ]
    assert Claim.objects.get().epoch == 2


def test_changes_that_come_in_one_batch_are_all_seen(mirror: Mirror) -> None:
    fleet(mirror)
    bare = claim()
    held = changed(bare, status=claim(allocated=allocation(result("gpu-0")))["status"])
    free = changed(bare, status={})
    mirror.see(bare, held, free)
    assert kinds(mirror) == [("claim-created", None), ("claim-allocated", 1), ("claim-released", 1)]
    assert state_of("gpu-0") == "free"


def test_an_allocation_that_changed_unseen_is_a_release_and_a_new_epoch(mirror: Mirror) -> None:
    fleet(mirror)
    first = claim(allocated=allocation(result("gpu-0")))
    mirror.see(first)
    since = mirror.now
    later = changed(first, status=claim(allocated=allocation(result("gpu-1")))["status"])
    mirror.now += timedelta(minutes=5)
    mirror.lists(later, kind="ResourceClaim", since=since, gap=Gap(since=since, lost=True))
    assert kinds(mirror) == [
        ("claim-created", None),
        ("claim-allocated", 1),
        ("claim-released", 1),
        ("claim-allocated", 2),
        ("gap", None),
    ]
    released, allocated = mirror.observed("claim-released", "claim-allocated")[1:]
    assert released.at - timedelta(microseconds=released.uncertainty_us) == since
    assert allocated.at - timedelta(microseconds=allocated.uncertainty_us) == since
    assert (state_of("gpu-0"), state_of("gpu-1")) == ("free", "held")


def test_the_same_device_with_another_timestamp_is_another_epoch(mirror: Mirror) -> None:
    fleet(mirror)
    first = claim(allocated=allocation(result("gpu-0"), timestamp=STAMP))
    mirror.see(first)
    again = claim(allocated=allocation(result("gpu-0"), timestamp="2026-03-01T09:45:00Z"))
    mirror.see(changed(first, status=again["status"]))
    assert kinds(mirror)[1:] == [("claim-allocated", 1), ("claim-released", 1), ("claim-allocated", 2)]


def test_a_timestamp_that_comes_late_is_the_same_epoch(mirror: Mirror) -> None:
    fleet(mirror)
    first = claim(allocated=allocation(result("gpu-0")))
    mirror.see(first)
    stamped = claim(allocated=allocation(result("gpu-0"), timestamp=STAMP))
    mirror.see(changed(first, status=stamped["status"]))
    assert kinds(mirror)[1:] == [("claim-allocated", 1)]


def test_without_a_timestamp_the_time_of_the_status_write_counts(mirror: Mirror) -> None:
    fleet(mirror)
    wrote = {
        "manager": "kube-scheduler",
        "operation": "Update",
        "subresource": "status",
        "time": "2026-03-01T09:10:00Z",
        "fieldsV1": {"f:status": {"f:allocation": {}}},
    }
    spec = {
        "manager": "kubectl",
        "operation": "Update",
        "time": "2026-03-01T09:59:00Z",
        "fieldsV1": {"f:spec": {}},
    }
    mirror.see(claim(allocated=allocation(result("gpu-0")), managedFields=[wrote, spec]))
    (allocated,) = mirror.observed("claim-allocated")
    assert (allocated.at, allocated.source) == (datetime(2026, 3, 1, 9, 10, tzinfo=UTC), "managedFields")


def test_else_the_time_when_its_pod_was_scheduled_counts(mirror: Mirror) -> None:
    fleet(mirror)
    consumer = pod(claims={"gpu": "train"}, on="n1")
    consumer["metadata"]["uid"] = "uid-work"
    mirror.see(consumer)
    mirror.see(claim(allocated=allocation(result("gpu-0")), reserved_for=("work",)))
    (allocated,) = mirror.observed("claim-allocated")
    assert (allocated.at, allocated.source) == (datetime(2026, 3, 1, 9, tzinfo=UTC), "pod")


def test_else_the_moment_of_seeing_it(mirror: Mirror) -> None:
    mirror.see(claim(allocated=allocation(result("gpu-0"))))
    (allocated,) = mirror.observed("claim-allocated")
    assert (allocated.at, allocated.source, allocated.uncertainty_us) == (mirror.now, "observed", 0)


def test_a_clock_that_is_off_is_corrected(mirror: Mirror) -> None:
    mirror.writer.skew = timedelta(minutes=5)
    mirror.see(claim(allocated=allocation(result("gpu-0"))))
    (allocated,) = mirror.observed("claim-allocated")
    assert allocated.at == mirror.now + timedelta(minutes=5)


def test_a_deleted_claim_says_which_epoch_it_still_had(mirror: Mirror) -> None:
    fleet(mirror)
    held = claim(allocated=allocation(result("gpu-0")), reserved_for=("work",))
    mirror.see(held)
    mirror.see(held, deleted=True)
    assert kinds(mirror)[-2:] == [("consumer-left", 1), ("claim-deleted", 1)]
    assert (Claim.objects.count(), ClaimDevice.objects.count(), state_of("gpu-0")) == (0, 0, "free")


def test_the_last_state_of_a_deleted_claim_counts(mirror: Mirror) -> None:
    fleet(mirror)
    held = claim(allocated=allocation(result("gpu-0")))
    mirror.see(held)
    mirror.see(changed(held, status={}), deleted=True)
    assert kinds(mirror)[-2:] == [("claim-released", 1), ("claim-deleted", 0)]


def test_a_namesake_created_between_two_lists_is_another_claim(mirror: Mirror) -> None:
    fleet(mirror)
    mirror.see(claim(allocated=allocation(result("gpu-0"))))
    since = mirror.now
    other = claim(allocated=allocation(result("gpu-0")), uid="another")
    mirror.lists(other, kind="ResourceClaim", since=since)
    assert Claim.objects.get().uid == "another"
    assert [(o.kind, o.uid == "another") for o in mirror.observed() if o.kind.startswith("claim")] == [
        ("claim-created", False),
        ("claim-allocated", False),
        ("claim-deleted", False),
        ("claim-created", True),
        ("claim-allocated", True),
    ]
    assert state_of("gpu-0") == "held"


def test_the_end_of_an_older_namesake_does_not_touch_the_newer(mirror: Mirror) -> None:
    older = claim()
    mirror.see(claim(uid="newer"))
    mirror.see(older, deleted=True)
    assert Claim.objects.get().uid == "newer"


def test_the_same_events_again_change_nothing(mirror: Mirror) -> None:
    fleet(mirror)
    held = claim(allocated=allocation(result("gpu-0")), reserved_for=("work",))
    mirror.see(held)
    before = Observation.objects.count()
    mirror.see(held, held)
    mirror.lists(held, kind="ResourceClaim")
    assert Observation.objects.count() == before


def test_a_pod_joins_with_its_containers_that_use_the_claim(mirror: Mirror) -> None:
    fleet(mirror)
    work = pod(claims={"mine": "train", "other": "nic"}, on="n1")
    work["metadata"]["uid"] = "uid-work"

    def container(name: str, *claims: dict[str, str]) -> dict[str, object]:
        return {"name": name, "resources": {"claims": list(claims)}}

    work["spec"]["initContainers"] = [container("stage", {"name": "mine", "request": "gpu"})]
    work["spec"]["containers"] = [
        container("main", {"name": "mine"}, {"name": "other"}),
        container("log"),
        container("net", {"name": "other"}),
    ]
    mirror.see(work)
    held = allocation(result("gpu-0"))
    mirror.see(claim(allocated=held, reserved_for=("work", "unseen")))
    joined = {o.facts["consumer"]["name"]: o.facts["consumer"] for o in mirror.observed("consumer-joined")}
    assert joined["work"]["containers"] == [["stage", "gpu"], ["main", ""]]
    # Whose Pod the mirror does not have: that is not known, which is not "none".
    assert "containers" not in joined["unseen"]


def test_consumers_come_and_go_within_one_epoch(mirror: Mirror) -> None:
    fleet(mirror)
    alloc = allocation(result("gpu-0"))
    first = claim(allocated=alloc, reserved_for=("a",))
    mirror.see(first)
    for pods in (("a", "b"), ("b",), ("a", "b")):
        mirror.see(changed(first, status=claim(allocated=alloc, reserved_for=pods)["status"]))
        mirror.wait(10)
    seen = [
        (o.kind, o.facts["consumer"]["name"]) for o in mirror.observed("consumer-joined", "consumer-left")
    ]
    assert seen == [
        ("consumer-joined", "a"),
        ("consumer-joined", "b"),
        ("consumer-left", "a"),
        ("consumer-joined", "a"),
    ]


def test_a_consumer_that_flaps_has_not_left(mirror: Mirror) -> None:
    fleet(mirror)
    alloc = allocation(result("gpu-0"))
    first = claim(allocated=alloc, reserved_for=("a",))
    mirror.see(first)
    for pods in ((), ("a",), (), ("a",)):
        mirror.see(changed(first, status=claim(allocated=alloc, reserved_for=pods)["status"]))
    mirror.wait(60)
    assert [o.kind for o in mirror.observed("consumer-joined", "consumer-left")] == ["consumer-joined"]


def test_a_consumer_has_left_when_it_was_last_named_and_is_told_so_later(mirror: Mirror) -> None:
    fleet(mirror)
    alloc = allocation(result("gpu-0"))
    first = claim(allocated=alloc, reserved_for=("a", "b"))
    mirror.see(first)
    mirror.see(changed(first, status=claim(allocated=alloc, reserved_for=("b",))["status"]))
    left_at = mirror.now
    assert mirror.wait(4) == 0
    assert mirror.wait(4) == 1
    assert mirror.wait(4) == 0
    (left,) = mirror.observed("consumer-left")
    assert (left.at, left.facts["consumer"]["name"]) == (left_at, "a")


def test_a_departure_survives_the_follower(mirror: Mirror) -> None:
    fleet(mirror)
    alloc = allocation(result("gpu-0"))
    first = claim(allocated=alloc, reserved_for=("a",))
    mirror.see(first)
    mirror.see(changed(first, status=claim(allocated=alloc)["status"]))
    mirror.writer = Writer(cluster_id=mirror.cluster.pk, holder="me", features=mirror.writer.features)
    mirror.wait(10)
    assert len(mirror.observed("consumer-left")) == 1


@pytest.mark.parametrize("ends", ["released", "deleted"])
def test_the_end_of_an_allocation_ends_departures_at_once(mirror: Mirror, ends: str) -> None:
    fleet(mirror)
    alloc = allocation(result("gpu-0"))
    first = claim(allocated=alloc, reserved_for=("a",))
    mirror.see(first)
    leaving = changed(first, status=claim(allocated=alloc)["status"])
    mirror.see(leaving)
    left_at = mirror.now
    if ends == "released":
        mirror.see(changed(leaving, status={}))
    else:
        mirror.see(leaving, deleted=True)
    (left,) = mirror.observed("consumer-left")
    assert left.at == left_at
    mirror.wait(60)
    assert len(mirror.observed("consumer-left")) == 1


def test_a_group_of_pods_is_a_consumer_like_any(mirror: Mirror) -> None:
    fleet(mirror)
    held = claim(allocated=allocation(result("gpu-0")))
    group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "ring", "uid": "uid-ring"}
    held["status"]["reservedFor"] = [group]
    mirror.see(held)
    (joined,) = mirror.observed("consumer-joined")
    assert joined.facts["consumer"] == {
        "resource": "podgroups",
        "api_group": "scheduling.k8s.io",
        "name": "ring",
        "uid": "uid-ring",
    }


def test_what_drivers_say_of_a_device_is_kept_with_its_claim(mirror: Mirror) -> None:
    fleet(mirror)
    held = claim(allocated=allocation(result("gpu-0")))
    mirror.see(held)
    ready = {"type": "Ready", "status": "False", "reason": "LinkDown", "message": "no carrier"}
    network = {"interfaceName": "eth1", "hardwareAddress": "02:00:00:00:00:01", "ips": ["192.0.2.4/24"]}
    status = held["status"] | {
        "devices": [
            {"driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-0"}
            | {"conditions": [ready], "networkData": network, "data": {"rails": 2}}
        ]
    }
    told = changed(held, status=status)
    mirror.see(told)
    kept = ClaimDevice.objects.get()
    assert (kept.conditions, kept.network_data, kept.driver_data) == ([ready], network, {"rails": 2})
    mirror.see(changed(told, status=held["status"]))
    assert ClaimDevice.objects.get().conditions == []
    assert [o.kind for o in mirror.observed("claim-allocated", "claim-released")] == ["claim-allocated"]


def test_a_device_that_comes_after_its_claim_is_told_of_once(mirror: Mirror) -> None:
    mirror.see(node())
    mirror.see(claim(allocated=allocation(result("gpu-0"))))
    (allocated,) = mirror.observed("claim-allocated")
    assert allocated.facts["devices"][0]["hardware_id"] == ""
    published = resource_slice("s", [gpu(0)])
    mirror.see(published)
    (detailed,) = mirror.observed("allocation-detailed")
    assert (detailed.uid, detailed.facts["epoch"]) == (allocated.uid, 1)
    device = detailed.facts["device"]
    assert (device["device"], device["request"], device["node"]) == ("gpu-0", "gpu", "n1")
    assert (device["hardware_id"], device["product"]) == ("GPU-n1-0", "NVIDIA A100-SXM4-40GB")
    # What vanishes and comes back need not be told again, whatever it is now.
    mirror.see(published, deleted=True)
    mirror.see(published)
    assert len(mirror.observed("allocation-detailed")) == 1


def test_a_device_that_was_known_at_the_allocation_is_not_told_of_again(mirror: Mirror) -> None:
    published = resource_slice("s", [gpu(0)])
    mirror.see(published)
    mirror.see(claim(allocated=allocation(result("gpu-0"))))
    mirror.see(published, deleted=True)
    mirror.see(published)
    assert mirror.observed("allocation-detailed") == []


def test_a_claim_that_comes_back_from_a_backup_goes_on_counting_epochs(mirror: Mirror) -> None:
    fleet(mirror)
    held = claim(allocated=allocation(result("gpu-0")))
    mirror.see(held)
    mirror.see(held, deleted=True)
    mirror.see(changed(held))
    assert [o.facts["epoch"] for o in mirror.observed("claim-allocated")] == [1, 2]


@pytest.mark.parametrize("deleted", [True, False])
def test_an_allocation_that_a_restored_cluster_remembers_did_not_last_meanwhile(
    mirror: Mirror, deleted: bool
) -> None:
    fleet(mirror)
    held = claim(allocated=allocation(result("gpu-0"), timestamp=STAMP))
    mirror.see(held)
    mirror.now += timedelta(hours=1)
    released = changed(held, status={})
    mirror.see(*((held,) if deleted else (released,)), deleted=deleted)
    ended = mirror.now
    mirror.now += timedelta(hours=2)
    mirror.see(changed(held) if deleted else changed(released, status=held["status"]))
    first, again = mirror.observed("claim-allocated")
    assert first.at == STAMPED
    assert (again.at, again.source) == (mirror.now, "observed")
    assert again.at - timedelta(microseconds=again.uncertainty_us) == ended
    assert [o.facts["epoch"] for o in (first, again)] == [1, 2]


def test_a_device_that_is_published_after_its_allocation_is_held(mirror: Mirror) -> None:
    mirror.see(node())
    mirror.see(claim(allocated=allocation(result("gpu-0"))))
    assert ClaimDevice.objects.get().device is None
    mirror.see(resource_slice("s1", [gpu(0)]))
    assert ClaimDevice.objects.get().device == Device.objects.get()
    assert state_of("gpu-0") == "held"


def test_a_device_that_vanishes_under_its_claim_leaves_the_claim_standing(mirror: Mirror) -> None:
    slice_ = resource_slice("s1", [gpu(0)])
    mirror.see(slice_)
    mirror.see(claim(allocated=allocation(result("gpu-0"))))
    mirror.see(slice_, deleted=True)
    assert ClaimDevice.objects.get().device is None
    assert Claim.objects.get().allocated


def test_administrative_access_holds_nothing(mirror: Mirror) -> None:
    fleet(mirror)
    mirror.see(claim(allocated=allocation(result("gpu-0", adminAccess=True))))
    assert state_of("gpu-0") == "free"
    assert ClaimDevice.objects.get().admin_access


def test_the_owner_of_a_claim_from_a_template_is_its_pod(mirror: Mirror) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "work", "uid": "uid-work", "controller": True}
    mirror.see(claim(ownerReferences=[owner]))
    assert Claim.objects.get().owner_pod_uid == "uid-work"


def test_a_subrequest_names_its_own_class(mirror: Mirror) -> None:
    fleet(mirror)
    made = claim(allocated=allocation(result("gpu-0", request="gpu/small")))
    made["spec"]["devices"]["requests"] = [
        {
            "name": "gpu",
            "firstAvailable": [
                {"name": "big", "deviceClassName": "big.example", "allocationMode": "ExactCount", "count": 1},
                {
                    "name": "small",
                    "deviceClassName": "small.example",
                    "allocationMode": "ExactCount",
                    "count": 1,
                },
            ],
        }
    ]
    mirror.see(made)
    (allocated,) = mirror.observed("claim-allocated")
    assert allocated.facts["devices"][0]["device_class"] == "small.example"


def test_a_gap_says_from_when_and_whether_changes_were_lost(mirror: Mirror) -> None:
    mirror.lists(claim(), kind="ResourceClaim", gap=Gap(since=NOW, lost=True))
    (gap,) = mirror.observed("gap")
    assert (gap.name, gap.at) == ("resourceclaims", mirror.now)
    assert gap.facts == {"resource": "resourceclaims", "from": NOW.isoformat(), "lost": True}


def test_nothing_is_allocated_before_it_exists(mirror: Mirror) -> None:
    copied = claim("copy", allocated=allocation(result("gpu-0"), timestamp="2025-03-01T10:00:02Z"))
    mirror.see(copied)
    (seen,) = mirror.observed("claim-allocated")
    assert (seen.at, seen.source) == (datetime(2026, 3, 1, 8, tzinfo=UTC), "creationTimestamp")


def test_what_was_created_within_a_gap_was_not_allocated_before(mirror: Mirror) -> None:
    fleet(mirror)
    mirror.now += timedelta(days=1)
    made = mirror.now - timedelta(hours=2)
    new = claim(allocated=allocation(result("gpu-0")), creationTimestamp=made.isoformat())
    mirror.lists(new, kind="ResourceClaim", since=mirror.now - timedelta(days=1))
    (seen,) = mirror.observed("claim-allocated")
    assert seen.at - timedelta(microseconds=seen.uncertainty_us) == made
