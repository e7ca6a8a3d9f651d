"""Tainted devices need a toleration in the request (KEP-5055)."""

from typing import Any

import pytest

from portal.dra import features as gates
from portal.dra.features import Features
from tests.dra.builders import (
    ALL,
    ask,
    claim,
    device,
    first_of,
    fleet,
    picked,
    results,
    slice_of,
    sub,
    taint_rule,
    tried,
    without,
)


def taint(key: str = "sick", effect: str = "NoSchedule", value: str = "") -> dict[str, str]:
    return {"key": key, "effect": effect, "value": value}


def allocated(
    taints: list[dict[str, str]], tolerations: list[dict[str, Any]], features: Features = ALL
) -> bool:
    where = fleet(slice_of(device("a", taints=taints)), features=features)
    return picked(tried(where, claim(ask(tolerations=tolerations)))) == ["r=a"]


@pytest.mark.parametrize(
    ("taints", "tolerations", "expected"),
    [
        ([taint()], [], False),
        ([taint(effect="NoExecute")], [], False),
        ([taint(effect="None")], [], True),
        ([taint(effect="PreferNothing")], [], True),
        ([taint()], [{"key": "sick", "operator": "Exists"}], True),
        ([taint()], [{"key": "sick", "operator": "Exists", "effect": "NoSchedule"}], True),
        ([taint()], [{"key": "sick", "operator": "Exists", "effect": "NoExecute"}], False),
        ([taint()], [{"operator": "Exists"}], True),
        ([taint()], [{"key": "ill", "operator": "Exists"}], False),
        ([taint(value="x")], [{"key": "sick", "value": "x"}], True),
        ([taint(value="x")], [{"key": "sick", "operator": "Equal", "value": "x"}], True),
        ([taint(value="x")], [{"key": "sick", "operator": "Equal", "value": "y"}], False),
        ([taint(value="x")], [{"key": "sick", "operator": "Resembles", "value": "x"}], False),
        ([taint()], [{"key": "sick"}], True),
        ([taint(), taint("old")], [{"key": "sick", "operator": "Exists"}], False),
        (
            [taint(), taint("old")],
            [{"key": "sick", "operator": "Exists"}, {"key": "old", "operator": "Exists"}],
            True,
        ),
        (
            [taint(), taint(effect="NoExecute")],
            [{"key": "sick", "operator": "Exists", "effect": "NoExecute"}],
            False,
        ),
        ([taint(effect="NoExecute")], [{"key": "sick", "operator": "Exists", "tolerationSeconds": 0}], True),
    ],
)
def test_every_preventing_taint_needs_a_toleration(taints: Any, tolerations: Any, expected: bool) -> None:
    assert allocated(taints, tolerations) is expected


def test_taints_mean_nothing_while_the_gate_is_off() -> None:
    features = without(gates.DEVICE_TAINTS)
    assert allocated([taint()], [], features)
    where = fleet(slice_of(device("a")), features=features)
    (result,) = results(tried(where, claim(ask(tolerations=[{"operator": "Exists"}]))))
    assert "tolerations" not in result


def test_an_untainted_device_is_taken_instead() -> None:
    where = fleet(slice_of(device("a", taints=[taint()]), device("b")))
    assert picked(tried(where, claim(ask()))) == ["r=b"]


def test_tolerations_are_copied_to_the_result_as_they_were() -> None:
    tolerations = [
        {"key": "sick", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
        {"key": "b"},
    ]
    (result,) = results(tried(fleet(slice_of(device("a"))), claim(ask(tolerations=tolerations))))
    assert result["tolerations"] == tolerations


def test_alternatives_tolerate_for_themselves() -> None:
    where = fleet(slice_of(device("a", taints=[taint()])))
    wanted = claim(first_of("r", sub("x"), sub("y", tolerations=[{"operator": "Exists"}])))
    assert picked(tried(where, wanted)) == ["r/y=a"]


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, ["r=a"]),
        ({}, "unschedulable"),
        ({"driver": "gpu.example.com"}, "unschedulable"),
        ({"driver": "other"}, ["r=a"]),
        ({"pool": "pool-1"}, "unschedulable"),
        ({"pool": "pool-2"}, ["r=a"]),
        ({"device": "a"}, "unschedulable"),
        ({"driver": "gpu.example.com", "pool": "pool-1", "device": "b"}, ["r=a"]),
    ],
)
def test_a_rule_taints_the_devices_that_it_selects(selector: Any, expected: object) -> None:
    where = fleet(slice_of(device("a")), taint_rules=[taint_rule(selector=selector)])
    assert picked(tried(where, claim(ask()))) == expected


def test_a_rule_adds_to_the_drivers_own_taints() -> None:
    where = fleet(slice_of(device("a", taints=[taint()])), taint_rules=[taint_rule(key="rule", selector={})])
    one = claim(ask(tolerations=[{"key": "sick", "operator": "Exists"}]))
    both = claim(ask(tolerations=[{"operator": "Exists"}]))
    assert picked(tried(where, one)) == "unschedulable"
    assert picked(tried(where, both)) == ["r=a"]


@pytest.mark.parametrize("gate", [gates.DEVICE_TAINTS, gates.DEVICE_TAINT_RULES])
def test_rules_need_both_gates(gate: str) -> None:
    where = fleet(slice_of(device("a")), taint_rules=[taint_rule(selector={})], features=without(gate))
    assert picked(tried(where, claim(ask()))) == ["r=a"]
