"""Errors name the object and the clause at fault, and tell node and claim apart."""

from typing import Any

import pytest

from portal.dra.outcomes import Failed
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
)

ABSENT = "device.attributes['gpu.example.com'].absent == 1"


@pytest.mark.parametrize(
    ("request_", "expected", "words"),
    [
        (
            ask(cls="missing"),
            "claim: unknown-class",
            "claim team/claim, request r: there is no device class missing",
        ),
        (
            first_of("r", sub("s", cls="missing")),
            "claim: unknown-class",
            "request r/s: there is no device class missing",
        ),
        (ask(cls=""), "claim: no-class-name", "request r: the device class is missing"),
        ({"name": "r"}, "claim: no-class-name", "unsupported kind of request"),
        (
            ask(selectors=[{}]),
            "claim: unsupported-selector",
            "request r, selector #0: empty CEL expression",
        ),
        (ask(allocationMode="Some"), "claim: unsupported-mode", "unsupported allocation mode Some"),
        (
            ask(derivedAttributes=[{"name": "d/x", "expression": "1"}]),
            "claim: no-derived-attributes",
            "request r: derived attributes are not supported here",
        ),
        (ask(count=33), "claim: too-many-devices", "asks for 33 devices, which exceeds the limit of 32"),
        (
            ask("r", "true", ABSENT),
            "claim: cel-evaluation-error",
            "request r, selector #1, device gpu.example.com/pool-1/a: CEL runtime error",
        ),
        (
            ask("r", "device.nonsense"),
            "claim: cel-compile-error",
            "request r, selector #0: CEL compile error",
        ),
        (ask("r", "1 + 1"), "claim: cel-compile-error", "CEL compile error"),
    ],
)
def test_a_claim_at_fault_fails_altogether(request_: Any, expected: str, words: str) -> None:
    found = tried(fleet(slice_of(*devices("a", "b"))), claim(request_))
    assert picked(found) == expected
    assert isinstance(found, Failed)
    assert words in str(found.error)


def test_an_error_in_the_class_names_the_class() -> None:
    where = fleet(slice_of(device("a")), classes=[device_class("gpu", "true", ABSENT)])
    found = tried(where, claim(ask()))
    assert picked(found) == "claim: cel-evaluation-error"
    assert isinstance(found, Failed)
    assert found.object == "class gpu"
    assert str(found.error).startswith(
        "class gpu, selector #1, device gpu.example.com/pool-1/a: CEL runtime error"
    )


def test_expressions_are_only_evaluated_as_far_as_the_search_gets() -> None:
    where = fleet(slice_of(device("good", attrs={"absent": 1}), device("bad")))
    assert picked(tried(where, claim(ask("r", ABSENT)))) == ["r=good"]
    assert picked(tried(where, claim(ask("r", ABSENT, count=2)))) == "claim: cel-evaluation-error"


def test_held_devices_are_not_evaluated() -> None:
    where = fleet(
        slice_of(device("bad"), device("good", attrs={"absent": 1})), claims=[holding("pool-1/bad")]
    )
    assert picked(tried(where, claim(ask("r", ABSENT)))) == ["r=good"]


def test_an_expression_that_does_not_compile_matters_only_where_there_are_devices() -> None:
    assert picked(tried(fleet(), claim(ask("r", "device.nonsense")))) == "unschedulable"


def test_an_invalid_pool_matters_only_when_the_search_gets_there() -> None:
    good = slice_of(device("a"), pool="pool-1", name="s1")
    twice = slice_of(device("b"), device("b"), pool="pool-2", name="s2")
    where = fleet(good, twice)
    assert picked(tried(where, claim(ask()))) == ["r=a"]
    found = tried(where, claim(ask(count=2)))
    assert picked(found) == "node: invalid-pool"
    assert isinstance(found, Failed)
    assert str(found.error) == "pool gpu.example.com/pool-2 is invalid: device b is published twice"


def test_an_invalid_pool_is_passed_over_as_long_as_others_suffice() -> None:
    twice = slice_of(device("b"), device("b"), pool="pool-1", name="s1")
    where = fleet(twice, slice_of(device("a"), pool="pool-2", name="s2"))
    assert picked(tried(where, claim(ask()))) == ["r=pool-2/a"]
    assert picked(tried(where, claim(ask(count=2)))) == "node: invalid-pool"
    everything = first_of("r", sub("two", count=2), sub("one"))
    assert picked(tried(where, claim(everything))) == ["r/one=pool-2/a"]


def test_an_incomplete_pool_is_passed_over() -> None:
    where = fleet(slice_of(device("a"), count=2), slice_of(device("b"), pool="pool-2", name="s2"))
    assert picked(tried(where, claim(ask()))) == ["r=pool-2/b"]
    assert picked(tried(where, claim(ask(count=2)))) == "unschedulable"


def test_too_many_slices_are_an_incomplete_pool_too() -> None:
    where = fleet(slice_of(device("a"), name="s1"), slice_of(device("b"), name="s2"))
    assert picked(tried(where, claim(ask()))) == "unschedulable"


@pytest.mark.parametrize("counts", [(1, 2), (2, 1), (2, 3)])
def test_slices_that_contradict_each_other_about_their_number_are_an_invalid_pool(
    counts: tuple[int, int],
) -> None:
    slices = [slice_of(device(f"d{i}"), name=f"s{i}", count=count) for i, count in enumerate(counts)]
    found = tried(fleet(*slices), claim(ask()))
    assert picked(found) == "node: invalid-pool"
    assert "announce different numbers of slices" in str(getattr(found, "error", ""))
    assert picked(tried(fleet(*slices), claim(ask(allocationMode="All")))) == "node: invalid-pool"


def test_only_the_highest_generation_of_a_pool_counts() -> None:
    where = fleet(
        slice_of(device("old"), name="s1", generation=1),
        slice_of(device("new"), name="s2", generation=2),
    )
    assert picked(tried(where, claim(ask()))) == ["r=new"]
    assert picked(tried(where, claim(ask(count=2)))) == "unschedulable"


def test_a_newer_generation_for_another_node_makes_the_older_one_obsolete() -> None:
    where = fleet(
        slice_of(device("old"), name="s1", generation=1),
        slice_of(device("new"), name="s2", generation=2, node="node-2"),
    )
    assert picked(tried(where, claim(ask()))) == "unschedulable"


def test_the_first_fault_in_order_of_claims_is_reported() -> None:
    where = fleet(slice_of(device("a")))
    found = tried(where, claim(ask(cls="x"), name="one"), claim(ask(count=99), name="two"))
    assert isinstance(found, Failed)
    assert "claim team/one, request r: there is no device class x" in str(found.error)


def test_a_node_selector_without_meaning_names_the_slice() -> None:
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "x", "operator": "Near"}]}]}
    found = tried(fleet(slice_of(device("a"), node=None, nodeSelector=selector)), claim(ask()))
    assert picked(found) == "claim: bad-node-selector"
    assert isinstance(found, Failed)
    assert "ResourceSlice slice-1" in str(found.error)
