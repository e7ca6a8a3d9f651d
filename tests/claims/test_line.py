"""The whole line over HTTP: a request, its objects on a cluster, what the mirror shows, the ledger."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from claims.asks.engine import claim_of
from claims.asks.values import UnableToSubmit
from claims.catalogue.places import places_of
from claims.catalogue.stock import wish_of
from claims.ledger import storage
from claims.ledger.audit import audit
from claims.models import Allocation, Consumer, Request
from claims.requests import actions as requests
from claims.requests import advance, manifests, pursuit, snippets
from claims.requests.in_the_way import in_the_way
from claims.requests.story import story, use_of
from inventory import clusters
from inventory.bindings import bind
from inventory.follow.follower import Follower
from inventory.models import ClassProfile, Cluster, Device, DeviceClass
from inventory.snapshot import fleet
from portal.accounts.models import Project
from portal.dra.cluster import how_many_more
from portal.kube.client import Client
from portal.kube.resources import PODS, RESOURCE_CLAIMS, RESOURCE_QUOTAS
from tests.claims import catalogue
from tests.claims.conftest import IMAGE, Cast
from tests.embedded import EmbeddedCluster

State, Reason = Request.State, Request.Reason
CLASS = "gpu.nvidia.com"
pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def followed(sample_cluster: EmbeddedCluster, project: Project) -> Cluster:
    cluster = clusters.add(
        name="sample", kubeconfig_path=str(sample_cluster.kubeconfig), context="portal", now=timezone.now()
    )
    bind(
        cluster=cluster,
        namespace=project.slug,
        project=project,
        valid_from=timezone.now() - timedelta(days=1),
        now=timezone.now(),
    )
    until(cluster, lambda: Device.objects.exists() and ClassProfile.objects.exists())
    return cluster


def until(cluster: Cluster, reached: Callable[[], bool], *, seconds: float = 30) -> None:
    """Follow the cluster, and do what the tasks do, until something is reached."""
    deadline = time.monotonic() + seconds
    done = False

    def stop() -> bool:
        nonlocal done
        storage.apply(cluster=cluster)
        advance.advance(cluster=cluster, now=timezone.now())
        for pk in Request.objects.all().due(timezone.now()).values_list("pk", flat=True):
            pursuit.pursue(request_id=pk, now=timezone.now(), hold_image=IMAGE)
        done = reached()
        return done or time.monotonic() > deadline

    Follower(
        cluster_id=cluster.pk,
        lease_duration=timedelta(seconds=20),
        full_list_interval=timedelta(minutes=10),
    ).run(should_stop=stop)
    told = list(Request.objects.values_list("state", "reason", "message"))
    assert done, f"not reached in {seconds} s; requests: {told}"


def in_state(request: Request, state: str, reason: str | None = None) -> Callable[[], bool]:
    def reached() -> bool:
        request.refresh_from_db()
        return request.state == state and reason in (None, request.reason)

    return reached


def ask(cast: Cast, **changed: Any) -> Request:
    values = {
        "project": "protein-folding", "cluster": "sample", "device_class": CLASS, "count": 1,
        "min_memory": "70Gi", "shape": "claim", "duration": 2, "duration_unit": "days", "purpose": "The line",
    }  # fmt: skip
    return requests.submit(user=cast.owner, values=values | changed, now=timezone.now())


def run_pod(client: Client, request: Request, name: str) -> None:
    pod = snippets.pod(use_of(request))
    pod["metadata"]["name"] = name
    client.create(PODS, pod, namespace=request.namespace)


def test_from_the_form_to_the_ledger(cast: Cast, followed: Cluster, sample_cluster: EmbeddedCluster) -> None:
    request = ask(cast)
    until(followed, in_state(request, State.WAITING_FOR_POD))
    requests.hold(request=request, user=cast.owner, now=timezone.now())
    until(followed, in_state(request, State.ALLOCATED))
    told = story(request=request, now=timezone.now())
    (device,) = told.devices
    assert "H100" in device.product
    assert device.node

    with administrator(sample_cluster) as client:
        run_pod(client, request, "work")
        until(followed, in_state(request, State.IN_USE))
        requests.release(request=request, user=cast.owner, now=timezone.now())
        until(followed, in_state(request, State.ENDING, Reason.STILL_USED))
        assert request.message == "work"
        assert Allocation.objects.get(request=request).ended_at is None
        client.delete(PODS, "work", namespace=request.namespace)
    until(followed, in_state(request, State.ENDED))
    until(followed, lambda: Allocation.objects.filter(request=request, ended_at=None).count() == 0)
    row = Allocation.objects.get(request=request)
    assert (row.project, row.device_name) == (cast.owner.projects.get(), device.name)
    names = Consumer.objects.filter(claim_uid=row.claim_uid).values_list("name", flat=True)
    assert set(names) == {"work", manifests.hold_name(request.object_name)}
    assert audit(cluster=followed, now=timezone.now()).violations == []


def test_a_template_gives_every_pod_its_own(
    cast: Cast, followed: Cluster, sample_cluster: EmbeddedCluster
) -> None:
    request = ask(cast, shape="template")
    until(followed, in_state(request, State.WAITING_FOR_POD))
    with administrator(sample_cluster) as client:
        for name in ("work-1", "work-2"):
            run_pod(client, request, name)
        until(followed, lambda: story(request=request, now=timezone.now()).allocated == 2)
        until(followed, in_state(request, State.IN_USE))
        until(followed, lambda: Allocation.objects.filter(request=request).count() == 2)
        requests.release(request=request, user=cast.owner, now=timezone.now())
        until(followed, in_state(request, State.ENDING, Reason.STILL_USED))
        for name in ("work-1", "work-2"):
            client.delete(PODS, name, namespace=request.namespace)
    until(followed, in_state(request, State.ENDED))
    until(followed, lambda: not Allocation.objects.filter(request=request, ended_at=None).exists())


def test_a_request_that_fits_nowhere_says_why_in_two_voices(cast: Cast, followed: Cluster) -> None:
    request = ask(cast, count=9)
    until(followed, in_state(request, State.WAITING_FOR_POD))
    requests.hold(request=request, user=cast.owner, now=timezone.now())
    until(followed, in_state(request, State.WAITING_FOR_DEVICE, Reason.NOT_SCHEDULED))
    assert "nodes are available" in request.message
    found = in_the_way(request, viewer=cast.owner, now=timezone.now())
    assert any("no node has 9" in reason for reason in found.reasons)


def test_a_cluster_that_goes_away_while_it_creates_is_met_again(
    cast: Cast, followed: Cluster, sample_cluster: EmbeddedCluster
) -> None:
    request = ask(cast)
    sample_cluster.kill()
    pursuit.pursue(request_id=request.pk, now=timezone.now(), hold_image=IMAGE)
    request.refresh_from_db()
    assert (request.state, request.reason) == (State.CREATING, Reason.RETRYING)
    assert request.message
    with pytest.raises(UnableToSubmit) as refused:
        ask(cast)
    assert list(refused.value.errors) == ["cluster"]
    sample_cluster.start()
    until(followed, in_state(request, State.WAITING_FOR_POD))
    with administrator(sample_cluster) as client:
        assert client.get(RESOURCE_CLAIMS, request.object_name, namespace=request.namespace)


def test_a_quota_is_told_next_to_the_count(
    cast: Cast, followed: Cluster, sample_cluster: EmbeddedCluster
) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "gpus", "namespace": "protein-folding"},
        "spec": {"hard": {f"{CLASS}.deviceclass.resource.k8s.io/devices": "0"}},
    }
    with administrator(sample_cluster) as client:
        client.create(RESOURCE_QUOTAS, quota, namespace="protein-folding")
    # The quota controller counts what is there before it refuses anything.
    until(followed, lambda: _counted(sample_cluster), seconds=10)
    with pytest.raises(UnableToSubmit) as refused:
        ask(cast)
    assert list(refused.value.errors) == ["count"]
    assert "exceeded quota" in refused.value.errors["count"][0]
    assert not Request.objects.exists()


def test_a_claim_that_somebody_deletes_is_told(
    cast: Cast, followed: Cluster, sample_cluster: EmbeddedCluster
) -> None:
    request = ask(cast)

    def seen() -> bool:
        request.refresh_from_db()
        return request.object_seen

    until(followed, seen)
    with administrator(sample_cluster) as client:
        client.delete(RESOURCE_CLAIMS, request.object_name, namespace=request.namespace)
    until(followed, in_state(request, State.FAILED, Reason.DELETED_ELSEWHERE))
    requests.retry(request=request, user=cast.owner, now=timezone.now())
    until(followed, in_state(request, State.WAITING_FOR_POD))


def _counted(cluster: EmbeddedCluster) -> bool:
    with administrator(cluster) as client:
        quota = client.get(RESOURCE_QUOTAS, "gpus", namespace="protein-folding")
    return bool((quota.get("status") or {}).get("hard"))


def administrator(cluster: EmbeddedCluster) -> Client:
    """Somebody with kubectl."""
    row = Cluster(
        credentials=Cluster.Credentials.KUBECONFIG,
        kubeconfig_path=str(cluster.kubeconfig),
        kubeconfig_context="admin",
    )
    return clusters.client_for(row)


def test_the_catalogue_counts_as_the_engine_does(followed: Cluster) -> None:
    """For every class of the sample fleet, cordoned, ill and incomplete pieces among it."""
    made = catalogue.flavor("every")
    for device_class in DeviceClass.objects.filter(cluster=followed, problem="").order_by("name"):
        row = catalogue.placement(made, followed, device_class=device_class.name, pool=device_class.name[:60])
        told = places_of([row], now=timezone.now())[row.pk].stock
        claim = claim_of(manifests.preview_claim(manifests.claim_spec(wish_of(row))))
        room = how_many_more(fleet(followed), claim, limit=10_000)
        assert told.total is not None
        assert told.free == min(room.count, told.total), device_class.name
