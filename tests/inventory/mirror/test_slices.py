"""Pools and devices from ResourceSlices."""

import pytest

from inventory.models import Device, DeviceProfile, Pool, ResourceSlice, SyncProblem
from tests.inventory.conftest import Mirror
from tests.inventory.objects import changed, gpu, node, resource_slice


def states(mirror: Mirror) -> dict[str, tuple[str, str]]:
    return {d.name: (d.state, d.reason) for d in Device.objects.filter(cluster=mirror.cluster)}


def test_a_slice_becomes_a_pool_with_devices_of_one_kind(mirror: Mirror) -> None:
    mirror.see(node())
    mirror.see(resource_slice("s1", [gpu(0), gpu(1)]))
    pool = Pool.objects.get()
    assert (pool.driver, pool.name, pool.complete, pool.problem) == ("gpu.nvidia.com", "n1", True, "")
    profile = DeviceProfile.objects.get()
    assert (profile.vendor, profile.product, profile.kind, profile.memory_bytes) == (
        "NVIDIA",
        "NVIDIA A100-SXM4-40GB",
        "gpu",
        40 * 2**30,
    )
    first, second = Device.objects.order_by("position")
    assert (first.name, first.hardware_id, first.node_name) == ("gpu-0", "GPU-n1-0", "n1")
    assert (second.name, second.position, second.profile_id) == ("gpu-1", 1, profile.pk)
    assert first.identity == {
        "gpu.nvidia.com/uuid": {"string": "GPU-n1-0"},
        "resource.kubernetes.io/pciBusID": {"string": "0000:10:00.0"},
    }
    assert states(mirror) == {"gpu-0": ("free", ""), "gpu-1": ("free", "")}
    assert [o.name for o in mirror.observed("device-appeared")] == ["gpu-0", "gpu-1"]


def test_a_manifest_keeps_no_managed_fields(mirror: Mirror) -> None:
    slice_ = resource_slice("s1", [gpu(0)])
    slice_["metadata"]["managedFields"] = [{"manager": "driver"}]
    mirror.see(slice_)
    assert "managedFields" not in ResourceSlice.objects.get().manifest["metadata"]


def test_an_older_api_version_is_normalised(mirror: Mirror) -> None:
    slice_ = resource_slice("s1", [gpu(0)])
    device = dict(slice_["spec"]["devices"][0])
    name = device.pop("name")
    slice_["spec"]["devices"] = [{"name": name, "basic": device}]
    slice_["apiVersion"] = "resource.k8s.io/v1beta1"
    mirror.see(slice_)
    assert ResourceSlice.objects.get().manifest["apiVersion"] == "resource.k8s.io/v1"
    assert Device.objects.get().hardware_id == "GPU-n1-0"


def test_a_pool_is_incomplete_until_all_its_slices_are_there(mirror: Mirror) -> None:
    mirror.see(node())
    mirror.see(resource_slice("s1", [gpu(0)], count=2))
    assert states(mirror) == {"gpu-0": ("unavailable", "pool-incomplete")}
    mirror.see(resource_slice("s2", [gpu(1)], count=2))
    assert states(mirror) == {"gpu-0": ("free", ""), "gpu-1": ("free", "")}


def test_a_pool_that_names_a_device_twice_is_invalid(mirror: Mirror) -> None:
    mirror.see(node())
    mirror.see(resource_slice("s1", [gpu(0)], count=2), resource_slice("s2", [gpu(0)], count=2))
    assert "gpu-0" in Pool.objects.get().problem
    assert states(mirror) == {"gpu-0": ("unavailable", "pool-invalid")}


def test_a_new_generation_keeps_devices_until_it_is_complete(mirror: Mirror) -> None:
    mirror.see(node())
    one = resource_slice("s1", [gpu(0)], count=2)
    two = resource_slice("s2", [gpu(1)], count=2)
    mirror.see(one, two)
    ids = dict(Device.objects.values_list("name", "pk"))
    mirror.see(
        changed(one, spec=one["spec"] | {"pool": {"name": "n1", "generation": 2, "resourceSliceCount": 2}})
    )
    assert states(mirror) == dict.fromkeys(("gpu-0", "gpu-1"), ("unavailable", "pool-incomplete"))
    mirror.see(
        changed(two, spec=two["spec"] | {"pool": {"name": "n1", "generation": 2, "resourceSliceCount": 2}})
    )
    assert states(mirror) == dict.fromkeys(("gpu-0", "gpu-1"), ("free", ""))
    assert dict(Device.objects.values_list("name", "pk")) == ids
    assert mirror.observed("device-gone") == []


def test_what_a_complete_new_generation_does_not_name_is_gone(mirror: Mirror) -> None:
    one = resource_slice("s1", [gpu(0), gpu(1)])
    mirror.see(one)
    spec = one["spec"] | {
        "devices": [gpu(0)],
        "pool": {"name": "n1", "generation": 2, "resourceSliceCount": 1},
    }
    mirror.see(changed(one, spec=spec))
    assert [d.name for d in Device.objects.all()] == ["gpu-0"]
    (gone,) = mirror.observed("device-gone")
    assert gone.facts["hardware_id"] == "GPU-n1-1"


def test_a_deleted_slice_takes_its_pool_and_devices(mirror: Mirror) -> None:
    slice_ = resource_slice("s1", [gpu(0)])
    mirror.see(slice_)
    mirror.see(slice_, deleted=True)
    assert (ResourceSlice.objects.count(), Pool.objects.count(), Device.objects.count()) == (0, 0, 0)
    appeared, barred, gone = mirror.observed()
    assert [o.kind for o in (appeared, barred, gone)] == [
        *("device-appeared", "device-unavailable", "device-gone")
    ]
    assert [o.facts["unavailable"] for o in (appeared, gone)] == ["", "node-missing"]


def test_a_slice_recreated_under_its_name_keeps_the_devices(mirror: Mirror) -> None:
    mirror.see(resource_slice("s1", [gpu(0)]))
    pk = Device.objects.get().pk
    again = resource_slice("s1", [gpu(0)])
    again["metadata"]["uid"] = "another"
    mirror.lists(again, kind="ResourceSlice")
    assert Device.objects.get().pk == pk
    assert ResourceSlice.objects.get().uid == "another"
    assert len(mirror.observed("device-appeared", "device-gone")) == 1


def test_another_piece_under_the_same_name_is_told(mirror: Mirror) -> None:
    one = resource_slice("s1", [gpu(0)])
    mirror.see(one)
    mirror.see(changed(one, spec=one["spec"] | {"devices": [gpu(0, node="repaired")]}))
    told = mirror.observed("device-appeared", "device-gone")
    assert [(o.kind, o.facts["hardware_id"], o.facts["unavailable"]) for o in told] == [
        ("device-appeared", "GPU-n1-0", ""),
        ("device-gone", "GPU-n1-0", "node-missing"),
        # The other piece cannot be had for the same reason.
        ("device-appeared", "GPU-repaired-0", "node-missing"),
    ]


def test_taints_come_and_go(mirror: Mirror) -> None:
    mirror.see(node())
    one = resource_slice("s1", [gpu(0)])
    mirror.see(one)
    taint = {"key": "gpu.nvidia.com/xid", "value": "43", "effect": "NoExecute"}
    mirror.see(changed(one, spec=one["spec"] | {"devices": [gpu(0, taints=[taint])]}))
    assert states(mirror) == {"gpu-0": ("unavailable", "device-tainted")}
    mirror.see(changed(one))
    assert states(mirror) == {"gpu-0": ("free", "")}
    assert [o.kind for o in mirror.observed()[-4:]] == [
        *("device-tainted", "device-unavailable", "device-untainted", "device-available")
    ]


def test_only_a_completed_list_makes_anything_gone(mirror: Mirror) -> None:
    mirror.see(resource_slice("s1", [gpu(0)]), resource_slice("s2", [gpu(0, node="n2")], node="n2"))
    mirror.apply(mirror.batch(resource_slice("s3", [gpu(0, node="n3")], node="n3")))
    assert ResourceSlice.objects.count() == 3
    mirror.lists(resource_slice("s3", [gpu(0, node="n3")], node="n3"), kind="ResourceSlice")
    assert [s.name for s in ResourceSlice.objects.all()] == ["s3"]


def test_one_bad_slice_does_not_stop_the_rest(mirror: Mirror) -> None:
    bad = resource_slice("bad", [{"name": "x", "attributes": {"uuid": {"string": 5}}}])
    mirror.see(bad, resource_slice("s1", [gpu(0)]))
    assert [s.name for s in ResourceSlice.objects.all()] == ["s1"]
    problem = SyncProblem.objects.get()
    assert (problem.resource, problem.name) == ("resourceslices", "bad")
    assert "devices" in problem.path
    mirror.see(resource_slice("bad", [gpu(0, node="n2")], node="n2"))
    assert SyncProblem.objects.count() == 0


def test_a_problem_ends_with_its_object(mirror: Mirror) -> None:
    bad = resource_slice("bad", [{"name": 5}])
    mirror.see(bad)
    assert SyncProblem.objects.count() == 1
    mirror.lists(resource_slice("s1", [gpu(0)]), kind="ResourceSlice")
    assert SyncProblem.objects.count() == 0


@pytest.mark.parametrize("raw", ["null", "5", "{}", '{"metadata": {}}', '{"metadata": {"name": 7}}'])
def test_an_object_without_a_name_is_recorded_too(mirror: Mirror, raw: str) -> None:
    from inventory.mirror.batches import Unreadable
    from inventory.mirror.decoding import item_of
    from portal.kube.resources import RESOURCE_SLICES

    named = item_of(raw.encode(), resource=RESOURCE_SLICES)
    assert isinstance(named, Unreadable)
    batch = mirror.batch(resource_slice("s1", [gpu(0)]))
    batch.unreadable.append(named)
    mirror.apply(batch)
    assert SyncProblem.objects.get().name == "(object 1)"
    assert Device.objects.count() == 1


def test_an_object_that_the_database_refuses_is_a_problem_and_the_rest_is_stored(mirror: Mirror) -> None:
    # A number that no column holds.
    bad = resource_slice("bad", [gpu(0, node="n9")], node="n9", generation=2**70)
    mirror.see(resource_slice("s1", [gpu(0)]), bad, resource_slice("s2", [gpu(0, node="n2")], node="n2"))
    assert [s.name for s in ResourceSlice.objects.order_by("name")] == ["s1", "s2"]
    assert SyncProblem.objects.get().name == "bad"


def test_an_object_that_is_stored_already_costs_no_write(
    mirror: Mirror, django_assert_max_num_queries: object
) -> None:
    slice_ = resource_slice("s1", [gpu(0)])
    mirror.see(slice_)
    version = mirror.cluster.__class__.objects.get().mirror_version
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    with CaptureQueriesContext(connection) as queries:
        mirror.apply(mirror.batch(slice_))
    writes = [q["sql"] for q in queries if not q["sql"].startswith(("SELECT", "SAVEPOINT", "RELEASE"))]
    # The lease and the stream's heard_at.
    assert len(writes) == 2
    assert mirror.cluster.__class__.objects.get().mirror_version == version


@pytest.mark.parametrize(
    ("memory", "size"), [("100m", 1), ("1.5Gi", 3 << 29), ("9999999E", None), ("0", None)]
)
def test_a_device_of_whatever_memory_is_there(mirror: Mirror, memory: str, size: int | None) -> None:
    mirror.see(resource_slice("s1", [gpu(0, capacity={"memory": {"value": memory}})]))
    device = Device.objects.select_related("profile").get()
    assert device.profile.memory_bytes == size
