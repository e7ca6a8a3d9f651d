"""Gates are named, preset by a version, and never guessed."""

import pytest

from portal.dra import features as gates
from portal.dra.features import Features, UnknownFeature


@pytest.mark.parametrize(
    ("version", "on", "off"),
    [
        (
            "1.34",
            [gates.PRIORITIZED_LIST, gates.ADMIN_ACCESS],
            [gates.PARTITIONABLE_DEVICES, gates.DEVICE_TAINTS, gates.CONSUMABLE_CAPACITY],
        ),
        ("1.35", [gates.PRIORITIZED_LIST], [gates.DEVICE_TAINTS, gates.DEVICE_BINDING_CONDITIONS]),
        (
            "v1.36.2",
            [
                gates.PARTITIONABLE_DEVICES,
                gates.DEVICE_TAINTS,
                gates.CONSUMABLE_CAPACITY,
                gates.DEVICE_BINDING_CONDITIONS,
                gates.EXTENDED_RESOURCE,
            ],
            [gates.DEVICE_TAINT_RULES, gates.LIST_TYPE_ATTRIBUTES],
        ),
        (
            "1.37",
            [gates.DEVICE_TAINT_RULES],
            [
                gates.LIST_TYPE_ATTRIBUTES,
                gates.DERIVED_ATTRIBUTES,
                gates.COMPATIBILITY_GROUPS,
                gates.FRACTIONAL_CAPACITY_RANGE,
            ],
        ),
        ("1.40", [gates.DEVICE_TAINT_RULES], []),
    ],
)
def test_a_version_presets_its_gates(version: str, on: list[str], off: list[str]) -> None:
    found = Features.for_version(version)
    assert [gate for gate in on if not found.enabled(gate)] == []
    assert [gate for gate in off if found.enabled(gate)] == []


@pytest.mark.parametrize("version", ["", "latest", "1", "one.two", "1."])
def test_other_text_is_no_version(version: str) -> None:
    with pytest.raises(UnknownFeature, match="not a Kubernetes version"):
        Features.for_version(version)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", set()),
        ("DRAAdminAccess", {"DRAAdminAccess"}),
        ("AdminAccess, DRADeviceTaints", {"DRAAdminAccess", "DRADeviceTaints"}),
        ("DRAAdminAccess=true,DRADeviceTaints=false", {"DRAAdminAccess"}),
        ("DeviceBindingAndStatus", {"DRADeviceBindingConditions"}),
    ],
)
def test_gates_are_read_with_and_without_their_prefix(text: str, expected: set[str]) -> None:
    assert Features.parse(text).gates == expected


@pytest.mark.parametrize("text", ["DRAAdminAcess", "A", "DRAAdminAccess=maybe"])
def test_a_gate_that_does_not_exist_is_an_error(text: str) -> None:
    with pytest.raises(UnknownFeature):
        Features.parse(text)


def test_a_misspelt_gate_brings_the_right_one_to_mind() -> None:
    with pytest.raises(UnknownFeature, match="did you mean DRAAdminAccess"):
        Features.of(["DRAAdminAcess"])


def test_gates_can_be_switched_on_a_copy() -> None:
    base = Features.for_version("1.36")
    found = base.with_gates("DRAListTypeAttributes", off=["DRADeviceTaints"])
    assert found.enabled("DRAListTypeAttributes")
    assert not found.enabled("DRADeviceTaints")
    assert base.enabled("DRADeviceTaints")
    assert not found.at_least(1, 37)
