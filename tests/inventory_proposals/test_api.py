"""REST of classes and of proposals: what programs may change, and what they are told."""

import json
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from inventory import classes
from inventory.models import ClassProposal, ClassVersion, DeviceClass
from portal.accounts.models import User
from tests.inventory_pages.conftest import Cast, Fleet
from tests.inventory_proposals.builders import AMD
from tests.inventory_proposals.rows import make_proposal
from tests.inventory_proposals.shelf import rules

CLASSES, PROPOSALS = "/api/v1/device-classes/", "/api/v1/class-proposals/"
NAME = "gpu.nvidia.com"
WANTED = rules(AMD)


@pytest.fixture
def ada(cast: Cast, fleet: Fleet) -> APIClient:
    client = APIClient()
    client.force_login(cast.administrator)
    return client


@pytest.fixture
def proposal(cast: Cast, fleet: Fleet) -> ClassProposal:
    other = User.objects.create(username="grace", is_administrator=True)
    return make_proposal(fleet.cluster, other, now=timezone.now(), name=NAME)


def send(client: APIClient, path: str, body: Any, status: int, *, method: str = "post") -> Any:
    response = getattr(client, method)(path, body, format="json")
    assert response.status_code == status, response.content
    return response.json() if response.content else None


# --- proposals ------------------------------------------------------------------------------------------


def test_a_proposal_is_made_read_approved_and_told_in_whole(ada: APIClient, cast: Cast) -> None:
    body = {"name": NAME, "clusters": ["berlin"], "spec": WANTED, "reason": "new cards", "labels": {"a": "b"}}
    made = send(ada, PROPOSALS, body, 201)
    assert (made["state"], made["kind"], made["author"]) == ("open", "edit", cast.administrator.username)
    (target,) = made["targets"]
    assert (target["wanted"], target["wanted_labels"]) == (WANTED, {"a": "b"})
    assert target["effect"]["before"] == 3
    at = f"{PROPOSALS}{made['id']}/"
    assert ada.get(at).json()["moved"] == []
    send(ada, f"{at}comments/", {"comment": "looks good"}, 200)
    told = send(ada, f"{at}approve/", {"revision": 1, "comment": "go"}, 200)
    assert (told["state"], told["approved_by"]) == ("approved", cast.administrator.username)
    assert [entry["kind"] for entry in told["entries"]] == ["proposed", "comment", "approved"]
    assert send(ada, f"{at}approve/", {"revision": 1}, 409)["code"] == "decided"


def test_the_list_is_narrowed_by_state_and_name(ada: APIClient, proposal: ClassProposal) -> None:
    def found(query: str) -> list[int]:
        return [row["id"] for row in ada.get(PROPOSALS + query).json()["results"]]

    assert found("") == found("?state=open") == found(f"?name={NAME}") == [proposal.pk]
    assert found("?state=rejected") == found("?name=%00x") == []


def test_an_approval_of_what_is_outdated_is_a_conflict_that_says_so(
    ada: APIClient, proposal: ClassProposal
) -> None:
    DeviceClass.objects.filter(name=NAME).update(spec=rules("true"))
    at = f"{PROPOSALS}{proposal.pk}/"
    assert ada.get(at).json()["moved"] == ["berlin"]
    problem = send(ada, f"{at}approve/", {"revision": 1}, 409)
    assert problem["code"] == "outdated"
    assert "berlin" in problem["detail"]
    told = send(ada, f"{at}redraw/", {"revision": 1}, 200)
    assert (told["state"], told["revision"], told["moved"]) == ("open", 2, [])
    assert send(ada, f"{at}reject/", {"revision": 1, "comment": "no"}, 409)["code"] == "redrawn"
    assert send(ada, f"{at}reject/", {"revision": 2, "comment": "no"}, 200)["state"] == "rejected"


def test_a_version_is_what_one_goes_back_to(ada: APIClient, fleet: Fleet) -> None:
    version = ClassVersion.objects.create(
        cluster=fleet.cluster, name=NAME, uid="u", resource_version="1", at=timezone.now(), source="desk",
        spec=WANTED,
    )  # fmt: skip
    body = {"name": NAME, "clusters": ["berlin"], "version": version.pk, "reason": "as it was"}
    assert send(ada, PROPOSALS, body, 201)["kind"] == "roll-back"
    for wrong in ({"version": version.pk + 1}, {"version": version.pk, "spec": WANTED}):
        assert send(ada, PROPOSALS, {**body, **wrong}, 422)["errors"][0]["field"] == "version"


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": ""},
        {"name": "a\0b"},
        {"name": "Bad Name"},
        {"clusters": []},
        {"clusters": ["nowhere"]},
        {"clusters": ["berlin", "berlin"]},
        {"clusters": "berlin"},
        {"spec": 7},
        {"spec": {"selectors": "x"}},
        {"spec": {"nodes": []}},
        {"spec": {"selectors": [{"cel": {"expression": "\ud800"}}]}},
        {"spec": {"config": [{"opaque": {"driver": "a.b", "parameters": {"n": 10**30}}}]}},
        {"labels": {"a": 1}},
        {"annotations": {"a\0": "b"}},
        {"version": 10**30},
        {"reason": ""},
        {"reason": "x" * 1001},
        {"take_over": "perhaps"},
    ],
)
def test_nonsense_is_refused_with_its_field(ada: APIClient, wrong: dict[str, Any]) -> None:
    body = {"name": NAME, "clusters": ["berlin"], "spec": WANTED, "reason": "x"}
    if "version" in wrong:
        del body["spec"]
    sent = json.dumps({**body, **wrong})
    response = ada.post(PROPOSALS, sent, content_type="application/json")
    assert response.status_code in (400, 422)
    assert response["Content-Type"] == "application/problem+json"
    assert ClassProposal.objects.count() == 0


def test_a_stopped_roll_out_is_resumed_given_up_and_taken_back(
    ada: APIClient, cast: Cast, fleet: Fleet
) -> None:
    make: dict[str, Any] = {"cluster": fleet.cluster, "author": cast.administrator, "now": timezone.now()}
    stopped = make_proposal(**make, state="failed", step="failed", outcome="conflict")
    at = f"{PROPOSALS}{stopped.pk}/"
    (target,) = ada.get(at).json()["targets"]
    assert (target["outcome"], target["managers"]) == ("conflict", ["helm"])
    assert send(ada, f"{at}resume/", {}, 200)["state"] == "approved"
    assert send(ada, f"{at}give-up/", {}, 409)["code"] == "not_possible"
    applied = make_proposal(**make, name="made.example.org", state="applied", step="done")
    back = send(ada, f"{PROPOSALS}{applied.pk}/roll-back/", {"comment": "too early"}, 200)
    assert (back["kind"], back["undoes"], back["reason"]) == ("roll-back", applied.pk, "too early")


# --- classes --------------------------------------------------------------------------------------------


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """What the domain was asked to write."""
    asked: list[tuple[str, dict[str, Any]]] = []
    for verb in ("create", "update", "delete"):
        monkeypatch.setattr(
            classes, f"{verb}_class", lambda verb=verb, **wanted: asked.append((verb, wanted))
        )
    return asked


def test_classes_are_written_at_once_where_the_rule_lets_them(
    ada: APIClient, written: list[tuple[str, dict[str, Any]]]
) -> None:
    body = {"cluster": "berlin", "name": "big", "spec": WANTED, "reason": "why"}
    assert send(ada, CLASSES, body, 201)["effect"]["after"] == 2
    assert send(ada, CLASSES, {**body, "dry_run": True}, 200)["done"] is False
    at = f"{CLASSES}berlin/{NAME}/"
    send(ada, at, {"spec": WANTED, "resource_version": "7"}, 200, method="put")
    assert send(ada, at, {"spec": WANTED}, 400, method="put")["errors"][0]["field"] == "resource_version"
    assert [(verb, wanted.get("rehearse_only")) for verb, wanted in written] == [
        ("create", False),
        ("create", True),
        ("update", False),
    ]
    assert written[2][1]["seen_version"] == "7"


def test_a_used_class_is_deleted_only_with_its_name(
    ada: APIClient, written: list[tuple[str, dict[str, Any]]]
) -> None:
    at = f"{CLASSES}berlin/{NAME}/"
    problem = send(ada, at, None, 409, method="delete")
    assert problem["code"] == "in_use"
    assert problem["users"]
    assert written == []
    send(ada, f"{at}?confirmed={NAME}&reason=over", None, 204, method="delete")
    assert [verb for verb, _wanted in written] == ["delete"]


def test_where_changes_are_reviewed_writing_is_refused(ada: APIClient, settings: Any) -> None:
    settings.CLASS_REVIEW = "second"
    at = f"{CLASSES}berlin/{NAME}/"
    problem = send(ada, at, {"spec": WANTED, "resource_version": "7"}, 409, method="put")
    assert problem["code"] == "review_required"
    assert send(ada, f"{at}?confirmed={NAME}", None, 409, method="delete")["code"] == "review_required"


def test_the_effect_is_told_for_every_cluster_and_changes_nothing(ada: APIClient) -> None:
    told = send(ada, f"{CLASSES}effect/", {"name": NAME, "clusters": ["berlin"], "spec": None}, 200)
    assert [(row["cluster"], row["exists"], row["effect"]["after"]) for row in told] == [("berlin", True, 0)]
    assert ClassProposal.objects.count() == 0
