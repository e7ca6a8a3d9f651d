"""REST over Pods, claims, work and namespaces: the same eyes as the pages."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from inventory.models import Claim, Pod
from tests.inventory_pages.conftest import INSIDERS, OUTSIDERS, Cast, Fleet
from tests.inventory_pages.test_inside import NS, job, make_claim, make_pod

__all__ = ["job"]

DETAILS = (
    f"/api/v1/pods/berlin/{NS}/secret-pod/",
    f"/api/v1/claims/berlin/{NS}/secret-claim/",
    f"/api/v1/workloads/berlin/{NS}/Job/train/",
    f"/api/v1/namespaces/berlin/{NS}/",
)
LISTS = ("/api/v1/pods/", "/api/v1/claims/")


def read(cast: Cast, url: str, role: str = "owner") -> Any:
    response = cast.client(role).get(url)
    assert response.status_code == 200, (url, response.content)
    return response.json()


@pytest.mark.parametrize("role", INSIDERS)
def test_the_people_of_the_project_read(job: Fleet, cast: Cast, role: str) -> None:
    for url in DETAILS:
        assert read(cast, url, role)["cluster"] == "berlin"
    for url in LISTS:
        assert len(read(cast, url, role)["results"]) == 2


@pytest.mark.parametrize("role", OUTSIDERS)
def test_for_others_there_is_nothing(job: Fleet, cast: Cast, role: str) -> None:
    for url in DETAILS:
        assert cast.client(role).get(url).status_code == 404
    for url in LISTS:
        assert read(cast, url, role)["results"] == []


@pytest.mark.parametrize(
    "url",
    [
        f"/api/v1/pods/berlin/{NS}/nothing/", f"/api/v1/claims/oslo/{NS}/secret-claim/",
        f"/api/v1/workloads/berlin/{NS}/Job/nothing/", "/api/v1/namespaces/berlin/nothing/",
        "/api/v1/namespaces/berlin/%00/",
    ],
)  # fmt: skip
def test_what_there_is_not_is_not_found(job: Fleet, cast: Cast, url: str) -> None:
    assert cast.client("administrator").get(url).status_code == 404


def test_lists_are_narrowed(job: Fleet, cast: Cast) -> None:
    def names(url: str) -> list[str]:
        return [row["name"] for row in read(cast, url)["results"]]

    assert names("/api/v1/pods/?node=gpu-01") == ["secret-pod"]
    assert names("/api/v1/pods/?phase=Pending") == ["train-1"]
    assert names("/api/v1/pods/?namespace=other") == []
    assert names("/api/v1/claims/?allocated=true") == ["secret-claim"]
    assert names("/api/v1/claims/?allocated=false") == ["waiting-claim"]
    assert len(names("/api/v1/claims/?allocated=perhaps&q=claim")) == 2


def test_a_pod_is_told_with_claims_and_health(job: Fleet, cast: Cast) -> None:
    said = {"container": "c", "resource": "claim:gpu", "device": "d", "health": "Unhealthy", "message": "XID"}
    Pod.objects.filter(name="secret-pod").update(device_health=[said])
    told = read(cast, DETAILS[0])
    assert told["device_health"] == [said]
    assert told["claims"] == [{"entry": "gpu", "claim": "secret-claim", "exists": True, "allocated": True}]
    assert told["events"] == []


def test_a_claim_is_told_with_devices_and_consumers(job: Fleet, cast: Cast) -> None:
    claim = Claim.objects.get(name="secret-claim")
    claim.status["reservedFor"].append({"resource": "podgroups", "name": "gang", "uid": "g"})
    claim.save()
    told = read(cast, DETAILS[1])
    assert [(d["device"], d["device_id"]) for d in told["devices"]] == [(job.held.name, job.held.pk)]
    assert [(c["name"], c["exists"]) for c in told["consumers"]] == [("secret-pod", True), ("gang", None)]


def test_work_and_namespace_are_told_in_numbers(job: Fleet, cast: Cast) -> None:
    work = read(cast, DETAILS[2])
    assert (work["claims_allocated"], work["claims_wanted"], work["pods_placed"], work["pods"]) == (
        1,
        2,
        1,
        2,
    )
    space = read(cast, DETAILS[3])
    assert (space["project"], space["claims"], space["claims_allocated"], space["pods"]) == (NS, 2, 1, 2)
    assert [binding["project"] for binding in space["bindings"]] == [NS]


@pytest.mark.parametrize("url", LISTS)
def test_the_number_of_queries_does_not_grow(job: Fleet, cast: Cast, url: str) -> None:
    client = cast.client("owner")

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            client.get(url)
        return len(captured)

    queries()
    few = queries()
    for number in range(8):
        make_claim(job, f"more-{number}")
        make_pod(job, f"more-{number}", claim_names={"gpu": f"more-{number}"})
    assert queries() <= few
