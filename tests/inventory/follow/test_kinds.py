"""What surrounds devices, over a socket: rules, queues, plugins; and a list that brings nothing new."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone

from inventory import clusters
from inventory.models import (
    Cluster,
    CountedUnits,
    Device,
    Namespace,
    Node,
    PodGroup,
    QueuedWorkload,
    ResourceQuota,
    Stream,
)
from portal.kube.client import Client
from portal.kube.resources import DEVICE_TAINT_RULES
from tests.embedded import EmbeddedCluster
from tests.inventory.follow.test_embedded import added, administrator, equal, follow

pytestmark = pytest.mark.django_db(transaction=True)


def do(action: Callable[[], Any]) -> Callable[[], bool]:
    def act() -> bool:
        action()
        return True

    return act


def served(client: Client) -> Any:
    return client.served("resource.k8s.io")["resource.k8s.io/v1beta2"]["devicetaintrules"]


def test_rules_queues_and_plugins_are_in_step(sample_cluster: EmbeddedCluster) -> None:
    cluster = added(sample_cluster)
    assert cluster.served["devicetaintrules"] == "resource.k8s.io/v1beta2"
    assert cluster.served["workloads.kueue.x-k8s.io"] == "kueue.x-k8s.io/v1beta2"
    taint = {"key": "example.com/fan", "value": "loud", "effect": "NoSchedule"}
    free: list[Device] = []

    def rule() -> dict[str, Any]:
        device = Device.objects.filter(state="free").select_related("pool")[0]
        free.append(device)
        selector = {"driver": device.pool.driver, "pool": device.pool.name, "device": device.name}
        return {
            "apiVersion": "resource.k8s.io/v1beta2",
            "kind": "DeviceTaintRule",
            "metadata": {"name": "fan"},
            "spec": {"deviceSelector": selector, "taint": taint},
        }

    def is_now(state: str) -> bool:
        device = Device.objects.get(pk=free[0].pk)
        return device.state == state and device.reason == ("device-tainted" if state != "free" else "")

    with administrator(sample_cluster.kubeconfig) as client:
        follow(
            cluster,
            lambda: Cluster.objects.get().state == Cluster.State.SYNCED,
            lambda: equal(cluster, client),
            do(lambda: client.create(served(client), rule())),
            lambda: is_now("unavailable"),
            do(lambda: client.delete(served(client), "fan")),
            lambda: is_now("free"),
        )
    assert DEVICE_TAINT_RULES.plural in cluster.served
    assert Namespace.objects.exists()
    assert Node.objects.exclude(container_runtime="").exclude(kernel_version="").exists()
    assert ResourceQuota.objects.filter(counted=True).exists()
    assert PodGroup.objects.exists()
    waiting = QueuedWorkload.objects.get(state="pending")
    assert (waiting.reason, "insufficient quota" in waiting.message) == ("Pending", True)
    counted = dict(CountedUnits.objects.filter(both_ways=False).values_list("resource", "counts"))
    assert counted["huawei.com/Ascend910"]
    assert not counted["aws.amazon.com/neuroncore"]
    assert CountedUnits.objects.filter(both_ways=True, counts=False).exists()
    assert all(stream.lag_us is not None for stream in Stream.objects.exclude(event_at=None))


def test_a_list_without_news_changes_nothing(sample_cluster: EmbeddedCluster) -> None:
    cluster = added(sample_cluster)
    began = timezone.now()
    versions: list[int] = []

    def note() -> None:
        versions.append(Cluster.objects.get().mirror_version)

    def quiet() -> bool:
        before = Cluster.objects.get().mirror_version
        time.sleep(0.05)
        return settled(before)

    since = [time.monotonic(), 0.0]

    def settled(version: int) -> bool:
        if version != since[1]:
            since[:] = [time.monotonic(), version]
        # The world moves on for a while after the start; then only heartbeats and repeated Events are left.
        return time.monotonic() - since[0] > 3

    def listed_again() -> bool:
        streams = Stream.objects.exclude(state=Stream.State.NOT_SERVED)
        return all(stream.listed_at and stream.listed_at > began for stream in streams)

    def ask() -> None:
        nonlocal began
        began = timezone.now()
        clusters.request_sync(cluster=cluster, now=began)

    follow(
        cluster,
        lambda: Cluster.objects.get().state == Cluster.State.SYNCED,
        quiet,
        do(note),
        do(ask),
        listed_again,
        do(note),
    )
    assert versions[0] == versions[1]
