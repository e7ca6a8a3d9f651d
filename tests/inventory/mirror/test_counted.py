"""Counted units: kept in step with nodes, Pods, and devices of the same hardware."""

from inventory.models import CountedUnits
from tests.inventory.conftest import Mirror
from tests.inventory.objects import Json, changed, gpu, node, pod, resource_slice


def plugin_node(resource: str = "nvidia.com/gpu", count: str = "4", *, cordoned: bool = False) -> Json:
    made = node("n1", unschedulable=cordoned)
    resources = {resource: count}
    made["status"] |= {"capacity": resources, "allocatable": resources}
    return made


def counts() -> dict[str, tuple[int | None, int, int]]:
    """Resource → used, free, unavailable."""
    return {u.resource: (u.used, u.free, u.unavailable) for u in CountedUnits.objects.all()}


def test_units_are_free_held_or_unavailable(mirror: Mirror) -> None:
    mirror.lists(kind="Pod")
    mirror.see(node())
    unit = CountedUnits.objects.get()
    # One of four is advertised, but not allocatable.
    assert (unit.capacity, unit.allocatable, *counts()["nvidia.com/gpu"]) == (4, 3, 0, 3, 1)
    user = pod(extended={"nvidia.com/gpu": "2"}, on="n1")
    mirror.see(user)
    assert counts() == {"nvidia.com/gpu": (2, 1, 1)}
    mirror.see(changed(user, status=user["status"] | {"phase": "Succeeded"}))
    assert counts() == {"nvidia.com/gpu": (0, 3, 1)}


def test_a_pod_that_is_gone_gives_its_units_back(mirror: Mirror) -> None:
    mirror.lists(kind="Pod")
    mirror.see(node())
    user = pod(extended={"nvidia.com/gpu": "2"}, on="n1")
    mirror.see(user)
    mirror.see(user, deleted=True)
    assert counts() == {"nvidia.com/gpu": (0, 3, 1)}


def test_where_pods_are_not_seen_nothing_is_told_as_free(mirror: Mirror) -> None:
    mirror.see(node())
    assert counts() == {"nvidia.com/gpu": (None, 0, 4)}
    mirror.lists(kind="Pod")
    assert counts() == {"nvidia.com/gpu": (0, 3, 1)}


def test_units_of_a_cordoned_node_are_unavailable(mirror: Mirror) -> None:
    mirror.lists(kind="Pod")
    mirror.see(plugin_node(cordoned=True))
    assert counts() == {"nvidia.com/gpu": (0, 0, 4)}


def test_a_plugin_that_is_gone_leaves_no_units(mirror: Mirror) -> None:
    there = plugin_node()
    mirror.see(there)
    mirror.see(changed(there, status=there["status"] | {"capacity": {"nvidia.com/gpu": "0"}}))
    assert counts() == {}
    mirror.see(changed(there))
    assert list(counts()) == ["nvidia.com/gpu"]
    mirror.see(there, deleted=True)
    assert counts() == {}


def test_hardware_that_a_driver_publishes_too_counts_once(mirror: Mirror) -> None:
    mirror.see(node())
    assert CountedUnits.objects.get().counts
    published = resource_slice("s", [gpu(0)])
    mirror.see(published)
    unit = CountedUnits.objects.get()
    assert (unit.both_ways, unit.counts) == (True, False)
    mirror.see(published, deleted=True)
    assert CountedUnits.objects.get().counts


def test_another_vendors_devices_are_other_hardware(mirror: Mirror) -> None:
    mirror.see(node())
    mirror.see(resource_slice("s", [gpu(0)], driver="gpu.amd.com"))
    assert CountedUnits.objects.get().counts


def test_a_resource_of_an_unknown_maker_is_a_plain_count(mirror: Mirror) -> None:
    mirror.see(plugin_node("accel.nordljus.example/fpga", "2"))
    unit = CountedUnits.objects.get()
    assert (unit.vendor, unit.product, unit.kind) == ("", "accel.nordljus.example/fpga", "device")
