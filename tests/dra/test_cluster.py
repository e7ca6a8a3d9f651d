"""Feasible nodes are promised, and how many more claims would fit now."""

from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from portal.dra import features as gates
from portal.dra.availability import unavailable
from portal.dra.cluster import candidates, feasible_nodes, how_many_more, tried
from portal.dra.fleet import Fleet
from portal.dra.model import Node, ResourceSlice, Toleration
from tests.dra.builders import (
    ask,
    claim,
    device,
    device_class,
    devices,
    fleet,
    holding,
    node,
    picked,
    slice_of,
    without,
)

READY = {"conditions": [{"type": "Ready", "status": "True"}]}


def pool(name: str, *found: dict[str, Any], **spec: Any) -> ResourceSlice:
    return slice_of(*(found or devices("a", "b")), node=name, pool=name, name=f"slice-{name}", **spec)


def cluster(*slices: ResourceSlice, nodes: list[Node] | None = None, **rest: Any) -> Fleet:
    names = sorted({item.spec.node_name for item in slices if item.spec.node_name})
    return fleet(*slices, nodes=[node(name) for name in names] if nodes is None else nodes, **rest)


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, None),
        ({"status": READY}, None),
        ({"spec": {"unschedulable": True}}, "node-cordoned"),
        ({"status": {"conditions": [{"type": "Ready", "status": "False"}]}}, "node-not-ready"),
        ({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}, "node-not-ready"),
        ({"status": {"conditions": [{"type": "DiskPressure", "status": "True"}]}}, None),
        ({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}, "node-tainted"),
        ({"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}, "node-tainted"),
        ({"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}}, None),
    ],
)
def test_a_node_takes_pods_or_says_why_not(body: Any, code: str | None) -> None:
    reason = unavailable(node("n", **body))
    assert (reason.code if reason is not None else None) == code


@pytest.mark.parametrize(
    ("body", "toleration"),
    [
        (
            {"spec": {"unschedulable": True}},
            Toleration(key="node.kubernetes.io/unschedulable", operator="Exists"),
        ),
        (
            {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
            Toleration(key="node.kubernetes.io/not-ready", operator="Exists"),
        ),
        (
            {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}},
            Toleration(key="node.kubernetes.io/unreachable", operator="Exists"),
        ),
        (
            {"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}},
            Toleration(key="k", value="v"),
        ),
        (
            {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}], "unschedulable": True}},
            Toleration(operator="Exists"),
        ),
    ],
)
def test_what_is_tolerated_keeps_no_pod_away(body: Any, toleration: Toleration) -> None:
    assert unavailable(node("n", **body)) is not None
    assert unavailable(node("n", **body), tolerations=[toleration]) is None


def test_a_node_selector_of_the_pod_counts() -> None:
    assert unavailable(node("n", labels={"zone": "a"}), node_selector={"zone": "a"}) is None
    reason = unavailable(node("n", labels={"zone": "a"}), node_selector={"zone": "b"})
    assert str(reason) == "node n does not carry the label zone=b"


def test_nodes_are_feasible_where_the_claims_fit_and_pods_may_go() -> None:
    where = cluster(
        pool("n1"),
        pool("n2"),
        pool("n3"),
        nodes=[node("n1"), node("n2"), node("n3", spec={"unschedulable": True}), node("n4")],
        claims=[holding("n1/a")],
    )
    found = feasible_nodes(where, [claim(ask(count=2))])
    assert found.nodes == ("n2",)
    assert {name: reason.code for name, reason in found.rejected.items()} == {
        "n1": "no-devices",
        "n3": "node-cordoned",
        "n4": "no-devices",
    }


def test_an_error_of_one_node_leaves_the_others() -> None:
    where = cluster(pool("n1", device("a"), device("a")), pool("n2"))
    found = feasible_nodes(where, [claim(ask())])
    assert found.nodes == ("n2",)
    assert found.rejected["n1"].code == "invalid-pool"


def test_an_error_of_the_claim_ends_the_search() -> None:
    found = feasible_nodes(cluster(pool("n1"), pool("n2")), [claim(ask(cls="missing"))])
    assert found.nodes == ()
    assert found.error is not None
    assert found.error.error.code == "unknown-class"


def test_nodes_are_known_from_slices_when_there_are_no_node_objects() -> None:
    where = fleet(pool("n2"), pool("n1"))
    assert [item.metadata.name for item in candidates(where)] == ["n1", "n2"]


def test_a_search_that_takes_too_long_is_said_to_be_undecided() -> None:
    found = [device(f"d{i}", attrs={"id": i}) for i in range(20)]
    where = cluster(pool("n1", *found))
    wanted = claim(
        *(ask(f"r{i}") for i in range(21)), constraints=[{"distinctAttribute": "gpu.example.com/id"}]
    )
    assert feasible_nodes(where, [wanted], max_steps=300).undecided == ("n1",)


@pytest.mark.parametrize(
    ("left", "right", "expression"),
    [
        ([device("a", attrs={"n": 1})], [device("z", attrs={"n": 1})], None),
        (
            [device("a", attrs={"n": 1})],
            [device("a", attrs={"n": 2})],
            "device.attributes['gpu.example.com'].n == 1",
        ),
        ([device("a", taints=[{"key": "k", "effect": "NoSchedule"}])], [device("a")], None),
        ([device("a"), device("b")], [device("a")], None),
        (
            [device("a", capacity={"m": "1"}, allowMultipleAllocations=True)],
            [device("a", capacity={"m": "4"}, allowMultipleAllocations=True)],
            None,
        ),
    ],
)
def test_nodes_that_are_alike_answer_as_if_each_were_tried(
    left: Any, right: Any, expression: str | None
) -> None:
    wanted = claim(ask("r", *([expression] if expression else []), count=2 if expression is None else 1))
    together = cluster(pool("n1", *left), pool("n2", *right), pool("n3", *left))
    alone = [
        bool(feasible_nodes(cluster(pool("n1", *found)), [wanted]).nodes) for found in (left, right, left)
    ]
    found = feasible_nodes(together, [wanted]).nodes
    assert [name in found for name in ("n1", "n2", "n3")] == alone


def test_devices_that_cannot_be_used_without_a_gate_tell_nodes_apart() -> None:
    where = cluster(
        pool("n1", device("a", bindingConditions=["attached"])),
        pool("n2", device("a")),
        features=without(gates.DEVICE_BINDING_CONDITIONS),
    )
    assert feasible_nodes(where, [claim(ask())]).nodes == ("n2",)


def test_all_mode_tells_nodes_with_held_devices_apart() -> None:
    where = cluster(pool("n1"), pool("n2"), claims=[holding("n2/b")])
    assert feasible_nodes(where, [claim(ask(allocationMode="All"))]).nodes == ("n1",)


def test_counters_tell_nodes_apart() -> None:
    def parts(name: str) -> list[ResourceSlice]:
        counter = {"m": {"value": "2"}}
        found = [
            device(part, consumesCounters=[{"counterSet": "c", "counters": {"m": {"value": "1"}}}])
            for part in "abc"
        ]
        return [
            pool(name, *found, count=2),
            slice_of(
                node=name,
                pool=name,
                name=f"counters-{name}",
                count=2,
                sharedCounters=[{"name": "c", "counters": counter}],
            ),
        ]

    where = cluster(*parts("n1"), *parts("n2"), claims=[holding("n2/c")])
    assert feasible_nodes(where, [claim(ask(count=2))]).nodes == ("n1",)


def test_devices_that_all_nodes_can_use_are_seen_from_each() -> None:
    where = fleet(slice_of(*devices("a"), node=None, allNodes=True), nodes=[node("n1"), node("n2")])
    assert feasible_nodes(where, [claim(ask())]).nodes == ("n1", "n2")


def test_the_outcome_is_told_node_by_node() -> None:
    where = cluster(pool("n1"), pool("n2"))
    assert [(name, picked(outcome)) for name, outcome in tried(where, [claim(ask())], ["n2", "n1"])] == [
        ("n2", ["r=n2/a"]),
        ("n1", ["r=n1/a"]),
    ]


def test_room_is_counted_over_all_feasible_nodes() -> None:
    where = cluster(pool("n1", *devices("a", "b", "c", "d", "e")), pool("n2"), pool("n3", device("a")))
    found = how_many_more(where, claim(ask(count=2)))
    assert (found.count, found.per_node, found.exact) == (3, {"n1": 2, "n2": 1}, True)


def test_devices_shared_by_nodes_are_counted_once() -> None:
    where = fleet(slice_of(*devices("a", "b", "c"), node=None, allNodes=True), nodes=[node("n1"), node("n2")])
    found = how_many_more(where, claim(ask()))
    assert (found.count, found.per_node) == (3, {"n1": 3})


def test_shares_of_a_device_are_counted() -> None:
    where = cluster(pool("n1", device("a", capacity={"m": "10"}, allowMultipleAllocations=True)))
    assert how_many_more(where, claim(ask(capacity={"requests": {"m": "3"}}))).count == 3


def test_counting_stops_at_the_limit() -> None:
    where = cluster(pool("n1", device("a", allowMultipleAllocations=True)))
    found = how_many_more(where, claim(ask()), limit=25)
    assert (found.count, found.exact) == (25, False)


def test_administrators_hold_nothing_so_one_is_enough() -> None:
    found = how_many_more(cluster(pool("n1")), claim(ask(adminAccess=True)))
    assert (found.count, found.exact) == (1, False)


def test_no_room_says_so_and_an_error_is_passed_on() -> None:
    where = cluster(pool("n1"), claims=[holding("n1/a", "n1/b")])
    assert how_many_more(where, claim(ask())).count == 0
    assert how_many_more(where, claim(ask(cls="missing"))).error is not None


def test_a_claim_that_is_allocated_is_counted_afresh() -> None:
    held = holding("n1/a")
    where = cluster(pool("n1"), claims=[held], classes=[device_class()])
    assert how_many_more(where, claim(ask())).count == 1


spots = st.lists(
    st.tuples(st.sampled_from(["n1", "n2", "both"]), st.integers(0, 2), st.booleans()), max_size=10
)


@given(spots, st.integers(1, 3), st.integers(0, 2))
@settings(max_examples=100, deadline=None)
def test_counting_gives_what_repeating_gives(
    found: list[tuple[str, int, bool]], count: int, size: int
) -> None:
    def pool_of(where: str) -> ResourceSlice:
        mine = [device(f"d{i}", attrs={"n": n}) for i, (place, n, _) in enumerate(found) if place == where]
        spec: dict[str, Any] = {"node": None, "allNodes": True} if where == "both" else {"node": where}
        return slice_of(*mine, pool=where, name=f"s-{where}", **spec)

    taken = [f"{place}/d{i}" for i, (place, _, held) in enumerate(found) if held]
    there = fleet(
        *(pool_of(where) for where in ("n1", "n2", "both")),
        nodes=[node("n1"), node("n2")],
        claims=[holding(*taken)] if taken else [],
    )
    wanted = claim(ask("r", f"device.attributes['gpu.example.com'].n >= {size}", count=count))
    counted = how_many_more(there, wanted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("portal.dra.filling._Stock.count", lambda *_: None)
        assert how_many_more(there, wanted) == counted


def test_plans_can_be_laid_over_plans() -> None:
    where = cluster(pool("n1", *devices("a", "b", "c")))
    plan = where.plus([holding("n1/a", name="x")]).plus([holding("n1/b", name="y")])
    assert how_many_more(plan, claim(ask())).count == 1
    assert how_many_more(where, claim(ask())).count == 3
    assert plan.holdings.holders(("gpu.example.com", "n1", "a")) == (("others", "x"),)
