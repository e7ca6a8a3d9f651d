"""Quotas and queues, on their page and over REST: what is told to whom."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inventory.models import Cluster, ClusterQueue, LocalQueue, QueuedWorkload, ResourceQuota
from inventory.queues import positions
from tests.inventory_pages.conftest import INSIDERS, OUTSIDERS, Cast, Fleet

NINE = datetime(2026, 3, 1, 9, tzinfo=UTC)


def workload(cluster: Cluster, name: str, *, minutes: int = 0, queue: str = "gpus", **more: Any) -> int:
    made = QueuedWorkload.objects.create(
        cluster=cluster,
        namespace=more.pop("namespace", "ns"),
        name=name,
        uid=f"uid-{name}",
        resource_version="1",
        queue_name=queue,
        queued_at=NINE + timedelta(minutes=minutes),
        **{"state": "pending", **more},
    )
    return made.pk


def line(cluster: Cluster, namespace: str) -> None:
    common = {"cluster": cluster, "uid": "u", "resource_version": "1"}
    ClusterQueue.objects.create(
        **common,
        name="research",
        quotas=[
            {
                "flavor": "h100",
                "resource": "nvidia.com/gpu",
                "nominal": "8",
                "borrowing": "4",
                "lending": None,
            }
        ],
        usage={"h100": {"nvidia.com/gpu": "7"}},
        pending=2,
    )
    LocalQueue.objects.create(**common, name="gpus", namespace=namespace, cluster_queue="research")


@pytest.fixture
def namespace(fleet: Fleet) -> str:
    """A namespace of the project in the cast."""
    from inventory.models import NamespaceBinding

    return NamespaceBinding.objects.filter(cluster=fleet.cluster).values_list("namespace", flat=True)[0]


def test_the_line_is_ordered_by_priority_and_then_by_time(fleet: Fleet) -> None:
    line(fleet.cluster, "ns")
    late = workload(fleet.cluster, "late", minutes=5)
    early = workload(fleet.cluster, "early", minutes=1)
    urgent = workload(fleet.cluster, "urgent", minutes=9, priority=100)
    workload(fleet.cluster, "running", state="admitted")
    lost = workload(fleet.cluster, "lost", queue="no-such-queue")
    places = positions([fleet.cluster.pk])
    assert (places[urgent], places[early], places[late]) == (1, 2, 3)
    assert lost not in places


@pytest.mark.parametrize("role", [*INSIDERS, *OUTSIDERS])
def test_everybody_sees_queues_and_only_insiders_see_who_waits(
    role: str, cast: Cast, fleet: Fleet, namespace: str
) -> None:
    line(fleet.cluster, namespace)
    workload(fleet.cluster, "secret-sweep", namespace=namespace, message="insufficient quota")
    key = "gpu.nvidia.com.deviceclass.resource.k8s.io/devices"
    ResourceQuota.objects.create(
        cluster=fleet.cluster, namespace=namespace, name="secret-quota", uid="q", resource_version="1",
        hard={key: "4", "requests.cpu": "9"}, used={key: "3"}, counted=True,
    )  # fmt: skip
    html = cast.client(role).get("/queues/").content.decode()
    assert "research" in html
    assert "2 waiting" in html
    inside = role in INSIDERS
    for text in ("secret-sweep", "insufficient quota", "secret-quota", key):
        assert (text in html) is inside
    assert "requests.cpu" not in html


@pytest.mark.parametrize("role", ["owner", "stranger"])
def test_rest_tells_the_same_people_the_same(role: str, cast: Cast, fleet: Fleet, namespace: str) -> None:
    line(fleet.cluster, namespace)
    workload(fleet.cluster, "sweep", namespace=namespace)
    client = cast.client(role)
    (queue,) = client.get("/api/v1/cluster-queues/").json()["results"]
    assert queue["shares"][0]["used"] == "7"
    found = client.get("/api/v1/queued-workloads/").json()["results"]
    assert [(w["name"], w["position"]) for w in found] == ([("sweep", 1)] if role == "owner" else [])
    local = client.get("/api/v1/local-queues/").json()["results"]
    assert len(local) == (1 if role == "owner" else 0)


@pytest.mark.parametrize(
    "path",
    [
        *("counted-units", "namespaces", "device-taint-rules", "runtime-classes", "quotas", "jobs"),
        *("pod-groups", "resource-flavors", "cluster-queues", "local-queues", "queued-workloads"),
    ],
)
def test_each_list_is_there_and_asks_who_one_is(path: str, cast: Cast, fleet: Fleet) -> None:
    assert cast.client("anonymous").get(f"/api/v1/{path}/").status_code == 401
    answer = cast.client("stranger").get(f"/api/v1/{path}/?q=x&cluster=berlin&namespace=y")
    assert (answer.status_code, answer.json()["results"]) == (200, [])


def test_there_is_a_page_where_there_is_no_kueue(cast: Cast, fleet: Fleet) -> None:
    html = cast.client("owner").get("/queues/?cluster=nowhere&page=-3").content.decode()
    assert "Kueue is not installed" in html
