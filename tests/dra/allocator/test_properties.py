"""Whatever fleet and claim: an allocation keeps all promises, and is found whenever there is one."""

import contextlib
import copy
import json
from itertools import combinations, product
from typing import Any

import hypothesis.strategies as st
from hypothesis import given, settings

from portal.dra.cli.answers import answer_line
from portal.dra.fleet import Fleet
from portal.dra.model import ResourceClaim, encode
from portal.dra.outcomes import Allocated, Unschedulable
from tests.dra.builders import (
    ALL,
    NODE,
    ask,
    claim,
    device,
    device_class,
    first_of,
    fleet,
    holding,
    node,
    picked,
    slice_of,
    sub,
    tried,
)

SIZE = "device.attributes['gpu.example.com'].size >= {}".format
TOTAL = 4

sizes = st.integers(min_value=0, max_value=2)
takes = st.integers(min_value=0, max_value=3)
parts = st.lists(
    st.tuples(sizes, st.integers(min_value=0, max_value=1), takes, st.booleans()), min_size=0, max_size=6
)
constraints = st.sampled_from([None, "matchAttribute", "distinctAttribute"])
requests = st.lists(st.tuples(sizes, st.integers(min_value=1, max_value=3)), min_size=1, max_size=3)

Part = tuple[int, int, int, bool]


def build(found: list[Part]) -> Fleet:
    """A pool of partitions that draw on one counter; some of them are held."""
    devices = [
        device(
            f"d{i}",
            attrs={"size": size, "numa": numa},
            consumesCounters=[{"counterSet": "c", "counters": {"m": {"value": str(take)}}}],
        )
        for i, (size, numa, take, _) in enumerate(found)
    ]
    held = [f"pool-1/d{i}" for i, part in enumerate(found) if part[3]]
    shared = [{"name": "c", "counters": {"m": {"value": str(TOTAL)}}}]
    return fleet(
        slice_of(name="s0", count=2, sharedCounters=shared),
        slice_of(*devices, count=2),
        claims=[holding(*held)] if held else [],
    )


def wanted(asked: list[tuple[int, int]], constraint: str | None) -> ResourceClaim:
    limits: dict[str, Any] = {"constraints": [{constraint: "gpu.example.com/numa"}]} if constraint else {}
    return claim(*(ask(f"r{i}", SIZE(size), count=count) for i, (size, count) in enumerate(asked)), **limits)


def admissible(
    found: list[Part],
    chosen: tuple[tuple[int, ...], ...],
    asked: list[tuple[int, int]],
    constraint: str | None,
) -> bool:
    """The rules, written down once more and as plainly as possible."""
    every = [index for group in chosen for index in group]
    if len(set(every)) < len(every) or any(found[index][3] for index in every):
        return False
    if any(found[index][0] < size for group, (size, _) in zip(chosen, asked, strict=True) for index in group):
        return False
    used = sum(part[2] for index, part in enumerate(found) if part[3] or index in every)
    if any(found[index][2] for index in every) and used > TOTAL:
        return False
    if every and sum(part[2] for part in found if part[3]) > TOTAL:
        return False
    numas = [found[index][1] for index in every]
    if constraint == "matchAttribute":
        return len(set(numas)) <= 1
    return constraint is None or len(set(numas)) == len(numas)


def brute_force(
    found: list[Part], asked: list[tuple[int, int]], constraint: str | None
) -> tuple[tuple[int, ...], ...] | None:
    """The first admissible choice in the order of requests and devices, by trying every one of them."""
    every = [list(combinations(range(len(found)), count)) for _, count in asked]
    return next((chosen for chosen in product(*every) if admissible(found, chosen, asked, constraint)), None)


@given(parts, requests, constraints)
@settings(max_examples=300, deadline=None)
def test_the_first_solution_is_found_whenever_there_is_one(
    found: list[Part], asked: list[tuple[int, int]], constraint: str | None
) -> None:
    expected = brute_force(found, asked, constraint)
    outcome = tried(build(found), wanted(asked, constraint))
    if expected is None:
        assert isinstance(outcome, Unschedulable)
    else:
        assert picked(outcome) == [f"r{i}=d{index}" for i, group in enumerate(expected) for index in group]


@given(parts, st.lists(requests, min_size=1, max_size=3))
@settings(max_examples=150, deadline=None)
def test_claims_together_never_overlap_nor_exceed_counters(
    found: list[Part], asked: list[list[tuple[int, int]]]
) -> None:
    claims = [
        claim(*(ask(f"r{i}", SIZE(size), count=count) for i, (size, count) in enumerate(one)), name=f"c{n}")
        for n, one in enumerate(asked)
    ]
    outcome = tried(build(found), *claims)
    if isinstance(outcome, Allocated):
        chosen = [int(item.device[1:]) for one in outcome.claims for item in one.devices.results]
        assert len(set(chosen)) == len(chosen)
        assert not any(found[index][3] for index in chosen)
        held = sum(part[2] for part in found if part[3])
        assert not chosen or held + sum(found[index][2] for index in chosen) <= TOTAL


@given(parts, requests)
@settings(max_examples=100, deadline=None)
def test_alternatives_in_turn_are_the_same_as_the_first_that_fits(
    found: list[Part], asked: list[tuple[int, int]]
) -> None:
    where = build(found)
    alternatives = [sub(f"s{i}", SIZE(size), count=count) for i, (size, count) in enumerate(asked)]
    alone = [tried(where, claim(ask("r", SIZE(size), count=count))) for size, count in asked]
    first = next((i for i, outcome in enumerate(alone) if isinstance(outcome, Allocated)), None)
    together = picked(tried(where, claim(first_of("r", *alternatives))))
    if first is None:
        assert together == "unschedulable"
    else:
        one = picked(alone[first])
        assert together == [item.replace("r=", f"r/s{first}=") for item in one]


shares = st.lists(st.tuples(st.integers(1, 5), st.booleans()), min_size=1, max_size=3)


@given(shares, st.lists(st.integers(1, 3), min_size=1, max_size=4), st.integers(0, 3))
@settings(max_examples=150, deadline=None)
def test_shares_never_exceed_a_device_and_are_found_if_possible(
    found: list[tuple[int, bool]], asked: list[int], used: int
) -> None:
    devices = [
        device(f"d{i}", capacity={"m": str(size)}, allowMultipleAllocations=True)
        if several
        else device(f"d{i}", capacity={"m": str(size)})
        for i, (size, several) in enumerate(found)
    ]
    held = (
        [holding("pool-1/d0", shareID="s", consumedCapacity={"m": str(used)})] if found[0][1] and used else []
    )
    where = fleet(slice_of(*devices), claims=held)
    outcome = tried(
        where, claim(*(ask(f"r{i}", capacity={"requests": {"m": str(size)}}) for i, size in enumerate(asked)))
    )

    def fits(chosen: tuple[int, ...]) -> bool:
        for index, (size, several) in enumerate(found):
            mine = [want for want, where_to in zip(asked, chosen, strict=True) if where_to == index]
            before = used if index == 0 and several else 0
            if several and mine and sum(mine) + before > size:
                return False
            if not several and (len(mine) > 1 or any(want > size for want in mine)):
                return False
        return True

    first = next((choice for choice in product(range(len(found)), repeat=len(asked)) if fits(choice)), None)
    expected = "unschedulable" if first is None else [f"r{i}=d{index}" for i, index in enumerate(first)]
    assert picked(outcome) == expected


@given(st.permutations(range(4)), requests)
@settings(max_examples=60, deadline=None)
def test_the_order_in_which_slices_arrive_does_not_matter(
    order: list[int], asked: list[tuple[int, int]]
) -> None:
    slices = [
        slice_of(
            device("a", attrs={"size": i, "numa": 0}),
            name=f"s{i}",
            pool=f"p{i}",
            driver=f"d{i % 2}.example.com",
        )
        for i in range(4)
    ]
    rule = "device.attributes[device.driver].size >= {}".format
    wish = claim(*(ask(f"r{i}", rule(size), count=count) for i, (size, count) in enumerate(asked)))
    assert picked(tried(fleet(*(slices[i] for i in order)), wish)) == picked(tried(fleet(*slices), wish))


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
@settings(max_examples=200, deadline=None)
def test_any_bytes_make_one_answer(line: bytes) -> None:
    assert answer_line(line)["outcome"] in ("error", "allocated", "unschedulable", "undecided")


SCENARIO: dict[str, Any] = {
    "objects": [
        encode(item)
        for item in (
            slice_of(name="s0", count=2, sharedCounters=[{"name": "c", "counters": {"m": {"value": "4"}}}]),
            slice_of(
                device(
                    "a",
                    attrs={"n": 1, "v": {"version": "1.0.0"}, "l": {"ints": [1, 2]}},
                    capacity={
                        "m": {"value": "4", "requestPolicy": {"default": "1", "validRange": {"min": "1"}}}
                    },
                    allowMultipleAllocations=True,
                    consumesCounters=[{"counterSet": "c", "counters": {"m": {"value": "1"}}}],
                    taints=[{"key": "k", "effect": "NoSchedule"}],
                ),
                device("b", attrs={"n": 1}),
                count=2,
            ),
            slice_of(
                device("d", attrs={"n": 2}, nodeName=NODE),
                node=None,
                perDeviceNodeSelection=True,
                pool="pool-2",
                name="s2",
            ),
            device_class("gpu", "device.driver == 'gpu.example.com'"),
            claim(
                ask("r", SIZE(0).replace("size", "n"), tolerations=[{"operator": "Exists"}]),
                first_of(
                    "f",
                    sub("x", allocationMode="All"),
                    sub("y", tolerations=[{"operator": "Exists"}], capacity={"requests": {"m": "1"}}),
                ),
                constraints=[{"matchAttribute": "gpu.example.com/n", "requests": ["r"]}],
            ),
            holding("pool-1/a", shareID="s", consumedCapacity={"m": "1"}),
            node(status={"conditions": [{"type": "Ready", "status": "True"}]}),
        )
    ],
    "claims": ["team/claim"],
    "node": NODE,
    "features": sorted(ALL.gates),
}
ODD: list[Any] = [
    None,
    0,
    -1,
    2**63,
    1.5,
    "",
    "x",
    "-1",
    "1e9",
    "All",
    True,
    [],
    {},
    [None],
    [{}],
    {"": ""},
    "\u0000",
    "1.0.0",
]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every way down into a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [
        *([path] if path else []),
        *(found for key, item in inner for found in places(item, (*path, key))),
    ]


@given(st.lists(st.tuples(st.sampled_from(places(SCENARIO)), st.sampled_from(ODD)), min_size=1, max_size=3))
@settings(max_examples=400, deadline=None)
def test_a_damaged_scenario_makes_one_answer(damages: list[tuple[tuple[Any, ...], Any]]) -> None:
    document = copy.deepcopy(SCENARIO)
    for path, value in damages:
        target: Any = document
        with contextlib.suppress(KeyError, IndexError, TypeError):
            for key in path[:-1]:
                target = target[key]
            target[path[-1]] = copy.deepcopy(value)
    found = answer_line(json.dumps(document))
    assert found["outcome"] in ("error", "allocated", "unschedulable")


def test_the_undamaged_scenario_can_be_allocated() -> None:
    assert answer_line(json.dumps(SCENARIO))["outcome"] == "allocated"


def test_the_brute_force_itself_knows_an_example() -> None:
    found: list[Part] = [(1, 0, 3, False), (2, 0, 2, False), (0, 1, 1, False)]
    assert brute_force(found, [(0, 1), (2, 1)], None) == ((2,), (1,))
    assert NODE == "node-1"
