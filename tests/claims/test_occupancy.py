"""Occupancy over time: ledger, mirror and observations put together, against a plain reckoning."""

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import count, pairwise
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from claims.history.curves import Grid, Level
from claims.history.occupancy import Levels, mean, occupancy
from claims.models import Allocation
from inventory.models import Cluster, Device, DeviceProfile, Observation, Pool, ResourceSlice, Stream

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 3, 10, 9, 30, tzinfo=UTC)
HOUR = timedelta(hours=1)
GRID = Grid.until(NOW, length=10 * HOUR, bucket=HOUR)
START = NOW - 9.5 * HOUR
numbers = count(1)


def at(hours: float) -> datetime:
    """So many hours after the grid begins (at midnight)."""
    return START + hours * HOUR


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster.objects.create(
        name="harbour", credentials="kubeconfig", state="synced", created_at=at(-50), contacted_at=NOW
    )
    for resource in ("resourceslices", "resourceclaims", "nodes"):
        Stream.objects.create(
            cluster=made, resource=resource, state="watching", listed_at=at(-50), heard_at=NOW
        )
    return made


def profile(product: str = "Beam 9", kind: str = "gpu") -> DeviceProfile:
    return DeviceProfile.objects.get_or_create(
        digest=f"{product}/{kind}",
        defaults={
            "driver": "gpu.example.com", "attributes": {}, "capacity": {}, "product": product, "kind": kind,
        },
    )[0]  # fmt: skip


def observe(cluster: Cluster, kind: str, when: datetime, **facts: Any) -> None:
    Observation.objects.create(
        cluster=cluster, kind=kind, at=when, observed_at=when, source="observed", name="x", uid="",
        facts=facts, key=str(next(numbers)),
    )  # fmt: skip


def device(
    cluster: Cluster, *, since: float = -50, state: str = "free", reason: str = "", **of: str
) -> Device:
    """One that is published now, and was first seen then."""
    what = profile(**of)
    pool, _new = Pool.objects.get_or_create(
        cluster=cluster, driver=what.driver, name="pool",
        defaults={"generation": 1, "slices_expected": 1, "slices_seen": 1, "complete": True},
    )  # fmt: skip
    piece, _new = ResourceSlice.objects.get_or_create(
        cluster=cluster, name="slice",
        defaults={"uid": "s", "resource_version": "1", "pool": pool, "generation": 1, "manifest": {}},
    )  # fmt: skip
    number = next(numbers)
    observe(cluster, "device-appeared", at(since), profile=what.digest, unavailable="")
    return Device.objects.create(
        cluster=cluster, pool=pool, slice=piece, profile=what, name=f"gpu-{number}", position=number,
        node_name="n", state=state, reason=reason, first_seen_at=at(since),
    )  # fmt: skip


def hold(
    cluster: Cluster, name: str, start: float, end: float | None, *, share: str = "", **values: Any
) -> None:
    what = values.pop("profile", None) or profile()
    number = next(numbers)
    Allocation.objects.create(**{
        "cluster": cluster, "namespace": "tides", "claim_name": "c", "claim_uid": f"u-{number}", "epoch": 1,
        "driver": what.driver, "pool_name": "pool", "device_name": name, "request_name": "r",
        "share_id": share, "start_source": "observed", "started_at": at(start),
        "ended_at": None if end is None else at(end), "product": what.product,
        "profile_digest": what.digest, **values,
    })  # fmt: skip


def levels(product: str = "", **options: Any) -> Levels:
    return occupancy(grid=GRID, now=NOW, **options).levels(product)


def test_a_device_is_held_while_the_ledger_says_so(cluster: Cluster) -> None:
    one = device(cluster)
    hold(cluster, one.name, 1.25, 2.5)
    hold(cluster, one.name, 9, None)
    told = levels()
    assert told[0] == Level(free=1)
    assert told[1] == Level(held=0.75, free=0.25)
    assert told[2] == Level(held=0.5, free=0.5)
    # Of the last hour only what has passed counts.
    assert told[9] == Level(held=1)


def test_what_came_and_went_counts_while_it_was_there(cluster: Cluster) -> None:
    device(cluster)
    device(cluster, since=2.5)
    observe(cluster, "device-gone", at(4.75), profile=profile().digest, unavailable="node-cordoned")
    told = [level.total if level else None for level in levels()]
    assert told == [2, 2, 2.5, 3, 2.75, 2, 2, 2, 2, 2]
    assert levels()[0] == Level(free=1, unavailable=1)


def test_unavailability_is_walked_backwards_from_now(cluster: Cluster) -> None:
    device(cluster, state="unavailable", reason="node-not-ready")
    digest = profile().digest
    observe(cluster, "device-unavailable", at(2), profile=digest, reason="node-cordoned", was="")
    observe(
        cluster, "device-unavailable", at(3), profile=digest, reason="node-not-ready", was="node-cordoned"
    )
    observe(cluster, "device-available", at(5), profile=digest, was="node-not-ready")
    observe(cluster, "device-unavailable", at(6.5), profile=digest, reason="node-not-ready", was="")
    told = levels()
    assert [level.unavailable if level else None for level in told] == [0, 0, 1, 1, 1, 0, 0.5, 1, 1, 1]


def test_a_device_of_which_a_partition_is_held_is_held(cluster: Cluster) -> None:
    device(cluster, state="unavailable", reason="counters-used")
    part = device(cluster, product="Beam 9 half", kind="partition", state="held")
    observe(cluster, "device-unavailable", at(4), profile=profile().digest, reason="counters-used", was="")
    hold(cluster, part.name, 4, None, profile=part.profile)
    told = occupancy(grid=GRID, now=NOW)
    assert set(told.by_product) == {"Beam 9"}
    assert told.levels()[3:5] == [Level(free=1), Level(held=1)]


def test_a_shared_device_counts_once_however_many_have_a_share(cluster: Cluster) -> None:
    one = device(cluster)
    hold(cluster, one.name, 1, 3, share="a")
    hold(cluster, one.name, 2, 4, share="b")
    hold(cluster, one.name, 6, None, share="c")
    held = [level.held if level else None for level in levels()]
    assert held == [0, 1, 1, 1, 0, 0, 1, 1, 1, 1]


def test_admin_access_holds_nothing(cluster: Cluster) -> None:
    hold(cluster, device(cluster).name, 0, None, admin_access=True)
    assert levels()[5] == Level(free=1)


def test_before_a_cluster_was_followed_there_is_nothing_rather_than_zero(cluster: Cluster) -> None:
    device(cluster, since=3.5)
    assert levels()[:5] == [None, None, None, Level(free=1), Level(free=1)]


def test_in_a_lost_gap_only_what_was_held_throughout_is_known(cluster: Cluster) -> None:
    one = device(cluster)
    device(cluster)
    hold(cluster, one.name, 1, 8)
    since = at(4.5).isoformat()
    observe(cluster, "gap", at(6), resource="resourceclaims", lost=True, **{"from": since})
    observe(cluster, "gap", at(8), resource="resourceclaims", lost=False, **{"from": at(7).isoformat()})
    observe(cluster, "gap", at(8), resource="events", lost=True, **{"from": at(7).isoformat()})
    told = levels()
    assert told[4] == Level(held=1, free=0.5, unknown=0.5)
    assert told[5] == Level(held=1, unknown=1)
    assert told[7] == Level(held=1, free=1)


def test_since_a_cluster_is_out_of_step_everything_is_unknown(cluster: Cluster) -> None:
    hold(cluster, device(cluster).name, 1, None)
    Stream.objects.update(listed_at=at(7.5), heard_at=at(7.5))
    told = levels()
    assert told[6:] == [Level(held=1), Level(held=0.5, unknown=0.5), Level(unknown=1), Level(unknown=1)]


def test_products_and_clusters_are_told_apart(cluster: Cluster) -> None:
    device(cluster)
    device(cluster, product="Wave 2")
    assert levels("Wave 2")[0] == Level(free=1)
    assert levels()[0] == Level(free=2)
    assert levels("No such thing") == [None] * 10
    assert levels(cluster="elsewhere") == [None] * 10


def test_what_is_charted_of_now_is_what_the_pages_count(cluster: Cluster) -> None:
    """Where nothing moved, the last level equals the tally."""
    hold(cluster, device(cluster, state="held").name, -3, None)
    device(cluster)
    device(cluster, state="unavailable", reason="node-cordoned")
    observe(cluster, "device-unavailable", at(-2), profile=profile().digest, reason="node-cordoned", was="")
    assert levels()[-1] == Level(held=1, free=1, unavailable=1)


def test_the_mean_is_over_what_is_known() -> None:
    assert mean([None, Level(held=1), Level(free=1), None]) == Level(held=0.5, free=0.5)
    assert mean([None]) is None


# When something happened to which device, and what it was from then on.
Change = tuple[float, int, str]


def lives(cluster: Cluster, chance: random.Random, number: int) -> list[Change]:
    """A device that is held, or cannot be had, at random; and may be gone in the end."""
    digest, state, now = profile().digest, "free", chance.uniform(-4, 9)
    row = device(cluster, since=now)
    changes: list[Change] = [(now, number, state)]

    def release(when: float) -> None:
        Allocation.objects.filter(device_name=row.name, ended_at=None).update(ended_at=at(when))

    while (now := now + chance.expovariate(0.7)) < 9.4:
        before, state = state, chance.choice(["free", "held", "unavailable"])
        was = "node-cordoned" if before == "unavailable" else ""
        if state == "unavailable" != before:
            observe(cluster, "device-unavailable", at(now), profile=digest, was=was, reason="node-cordoned")
        elif was and state != before:
            observe(cluster, "device-available", at(now), profile=digest, was=was)
        release(now)
        if state == "held":
            hold(cluster, row.name, now, None, share=chance.choice(["", "s"]))
        changes.append((now, number, state))
    reason = "node-cordoned" if state == "unavailable" else ""
    if chance.random() < 0.3:
        release(9.4)
        observe(cluster, "device-gone", at(9.4), profile=digest, unavailable=reason)
        row.delete()
        return [*changes, (9.4, number, "gone")]
    Device.objects.filter(pk=row.pk).update(state=state, reason=reason)
    return changes


def reckoned(changes: list[Change], lost: tuple[float, float], bucket: int) -> dict[str, float]:
    """The mean level of one hour, edge by edge."""
    end = min(bucket + 1, 9.5)
    inside = {edge for edge in (*lost, *(when for when, _number, _state in changes)) if bucket < edge < end}
    area: Counter[str] = Counter()
    for low, high in pairwise(sorted({bucket, end, *inside})):
        states = {number: state for when, number, state in sorted(changes) if when <= low}
        for state in states.values():
            unseen = lost[0] <= low < lost[1] and state in {"free", "unavailable"}
            area["unknown" if unseen else state] += (high - low) / (end - bucket)  # type: ignore[assignment] # a part
    return {name: area[name] for name in Level._fields}


@pytest.mark.parametrize("seed", range(8))
def test_any_history_comes_to_what_a_plain_reckoning_says(cluster: Cluster, seed: int) -> None:
    chance = random.Random(seed)
    observe(cluster, "gap", at(-40), resource="x", lost=False, **{"from": at(-41).isoformat()})
    first, last = sorted(chance.uniform(0, 9) for _ in range(2))
    observe(cluster, "gap", at(last), resource="nodes", lost=True, **{"from": at(first).isoformat()})
    changes = [change for number in range(12) for change in lives(cluster, chance, number)]

    for bucket, level in enumerate(levels()):
        assert level is not None
        assert level._asdict() == pytest.approx(reckoned(changes, (first, last), bucket), abs=1e-6)


def test_the_number_of_queries_does_not_grow(cluster: Cluster) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            occupancy(grid=GRID, now=NOW)
        return len(seen)

    hold(cluster, device(cluster).name, 1, 2)
    few = queries()
    for _ in range(5):
        hold(cluster, device(cluster).name, 1, 2, share="x")
    assert queries() == few <= 12
