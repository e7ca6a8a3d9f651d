"""What a selector reads, and memo keys made of it."""

import pytest

from portal.dra.cel import EVERYTHING, DeviceView, compile_selector
from portal.dra.quantity import Quantity
from portal.dra.semver import Semver
from tests.dra.selectors import ATTRIBUTES

MODEL = ("attribute", "dra.example.com", "model")


@pytest.mark.parametrize(
    ("expression", "reads"),
    [
        ("true", set()),
        ("device.driver == 'x'", {("driver",)}),
        (f"{ATTRIBUTES}.model == 'x'", {MODEL}),
        (f'{ATTRIBUTES}["model"] == "x"', {MODEL}),
        ('device.attributes.somewhere.model == "x"', {("attribute", "somewhere", "model")}),
        (f"has({ATTRIBUTES}.model)", {MODEL}),
        (f"{ATTRIBUTES}.?model.orValue('') == ''", {MODEL}),
        (f'{ATTRIBUTES}[?"model"].hasValue()', {MODEL}),
        (f'"model" in {ATTRIBUTES}', {MODEL}),
        ('"d" in device.attributes', {("attribute?", "d")}),
        ('"d" in device.capacity', {("capacity?", "d")}),
        ('device.capacity["d"].m.isInteger()', {("capacity", "d", "m")}),
        (
            f"cel.bind(dra, {ATTRIBUTES}, dra.model == 'x' && has(dra.index))",
            {MODEL, ("attribute", "dra.example.com", "index")},
        ),
        ("cel.bind(a, device.attributes, a['d'].x == 1)", {("attribute", "d", "x")}),
        ("cel.bind(d, device, d.driver == 'x')", {("driver",)}),
        (f"['a'].exists(x, x == {ATTRIBUTES}.model)", {MODEL}),
        (f"[{ATTRIBUTES}.model].exists(device, device == 'x')", {MODEL}),
        (f"device.driver == 'x' ? {ATTRIBUTES}.model == 'y' : false", {("driver",), MODEL}),
    ],
)
def test_reads_that_the_text_tells(expression: str, reads: set[tuple[str, ...]]) -> None:
    assert compile_selector(expression).reads == frozenset(reads)


@pytest.mark.parametrize(
    "expression",
    [
        "device.attributes[device.driver].model == 'x'",
        "device.attributes.all(d, true)",
        f"{ATTRIBUTES}.size() > 0",
        f"{ATTRIBUTES}.exists(n, true)",
        "device == null",
        "has(device.attributes)",
        "[device].size() == 1",
        "device.driver in device.attributes",
        "(true ? device : device).driver == 'x'",
    ],
)
def test_reads_that_only_evaluation_tells(expression: str) -> None:
    assert compile_selector(expression).reads == EVERYTHING


def test_sharing_is_a_read() -> None:
    selector = compile_selector("device.allowMultipleAllocations", features={"DRAConsumableCapacity"})
    assert selector.reads == frozenset({("allowMultipleAllocations",)})


def device(**attributes: object) -> DeviceView:
    return DeviceView(driver="dra.example.com", attributes=attributes)  # type: ignore[arg-type]  # any sort of value


def test_devices_that_differ_elsewhere_share_a_key() -> None:
    selector = compile_selector(f"{ATTRIBUTES}.model == 'x'")
    assert selector.memo_key(device(model="x", uuid="1")) == selector.memo_key(device(model="x", uuid="2"))
    assert selector.memo_key(device(model="x")) != selector.memo_key(device(model="y"))
    assert selector.memo_key(device(model="x")) != selector.memo_key(device())


@pytest.mark.parametrize("expression", [f"{ATTRIBUTES}.a == 1", f"{ATTRIBUTES}.all(n, true)"])
def test_keys_tell_types_apart(expression: str) -> None:
    selector = compile_selector(expression, features={"DRAListTypeAttributes"})
    values = [1, True, "1", Semver.parse("1.0.0"), (1,), (True,), ("1",)]
    assert len({selector.memo_key(device(a=value)) for value in values}) == len(values)


def test_keys_tell_equal_quantities_apart_that_are_written_differently() -> None:
    selector = compile_selector('device.capacity["d"].m.isInteger()')
    whole, milli = (DeviceView(driver="d", capacities={"m": Quantity.parse(text)}) for text in ("1", "1000m"))
    assert selector.evaluate(whole) is True
    assert selector.evaluate(milli) is False
    assert selector.memo_key(whole) != selector.memo_key(milli)


def test_keys_contain_what_makes_a_device_unusable() -> None:
    stored = compile_selector("device.driver == 'd'")
    new = compile_selector("device.driver == 'd'", enforce_estimate=True)
    good, with_list = DeviceView(driver="d"), DeviceView(driver="d", attributes={"l": (1,)})
    assert stored.memo_key(good) != stored.memo_key(DeviceView(driver="d", unusable="broken"))
    assert stored.memo_key(good) == stored.memo_key(with_list)
    assert new.memo_key(good) != new.memo_key(with_list)


def test_selectors_are_shared() -> None:
    assert compile_selector("device.driver == 'x'") is compile_selector("device.driver == 'x'")
    assert repr(compile_selector("true")) == "Selector('true')"
