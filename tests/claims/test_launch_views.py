"""Launches on pages and by REST: forms keep what was typed, programs get the same messages."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from claims.launches import launching as launches
from claims.launches.templates import create
from claims.launches.terms import read_launch_terms
from claims.models import Launch, LaunchTemplate, Request
from claims.requests import actions as requests
from claims.requests import pursuit
from portal.kube import errors
from tests.claims.conftest import IMAGE, NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.test_api import client_of
from tests.claims.test_launches import TERMS

JSON = "application/json"


@pytest.fixture(autouse=True)
def reachable(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for domain in (requests.submit, launches.start):
        monkeypatch.setitem(domain.__kwdefaults__, "connect", lambda _cluster: fake)  # type: ignore[arg-type]


@pytest.fixture
def template(cast: Cast) -> LaunchTemplate:
    return create(terms=read_launch_terms(TERMS), user=cast.admin, now=NOW)


@pytest.fixture
def live(request_: Request, fake: FakeCluster) -> Request:
    pursuit.pursue(request_id=request_.pk, now=NOW, hold_image=IMAGE, connect=lambda _cluster: fake)
    request_.refresh_from_db()
    return request_


def signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_a_template_is_made_changed_and_archived_on_pages(cast: Cast) -> None:
    client = signed_in(cast.admin)
    lines = TERMS | {
        "command": "python",
        "args": "",
        "env": "A=1",
        "volumes": "/scratch=empty:10Gi",
        "parameters": "- {name: EPOCHS}",
    }
    page = client.post(reverse("launch-template-create"), lines | {"cpu": "none", "image": ""})
    assert (page.status_code, set(page.context["form"].errors)) == (422, {"cpu", "image"})
    assert page.context["form"]["volumes"].value() == "/scratch=empty:10Gi"
    assert client.post(reverse("launch-template-create"), lines).status_code == 303
    edit = reverse("launch-template-edit", args=["train"])
    shown = client.get(edit).context["form"]
    assert shown["volumes"].value() == "/scratch=empty:10Gi"
    assert shown["parameters"].value() == "- name: EPOCHS\n  label: EPOCHS\n"
    assert client.post(edit, lines | {"memory": "32Gi", "version": "1"}).status_code == 303
    late = client.post(edit, lines | {"memory": "1Gi", "version": "1"})
    assert (late.status_code, late.context["form"]["memory"].value()) == (409, "1Gi")
    assert LaunchTemplate.objects.get().memory == "32Gi"
    client.post(reverse("launch-template-archive", args=["train"]))
    assert not LaunchTemplate.objects.offered().exists()


def test_a_member_starts_one_on_a_page_and_stops_it(
    cast: Cast, live: Request, template: LaunchTemplate
) -> None:
    client = signed_in(cast.owner)
    url = reverse("request-launch", args=[live.key, "train"])
    form = client.get(url).context["form"]
    assert form["p-EPOCHS"].value() == "10"
    wrong = client.post(url, {"key": form["key"].value(), "p-EPOCHS": "many", "p-SET": "march"})
    assert (wrong.status_code, list(wrong.context["form"].errors)) == (422, ["p-EPOCHS"])
    assert wrong.context["form"]["p-SET"].value() == "march"
    answers = [
        client.post(url, {"key": form["key"].value(), "p-EPOCHS": "20", "p-SET": "march"}) for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [303, 303]
    launch = Launch.objects.get()
    page = client.get(reverse("request-detail", args=[live.key])).content.decode()
    assert launch.object_name in page
    # The second time, by the back button, it is not told to be started once more.
    assert page.count("The desk starts “Train") == 1
    assert page.count("This form was sent before") == 1
    stop = reverse("request-launch-stop", args=[live.key, launch.key])
    assert client.get(stop).status_code == 200
    client.post(stop)
    launch.refresh_from_db()
    assert launch.state == Launch.State.STOPPING


def test_releasing_says_what_is_removed_with_it(
    cast: Cast, live: Request, template: LaunchTemplate, fake: FakeCluster
) -> None:
    launch = launches.start(
        request=live, template=template, user=cast.owner, values={"SET": "march"}, now=NOW
    )
    page = signed_in(cast.owner).get(reverse("request-release", args=[live.key]))
    assert f"with its Pods: {launch.object_name}." in page.content.decode()


def test_what_the_cluster_refuses_is_said_and_nothing_typed_is_lost(
    cast: Cast, live: Request, template: LaunchTemplate, fake: FakeCluster
) -> None:
    fake.fail["create jobs"] = errors.Forbidden("exceeded quota: compute", status=403)
    url = reverse("request-launch", args=[live.key, "train"])
    page = signed_in(cast.owner).post(url, {"p-EPOCHS": "20", "p-SET": "april"})
    assert page.status_code == 422
    assert "exceeded quota: compute" in page.content.decode()
    assert page.context["form"]["p-SET"].value() == "april"


def test_asking_leads_on_to_starting(cast: Cast, values: dict[str, Any], template: LaunchTemplate) -> None:
    client = signed_in(cast.owner)
    page = client.get(reverse("request-create"), {"launch": "train"})
    assert 'name="launch" value="train"' in page.content.decode()
    answer = client.post(reverse("request-create"), values | {"launch": "train", "key": ""})
    assert answer["Location"] == reverse("request-launch", args=[Request.objects.get().key, "train"])


def test_the_part_of_the_page_stops_asking_when_all_is_over(
    cast: Cast, live: Request, template: LaunchTemplate
) -> None:
    url = reverse("request-launches", args=[live.key])
    client = signed_in(cast.owner)
    part = client.get(url, headers={"HX-Request": "true"})
    assert (part.status_code, b"<html" in part.content) == (200, False)
    Request.objects.update(state=Request.State.ENDED)
    assert client.get(url, headers={"HX-Request": "true"}).status_code == 286


def test_rest_starts_tells_and_stops(cast: Cast, live: Request, template: LaunchTemplate) -> None:
    client = client_of(cast.owner)
    url = reverse("api-request-launches", args=[live.key])
    body = {"template": "train", "parameters": {"SET": "march"}}
    wrong = client.post(url, body | {"parameters": {"SET": "june"}}, content_type=JSON)
    assert [error["field"] for error in wrong.json()["errors"]] == ["parameters.SET"]
    made = [client.post(url, body, content_type=JSON, headers={"Idempotency-Key": "once"}) for _ in range(2)]
    assert [answer.status_code for answer in made] == [201, 201]
    assert made[0].json() == made[1].json()
    (told,) = client.get(url).json()
    assert (told["state"], told["parameters"]) == ("starting", {"EPOCHS": "10", "SET": "march"})
    stop = reverse("api-request-launch-stop", args=[live.key, told["key"]])
    assert client.post(stop, content_type=JSON).json()["state"] == "stopping"


def test_rest_keeps_templates(cast: Cast) -> None:
    client = client_of(cast.admin)
    made = client.post(reverse("api-launch-template-list"), TERMS, content_type=JSON)
    assert made.status_code == 201, made.json()
    url = reverse("api-launch-template-detail", args=["train"])
    assert client.get(url).json() == made.json()
    changed = client.put(url, made.json() | {"memory": "64Gi"}, content_type=JSON)
    assert (changed.json()["memory"], changed.json()["version"]) == ("64Gi", 2)
    late = client.put(url, made.json(), content_type=JSON)
    assert (late.status_code, late.json()["code"]) == (409, "conflict")
    wrong = client.post(reverse("api-launch-template-list"), {"slug": "x y"}, content_type=JSON)
    fields = {error["field"] for error in wrong.json()["errors"]}
    assert fields == {"slug", "name", "kind", "image", "cpu", "memory"}
    assert client.delete(url).status_code == 204
    assert client.get(reverse("api-launch-template-list")).json() == []


@pytest.mark.parametrize(
    "body",
    [[], {}, {"template": 7}, {"template": "train", "parameters": []}, {"template": "x" * 5_000}],
)
def test_garbage_is_refused(cast: Cast, live: Request, template: LaunchTemplate, body: Any) -> None:
    url = reverse("api-request-launches", args=[live.key])
    assert client_of(cast.owner).post(url, body, content_type=JSON).status_code == 400
    assert not Launch.objects.exists()
