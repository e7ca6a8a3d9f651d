"""Kinds and classes are remembered for as long as the fleet does not change, and never longer."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from inventory.browse_kinds import Kinds, kinds_of
from inventory.models import Cluster
from tests.inventory_pages.factories import make_class, make_cluster, make_profile

pytestmark = pytest.mark.django_db


def told() -> tuple[Kinds, int]:
    """What is said of the clusters as they are now, and how many queries it took to know it."""
    clusters = list(Cluster.objects.order_by("name"))
    with CaptureQueriesContext(connection) as asked:
        return kinds_of(clusters), len(asked)


def changed(cluster: Cluster, version: int) -> None:
    Cluster.objects.filter(pk=cluster.pk).update(fleet_version=version)


def test_they_are_asked_for_once_per_version_of_the_fleets() -> None:
    north, south = make_cluster("north"), make_cluster("south")
    card = make_profile("Card")
    changed(north, 1)
    changed(south, 1)
    first, queries = told()
    assert (set(first.profiles), first.classes, queries) == ({card.pk}, {}, 3)
    assert told() == (first, 0)

    # Who holds what is no matter of theirs.
    Cluster.objects.update(mirror_version=7)
    assert told() == (first, 0)

    make_class(south, "cards", profiles=(card,))
    changed(south, 2)
    after, queries = told()
    assert (after.classes, queries) == ({(south.pk, card.pk): frozenset({"cards"})}, 3)
    assert told() == (after, 0)


def test_another_cluster_is_another_fleet() -> None:
    changed(make_cluster("north"), 1)
    assert told()[1] == 3
    changed(make_cluster("south"), 1)
    assert told()[1] == 3


def test_of_a_cluster_that_was_never_mirrored_nothing_is_remembered() -> None:
    changed(make_cluster("north"), 1)
    make_cluster("south")
    assert told()[1] == told()[1] == 3
