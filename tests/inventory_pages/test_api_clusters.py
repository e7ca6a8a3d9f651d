"""REST over clusters beyond reading: list anew, check, follow or not; and what could not be read."""

from typing import Any

import pytest
from django.utils import timezone

from inventory import clusters
from inventory.models import ClaimTemplate, Cluster, SchedulingWorkload, SyncProblem
from portal.accounts.models import AuditEntry
from portal.kube.errors import Unreachable
from tests.inventory_pages.conftest import INSIDERS, OUTSIDERS, Cast, Fleet

OTHERS = tuple(role for role in (*INSIDERS, *OUTSIDERS) if role != "administrator")
URL = "/api/v1/clusters/berlin/"


def send(cast: Cast, role: str, method: str, path: str, body: Any = None) -> Any:
    call = getattr(cast.client(role), method)
    return call(URL + path, body or {}, content_type="application/json")


def test_sync_now(cast: Cast, cluster: Cluster) -> None:
    response = send(cast, "administrator", "post", "sync/")
    assert response.status_code == 202
    cluster.refresh_from_db()
    assert cluster.relist_requested_at is not None
    assert AuditEntry.objects.filter(action="cluster.sync", actor=cast.administrator).exists()


def test_what_is_not_followed_cannot_be_listed_anew(cast: Cast, cluster: Cluster) -> None:
    assert send(cast, "administrator", "put", "followed/", {"enabled": False}).status_code == 200
    response = send(cast, "administrator", "post", "sync/")
    assert (response.status_code, response.json()["code"]) == (409, "not_followed")
    assert send(cast, "administrator", "put", "followed/", {"enabled": True}).json()["enabled"] is True
    cluster.refresh_from_db()
    assert cluster.state == Cluster.State.SYNCING
    assert AuditEntry.objects.filter(action__in=["cluster.disable", "cluster.enable"]).count() == 2


def test_following_is_yes_or_no(cast: Cast, cluster: Cluster) -> None:
    response = send(cast, "administrator", "put", "followed/", {"enabled": "perhaps"})
    assert response.status_code in {400, 422}
    assert "enabled" in str(response.json())


def test_a_check_tells_what_the_cluster_says(
    cast: Cast, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = clusters.Introduction("https://x", "v1.36.2", "uid", {"pods": "v1"}, ["list pods"])
    monkeypatch.setattr(clusters, "connect", lambda **_: told)
    assert send(cast, "administrator", "post", "check/").json() == {
        "cluster": "berlin",
        "server_version": "v1.36.2",
        "served": {"pods": "v1"},
        "missing_permissions": ["list pods"],
    }


def test_a_check_that_fails_says_why(cast: Cast, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(**_: object) -> None:
        raise Unreachable("nobody answers there")

    monkeypatch.setattr(clusters, "connect", fail)
    response = send(cast, "administrator", "post", "check/")
    assert response.status_code == 502
    assert "nobody answers there" in response.json()["detail"]
    cluster.refresh_from_db()
    assert cluster.state == Cluster.State.UNREACHABLE


@pytest.mark.parametrize("role", OTHERS)
def test_only_administrators_do_it(role: str, cast: Cast, cluster: Cluster) -> None:
    for method, path in (("post", "sync/"), ("post", "check/"), ("put", "followed/")):
        assert send(cast, role, method, path, {"enabled": False}).status_code == 403
    cluster.refresh_from_db()
    assert cluster.enabled
    assert cluster.relist_requested_at is None


def test_a_cluster_that_there_is_not(cast: Cast, cluster: Cluster) -> None:
    client = cast.client("administrator")
    for method, path in (("post", "sync/"), ("post", "check/"), ("put", "followed/")):
        call = getattr(client, method)
        url = f"/api/v1/clusters/nowhere/{path}"
        assert call(url, {"enabled": True}, content_type="application/json").status_code == 404


# --- what could not be read -------------------------------------------------------------------------


@pytest.fixture
def problems(cluster: Cluster) -> None:
    for resource, namespace, name in (("nodes", "", "odd"), ("pods", "protein-folding", "secret-pod")):
        SyncProblem.objects.create(
            cluster=cluster, resource=resource, namespace=namespace, name=name, path="spec.x",
            reason="no number", seen_at=timezone.now(),
        )  # fmt: skip


@pytest.mark.parametrize("role", [*INSIDERS, *OUTSIDERS])
def test_problems_are_told_and_of_projects_only_to_those_who_read_everything(
    role: str, cast: Cast, problems: None
) -> None:
    found = cast.client(role).get("/api/v1/sync-problems/").json()["results"]
    assert {row["resource"]: row["name"] for row in found} == {
        "nodes": "odd",
        "pods": "secret-pod" if role in {"administrator", "auditor"} else "",
    }
    only = cast.client(role).get("/api/v1/sync-problems/?resource=nodes").json()["results"]
    assert [row["path"] for row in only] == ["spec.x"]


def test_streams_count_their_problems(cast: Cast, problems: None) -> None:
    told = cast.client("stranger").get(URL).json()
    assert {s["resource"]: s["problems"] for s in told["streams"] if s["problems"]} == {"nodes": 1, "pods": 1}
    html = cast.client("stranger").get("/clusters/berlin/").content.decode()
    assert html.count("1 object could not be read") == 2


def test_rights_that_are_missing_are_told_to_those_who_can_do_something(cast: Cast, cluster: Cluster) -> None:
    Cluster.objects.update(missing_permissions=["list pods"])
    cluster.streams.filter(resource="pods").update(message="forbidden")
    for role, rights, message in (("auditor", ["list pods"], "forbidden"), ("owner", [], "")):
        told = cast.client(role).get(URL).json()
        streams = {stream["resource"]: stream for stream in told["streams"]}
        assert (told["missing_permissions"], streams["pods"]["message"]) == (rights, message)


# --- more of what surrounds devices -----------------------------------------------------------------


def test_templates_and_workloads_are_listed_for_their_people(cast: Cast, fleet: Fleet) -> None:
    mirrored = {"cluster": fleet.cluster, "namespace": "protein-folding", "uid": "u", "resource_version": "1"}
    ClaimTemplate.objects.create(name="each", spec={"devices": {}}, **mirrored)
    SchedulingWorkload.objects.create(name="plan", controller_kind="Job", **mirrored)
    for url, name in (("claim-templates", "each"), ("scheduling-workloads", "plan")):
        (row,) = cast.client("owner").get(f"/api/v1/{url}/").json()["results"]
        assert row["name"] == name
        assert cast.client("stranger").get(f"/api/v1/{url}/").json()["results"] == []
