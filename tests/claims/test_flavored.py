"""Asking for a flavor: its limits on every path, both ways of serving it, what its form and panel show."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
import yaml
from django.core.cache import cache
from django.test import Client
from django.urls import reverse

from claims.asks.forms import initial_values
from claims.asks.judging import parse, read
from claims.asks.values import Ask, UnableToSubmit
from claims.models import Flavor, Placement, Request
from claims.money.pricing import price_list
from claims.preview.panel import preview
from claims.requests import actions as requests
from inventory import snapshot
from inventory.models import Cluster, Node
from portal.accounts.models import User
from tests.claims import catalogue
from tests.claims.conftest import NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.test_api import JSON, client_of
from tests.claims.test_request_views import page, signed_in

ASK: dict[str, Any] = {"project": "protein-folding", "flavor": "h100", "purpose": "Folding"}
PLUGIN = {"device_class": "", "extended_resource": "nvidia.com/gpu"}


@pytest.fixture(autouse=True)
def fresh(fake: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """No numbers of the test before; views talk to the cluster in the dictionary."""
    cache.clear()
    snapshot._cached.clear()
    monkeypatch.setitem(requests.submit.__kwdefaults__, "connect", lambda _cluster: fake)  # type: ignore[arg-type]


@pytest.fixture
def flavor(cluster: Cluster) -> Flavor:
    made = catalogue.flavor(default_count=2, default_memory="40Gi", min_memory="20Gi", max_memory="60Gi")
    catalogue.placement(made, cluster)
    return made


def ask(user: User, **typed: Any) -> Ask:
    return parse({**ASK, **typed}, user=user, now=NOW)


def refused(user: User, **typed: Any) -> dict[str, list[str]]:
    with pytest.raises(UnableToSubmit) as error:
        ask(user, **typed)
    return error.value.errors


# --- what the flavor says ---------------------------------------------------------------------------


def test_what_is_left_out_is_what_is_usual_for_the_flavor(cast: Cast, flavor: Flavor) -> None:
    made = ask(cast.owner)
    assert (made.cluster.name, made.namespace, made.device_class) == ("main", "protein-folding", "h100")
    assert (made.count, made.min_memory, made.shape) == (2, "40Gi", "claim")
    assert made.duration == timedelta(hours=24)


@pytest.mark.parametrize(
    ("typed", "field", "said"),
    [
        ({"count": "5"}, "count", "1 to 4 devices"),
        ({"count": "0"}, "count", "1 to 4 devices"),
        ({"count": "many"}, "count", "not a whole number"),
        ({"duration": "8", "duration_unit": "days"}, "duration", "for 1 to 168 hours"),
        ({"duration": ""}, "duration", "Say for how long"),
        ({"min_memory": "80Gi"}, "min_memory", "memory from 20Gi to 60Gi"),
        ({"min_memory": "1Gi"}, "min_memory", "memory from 20Gi to 60Gi"),
        ({"shape": "entitlement"}, "shape", "Choose one of"),
        ({"device_class": "a100"}, "device_class", "not both"),
        ({"flavor": "h200"}, "flavor", "no flavor “h200”"),
        ({"cluster": "elsewhere"}, "cluster", "There is no cluster"),
        ({"pool": "b"}, "cluster", "node pool “b”"),
        ({"flavor": ["h100"]}, "flavor", "must be a text"),
    ],
)
def test_the_limits_are_told_at_their_fields(
    cast: Cast, flavor: Flavor, typed: dict[str, Any], field: str, said: str
) -> None:
    errors = refused(cast.owner, **typed)
    assert set(errors) == {field}
    assert said in errors[field][0]


def test_any_memory_means_the_least_that_the_flavor_allows(cast: Cast, flavor: Flavor) -> None:
    assert ask(cast.owner, min_memory="").min_memory == "20Gi"


@pytest.mark.parametrize("visibility", ["leads", "groups", "administrators", "projects"])
def test_a_flavor_of_others_is_as_one_that_is_not_there(cast: Cast, flavor: Flavor, visibility: str) -> None:
    Flavor.objects.update(visibility=visibility)
    assert "no flavor" in refused(cast.owner)["flavor"][0]


def test_a_lead_of_one_project_is_no_lead_of_another(cast: Cast, flavor: Flavor) -> None:
    Flavor.objects.update(visibility="leads")
    assert ask(cast.lead).flavor == flavor
    cast.lead.memberships.create(project=cast.stranger.memberships.get().project)
    assert "not offered to you for this project" in refused(cast.lead, project="weather-models")["flavor"][0]


def test_a_flavor_that_was_archived_meanwhile_is_told(cast: Cast, flavor: Flavor) -> None:
    Flavor.objects.update(archived_at=NOW)
    assert "(any more)" in refused(cast.owner)["flavor"][0]


def test_a_flavor_is_not_served_everywhere(cast: Cast, flavor: Flavor) -> None:
    Cluster.objects.create(name="other", credentials="kubeconfig", created_at=NOW)
    assert "It is on: main" in refused(cast.owner, cluster="other")["cluster"][0]
    Cluster.objects.filter(name="main").update(enabled=False)
    assert "switched off" in refused(cast.owner, cluster="main")["cluster"][0]


def test_selectors_configuration_and_tolerations_of_the_place_are_sent(cast: Cast, flavor: Flavor) -> None:
    entry = {"opaque": {"driver": "gpu.nvidia.com", "parameters": {"sharing": "none"}}}
    taint = {"key": "gpu.nvidia.com/xid", "operator": "Exists"}
    Placement.objects.update(
        selectors=['device.driver == "gpu.nvidia.com"'], config=[entry], device_tolerations=[taint],
        node_selector={"pool": "a"}, tolerations=[{"key": "gpu", "operator": "Exists"}],
    )  # fmt: skip
    made = requests.submit(user=cast.owner, values={**ASK, "min_memory": "40Gi"}, now=NOW)
    part = made.spec["devices"]["requests"][0]["exactly"]
    assert part["selectors"][0] == {"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}
    assert "40Gi" in part["selectors"][1]["cel"]["expression"]
    assert part["tolerations"] == [taint]
    assert made.spec["devices"]["config"] == [{"requests": ["accelerator"], **entry}]
    assert (made.node_selector, made.tolerations[0]["key"]) == ({"pool": "a"}, "gpu")
    # Later changes of the catalogue leave the request alone.
    Placement.objects.update(selectors=[], node_selector={})
    made.refresh_from_db()
    assert made.node_selector == {"pool": "a"}


# --- a Device Plugin --------------------------------------------------------------------------------


def test_a_device_plugin_gives_an_entitlement_and_creates_nothing(
    cast: Cast, flavor: Flavor, cluster: Cluster, fake: FakeCluster
) -> None:
    Placement.objects.update(**PLUGIN)
    catalogue.units(cluster)
    made = requests.submit(user=cast.owner, values={**ASK, "count": "3", "min_memory": "40Gi"}, now=NOW)
    assert (made.backend, made.shape, made.extended_resource) == (
        "device-plugin",
        "entitlement",
        "nvidia.com/gpu",
    )
    assert (made.device_class, made.spec) == ("", {})
    # The cluster judged a Pod on trial: quotas and policies of the namespace.
    assert fake.calls == [("create", "pods", f"{made.object_name}-probe", True)]


@pytest.mark.parametrize(
    ("typed", "field", "said"),
    [
        ({"shape": "claim"}, "shape", "knows no claims"),
        ({"shape": "template"}, "shape", "knows no claims"),
        ({"min_memory": "90Gi"}, "min_memory", "cannot choose by memory"),
        ({"device_class": "h100"}, "device_class", "not both"),
    ],
)
def test_what_a_device_plugin_cannot_do_is_told(
    cast: Cast, flavor: Flavor, typed: dict[str, Any], field: str, said: str
) -> None:
    Placement.objects.update(**PLUGIN)
    catalogue.units(Cluster.objects.get())
    assert said in refused(cast.owner, **typed)[field][0]


def test_the_way_is_chosen_by_the_conditions_of_the_place(
    cast: Cast, flavor: Flavor, cluster: Cluster
) -> None:
    Placement.objects.update(extended_resource="nvidia.com/gpu", runtime="containerd >=2.0")
    catalogue.units(cluster)
    for runtime, backend in (("containerd://1.7.27", "device-plugin"), ("containerd://2.1.4", "dra")):
        Node.objects.update(container_runtime=runtime)
        assert ask(cast.owner, min_memory="40Gi").backend == backend


# --- form and REST ----------------------------------------------------------------------------------


def test_the_form_and_rest_refuse_the_same(cast: Cast, flavor: Flavor) -> None:
    typed = {**ASK, "count": "9", "duration": "9", "duration_unit": "days", "min_memory": "1Gi"}
    response = signed_in(cast.owner).post(reverse("request-create"), typed)
    html = response.content.decode()
    assert response.status_code == 422
    answer = client_of(cast.owner).post(
        reverse("api-request-list"), {**typed, "count": 9, "duration": 9}, content_type=JSON
    )
    assert answer.status_code == 400
    said = {error["field"]: error["message"] for error in answer.json()["errors"]}
    assert set(said) == {"count", "duration", "min_memory"}
    assert all(message in html for message in said.values())
    assert 'value="9"' in html
    assert '<option value="h100" selected>' in html
    assert not Request.objects.exists()


def test_rest_asks_for_a_flavor_with_nothing_but_its_name(cast: Cast, flavor: Flavor) -> None:
    answer = client_of(cast.owner).post(reverse("api-request-list"), ASK, content_type=JSON)
    assert answer.status_code == 201, answer.json()
    made = answer.json()
    assert (made["flavor"], made["backend"], made["device_class"], made["count"]) == (
        "h100",
        "dra",
        "h100",
        2,
    )
    url = reverse("api-request-detail", args=[made["key"]])
    read_again = client_of(cast.owner).get(url).json()
    assert yaml.safe_load(read_again["manifest"])["metadata"]["name"] == made["name"]
    assert yaml.safe_load(read_again["job"])["kind"] == "Job"


def test_the_form_of_a_flavor_shows_its_limits_and_what_is_usual(cast: Cast, flavor: Flavor) -> None:
    html = page(signed_in(cast.owner), reverse("request-create") + "?flavor=h100")
    assert '<option value="h100" selected>' in html
    assert 'name="count" value="2" min="1" max="4"' in html
    assert 'value="40Gi"' in html
    assert 'id="id_device_class"' not in html
    assert 'value="entitlement"' not in html


def test_another_flavor_takes_over_what_was_usual_and_leaves_what_was_typed(
    cast: Cast, flavor: Flavor, cluster: Cluster
) -> None:
    catalogue.placement(catalogue.flavor("a100", default_duration=timedelta(days=3)), cluster)
    usual = initial_values(user=cast.owner, now=NOW, chosen={"flavor": "h100"})
    moved = initial_values(user=cast.owner, now=NOW, chosen={**usual, "flavor": "a100"})
    assert (moved["count"], moved["min_memory"], moved["duration"], moved["duration_unit"]) == (
        "1",
        "",
        "3",
        "days",
    )
    typed = {**usual, "flavor": "a100", "count": "3", "duration": "5"}
    kept = initial_values(user=cast.owner, now=NOW, chosen=typed)
    assert (kept["count"], kept["duration"]) == ("3", "5")
    described = initial_values(user=cast.owner, now=NOW, chosen={**typed, "flavor": ""})
    assert (described["count"], described["cluster"]) == ("3", "main")


def test_on_a_device_plugin_the_form_offers_the_entitlement_alone(
    cast: Cast, flavor: Flavor, cluster: Cluster
) -> None:
    Placement.objects.update(**PLUGIN)
    html = page(signed_in(cast.owner), reverse("request-create") + "?flavor=h100")
    assert 'value="entitlement"' in html
    assert 'value="template"' not in html


# --- the panel --------------------------------------------------------------------------------------


def panel(client: Client, **typed: Any) -> str:
    response = client.get(reverse("request-preview"), {**ASK, **typed})
    assert response.status_code == 200
    return response.content.decode()


def test_the_panel_follows_the_flavor_and_shows_both_manifests(
    cast: Cast, flavor: Flavor, cluster: Cluster
) -> None:
    Placement.objects.update(extended_resource="nvidia.com/gpu")
    key = str(uuid.uuid4())
    reading = read({**ASK, "key": key}, user=cast.owner, now=NOW)
    told = preview(reading, prices=price_list(), now=NOW)
    assert [(one.backend, one.kind, one.used) for one in told.written] == [
        ("dra", "ResourceClaim", True), ("device-plugin", "Pod", False),
    ]  # fmt: skip
    sent = yaml.safe_load(told.written[0].text)
    made = requests.submit(user=cast.owner, values=ASK, key=key, now=NOW)
    assert (sent["metadata"]["name"], sent["spec"]) == (made.object_name, made.spec)
    pod = yaml.safe_load(told.written[1].text)
    assert pod["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    Placement.objects.update(stage=Placement.Stage.PLUGIN)
    told = preview(read(ASK, user=cast.owner, now=NOW), prices=price_list(), now=NOW)
    assert [(one.backend, one.used) for one in told.written] == [("device-plugin", True), ("dra", False)]


def test_the_panel_counts_units_where_pods_may_go(cast: Cast, flavor: Flavor, cluster: Cluster) -> None:
    Placement.objects.update(**PLUGIN)
    catalogue.units(cluster, used=1)
    catalogue.units(cluster, "node-a100", used=4)
    told = preview(read({**ASK, "count": "3"}, user=cast.owner, now=NOW), prices=price_list(), now=NOW)
    assert (told.matching, told.free, told.nodes, told.room) == (8, 3, ["node-h100"], 1)
    told = preview(read({**ASK, "count": "4"}, user=cast.owner, now=NOW), prices=price_list(), now=NOW)
    assert (told.feasible, told.reasons) == (
        False, ["No node that takes such Pods has 4 units left; the most is 3."],
    )  # fmt: skip


def test_the_panel_does_not_guess_where_it_does_not_see(cast: Cast, flavor: Flavor, cluster: Cluster) -> None:
    Placement.objects.update(**PLUGIN)
    catalogue.units(cluster, used=None)
    told = preview(read(ASK, user=cast.owner, now=NOW), prices=price_list(), now=NOW)
    assert (told.matching, told.free, told.feasible) == (4, None, None)


def test_the_panel_tells_who_has_to_approve(cast: Cast, flavor: Flavor) -> None:
    Flavor.objects.update(approval="both")
    html = panel(signed_in(cast.owner))
    assert "It needs an approval: a lead and an administrator." in html
