"""REST of Pods' devices: who may write a report, who reads which nodes do."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from inventory.cdi import tokens as cdi_tokens
from inventory.models import Cluster, PodDevice, PodDeviceNode, PodDeviceToken
from inventory.podresources import tokens
from portal.accounts.models import User
from portal.accounts.tokens import issue_token
from tests.inventory_pages.conftest import Cast
from tests.inventory_podresources.conftest import GPU, Issue, pod_devices, report

INTAKE = "/api/v1/pod-devices/reports/"
NODES = "/api/v1/pod-devices/nodes/"
TOKENS = "/api/v1/pod-devices/tokens/"


def post(plain: str, body: bytes) -> Any:
    headers = {"authorization": f"Bearer {plain}"} if plain else {}
    return Client(headers=headers).post(INTAKE, body, content_type="application/json")


def personal(user: User, scope: str = "inventory") -> str:
    now, lifetime = timezone.now(), timedelta(days=1)
    return issue_token(user=user, name="t", scopes=[scope], lifetime=lifetime, now=now)[1]


def get(path: str, plain: str) -> Any:
    return Client().get(path, HTTP_AUTHORIZATION=f"Bearer {plain}")


def test_a_node_reports_with_its_token(issue: Issue) -> None:
    _token, plain = issue()
    response = post(plain, report(pod_devices("train-0", GPU)))
    assert response.status_code == 200
    assert response.json()["changed"] is True
    assert PodDevice.objects.get().device_id == GPU


def test_each_sort_of_report_has_tokens_of_its_own(issue: Issue, cluster: Cluster) -> None:
    _token, plain = issue()
    other = cdi_tokens.issue(cluster=cluster, node_name="gpu-01", actor=None, now=timezone.now())[1]
    assert post(other, report()).status_code == 401
    response = Client().post(
        "/api/v1/cdi/reports/", b"{}", content_type="application/json", HTTP_AUTHORIZATION=f"Bearer {plain}"
    )
    assert response.status_code == 401
    assert get(NODES, plain).status_code == 401


def test_whatever_is_wrong_with_a_token_is_told_alike(issue: Issue, cast: Cast) -> None:
    token, revoked = issue()
    tokens.revoke(token=token, actor=None, now=timezone.now())
    _token, expired = issue(now=timezone.now() - timedelta(days=2), lifetime=timedelta(days=1))
    answers = {post(plain, report()).content for plain in (revoked, expired, "pdnode_unknown")}
    assert json.loads(answers.pop())["code"] == "token_unknown"
    assert not answers
    assert post(personal(cast.administrator), report()).status_code == 401


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "malformed"),
        (b"[" * 300_000, 400, "malformed"),
        (b"x" * (1024 * 1024 + 1), 413, "too_large"),
        (report(node="gpu-02"), 403, "wrong_node"),
    ],
)
def test_refusals_are_problem_documents(issue: Issue, body: bytes, status: int, code: str) -> None:
    _token, plain = issue()
    response = post(plain, body)
    assert (response.status_code, response.json()["code"]) == (status, code)
    assert response["Content-Type"] == "application/problem+json"


def test_reports_without_pause_are_slowed_down(issue: Issue) -> None:
    _token, plain = issue()
    assert post(plain, report()).status_code == 200
    response = post(plain, report())
    assert (response.status_code, response.json()["code"]) == (429, "too_often")
    assert int(response["Retry-After"]) >= 1


def test_which_nodes_tell_is_read_by_everybody(issue: Issue, cast: Cast) -> None:
    _token, plain = issue()
    post(plain, report(pod_devices("train-0", GPU)))
    issue("gpu-02")
    PodDeviceNode.objects.filter(name="gpu-01").update(received_at=timezone.now() - timedelta(hours=1))
    silent, never = get(NODES, personal(cast.stranger)).json()["results"]
    assert (silent["node"], silent["state"], silent["devices"]) == ("gpu-01", "silent", 1)
    assert (never["node"], never["state"], never["due_at"]) == ("gpu-02", "never", None)
    assert get(f"{NODES}?node=gpu-02&source=podresources", personal(cast.owner)).json()["results"] == [never]
    assert get(f"{NODES}?source=dcgm", personal(cast.owner)).json()["results"] == []


def test_administrators_issue_and_revoke_tokens(cluster: Cluster, cast: Cast) -> None:
    bearer = f"Bearer {personal(cast.administrator, 'administration')}"
    client, body = Client(headers={"authorization": bearer}), {"cluster": "berlin", "node": "gpu-07"}
    made = client.post(TOKENS, body, content_type="application/json")
    assert made.status_code == 201
    assert post(made.json()["token"], report(node="gpu-07")).status_code == 200
    (listed,) = client.get(TOKENS).json()["results"]
    assert (listed["node"], "token" in listed) == ("gpu-07", False)
    assert client.delete(f"{TOKENS}{listed['id']}/").status_code == 204
    assert PodDeviceToken.objects.get().revoked_at is not None
    assert post(made.json()["token"], report(node="gpu-07")).status_code == 401
