"""Shared devices: what each allocation consumes, and how often a device can be allocated (KEP-5075)."""

from typing import Any

import pytest

from portal.dra import features as gates
from portal.dra.features import Features
from tests.dra.builders import (
    ALL,
    ask,
    claim,
    device,
    fleet,
    holding,
    picked,
    results,
    slice_of,
    tried,
    without,
)


def shared(name: str = "a", *, attrs: dict[str, Any] | None = None, **capacity: Any) -> dict[str, Any]:
    return device(name, attrs=attrs, capacity=capacity, allowMultipleAllocations=True)


def policy(value: str, default: str | None = None, **rest: Any) -> dict[str, Any]:
    found = {"default": default, **rest} if default is not None else rest
    return {"value": value, "requestPolicy": found}


def wants(name: str = "r", count: int = 1, **requested: str) -> dict[str, Any]:
    extra: dict[str, Any] = {"capacity": {"requests": requested}} if requested else {}
    return ask(name, count=count, **extra)


def consumed(capacity: Any, asked: str | None, features: Features = ALL) -> str | None:
    """What a request consumes of a device's one capacity; None if the device is not eligible."""
    where = fleet(slice_of(shared(m=capacity)), features=features)
    found = tried(where, claim(wants() if asked is None else wants(m=asked)))
    if picked(found) == "unschedulable":
        return None
    (result,) = results(found)
    return str(result["consumedCapacity"]["m"])


@pytest.mark.parametrize(
    ("capacity", "asked", "expected"),
    [
        ("10Gi", None, "10Gi"),
        ("10Gi", "3Gi", "3Gi"),
        ("10Gi", "10Gi", "10Gi"),
        ("10Gi", "11Gi", None),
        ("10", "100m", "100m"),
        (policy("10Gi", "1Gi"), None, "1Gi"),
        (policy("10Gi", "1Gi"), "3Gi", "3Gi"),
        (policy("10", "1", validValues=["1", "4", "8"]), None, "1"),
        (policy("10", "1", validValues=["1", "4", "8"]), "1", "1"),
        (policy("10", "1", validValues=["1", "4", "8"]), "2", "4"),
        (policy("10", "1", validValues=["1", "4", "8"]), "8", "8"),
        (policy("10", "1", validValues=["1", "4", "8"]), "9", None),
        (policy("10Gi", "2Gi", validRange={"min": "1Gi"}), None, "2Gi"),
        (policy("10Gi", "2Gi", validRange={"min": "1Gi"}), "1", "1Gi"),
        (policy("10Gi", "2Gi", validRange={"min": "1Gi"}), "3Gi", "3Gi"),
        (policy("10Gi", "2Gi", validRange={"min": "1Gi", "max": "4Gi"}), "4Gi", "4Gi"),
        (policy("10Gi", "2Gi", validRange={"min": "1Gi", "max": "4Gi"}), "5Gi", None),
        (policy("10Gi", "2Gi", validRange={"min": "1Gi", "step": "1Gi"}), "2500Mi", "3Gi"),
        (policy("10Gi", "2Gi", validRange={"min": "1Gi", "step": "1Gi"}), "3Gi", "3Gi"),
        (policy("10Gi", "2Gi", validRange={"min": "1Gi", "max": "4Gi", "step": "2Gi"}), "3500Mi", None),
        (policy("10Gi", "2Gi", validRange={"min": "1Gi", "max": "5Gi", "step": "2Gi"}), "3500Mi", "5Gi"),
        (policy("7", "3", validRange={"min": "3", "step": "5"}), "4", None),
        (policy("10", "1", validRange={"min": "1"}), "1500m", "1500m"),
    ],
)
def test_amounts_are_rounded_up_as_the_policy_says(
    capacity: Any, asked: str | None, expected: str | None
) -> None:
    assert consumed(capacity, asked) == expected


@pytest.mark.parametrize(
    ("capacity", "asked", "whole", "fractional"),
    [
        (policy("10", "1", validRange={"min": "500m", "step": "500m"}), "1200m", "2", "1500m"),
        (policy("10", "1", validRange={"min": "1", "step": "1"}), "1200m", "2", "2"),
        (policy("10", "1", validRange={"min": "1", "max": "1500m"}), "1200m", "1200m", "1200m"),
        (policy("10", "1", validRange={"min": "1", "max": "1500m"}), "1800m", None, None),
        (policy("10", "1", validRange={"min": "1500m"}), "1200m", "1500m", "1500m"),
    ],
)
def test_fractional_ranges_count_in_thousandths_behind_their_gate(
    capacity: Any, asked: str, whole: str | None, fractional: str | None
) -> None:
    assert consumed(capacity, asked, ALL) == fractional
    assert consumed(capacity, asked, without(gates.FRACTIONAL_CAPACITY_RANGE)) == whole


def test_all_capacities_of_the_device_are_consumed() -> None:
    where = fleet(
        slice_of(
            shared(memory=policy("80Gi", "80Gi", validRange={"min": "10Gi", "step": "10Gi"}), power="700")
        )
    )
    (result,) = results(tried(where, claim(wants(memory="10Gi"))))
    assert result["consumedCapacity"] == {"memory": "10Gi", "power": "700"}
    assert result["shareID"] == "share-1"


def test_a_capacity_that_the_device_lacks_makes_it_ineligible() -> None:
    where = fleet(slice_of(shared(m="1"), device("whole", capacity={"m": "1"})))
    assert picked(tried(where, claim(wants(other="1")))) == "unschedulable"


def test_one_device_serves_several_requests_until_it_is_full() -> None:
    where = fleet(slice_of(shared("a", m="2"), shared("b", m="2")))
    found = tried(where, claim(wants("x", count=3, m="1"), wants("y", m="1")))
    assert picked(found) == ["x=a", "x=a", "x=b", "y=b"]
    assert [item["shareID"] for item in results(found)] == ["share-1", "share-2", "share-3", "share-4"]


@pytest.mark.parametrize(
    ("used", "asked", "expected"),
    [("1", "1", ["r=a"]), ("1500m", "1", "unschedulable"), ("2", "1", "unschedulable"), ("2", "0", ["r=a"])],
)
def test_what_others_consume_is_gone(used: str, asked: str, expected: object) -> None:
    where = fleet(
        slice_of(shared("a", m="2")), claims=[holding("pool-1/a", shareID="s", consumedCapacity={"m": used})]
    )
    assert picked(tried(where, claim(wants(m=asked)))) == expected


def test_shares_of_several_claims_add_up() -> None:
    claims = [
        holding("pool-1/a", name=f"h{i}", shareID=f"s{i}", consumedCapacity={"m": "1"}) for i in range(3)
    ]
    where = fleet(slice_of(shared("a", m="4")), claims=claims)
    assert picked(tried(where, claim(wants(m="1")))) == ["r=a"]
    assert picked(tried(where, claim(wants(m="2")))) == "unschedulable"


def test_a_device_held_as_a_whole_is_not_shared() -> None:
    where = fleet(slice_of(shared("a", m="2")), claims=[holding("pool-1/a")])
    assert picked(tried(where, claim(wants(m="1")))) == "unschedulable"


def test_a_device_with_a_live_share_is_not_given_as_a_whole() -> None:
    where = fleet(
        slice_of(device("a", capacity={"m": "2"})),
        claims=[holding("pool-1/a", shareID="s", consumedCapacity={"m": "1"})],
    )
    assert picked(tried(where, claim(ask()))) == "unschedulable"


@pytest.mark.parametrize(("asked", "expected"), [("2", ["r=b"]), ("4", "unschedulable"), ("1", ["r=a"])])
def test_a_device_that_is_not_shared_has_to_be_large_enough(asked: str, expected: object) -> None:
    where = fleet(slice_of(device("a", capacity={"m": "1"}), device("b", capacity={"m": "3"})))
    found = tried(where, claim(wants(m=asked)))
    assert picked(found) == expected
    if isinstance(expected, list):
        (result,) = results(found)
        assert "consumedCapacity" not in result
        assert "shareID" not in result


def test_a_device_without_capacities_can_be_shared_without_limit() -> None:
    where = fleet(slice_of(device("a", allowMultipleAllocations=True)))
    found = tried(where, claim(wants(count=3)))
    assert picked(found) == ["r=a", "r=a", "r=a"]


def test_distinct_attributes_keep_requests_on_different_devices() -> None:
    where = fleet(slice_of(shared("a", m="9", attrs={"id": 1}), shared("b", m="9", attrs={"id": 2})))
    constraints = [{"distinctAttribute": "gpu.example.com/id"}]
    assert picked(tried(where, claim(wants(m="1", count=2), constraints=constraints))) == ["r=a", "r=b"]
    assert picked(tried(where, claim(wants(m="1", count=3), constraints=constraints))) == "unschedulable"


def test_expressions_can_ask_for_shared_devices() -> None:
    where = fleet(slice_of(device("whole"), shared("part", m="1")))
    assert picked(tried(where, claim(ask("r", "device.allowMultipleAllocations == true")))) == ["r=part"]


def test_everything_is_taken_as_a_whole_while_the_gate_is_off() -> None:
    where = fleet(slice_of(shared("a", m="2")), features=without(gates.CONSUMABLE_CAPACITY))
    found = tried(where, claim(wants(m="99")))
    assert picked(found) == ["r=a"]
    assert "shareID" not in results(found)[0]
    assert picked(tried(where, claim(wants(count=2)))) == "unschedulable"
    held = fleet(
        slice_of(shared("a", m="2")),
        features=without(gates.CONSUMABLE_CAPACITY),
        claims=[holding("pool-1/a", shareID="s", consumedCapacity={"m": "1"})],
    )
    assert picked(tried(held, claim(ask()))) == "unschedulable"
