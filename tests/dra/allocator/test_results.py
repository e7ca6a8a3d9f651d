"""What stands in status.allocation: configuration, binding conditions, node selector."""

from typing import Any

import pytest

from portal.dra import features as gates
from portal.dra.features import Features
from portal.dra.model import ResourceClaim, decode_object, encode
from tests.dra.builders import (
    NODE,
    ask,
    claim,
    device,
    device_class,
    devices,
    first_of,
    fleet,
    form,
    node,
    picked,
    results,
    slice_of,
    sub,
    tried,
    without,
)

OLD, NEW = Features.for_version("1.36"), Features.for_version("1.37")


def opaque(value: str) -> dict[str, Any]:
    return {"opaque": {"driver": "gpu.example.com", "parameters": {"mode": value}}}


def config(features: Features, *requests: dict[str, Any], classes: Any = None, **spec: Any) -> list[Any]:
    """(source, requests, mode) of each configuration in the allocation."""
    where = fleet(slice_of(*devices("a", "b", "c")), classes=classes, features=features)
    (found,) = form(tried(where, claim(*requests, **spec)))
    return [
        (item["source"], item.get("requests", []), item["opaque"]["parameters"]["mode"])
        for item in found["devices"].get("config", [])
    ]


CLASSES = [
    device_class("gpu", config=[opaque("g1"), opaque("g2")]),
    device_class("plain"),
    device_class("nic", config=[opaque("n")]),
]


@pytest.mark.parametrize(
    ("features", "requests", "spec", "expected"),
    [
        (OLD, [ask()], {}, [("FromClass", ["r"], "g1"), ("FromClass", ["r"], "g2")]),
        (NEW, [ask()], {}, [("FromClass", [], "g1"), ("FromClass", [], "g2")]),
        (OLD, [ask("a", cls="nic"), ask("b", cls="nic")], {}, [("FromClass", ["a", "b"], "n")]),
        (NEW, [ask("a", cls="nic"), ask("b", cls="nic")], {}, [("FromClass", [], "n")]),
        (NEW, [ask("a", cls="nic"), ask("b", cls="plain")], {}, [("FromClass", ["a"], "n")]),
        (
            NEW,
            [ask("a", cls="nic"), ask("b")],
            {"config": [{**opaque("mine"), "requests": ["b"]}]},
            [
                ("FromClass", ["a"], "n"),
                ("FromClass", ["b"], "g1"),
                ("FromClass", ["b"], "g2"),
                ("FromClaim", ["b"], "mine"),
            ],
        ),
        (NEW, [ask("a", cls="plain")], {"config": [opaque("all")]}, [("FromClaim", [], "all")]),
        (
            OLD,
            [ask("a", cls="plain")],
            {"config": [{**opaque("x"), "requests": ["a"]}]},
            [("FromClaim", ["a"], "x")],
        ),
        (
            NEW,
            [ask("a", cls="plain")],
            {"config": [{**opaque("x"), "requests": ["a"]}]},
            [("FromClaim", [], "x")],
        ),
        (
            OLD,
            [first_of("f", sub("x", cls="nic"), sub("y", cls="plain"))],
            {
                "config": [
                    {**opaque("y"), "requests": ["f/y"]},
                    {**opaque("x"), "requests": ["f/x"]},
                    {**opaque("f"), "requests": ["f"]},
                ]
            },
            [("FromClass", ["f"], "n"), ("FromClaim", ["f/x"], "x"), ("FromClaim", ["f"], "f")],
        ),
        (
            NEW,
            [first_of("f", sub("x", cls="plain"), sub("y", cls="plain")), ask("g", cls="plain")],
            {
                "config": [
                    {**opaque("both"), "requests": ["f/x", "f/y"]},
                    {**opaque("every"), "requests": ["f", "g"]},
                ]
            },
            [("FromClaim", ["f/x", "f/y"], "both"), ("FromClaim", [], "every")],
        ),
    ],
)
def test_configuration_comes_from_the_class_then_from_the_claim(
    features: Features, requests: Any, spec: Any, expected: Any
) -> None:
    assert config(features, *requests, classes=CLASSES, **spec) == expected


def local(name: str) -> dict[str, Any]:
    requirement = {"key": "metadata.name", "operator": "In", "values": [name]}
    return {"nodeSelectorTerms": [{"matchFields": [requirement]}]}


def labelled(*keys: str) -> dict[str, Any]:
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": key, "operator": "Exists"} for key in keys]}]}


EVERYWHERE: dict[str, Any] = {"node": None, "allNodes": True}


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        ([slice_of(device("a"))], local(NODE)),
        ([slice_of(device("a"), **EVERYWHERE)], None),
        ([slice_of(device("a"), node=None, nodeSelector=labelled("x"))], labelled("x")),
        (
            [
                slice_of(device("a"), node=None, nodeSelector=labelled("x")),
                slice_of(device("a"), node=None, nodeSelector=labelled("y", "x"), pool="pool-2", name="s2"),
            ],
            labelled("x", "y"),
        ),
        (
            [
                slice_of(device("a"), node=None, nodeSelector=labelled("x")),
                slice_of(device("a"), pool="pool-2", name="s2"),
            ],
            local(NODE),
        ),
        (
            [
                slice_of(device("a"), **EVERYWHERE),
                slice_of(device("a"), node=None, nodeSelector=labelled("y"), pool="pool-2", name="s2"),
            ],
            labelled("y"),
        ),
        ([slice_of(device("a", nodeName=NODE), node=None, perDeviceNodeSelection=True)], local(NODE)),
        ([slice_of(device("a", allNodes=True), node=None, perDeviceNodeSelection=True)], None),
        (
            [slice_of(device("a", nodeSelector=labelled("x")), node=None, perDeviceNodeSelection=True)],
            labelled("x"),
        ),
    ],
)
def test_the_allocation_can_be_used_where_all_its_devices_can(slices: Any, expected: Any) -> None:
    where = fleet(*slices, nodes=[node(labels={"x": "", "y": ""})])
    (found,) = form(tried(where, claim(ask(count=len(slices)))))
    assert found.get("nodeSelector") == expected


@pytest.mark.parametrize(
    ("slices", "expected"),
    [
        (slice_of(device("a"), node="node-2"), "unschedulable"),
        (slice_of(device("a"), node=None), "unschedulable"),
        (slice_of(device("a"), node=None, nodeSelector=labelled("z")), "unschedulable"),
        (
            slice_of(
                device("a", nodeName="node-2"),
                device("b", nodeName=NODE),
                node=None,
                perDeviceNodeSelection=True,
            ),
            ["r=b"],
        ),
        (slice_of(device("a"), device("b", allNodes=True), node=None, perDeviceNodeSelection=True), ["r=b"]),
    ],
)
def test_devices_of_other_nodes_are_out_of_reach(slices: Any, expected: object) -> None:
    assert picked(tried(fleet(slices), claim(ask()))) == expected


def test_selection_per_device_needs_its_gate() -> None:
    slices = slice_of(device("b", nodeName=NODE), node=None, perDeviceNodeSelection=True)
    where = fleet(slices, features=without(gates.PARTITIONABLE_DEVICES))
    assert picked(tried(where, claim(ask()))) == "unschedulable"


def test_a_node_selector_of_several_terms_fails_the_claim() -> None:
    two = {"nodeSelectorTerms": [*labelled("x")["nodeSelectorTerms"], *labelled("x")["nodeSelectorTerms"]]}
    where = fleet(slice_of(device("a"), node=None, nodeSelector=two), nodes=[node(labels={"x": ""})])
    assert picked(tried(where, claim(ask()))) == "claim: bad-node-selector"


BINDING: dict[str, Any] = {"bindingConditions": ["attached"], "bindingFailureConditions": ["broken"]}


def test_binding_conditions_are_copied() -> None:
    (result,) = results(tried(fleet(slice_of(device("a", **BINDING))), claim(ask())))
    assert (result["bindingConditions"], result["bindingFailureConditions"]) == (["attached"], ["broken"])


def test_a_device_that_binds_to_its_node_limits_the_allocation_to_it() -> None:
    bound = slice_of(device("a", bindsToNode=True, **BINDING), **EVERYWHERE)
    (found,) = form(tried(fleet(bound), claim(ask())))
    assert found["nodeSelector"] == local(NODE)


def test_pools_without_binding_conditions_come_first() -> None:
    slices = [
        slice_of(device("bound", **BINDING), device("free"), pool="a", name="s1"),
        slice_of(device("plain"), pool="b", name="s2"),
    ]
    assert picked(tried(fleet(*slices), claim(ask(count=3)))) == ["r=b/plain", "r=a/bound", "r=a/free"]


def test_devices_with_binding_conditions_do_not_match_while_the_gate_is_off() -> None:
    where = fleet(
        slice_of(device("a", **BINDING), device("b")), features=without(gates.DEVICE_BINDING_CONDITIONS)
    )
    assert picked(tried(where, claim(ask(allocationMode="All")))) == ["r=b"]
    assert picked(tried(where, claim(ask(count=2)))) == "unschedulable"


def test_node_operations_to_skip_are_carried_along() -> None:
    (result,) = results(tried(fleet(slice_of(device("a"), skipNodeOperations=["*"])), claim(ask())))
    assert result["skipNodeOperations"] == ["*"]


def test_an_allocated_claim_is_not_moved_to_another_node() -> None:
    where = fleet(slice_of(device("a")), slice_of(device("b"), node="node-2", pool="pool-2", name="s2"))
    first = claim(ask())
    (allocation,) = form(tried(where, first))
    held = decode_object({**encode(first), "status": {"allocation": allocation}})
    assert picked(tried(where, held, on="node-2")) == "unschedulable"  # type: ignore[arg-type]  # a claim again
    assert picked(tried(where, held)) == ["r=a"]  # type: ignore[arg-type]  # a claim again


def test_an_allocation_with_a_senseless_node_selector_names_its_claim() -> None:
    near = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "x", "operator": "Near"}]}]}
    held = decode_object(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "held", "namespace": "team"},
            "status": {"allocation": {"nodeSelector": near}},
        }
    )
    assert isinstance(held, ResourceClaim)
    found = tried(fleet(slice_of(device("a"))), held)
    assert picked(found) == "claim: bad-node-selector"
    assert "claim team/held" in str(getattr(found, "error", ""))
