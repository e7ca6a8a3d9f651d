"""Bad input and hostile use, by form and by REST: told next to the field, nothing lost, nothing sent."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from claims.models import Request
from claims.requests import actions as requests
from inventory.models import Cluster, LocalQueue
from tests.claims import catalogue
from tests.claims.conftest import NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.test_api import client_of

JSON = "application/json"
LONG = "true || " * 1_300 + "true"

HOSTILE: list[tuple[dict[str, Any], str]] = [
    ({"namespace": "Not_A_Label"}, "namespace"),
    ({"namespace": "../kube-system"}, "namespace"),
    ({"namespace": "a" * 300}, "namespace"),
    ({"namespace": "weather-models"}, "namespace"),
    ({"project": "weather-models"}, "project"),
    ({"project": "protein-folding' OR 1=1"}, "project"),
    ({"cluster": "$(reboot)"}, "cluster"),
    ({"device_class": "gpu.NVIDIA.com/../x"}, "device_class"),
    ({"device_class": "x" * 400}, "device_class"),
    ({"count": "0"}, "count"),
    ({"count": "-1"}, "count"),
    ({"count": "33"}, "count"),
    ({"count": "9" * 4_000}, "count"),
    ({"count": "1e3"}, "count"),
    ({"count": "１"}, "count"),
    ({"min_memory": "999999999999999999999Ei"}, "min_memory"),
    ({"min_memory": "-1Gi"}, "min_memory"),
    ({"min_memory": "NaN"}, "min_memory"),
    ({"expression": LONG}, "expression"),
    ({"expression": "device.driver =="}, "expression"),
    ({"expression": "[1].map(x, [1].map(y, [1].map(z, 1)))"}, "expression"),
    ({"expression": "device.attributes['nowhere'].x == 'y'"}, "expression"),
    ({"parts": "1 × a100\n" * 9}, "parts"),
    ({"parts": "9999 × a100"}, "parts"),
    ({"alternatives": "<script>alert(1)</script>"}, "alternatives"),
    ({"same": "no-slash"}, "same"),
    ({"share": "memory=∞"}, "share"),
    ({"tolerations": "key=value:Whenever"}, "tolerations"),
    ({"queue": "nowhere"}, "queue"),
    ({"queue": "x" * 300}, "queue"),
    ({"shape": "daemonset"}, "shape"),
    ({"duration": "99999999999999999999"}, "duration"),
    ({"duration_unit": "fortnights"}, "duration"),
    ({"purpose": "x" * 1_001}, "purpose"),
    ({"purpose": "null\x00byte"}, "purpose"),
    ({"purpose": "\u202eevil"}, "purpose"),
    ({"flavor": "vanished", "device_class": ""}, "flavor"),
]


ODD_FIELDS = (
    *("count", "share", "parts", "alternatives", "tolerations", "expression"),
    *("queue", "like", "saved", "key"),
)


@pytest.fixture(autouse=True)
def reachable(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(requests.submit.__kwdefaults__, "connect", lambda _cluster: fake)  # type: ignore[arg-type]


def signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def name_of(case: Any) -> str:
    return (
        "-".join(f"{key}:{str(value)[:16]}" for key, value in case.items())
        if isinstance(case, dict)
        else case
    )


@pytest.mark.parametrize(("typed", "field"), HOSTILE, ids=name_of)
def test_it_is_told_next_to_the_field_in_the_form_and_by_rest(
    cast: Cast, values: dict[str, Any], fake: FakeCluster, typed: dict[str, Any], field: str
) -> None:
    page = signed_in(cast.owner).post(reverse("request-create"), values | typed)
    form = page.context["form"]
    assert (page.status_code, list(form.errors)) == (422, [field])
    for name, value in (values | typed).items():
        assert form[name].value() == value, "what was typed is still there"
    answer = client_of(cast.owner).post(reverse("api-request-list"), values | typed, content_type=JSON)
    assert answer.status_code == 400
    assert {error["field"] for error in answer.json()["errors"]} == {field}
    assert fake.calls == []
    assert not Request.objects.exists()


@pytest.mark.parametrize(
    "odd", [None, True, 1.5, [], {}, [[]], {"a": {"b": 1}}, ["x"] * 50, "\ud800", 10**30, -(10**30)]
)
@pytest.mark.parametrize("field", ODD_FIELDS)
def test_values_of_another_kind_are_never_a_defect(
    cast: Cast, values: dict[str, Any], field: str, odd: Any
) -> None:
    answer = client_of(cast.owner).post(reverse("api-request-list"), values | {field: odd}, content_type=JSON)
    assert answer.status_code in (201, 400), answer.content
    if answer.status_code == 400 and "errors" in answer.json():
        assert {error["field"].partition(".")[0] for error in answer.json()["errors"]} <= {field}


def test_what_a_queue_does_not_admit_is_told_at_each_field_and_switched_off(
    cast: Cast, values: dict[str, Any], cluster: Cluster
) -> None:
    LocalQueue.objects.create(
        cluster=cluster, namespace="protein-folding", name="night", uid="q", resource_version="1", pending=3
    )
    typed = values | {"queue": "night", "same": "gpu.nvidia.com/productName", "count": "2"}
    page = signed_in(cast.owner).post(reverse("request-create"), typed)
    form = page.context["form"]
    assert set(form.errors) == {"shape", "same"}
    assert form["same"].value() == "gpu.nvidia.com/productName"
    # Chosen anew in the form, the shape that would not do gives way, and what is off is not shown.
    fresh = signed_in(cast.owner).get(reverse("request-create"), values | {"queue": "night"})
    form = fresh.context["form"]
    assert form["shape"].value() == "template"
    assert [value for value, _label in form.fields["shape"].widget.choices] == ["template"]
    assert not form.shows("alternatives")
    assert "night (3 waiting)" in fresh.content.decode()
    asked = values | {"queue": "night", "shape": "template"}
    made = client_of(cast.owner).post(reverse("api-request-list"), asked, content_type=JSON)
    assert made.status_code == 201, made.json()
    assert made.json()["options"] == {"queue": "night"}


def test_a_stopped_queue_is_told(cast: Cast, values: dict[str, Any], cluster: Cluster) -> None:
    LocalQueue.objects.create(
        cluster=cluster, namespace="protein-folding", name="night", uid="q", resource_version="1",
        stop_policy="Hold",
    )  # fmt: skip
    asked = values | {"queue": "night", "shape": "template"}
    answer = client_of(cast.owner).post(reverse("api-request-list"), asked, content_type=JSON)
    assert [error["field"] for error in answer.json()["errors"]] == ["queue"]


def test_the_queue_of_another_namespace_is_none(cast: Cast, values: dict[str, Any], cluster: Cluster) -> None:
    LocalQueue.objects.create(
        cluster=cluster, namespace="weather-models", name="theirs", uid="q", resource_version="1"
    )
    asked = values | {"queue": "theirs", "shape": "template"}
    answer = client_of(cast.owner).post(reverse("api-request-list"), asked, content_type=JSON)
    (error,) = answer.json()["errors"]
    assert error["field"] == "queue"


def test_a_flavor_that_vanishes_while_it_is_asked_for(cast: Cast, cluster: Cluster) -> None:
    flavor = catalogue.flavor()
    catalogue.placement(flavor, cluster)
    typed = {"project": "protein-folding", "flavor": "h100", "count": "2", "purpose": "x", "duration": "4"}
    flavor.archived_at = NOW
    flavor.save()
    page = signed_in(cast.owner).post(reverse("request-create"), typed)
    form = page.context["form"]
    assert (page.status_code, "flavor" in form.errors) == (422, True)
    assert (form["flavor"].value(), form["count"].value(), form["duration"].value()) == ("h100", "2", "4")
