"""The pages and REST of node pools on their way to DRA: what is shown, what is refused, and what is kept."""

import json
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from claims.models import Placement, PoolPlan, PoolPlanEntry
from inventory.models import Cluster
from portal.accounts.models import ApiToken, User
from tests.access.world import issue
from tests.claims import catalogue, poolplans
from tests.claims.conftest import Cast

pytestmark = pytest.mark.django_db
Stage = PoolPlan.Stage
VALUES = {
    "cluster": "main", "name": "a100", "labels": "pool=a100", "extended_resource": "nvidia.com/gpu",
    "device_class": "a100", "way": "dra", "reason": "Groups share cards",
}  # fmt: skip


@pytest.fixture
def plan(cluster: Cluster) -> PoolPlan:
    poolplans.nodes(cluster)
    return poolplans.plan(cluster)


@pytest.fixture
def admin(client: Client, cast: Cast) -> Client:
    client.force_login(cast.admin)
    return client


def rest(user: User) -> dict[str, Any]:
    token = issue(user, ApiToken.Scope.values)[1]
    return {"headers": {"Authorization": f"Bearer {token}"}, "content_type": "application/json"}


def test_a_pool_is_planned_and_shown_at_its_stage(admin: Client, cluster: Cluster) -> None:
    answer = admin.post(reverse("migration-create"), VALUES)
    assert answer.status_code == 303
    assert PoolPlan.objects.get().reason == "Groups share cards"
    shown = admin.get(reverse("migration-list")).content.decode()
    assert "a100" in shown
    assert "nvidia.com/gpu" in admin.get(reverse("migration-list"), {"format": "csv"}).getvalue().decode()


def test_what_is_wrong_stands_at_its_field_and_nothing_typed_is_lost(admin: Client, cluster: Cluster) -> None:
    answer = admin.post(reverse("migration-create"), VALUES | {"labels": "no label", "reason": ""})
    page = answer.content.decode()
    assert answer.status_code == 422
    assert "Write one label a line" in page
    assert "Write the reason of the business down" in page
    assert "no label</textarea>" in page


def test_the_planner_names_danger_differences_and_what_has_no_data(
    admin: Client, plan: PoolPlan, cluster: Cluster
) -> None:
    catalogue.units(cluster, "node-a100")
    poolplans.pod(cluster, "train")
    page = admin.get(reverse("migration-detail", args=[plan.pk])).content.decode()
    assert "Danger: on 1 node" in page
    assert "The plugin counts 4 pieces of hardware, the driver publishes 2." in page
    assert "no data" in page
    assert "train" in page


def test_a_stage_needs_its_checklist_and_a_reason(admin: Client, plan: PoolPlan, cast: Cast) -> None:
    address = reverse("migration-stage", args=[plan.pk])
    refused = admin.post(address, {"version": "1", "stage": "canary", "why": "now"})
    assert refused.status_code == 422
    assert "First write down the reason" in refused.content.decode()
    PoolPlan.objects.update(stage=Stage.DUAL, way="dra", reason="x")
    assert admin.post(address, {"version": "1", "stage": "canary", "why": ""}).status_code == 422
    assert admin.post(address, {"version": "0", "stage": "canary", "why": "no"}).status_code == 409
    assert admin.post(address, {"version": "1", "stage": "canary", "why": "Too early"}).status_code == 303
    assert [e.why for e in PoolPlanEntry.objects.all()] == ["Too early"]
    assert "Too early" in admin.get(reverse("migration-detail", args=[plan.pk])).content.decode()


def test_only_what_was_shown_is_switched_and_it_can_be_rolled_back(
    admin: Client, plan: PoolPlan, cluster: Cluster
) -> None:
    placement = poolplans.both_ways(cluster)
    address = reverse("migration-switch", args=[plan.pk])
    shown = admin.get(address, {"to": "dra"})
    seen = shown.context["effect"].seen
    assert "1 place changes." in shown.content.decode()
    assert Placement.objects.get().stage == Placement.Stage.PLUGIN
    said = {"seen": seen, "why": "The canary is good"}
    assert admin.post(f"{address}?to=automatic", said).status_code == 409
    assert admin.post(f"{address}?to=dra", said | {"why": ""}).status_code == 422
    assert admin.post(f"{address}?to=dra", said).status_code == 303
    placement.refresh_from_db()
    assert placement.stage == Placement.Stage.DRA
    entry = PoolPlanEntry.objects.get()
    back = admin.get(address, {"undo": entry.pk}).context["effect"].seen
    assert admin.post(f"{address}?undo={entry.pk}", {"seen": back, "why": "Not good"}).status_code == 303
    placement.refresh_from_db()
    assert placement.stage == Placement.Stage.PLUGIN


def test_a_signature_is_kept_with_name_and_note(admin: Client, plan: PoolPlan) -> None:
    address = reverse("migration-sign", args=[plan.pk, "way-back"])
    assert admin.get(address).status_code == 200
    assert admin.post(address, {"note": "\x00"}).status_code == 422
    assert admin.post(address, {"note": "Runbook 7, tried on Monday"}).status_code == 303
    page = admin.get(reverse("migration-detail", args=[plan.pk])).content.decode()
    assert "Runbook 7, tried on Monday" in page
    assert admin.post(address, {"note": "Out of date", "settled": "no"}).status_code == 303
    assert "Runbook 7" not in admin.get(reverse("migration-detail", args=[plan.pk])).content.decode()
    assert admin.post(reverse("migration-sign", args=[plan.pk, "reason"]), {"note": "x"}).status_code == 303
    assert plan.signatures.count() == 2


def test_the_plan_can_be_taken_away_as_a_file_and_on_paper(admin: Client, plan: PoolPlan) -> None:
    told = json.loads(admin.get(reverse("migration-export", args=[plan.pk])).content)
    assert [node["node"] for node in told["inventories"]["nodes"]] == ["node-a100", "node-h100"]
    assert told["billing"] == {"canary": None, "old": None}
    rows = admin.get(reverse("migration-export", args=[plan.pk]), {"format": "csv"}).getvalue().decode()
    assert rows.splitlines()[1].startswith("node-a100,canary,,,,2,0,0,0,2,True,")
    assert "node-h100" in admin.get(reverse("migration-print", args=[plan.pk])).content.decode()


def test_programs_go_the_same_way(client: Client, cast: Cast, plan: PoolPlan, cluster: Cluster) -> None:
    placement = poolplans.both_ways(cluster)
    ada, audrey, finn = (rest(user) for user in (cast.admin, cast.auditor, cast.finance))
    base = reverse("api-migration-detail", args=[plan.pk])
    assert client.get(base, **finn).status_code == 403
    told = client.get(base, {"from": "2026-11-01", "to": "2026-12-01"}, **audrey).json()
    assert told["period"]["from"].startswith("2026-11-01")
    assert client.get(base, {"from": "9999-99-99"}, **audrey).status_code == 400
    body = {k: v for k, v in VALUES.items() if k != "labels"} | {"labels": {"pool": "a"}, "version": 1}
    assert client.put(base, json.dumps(body), **audrey).status_code == 403
    assert client.put(base, json.dumps(body | {"version": 10**30}), **ada).status_code == 409
    assert client.put(base, json.dumps(body | {"version": True}), **ada).status_code == 400
    assert client.put(base, json.dumps(body), **ada).json()["version"] == 2
    PoolPlan.objects.update(labels=poolplans.LABELS, extended_resource=poolplans.RESOURCE)
    switch = reverse("api-migration-switch", args=[plan.pk])
    effect = client.get(switch, {"to": "dra"}, **ada).json()
    assert [place["backend_after"] for place in effect["places"]] == ["dra"]
    said = {"to": "dra", "seen": effect["seen"], "why": "The canary is good"}
    assert client.post(switch, json.dumps(said | {"seen": "x"}), **ada).status_code == 409
    done = client.post(switch, json.dumps(said), **ada).json()
    placement.refresh_from_db()
    assert (done["kind"], placement.stage) == ("switch", "dra")
    assert client.get(switch, {"undo": "999999"}, **ada).status_code == 404
    sign = reverse("api-migration-sign", args=[plan.pk])
    assert client.post(sign, json.dumps({"item": "reason", "note": "x"}), **ada).status_code == 400
    answer = client.post(sign, json.dumps({"item": "way-back", "note": "Runbook"}), **ada).json()
    point = next(point for point in answer["checklist"] if point["item"] == "way-back")
    assert (point["verdict"], point["signed"]["note"]) == ("signed", "Runbook")
    stage = reverse("api-migration-stage", args=[plan.pk])
    assert (
        client.post(stage, json.dumps({"stage": "dual", "why": "x", "version": 2}), **ada).status_code == 400
    )
    assert client.delete(base, **ada).status_code == 204


def test_a_plan_is_removed_after_a_question(admin: Client, plan: PoolPlan) -> None:
    address = reverse("migration-remove", args=[plan.pk])
    assert "signatures and drills go with it" in admin.get(address).content.decode()
    plan.drills.create(
        cluster=plan.cluster, namespace="drill", device_class="gpu", image="x", created_at=timezone.now()
    )
    admin.post(address)
    assert PoolPlan.objects.exists()
    plan.drills.update(state="finished")
    admin.post(address)
    assert not PoolPlan.objects.exists()
