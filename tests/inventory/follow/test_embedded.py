"""A whole cluster behind a socket: what the mirror says is what the API server holds."""

import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from inventory import clusters
from inventory.follow import backoff, streams
from inventory.follow.follower import Follower
from inventory.models import Cluster, Device, Observation, PodEvent
from inventory.snapshot import fleet
from portal.kube.client import Client
from portal.kube.config import Credentials
from portal.kube.resources import PODS
from tests.embedded import EmbeddedCluster
from tests.inventory.compare import held_in_mirror, held_on_cluster, history_faults, mirrored, on_cluster

pytestmark = pytest.mark.django_db(transaction=True)
DEADLINE = 40.0


def added(embedded: EmbeddedCluster) -> Cluster:
    return clusters.add(
        name="demo", kubeconfig_path=str(embedded.kubeconfig), context="portal", now=timezone.now()
    )


def administrator(kubeconfig: Path) -> Client:
    return Client(Credentials.from_kubeconfig(kubeconfig, context="admin"))


def follow(cluster: Cluster, *steps: Callable[[], bool]) -> None:
    """Follow until the steps have come true, one after the other."""
    left = list(steps)
    deadline = time.monotonic() + DEADLINE

    def done() -> bool:
        while left and left[0]():
            left.pop(0)
        return not left or time.monotonic() > deadline

    follower = Follower(
        cluster_id=cluster.pk,
        lease_duration=timedelta(seconds=20),
        full_list_interval=timedelta(hours=1),
    )
    follower.run(should_stop=done)
    assert not left, f"{len(left)} of {len(steps)} steps did not come true"


def equal(cluster: Cluster, client: Client) -> bool:
    there, here = on_cluster(client), mirrored(cluster)
    return there == here and held_on_cluster(client) == held_in_mirror(cluster)


def test_the_sample_fleet_is_mirrored_exactly(sample_cluster: EmbeddedCluster) -> None:
    cluster = added(sample_cluster)
    with administrator(sample_cluster.kubeconfig) as client:
        follow(
            cluster,
            lambda: Cluster.objects.get().state == Cluster.State.SYNCED,
            lambda: equal(cluster, client),
        )
    cluster.refresh_from_db()
    assert Device.objects.filter(state="held").exists()
    assert Device.objects.filter(reason="node-cordoned").exists()
    assert Device.objects.filter(reason="pool-incomplete").exists()
    assert PodEvent.objects.filter(reason="FailedScheduling").exists()
    assert history_faults(cluster) == []
    seen = fleet(cluster)
    assert len(seen.nodes) == len(on_mirror_nodes(cluster))
    assert fleet(cluster) is seen, "built once per version of the mirror"


def on_mirror_nodes(cluster: Cluster) -> set[Any]:
    return mirrored(cluster)["nodes"]


def test_an_api_server_that_is_killed_and_comes_back_is_caught_up_with(
    sample_cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backoff, "LONGEST", 0.5)
    monkeypatch.setattr(streams, "NEGLIGIBLE_GAP", timedelta(0))
    cluster = added(sample_cluster)

    def state(wanted: str) -> Callable[[], bool]:
        return lambda: Cluster.objects.get().state == wanted

    def do(action: Callable[[], object]) -> Callable[[], bool]:
        def act() -> bool:
            action()
            return True

        return act

    def release_a_pod() -> None:
        with administrator(sample_cluster.kubeconfig) as client:
            running = [p for p in client.list_all(PODS) if p["spec"].get("resourceClaims")]
            metadata = running[0]["metadata"]
            client.delete(PODS, metadata["name"], namespace=metadata["namespace"], grace_period_seconds=0)

    def caught_up() -> bool:
        with administrator(sample_cluster.kubeconfig) as client:
            return equal(cluster, client)

    follow(
        cluster,
        state(Cluster.State.SYNCED),
        do(sample_cluster.kill),
        state(Cluster.State.UNREACHABLE),
        do(sample_cluster.start),
        do(release_a_pod),
        state(Cluster.State.SYNCED),
        caught_up,
        Observation.objects.filter(kind="gap").exists,
    )
    assert history_faults(cluster) == []
