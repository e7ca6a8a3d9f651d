"""The pages and the REST of taints: looked at first, made then, over what was seen; each sees their part."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client

from inventory.models import Claim, DeskRule, Device, DeviceTaintRule, Maintenance, Node
from inventory.taints import keeping
from portal.accounts.models import AuditEntry
from portal.kube import errors
from tests.inventory_pages.factories import NVIDIA
from tests.inventory_taints.conftest import Town
from tests.inventory_taints.fakes import mirror_rules
from tests.inventory_taints.test_maintenance import plan

RULE = {
    "cluster": "berlin", "name": "fans", "driver": NVIDIA, "pool": "gpu-01", "device": "",
    "key": "example.org/repair", "value": "fan", "effect": "NoExecute", "reason": "new fans", "confirm": "",
}  # fmt: skip
HOUR = timedelta(hours=1)


@pytest.fixture
def ada(town: Town) -> Client:
    return town.client("administrator")


def look(client: Client, url: str, values: dict[str, Any]) -> tuple[str, str]:
    """The page that shows what it would do, and the digest that stands for it."""
    response = client.post(url, values | {"step": "look"})
    assert response.status_code == 200, response.content.decode()
    return response.content.decode(), response.context["form"]["looked"].value()


def test_a_rule_is_looked_at_with_whom_it_evicts_and_then_made(town: Town, ada: Client) -> None:
    html, looked = look(ada, "/taint-devices/", RULE)
    assert "tides/work" in html
    assert "at once" in html
    assert f"/requests/{town.request.key}/" in html
    assert town.fake.rules == {}
    assert [call for call in town.fake.calls if not call[3] and call[0] != "get"] == [], "only rehearsed"

    response = ada.post("/taint-devices/", RULE | {"step": "save", "looked": looked})
    assert response.status_code == 303
    assert town.fake.rules["fans"]["spec"]["taint"]["effect"] == "NoExecute"
    row = DeskRule.objects.get()
    assert (row.name, row.actor, row.reason) == ("fans", town.cast.administrator, "new fans")
    entry = AuditEntry.objects.get(action="taint_rule.create")
    assert entry.after is not None
    assert entry.after["taint"]["value"] == "fan"


def test_what_has_changed_since_it_was_looked_at_is_shown_again(town: Town, ada: Client) -> None:
    _html, looked = look(ada, "/taint-devices/", RULE)
    town.vacate()
    response = ada.post("/taint-devices/", RULE | {"step": "save", "looked": looked})
    assert response.status_code == 200
    assert town.fake.rules == {}
    assert "tides/work" not in response.content.decode()


def test_a_rule_for_everything_wants_the_name_of_the_cluster_typed(town: Town, ada: Client) -> None:
    everything = RULE | {"driver": "", "pool": ""}
    html, looked = look(ada, "/taint-devices/", everything)
    assert "every device of the cluster" in html
    for typed in ("", "Berlin"):
        sent = everything | {"step": "save", "looked": looked, "confirm": typed}
        assert ada.post("/taint-devices/", sent).status_code == 422
    assert town.fake.rules == {}
    sent = everything | {"step": "save", "looked": looked, "confirm": "berlin"}
    assert ada.post("/taint-devices/", sent).status_code == 303
    assert town.fake.rules["fans"]["spec"]["deviceSelector"] == {}


def test_what_the_cluster_refuses_stands_at_its_field_and_nothing_typed_is_lost(
    town: Town, ada: Client
) -> None:
    cause = {"field": "spec.taint.key", "message": "must be a qualified name"}
    town.fake.fail["create"] = errors.Invalid("invalid", status=422, details={"causes": [cause]})
    response = ada.post("/taint-devices/", RULE | {"step": "look", "key": "example org"})
    html = response.content.decode()
    assert response.status_code == 422
    assert "must be a qualified name" in html
    assert 'value="example org"' in html


def test_a_field_that_the_cluster_drops_is_named(town: Town, ada: Client) -> None:
    town.fake.drops = {"value"}
    response = ada.post("/taint-devices/", RULE | {"step": "look"})
    assert "taint.value" in response.content.decode()


def made(town: Town, ada: Client, **values: str) -> DeviceTaintRule:
    """A rule that is there and mirrored."""
    _html, looked = look(ada, "/taint-devices/", RULE | values)
    ada.post("/taint-devices/", RULE | values | {"step": "save", "looked": looked})
    mirror_rules(town.cluster, town.fake)
    return DeviceTaintRule.objects.get()


def test_first_without_effect_then_made_real(town: Town, ada: Client) -> None:
    rule = made(town, ada, effect="None")
    rule.conditions = [{"type": "EvictionInProgress", "message": "1 pod would be evicted in 1 namespace"}]
    rule.save()
    html = ada.get("/taints/berlin/fans/").content.decode()
    assert "1 pod would be evicted in 1 namespace" in html
    assert "tides/work" in html

    page = ada.get("/taints/berlin/fans/edit/?effect=NoExecute")
    assert page.context["form"]["effect"].value() == "NoExecute"
    values = RULE | {"seen_version": page.context["form"]["seen_version"].value()}
    _html, looked = look(ada, "/taints/berlin/fans/edit/", values)
    assert town.fake.effects == {"fans": "None"}
    ada.post("/taints/berlin/fans/edit/", values | {"step": "save", "looked": looked})
    assert town.fake.effects == {"fans": "NoExecute"}
    assert DeskRule.objects.get().effect == "NoExecute"


def test_two_who_edit_the_same_rule_get_a_conflict_and_no_lost_update(town: Town, ada: Client) -> None:
    rule = made(town, ada)
    values = RULE | {"seen_version": rule.resource_version, "effect": "NoSchedule"}
    _html, looked = look(ada, "/taints/berlin/fans/edit/", values)
    town.fake.objects["devicetaintrules", "", "fans"]["metadata"]["resourceVersion"] = "999"
    response = ada.post("/taints/berlin/fans/edit/", values | {"step": "save", "looked": looked})
    assert response.status_code == 422
    assert "Somebody changed the rule meanwhile" in response.content.decode()
    assert town.fake.effects == {"fans": "NoExecute"}


def test_only_the_very_rule_that_was_seen_is_deleted(town: Town, ada: Client) -> None:
    rule = made(town, ada)
    DeviceTaintRule.objects.update(uid="older")
    assert ada.post("/taints/berlin/fans/delete/").status_code == 422
    assert list(town.fake.rules) == ["fans"]
    DeviceTaintRule.objects.update(uid=rule.uid)
    assert ada.post("/taints/berlin/fans/delete/").status_code == 303
    assert town.fake.rules == {}
    assert DeskRule.objects.get().removed_at is not None


def test_the_list_tells_owner_and_age_and_whose_work_is_there(town: Town, ada: Client) -> None:
    made(town, ada)
    DeviceTaintRule.objects.create(
        cluster=town.cluster, name="by-hand", uid="h", resource_version="1", selects=False, key="a/b",
        effect="NoSchedule", spec={}, made_by="kubectl-create",
    )  # fmt: skip
    Device.objects.filter(name="gpu-1").update(
        taints=[{"key": "gpu.nvidia.com/xid", "value": "43", "effect": "NoExecute"}]
    )
    Node.objects.filter(name="gpu-02").update(taints=[{"key": "rack", "value": "", "effect": "NoSchedule"}])
    rows = {
        row["rule"] or row["kind"]: row for row in ada.get("/api/v1/taints/").json()["results"]
    }  # fmt: skip
    assert (rows["fans"]["made_by"], rows["fans"]["count"], rows["fans"]["held"]) == ("anouk", 2, 1)
    assert rows["fans"]["projects"] == [{"name": "Tidal models", "count": 1}]
    assert (rows["by-hand"]["owner"], rows["by-hand"]["count"]) == ("kubectl-create", 0)
    assert (rows["driver"]["owner"], rows["driver"]["since"], rows["driver"]["undated"]) == (NVIDIA, None, 1)
    assert rows["node"]["nodes"] == ["gpu-02"]
    html = town.client("stranger").get("/taints/").content.decode()
    assert "rule that kubectl-create wrote" in html
    assert "not known" in html
    assert "tides/" not in html, "whose, but not what"
    assert "gpu.nvidia.com/xid" not in ada.get("/taints/?kind=node").content.decode()


def test_a_cluster_without_the_api_says_what_is_missing(town: Town, ada: Client) -> None:
    type(town.cluster).objects.update(served={"resourceslices": "resource.k8s.io/v1"})
    for url in ("/taints/", "/taint-devices/", "/plan-maintenance/"):
        assert "DRADeviceTaintRules" in ada.get(url).content.decode(), url


def test_claims_that_wait_are_named_when_what_they_could_have_is_tainted(town: Town, ada: Client) -> None:
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": NVIDIA}}]}}
    Claim.objects.create(
        cluster=town.cluster, namespace="tides", name="next", uid="next", resource_version="1", spec=spec
    )
    asked = {"key": "a/b", "effect": "NoSchedule"}
    told = ada.post(
        "/api/v1/device-taint-effects/berlin/", asked | {"pool": "gpu-01"}, content_type="application/json"
    ).json()
    assert told["waiting"] == [], "gpu-02 is left"
    told = ada.post("/api/v1/device-taint-effects/berlin/", asked, content_type="application/json").json()
    assert [(claim["name"], claim["fits_now"]) for claim in told["waiting"]] == [("next", True)]
    assert told["selects_all"] is True


def test_rest_makes_changes_and_deletes_a_rule(town: Town, ada: Client) -> None:
    body = {name: RULE[name] for name in ("name", "driver", "pool", "key", "effect")}

    def call(method: Callable[..., Any], url: str, **more: Any) -> Any:
        return method(url, body | more, content_type="application/json")

    url = "/api/v1/device-taint-rules/berlin/"
    rehearsed = call(ada.post, url, dry_run=True)
    assert (rehearsed.status_code, rehearsed.json()["done"], town.fake.rules) == (200, False, {})
    digest = rehearsed.json()["effect"]["digest"]
    assert call(ada.post, url, looked="0" * 20).json()["code"] == "effect_changed"
    assert call(ada.post, url, looked=digest).status_code == 201
    mirror_rules(town.cluster, town.fake)
    changed = call(ada.put, f"{url}fans/", effect="NoSchedule", resource_version="1")
    assert (changed.status_code, changed.json()["code"]) == (409, "rule_refused")
    version = DeviceTaintRule.objects.get().resource_version
    assert call(ada.put, f"{url}fans/", effect="NoSchedule", resource_version=version).status_code == 200
    assert town.fake.effects == {"fans": "NoSchedule"}
    assert call(ada.post, url, name="all", driver="", pool="").json()["errors"][0]["field"] == "confirm"
    assert ada.delete(f"{url}fans/").status_code == 200
    assert ada.delete(f"{url}fans/").json()["status"] == 404


def test_holders_see_maintenance_wherever_they_look(town: Town) -> None:
    planned = plan(town, begins=2 * HOUR, effect="NoExecute")
    device = Device.objects.get(name="gpu-0", node_name="gpu-01")
    link = f"/maintenance/{planned.key}/"
    client = town.client("member")
    for url in ("/nodes/berlin/gpu-01/", f"/devices/{device.pk}/", link, "/maintenance/"):
        assert link in client.get(url).content.decode(), url
    assert link not in client.get("/nodes/berlin/gpu-02/").content.decode()
    # What it means, and only one's own holds.
    assert "tides/harmonics" in client.get(link).content.decode()
    assert "tides/harmonics" not in town.client("stranger").get(link).content.decode()


def test_a_preview_says_what_it_would_run_into(town: Town) -> None:
    from claims.asks.values import Reading
    from claims.preview.upkeep import maintenance_ahead

    plan(town, begins=2 * HOUR, reason="new fans")
    reading = Reading(cluster=town.cluster, duration=8 * HOUR)
    (said,) = maintenance_ahead(reading, nodes=["gpu-01"], now=town.now)
    assert said.startswith("Maintenance wherever it fits, from ")
    (said,) = maintenance_ahead(reading, nodes=["gpu-01", "gpu-02"], now=town.now)
    assert "1 of the nodes" in said
    assert said.endswith("new fans. It is gpu-01.")
    assert maintenance_ahead(reading, nodes=["gpu-02"], now=town.now) == []
    short = Reading(cluster=town.cluster, duration=HOUR)
    assert maintenance_ahead(short, nodes=["gpu-01"], now=town.now) == []


def test_leftovers_are_removed_by_hand_too(town: Town, ada: Client) -> None:
    planned = plan(town, begins=timedelta())
    keeping.settle(planned, now=town.now)
    Maintenance.objects.update(state="ended")
    assert ada.post("/remove-left-over-taints/").status_code == 303
    assert town.fake.rules == {}


def test_a_desk_that_only_looks_plans_and_taints_nothing(town: Town, ada: Client, settings: Any) -> None:
    settings.READ_ONLY = True
    assert "only looks" in ada.post("/taint-devices/", RULE | {"step": "look"}).content.decode()
    sent = {"cluster": "berlin", "scope": "node", "node": "gpu-01", "reason": "fans"}
    assert "only looks" in ada.post("/empty-node/", sent).content.decode()
    ada.post("/remove-left-over-taints/")
    keeping.keep(now=town.now)
    assert town.fake.calls == []
