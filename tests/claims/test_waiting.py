"""How long claims waited: those who got a device, those who still wait, those who gave up."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from claims.models import Allocation
from claims.waiting.claims import class_of, survival_quantile, waits
from inventory.models import Claim, Cluster, Observation, Stream

NOW = datetime(2026, 3, 10, 9, 30, tzinfo=UTC)
START = NOW - timedelta(days=7)
SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "beam"}}]}}


@pytest.fixture
def cluster(db: None) -> Cluster:
    made = Cluster.objects.create(
        name="harbour", credentials="kubeconfig", state="synced", created_at=START, contacted_at=NOW
    )
    for resource in ("resourceslices", "resourceclaims", "nodes"):
        Stream.objects.create(cluster=made, resource=resource, state="watching", listed_at=NOW, heard_at=NOW)
    return made


def ago(minutes: float) -> datetime:
    return NOW - timedelta(minutes=minutes)


def made(cluster: Cluster, uid: str, minutes_ago: float) -> None:
    observed(cluster, "claim-created", uid, minutes_ago)


def observed(cluster: Cluster, kind: str, uid: str, minutes_ago: float, **facts: Any) -> None:
    when = ago(minutes_ago)
    Observation.objects.create(
        cluster=cluster, kind=kind, at=when, observed_at=when, source="observed", name=uid, uid=uid,
        facts=facts, key=f"{kind}/{uid}",
    )  # fmt: skip


def got(cluster: Cluster, uid: str, minutes_ago: float, *, epoch: int = 1, product: str = "Beam 9") -> None:
    Allocation.objects.create(
        cluster=cluster, namespace="tides", claim_name=uid, claim_uid=uid, epoch=epoch, driver="d",
        pool_name="p", device_name=f"{uid}-{epoch}", request_name="r", start_source="observed",
        started_at=ago(minutes_ago), device_class="beam", product=product,
    )  # fmt: skip


def pending(cluster: Cluster, uid: str, minutes_ago: float) -> None:
    Claim.objects.create(
        cluster=cluster, name=uid, uid=uid, resource_version="1", namespace="tides", spec=SPEC,
        created_at=ago(minutes_ago),
    )  # fmt: skip


def test_a_wait_ends_with_the_first_allocation(cluster: Cluster) -> None:
    made(cluster, "a", 100)
    got(cluster, "a", 98)
    got(cluster, "a", 5, epoch=2)
    (wait,) = waits(start=START, now=NOW)["beam"].all
    assert (wait.seconds, wait.outcome, wait.product) == (120, "allocated", "Beam 9")


def test_who_still_waits_or_gave_up_is_counted_as_such(cluster: Cluster) -> None:
    made(cluster, "a", 100)
    pending(cluster, "a", 100)
    made(cluster, "b", 90)
    observed(cluster, "claim-deleted", "b", 80, epoch=0)
    told = waits(start=START, now=NOW)
    assert [(w.seconds, w.outcome) for w in told["beam"].all] == [(6000, "waiting")]
    # What it asked for is no longer known.
    assert [(w.seconds, w.outcome) for w in told[""].all] == [(600, "gone")]


def test_by_product_who_has_nothing_stands_apart(cluster: Cluster) -> None:
    made(cluster, "a", 100)
    got(cluster, "a", 99.95)
    made(cluster, "b", 100)
    pending(cluster, "b", 100)
    told = waits(start=START, now=NOW, by_product=True)
    assert list(told) == ["Beam 9", ""]
    assert told["Beam 9"].counts["allocated"] == {0: 1}
    assert told[""].count("waiting") == 1


def test_of_a_cluster_out_of_step_waits_are_known_up_to_then(cluster: Cluster) -> None:
    made(cluster, "a", 100)
    pending(cluster, "a", 100)
    Stream.objects.update(listed_at=ago(40), heard_at=ago(40))
    (wait,) = waits(start=START, now=NOW)["beam"].all
    assert wait.seconds == 3600


def test_claims_of_another_time_are_left_out(cluster: Cluster) -> None:
    made(cluster, "a", 60 * 24 * 8)
    got(cluster, "a", 60 * 24 * 6)
    assert waits(start=START, now=NOW) == {}


@pytest.mark.parametrize(
    ("told", "half"),
    [
        ([(1, True), (2, True), (3, True)], 2),
        ([(1, True)], 1),
        # One who waits longer than all others got theirs.
        ([(1, True), (2, True), (9, False)], 2),
        # Who gave up at once says nothing of how long it takes.
        ([(0, False), (0, False), (5, True), (7, True)], 5),
        ([(1, True), (5, False), (5, False)], None),
        ([(5, False)], None),
        ([], None),
    ],
)
def test_half_of_them_got_theirs_by_then(told: list[tuple[float, bool]], half: float | None) -> None:
    expected = None if half is None else timedelta(seconds=half)
    assert survival_quantile(told, 0.5) == expected


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        (SPEC, "beam"),
        ({"devices": {"requests": [{"firstAvailable": [{"deviceClassName": "a"}, {}]}]}}, "a"),
        ({"devices": {"requests": []}}, ""), ({"devices": None}, ""), ({}, ""),
    ],
)  # fmt: skip
def test_the_class_that_a_claim_asks_for(spec: dict[str, Any], name: str) -> None:
    assert class_of(spec) == name
