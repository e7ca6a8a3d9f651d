"""Why a claim does not fit: the funnel, the nearest miss and the holders, as codes with English sentences."""

from typing import Any

import pytest

from portal.dra.cli.telling import tell
from portal.dra.explain import explain
from portal.dra.fleet import Fleet
from portal.dra.model import Toleration
from portal.dra.phrases import PHRASES, english
from tests.dra.builders import (
    ask,
    claim,
    device,
    device_class,
    devices,
    first_of,
    fleet,
    holding,
    node,
    slice_of,
    sub,
)

N = "device.attributes['gpu.example.com'].n == {}".format


def where(*found: dict[str, Any], **rest: Any) -> Fleet:
    return fleet(slice_of(*found), nodes=[node()], **rest)


def test_a_claim_that_fits_has_no_miss() -> None:
    found = explain(where(*devices("a")), claim(ask()))
    assert found.nearest is None
    assert found.feasible.nodes == ("node-1",)


def test_the_funnel_counts_devices_and_nodes_after_each_step() -> None:
    slices = [
        slice_of(device("a", attrs={"n": 1}), device("b", attrs={"n": 2}), device("c", attrs={"n": 1})),
        slice_of(device("d", attrs={"n": 1}), node="node-2", pool="pool-2", name="s2"),
    ]
    there = fleet(
        *slices,
        classes=[device_class("gpu", "device.driver == 'gpu.example.com'")],
        nodes=[node(), node("node-2")],
        claims=[holding("pool-1/a")],
    )
    (funnel,) = explain(there, claim(ask("r", N(1), count=2))).funnels
    assert [(stage.reason.code, stage.devices, stage.nodes) for stage in funnel.stages] == [
        ("stage-published", 4, 2),
        ("stage-class-selector", 4, 2),
        ("stage-selector", 3, 2),
        ("stage-untainted", 3, 2),
        ("stage-free", 2, 2),
        ("stage-node", 2, 2),
        ("stage-together", 0, 0),
    ]


COUNTERS: dict[str, Any] = {
    "count": 2,
    "name": "s0",
    "sharedCounters": [{"name": "c", "counters": {"m": {"value": "4Gi"}}}],
}
TWO = [device("a", attrs={"x": 1}), device("b", attrs={"x": 2})]


@pytest.mark.parametrize(
    ("there", "wanted", "code", "words"),
    [
        (fleet(nodes=[node()]), claim(ask()), "miss-no-devices", "no devices are published at all"),
        (
            fleet(slice_of(device("a"), count=3), nodes=[node()]),
            claim(ask()),
            "miss-incomplete",
            "pool gpu.example.com/pool-1 is incomplete: 1 of 3 slices",
        ),
        (where(device("a"), device("a")), claim(ask()), "invalid-pool", "device a is published twice"),
        (
            where(device("a", attrs={"n": 1}), classes=[device_class("gpu", N(2))]),
            claim(ask()),
            "miss-class",
            "r: no device is in the class gpu",
        ),
        (
            where(device("a", attrs={"n": 1})),
            claim(ask("r", N(2))),
            "miss-selector",
            f"r: none of 1 devices passes selector #0: {N(2)}",
        ),
        (
            where(device("a", taints=[{"key": "sick", "effect": "NoSchedule"}])),
            claim(ask()),
            "miss-tainted",
            "r: all 1 matching devices are tainted, most of them with sick",
        ),
        (
            where(device("a"), claims=[holding("pool-1/a")]),
            claim(ask()),
            "miss-held",
            "for example gpu.example.com/pool-1/a by others/holder",
        ),
        (
            where(device("a", capacity={"m": "1"})),
            claim(ask(capacity={"requests": {"m": "2"}})),
            "miss-capacity",
            "r: none of 1 matching devices has 2 of m left",
        ),
        (
            fleet(
                slice_of(**COUNTERS),
                slice_of(
                    device("a", consumesCounters=[{"counterSet": "c", "counters": {"m": {"value": "8Gi"}}}]),
                    count=2,
                ),
                nodes=[node()],
            ),
            claim(ask()),
            "miss-counters",
            "r: m of c has 4Gi left, device gpu.example.com/pool-1/a needs 8Gi",
        ),
        (
            fleet(slice_of(device("a")), nodes=[node(spec={"unschedulable": True})]),
            claim(ask()),
            "miss-node",
            "node node-1 is cordoned",
        ),
        (
            where(device("a"), device("b")),
            claim(ask(count=3)),
            "miss-together",
            "r: no node has 3 matching devices; the best is node-1 with 2",
        ),
        (
            where(*TWO),
            claim(ask(count=2), constraints=[{"matchAttribute": "gpu.example.com/x"}]),
            "miss-same",
            "r: no node has 2 devices that agree in gpu.example.com/x; node-1 has 1",
        ),
        (
            where(device("a", attrs={"x": 1}), device("b", attrs={"x": 1}), device("c")),
            claim(ask(count=2), constraints=[{"distinctAttribute": "gpu.example.com/x"}]),
            "miss-distinct",
            "r: no node has 2 devices that differ in gpu.example.com/x; node-1 has 1",
        ),
        (
            where(device("a")),
            claim(ask(), constraints=[{"matchAttribute": "gpu.example.com/x"}]),
            "miss-same",
            "r: no node has 1 devices that agree in gpu.example.com/x",
        ),
        (
            where(*TWO),
            claim(ask("x"), ask("y"), constraints=[{"matchAttribute": "gpu.example.com/x"}]),
            "miss-constraint",
            "without the constraint on gpu.example.com/x the claim would fit on node node-1",
        ),
        (
            where(device("a"), device("b")),
            claim(ask("x", count=2), ask("y")),
            "miss-combination",
            "each request alone would fit on some node",
        ),
        (where(device("a")), claim(ask(cls="missing")), "unknown-class", "there is no device class missing"),
        (
            where(device("a")),
            claim(first_of("r", sub("x", count=2), sub("y", N(1)))),
            "miss-together",
            "r/x: no node has 2",
        ),
    ],
)
def test_the_nearest_miss_is_named(there: Fleet, wanted: Any, code: str, words: str) -> None:
    if code == "miss-together" and "r/x" in words:
        there = where(device("a", attrs={"n": 2}))
    nearest = explain(there, wanted).nearest
    assert nearest is not None
    assert (nearest.code, words in str(nearest)) == (code, True), str(nearest)


def test_the_funnel_counts_devices_that_satisfy_each_constraint() -> None:
    found = [device(f"d{i}", attrs={"x": x, "y": i}) for i, x in enumerate([1, 2, 2])]
    limits = [{"matchAttribute": "gpu.example.com/x"}, {"distinctAttribute": "gpu.example.com/y"}]
    (funnel,) = explain(where(*found), claim(ask(count=2), constraints=limits)).funnels
    assert [(stage.reason.code, stage.devices) for stage in funnel.stages[-3:]] == [
        ("stage-together", 3),
        ("stage-same", 2),
        ("stage-distinct", 2),
    ]


def test_holders_of_suitable_devices_are_named() -> None:
    there = where(
        device("a", attrs={"n": 1}), device("b", attrs={"n": 2}), claims=[holding("pool-1/a", "pool-1/b")]
    )
    found = explain(there, claim(ask("r", N(1))))
    assert found.held_by == (("gpu.example.com/pool-1/a", "others/holder"),)


def test_one_node_can_be_asked_about() -> None:
    there = fleet(
        slice_of(device("a")),
        slice_of(device("b"), node="node-2", pool="pool-2", name="s2"),
        nodes=[node(), node("node-2")],
        claims=[holding("pool-1/a")],
    )
    assert explain(there, claim(ask())).nearest is None
    nearest = explain(there, claim(ask()), node="node-1").nearest
    assert nearest is not None
    assert str(nearest) == "r: the 1 matching devices cannot be used on any node in question"


def test_tolerations_of_the_pod_count() -> None:
    there = fleet(
        slice_of(device("a")), nodes=[node(spec={"taints": [{"key": "k", "effect": "NoSchedule"}]})]
    )
    assert explain(there, claim(ask())).nearest is not None
    assert explain(there, claim(ask()), tolerations=[Toleration(operator="Exists")]).nearest is None


def test_administrators_pass_over_what_others_hold() -> None:
    there = where(device("a"), claims=[holding("pool-1/a")])
    (funnel,) = explain(there, claim(ask(adminAccess=True))).funnels
    assert "stage-free" not in [stage.reason.code for stage in funnel.stages]


def test_network_devices_are_counted_on_all_nodes_that_see_them() -> None:
    there = fleet(slice_of(device("a"), node=None, allNodes=True), nodes=[node("n1"), node("n2")])
    (funnel,) = explain(there, claim(ask())).funnels
    assert (funnel.stages[0].devices, funnel.stages[0].nodes) == (1, 2)


def test_the_text_for_people_has_funnel_and_holders() -> None:
    there = where(device("a"), claims=[holding("pool-1/a")])
    text, outcome = tell(there, claim(ask()))
    assert outcome == "unschedulable"
    assert "claim team/claim: does not fit" in text
    assert "request r, 1 device:" in text
    assert "gpu.example.com/pool-1/a by others/holder" in text


def test_every_sentence_can_be_said_with_nothing_known() -> None:
    for code in PHRASES:
        assert english(code, {}).strip(": ")


def test_a_code_without_a_sentence_is_shown_as_it_is() -> None:
    assert english("new-code", {"a": 1}) == "new-code {'a': 1}"
    assert english("new-code", {}) == "new-code"
