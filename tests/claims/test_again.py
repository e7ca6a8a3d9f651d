"""Asking for the same again: by a request that one may see, and by one that was saved by a name."""

import uuid
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from claims.asks import saved
from claims.asks.again import values_of
from claims.asks.judging import read
from claims.asks.saved import UnableToSave
from claims.models import Request, SavedRequest
from claims.requests import actions as requests
from inventory.models import Cluster, DeviceClass
from portal.accounts.models import AuditEntry, Membership, Project
from tests.claims import catalogue
from tests.claims.conftest import NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.test_api import client_of

JSON = "application/json"


@pytest.fixture(autouse=True)
def reachable(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(requests.submit.__kwdefaults__, "connect", lambda _cluster: fake)  # type: ignore[arg-type]


def signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


# --- as another request -------------------------------------------------------------------------------


def test_a_request_is_read_back_as_it_was_asked(cast: Cast, values: dict[str, Any]) -> None:
    full = values | {
        "expression": 'device.driver == "gpu.nvidia.com"',
        "parts": "1 × a100",
        "tolerations": "maintenance:NoSchedule\nkind=slow",
        "same": "gpu.nvidia.com/productName",
        "count": "2",
    }
    made = requests.submit(user=cast.owner, values=full, now=NOW)
    again = read(values_of(made), user=cast.owner, now=NOW)
    assert again.errors == {}
    assert again.spec == made.spec
    assert (again.duration, again.purpose, again.shape) == (made.duration, made.purpose, made.shape)


def test_the_form_is_filled_in_as_another_request(cast: Cast, request_: Request) -> None:
    page = signed_in(cast.teammate).get(reverse("request-create"), {"like": str(request_.key)})
    form = page.context["form"]
    assert page.status_code == 200
    assert (form["device_class"].value(), form["duration"].value()) == ("h100", "3")
    assert form["purpose"].value() == "Folding of the March set"
    assert form["key"].value() != str(request_.key)
    assert not form.errors


def test_what_is_no_longer_possible_is_told_next_to_its_field(cast: Cast, request_: Request) -> None:
    DeviceClass.objects.filter(name="h100").delete()
    page = signed_in(cast.owner).get(reverse("request-create"), {"like": str(request_.key)})
    form = page.context["form"]
    assert list(form.errors) == ["device_class"]
    assert form["device_class"].value() == "h100"
    assert "(any more)" in page.content.decode()


def test_a_flavor_that_vanished_is_told_and_nothing_is_lost(
    cast: Cast, cluster: Cluster, values: dict[str, Any]
) -> None:
    flavor = catalogue.flavor()
    catalogue.placement(flavor, cluster)
    ask = {name: value for name, value in values.items() if name not in ("device_class", "min_memory")}
    made = requests.submit(user=cast.owner, values=ask | {"flavor": "h100"}, now=NOW)
    flavor.archived_at = NOW
    flavor.save()
    form = signed_in(cast.owner).get(reverse("request-create"), {"like": str(made.key)}).context["form"]
    assert list(form.errors) == ["flavor"]
    assert (form["flavor"].value(), form["count"].value()) == ("h100", "1")


def test_a_strangers_request_does_not_exist(cast: Cast, request_: Request) -> None:
    url = reverse("request-create")
    assert signed_in(cast.stranger).get(url, {"like": str(request_.key)}).status_code == 404
    assert signed_in(cast.owner).get(url, {"like": "none"}).status_code == 404
    answer = client_of(cast.stranger).post(
        reverse("api-request-list"), {"like": str(request_.key)}, content_type=JSON
    )
    assert [error["field"] for error in answer.json()["errors"]] == ["like"]


def test_rest_takes_what_is_left_out_from_another_request(cast: Cast, request_: Request) -> None:
    answer = client_of(cast.owner).post(
        reverse("api-request-list"), {"like": str(request_.key), "count": 2}, content_type=JSON
    )
    assert answer.status_code == 201, answer.json()
    told = answer.json()
    assert (told["device_class"], told["count"], told["duration_hours"]) == ("h100", 2, 72)
    assert told["key"] != str(request_.key)


# --- saved by a name ----------------------------------------------------------------------------------


def test_a_form_is_saved_complete_or_not_and_asks_for_nothing(cast: Cast, values: dict[str, Any]) -> None:
    client = signed_in(cast.owner)
    typed = values | {
        "purpose": "",
        "save_name": " Night  run ",
        "save_project": "",
        "key": str(uuid.uuid4()),
    }
    answer = client.post(reverse("saved-create"), typed)
    assert (answer.status_code, answer["Location"]) == (303, reverse("saved-list"))
    kept = SavedRequest.objects.get()
    assert (kept.name, kept.project, kept.values["device_class"]) == ("Night run", None, "h100")
    assert not Request.objects.exists()
    assert AuditEntry.objects.get().action == "savedrequest.add"
    form = client.get(reverse("request-create"), {"saved": str(kept.key)}).context["form"]
    assert form["device_class"].value() == "h100"
    assert list(form.errors) == ["purpose"]


def test_what_cannot_be_saved_is_told_and_nothing_typed_is_lost(cast: Cast, values: dict[str, Any]) -> None:
    typed = values | {"save_name": "", "save_project": "weather-models", "purpose": "x\x01"}
    page = signed_in(cast.owner).post(reverse("saved-create"), typed)
    assert page.status_code == 422
    assert set(page.context["saving"].errors) == {"save_name", "save_project"}
    assert list(page.context["form"].errors) == ["purpose"]
    assert page.context["form"]["min_memory"].value() == "40Gi"
    assert not SavedRequest.objects.exists()


def test_names_are_unique_for_a_person_and_for_a_project(cast: Cast, project: Project) -> None:
    def keep(user: Any, shared: str) -> SavedRequest:
        return saved.save(user=user, name="Night", project=shared, values={"count": 1}, now=NOW)

    for user, shared in ((cast.owner, ""), (cast.teammate, ""), (cast.owner, project.slug)):
        keep(user, shared)
    for user, shared in ((cast.owner, ""), (cast.teammate, project.slug)):
        with pytest.raises(UnableToSave) as refused:
            keep(user, shared)
        assert list(refused.value.errors) == ["name"]


def test_a_shared_one_is_used_by_members_and_changed_by_owner_and_leads(
    cast: Cast, values: dict[str, Any], project: Project
) -> None:
    kept = saved.save(user=cast.owner, name="Night", project=project.slug, values=values, now=NOW)
    own = saved.save(user=cast.owner, name="Mine", project="", values=values, now=NOW)
    edit, delete = (reverse(name, args=[kept.key]) for name in ("saved-edit", "saved-delete"))
    seen = {
        user.username: [row.name for row in signed_in(user).get(reverse("saved-list")).context["rows"]]
        for user in (cast.owner, cast.teammate, cast.stranger, cast.finance, cast.auditor)
    }
    assert seen == {
        "rhea": ["Mine", "Night"], "theo": ["Night"], "stan": [], "finn": [], "audrey": ["Night"],
    }  # fmt: skip
    codes = {
        user.username: signed_in(user).get(edit).status_code
        for user in (cast.owner, cast.teammate, cast.lead, cast.stranger, cast.admin, cast.auditor)
    }
    assert codes == {"rhea": 200, "theo": 403, "leo": 200, "stan": 404, "ada": 200, "audrey": 403}
    assert signed_in(cast.admin).get(reverse("saved-edit", args=[own.key])).status_code == 404
    keep_it = signed_in(cast.lead).post(edit, {"save_name": "Night", "save_project": ""})
    assert list(keep_it.context["form"].errors) == ["save_project"]
    signed_in(cast.lead).post(edit, {"save_name": "Evening", "save_project": project.slug})
    kept.refresh_from_db()
    assert kept.name == "Evening"
    assert signed_in(cast.lead).post(delete).status_code == 303
    assert [row.name for row in SavedRequest.objects.all()] == ["Mine"]


def test_who_has_left_the_project_no_longer_has_what_is_shared_with_it(
    cast: Cast, values: dict[str, Any], project: Project
) -> None:
    kept = saved.save(user=cast.owner, name="Night", project=project.slug, values=values, now=NOW)
    Membership.objects.filter(user=cast.owner).delete()
    assert signed_in(cast.owner).get(reverse("saved-edit", args=[kept.key])).status_code == 404


def test_rest_keeps_lists_uses_renames_and_deletes(cast: Cast, values: dict[str, Any]) -> None:
    client = client_of(cast.owner)
    structured = values | {"parts": [{"device_class": "a100", "count": 1}], "share": {}}
    body = {"name": "Night", "values": structured}
    made = client.post(reverse("api-saved-list"), body, content_type=JSON)
    assert made.status_code == 201, made.json()
    key = made.json()["key"]
    assert made.json()["values"]["parts"] == "1 × a100"
    url = reverse("api-saved-detail", args=[key])
    assert [row["name"] for row in client.get(reverse("api-saved-list")).json()["results"]] == ["Night"]
    asked = client.post(reverse("api-request-list"), {"saved": key, "purpose": "Again"}, content_type=JSON)
    assert asked.status_code == 201, asked.json()
    assert asked.json()["options"]["parts"] == [{"device_class": "a100", "count": 1}]
    renamed = client.put(url, {"name": "Day", "project": "protein-folding"}, content_type=JSON)
    assert (renamed.json()["name"], renamed.json()["project"]) == ("Day", "protein-folding")
    assert client_of(cast.teammate).delete(url).status_code == 403
    assert client.delete(url).status_code == 204
    assert client.get(url).status_code == 404


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"name": "x", "values": []}, {"values"}),
        ({"name": "", "values": {}}, {"name"}),
        ({"name": "x" * 81, "values": {}}, {"name"}),
        ({"name": "\u202eevil", "values": {}}, {"name"}),
        ({"name": ["x"], "values": {}}, {"name"}),
        ({"name": "x", "project": "nowhere", "values": {}}, {"project"}),
        ({"name": "x", "values": {"purpose": "a\x00b"}}, {"purpose"}),
        ({"name": "x", "values": {"expression": "1" * 13_000}}, {"expression"}),
        ({"name": "x", "values": {"parts": [1, None], "alternatives": {"a": 1}}}, set()),
    ],
)
def test_garbage_is_told_by_its_field(cast: Cast, body: dict[str, Any], fields: set[str]) -> None:
    answer = client_of(cast.owner).post(reverse("api-saved-list"), body, content_type=JSON)
    assert {error["field"] for error in answer.json().get("errors", [])} == fields
