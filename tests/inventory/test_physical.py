"""One piece of hardware is one piece, however it is offered."""

from collections import defaultdict
from collections.abc import Callable

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inventory.coverage import Coverage
from inventory.identity import offer_of
from inventory.linking import pieces_of
from inventory.models import Device, Node, Twin
from inventory.physical import pieces, twins_of
from inventory.rows import node_rows
from inventory.tallies import tallies
from tests.inventory.conftest import Mirror
from tests.inventory.objects import Json, allocation, claim, gpu, node, resource_slice, result


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


# --- names that are linked --------------------------------------------------------------------------


def by_address(index: int, name: str = "") -> Json:
    return {"name": name or f"pci-{index}", "attributes": gpu_address(index)}


def gpu_address(index: int) -> Json:
    return {"resource.kubernetes.io/pciBusID": gpu(index)["attributes"]["resource.kubernetes.io/pciBusID"]}


def by_uuid(index: int) -> Json:
    return {"name": f"uuid-{index}", "attributes": {"uuid": gpu(index)["attributes"]["uuid"]}}


def counting(mirror: Mirror) -> set[str]:
    """Names that stand for pieces with several names."""
    rows = Twin.objects.filter(cluster=mirror.cluster, counts=True)
    return set(rows.values_list("device__name", flat=True))


def count(mirror: Mirror) -> int:
    return pieces([mirror.cluster.pk])[mirror.cluster.pk]


def test_a_third_driver_links_uuid_and_address(mirror: Mirror) -> None:
    mirror.see(resource_slice("u", [by_uuid(0)], driver="u.example.com"))
    mirror.see(resource_slice("p", [by_address(0)], driver="p.example.com"))
    assert count(mirror) == 2
    mirror.see(resource_slice("a", [gpu(0)]))
    assert count(mirror) == 1
    twins = twins_of(Device.objects.get(name="uuid-0"))
    assert [twin.name for twin in twins] == ["gpu-0", "pci-0"]
    # Without the one that knows both, nobody can tell any more.
    gone = resource_slice("a", [gpu(0)])
    mirror.see(gone, deleted=True)
    assert count(mirror) == 2
    assert not Twin.objects.exists()


def test_one_pool_may_offer_a_card_in_two_modes(mirror: Mirror) -> None:
    mirror.see(node("n1"))
    mirror.see(resource_slice("a", [gpu(0), gpu(1), vfio(0)]))
    assert count(mirror) == 2
    assert [twin.name for twin in twins_of(Device.objects.get(name="gpu-0"))] == ["gpu-vfio-0"]


def test_cards_of_two_nodes_at_the_same_address_are_two(mirror: Mirror) -> None:
    for name in ("n1", "n2"):
        mirror.see(resource_slice(name, [by_address(0)], node=name, driver="p.example.com"))
    assert count(mirror) == 2


def test_the_name_that_is_in_use_stands_for_the_piece(mirror: Mirror) -> None:
    mirror.see(node("n1"))
    mirror.see(resource_slice("a", [gpu(0)]))
    mirror.see(resource_slice("b", [vfio(0)], driver="vfio.example.com"))
    assert counting(mirror) == {"gpu-0"}
    taken = result("gpu-vfio-0", driver="vfio.example.com")
    held = claim(allocated=allocation(taken), reserved_for=("trainer",))
    mirror.see(held)
    assert counting(mirror) == {"gpu-vfio-0"}
    coverage = {mirror.cluster.pk: Coverage(mirror.cluster, in_step=True, as_of=None)}
    tally = tallies(coverage)[mirror.cluster.pk]
    assert (tally.total, tally.held) == (1, 1)
    assert tallies(coverage, devices=Device.objects.all()) == {mirror.cluster.pk: tally}
    (row,) = node_rows(list(Node.objects.all()), coverage=coverage)
    assert (row.total, row.whole["held"]) == (1, 1)

    mirror.see(held, deleted=True)
    assert counting(mirror) == {"gpu-0"}


def test_devices_without_a_node_are_linked_by_uuid_only(mirror: Mirror) -> None:
    for driver in ("a.example.com", "b.example.com"):
        shared = resource_slice(driver, [by_uuid(0), by_address(0)], driver=driver, allNodes=True)
        del shared["spec"]["nodeName"]
        mirror.see(shared)
    assert count(mirror) == 3


OFFERED = st.sets(
    st.tuples(st.sampled_from(["gpu", "uuid", "pci"]), st.integers(0, 2), st.sampled_from(["a", "b", "c"])),
    max_size=8,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12, deadline=None)
@given(st.lists(OFFERED, min_size=1, max_size=4))
def test_whatever_is_published_and_taken_back_the_count_is_that_of_the_pieces(
    mirror: Mirror, rounds: list[set[tuple[str, int, str]]]
) -> None:
    """After any history the mirror tells what linking tells of what is published at its end."""
    make: dict[str, Callable[[int], Json]] = {"gpu": gpu, "uuid": by_uuid, "pci": by_address}
    for generation, offered in enumerate(rounds, start=1):
        for driver in ("a", "b", "c"):
            devices = [make[kind](index) for kind, index, who in sorted(offered) if who == driver]
            name = f"{driver}.example.com"
            mirror.see(resource_slice(name, devices, driver=name, generation=generation))
        offers = [
            offer_of(device.identity, driver=device.pool.driver, key=device.pk, pool=device.pool_id)
            for device in Device.objects.select_related("pool")
        ]
        expected = pieces_of(offers)
        assert pieces([mirror.cluster.pk]).get(mirror.cluster.pk, 0) == len(expected)
        told: dict[int, set[int]] = defaultdict(set)
        for number, device in Twin.objects.values_list("piece", "device_id"):
            told[number].add(device)
        several = [{offer.key for offer in piece} for piece in expected if len(piece) > 1]
        assert sorted(map(sorted, told.values())) == sorted(map(sorted, several))
        assert Twin.objects.filter(counts=True).count() == len(several)
