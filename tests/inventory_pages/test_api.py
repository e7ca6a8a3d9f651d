"""The inventory over REST: the same searches and the same rules of visibility as on the pages."""

from datetime import timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from inventory.models import Cluster, Device
from portal.accounts.models import ApiToken, User
from tests.inventory_pages.conftest import INSIDERS, OUTSIDERS, Cast, Fleet
from tests.inventory_pages.factories import hold, make_cluster, make_fleet

LISTS = ("devices", "clusters", "nodes", "device-classes")


def get(client: Client, path: str, **headers: str) -> Any:
    response = client.get(f"/api/v1/{path}", headers=headers)
    assert response.status_code == 200, response.content
    return response.json()


def token(user: User, *scopes: str) -> str:
    _row, text = ApiToken.objects.create(user=user, expiry=timedelta(hours=1))
    _row.scopes = list(scopes)
    _row.name = "script"
    _row.save()
    return f"Bearer {text}"


@pytest.mark.parametrize("path", LISTS)
def test_nobody_reads_without_a_token_or_a_session(path: str, cast: Cast) -> None:
    assert cast.client("anonymous").get(f"/api/v1/{path}/").status_code in {401, 403}


@pytest.mark.parametrize("path", LISTS)
def test_a_token_needs_the_scope(path: str, cast: Cast, fleet: Fleet) -> None:
    good, bad = token(cast.stranger, "inventory"), token(cast.stranger, "requests", "chargeback")
    assert get(Client(), f"{path}/", Authorization=good)["results"]
    refused = Client().get(f"/api/v1/{path}/", headers={"Authorization": bad})
    assert (refused.status_code, refused.json()["code"]) == (403, "scope_missing")


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("method", ["post", "put", "patch", "delete"])
def test_the_inventory_is_only_read(path: str, method: str, cast: Cast, fleet: Fleet) -> None:
    answer = getattr(cast.client("administrator"), method)(f"/api/v1/{path}/")
    # Classes are what administrators make there; without a body that is refused, too.
    expected = 415 if (path, method) == ("device-classes", "post") else 405
    assert answer.status_code == expected


def test_a_device_is_told_as_on_the_pages(cast: Cast, fleet: Fleet, project: object) -> None:
    found = get(cast.client("stranger"), "devices/?state=held")["results"]
    (device,) = found
    assert device["as_of"] is not None
    assert {
        key: device[key] for key in ("cluster", "node", "driver", "name", "product", "state", "reason")
    } == {
        "cluster": "berlin",
        "node": "gpu-01",
        "driver": "gpu.nvidia.com",
        "name": "gpu-0",
        "product": "NVIDIA H100 80GB HBM3",
        "state": "held",
        "reason": "",
    }
    (holder,) = device["holders"]
    assert holder["project"] == {"slug": "protein-folding", "name": "Protein folding"}
    assert holder["claim"] is None


@pytest.mark.parametrize("role", [*INSIDERS, *OUTSIDERS])
def test_claims_are_told_to_those_who_may_see_them(role: str, cast: Cast, fleet: Fleet) -> None:
    client = cast.client(role)
    listed = get(client, "devices/?state=held")["results"][0]["holders"][0]["claim"]
    detail = get(client, f"devices/{fleet.held.pk}/")["holders"][0]["claim"]
    assert listed == detail
    if role in INSIDERS:
        assert (listed["name"], listed["consumers"]) == ("secret-claim", ["secret-pod"])
    else:
        assert listed is None


def test_a_device_in_detail(cast: Cast, fleet: Fleet) -> None:
    device = get(cast.client("finance"), f"devices/{fleet.tainted.pk}/")
    assert device["attributes"]["gpu.nvidia.com/type"] == {"string": "gpu"}
    assert device["capacity"] == {"gpu.nvidia.com/memory": {"value": "80Gi"}}
    assert device["taints"][0]["key"] == "gpu.nvidia.com/xid"
    assert device["classes"] == ["gpu.nvidia.com"]
    assert device["pool_state"]["complete"] is True


@pytest.mark.parametrize(
    ("query", "names"),
    [
        ("vendor=AMD", ["gpu-0", "gpu-1"]),
        ("q=gpu-01&state=free", ["gpu-1"]),
        ("class=gpu.nvidia.com&state=unavailable", ["gpu-2"]),
        ("product=gone", []),
        ("q=%00&limit=abc&cursor=", ["gpu-0", "gpu-1", "gpu-2", "gpu-0", "gpu-1"]),
    ],
)
def test_the_same_filters_apply(query: str, names: list[str], cast: Cast, fleet: Fleet) -> None:
    found = get(cast.client("owner"), f"devices/?{query}")["results"]
    assert [device["name"] for device in found] == names


def test_pages_are_followed_by_cursor_to_the_end(cast: Cast) -> None:
    make_fleet(make_cluster(), nodes=11, per_node=3)
    client, seen = cast.client("owner"), []
    url: str | None = "/api/v1/devices/?limit=7&vendor=Vendor+0&vendor=Vendor+1&q=accelerator"
    while url:
        body = client.get(url).json()
        seen += [device["id"] for device in body["results"]]
        url = body["next"]
    expected = Device.objects.filter(profile__vendor__in=["Vendor 0", "Vendor 1"]).order_by("pk")
    assert seen == list(expected.values_list("pk", flat=True))


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("cursor", ["abc", "%00", "cD0x", "ZnJvbQ==", "x" * 3000])
def test_odd_cursors_are_refused_not_crashed(path: str, cursor: str, cast: Cast, fleet: Fleet) -> None:
    response = cast.client("owner").get(f"/api/v1/{path}/?cursor={cursor}")
    assert response.status_code in {200, 404, 400}


def test_out_of_step_states_are_unknown_and_free_is_null(cast: Cast, fleet: Fleet) -> None:
    last = timezone.now() - timedelta(hours=1)
    Cluster.objects.update(state=Cluster.State.UNREACHABLE, message="secret address")
    fleet.cluster.streams.update(heard_at=last, listed_at=last)
    client = cast.client("stranger")
    devices = get(client, "devices/")["results"]
    assert {device["state"] for device in devices} == {"unknown"}
    assert devices[0]["last_known_state"] == "held"
    assert {c["free"] for c in get(client, "device-classes/")["results"]} == {None}
    (cluster,) = get(client, "clusters/")["results"]
    assert (cluster["in_step"], cluster["message"]) == (False, "")
    assert get(cast.client("auditor"), "clusters/berlin/")["message"] == "secret address"


def test_nodes_and_classes(cast: Cast, fleet: Fleet) -> None:
    client = cast.client("stranger")
    node = get(client, "nodes/berlin/gpu-02/")
    assert (node["cordoned"], node["devices"]["unavailable"], node["counted_resources"]) == (True, 2, [])
    found = get(client, "device-classes/berlin/gpu.nvidia.com/")
    assert (found["matched"], found["free"], found["problem"]) == (3, 1, "")
    assert [c["name"] for c in get(client, "device-classes/?q=amd")["results"]] == ["gpu.amd.com"]
    assert get(client, "nodes/?cluster=oslo")["results"] == []


def test_devices_are_found_by_an_expression(cast: Cast, fleet: Fleet) -> None:
    client = cast.client("stranger")
    query = {"cel": 'device.driver == "gpu.amd.com"', "state": "unavailable"}
    found = get(client, f"devices/?{urlencode(query)}")
    assert [device["name"] for device in found["results"]] == ["gpu-0", "gpu-1"]
    wrong = client.get(f"/api/v1/devices/?{urlencode({'cel': 'device.driver =='})}")
    assert wrong.status_code == 422
    assert [error["field"] for error in wrong.json()["errors"]] == ["cel"]


@pytest.mark.parametrize(
    "path", ["devices/0/", "clusters/x/", "nodes/berlin/x/", "device-classes/berlin/x/", f"devices/{2**70}/"]
)
def test_what_is_not_there_is_a_problem_document(path: str, cast: Cast, fleet: Fleet) -> None:
    response = cast.client("owner").get(f"/api/v1/{path}")
    assert response.status_code == 404
    assert response["Content-Type"] == "application/problem+json"


def test_the_number_of_queries_does_not_grow(cast: Cast, fleet: Fleet) -> None:
    client = cast.client("owner")

    def queries(path: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            get(client, f"{path}/")
        return len(captured)

    small = [queries(path) for path in LISTS]
    make_fleet(make_cluster("oslo"), nodes=30, kinds=12)
    for device in Device.objects.filter(cluster__name="oslo", state="held")[:30]:
        hold(device, namespace="b", claim=f"claim-{device.pk}")
    assert [queries(path) for path in LISTS] == small
