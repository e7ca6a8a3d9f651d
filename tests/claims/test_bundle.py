"""The files of a request: what is sent, what to copy, for both ways, ready to be applied."""

from typing import Any

import pytest
import yaml
from django.test import Client
from django.urls import reverse

from claims.models import Placement, Request
from claims.requests import actions as requests
from claims.requests import snippets
from claims.requests.bundle import file_of, ways_of
from inventory.models import Cluster, LocalQueue
from tests.claims import catalogue
from tests.claims.conftest import NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.test_api import client_of

FLAVORED = {"project": "protein-folding", "flavor": "h100", "purpose": "Folding", "duration": 4}


@pytest.fixture
def both(cast: Cast, cluster: Cluster, fake: FakeCluster) -> Request:
    """A request of a flavor that the place serves by DRA and by a Device Plugin."""
    catalogue.placement(
        catalogue.flavor(), cluster, extended_resource="nvidia.com/gpu", node_selector={"pool": "h100"},
        tolerations=[{"key": "gpu", "operator": "Exists"}], stage="dra",
    )  # fmt: skip
    return requests.submit(user=cast.owner, values=FLAVORED, now=NOW, connect=lambda _cluster: fake)


def documents(request: Request, way: int = 0) -> dict[str, Any]:
    return {file.slug: yaml.safe_load(file.text) for file in ways_of(request)[way].files}


def signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_what_is_sent_comes_first_in_the_version_that_the_cluster_serves(
    request_: Request, cluster: Cluster
) -> None:
    assert list(documents(request_)) == ["claim", "pod", "job", "jupyterhub"]
    cluster.served = {"resourceclaims": "resource.k8s.io/v1beta1"}
    cluster.save()
    request_.refresh_from_db()
    claim = documents(request_)["claim"]
    assert claim["apiVersion"] == "resource.k8s.io/v1beta1"
    assert claim["spec"]["devices"]["requests"][0]["deviceClassName"] == "h100"


def test_every_file_for_kubectl_names_itself_and_its_namespace(request_: Request) -> None:
    for file in ways_of(request_)[0].files:
        if file.kubectl:
            metadata = yaml.safe_load(file.text)["metadata"]
            assert metadata["name"].startswith(request_.object_name)
            assert metadata["namespace"] == "protein-folding"


def test_both_ways_stand_side_by_side(both: Request) -> None:
    used, other = ways_of(both)
    assert [(way.backend, way.used) for way in (used, other)] == [("dra", True), ("device-plugin", False)]
    pod = documents(both, 1)["pod"]
    assert pod["spec"]["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": "1"}}
    assert pod["spec"]["nodeSelector"] == {"pool": "h100"}
    assert "claim" not in documents(both, 1)


def test_what_a_device_plugin_serves_shows_the_claim_that_it_would_be(
    cast: Cast, both: Request, cluster: Cluster, fake: FakeCluster
) -> None:
    Placement.objects.update(stage="device-plugin")
    catalogue.units(cluster)
    made = requests.submit(user=cast.owner, values=FLAVORED, now=NOW, connect=lambda _cluster: fake)
    used, other = ways_of(made)
    assert (used.backend, other.backend) == ("device-plugin", "dra")
    assert "claim" not in documents(made)
    claim = documents(made, 1)["claim"]
    assert claim["spec"]["devices"]["requests"][0]["exactly"]["deviceClassName"] == "h100"
    assert documents(made, 1)["pod"]["spec"]["resourceClaims"][0]["resourceClaimName"] == made.object_name


def test_a_request_without_flavor_or_with_options_has_one_way(
    request_: Request, both: Request, cast: Cast, fake: FakeCluster
) -> None:
    assert len(ways_of(request_)) == 1
    both.options = {"parts": [{"device_class": "a100", "count": 1}]}
    assert len(ways_of(both)) == 1


def test_queues_of_kueue_are_offered_for_what_it_admits(request_: Request, cluster: Cluster) -> None:
    for name in ("night", "day.long"):
        LocalQueue.objects.create(
            cluster=cluster, namespace="protein-folding", name=name, uid=name, resource_version="1"
        )
    (way,) = ways_of(request_)
    assert way.not_queued.startswith("Kueue admits no claims that Pods share")
    request_.shape = Request.Shape.TEMPLATE
    queued = {slug: job for slug, job in documents(request_).items() if slug.startswith("kueue")}
    assert list(queued) == ["kueue-day.long", "kueue-night"]
    assert queued["kueue-night"]["metadata"]["labels"] == {snippets.QUEUE_LABEL: "night"}
    assert queued["kueue-night"]["spec"]["suspend"] is True
    request_.options = {"queue": "night"}
    assert [slug for slug in documents(request_) if slug.startswith("kueue")] == ["kueue-night"]


def test_a_profile_of_jupyterhub_uses_the_claim(request_: Request, both: Request) -> None:
    (profile,) = documents(request_)["jupyterhub"]["singleuser"]["profileList"]
    override = profile["kubespawner_override"]
    assert override["extra_pod_config"]["resourceClaims"][0]["resourceClaimName"] == request_.object_name
    resources = override["extra_container_config"]["resources"]
    assert resources["claims"] == [{"name": "accelerator"}]
    # KubeSpawner's own would be written over: CPU and memory are said here.
    assert resources["limits"].keys() == {"cpu", "memory"}
    (plugin,) = documents(both, 1)["jupyterhub"]["singleuser"]["profileList"]
    told = plugin["kubespawner_override"]
    assert told["extra_resource_limits"] == {"nvidia.com/gpu": "1"}
    assert told["extra_labels"] == {"claimdesk.io/request": str(both.key)}
    assert told["node_selector"] == {"pool": "h100"}


def test_files_are_downloaded_under_their_names(cast: Cast, both: Request) -> None:
    client = signed_in(cast.teammate)
    page = client.get(reverse("request-manifests", args=[both.key]))
    assert page.status_code == 200
    assert f"{both.object_name}-job.yaml" in page.content.decode()
    for slug in ("claim", "job", "other-pod"):
        answer = client.get(reverse("request-file", args=[both.key, slug]))
        assert answer["Content-Type"].startswith("application/yaml")
        name = file_of(both, slug).filename  # type: ignore[union-attr] # it is there
        assert answer["Content-Disposition"] == f'attachment; filename="{name}"'
        assert yaml.safe_load(answer.content)["metadata"]["namespace"] == "protein-folding"
    assert client.get(reverse("request-file", args=[both.key, "other-claim"])).status_code == 404
    stranger = signed_in(cast.stranger)
    assert stranger.get(reverse("request-file", args=[both.key, "job"])).status_code == 404


def test_rest_gives_them_ready_for_kubectl(cast: Cast, both: Request) -> None:
    client = client_of(cast.owner)
    listed = client.get(reverse("api-request-files", args=[both.key])).json()
    assert [row["slug"] for row in listed if row["used"]] == ["claim", "pod", "job", "jupyterhub"]
    assert [row["slug"] for row in listed if not row["used"]] == [
        "other-pod", "other-job", "other-jupyterhub",
    ]  # fmt: skip
    one = client.get(reverse("api-request-file", args=[both.key, "job"]))
    assert one["Content-Type"].startswith("application/yaml")
    assert yaml.safe_load(one.content)["kind"] == "Job"
