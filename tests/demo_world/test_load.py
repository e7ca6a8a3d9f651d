"""Fleets kept moving: as many changes as asked for, of the kind asked for, and nothing broken by them."""

import argparse
import asyncio
from collections import Counter

import pytest

from portal.demo.fleet import UnknownFleet, check_wish, plant
from portal.demo.load import Churn, FleetSize, check_churn
from portal.demo.namespaces import found_first
from portal.demo.store import Store
from tests.demo_world.conftest import governed

WISH = "nodes=4,devices=4,pods=40,used=0.25"


def loaded() -> Store:
    store = Store()
    found_first(store)
    plant(store, WISH)
    return store


async def changes(store: Store, plural: str, seen: list[str]) -> None:
    async for event in store.watch(plural, since=store.revision):
        metadata = event.object["metadata"]
        seen.append(f"{metadata['namespace']}/{metadata['name']}")


def test_churn_changes_claims_and_pods_at_the_rates_asked_for() -> None:
    async def story() -> tuple[int, list[str], list[str]]:
        store = loaded()
        claims: list[str] = []
        pods: list[str] = []
        watching = [
            asyncio.create_task(changes(store, "resourceclaims", claims)),
            asyncio.create_task(changes(store, "pods", pods)),
        ]
        await asyncio.sleep(0)
        churn = Churn(store=store, size=FleetSize.parse(WISH), claims=200, pods=100)
        await churn.run(seconds=0.3)
        await asyncio.sleep(0)
        for task in watching:
            task.cancel()
        return churn.written, claims, pods

    written, claims, pods = asyncio.run(story())
    assert written == len(claims) + len(pods)
    assert len(claims) == pytest.approx(2 * len(pods), abs=4)
    holders = {f"group-{number:02}/pod-{number:06}" for number in range(10)}
    assert set(claims) == holders
    assert not set(pods) & holders


def test_a_claim_gives_its_device_up_and_gets_it_back() -> None:
    async def story() -> list[bool]:
        store = loaded()
        seen = []

        async def look() -> None:
            async for event in store.watch("resourceclaims", since=store.revision, namespace="group-00"):
                status = event.object.get("status") or {}
                seen.append(bool(status.get("allocation")))

        watching = asyncio.create_task(look())
        await asyncio.sleep(0)
        await Churn(store=store, size=FleetSize.parse(WISH), claims=200, pods=0).run(seconds=0.25)
        await asyncio.sleep(0)
        watching.cancel()
        return seen

    seen = asyncio.run(story())
    assert seen[:4] == [False, True, False, True]


def test_controllers_leave_a_generated_fleet_as_it_is() -> None:
    async def story() -> tuple[int, int]:
        store = loaded()
        before = store.revision
        async with governed(store) as town:
            town.node("marker")
            await town.until(
                lambda: town.exists("leases", "marker.norrvik.example", "kube-node-lease"), "a lease"
            )
            await asyncio.sleep(0.05)
            changed = Counter(
                record.namespace
                for record in store.tables["pods"].records.values()
                if record.revision > before
            )
            claims = [
                record
                for record in store.tables["resourceclaims"].records.values()
                if record.revision > before
            ]
        return len(changed), len(claims)

    assert asyncio.run(story()) == (0, 0)


@pytest.mark.parametrize("text", ["claims=many", "nodes=3", "claims"])
def test_churn_that_makes_no_sense_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        check_churn(text)
    with pytest.raises(UnknownFleet):
        Churn.parse(text, store=Store(), size=FleetSize(nodes=1))


def test_the_command_line_understands_fleets_by_name_and_size() -> None:
    assert [check_wish(text) for text in ("none", "sample", WISH)] == ["none", "sample", WISH]
    with pytest.raises(argparse.ArgumentTypeError, match="at least one node"):
        check_wish("nodes=0")
