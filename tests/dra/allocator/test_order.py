"""Which devices are chosen, and in which order: the first solution that kube-scheduler would find."""

import pytest

from tests.dra.builders import (
    ask,
    claim,
    device,
    device_class,
    devices,
    fleet,
    holding,
    picked,
    slice_of,
    tried,
)

CUBES = devices("gpu-0", "gpu-1", "gpu-2")


def test_a_claim_without_requests_is_allocated_without_devices() -> None:
    assert picked(tried(fleet(), claim())) == []


def test_one_device_is_the_default() -> None:
    assert picked(tried(fleet(slice_of(*CUBES)), claim(ask()))) == ["r=gpu-0"]


def test_devices_are_taken_in_slice_order_not_by_name() -> None:
    found = tried(fleet(slice_of(*devices("z", "a", "m"))), claim(ask(count=2)))
    assert picked(found) == ["r=z", "r=a"]


def test_slices_are_taken_by_name_whatever_their_order() -> None:
    late = slice_of(device("late"), name="slice-b", count=2)
    early = slice_of(device("early"), name="slice-a", count=2)
    for order in ([late, early], [early, late]):
        assert picked(tried(fleet(*order), claim(ask(count=2)))) == ["r=early", "r=late"]


def test_pools_are_taken_by_driver_then_name() -> None:
    slices = [
        slice_of(device("d"), driver="b.example.com", pool="1", name="s1"),
        slice_of(device("d"), driver="a.example.com", pool="2", name="s2"),
        slice_of(device("d"), driver="a.example.com", pool="1", name="s3"),
    ]
    found = tried(fleet(*slices), claim(ask(count=3)))
    assert picked(found) == ["r=1/d", "r=2/d", "r=1/d"]


def test_requests_and_claims_are_served_in_their_order() -> None:
    found = tried(
        fleet(slice_of(*CUBES)), claim(ask("b"), ask("a"), name="second"), claim(ask("c"), name="first")
    )
    assert picked(found) == ["b=gpu-0", "a=gpu-1", "c=gpu-2"]


@pytest.mark.parametrize(
    ("count", "expected"), [(3, ["r=gpu-0", "r=gpu-1", "r=gpu-2"]), (4, "unschedulable")]
)
def test_either_all_devices_are_found_or_none_is_given(count: int, expected: object) -> None:
    assert picked(tried(fleet(slice_of(*CUBES)), claim(ask(count=count)))) == expected


def test_all_claims_fit_together_or_none_is_allocated() -> None:
    where = fleet(slice_of(*CUBES))
    assert picked(tried(where, claim(ask(count=2)), claim(ask(count=2), name="other"))) == "unschedulable"


def test_held_devices_are_passed_over() -> None:
    where = fleet(slice_of(*CUBES), claims=[holding("pool-1/gpu-0", "pool-1/gpu-2")])
    assert picked(tried(where, claim(ask()))) == ["r=gpu-1"]
    assert picked(tried(where, claim(ask(count=2)))) == "unschedulable"


def test_a_device_of_the_same_name_elsewhere_is_another_device() -> None:
    where = fleet(
        slice_of(device("gpu-0")),
        claims=[holding("pool-2/gpu-0"), holding("pool-1/gpu-0", driver="other.example.com", name="b")],
    )
    assert picked(tried(where, claim(ask()))) == ["r=gpu-0"]


def test_an_earlier_request_gives_way_so_that_a_later_one_fits() -> None:
    slices = slice_of(device("large", attrs={"size": 2}), device("small", attrs={"size": 1}))
    found = tried(
        fleet(slices),
        claim(ask("any"), ask("big", "device.attributes['gpu.example.com'].size == 2")),
    )
    assert picked(found) == ["any=small", "big=large"]


def test_an_earlier_claim_gives_way_so_that_a_later_one_fits() -> None:
    slices = slice_of(device("large", attrs={"size": 2}), device("small", attrs={"size": 1}))
    found = tried(
        fleet(slices),
        claim(ask("any"), name="one"),
        claim(ask("big", "device.attributes['gpu.example.com'].size == 2"), name="two"),
    )
    assert picked(found) == ["any=small", "big=large"]


def test_class_and_request_selectors_both_have_to_agree() -> None:
    slices = slice_of(
        device("a", attrs={"model": "X", "size": 1}),
        device("b", attrs={"model": "Y", "size": 2}),
        device("c", attrs={"model": "X", "size": 2}),
    )
    classes = [device_class("x", "device.attributes['gpu.example.com'].model == 'X'")]
    found = tried(
        fleet(slices, classes=classes),
        claim(ask("r", "device.attributes['gpu.example.com'].size == 2", cls="x")),
    )
    assert picked(found) == ["r=c"]


def test_several_selectors_are_all_required() -> None:
    slices = slice_of(device("a", attrs={"n": 1}), device("b", attrs={"n": 5}), device("c", attrs={"n": 9}))
    low, high = "device.attributes['gpu.example.com'].n > 3", "device.attributes['gpu.example.com'].n < 7"
    assert picked(tried(fleet(slices), claim(ask("r", low, high)))) == ["r=b"]


def test_a_claim_that_is_allocated_already_keeps_its_devices() -> None:
    held = holding("pool-1/gpu-0")
    where = fleet(slice_of(*CUBES), claims=[held])
    assert picked(tried(where, held, claim(ask()))) == ["r=gpu-0", "r=gpu-1"]


def test_a_long_chain_of_devices_needs_no_deep_recursion() -> None:
    slices = [
        slice_of(*devices(*(f"d{i:03}" for i in range(100))), name=f"s{part:02}", pool=f"p{part:02}")
        for part in range(16)
    ]
    claims = [claim(ask(count=32), name=f"c{i:02}") for i in range(50)]
    found = picked(tried(fleet(*slices), *claims))
    assert isinstance(found, list)
    assert len(set(found)) == 1600


def test_asking_for_more_than_there_is_ends_soon_however_different_the_devices_are() -> None:
    where = fleet(
        slice_of(*(device(f"d{i}", attrs={"id": i}) for i in range(30))), claims=[holding("pool-1/d7")]
    )
    distinct = [{"distinctAttribute": "gpu.example.com/id"}]
    wanted = ask("r", "device.attributes['gpu.example.com'].id >= 0", count=30)
    assert picked(tried(where, claim(wanted, constraints=distinct), max_steps=20_000)) == "unschedulable"


def test_a_device_that_was_not_looked_at_may_still_fail_the_claim() -> None:
    where = fleet(slice_of(*(device(f"d{i}", attrs={"id": i}) for i in range(9)), device("odd")))
    distinct = [{"distinctAttribute": "gpu.example.com/id"}]
    wanted = ask("r", "device.attributes['gpu.example.com'].id >= 0", count=20)
    assert picked(tried(where, claim(wanted, constraints=distinct))) == "claim: cel-evaluation-error"


def test_a_request_that_nothing_fulfils_ends_a_long_search() -> None:
    where = fleet(slice_of(*(device(f"d{i}", attrs={"id": i}) for i in range(20))))
    wanted = claim(
        *(ask(f"r{i}", f"device.attributes['gpu.example.com'].id >= {i // 3}") for i in range(8)),
        ask("never", "device.attributes['gpu.example.com'].id < 0"),
        constraints=[{"distinctAttribute": "gpu.example.com/id"}],
    )
    assert picked(tried(where, wanted, max_steps=5000)) == "unschedulable"


def test_the_search_ends_in_undecided_when_it_takes_too_long() -> None:
    where = fleet(slice_of(*(device(f"d{i}", attrs={"id": i}) for i in range(20))))
    wanted = claim(
        *(ask(f"r{i}", "device.attributes['gpu.example.com'].id >= 0") for i in range(19)),
        ask("never", "device.attributes['gpu.example.com'].id < 0"),
    )
    distinct = claim(
        *(ask(f"r{i}") for i in range(21)),
        constraints=[{"distinctAttribute": "gpu.example.com/id"}],
    )
    assert picked(tried(where, wanted, max_steps=2000)) == "unschedulable"
    assert picked(tried(where, distinct, max_steps=500)) == "undecided"
