"""A fleet answers which devices match, evaluating an expression once per distinct set of what it reads."""

from typing import Any

import pytest

from portal.dra import features as gates
from portal.dra import matching
from portal.dra.features import Features
from portal.dra.fleet import UnknownClassError
from portal.dra.matching import BadExpression
from tests.dra.builders import ALL, device, device_class, devices, fleet, slice_of, without

MODEL = "device.attributes['gpu.example.com'].model == 'A'"


def verdicts(found: Any) -> list[tuple[str, bool, bool]]:
    return [(item.device.id[2], item.verdict.matches, bool(item.verdict.error)) for item in found]


def test_every_device_gets_its_verdict() -> None:
    where = fleet(slice_of(device("a", attrs={"model": "A"}), device("b", attrs={"model": "B"}), device("c")))
    assert verdicts(where.match(MODEL)) == [("a", True, False), ("b", False, False), ("c", False, True)]


def test_an_expression_that_does_not_compile_says_where() -> None:
    found = fleet(slice_of(device("a"))).match("true &&")
    assert isinstance(found, BadExpression)
    assert found.line == 1


def test_a_class_matches_when_all_its_selectors_do() -> None:
    classes = [device_class("gpu", MODEL, "device.attributes['gpu.example.com'].n > 1")]
    where = fleet(
        slice_of(
            device("a", attrs={"model": "A", "n": 2}),
            device("b", attrs={"model": "A", "n": 1}),
            device("c", attrs={"model": "B"}),
        ),
        classes=classes,
    )
    assert verdicts(where.match_class("gpu")) == [
        ("a", True, False),
        ("b", False, False),
        ("c", False, False),
    ]


def test_a_class_without_selectors_matches_everything() -> None:
    assert verdicts(fleet(slice_of(device("a"))).match_class("gpu")) == [("a", True, False)]


def test_a_class_that_does_not_exist_is_an_error() -> None:
    with pytest.raises(UnknownClassError):
        fleet().match_class("missing")


def test_a_class_with_a_bad_selector_says_so() -> None:
    assert isinstance(fleet(classes=[device_class("gpu", "nonsense(")]).match_class("gpu"), BadExpression)


@pytest.mark.parametrize(
    ("expression", "evaluations"),
    [
        (MODEL, 2),
        ("device.driver == 'gpu.example.com'", 1),
        ("true", 1),
        ("device.capacity['gpu.example.com'].memory.isGreaterThan(quantity('1Gi'))", 2),
        ("device.attributes['gpu.example.com'].uuid != ''", 40),
        ("device.allowMultipleAllocations", 1),
    ],
)
def test_an_expression_is_evaluated_once_per_distinct_set_of_what_it_reads(
    expression: str, evaluations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [
        device(
            f"d{i}",
            attrs={"model": "AB"[i % 2], "uuid": f"u{i}"},
            capacity={"memory": ["1Gi", "2Gi"][i % 2]},
        )
        for i in range(40)
    ]
    calls = []
    view = matching.view
    monkeypatch.setattr(matching, "view", lambda *given: calls.append(given) or view(*given))  # type: ignore[func-returns-value]  # append returns None, which is the point
    result = fleet(slice_of(*found)).match(expression)
    assert not isinstance(result, BadExpression)
    assert len(list(result)) == 40
    assert len(calls) == evaluations


def test_values_of_different_types_are_never_taken_for_each_other() -> None:
    found = [
        device("int", attrs={"x": 1}),
        device("bool", attrs={"x": True}),
        device("text", attrs={"x": "1"}),
    ]
    expression = "type(device.attributes['gpu.example.com'].x) == bool"
    assert [matches for _, matches, _ in verdicts(fleet(slice_of(*found)).match(expression))] == [
        False,
        True,
        False,
    ]


def test_an_absent_attribute_differs_from_an_empty_one() -> None:
    found = [device("empty", attrs={"x": ""}), device("absent")]
    expression = "'x' in device.attributes['gpu.example.com']"
    assert [matches for _, matches, _ in verdicts(fleet(slice_of(*found)).match(expression))] == [True, False]


def test_the_same_name_in_another_domain_is_another_attribute() -> None:
    found = [
        {"name": "own", "attributes": {"model": {"string": "A"}}},
        {"name": "qualified", "attributes": {"gpu.example.com/model": {"string": "A"}}},
        {
            "name": "other",
            "attributes": {"other.example.com/model": {"string": "A"}, "model": {"string": "B"}},
        },
    ]
    assert [matches for _, matches, _ in verdicts(fleet(slice_of(*found)).match(MODEL))] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("odd", [{}, {"version": "1.x"}, {"versions": ["1.0.0", "1.x"]}])
def test_an_attribute_that_cel_cannot_take_fails_every_expression_of_its_device(odd: dict[str, Any]) -> None:
    found = [device("fine", attrs={"model": "A"}), device("odd", attrs={"model": "A", "x": odd})]
    where = fleet(slice_of(*found), features=without(gates.LIST_TYPE_ATTRIBUTES))
    assert verdicts(where.match(MODEL)) == [("fine", True, False), ("odd", False, True)]


@pytest.mark.parametrize("features", [ALL, without(gates.LIST_TYPE_ATTRIBUTES)])
def test_lists_are_ordinary_attributes_to_stored_expressions(features: Features) -> None:
    found = [device("fine", attrs={"model": "A"}), device("list", attrs={"model": "A", "x": {"ints": [1]}})]
    where = fleet(slice_of(*found), features=features)
    assert verdicts(where.match(MODEL)) == [("fine", True, False), ("list", True, False)]


def test_devices_of_outdated_generations_are_not_there() -> None:
    where = fleet(slice_of(*devices("old"), name="s1"), slice_of(*devices("new"), name="s2", generation=2))
    assert [item.id[2] for item in where.devices()] == ["new"]


def test_pools_say_what_is_wrong_with_them() -> None:
    where = fleet(
        slice_of(device("a"), pool="fine", name="s1"),
        slice_of(device("a"), pool="half", name="s2", count=2),
        slice_of(device("a"), device("a"), pool="twice", name="s3"),
    )
    assert [(pool.name, pool.incomplete, pool.invalid is not None) for pool in where.pools] == [
        ("fine", False, False),
        ("half", True, False),
        ("twice", False, True),
    ]
