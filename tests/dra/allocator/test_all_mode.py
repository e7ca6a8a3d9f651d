"""allocationMode: All means every matching device, at least one, and certainty about what "every" is."""

import pytest

from portal.dra.features import Features
from tests.dra.builders import (
    NODE,
    ask,
    claim,
    device,
    devices,
    fleet,
    holding,
    picked,
    results,
    slice_of,
    tried,
)

EVERY = ask(allocationMode="All")


def test_all_matching_devices_of_all_pools_are_taken() -> None:
    where = fleet(
        slice_of(device("a", attrs={"n": 1}), device("b", attrs={"n": 2}), device("c", attrs={"n": 1})),
        slice_of(device("d", attrs={"n": 1}), pool="pool-2", name="slice-2"),
    )
    wanted = claim(ask("r", "device.attributes['gpu.example.com'].n == 1", allocationMode="All"))
    assert picked(tried(where, wanted)) == ["r=a", "r=c", "r=pool-2/d"]


def test_at_least_one_device_has_to_exist() -> None:
    assert picked(tried(fleet(), claim(EVERY))) == "unschedulable"
    assert picked(tried(fleet(slice_of()), claim(EVERY))) == "unschedulable"


def test_one_held_device_spoils_it() -> None:
    where = fleet(slice_of(*devices("a", "b")), claims=[holding("pool-1/b")])
    assert picked(tried(where, claim(EVERY))) == "unschedulable"


def test_a_held_device_that_does_not_match_does_no_harm() -> None:
    where = fleet(
        slice_of(device("a", attrs={"n": 1}), device("b", attrs={"n": 2})), claims=[holding("pool-1/b")]
    )
    wanted = claim(ask("r", "device.attributes['gpu.example.com'].n == 1", allocationMode="All"))
    assert picked(tried(where, wanted)) == ["r=a"]


def test_administrators_get_held_devices_too() -> None:
    where = fleet(slice_of(*devices("a", "b")), claims=[holding("pool-1/b")])
    assert picked(tried(where, claim(ask(allocationMode="All", adminAccess=True)))) == ["r=a", "r=b"]


def test_two_requests_cannot_both_have_everything() -> None:
    where = fleet(slice_of(*devices("a", "b")))
    assert picked(tried(where, claim(EVERY, ask("other")))) == "unschedulable"
    assert picked(tried(where, claim(ask("other"), EVERY))) == "unschedulable"


def test_an_earlier_request_makes_way_for_all_of_another_kind() -> None:
    where = fleet(slice_of(device("a", attrs={"n": 1}), device("b", attrs={"n": 2})))
    every = ask("all", "device.attributes['gpu.example.com'].n == 1", allocationMode="All")
    assert picked(tried(where, claim(ask("one"), every))) == ["one=b", "all=a"]


def test_an_incomplete_pool_is_an_error_of_this_node() -> None:
    where = fleet(slice_of(device("a"), count=2))
    found = tried(where, claim(EVERY))
    assert picked(found) == "node: incomplete-pool"
    assert (
        "claim team/claim, request r: asks for all devices, but resource pool gpu.example.com/pool-1"
        in str(getattr(found, "error", ""))
    )


def test_an_invalid_pool_is_an_error_of_this_node() -> None:
    where = fleet(slice_of(device("a"), device("a")))
    assert picked(tried(where, claim(EVERY))) == "node: invalid-pool"


def test_a_pool_that_the_node_does_not_see_may_be_incomplete() -> None:
    where = fleet(
        slice_of(device("a")), slice_of(device("b"), node="node-2", pool="pool-2", name="s2", count=9)
    )
    assert picked(tried(where, claim(EVERY))) == ["r=a"]


def test_slices_for_other_nodes_count_for_the_completeness_of_a_pool() -> None:
    where = fleet(
        slice_of(device("a"), count=2), slice_of(device("b"), node="node-2", name="slice-2", count=2)
    )
    assert picked(tried(where, claim(EVERY))) == ["r=a"]


@pytest.mark.parametrize(("count", "expected"), [(32, 32), (33, "claim: too-many-devices")])
def test_at_most_32_devices_fit_into_a_claim(count: int, expected: object) -> None:
    found = tried(fleet(slice_of(*devices(*(f"d{i:02}" for i in range(count))))), claim(EVERY))
    assert (len(results(found)) if isinstance(expected, int) else picked(found)) == expected


def test_all_devices_that_a_constraint_keeps_apart_contradict_themselves() -> None:
    where = fleet(slice_of(device("a", attrs={"numa": 0}), device("b", attrs={"numa": 1})))
    wanted = claim(EVERY, constraints=[{"matchAttribute": "gpu.example.com/numa"}])
    found = tried(where, wanted)
    assert picked(found) == "claim: all-unconstrainable"
    assert "gpu.example.com/pool-1/b" in str(getattr(found, "error", ""))


def test_one_tainted_device_spoils_it() -> None:
    taints = [{"key": "sick", "effect": "NoSchedule"}]
    where = fleet(slice_of(device("a"), device("b", taints=taints)))
    assert picked(tried(where, claim(EVERY))) == "unschedulable"
    tolerant = ask(allocationMode="All", tolerations=[{"key": "sick", "operator": "Exists"}])
    assert picked(tried(where, claim(tolerant))) == ["r=a", "r=b"]


def test_an_error_of_a_selector_shows_even_for_a_held_device() -> None:
    where = fleet(slice_of(device("a"), device("b", attrs={"n": 1})), claims=[holding("pool-1/a")])
    wanted = claim(ask("r", "device.attributes['gpu.example.com'].n == 1", allocationMode="All"))
    assert picked(tried(where, wanted)) == "claim: cel-evaluation-error"


def test_devices_too_small_by_nature_are_none_of_all() -> None:
    where = fleet(slice_of(device("small", capacity={"m": "1"}), device("large", capacity={"m": "4"})))
    assert picked(tried(where, claim(ask(allocationMode="All", capacity={"requests": {"m": "2"}})))) == [
        "r=large"
    ]


@pytest.mark.parametrize(("version", "expected"), [("1.37", "unschedulable"), ("1.36", ["r=b"])])
def test_an_exhausted_shared_device_spoils_it_since_1_37(version: str, expected: object) -> None:
    shared = {"capacity": {"m": "1"}, "allowMultipleAllocations": True}
    where = fleet(
        slice_of(*devices("a", "b", **shared)),
        features=Features.for_version(version),
        claims=[holding("pool-1/a", shareID="s", consumedCapacity={"m": "1"})],
    )
    wanted = claim(ask(allocationMode="All", capacity={"requests": {"m": "1"}}))
    assert picked(tried(where, wanted)) == expected


def test_the_mode_has_to_be_known() -> None:
    where = fleet(slice_of(device("a")))
    assert picked(tried(where, claim(ask(allocationMode="Most")), on=NODE)) == "claim: unsupported-mode"
