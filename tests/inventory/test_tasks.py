"""The Celery side: who is started, and when a worker ends."""

from datetime import timedelta
from typing import Any

import pytest
from celery.worker import state as worker_state

from inventory import tasks
from inventory.follow.follower import Follower, Outcome
from inventory.models import Cluster
from tests.inventory.conftest import NOW


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    calls: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        tasks.follow_cluster, "apply_async", lambda args, expires: calls.append((*args, expires))
    )
    return calls


def test_clusters_without_a_follower_get_one(cluster: Cluster, started: list[tuple[Any, ...]]) -> None:
    Cluster.objects.create(name="off", enabled=False, credentials="in-cluster", created_at=NOW)
    idle = Cluster.objects.create(name="idle", credentials="in-cluster", created_at=NOW)
    Cluster.objects.filter(pk=cluster.pk).update(lease_expires_at=NOW + timedelta(days=10_000))
    tasks.ensure_followers()
    assert started == [(idle.pk, 10)]


@pytest.mark.parametrize(
    ("outcome", "goes_on"),
    [(Outcome.SHIFT_OVER, True), (Outcome.STOPPED, False), (Outcome.NOT_FREE, False)],
)
def test_only_a_shift_that_is_over_calls_the_next(
    started: list[tuple[Any, ...]], monkeypatch: pytest.MonkeyPatch, outcome: Outcome, goes_on: bool
) -> None:
    monkeypatch.setattr(Follower, "run", lambda *_, **__: outcome)
    assert tasks.follow_cluster(7) == outcome.name
    assert bool(started) is goes_on


def test_a_worker_that_shuts_down_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_shutdown", None)
    assert not tasks.worker_is_stopping()
    tasks._announce()
    assert not tasks.worker_is_stopping(), "no worker was prepared"
    tasks._prepare()
    assert not tasks.worker_is_stopping()
    tasks._announce()
    assert tasks.worker_is_stopping()


def test_a_worker_that_stops_by_itself_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_shutdown", None)
    monkeypatch.setattr(worker_state, "should_stop", 0)
    assert not tasks.worker_is_stopping()
    monkeypatch.setattr(worker_state, "should_terminate", True)
    assert tasks.worker_is_stopping()
