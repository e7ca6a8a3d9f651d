"""One transaction for everything, and only for the holder of the lease."""

from typing import Any

import pytest
from django.db import OperationalError

from inventory import signals
from inventory.mirror import states
from inventory.mirror.writer import LeaseLost
from inventory.models import Cluster, Node, Observation, Stream
from tests.inventory.conftest import Mirror
from tests.inventory.objects import allocation, claim, gpu, node, resource_slice, result


def test_who_lost_the_lease_writes_nothing(mirror: Mirror) -> None:
    Cluster.objects.update(lease_holder="another")
    with pytest.raises(LeaseLost):
        mirror.see(node())
    with pytest.raises(LeaseLost):
        mirror.writer.save_checkpoints([mirror.batch(node())])
    assert (Node.objects.count(), Observation.objects.count()) == (0, 0)


def test_a_failure_leaves_neither_rows_nor_observations_nor_a_checkpoint(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_turn: Any) -> None:
        raise OperationalError("the database is gone")

    with monkeypatch.context() as broken:
        broken.setattr(states, "refresh", gone)
        with pytest.raises(OperationalError):
            mirror.see(node())
    assert (Node.objects.count(), Observation.objects.count()) == (0, 0)
    assert Stream.objects.get(resource="nodes").resource_version == ""
    mirror.see(node())
    assert Node.objects.count() == 1


def test_a_failure_after_profiles_were_made_does_not_leave_a_memory_of_them(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_turn: Any) -> None:
        raise OperationalError("the database is gone")

    slice_ = resource_slice("s1", [gpu(0)])
    with monkeypatch.context() as broken:
        broken.setattr(states, "refresh", gone)
        with pytest.raises(OperationalError):
            mirror.see(slice_)
    mirror.see(slice_)
    assert len(mirror.observed("device-appeared")) == 1


@pytest.mark.django_db(transaction=True)
def test_observations_are_announced_after_the_commit(mirror: Mirror) -> None:
    heard: list[tuple[int, int]] = []

    def listen(sender: object, cluster_id: int, **_: object) -> None:
        heard.append((cluster_id, Observation.objects.count()))

    signals.observed.connect(listen)
    try:
        mirror.see(node())
        mirror.see(node())
    finally:
        signals.observed.disconnect(listen)
    assert heard == [(mirror.cluster.pk, 1)]


def test_batches_of_several_resources_are_stored_together_in_order(mirror: Mirror) -> None:
    mirror.apply(
        mirror.batch(node()),
        mirror.batch(resource_slice("s1", [gpu(0)])),
        mirror.batch(claim(allocated=allocation(result("gpu-0")))),
    )
    (allocated,) = mirror.observed("claim-allocated")
    assert allocated.facts["devices"][0]["hardware_id"] == "GPU-n1-0"
    assert Cluster.objects.get().mirror_version == 1


def test_the_number_of_queries_does_not_grow_with_the_size_of_a_batch(mirror: Mirror) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    counts = []
    for start, size in ((0, 5), (5, 40)):
        nodes = [node(f"n{n}") for n in range(start, start + size)]
        slices = [
            resource_slice(f"s{n}", [gpu(0, node=f"n{n}"), gpu(1, node=f"n{n}")], node=f"n{n}")
            for n in range(start, start + size)
        ]
        claims = [
            claim(f"c{n}", allocated=allocation(result("gpu-0", node=f"n{n}"), node=f"n{n}"))
            for n in range(start, start + size)
        ]
        with CaptureQueriesContext(connection) as queries:
            mirror.apply(mirror.batch(*nodes), mirror.batch(*slices), mirror.batch(*claims))
        counts.append(len(queries))
    assert counts[1] <= counts[0] + 15
