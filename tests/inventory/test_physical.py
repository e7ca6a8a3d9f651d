"""One piece of hardware is one piece, however it is offered."""

from inventory.models import Device
from inventory.physical import pieces, twins_of
from tests.inventory.conftest import Mirror
from tests.inventory.objects import Json, gpu, node, resource_slice


def vfio(index: int, **more: Json) -> Json:
    """The same card as the VFIO driver publishes it: by its PCI address, without a uuid."""
    address = gpu(index)["attributes"]["resource.kubernetes.io/pciBusID"]
    return {"name": f"gpu-vfio-{index}", "attributes": {"resource.kubernetes.io/pciBusID": address}} | more


def test_a_card_that_two_drivers_publish_is_one_piece(mirror: Mirror) -> None:
    mirror.see(node("n1"))
    mirror.see(resource_slice("a", [gpu(0), gpu(1)]))
    mirror.see(resource_slice("b", [vfio(0)], driver="vfio.example.com"))
    twins = twins_of(Device.objects.get(name="gpu-0"))
    assert [(twin.pool.driver, twin.name) for twin in twins] == [("vfio.example.com", "gpu-vfio-0")]
    assert twins_of(Device.objects.get(name="gpu-1")) == []


def test_a_card_that_is_known_by_one_id_everywhere_counts_once(mirror: Mirror) -> None:
    mirror.see(node("n1"))
    mirror.see(resource_slice("a", [gpu(0), gpu(1)]))
    mirror.see(resource_slice("b", [gpu(0)], driver="gpu.example.com"))
    # Four units of a plugin of the same vendor are the same cards again.
    assert pieces([mirror.cluster.pk]) == {mirror.cluster.pk: 2}


def test_partitions_never_add_to_their_parent(mirror: Mirror) -> None:
    part = gpu(0) | {"name": "gpu-0-mig-1g5gb-19-0"}
    part["attributes"] = part["attributes"] | {"type": {"string": "mig"}, "uuid": {"string": "MIG-1"}}
    mirror.see(resource_slice("a", [gpu(0), part]))
    assert pieces([mirror.cluster.pk]) == {mirror.cluster.pk: 1}


def test_units_that_share_a_card_are_counted_by_the_card(mirror: Mirror) -> None:
    shared = node("n1")
    labels = {"nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "time-slicing"}
    shared["metadata"]["labels"] |= labels
    resources = {"nvidia.com/gpu.shared": "8"}
    shared["status"] |= {"capacity": resources, "allocatable": resources}
    mirror.see(shared)
    assert pieces([mirror.cluster.pk]) == {mirror.cluster.pk: 2}


def test_a_device_without_any_id_is_a_piece_of_its_own(mirror: Mirror) -> None:
    bare = {"name": "dev-0", "attributes": {}}
    mirror.see(resource_slice("a", [bare, bare | {"name": "dev-1"}], driver="bare.example.com"))
    Device.objects.update(hardware_id="")
    assert pieces([mirror.cluster.pk]) == {mirror.cluster.pk: 2}
