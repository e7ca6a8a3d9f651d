"""Creating, changing and deleting classes: by administrators, rehearsed, with nothing typed lost."""

import re
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from inventory import classes, clusters
from inventory.models import Cluster
from portal.accounts.models import AuditEntry
from portal.kube.resources import DEVICE_CLASSES
from tests.claims.catalogue import flavor, placement
from tests.embedded import EmbeddedCluster
from tests.inventory_pages.conftest import INSIDERS, OUTSIDERS, Cast, Fleet
from tests.inventory_pages.factories import make_class, make_device

CREATE, CHECK = "/create-class/", "/check-expression/"
EXPRESSION = 'device.driver == "gpu.nvidia.com"'


def asked(**fields: Any) -> dict[str, Any]:
    return {
        "cluster": "berlin", "name": "big", "expression": [EXPRESSION], "extended_resource_name": "",
        "config": "", "seen_version": "7", **fields,
    }  # fmt: skip


@pytest.mark.parametrize("role", sorted({*INSIDERS, *OUTSIDERS} - {"administrator"}))
@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize(
    "path",
    [
        CREATE,
        CHECK,
        "/classes/berlin/gpu.nvidia.com/edit/",
        "/classes/berlin/gpu.nvidia.com/delete/",
        "/add-cluster/",
    ],
)
def test_only_administrators_may(role: str, method: str, path: str, cast: Cast, fleet: Fleet) -> None:
    assert getattr(cast.client(role), method)(path).status_code == 403


# --- while typing -----------------------------------------------------------------------------------


def check(client: Client, *expressions: str, index: int | str = 0, cluster: str = "berlin") -> str:
    response = client.post(CHECK, {"expression": expressions, "index": index, "cluster": cluster})
    assert response.status_code == 200
    return response.content.decode()


def test_an_expression_says_how_many_devices_it_matches(cast: Cast, fleet: Fleet) -> None:
    assert "matches 3 devices of berlin, 1 free" in check(cast.client("administrator"), EXPRESSION)


def test_each_expression_is_checked_by_its_number(cast: Cast, fleet: Fleet) -> None:
    client = cast.client("administrator")
    assert "matches 2 devices" in check(client, EXPRESSION, 'device.driver == "gpu.amd.com"', index=1)


def test_a_mistake_is_shown_where_it_is(cast: Cast, fleet: Fleet) -> None:
    html = check(cast.client("administrator"), 'device.driver ==\n  "gpu" && && true')
    assert "Line 2, column" in html
    assert "^" in html


def test_an_expression_that_fails_for_some_devices_says_so(cast: Cast, fleet: Fleet) -> None:
    html = check(cast.client("administrator"), 'device.attributes["gpu.nvidia.com"].type == "gpu"')
    assert "For some devices it fails" in html


@pytest.mark.parametrize("index", ["", "x", "-1", "99", "9" * 50, "²"])
def test_odd_numbers_are_harmless(index: str, cast: Cast, fleet: Fleet) -> None:
    check(cast.client("administrator"), EXPRESSION, index=index)


def test_long_expressions_and_markup_are_answered(cast: Cast, fleet: Fleet) -> None:
    client = cast.client("administrator")
    assert "at most 10 KiB" in check(client, "x" * 20_000)
    assert "<script>" not in check(client, '<script>alert(1)</script>"')
    assert "Choose a cluster" in check(client, EXPRESSION, cluster="nowhere")


# --- the form, with the domain stubbed --------------------------------------------------------------


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A domain that refuses with what is in the list: [field, message]."""
    refusal: list[Any] = ["", "no"]

    def refuse(**_: Any) -> None:
        raise classes.UnableToChangeClass(*refusal)

    for name in ("create_class", "update_class", "delete_class"):
        monkeypatch.setattr(classes, name, refuse)
    return refusal


@pytest.mark.parametrize("field", ["name", "expressions", "extended_resource_name", "config", ""])
def test_a_refusal_stands_next_to_its_field_and_nothing_is_lost(
    field: str, refusing: list[Any], cast: Cast, fleet: Fleet
) -> None:
    refusing[:] = [field, "the cluster says no"]
    typed = asked(extended_resource_name="example.com/gpu", config="- opaque: {driver: x.example}\n")
    response = cast.client("administrator").post(CREATE, typed)
    html = response.content.decode()
    assert response.status_code == 422
    assert html.count("the cluster says no") == 1
    for kept in (
        'value="big"',
        "device.driver == &quot;gpu.nvidia.com&quot;",
        "example.com/gpu",
        "driver: x.example",
    ):
        assert kept in html


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": "Big Class"}, "Lower-case letters"),
        ({"name": ""}, "This field is required"),
        ({"cluster": "nowhere"}, "not one of the available choices"),
        ({"config": "a: b: c"}, "This is not YAML: line 1"),
        ({"config": "just text"}, "This is not a list of entries"),
        ({"config": "- when: 2024-01-01\n"}, "JSON cannot say"),
        ({"config": "- &a [x]\n- *a\n"}, "aliases are not supported"),
        ({"config": "[" * 5000}, "config"),
    ],
)
def test_what_cannot_be_read_is_said_before_the_cluster_is_asked(
    fields: dict[str, str], message: str, refusing: list[Any], cast: Cast, fleet: Fleet
) -> None:
    response = cast.client("administrator").post(CREATE, asked(**fields))
    assert response.status_code == 422
    assert message in response.content.decode()


def test_another_expression_is_a_button_that_keeps_what_was_typed(cast: Cast, fleet: Fleet) -> None:
    response = cast.client("administrator").post(CREATE, asked(more="1", name="half typed!"))
    html = response.content.decode()
    assert response.status_code == 200
    assert html.count('name="expression"') == 2
    assert "half typed!" in html
    assert "cd-field-error" not in html


def test_the_edit_form_starts_from_the_class(cast: Cast, fleet: Fleet) -> None:
    html = cast.client("administrator").get("/classes/berlin/gpu.nvidia.com/edit/").content.decode()
    assert "device.driver == &quot;gpu.nvidia.com&quot;" in html
    assert 'name="seen_version" value="7"' in html


def test_an_unknown_class_is_not_found(cast: Cast, fleet: Fleet) -> None:
    assert cast.client("administrator").get("/classes/berlin/nope/edit/").status_code == 404
    assert cast.client("administrator").get("/classes/oslo/gpu.nvidia.com/delete/").status_code == 404


def test_a_conflict_shows_both_versions_and_what_saving_would_change(
    cast: Cast, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    metadata = {
        "name": "gpu.nvidia.com",
        "resourceVersion": "8",
        "labels": {"example.org/team": "physics"},
        "managedFields": [{"manager": "helm", "time": "2026-11-01T00:00:00Z"}],
    }
    spec = {"selectors": [{"cel": {"expression": "device.driver == 'theirs'"}}]}

    def changed(**_: Any) -> None:
        raise classes.ChangedMeanwhile({"metadata": metadata, "spec": spec})

    monkeypatch.setattr(classes, "update_class", changed)
    typed = asked(expression=["device.driver == 'mine'"], reason="because")
    response = cast.client("administrator").post("/classes/berlin/gpu.nvidia.com/edit/", typed)
    html = response.content.decode()
    assert response.status_code == 409
    assert "Last written by helm." in html
    assert re.search(r"<del>- +expression: device.driver == &#x27;theirs&#x27;</del>", html)
    assert re.search(r"<ins>\+ +expression: device.driver == &#x27;mine&#x27;</ins>", html)
    assert 'name="over" value="8"' in html
    # What was typed stands in the form still, and nobody's labels are touched.
    assert "device.driver == &#x27;mine&#x27;</textarea>" in html
    assert 'value="because"' in html
    assert re.search(r"<span> +example.org/team: physics</span>", html)


def test_a_class_in_use_is_deleted_only_by_its_name(
    cast: Cast, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted: list[str] = []
    monkeypatch.setattr(classes, "delete_class", lambda **wanted: deleted.append(wanted["name"]))
    client, url = cast.client("administrator"), "/classes/berlin/gpu.nvidia.com/delete/"
    assert "protein-folding/secret-claim" in client.get(url).content.decode()
    assert "nothing was deleted" in client.post(url, {"name": "gpu"}).content.decode()
    assert deleted == []
    assert client.post(url, {"name": "gpu.nvidia.com"}).status_code == 303
    assert deleted == ["gpu.nvidia.com"]


def test_a_class_that_nobody_uses_needs_no_name(
    cast: Cast, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted: list[str] = []
    monkeypatch.setattr(classes, "delete_class", lambda **wanted: deleted.append(wanted["name"]))
    assert cast.client("administrator").post("/classes/berlin/gpu.amd.com/delete/").status_code == 303
    assert deleted == ["gpu.amd.com"]


def test_a_class_that_serves_a_flavor_is_deleted_only_by_its_name(
    cast: Cast, fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    deleted: list[str] = []
    monkeypatch.setattr(classes, "delete_class", lambda **wanted: deleted.append(wanted["name"]))
    for name, slug, archived_at in (("Whole GPU", "whole", None), ("Bygone", "bygone", timezone.now())):
        made = flavor(slug, name=name, archived_at=archived_at)
        placement(made, fleet.cluster, device_class="gpu.amd.com")
    client, url = cast.client("administrator"), "/classes/berlin/gpu.amd.com/delete/"
    page = client.get(url).content.decode()
    assert "Whole GPU" in page
    assert "Bygone" not in page
    client.post(url)
    assert deleted == []
    assert client.post(url, {"name": "gpu.amd.com"}).status_code == 303
    assert deleted == ["gpu.amd.com"]


# --- on a cluster -----------------------------------------------------------------------------------


@pytest.fixture
def live(db: None, embedded_cluster: EmbeddedCluster) -> Cluster:
    return clusters.add(
        name="live", now=timezone.now(), kubeconfig_path=str(embedded_cluster.kubeconfig), context="admin"
    )


def on_cluster(cluster: Cluster, name: str) -> dict[str, Any]:
    with clusters.client_for(cluster) as client:
        return dict(client.get(DEVICE_CLASSES, name))


def test_a_class_is_rehearsed_created_changed_and_deleted(cast: Cast, live: Cluster) -> None:
    make_device(live, "gpu-0")
    client = cast.client("administrator")
    tried = client.post(CREATE, asked(cluster="live", rehearse="1"))
    assert "Nothing is created yet" in tried.content.decode()
    made = client.post(CREATE, asked(cluster="live", save="1"))
    assert (made.status_code, made["Location"]) == (303, "/classes/")
    body = on_cluster(live, "big")
    assert body["spec"]["selectors"] == [{"cel": {"expression": EXPRESSION}}]
    again = client.post(CREATE, asked(cluster="live", save="1"))
    assert "has a class of this name already" in again.content.decode()

    version = body["metadata"]["resourceVersion"]
    make_class(live, "big", resource_version=version)
    url = "/classes/live/big/"
    two = [EXPRESSION, "device.attributes['gpu.nvidia.com'].type == 'gpu'"]
    assert client.post(f"{url}edit/", asked(expression=two, seen_version=version)).status_code == 303
    late = client.post(f"{url}edit/", asked(expression=["true"], seen_version=version))
    assert late.status_code == 409
    assert "Somebody changed the class meanwhile" in late.content.decode()
    now = on_cluster(live, "big")
    assert len(now["spec"]["selectors"]) == 2
    over = now["metadata"]["resourceVersion"]
    labelled = asked(expression=["true"], seen_version=version, over=over, labels="example.org/team: physics")
    assert client.post(f"{url}edit/", labelled).status_code == 303
    body = on_cluster(live, "big")
    assert body["spec"]["selectors"] == [{"cel": {"expression": "true"}}]
    assert body["metadata"]["labels"] == {"example.org/team": "physics"}

    assert client.post(f"{url}delete/").status_code == 303
    actions = AuditEntry.objects.order_by("pk").values_list("action", flat=True)
    assert [a for a in actions if a.startswith("device_class")] == [
        "device_class.create",
        *2 * ["device_class.update"],
        "device_class.delete",
    ]
