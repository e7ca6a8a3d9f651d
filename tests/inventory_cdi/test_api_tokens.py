"""Tokens of nodes over REST: administrators issue and revoke them, and see their text once."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from inventory.cdi import tokens
from inventory.models import CdiToken, Cluster
from portal.accounts.models import AuditEntry, User
from portal.accounts.tokens import issue_token
from tests.inventory_cdi.conftest import Issue, report
from tests.inventory_pages.conftest import Cast

URL = "/api/v1/cdi/tokens/"
OTHERS = ("owner", "lead", "stranger", "finance", "auditor")


def personal(user: User, *scopes: str) -> str:
    """The header of a person's API token."""
    now = timezone.now()
    plain = issue_token(user=user, name="t", scopes=list(scopes), lifetime=timedelta(days=1), now=now)[1]
    return f"Bearer {plain}"


@pytest.fixture
def ada(cast: Cast) -> Client:
    return cast.client("administrator")


def issue(client: Client, **body: Any) -> Any:
    asked = {"cluster": "berlin", "node": "gpu-01"} | body
    return client.post(URL, asked, content_type="application/json")


def test_an_administrator_issues_a_token_that_opens_the_intake(ada: Client, cluster: Cluster) -> None:
    response = issue(ada, days=30)
    assert response.status_code == 201
    assert response["Cache-Control"] == "no-store"
    told = response.json()
    assert (told["cluster"], told["node"], told["state"], told["created_by"]) == (
        "berlin", "gpu-01", "active", "ada",
    )  # fmt: skip
    answer = Client().post(
        "/api/v1/cdi/reports/",
        report(),
        content_type="application/json",
        HTTP_AUTHORIZATION=f"Bearer {told['token']}",
    )
    assert answer.status_code == 200
    lifetime = CdiToken.objects.get().expires_at - CdiToken.objects.get().created_at
    assert lifetime == timedelta(days=30)
    assert AuditEntry.objects.filter(action="cdi-token.create", actor__username="ada").exists()


def test_its_text_is_shown_once(ada: Client, cluster: Cluster) -> None:
    made = issue(ada).json()
    for url in (URL, f"{URL}{made['id']}/"):
        text = ada.get(url).content.decode()
        assert made["prefix"] in text
        assert made["token"] not in text
        assert CdiToken.objects.get().digest not in text


def test_a_revoked_token_opens_nothing_and_stays_in_the_list(ada: Client, cluster: Cluster) -> None:
    made = issue(ada).json()
    for _again in range(2):
        assert ada.delete(f"{URL}{made['id']}/").status_code == 204
    assert tokens.find(made["token"], now=timezone.now()) is None
    assert [row["state"] for row in ada.get(URL).json()["results"]] == ["revoked"]
    assert AuditEntry.objects.filter(action="cdi-token.revoke").count() == 1


def test_lists_are_narrowed(ada: Client, cluster: Cluster, issue: Issue) -> None:
    old, _plain = issue()
    CdiToken.objects.filter(pk=old.pk).update(
        created_at=timezone.now() - timedelta(days=9), expires_at=timezone.now() - timedelta(days=1)
    )
    made = ada.post(URL, {"cluster": "berlin", "node": "gpu-02"}, content_type="application/json").json()

    def found(query: str) -> list[int]:
        return [row["id"] for row in ada.get(f"{URL}?{query}").json()["results"]]

    assert found("") == [made["id"], old.pk]
    assert found("state=active") == found("node=gpu-02") == [made["id"]]
    assert found("state=expired") == found("node=gpu-01") == [old.pk]
    assert found("state=revoked") == found("cluster=oslo") == []
    assert len(found("state=odd&node=%00")) == 2


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"cluster": "oslo"}, "cluster"), ({"node": "UPPER"}, "node"), ({"node": ""}, "node"),
        ({"days": 0}, "days"), ({"days": 367}, "days"), ({"days": "soon"}, "days"),
        ({"cluster": "\x00"}, "cluster"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_by_field(ada: Client, cluster: Cluster, body: Any, field: str) -> None:
    response = issue(ada, **body)
    assert response.status_code in {400, 422}
    assert field in str(response.json())
    assert not CdiToken.objects.exists()


def test_a_node_has_two_tokens_at_most(ada: Client, cluster: Cluster) -> None:
    answers = [issue(ada).status_code for _ in range(3)]
    assert answers[:2] == [201, 201]
    assert answers[2] in {400, 422}


@pytest.mark.parametrize("role", OTHERS)
def test_nobody_else_knows_of_them(role: str, cast: Cast, cluster: Cluster, issue: Issue) -> None:
    token, _plain = issue()
    client = cast.client(role)
    assert client.get(URL).status_code == 403
    assert client.get(f"{URL}{token.pk}/").status_code == 403
    assert client.delete(f"{URL}{token.pk}/").status_code == 403
    body = {"cluster": "berlin", "node": "gpu-07"}
    assert client.post(URL, body, content_type="application/json").status_code == 403
    assert CdiToken.objects.get().revoked_at is None


def test_an_api_token_needs_the_scope(cast: Cast, cluster: Cluster) -> None:
    admin = cast.administrator
    reading, acting = personal(admin, "inventory", "requests"), personal(admin, "administration")
    body = {"cluster": "berlin", "node": "gpu-01"}
    for header, status in ((reading, 403), (acting, 201)):
        answer = Client().post(URL, body, content_type="application/json", HTTP_AUTHORIZATION=header)
        assert answer.status_code == status
    assert Client().get(URL).status_code == 401


def test_what_there_is_not_is_not_found(ada: Client, cluster: Cluster) -> None:
    assert ada.get(f"{URL}999/").status_code == 404
    assert ada.delete(f"{URL}999/").status_code == 404
