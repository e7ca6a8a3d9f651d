"""Partitions share counters (KEP-4815), and some do not go together (KEP-5963)."""

from typing import Any

import pytest

from portal.dra import features as gates
from portal.dra.model import ResourceSlice
from tests.dra.builders import (
    NODE,
    ask,
    claim,
    device,
    first_of,
    fleet,
    holding,
    picked,
    slice_of,
    sub,
    tried,
    without,
)


def counters(**sets: dict[str, str]) -> ResourceSlice:
    """The counters-only slice of the pool."""
    shared = [
        {"name": name, "counters": {key: {"value": value} for key, value in found.items()}}
        for name, found in sets.items()
    ]
    return slice_of(name="slice-0", count=2, sharedCounters=shared)


def part(name: str, *groups: str, of: str = "gpu0", **consumed: str) -> dict[str, Any]:
    consumption: dict[str, Any] = {
        "counterSet": of,
        "counters": {key: {"value": value} for key, value in consumed.items()},
    }
    if groups:
        consumption["compatibilityGroups"] = list(groups)
    return device(name, consumesCounters=[consumption])


def parts(*found: dict[str, Any]) -> ResourceSlice:
    return slice_of(*found, count=2)


MEMORY = counters(gpu0={"memory": "8Gi"})


@pytest.mark.parametrize(
    ("found", "count", "expected"),
    [
        ([part("a", memory="4Gi"), part("b", memory="4Gi")], 2, ["r=a", "r=b"]),
        ([part("a", memory="6Gi"), part("b", memory="6Gi")], 1, ["r=a"]),
        ([part("a", memory="6Gi"), part("b", memory="6Gi")], 2, "unschedulable"),
        ([part("a", memory="6Gi"), part("b", memory="4Gi"), part("c", memory="2Gi")], 2, ["r=a", "r=c"]),
        ([part("whole", memory="8Gi"), part("b", memory="4Gi"), part("c", memory="4Gi")], 2, ["r=b", "r=c"]),
        ([part("a", memory="9Gi")], 1, "unschedulable"),
        ([part("a", memory="8Gi"), device("plain")], 2, ["r=a", "r=plain"]),
        ([part("a", memory="8589934592"), part("b", memory="0")], 2, ["r=a", "r=b"]),
    ],
)
def test_counters_limit_what_goes_together(found: list[dict[str, Any]], count: int, expected: object) -> None:
    assert picked(tried(fleet(MEMORY, parts(*found)), claim(ask(count=count)))) == expected


def test_every_counter_of_every_set_has_to_suffice() -> None:
    shared = counters(gpu0={"memory": "8Gi", "engines": "1"}, gpu1={"memory": "8Gi"})
    found = parts(
        part("a", memory="1Gi", engines="1"),
        part("b", memory="1Gi", engines="1"),
        part("c", of="gpu1", memory="1Gi"),
    )
    assert picked(tried(fleet(shared, found), claim(ask(count=2)))) == ["r=a", "r=c"]


def test_a_device_may_draw_on_two_sets() -> None:
    both = part("both", memory="8Gi")
    both["consumesCounters"].append({"counterSet": "gpu1", "counters": {"memory": {"value": "8Gi"}}})
    shared = counters(gpu0={"memory": "8Gi"}, gpu1={"memory": "8Gi"})
    found = parts(both, part("a", memory="1Gi"), part("b", of="gpu1", memory="1Gi"))
    assert picked(tried(fleet(shared, found), claim(ask(count=2)))) == ["r=a", "r=b"]


def test_held_partitions_have_taken_their_part() -> None:
    where = fleet(
        MEMORY,
        parts(part("a", memory="6Gi"), part("b", memory="6Gi"), part("c", memory="2Gi")),
        claims=[holding("pool-1/b")],
    )
    assert picked(tried(where, claim(ask()))) == ["r=c"]


def test_partitions_held_on_another_node_count_too() -> None:
    shared = slice_of(
        name="slice-0",
        count=2,
        node=None,
        allNodes=True,
        sharedCounters=[{"name": "gpu0", "counters": {"memory": {"value": "8Gi"}}}],
    )
    here = {**part("here", memory="6Gi"), "nodeName": NODE}
    there = {**part("there", memory="6Gi"), "nodeName": "node-2"}
    found = slice_of(here, there, node=None, perDeviceNodeSelection=True, count=2)
    assert picked(tried(fleet(shared, found), claim(ask()))) == ["r=here"]
    assert (
        picked(tried(fleet(shared, found, claims=[holding("pool-1/there")]), claim(ask()))) == "unschedulable"
    )


def test_a_partition_that_is_no_longer_published_takes_nothing() -> None:
    where = fleet(MEMORY, parts(part("a", memory="8Gi")), claims=[holding("pool-1/gone")])
    assert picked(tried(where, claim(ask()))) == ["r=a"]


def test_counters_are_shared_between_claims_of_one_attempt() -> None:
    where = fleet(MEMORY, parts(part("a", memory="6Gi"), part("b", memory="6Gi"), part("c", memory="2Gi")))
    assert picked(tried(where, claim(ask("x")), claim(ask("y"), name="two"))) == ["x=a", "y=c"]


def test_sets_of_the_same_name_in_other_pools_and_drivers_are_others() -> None:
    def pool(driver: str, name: str) -> list[ResourceSlice]:
        where: Any = {"driver": driver, "pool": name, "count": 2}
        shared = [{"name": "gpu0", "counters": {"memory": {"value": "8Gi"}}}]
        return [
            slice_of(name=f"{driver}-{name}-0", sharedCounters=shared, **where),
            slice_of(part("a", memory="8Gi"), name=f"{driver}-{name}-1", **where),
        ]

    slices = [
        *pool("a.example.com", "pool-1"),
        *pool("b.example.com", "pool-1"),
        *pool("a.example.com", "pool-2"),
    ]
    assert picked(tried(fleet(*slices), claim(ask(count=3)))) == ["r=a", "r=pool-2/a", "r=a"]


def test_a_refused_alternative_gives_its_counters_back() -> None:
    where = fleet(
        MEMORY, parts(part("a", memory="4Gi"), part("b", memory="4Gi"), part("whole", memory="8Gi"))
    )
    wanted = claim(first_of("r", sub("three", count=3), sub("two", count=2)))
    assert picked(tried(where, wanted)) == ["r/two=a", "r/two=b"]


def test_a_shared_partition_takes_its_counters_once() -> None:
    slices = [
        MEMORY,
        parts(
            {
                **part("a", memory="8Gi"),
                "allowMultipleAllocations": True,
                "capacity": {"slots": {"value": "2", "requestPolicy": {"default": "1"}}},
            },
            part("b", memory="1Gi"),
        ),
    ]
    assert picked(tried(fleet(*slices), claim(ask(count=2)))) == ["r=a", "r=a"]
    held = holding("pool-1/a", shareID="s", consumedCapacity={"slots": "1"})
    assert picked(tried(fleet(*slices, claims=[held]), claim(ask()))) == ["r=a"]
    assert picked(tried(fleet(*slices, claims=[held]), claim(ask(count=2)))) == "unschedulable"


@pytest.mark.parametrize(
    ("found", "count", "expected"),
    [
        ([part("a", "mig", memory="1"), part("b", "mig", memory="1")], 2, ["r=a", "r=b"]),
        ([part("a", "mig", memory="1"), part("b", "vgpu", memory="1")], 2, "unschedulable"),
        ([part("a", memory="1"), part("b", memory="1")], 2, ["r=a", "r=b"]),
        ([part("a", "mig", memory="1"), part("b", memory="1")], 2, "unschedulable"),
        ([part("a", memory="1"), part("b", "mig", memory="1")], 2, "unschedulable"),
        (
            [part("a", "x", "y", memory="1"), part("b", "y", memory="1"), part("c", "x", memory="1")],
            2,
            ["r=a", "r=b"],
        ),
        (
            [part("a", "x", "y", memory="1"), part("b", "y", memory="1"), part("c", "x", memory="1")],
            3,
            "unschedulable",
        ),
        (
            [part("a", "x", memory="1"), part("b", "y", memory="1"), part("c", "x", memory="1")],
            2,
            ["r=a", "r=c"],
        ),
    ],
)
def test_partitions_of_one_set_need_a_group_in_common(found: Any, count: int, expected: object) -> None:
    assert picked(tried(fleet(MEMORY, parts(*found)), claim(ask(count=count)))) == expected


def test_groups_of_held_partitions_count() -> None:
    where = fleet(
        MEMORY,
        parts(part("a", "mig", memory="1"), part("b", "vgpu", memory="1"), part("c", "mig", memory="1")),
        claims=[holding("pool-1/c")],
    )
    assert picked(tried(where, claim(ask()))) == ["r=a"]


def test_pools_with_groups_are_left_alone_while_their_gate_is_off() -> None:
    where = fleet(MEMORY, parts(part("a", "mig", memory="1")), features=without(gates.COMPATIBILITY_GROUPS))
    assert picked(tried(where, claim(ask()))) == "unschedulable"
    assert picked(tried(where, claim(ask(allocationMode="All")))) == "node: incomplete-pool"


def test_partitions_cannot_be_used_while_their_gate_is_off() -> None:
    where = fleet(
        MEMORY, parts(part("a", memory="1"), device("plain")), features=without(gates.PARTITIONABLE_DEVICES)
    )
    assert picked(tried(where, claim(ask()))) == ["r=plain"]
    assert picked(tried(where, claim(ask(allocationMode="All")))) == "unschedulable"


@pytest.mark.parametrize(
    ("slices", "why"),
    [
        ([MEMORY, parts(part("a", of="gpu9", memory="1"))], "counters of gpu9, which does not exist"),
        ([MEMORY, parts(part("a", engines="1"))], "counter engines of gpu0, which does not exist"),
        (
            [
                slice_of(name="s0", count=2, sharedCounters=[{"name": "c", "counters": {}}]),
                slice_of(name="s1", count=2, sharedCounters=[{"name": "c", "counters": {}}]),
            ],
            "counter set c is published twice",
        ),
    ],
)
def test_counters_that_do_not_exist_make_a_pool_invalid(slices: list[ResourceSlice], why: str) -> None:
    found = tried(fleet(*slices), claim(ask()))
    assert picked(found) == "node: invalid-pool"
    assert why in str(getattr(found, "error", ""))


def test_counters_without_the_slice_that_defines_them_are_an_incomplete_pool() -> None:
    assert picked(tried(fleet(parts(part("a", memory="1"))), claim(ask()))) == "unschedulable"
