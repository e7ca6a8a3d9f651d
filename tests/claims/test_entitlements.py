"""Entitlements: Pods are known by the request's key and remembered by their uid; the state follows them."""

from datetime import timedelta
from typing import Any

import pytest
import yaml

from claims.models import Placement, Request, RequestPod
from claims.requests import actions as requests
from claims.requests import advance, pursuit, snippets
from claims.requests.actions import UnableToChange
from claims.requests.manifests import REQUEST_LABEL
from claims.requests.story import story
from inventory.models import Cluster, NamespaceBinding, Pod
from portal.accounts.models import Project
from tests.claims import catalogue
from tests.claims.conftest import IMAGE, NOW, Cast
from tests.claims.fakes import FakeCluster

State = Request.State
ASK = {"project": "protein-folding", "flavor": "h100", "purpose": "Folding", "count": 2}


@pytest.fixture
def entitled(cast: Cast, cluster: Cluster, fake: FakeCluster) -> Request:
    """An entitlement to two units, open to Pods."""
    catalogue.placement(
        catalogue.flavor(), cluster, device_class="", extended_resource="nvidia.com/gpu",
        node_selector={"pool": "a"},
    )  # fmt: skip
    made = requests.submit(user=cast.owner, values=ASK, now=NOW, connect=lambda _cluster: fake)
    pursuit.pursue(request_id=made.pk, now=NOW, hold_image=IMAGE, connect=lambda _cluster: fake)
    made.refresh_from_db()
    return made


def pod(request: Request, name: str = "work", **columns: Any) -> Pod:
    values: dict[str, Any] = {
        "namespace": request.namespace,
        "labels": {REQUEST_LABEL: str(request.key)},
        "extended_resources": {"nvidia.com/gpu": 2},
        "phase": "Running" if columns.get("node_name") else "Pending",
        "resource_version": "1",
    }
    made, _new = Pod.objects.update_or_create(
        cluster=request.cluster, uid=f"uid-{name}", name=name, defaults=values | columns
    )
    return made


def state(request: Request) -> str:
    advance.advance(cluster=request.cluster, now=NOW)
    request.refresh_from_db()
    return request.state


def test_the_state_follows_its_pods_to_the_end(cast: Cast, entitled: Request, fake: FakeCluster) -> None:
    assert entitled.state == State.WAITING_FOR_POD
    assert fake.names("resourceclaims") == fake.names("pods") == []
    pod(entitled, unschedulable_message="0/2 nodes are available: 2 Insufficient nvidia.com/gpu.")
    assert state(entitled) == State.WAITING_FOR_DEVICE
    assert "Insufficient nvidia.com/gpu" in entitled.message
    assert entitled.asked_at == NOW
    pod(entitled, node_name="node-h100", scheduled_at=NOW)
    assert state(entitled) == State.IN_USE
    assert (entitled.allocated_at, entitled.expires_at) == (NOW, NOW + entitled.duration)
    requests.release(request=entitled, user=cast.owner, now=NOW)
    pursuit.pursue(request_id=entitled.pk, now=NOW, hold_image=IMAGE, connect=lambda _cluster: fake)
    assert state(entitled) == State.ENDING
    assert (entitled.reason, entitled.message) == ("still-used", "work")
    pod(entitled, node_name="node-h100", phase="Succeeded")
    assert state(entitled) == State.ENDED


def test_a_pod_is_remembered_by_its_uid(entitled: Request) -> None:
    pod(entitled, node_name="node-h100")
    assert state(entitled) == State.IN_USE
    Pod.objects.update(labels={})
    assert state(entitled) == State.IN_USE
    assert RequestPod.objects.get().pod_uid == "uid-work"


@pytest.mark.parametrize(
    "columns",
    [
        {"namespace": "weather-models"},
        {"extended_resources": {"amd.com/gpu": 1}},
        {"extended_resources": {}},
        {"labels": {REQUEST_LABEL: "somebody-elses"}},
        {"labels": {}},
    ],
)
def test_a_pod_that_is_not_its_own_changes_nothing(entitled: Request, columns: dict[str, Any]) -> None:
    pod(entitled, node_name="node-h100", **columns)
    assert state(entitled) == State.WAITING_FOR_POD
    assert not RequestPod.objects.exists()


def test_the_key_of_a_request_says_nothing_once_its_namespace_is_anothers(
    entitled: Request, other_project: Project
) -> None:
    """Else who has the namespace now would use it up on the account of who had it."""
    until = NOW + timedelta(hours=1)
    NamespaceBinding.objects.filter(namespace=entitled.namespace).update(valid_until=until)
    NamespaceBinding.objects.create(
        cluster=entitled.cluster, namespace=entitled.namespace, project=other_project, valid_from=until
    )
    pod(entitled, "forged", node_name="node-h100", created_at=until)
    assert state(entitled) == State.WAITING_FOR_POD
    assert not RequestPod.objects.exists()
    # A clock that is behind does not make it older than what it was made for.
    pod(entitled, "late", node_name="node-h100", created_at=NOW - timedelta(days=90))
    pod(entitled, "own", node_name="node-h100", created_at=until - timedelta(seconds=1))
    assert state(entitled) == State.IN_USE
    assert set(RequestPod.objects.values_list("pod_name", flat=True)) == {"late", "own"}


def test_it_can_be_neither_held_nor_costed(cast: Cast, entitled: Request) -> None:
    with pytest.raises(UnableToChange, match="cannot be held"):
        requests.hold(request=entitled, user=cast.owner, now=NOW)
    told = story(request=entitled, now=NOW)
    assert not told.may_hold
    assert told.manifest == ""


def test_the_lines_to_copy_ask_for_the_units_and_carry_the_key(entitled: Request) -> None:
    told = story(request=entitled, now=NOW)
    lines = yaml.safe_load(told.snippet)
    assert lines["metadata"]["labels"] == {REQUEST_LABEL: str(entitled.key)}
    assert lines["spec"]["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": "2"}}
    assert lines["spec"]["nodeSelector"] == {"pool": "a"}
    assert "resourceClaims" not in lines["spec"]
    job = yaml.safe_load(told.job)
    assert job["spec"]["template"]["metadata"]["labels"] == {REQUEST_LABEL: str(entitled.key)}
    assert yaml.safe_load(told.workload)["metadata"]["labels"] == {REQUEST_LABEL: str(entitled.key)}


def test_it_ends_when_its_time_is_over(entitled: Request) -> None:
    pod(entitled, node_name="node-h100", scheduled_at=NOW)
    state(entitled)
    Placement.objects.all().delete()
    advance.advance(cluster=entitled.cluster, now=NOW + entitled.duration)
    entitled.refresh_from_db()
    assert (entitled.state, entitled.end_reason) == (State.ENDING, "expired")


# --- snippets ---------------------------------------------------------------------------------------


def test_a_job_for_kueue_is_suspended_and_names_its_queue() -> None:
    use = snippets.Use(object_name="folding-7f3c9a1e", namespace="ns", shape="template")
    job = snippets.kueue_job(use, queue="gpus")
    assert job["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "gpus"}
    assert job["spec"]["suspend"] is True
    claims = job["spec"]["template"]["spec"]["resourceClaims"]
    assert claims == [{"name": "accelerator", "resourceClaimTemplateName": "folding-7f3c9a1e"}]


@pytest.mark.parametrize(
    ("shape", "devices", "refused"),
    [
        ("claim", {}, "claim"),
        ("entitlement", {}, ""),
        ("template", {"requests": [{"name": "a", "exactly": {}}]}, ""),
        ("template", {"requests": [{"name": "a", "firstAvailable": []}]}, "alternatives"),
        ("template", {"requests": [], "constraints": [{}]}, "constraints"),
        ("template", {"requests": [], "config": [{}]}, "config"),
        ("template", {"requests": [{"name": "a", "exactly": {"adminAccess": True}}]}, "admin-access"),
    ],
)
def test_what_kueue_does_not_admit_is_known(shape: str, devices: dict[str, Any], refused: str) -> None:
    assert snippets.kueue_refuses(shape, {"devices": devices}) == refused
