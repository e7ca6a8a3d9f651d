"""matchAttribute and distinctAttribute, for scalars and lists (KEP-4381, 5075, 5491)."""

from typing import Any

import pytest

from portal.dra import features as gates
from portal.dra.features import Features
from tests.dra.builders import ALL, ask, claim, device, fleet, picked, slice_of, tried, without

MATCH = [{"matchAttribute": "gpu.example.com/x"}]
DISTINCT = [{"distinctAttribute": "gpu.example.com/x"}]


def values(*found: Any) -> Any:
    """Devices d0, d1, … that differ in attribute x; None leaves it out."""
    return slice_of(
        *(device(f"d{i}", attrs={} if value is None else {"x": value}) for i, value in enumerate(found))
    )


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (values(1, 2, 1), ["r=d0", "r=d2"]),
        (values("a", "b", "b"), ["r=d1", "r=d2"]),
        (values(True, False, False), ["r=d1", "r=d2"]),
        (values({"version": "1.0.0"}, {"version": "2.0.0"}, {"version": "1.0.0"}), ["r=d0", "r=d2"]),
        (values({"version": "1.0.0"}, {"version": "1.0.0+build"}), "unschedulable"),
        (values({"version": "1.0.0"}, "1.0.0"), "unschedulable"),
        (values(1, True), "unschedulable"),
        (values(1, "1"), "unschedulable"),
        (values(None, 1, 1), ["r=d1", "r=d2"]),
        (values(None, None), "unschedulable"),
        (values({}, {}), "unschedulable"),
        (values({"ints": [1, 2]}, {"ints": [3]}, {"ints": [2, 3]}), ["r=d0", "r=d2"]),
        (values({"ints": [1, 2]}, 2), ["r=d0", "r=d1"]),
        (values({"strings": ["a"]}, {"versions": ["a"]}), "unschedulable"),
        (values({"ints": []}, {"ints": []}), "unschedulable"),
        (values({"bools": [True, False]}, False), ["r=d0", "r=d1"]),
    ],
)
def test_matching_devices_have_a_value_in_common(found: Any, expected: object) -> None:
    assert picked(tried(fleet(found), claim(ask(count=2), constraints=MATCH))) == expected


def test_lists_match_only_where_all_devices_share_one_value() -> None:
    found = values({"ints": [1, 2]}, {"ints": [2, 3]}, {"ints": [1, 3]}, {"ints": [2]})
    assert picked(tried(fleet(found), claim(ask(count=3), constraints=MATCH))) == ["r=d0", "r=d1", "r=d3"]


def test_a_narrowed_choice_of_values_widens_again_on_the_way_back() -> None:
    found = values({"ints": [1, 2]}, {"ints": [1]}, {"ints": [2]}, {"ints": [2]})
    assert picked(tried(fleet(found), claim(ask(count=3), constraints=MATCH))) == ["r=d0", "r=d2", "r=d3"]


@pytest.mark.parametrize(
    ("count", "found", "expected"),
    [
        (2, values(1, 1, 2), ["r=d0", "r=d2"]),
        (2, values(1, 1), "unschedulable"),
        (2, values(1, "1"), ["r=d0", "r=d1"]),
        (2, values(1, None, 2), ["r=d0", "r=d2"]),
        (3, values(1, 2, 1, 3), ["r=d0", "r=d1", "r=d3"]),
        (2, values({"ints": [1, 2]}, {"ints": [2]}, {"ints": [3]}), ["r=d0", "r=d2"]),
        (2, values({"ints": [1, 2]}, 2, 3), ["r=d0", "r=d2"]),
        (2, values({"ints": [1]}, {"strings": ["1"]}), ["r=d0", "r=d1"]),
    ],
)
def test_distinct_devices_share_no_value(count: int, found: Any, expected: object) -> None:
    assert picked(tried(fleet(found), claim(ask(count=count), constraints=DISTINCT))) == expected


@pytest.mark.parametrize(
    ("count", "constraints", "expected"),
    [
        (1, MATCH, ["r=d0"]),
        (2, MATCH, "unschedulable"),
        (1, DISTINCT, ["r=d0"]),
        (3, DISTINCT, ["r=d0", "r=d2", "r=d3"]),
        (4, DISTINCT, "unschedulable"),
    ],
)
def test_a_list_can_only_come_first_while_the_gate_for_lists_is_off(
    count: int, constraints: Any, expected: object
) -> None:
    found = values({"ints": [1]}, {"ints": [7]}, 1, 2)
    where = fleet(found, features=without(gates.LIST_TYPE_ATTRIBUTES))
    assert picked(tried(where, claim(ask(count=count), constraints=constraints))) == expected


def test_a_constraint_concerns_only_the_requests_it_names() -> None:
    wanted = claim(ask("a"), ask("free"), ask("b"), constraints=[{"requests": ["a", "b"], **MATCH[0]}])
    assert picked(tried(fleet(values(1, 2, 1)), wanted)) == ["a=d0", "free=d1", "b=d2"]


def test_each_claim_has_its_own_constraints() -> None:
    found = values(1, 2, 2, 1)
    one = claim(ask(count=2), constraints=MATCH, name="one")
    two = claim(ask(count=2), constraints=MATCH, name="two")
    assert picked(tried(fleet(found), one, two)) == ["r=d0", "r=d3", "r=d1", "r=d2"]


def test_an_attribute_of_the_drivers_own_domain_may_be_published_without_it() -> None:
    slices = slice_of(
        {"name": "bare", "attributes": {"x": {"int": 1}}},
        {"name": "full", "attributes": {"gpu.example.com/x": {"int": 1}}},
    )
    assert picked(tried(fleet(slices), claim(ask(count=2), constraints=MATCH))) == ["r=bare", "r=full"]


def test_a_bare_name_never_belongs_to_another_drivers_domain() -> None:
    slices = [
        slice_of(device("a", attrs={"x": 1})),
        slice_of(device("b", attrs={"x": 1}), driver="nic.example.com", pool="pool-2", name="s2"),
    ]
    assert picked(tried(fleet(*slices), claim(ask(count=2), constraints=MATCH))) == "unschedulable"


def test_devices_of_different_drivers_match_on_a_common_attribute() -> None:
    root = {"resource.kubernetes.io__pcieRoot": "pci0000:10"}
    other = {"resource.kubernetes.io__pcieRoot": "pci0000:20"}
    slices = [
        slice_of(device("gpu-0", attrs=other), device("gpu-1", attrs=root)),
        slice_of(device("nic-0", attrs=root), driver="nic.example.com", pool="pool-2", name="s2"),
    ]
    wanted = claim(
        ask("gpu", "device.driver == 'gpu.example.com'"),
        ask("nic", "device.driver == 'nic.example.com'"),
        constraints=[{"matchAttribute": "resource.kubernetes.io/pcieRoot"}],
    )
    assert picked(tried(fleet(*slices), wanted)) == ["gpu=gpu-1", "nic=pool-2/nic-0"]


@pytest.mark.parametrize(
    ("constraints", "features"),
    [
        ([{}], ALL),
        ([MATCH[0], {"requests": ["r"]}], ALL),
        (DISTINCT, without(gates.CONSUMABLE_CAPACITY)),
        (DISTINCT, Features.for_version("1.34")),
    ],
)
def test_an_unknown_kind_of_constraint_fails_the_claim(constraints: Any, features: Features) -> None:
    where = fleet(values(1, 2), features=features)
    assert picked(tried(where, claim(ask(), constraints=constraints))) == "claim: unsupported-constraint"
