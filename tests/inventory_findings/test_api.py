"""Findings, tasks and contracts over REST: the same rules as on the pages."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from inventory.models import Cluster, Device, DiagnosisTask, Finding, PlatformContract
from tests.cast import Cast
from tests.inventory_findings.conftest import look, shown
from tests.inventory_findings.test_pages import OTHERS, READERS, XID, signed_in
from tests.inventory_pages.test_api import token

pytestmark = pytest.mark.django_db
JSON = "application/json"


@pytest.fixture
def finding(healthy: Cluster) -> Finding:
    Device.objects.filter(node_name="gpu-02").update(taints=[XID])
    look(healthy)
    return shown("health-fault")[0]


def paths(finding: Finding) -> list[str]:
    return [
        *("findings/", f"findings/{finding.pk}/", "diagnosis-tasks/"),
        *(f"diagnosis-tasks/{DiagnosisTask.objects.get().pk}/", "clusters/berlin/contract/"),
    ]


@pytest.mark.parametrize("role", [*READERS, *OTHERS])
def test_who_reads(role: str, cast: Cast, finding: Finding) -> None:
    client = signed_in(getattr(cast, role))
    for path in paths(finding):
        assert client.get(f"/api/v1/{path}").status_code == (200 if role in READERS else 403), path


def test_a_token_needs_the_scope(cast: Cast, finding: Finding) -> None:
    for scope, status in (("inventory", 200), ("requests", 403)):
        header = {"Authorization": token(cast.administrator, scope)}
        assert Client().get("/api/v1/findings/", headers=header).status_code == status
    assert Client().get("/api/v1/findings/").status_code == 401


def test_a_finding_is_told_in_codes_and_words(cast: Cast, finding: Finding) -> None:
    (told,) = signed_in(cast.auditor).get("/api/v1/findings/").json()["results"]
    assert (told["kind"], told["code"], told["state"]) == ("health-fault", "health-fault", "new")
    assert told["params"]["taints"] == ["gpu.nvidia.com/xid=43:NoExecute"]
    assert "xid=43" in told["words"]
    assert told["cluster"] == "berlin"


def test_filters(cast: Cast, finding: Finding) -> None:
    client = signed_in(cast.auditor)
    for query, count in (("kind=overlap", 0), ("state=live&severity=bad", 1), ("state=resolved", 0)):
        assert len(client.get(f"/api/v1/findings/?{query}").json()["results"]) == count, query


def test_acknowledge_snooze_reopen(cast: Cast, finding: Finding) -> None:
    client = signed_in(cast.administrator)
    base = f"/api/v1/findings/{finding.pk}/"
    steps: list[tuple[str, dict[str, Any], str]] = [
        ("acknowledge", {"note": "RMA 77"}, "acknowledged"),
        ("snooze", {"days": 3}, "snoozed"),
        ("reopen", {}, "new"),
    ]
    for step, body, state in steps:
        response = client.post(f"{base}{step}/", body, content_type=JSON)
        assert (response.status_code, response.json()["state"]) == (200, state), response.content


@pytest.mark.parametrize(
    ("step", "body", "status"),
    [
        ("acknowledge", {"note": "x" * 1001}, 400),
        ("acknowledge", [1], 400),
        ("snooze", {}, 400),
        ("snooze", {"days": 91}, 400),
        ("snooze", {"days": "soon"}, 400),
    ],
)
def test_bad_input(step: str, body: Any, status: int, cast: Cast, finding: Finding) -> None:
    response = signed_in(cast.administrator).post(
        f"/api/v1/findings/{finding.pk}/{step}/", body, content_type=JSON
    )
    assert response.status_code == status
    assert response["Content-Type"] == "application/problem+json"


def test_what_no_longer_holds_answers_with_a_conflict(cast: Cast, finding: Finding) -> None:
    Finding.objects.update(resolved_at=finding.last_seen_at + timedelta(minutes=1))
    response = signed_in(cast.administrator).post(
        f"/api/v1/findings/{finding.pk}/acknowledge/", {}, content_type=JSON
    )
    assert (response.status_code, response.json()["code"]) == (409, "not_now")


@pytest.mark.parametrize("role", ["auditor", *OTHERS])
def test_only_administrators_change(role: str, cast: Cast, finding: Finding) -> None:
    client = signed_in(getattr(cast, role))
    task = DiagnosisTask.objects.get()
    for method, path in (
        ("post", f"findings/{finding.pk}/acknowledge/"),
        ("post", f"findings/{finding.pk}/snooze/"),
        ("post", f"findings/{finding.pk}/reopen/"),
        ("put", f"diagnosis-tasks/{task.pk}/"),
        ("put", "clusters/berlin/contract/"),
    ):
        assert getattr(client, method)(f"/api/v1/{path}", {}, content_type=JSON).status_code == 403, path


def test_a_task_is_changed(cast: Cast, finding: Finding) -> None:
    client = signed_in(cast.administrator)
    url = f"/api/v1/diagnosis-tasks/{DiagnosisTask.objects.get().pk}/"
    told = client.put(url, {"state": "in-work"}, content_type=JSON).json()
    assert (told["state"], told["owner"]) == ("in-work", "anouk")
    for body, status in (
        ({"state": "lost"}, 400),
        ({"state": "open", "owner": "nobody"}, 400),
        ({"state": "open", "owner": "mina"}, 409),
    ):
        assert client.put(url, body, content_type=JSON).status_code == status, body
    client.put(url, {"state": "done", "note": "reseated"}, content_type=JSON)
    assert client.get("/api/v1/diagnosis-tasks/").json()["results"] == []
    (done,) = client.get("/api/v1/diagnosis-tasks/?state=done").json()["results"]
    assert done["done_at"] is not None


def test_a_contract_is_written_and_compared(cast: Cast, healthy: Cluster) -> None:
    client = signed_in(cast.administrator)
    url = "/api/v1/clusters/berlin/contract/"
    body = {"group": "europe", "kubernetes": ">=1.37", "drivers": {"gpu.nvidia.com": ">=580"}}
    told = client.put(url, body, content_type=JSON).json()
    states = {part["part"]: part["state"] for part in told["parts"]}
    assert states["kubernetes"] == "broken"
    assert states["driver:gpu.nvidia.com"] == "not-observed"
    assert client.get(url).json() == told


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"kubernetes": "newest"}, "kubernetes"),
        ({"group": "Not A Slug"}, "group"),
        ({"drivers": {"gpu.nvidia.com": ""}}, "drivers.gpu.nvidia.com"),
        ({"drivers": {"": "1"}}, "drivers"),
        ({"drivers": {"a": "b"}}, "drivers"),
        ({"drivers": [1]}, "drivers"),
        ({"runtime": "x" * 201}, "runtime"),
    ],
    ids=str,
)
def test_a_contract_names_the_field_at_fault(body: Any, field: str, cast: Cast, healthy: Cluster) -> None:
    response = signed_in(cast.administrator).put("/api/v1/clusters/berlin/contract/", body, content_type=JSON)
    assert response.status_code == 400
    assert response.json()["errors"][0]["field"] == field
    assert not PlatformContract.objects.exists()
