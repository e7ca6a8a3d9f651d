"""A desk that only looks (CLAIMDESK_READ_ONLY): nothing is written to a cluster, nothing is taken in."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from claims import tasks as claim_tasks
from claims.models import Request
from claims.requests import actions as requests
from inventory import clusters
from inventory.looking import LookingClient, OnlyLooks
from inventory.models import Cluster
from portal.kube import client as kube
from portal.kube import errors
from portal.kube.resources import ACCESS_REVIEWS, DEVICE_CLASSES, PODS, RESOURCE_CLAIMS
from tests.cast import Cast
from tests.pages import fleet

pytestmark = pytest.mark.django_db

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: desk
contexts: [{name: desk, context: {cluster: nowhere, user: desk}}]
clusters: [{name: nowhere, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: desk, user: {token: t}}]
"""


@pytest.fixture(autouse=True)
def looking(settings: Any) -> None:
    settings.READ_ONLY = True


def client_of(cluster: Cluster, tmp_path: Any) -> kube.Client:
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG)
    cluster.credentials, cluster.kubeconfig_path = "kubeconfig", str(path)
    return clusters.client_for(cluster)


def test_no_write_leaves_the_desk(cast: Cast, tmp_path: Any) -> None:
    client = client_of(fleet.cluster(), tmp_path)

    assert isinstance(client, LookingClient)
    writes: list[Callable[[], object]] = [
        lambda: client.create(RESOURCE_CLAIMS, {}, namespace="tides"),
        lambda: client.create(RESOURCE_CLAIMS, {}, namespace="tides", dry_run=True),
        lambda: client.replace(DEVICE_CLASSES, "gpu", {}),
        lambda: client.patch(DEVICE_CLASSES, "gpu", {}),
        lambda: client.apply(DEVICE_CLASSES, "gpu", {}, field_manager="desk"),
        lambda: client.delete(PODS, "hold", namespace="tides"),
    ]
    for write in writes:
        with pytest.raises(OnlyLooks, match="only looks"):
            write()


def test_it_reads_and_asks_what_it_may(cast: Cast, tmp_path: Any) -> None:
    client = client_of(fleet.cluster(), tmp_path)

    reads: list[Callable[[], object]] = [
        lambda: client.get(PODS, "a", namespace="b"),
        lambda: client.create(ACCESS_REVIEWS, {}),
    ]
    for read in reads:
        with pytest.raises(errors.Unreachable) as unreachable:
            read()
        assert not isinstance(unreachable.value, OnlyLooks)


def test_a_request_is_not_taken_and_what_was_typed_stays(client: Client, cast: Cast) -> None:
    fleet.devices(fleet.cluster(), free=1)
    client.force_login(cast.member)

    page = client.post("/requests/new/", {"project": "tides", "purpose": "harmonic analysis"})

    assert page.status_code == 422
    assert "This desk only looks" in page.content.decode()
    assert "harmonic analysis" in page.content.decode()
    assert not Request.objects.exists()


def test_rest_takes_none_either(client: Client, cast: Cast) -> None:
    client.force_login(cast.member)

    answer = client.post("/api/v1/requests/", {"project": "tides"}, content_type="application/json")

    assert answer.status_code == 400
    assert "only looks" in answer.content.decode()


@pytest.mark.parametrize("act", [requests.hold, requests.release, requests.cancel, requests.retry])
def test_requests_of_before_stay_as_they_are(cast: Cast, act: Any) -> None:
    made = fleet.request(cast, state="waiting-for-pod", requester=cast.member)

    with pytest.raises(requests.UnableToChange, match="only looks"):
        act(request=made, user=cast.member, now=timezone.now())

    made.refresh_from_db()
    assert made.state == "waiting-for-pod"


def test_what_is_due_stays_due(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(**_: Any) -> None:
        raise AssertionError("pursued")

    monkeypatch.setattr("claims.requests.pursuit.pursue", never)
    made = fleet.request(cast, state="submitted", requester=cast.member)

    claim_tasks.pursue(request_id=made.pk)


@pytest.mark.parametrize("path", ["/create-class/", "/requests/new/"])
def test_every_page_says_so_and_writing_buttons_say_why(client: Client, cast: Cast, path: str) -> None:
    fleet.devices(fleet.cluster(), free=1)
    client.force_login(cast.administrator)

    page = client.get(path).content.decode()

    assert 'id="cd-looking"' in page
    assert 'disabled title="This desk only looks' in page


@pytest.mark.parametrize("verdict", ["approve", "reject"])
def test_nothing_is_decided(client: Client, cast: Cast, verdict: str) -> None:
    made = fleet.request(cast, state="waiting-for-approval", requester=cast.member, approval="lead")
    client.force_login(cast.lead)

    assert client.post(f"/requests/{made.key}/{verdict}/", {"comment": "so be it"}).status_code == 303
    said = client.get("/approvals/")
    rest = client.post(
        f"/api/v1/requests/{made.key}/{verdict}/", {"comment": "so be it"}, content_type="application/json"
    )

    assert ["only looks" in str(message) for message in said.context["messages"]] == [True]
    assert (rest.status_code, "only looks" in rest.json()["detail"]) == (409, True)
    made.refresh_from_db()
    assert made.state == "waiting-for-approval"
    assert not made.decisions.exists()


@pytest.mark.parametrize(
    ("state", "doing"),
    [("waiting-for-approval", "approve"), ("waiting-for-approval", "cancel"), ("in-use", "release")],
)
def test_what_would_change_a_request_is_not_offered(
    client: Client, cast: Cast, state: str, doing: str
) -> None:
    made = fleet.request(cast, state=state, requester=cast.member, approval="lead")
    client.force_login(cast.lead)

    page = client.get(f"/requests/{made.key}/").content.decode()
    queue = client.get("/approvals/").content.decode()

    words = {"approve": "Approve", "cancel": "Cancel the request", "release": "Release"}
    buttons = [one for one in re.findall(r"<button.*?</button>", page, re.S) if words[doing] in one]
    assert buttons
    assert all('disabled title="This desk only looks' in button for button in buttons)
    assert f'href="/requests/{made.key}/{doing}/"' not in page
    decide = re.findall(r"<button[^>]*formaction[^>]*>", queue)
    assert len(decide) == (3 if state == "waiting-for-approval" else 0)
    assert all("disabled" in button for button in decide)


def test_a_class_is_not_made(client: Client, cast: Cast) -> None:
    fleet.cluster()
    client.force_login(cast.administrator)

    page = client.post(
        "/create-class/",
        {"cluster": "harbour", "name": "big", "expression": ["true"], "save": "1", "config": ""},
    )

    assert "This desk only looks" in page.content.decode()
    assert page.status_code in {200, 422}


def test_otherwise_nothing_is_said(client: Client, cast: Cast, settings: Any, tmp_path: Any) -> None:
    settings.READ_ONLY = False
    client.force_login(cast.administrator)

    assert "cd-looking" not in client.get("/create-class/").content.decode()
    assert type(client_of(fleet.cluster(), tmp_path)) is kube.Client
