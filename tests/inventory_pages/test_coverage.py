"""What may be told as present fact."""

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from inventory.coverage import NO_CONTACT, SILENCE, coverage_of
from inventory.models import Cluster, Stream
from tests.inventory_pages.factories import make_cluster

pytestmark = pytest.mark.django_db


def test_a_followed_cluster_is_in_step_since_its_quietest_stream() -> None:
    cluster, now = make_cluster(), timezone.now()
    quiet = now - timedelta(seconds=50)
    cluster.streams.filter(resource="nodes").update(heard_at=quiet, listed_at=quiet)
    coverage = coverage_of(cluster, cluster.streams.all(), now=now)
    assert (coverage.in_step, coverage.as_of, coverage.why) == (True, quiet, "")


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"state": Cluster.State.UNREACHABLE}, "cannot be reached"),
        ({"state": Cluster.State.REFUSED}, "credentials refused"),
        ({"state": Cluster.State.SYNCING}, "first lists are running"),
        ({"enabled": False}, "not followed"),
        ({"contacted_at": None}, "nobody follows it"),
    ],
)
def test_a_cluster_that_is_not_followed_well_is_not_in_step(fields: dict[str, Any], why: str) -> None:
    cluster = make_cluster(**fields)
    coverage = coverage_of(cluster, cluster.streams.all(), now=timezone.now())
    assert (coverage.in_step, coverage.why) == (False, why)


def test_a_silent_watch_is_not_in_step_as_of_its_last_line() -> None:
    cluster, now = make_cluster(), timezone.now()
    last = now - SILENCE - timedelta(seconds=1)
    cluster.streams.filter(resource="resourceclaims").update(heard_at=last, listed_at=last)
    coverage = coverage_of(cluster, cluster.streams.all(), now=now)
    assert (coverage.in_step, coverage.why, coverage.as_of) == (False, "nothing heard", last)


def test_a_follower_that_died_leaves_the_cluster_out_of_step() -> None:
    cluster, now = make_cluster(), timezone.now()
    coverage = coverage_of(cluster, cluster.streams.all(), now=now + NO_CONTACT + timedelta(seconds=1))
    assert (coverage.in_step, coverage.why) == (False, "nobody follows it")


def test_a_stream_that_was_never_listed_means_nothing_is_known() -> None:
    cluster = make_cluster()
    cluster.streams.filter(resource="nodes").delete()
    coverage = coverage_of(cluster, cluster.streams.all(), now=timezone.now())
    assert (coverage.in_step, coverage.as_of) == (False, None)


def test_a_stream_that_is_not_permitted_is_named() -> None:
    cluster = make_cluster()
    cluster.streams.filter(resource="resourceclaims").update(state=Stream.State.NOT_PERMITTED)
    coverage = coverage_of(cluster, cluster.streams.all(), now=timezone.now())
    assert (coverage.in_step, coverage.why) == (False, "resourceclaims: not permitted")
