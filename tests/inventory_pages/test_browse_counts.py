"""Counts of the fleet are remembered for as long as the mirror does not change, and never longer."""

from collections import Counter

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from inventory.browse_counts import counts_of
from inventory.models import Cluster, Device
from tests.inventory_pages.factories import make_cluster, make_fleet

pytestmark = pytest.mark.django_db


def told(*clusters: Cluster) -> tuple[Counter[tuple[int, str]], int]:
    """How many devices by cluster and state, and how many queries it took to know it."""
    fresh = [Cluster.objects.get(pk=cluster.pk) for cluster in clusters]
    counts: Counter[tuple[int, str]] = Counter()
    with CaptureQueriesContext(connection) as asked:
        for _profile, cluster_id, state, _health, count in counts_of(fresh):
            counts[cluster_id, state] += count
    return +counts, len(asked)


def true_counts() -> Counter[tuple[int, str]]:
    return Counter(Device.objects.values_list("cluster_id", "state"))


def mirrored(cluster: Cluster, version: int) -> None:
    Cluster.objects.filter(pk=cluster.pk).update(mirror_version=version)


def test_counts_are_asked_for_once_per_version_and_cluster() -> None:
    north, south = make_cluster("north"), make_cluster("south")
    make_fleet(north, nodes=3)
    make_fleet(south, nodes=2)
    mirrored(north, 1)
    mirrored(south, 1)
    assert told(north, south) == (true_counts(), 1)
    assert told(north, south) == (true_counts(), 0)

    Device.objects.filter(cluster=south).update(state=Device.State.HELD)
    mirrored(south, 2)
    assert told(north, south) == (true_counts(), 1)
    assert told(south)[1] == 0


def test_a_cluster_without_devices_is_remembered_as_one_without() -> None:
    north = make_cluster("north")
    mirrored(north, 1)
    assert told(north) == (Counter(), 1)
    assert told(north) == (Counter(), 0)
    make_fleet(north, nodes=1)
    mirrored(north, 2)
    assert told(north) == (true_counts(), 1)


def test_a_cluster_that_was_never_mirrored_is_counted_every_time() -> None:
    north = make_cluster("north")
    make_fleet(north, nodes=1)
    assert told(north)[1] == 1
    Device.objects.filter(cluster=north).update(state=Device.State.HELD)
    assert told(north) == (true_counts(), 1)
