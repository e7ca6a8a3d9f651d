"""REST of the catalogue: read by whom it is for, changed by administrators, conflicts told."""

from typing import Any

import pytest
from django.core.cache import cache
from django.urls import reverse
from drf_spectacular.generators import SchemaGenerator

from claims.models import Flavor, Placement
from inventory import snapshot
from inventory.models import Cluster
from portal.accounts.models import ApiToken
from tests.claims import catalogue
from tests.claims.conftest import Cast
from tests.claims.test_api import JSON, client_of

FLAVOR: dict[str, Any] = {"slug": "h100-80g", "name": "H100 80 GB", "max_count": 4, "approval": "lead"}
PLACE: dict[str, Any] = {"cluster": "main", "device_class": "h100", "selectors": ["true"]}


@pytest.fixture(autouse=True)
def fresh() -> None:
    cache.clear()
    snapshot._cached.clear()


def test_a_flavor_is_made_placed_changed_and_archived(cast: Cast, cluster: Cluster) -> None:
    client = client_of(cast.admin)
    made = client.post(reverse("api-catalogue-list"), FLAVOR, content_type=JSON)
    assert made.status_code == 201, made.json()
    url = reverse("api-catalogue-detail", args=["h100-80g"])
    placed = client.post(
        reverse("api-catalogue-place-list", args=["h100-80g"]), {**PLACE, "version": 1}, content_type=JSON
    )
    assert placed.status_code == 201, placed.json()
    row = placed.json()
    assert (row["version"], row["total"], row["placements"][0]["selectors"]) == (2, 2, ["true"])
    # The cluster of these tests was heard of a long time ago: unknown, not zero.
    assert row["free"] is None
    changed = client.put(url, {**FLAVOR, "max_count": 2, "version": 2}, content_type=JSON)
    assert (changed.status_code, changed.json()["max_count"]) == (200, 2)
    late = client.put(url, {**FLAVOR, "max_count": 8, "version": 2}, content_type=JSON)
    assert (late.status_code, late.json()["code"]) == (409, "conflict")
    place = row["placements"][0]["id"]
    one = reverse("api-catalogue-place-detail", args=["h100-80g", place])
    both = {**PLACE, "extended_resource": "nvidia.com/gpu", "version": 3}
    assert client.put(one, both, content_type=JSON).status_code == 200
    switch = reverse("api-catalogue-place-switch", args=["h100-80g", place])
    switched = client.post(switch, {"stage": "device-plugin"}, content_type=JSON).json()
    assert switched["places"][0]["backend"] == "device-plugin"
    assert client.delete(one).status_code == 200
    assert not Placement.objects.exists()
    archive, restore = (
        reverse(f"api-catalogue-{verb}", args=["h100-80g"]) for verb in ("archive", "restore")
    )
    assert client.post(archive).json()["archived"] is True
    assert client_of(cast.owner).get(url).status_code == 404
    assert client.post(restore).json()["archived"] is False


def test_wrong_fields_are_told_one_by_one(cast: Cast, cluster: Cluster) -> None:
    client = client_of(cast.admin)
    answer = client.post(reverse("api-catalogue-list"), {"slug": "H", "max_count": 99}, content_type=JSON)
    assert answer.status_code == 400
    assert {error["field"] for error in answer.json()["errors"]} == {"slug", "name", "max_count"}
    catalogue.flavor()
    url = reverse("api-catalogue-place-list", args=["h100"])
    answer = client.post(url, {**PLACE, "selectors": ["1 +"], "version": 1}, content_type=JSON)
    assert [error["field"] for error in answer.json()["errors"]] == ["selectors"]
    assert client.post(url, [], content_type=JSON).status_code == 400


def test_readers_see_what_is_for_them_without_its_inside(cast: Cast, cluster: Cluster) -> None:
    catalogue.placement(catalogue.flavor(), cluster)
    catalogue.flavor("secret", visibility="administrators")
    (row,) = client_of(cast.owner).get(reverse("api-catalogue-list")).json()["results"]
    assert (row["slug"], row["total"], row["places"][0]["backend"]) == ("h100", 2, "dra")
    assert "placements" not in row
    assert "projects" not in row
    rows = client_of(cast.auditor).get(reverse("api-catalogue-list")).json()["results"]
    assert [row["slug"] for row in rows] == ["h100", "secret"]
    assert rows[0]["placements"][0]["device_class"] == "h100"
    assert client_of(cast.owner).get(reverse("api-catalogue-detail", args=["secret"])).status_code == 404
    assert (
        client_of(cast.owner, ApiToken.Scope.CHARGEBACK).get(reverse("api-catalogue-list")).status_code == 403
    )


@pytest.mark.parametrize("who", ["owner", "lead", "auditor", "finance"])
def test_only_administrators_change_it(cast: Cast, cluster: Cluster, who: str) -> None:
    row = catalogue.placement(catalogue.flavor(), cluster, extended_resource="nvidia.com/gpu")
    client = client_of(getattr(cast, who))
    before = list(Flavor.objects.values()), list(Placement.objects.values())
    detail = reverse("api-catalogue-place-detail", args=["h100", row.pk])
    answers = [
        client.post(reverse("api-catalogue-list"), FLAVOR, content_type=JSON),
        client.put(reverse("api-catalogue-detail", args=["h100"]), FLAVOR, content_type=JSON),
        client.post(reverse("api-catalogue-archive", args=["h100"])),
        client.post(reverse("api-catalogue-place-list", args=["h100"]), PLACE, content_type=JSON),
        client.put(detail, PLACE, content_type=JSON),
        client.delete(detail),
        client.post(f"{detail}switch/", {"stage": "dra"}, content_type=JSON),
        client.get(reverse("api-catalogue-proposals")),
        client.post(reverse("api-catalogue-proposals"), {"key": "class:h100:"}, content_type=JSON),
    ]
    assert {answer.status_code for answer in answers} == {403}
    assert before == (list(Flavor.objects.values()), list(Placement.objects.values()))


def test_a_proposal_becomes_a_flavor(cast: Cast, cluster: Cluster) -> None:
    client = client_of(cast.admin)
    keys = [row["key"] for row in client.get(reverse("api-catalogue-proposals")).json()]
    assert "class:h100:" in keys
    made = client.post(reverse("api-catalogue-proposals"), {"key": "class:h100:"}, content_type=JSON)
    assert (made.status_code, made.json()["slug"]) == (201, "h100")
    assert (
        client.post(reverse("api-catalogue-proposals"), {"key": "gone"}, content_type=JSON).status_code == 400
    )


def test_the_catalogue_and_approvals_are_in_the_schema() -> None:
    schema = SchemaGenerator().get_schema(request=None, public=True)  # type: ignore[no-untyped-call] # spectacular has no types
    paths = schema["paths"]
    assert {"get", "put"} <= set(paths["/api/v1/catalogue/{slug}/"])
    assert "post" in paths["/api/v1/requests/{key}/approve/"]
