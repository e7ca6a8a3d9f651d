"""What selectors see of a device, with and without the feature gates."""

import pytest

from portal.dra.cel import DeviceView, UnusableAttribute, attribute_value
from portal.dra.quantity import Quantity
from portal.dra.semver import Semver
from tests.dra.selectors import ATTRIBUTES, DEVICE, outcome

MATCHING = [
    'device.driver == "dra.example.com"',
    f'{ATTRIBUTES}.model == "A100"',
    f'{ATTRIBUTES}["model"] == "A100"',
    f"{ATTRIBUTES}.index == 3",
    f"{ATTRIBUTES}.index == 3.0",
    f"{ATTRIBUTES}.index < 4u",
    f"{ATTRIBUTES}.index in [1, 2, 3]",
    f"{ATTRIBUTES}.healthy",
    f"{ATTRIBUTES}.healthy == true",
    f'{ATTRIBUTES}.version.isGreaterThan(semver("1.0.0"))',
    f'{ATTRIBUTES}.version == semver("1.2.3")',
    f"{ATTRIBUTES}.version.major() == 1 && {ATTRIBUTES}.version.patch() == 3",
    'device.attributes["ext.example.com"].family == "ampere"',
    'device.capacity["dra.example.com"].memory == quantity("40Gi")',
    'device.capacity["dra.example.com"].memory.compareTo(quantity("40960Mi")) == 0',
    'device.capacity["ext.example.com"].links.isLessThan(quantity("2"))',
    '"dra.example.com" in device.attributes',
    '!("other.example.com" in device.attributes)',
    f'"model" in {ATTRIBUTES}',
    '!("model" in device.attributes["other.example.com"])',
    f"has({ATTRIBUTES}.model)",
    f"!has({ATTRIBUTES}.nothing)",
    '!has(device.attributes["other.example.com"].model)',
    'device.attributes["other.example.com"].size() == 0',
    "device.attributes.size() == 2 && device.capacity.size() == 2",
    # A lookup finds every domain; only `in` tells whether there is one.
    "has(device.attributes.nothing)",
    'device.attributes[?"nothing"].hasValue()',
    f"{ATTRIBUTES}.?nothing.orValue(7) == 7",
    f"{ATTRIBUTES}.?index.orValue(7) == 3",
    f'{ATTRIBUTES}[?"index"].hasValue()',
    'device.attributes[?"nothing"].?model.orValue("x") == "x"',
    'device.?driver.orValue("") == "dra.example.com"',
    'cel.bind(dra, device.attributes["dra.example.com"], dra.healthy && dra.index > 2)',
    "device.attributes.exists(domain, domain.startsWith('ext.'))",
    f"{ATTRIBUTES}.all(name, name.size() > 2)",
    f"{ATTRIBUTES}.exists(name, value, name == 'index' && value == 3)",
    "device.attributes.all(domain, device.attributes[domain].size() > 0)",
    f'{ATTRIBUTES}.nothing == 1 || {ATTRIBUTES}.model == "A100"',
    f"type({ATTRIBUTES}.index) == int && type({ATTRIBUTES}.model) == string",
    # A comparison of a version with text is an error, but "not equal" is only not equal.
    f'{ATTRIBUTES}.version != "1.2.3"',
    f'"1.2.3" != {ATTRIBUTES}.version',
]


@pytest.mark.parametrize("expression", MATCHING)
def test_expressions_that_match(expression: str) -> None:
    assert outcome(expression) is True


@pytest.mark.parametrize(
    "expression",
    [
        f'{ATTRIBUTES}.model == "H100"',
        f"{ATTRIBUTES}.model == 3",
        f'"1.2.3" == {ATTRIBUTES}.version',
        f"{ATTRIBUTES}.healthy == null",
        f'{ATTRIBUTES}.nothing == 1 && device.driver == "x"',
        f"{ATTRIBUTES}.version in ['1.2.3']",
    ],
)
def test_expressions_that_do_not_match(expression: str) -> None:
    assert outcome(expression) is False


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (f"{ATTRIBUTES}.nothing == 1", "no such key: nothing"),
        ('device.attributes["other.example.com"].model == "A100"', "no such key: model"),
        ('device.capacity["dra.example.com"].nothing.isInteger()', "no such key: nothing"),
        (f"{ATTRIBUTES}.model > 3", "no such overload"),
        (f"{ATTRIBUTES}.model && true", "no such overload"),
        (f"!{ATTRIBUTES}.index", "no such overload"),
        (f'{ATTRIBUTES}.version == "1.2.3"', "no such overload"),
        (f'{ATTRIBUTES}.model.isGreaterThan(semver("1.0.0"))', "no such overload"),
        (f"{ATTRIBUTES}.model", "CEL result of type string could not be converted to bool"),
        (f"{ATTRIBUTES}.model.part", "no such key: part"),
        # A plain value has no fields, and must not even be asked for one.
        (f"has({ATTRIBUTES}.model.part) == false", "no such key: part"),
        (f"{ATTRIBUTES}.model.?part.hasValue()", "no such key: part"),
        (f"{ATTRIBUTES}.?model.part.hasValue()", "no such key: part"),
        (f"{ATTRIBUTES}.model.all(x, true)", "got 'types.String', expected iterable type"),
        (f"{ATTRIBUTES}.version.exists(x, true)", "got 'cel.Semver', expected iterable type"),
        (f"{ATTRIBUTES}.nothing.exists(x, x)", "no such key: nothing"),
    ],
)
def test_errors_of_evaluation(expression: str, message: str) -> None:
    found = outcome(expression if expression.endswith("part") is False else f"{expression} == 1")
    assert found == f"evaluation: {message}"


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("device.nothing", "undefined field 'nothing'"),
        ("device.driver", "must evaluate to bool or the unknown type, not string"),
        ("device", "must evaluate to bool or the unknown type, not kubernetes.DRADevice"),
        (f"{ATTRIBUTES}", "must evaluate to bool or the unknown type, not map(string, any)"),
        (
            "device.attributes == 1",
            "found no matching overload for '_==_' applied to '(map(string, map(string, any)), int)'",
        ),
        (
            'device.capacity["a"].b == "1Gi"',
            "found no matching overload for '_==_' applied to '(kubernetes.Quantity, string)'",
        ),
        (
            'device.capacity["a"].b > quantity("1")',
            "found no matching overload for '_>_' applied to '(kubernetes.Quantity, kubernetes.Quantity)'",
        ),
        (
            'device["driver"] == ""',
            "found no matching overload for '_[_]' applied to '(kubernetes.DRADevice, string)'",
        ),
        ("device.driver.model", "type 'string' does not support field selection"),
        ("device.driver == 1", "found no matching overload for '_==_' applied to '(string, int)'"),
        ("dyn(true)", "must evaluate to bool or the unknown type, not dyn"),
        (f"{ATTRIBUTES}.healthy.part", "must evaluate to bool or the unknown type, not dyn"),
    ],
)
def test_errors_of_compilation(expression: str, message: str) -> None:
    assert outcome(expression) == f"compile: {message}"


def test_new_expressions_may_name_sharing_behind_its_gate_only() -> None:
    shared = DeviceView(driver="d", allow_multiple_allocations=True)
    gate = {"DRAConsumableCapacity"}
    assert outcome("device.allowMultipleAllocations", shared, gate, new=True) is True
    assert outcome("device.allowMultipleAllocations", DEVICE, gate, new=True) is False
    assert outcome("has(device.allowMultipleAllocations)", DEVICE, gate, new=True) is True
    assert outcome("device.allowMultipleAllocations", shared, new=True) == (
        "compile: undefined field 'allowMultipleAllocations'"
    )


def test_stored_expressions_may_name_sharing_whatever_the_gates() -> None:
    assert (
        outcome("device.allowMultipleAllocations", DeviceView(driver="d", allow_multiple_allocations=True))
        is True
    )
    assert outcome("device.allowMultipleAllocations") is False


LISTS = DeviceView(
    driver="d",
    attributes={
        "roots": ("a", "b"),
        "sizes": (1, 2),
        "one": "a",
        "versions": (Semver.parse("1.0.0"),),
        "flags": (True,),
    },
)
LIST_GATE = {"DRAListTypeAttributes"}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ('device.attributes["d"].roots.includes("a")', True),
        ('device.attributes["d"].roots.includes("c")', False),
        ('device.attributes["d"].one.includes("a")', True),
        ('device.attributes["d"].one.includes("b")', False),
        ('device.attributes["d"].sizes.includes(2)', True),
        ('device.attributes["d"].sizes.includes("2")', False),
        ('device.attributes["d"].versions.includes(semver("1.0.0"))', True),
        ('device.attributes["d"].flags.includes(true)', True),
        ('device.attributes["d"].nothing.includes("a")', "evaluation: no such key: nothing"),
        ('"b" in device.attributes["d"].roots', True),
        ('device.attributes["d"].roots == ["a", "b"]', True),
        ('device.attributes["d"].roots[1] == "b"', True),
        ('device.attributes["d"].roots.exists(r, r == "b")', True),
        ('device.attributes["d"].sizes.sum() == 3', True),
        ('device.attributes["d"].flags[0]', True),
        ("[1, 2].includes(1)", True),
        ("dyn(true)", True),
    ],
)
def test_lists_and_includes_behind_their_gate(expression: str, expected: bool | str) -> None:
    assert outcome(expression, LISTS, LIST_GATE) == expected


def test_new_expressions_may_name_includes_behind_its_gate_only() -> None:
    expression = f'{ATTRIBUTES}.model.includes("A100")'
    assert outcome(expression, new=True) == "compile: undeclared reference to 'includes' (in container '')"
    assert outcome(expression, DEVICE, LIST_GATE, new=True) is True
    assert outcome(expression) is True


def test_without_the_gate_a_list_makes_the_device_unusable_for_new_expressions_only() -> None:
    assert outcome("true", LISTS, new=True) == "evaluation: attribute roots: unsupported attribute value"
    assert outcome('"b" in device.attributes["d"].roots', LISTS) is True


def test_a_device_with_an_unusable_attribute_fails_every_selector() -> None:
    broken = DeviceView(driver="d", unusable="attribute version: parse semantic version: no")
    assert outcome("true", broken) == "evaluation: attribute version: parse semantic version: no"


def test_attribute_values_take_the_one_field_that_is_set() -> None:
    assert attribute_value(string="x") == "x"
    assert attribute_value(int_=0) == 0
    assert attribute_value(bool_=False) is False
    assert attribute_value(version="1.0.0") == Semver.parse("1.0.0")
    assert attribute_value(strings=["a"]) == ("a",)
    assert attribute_value(versions=["1.0.0"]) == (Semver.parse("1.0.0"),)


@pytest.mark.parametrize("fields", [{}, {"version": "1.0"}, {"versions": ["1.0.0", "x"]}])
def test_attribute_values_that_are_none(fields: dict[str, object]) -> None:
    with pytest.raises(UnusableAttribute):
        attribute_value(**fields)  # type: ignore[arg-type]  # the table mixes fields


def test_a_bare_name_belongs_to_the_domain_of_the_driver() -> None:
    device = DeviceView(
        driver="a.example.com",
        attributes={"x": 1, "b.example.com/x": 2},
        capacities={"m": Quantity.parse("1"), "b.example.com/m": Quantity.parse("2")},
    )
    assert (
        outcome(
            'device.attributes["a.example.com"].x == 1 && device.attributes["b.example.com"].x == 2', device
        )
        is True
    )
    assert outcome('device.capacity["b.example.com"].m.asInteger() == 2', device) is True
