"""Tasks and the signals that queue them."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.utils import timezone
from kombu.exceptions import OperationalError

from claims import receivers, tasks
from claims.models import Allocation, Request
from inventory.models import Cluster, Observation
from inventory.signals import observed
from tests.claims.mirror import mirror_claim, observe


class Queue:
    """What a task's `apply_async` got."""

    def __init__(self) -> None:
        self.calls: list[dict[str, Any]] = []

    def __call__(self, *, kwargs: dict[str, Any], expires: int) -> None:
        assert expires > 0
        self.calls.append(kwargs)


@pytest.fixture(autouse=True)
def nothing_queued() -> None:
    cache.clear()


@pytest.fixture
def catch_ups(monkeypatch: pytest.MonkeyPatch) -> Queue:
    queue = Queue()
    monkeypatch.setattr(tasks.catch_up, "apply_async", queue)
    return queue


@pytest.fixture
def pursuits(monkeypatch: pytest.MonkeyPatch) -> Queue:
    queue = Queue()
    monkeypatch.setattr(tasks.pursue, "apply_async", queue)
    return queue


def test_many_batches_of_a_cluster_are_one_catch_up(catch_ups: Queue) -> None:
    for cluster_id in (1, 1, 2, 1):
        observed.send(None, cluster_id=cluster_id)
    assert catch_ups.calls == [{"cluster_id": 1}, {"cluster_id": 2}]


def test_a_catch_up_that_began_lets_the_next_one_in(
    request_: Request, catch_ups: Queue, pursuits: Queue
) -> None:
    observed.send(None, cluster_id=request_.cluster_id)
    tasks.catch_up(cluster_id=request_.cluster_id)
    observed.send(None, cluster_id=request_.cluster_id)
    assert len(catch_ups.calls) == 2


def test_a_catch_up_folds_advances_and_queues_what_is_due(
    request_: Request, cluster: Cluster, pursuits: Queue
) -> None:
    observe(request_, Observation.Kind.CLAIM_ALLOCATED, 0, uid="foreign")
    tasks.catch_up(cluster_id=cluster.pk)
    assert Allocation.objects.count() == 1
    assert pursuits.calls == [{"request_id": request_.pk}]


def test_a_catch_up_moves_requests_to_what_the_mirror_shows(
    request_: Request, cluster: Cluster, pursuits: Queue
) -> None:
    later = timezone.now() + timedelta(days=1)
    Request.objects.update(state=Request.State.WAITING_FOR_POD, object_uid="c", due_at=None, expires_at=later)
    request_.refresh_from_db()
    mirror_claim(request_, consumers=("w",))
    tasks.catch_up(cluster_id=cluster.pk)
    request_.refresh_from_db()
    assert request_.state == Request.State.IN_USE
    assert pursuits.calls == []


def test_without_a_cluster_every_cluster_gets_its_own_task(cluster: Cluster, catch_ups: Queue) -> None:
    tasks.catch_up()
    assert catch_ups.calls == [{"cluster_id": cluster.pk}]


@pytest.mark.django_db
def test_a_cluster_that_was_removed_meanwhile_is_no_error() -> None:
    tasks.catch_up(cluster_id=4711)
    tasks.pursue(request_id=4711)


def test_a_queue_that_cannot_be_reached_stops_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(**_kwargs: Any) -> None:
        raise OperationalError("no broker")

    monkeypatch.setattr(tasks.pursue, "apply_async", unreachable)
    monkeypatch.setattr(tasks.catch_up, "apply_async", unreachable)
    receivers.on_work_due(request_id=1)
    receivers.on_observed(cluster_id=1)
