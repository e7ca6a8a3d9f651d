"""firstAvailable: alternatives in their order, named `request/alternative` in results (KEP-4816)."""

import pytest

from portal.dra import features as gates
from tests.dra.builders import (
    ask,
    claim,
    device,
    device_class,
    devices,
    first_of,
    fleet,
    holding,
    picked,
    slice_of,
    sub,
    tried,
    without,
)

BIG = "device.attributes['gpu.example.com'].size == 'big'"
SMALL = "device.attributes['gpu.example.com'].size == 'small'"
MIXED = slice_of(
    device("big-0", attrs={"size": "big"}),
    device("small-0", attrs={"size": "small"}),
    device("small-1", attrs={"size": "small"}),
)


def test_the_first_alternative_that_fits_is_taken() -> None:
    assert picked(tried(fleet(MIXED), claim(first_of("r", sub("big", BIG), sub("small", SMALL))))) == [
        "r/big=big-0"
    ]


def test_the_next_alternative_is_tried_when_the_first_does_not_fit() -> None:
    where = fleet(MIXED, claims=[holding("pool-1/big-0")])
    wanted = claim(first_of("r", sub("big", BIG), sub("small", SMALL, count=2)))
    assert picked(tried(where, wanted)) == ["r/small=small-0", "r/small=small-1"]


def test_no_alternative_fits() -> None:
    wanted = claim(first_of("r", sub("two", BIG, count=2), sub("three", SMALL, count=3)))
    assert picked(tried(fleet(MIXED), wanted)) == "unschedulable"


def test_a_later_request_can_force_another_alternative() -> None:
    wanted = claim(first_of("r", sub("big", BIG), sub("small", SMALL)), ask("must", BIG))
    assert picked(tried(fleet(MIXED), wanted)) == ["r/small=small-0", "must=big-0"]


def test_alternatives_may_name_other_classes() -> None:
    classes = [device_class("gpu", BIG), device_class("little", SMALL)]
    where = fleet(MIXED, classes=classes, claims=[holding("pool-1/big-0")])
    wanted = claim(first_of("r", sub("a"), sub("b", cls="little")))
    assert picked(tried(where, wanted)) == ["r/b=small-0"]


def test_all_of_one_kind_can_be_an_alternative() -> None:
    where = fleet(MIXED, claims=[holding("pool-1/small-1")])
    wanted = claim(first_of("r", sub("all", SMALL, allocationMode="All"), sub("one", SMALL)))
    assert picked(tried(where, wanted)) == ["r/one=small-0"]


def test_all_of_nothing_is_passed_over_for_the_next_alternative() -> None:
    nothing = "device.attributes['gpu.example.com'].size == 'huge'"
    wanted = claim(first_of("r", sub("all", nothing, allocationMode="All"), sub("one")))
    assert picked(tried(fleet(MIXED), wanted)) == ["r/one=big-0"]


def test_all_of_one_kind_that_a_constraint_keeps_apart_is_passed_over_too() -> None:
    slices = slice_of(device("a", attrs={"n": 1}), device("b", attrs={"n": 2}))
    wanted = claim(
        first_of("r", sub("all", allocationMode="All"), sub("one")),
        constraints=[{"matchAttribute": "gpu.example.com/n"}],
    )
    assert picked(tried(fleet(slices), wanted)) == ["r/one=a"]


def test_an_alternative_can_fail_the_whole_claim_before_it_is_needed() -> None:
    wanted = claim(first_of("r", sub("fine"), sub("wrong", cls="missing")))
    assert picked(tried(fleet(MIXED), wanted)) == "claim: unknown-class"


def test_the_gate_has_to_be_on() -> None:
    where = fleet(MIXED, features=without(gates.PRIORITIZED_LIST))
    found = tried(where, claim(first_of("r", sub("a"))))
    assert picked(found) == "claim: gate-off"
    assert "DRAPrioritizedList" in str(getattr(found, "error", ""))


def test_an_alternative_that_leaves_no_room_for_later_requests_is_none() -> None:
    where = fleet(slice_of(*devices(*(f"d{i:02}" for i in range(60)))))
    wanted = claim(first_of("r", sub("many", count=32), sub("few", count=31)), ask("one"))
    found = picked(tried(where, wanted, max_steps=2000))
    assert isinstance(found, list)
    assert (found[0], found[-1], len(found)) == ("r/few=d00", "one=d31", 32)


def test_the_smallest_sum_of_alternatives_must_fit_into_a_claim() -> None:
    wanted = claim(first_of("r", sub("a", count=32), sub("b", count=33)), ask("one"))
    assert picked(tried(fleet(MIXED), wanted)) == "claim: too-many-devices"


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        (["r"], ["r/b=y-0", "s=y-1"]),
        (["r/b"], ["r/a=x-0", "s=x-1"]),
        (["s"], ["r/a=x-0", "s=x-1"]),
        ([], ["r/b=y-0", "s=y-1"]),
    ],
)
def test_a_constraint_can_name_the_request_or_one_alternative(
    requests: list[str], expected: list[str]
) -> None:
    slices = slice_of(
        device("x-0", attrs={"kind": "x", "n": 0}),
        device("x-1", attrs={"kind": "x", "n": 1}),
        device("y-0", attrs={"kind": "y", "n": 2}),
        device("y-1", attrs={"kind": "y", "n": 2}),
    )
    kind = "device.attributes['gpu.example.com'].kind == '{}'".format
    names = [*requests, "s"] if requests and requests != ["s"] else requests
    wanted = claim(
        first_of("r", sub("a", kind("x")), sub("b", kind("y"))),
        ask("s"),
        constraints=[{"requests": names, "matchAttribute": "gpu.example.com/n"}],
    )
    assert picked(tried(fleet(slices), wanted)) == expected
