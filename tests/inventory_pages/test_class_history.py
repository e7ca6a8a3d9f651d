"""Versions of classes on their pages and over REST: the effect first, then the change, no lost update."""

from typing import Any

import pytest

from inventory import classes
from inventory.models import ClassVersion, DeviceClass
from portal.accounts.models import AuditEntry
from tests.inventory_pages.conftest import Cast, Fleet
from tests.inventory_pages.factories import make_drift

PAGE = "/classes/berlin/gpu.nvidia.com/"
REST = "/api/v1/device-classes/berlin/gpu.nvidia.com/versions/"


@pytest.fixture
def drift(fleet: Fleet) -> tuple[ClassVersion, ClassVersion]:
    return make_drift(DeviceClass.objects.get(name="gpu.nvidia.com"))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What would be written: a domain that takes everything."""
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(classes, "restore_class", lambda **wanted: found.append(wanted))
    return found


Drift = tuple[ClassVersion, ClassVersion]


def test_drift_is_shown_to_all_and_its_buttons_to_administrators(cast: Cast, drift: Drift) -> None:
    told = cast.client("owner").get(PAGE).content.decode()
    assert "Changed without the desk" in told
    assert "was.example.org" in told
    assert "Adopt it as it is" not in told
    assert "Adopt it as it is" in cast.client("administrator").get(PAGE).content.decode()


def test_versions_are_for_those_who_read_everything(cast: Cast, drift: Drift) -> None:
    for role, status in (("owner", 403), ("stranger", 403), ("auditor", 200), ("administrator", 200)):
        assert cast.client(role).get(f"{PAGE}versions/").status_code == status
    assert cast.client("administrator").get("/classes/berlin/nope/versions/").status_code == 404


def test_the_way_back_shows_its_effect_and_is_tried_first(
    cast: Cast, drift: Drift, asked: list[dict[str, Any]]
) -> None:
    client, url = cast.client("administrator"), f"{PAGE}versions/{drift[0].pk}/restore/"
    page = client.get(url).content.decode()
    assert "−3" in page, "three devices are lost"
    assert 'name="seen_version" value="7"' in page
    typed = {"seen_version": "7", "reason": "it was right"}
    tried = client.post(url, typed | {"rehearse": "1"})
    assert "Nothing is changed yet" in tried.content.decode()
    assert client.post(url, typed | {"save": "1"}).status_code == 303
    assert [(one["rehearse_only"], one["seen_version"], one["reason"]) for one in asked] == [
        (True, "7", "it was right"),
        (False, "7", "it was right"),
    ]
    assert asked[0]["spec"] == drift[0].spec


def test_a_conflict_keeps_what_was_typed_and_looks_anew(
    cast: Cast, drift: Drift, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: Any) -> None:
        DeviceClass.objects.filter(name="gpu.nvidia.com").update(resource_version="8")
        raise classes.UnableToChangeClass("", "Somebody changed the class meanwhile.")

    monkeypatch.setattr(classes, "restore_class", refuse)
    url = f"{PAGE}versions/{drift[0].pk}/restore/"
    response = cast.client("administrator").post(url, {"seen_version": "7", "reason": "it was right"})
    page = response.content.decode()
    assert response.status_code == 422
    assert "Somebody changed the class meanwhile." in page
    assert 'value="it was right"' in page


def test_a_version_of_another_class_is_not_found(cast: Cast, drift: Drift) -> None:
    url = f"/classes/berlin/gpu.amd.com/versions/{drift[0].pk}/restore/"
    assert cast.client("administrator").get(url).status_code == 404


def test_adopting_ends_the_drift(cast: Cast, drift: Drift) -> None:
    url = f"{PAGE}versions/{drift[1].pk}/adopt/"
    assert cast.client("administrator").post(url).status_code == 303
    assert "Changed without the desk" not in cast.client("administrator").get(PAGE).content.decode()
    assert AuditEntry.objects.get(action="device_class.adopt").actor == cast.administrator
    assert cast.client("administrator").post(url).status_code == 303, "said, not done again"
    assert ClassVersion.objects.filter(source="adopted").count() == 1


def test_a_deleted_class_keeps_its_versions_and_can_be_made_anew(
    cast: Cast, drift: Drift, asked: list[dict[str, Any]]
) -> None:
    DeviceClass.objects.filter(name="gpu.nvidia.com").delete()
    client = cast.client("administrator")
    assert client.get(f"{PAGE}versions/").status_code == 200
    client.post(f"{PAGE}versions/{drift[1].pk}/restore/", {"seen_version": "", "save": "1"})
    assert [one["seen_version"] for one in asked] == [""]


def test_rest_tells_the_versions_and_the_effect(
    cast: Cast, drift: Drift, asked: list[dict[str, Any]]
) -> None:
    client = cast.client("administrator")
    rows = client.get(REST).json()["results"]
    assert [(row["source"], row["actor"]) for row in rows] == [("seen", None), ("first", None)]
    body = {"resource_version": "7", "dry_run": True}
    response = client.post(f"{REST}{drift[0].pk}/restore/", body, content_type="application/json")
    told = response.json()
    assert (response.status_code, told["done"], told["before"], told["after"]) == (200, False, 3, 0)
    assert told["lost"][0]["devices"] == 3


def test_rest_refuses_to_write_over_nothing_named(cast: Cast, drift: Drift) -> None:
    response = cast.client("administrator").post(
        f"{REST}{drift[0].pk}/restore/", {}, content_type="application/json"
    )
    assert response.status_code in {400, 422}


def test_rest_adopts_once(cast: Cast, drift: Drift) -> None:
    client, url = cast.client("administrator"), f"{REST}{drift[1].pk}/adopt/"
    assert client.post(url, {"reason": "fine"}, content_type="application/json").json() == {"adopted": True}
    again = client.post(url, {}, content_type="application/json")
    assert (again.status_code, again.json()["code"]) == (409, "nothing_to_adopt")
