"""Devices taken together explain a claim as devices one by one do."""

from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given, settings

from portal.dra import explain as explaining
from portal.dra.allocator import allocate
from portal.dra.batches import batches, devices_of
from portal.dra.cluster import feasible_nodes, how_many_more, openness
from portal.dra.explain import explain
from portal.dra.fleet import Fleet
from portal.dra.model import ResourceClaim, ResourceClaimStatus, Toleration, decode_object
from portal.dra.outcomes import Allocated
from portal.dra.places import Places
from tests.claims import random_fleets as fleets
from tests.dra import plain_funnel
from tests.dra.builders import (
    ALL,
    ask,
    claim,
    device,
    first_of,
    fleet,
    holding,
    node,
    slice_of,
    sub,
    without,
)

GPU, NIC = fleets.GPU, fleets.NIC
ATTRIBUTES = [f"{GPU}/numa", "resource.kubernetes.io/pcieRoot", f"{GPU}/uuid", f"{GPU}/nothing"]
SELECTORS = [
    f'"numa" in device.attributes["{GPU}"] && device.attributes["{GPU}"].numa == 0',
    f'device.attributes["{GPU}"].uuid.endsWith("-0")',
    f'device.driver == "{GPU}"',
    "false",
]
TOLERATIONS: list[list[dict[str, Any]]] = [
    [], [], [{"operator": "Exists"}], [{"key": fleets.BROKEN, "operator": "Exists", "effect": "NoSchedule"}],
]  # fmt: skip


@st.composite
def wishes(draw: st.DrawFn, make: Any, name: str) -> dict[str, Any]:
    """One request, or one alternative of one."""
    fields: dict[str, Any] = {"cls": draw(st.sampled_from([*fleets.CLASSES]))}
    mode = draw(st.sampled_from(["one", "one", "count", "all"]))
    if mode == "count":
        fields["count"] = draw(st.sampled_from([2, 3, 4]))
    elif mode == "all":
        fields["allocationMode"] = "All"
    elif make is ask and draw(fleets.rarely(6)):
        fields["adminAccess"] = True
    if draw(fleets.rarely(3)):
        fields["capacity"] = {"requests": {"memory": draw(st.sampled_from(["10Gi", "60Gi", "90Gi"]))}}
    fields["tolerations"] = draw(st.sampled_from(TOLERATIONS))
    chosen = draw(st.sampled_from([[], [], [], *([one] for one in SELECTORS)]))
    found: dict[str, Any] = make(name, *chosen, **fields)
    return found


@st.composite
def claims(draw: st.DrawFn) -> ResourceClaim:
    requests = [draw(wishes(ask, f"r{number}")) for number in range(draw(st.sampled_from([1, 1, 2])))]
    if draw(fleets.rarely(4)):
        requests.append(first_of("either", draw(wishes(sub, "this")), draw(wishes(sub, "that"))))
    constraints = []
    if draw(fleets.rarely(2)):
        kind = draw(st.sampled_from(["matchAttribute", "distinctAttribute"]))
        constraints.append({kind: draw(st.sampled_from(ATTRIBUTES)), "requests": []})
    return claim(*requests, constraints=constraints)


@st.composite
def fleets_with_holders(draw: st.DrawFn) -> Fleet:
    world = draw(fleets.worlds())
    found: dict[str, list[Any]] = {}
    for body in fleets.objects(world):
        found.setdefault(body["kind"], []).append(decode_object(body))
    features = draw(st.sampled_from([ALL, ALL, without("DRAConsumableCapacity"), without("DRADeviceTaints")]))
    there = Fleet.build(
        slices=found.get("ResourceSlice", ()), classes=found["DeviceClass"], nodes=found["Node"],
        taint_rules=found.get("DeviceTaintRule", ()), features=features,
    )  # fmt: skip
    holders: list[ResourceClaim] = []
    for number, holder in enumerate(draw(st.lists(claims(), max_size=4))):
        where = draw(st.sampled_from([*there.nodes]))
        outcome = allocate(there.with_claims(holders), node=where, claims=(holder,), max_steps=10_000)
        if isinstance(outcome, Allocated):
            status = ResourceClaimStatus(allocation=outcome.claims[0])
            named = msgspec.structs.replace(holder.metadata, name=f"holder-{number}")
            holders.append(msgspec.structs.replace(holder, metadata=named, status=status))
    return there.with_claims(holders)


def told(there: Fleet, wanted: ResourceClaim, tolerations: Sequence[Toleration]) -> Any:
    return explain(there, wanted, tolerations=tolerations)


@pytest.mark.parametrize("asked_before", [False, True])
@given(there=fleets_with_holders(), wanted=claims(), tolerates=st.booleans())
@settings(max_examples=40, deadline=None)
def test_a_claim_is_explained_as_by_looking_at_each_device(
    asked_before: bool, there: Fleet, wanted: ResourceClaim, tolerates: bool
) -> None:
    tolerations = [Toleration(operator="Exists")] if tolerates else []
    if asked_before:
        told(there.unheld, wanted, tolerations)
        told(there, wanted, ())
    found = told(there, wanted, tolerations)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(explaining, "funnel", plain_funnel.funnel)
        patch.setattr(explaining, "Places", plain_funnel.Places)
        plain = told(there, wanted, tolerations)
    assert msgspec.structs.asdict(found) == msgspec.structs.asdict(plain)


@given(there=fleets_with_holders(), wanted=claims())
@settings(max_examples=25, deadline=None)
def test_batches_have_every_usable_device_once_and_in_order(there: Fleet, wanted: ResourceClaim) -> None:
    found = batches(there, wanted)
    usable = [pool for pool in there.pools if not pool.incomplete and pool.invalid is None]
    assert devices_of(found) == [item for pool in usable for item in there.devices(pool)]
    where = Places(openness(there).nodes, {})
    for batch in found:
        for item in batch.items:
            assert where.of(batch) == {name for name, one in there.nodes.items() if item.reaches(one)}


def test_what_a_fleet_remembers_is_of_its_own_holders_nodes_and_classes() -> None:
    world = fleets.World(machines=(fleets.Machine(whole=(("80Gi", 0, ""),)), fleets.Machine(cordoned=True)))
    found: dict[str, list[Any]] = {}
    for body in fleets.objects(world):
        found.setdefault(body["kind"], []).append(decode_object(body))
    there = Fleet.build(
        slices=found["ResourceSlice"], classes=found["DeviceClass"], nodes=found["Node"], features=ALL
    )
    wanted = claim(ask(cls="whole"))
    assert feasible_nodes(there, (wanted,)).nodes == ("n0",)
    outcome = allocate(there, node="n0", claims=(wanted,))
    assert isinstance(outcome, Allocated)
    status = ResourceClaimStatus(allocation=outcome.claims[0])
    held = there.with_claims([msgspec.structs.replace(wanted, status=status)])
    assert feasible_nodes(held, (wanted,)).nodes == ()
    assert feasible_nodes(there, (wanted,)).nodes == ("n0",)
    assert feasible_nodes(held.unheld, (wanted,)).nodes == ("n0",)
    assert held.unheld is there.unheld
    assert how_many_more(there.plus([]), wanted).count == 1
    # Another class, or other nodes, are another fleet.
    without_class = there.with_class("whole", None)
    assert feasible_nodes(without_class, (wanted,)).error is not None
    assert feasible_nodes(without_class.unheld, (wanted,)).error is not None
    elsewhere = there.only_nodes({"n9": node("n9")})
    assert feasible_nodes(elsewhere.unheld, (wanted,)).nodes == ()
    # A node that was cordoned is open to who tolerates it.
    anyone = [Toleration(operator="Exists")]
    assert [openness(there).open, openness(there, tolerations=anyone).open] == [("n0",), ("n0", "n1")]
    assert openness(there, node_selector={"pool": "red"}).open == ()


def test_examples_are_the_first_in_the_order_of_the_search() -> None:
    """Of three, the first is held: the second is of another kind, the third of the first one's."""

    def part(name: str, needs: str) -> dict[str, Any]:
        consumed = [{"counterSet": "card", "counters": {"slots": {"value": needs}}}]
        return device(name, consumesCounters=consumed)

    counters = [{"name": "card", "counters": {"slots": {"value": "1"}}}]
    there = fleet(
        slice_of(name="s1", count=2, sharedCounters=counters),
        slice_of(part("a", "1"), part("b", "2"), part("c", "1"), name="s2", count=2),
        nodes=[node()],
        claims=[holding("pool-1/a")],
    )
    assert [len(batch.items) for batch in batches(there, claim(ask()))] == [2, 1]
    nearest = explain(there, claim(ask())).nearest
    assert nearest is not None
    assert (nearest.code, nearest.params["device"]) == ("miss-counters", f"{GPU}/pool-1/b")
