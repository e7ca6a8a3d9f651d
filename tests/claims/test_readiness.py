"""The checklist of readiness says what was seen, never more; and what nobody sees wants somebody's word."""

import json
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from claims.models import Charge, GrowablePool, PoolPlan, PoolPlanEntry, Quota, ReadinessNote
from claims.readiness import notes
from claims.readiness.points import BY_CODE, POINTS
from claims.readiness.seen import MET, NOTE, OPEN, UNKNOWN
from inventory.models import (
    CdiNode,
    Cluster,
    Device,
    DeviceTaintRule,
    DiagnosisTask,
    Finding,
    NamespaceBinding,
    PlatformChange,
    PlatformContract,
    RuleState,
)
from portal.accounts.models import ApiToken, AuditEntry, Project
from tests.claims.conftest import Cast
from tests.inventory_pages.factories import make_cluster, make_device, make_pool

pytestmark = pytest.mark.django_db

JUDGED = (
    *("pool-incomplete", "pool-invalid", "pool-empty", "hardware-without-slice", "slice-abandoned"),
    *("doubly-managed", "prepare-failed", "health-fault", "device-unhealthy", "cdi-drift"),
)


@pytest.fixture
def now() -> datetime:
    return timezone.now()


@pytest.fixture
def here(now: datetime) -> Cluster:
    """In step, and with all rules judged."""
    found = make_cluster("north", served={"resourceslices": "resource.k8s.io/v1"})
    for kind in JUDGED:
        RuleState.objects.create(cluster=found, kind=kind, judged_at=now, tried_at=now)
    return found


def verdict(cluster: Cluster, code: str, now: datetime) -> str:
    return BY_CODE[code].judge(cluster, now).verdict


def said(cluster: Cluster, code: str, now: datetime) -> str:
    return " ".join(line.text for line in BY_CODE[code].judge(cluster, now).lines)


def finding(cluster: Cluster, kind: str, now: datetime, **more: Any) -> Finding:
    return Finding.objects.create(
        cluster=cluster,
        kind=kind,
        **{"subject": "a", "severity": "bad", "object_kind": "pool", "name": "a", "code": kind} | more,
        first_seen_at=now,
        opened_at=now,
        last_seen_at=now,
    )


def test_every_point_can_be_judged_of_a_cluster_that_has_nothing(now: datetime) -> None:
    bare = Cluster.objects.create(name="bare", created_at=now)
    for point in POINTS:
        found = point.judge(bare, now)
        assert found.verdict in (OPEN, UNKNOWN, NOTE), f"{point.code}: nothing was seen, and yet it is met"
        assert found.lines, point.code
    assert len(BY_CODE) == len(POINTS) == 17


@pytest.mark.parametrize(
    ("point", "kind"),
    [
        ("discovery", "pool-incomplete"),
        ("discovery", "hardware-without-slice"),
        ("injection", "prepare-failed"),
        ("one-manager", "doubly-managed"),
    ],
)
def test_a_finding_opens_its_point_and_its_end_closes_it(
    here: Cluster, now: datetime, point: str, kind: str
) -> None:
    assert verdict(here, point, now) == MET
    found = finding(here, kind, now)
    assert verdict(here, point, now) == OPEN
    Finding.objects.filter(pk=found.pk).update(resolved_at=now)
    assert verdict(here, point, now) == MET
    # A rule that cannot be judged tells nothing, whatever it told before.
    RuleState.objects.filter(cluster=here, kind=kind).update(unknown_since=now)
    assert verdict(here, point, now) == UNKNOWN


@pytest.mark.parametrize("point", ["discovery", "injection", "one-manager", "health", "install"])
def test_a_cluster_that_is_not_in_step_is_not_judged(here: Cluster, now: datetime, point: str) -> None:
    Cluster.objects.filter(pk=here.pk).update(state=Cluster.State.UNREACHABLE)
    here.refresh_from_db()
    assert verdict(here, point, now) == UNKNOWN


def test_each_fault_has_its_diagnosis(here: Cluster, now: datetime) -> None:
    assert verdict(here, "health", now) == MET
    fault = finding(here, "health-fault", now)
    assert verdict(here, "health", now) == OPEN
    DiagnosisTask.objects.create(
        cluster=here, subject=fault.subject, finding=fault, opened_at=now, changed_at=now
    )
    assert verdict(here, "health", now) == MET


def test_a_faulty_device_that_nothing_keeps_from_the_next_claim_leaves_the_point_open(
    here: Cluster, now: datetime
) -> None:
    """Once its Pod has gone, no kubelet complains any more, and it is handed out again."""
    device = make_device(here, "gpu-0")
    subject = f"{device.pool.driver}/{device.pool.name}/{device.name}"
    fault = finding(here, "device-unhealthy", now, subject=subject)
    DiagnosisTask.objects.create(cluster=here, subject=subject, finding=fault, opened_at=now, changed_at=now)
    assert verdict(here, "health", now) == OPEN
    assert subject in said(here, "health", now)
    device.taints = [{"key": "example.com/ecc", "effect": "NoSchedule"}]
    device.save()
    assert verdict(here, "health", now) == MET
    Device.objects.update(taints=[{"key": "example.com/ecc", "effect": "None"}])
    assert verdict(here, "health", now) == OPEN
    DeviceTaintRule.objects.create(
        cluster=here, name="ecc", uid="r", resource_version="1", selects=True, driver=device.pool.driver,
        pool_name=device.pool.name, device_name="gpu-0", key="example.com/ecc", effect="NoExecute", spec={},
    )  # fmt: skip
    assert verdict(here, "health", now) == MET


def test_every_project_of_the_cluster_is_limited(here: Cluster, project: Project, now: datetime) -> None:
    assert verdict(here, "quota", now) == NOTE
    NamespaceBinding.objects.create(
        cluster=here, namespace="folding", project=project, valid_from=now - timedelta(days=1)
    )
    assert verdict(here, "quota", now) == OPEN
    Quota.objects.create(
        project=project,
        kind=Quota.Kind.DEVICES,
        limit="4",
        action=Quota.Action.BLOCK,
        valid_from=now - timedelta(days=1),
        created_at=now,
        changed_at=now,
    )
    assert verdict(here, "quota", now) == MET


def test_reason_canary_and_way_back_come_from_the_pools_plans(here: Cluster, now: datetime) -> None:
    assert (verdict(here, "reason", now), verdict(here, "way-back", now)) == (OPEN, OPEN)
    plan = PoolPlan.objects.create(
        cluster=here, name="a100", extended_resource="nvidia.com/gpu", created_at=now, changed_at=now
    )
    assert verdict(here, "reason", now) == OPEN
    PoolPlan.objects.filter(pk=plan.pk).update(reason="Sharing is needed.", way=PoolPlan.Way.DRA)
    assert verdict(here, "reason", now) == MET
    assert "Sharing is needed." in said(here, "reason", now)
    for kind, facts in (("stage", {"from": "inventory", "to": "canary"}), ("undo", {"places": []})):
        assert verdict(here, "way-back", now) == OPEN
        PoolPlanEntry.objects.create(plan=plan, kind=kind, at=now, why="x", facts=facts)
    assert verdict(here, "way-back", now) == MET
    assert verdict(here, "lifecycle", now) == OPEN
    assert "no drill yet" in said(here, "lifecycle", now)


def test_nodes_with_devices_report_their_cdi(here: Cluster, now: datetime) -> None:
    assert verdict(here, "cdi", now) == NOTE
    CdiNode.objects.create(cluster=here, name="n1", created_at=now, received_at=now, interval_seconds=600)
    assert verdict(here, "cdi", now) == MET
    make_device(here, "gpu-0", node="n1")
    assert verdict(here, "cdi", now) == MET
    # What was reported once, and never since, is not under control.
    assert "1 of 1" in said(here, "cdi", now)
    CdiNode.objects.update(received_at=now - timedelta(days=3))
    assert verdict(here, "cdi", now) == OPEN
    assert "0 of 1" in said(here, "cdi", now)
    CdiNode.objects.update(received_at=now)
    finding(here, "cdi-drift", now)
    assert verdict(here, "cdi", now) == OPEN


def charge(cluster: Cluster, now: datetime, *, product: str, list_micros: int | None) -> Charge:
    at = int(now.timestamp()) * 1_000_000
    return Charge.objects.create(
        source=product,
        month="2026-11",
        started_us=at - 1,
        ended_us=at,
        cluster=cluster,
        product=product,
        quantity=1,
        list_micros=list_micros,
        content="c",
    )


def test_what_was_used_has_its_price(here: Cluster, now: datetime) -> None:
    assert verdict(here, "billing", now) == NOTE
    charge(here, now, product="NVIDIA H100", list_micros=1)
    assert verdict(here, "billing", now) == MET
    charge(here, now, product="NVIDIA A100", list_micros=None)
    assert verdict(here, "billing", now) == OPEN
    assert "NVIDIA A100" in said(here, "billing", now)
    assert "H100" not in said(here, "billing", now)


def test_somebody_fetches_metrics(here: Cluster, cast: Cast, now: datetime) -> None:
    assert verdict(here, "monitoring", now) == OPEN
    token, _secret = ApiToken.objects.create(user=cast.admin, name="prometheus", scopes=["metrics"])
    for age, expected in ((timedelta(days=2), OPEN), (timedelta(minutes=1), MET)):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now - age)
        assert verdict(here, "monitoring", now) == expected


def test_missing_rights_are_seen_and_policies_are_not(here: Cluster, now: datetime) -> None:
    assert verdict(here, "policy", now) == NOTE
    Cluster.objects.filter(pk=here.pk).update(missing_permissions=["create pods in weather"])
    here.refresh_from_db()
    assert verdict(here, "policy", now) == OPEN
    assert "create pods in weather" in said(here, "policy", now)


def test_the_contract_is_that_of_the_cluster(here: Cluster, cast: Cast, now: datetime) -> None:
    assert verdict(here, "contract", now) == OPEN
    PlatformContract.objects.create(cluster=here, kubernetes=">=1.36", changed_at=now, changed_by=cast.admin)
    assert verdict(here, "contract", now) == UNKNOWN, "not observed yet"
    PlatformChange.objects.create(cluster=here, part="kubernetes", after=["v1.36.2"], seen_at=now)
    assert verdict(here, "contract", now) == MET
    Cluster.objects.filter(pk=here.pk).update(server_version="v1.36.2")
    here.refresh_from_db()
    assert "PartitionableDevices" in said(here, "contract", now)
    make_pool(here, missing_gate="DRAConsumableCapacity")
    assert verdict(here, "contract", now) == OPEN
    assert "1 pool needs DRAConsumableCapacity, which is off." in said(here, "contract", now)


# --- somebody's word --------------------------------------------------------------------------------


def state(cluster: Cluster, code: str, now: datetime) -> str:
    return next(judged.state for judged in notes.checklist(cluster, now=now) if judged.point.code == code)


def test_a_word_settles_what_nobody_sees_and_can_be_taken_back(
    here: Cluster, cast: Cast, now: datetime
) -> None:
    assert state(here, "drivers", now) == NOTE
    word: dict[str, Any] = {"cluster": here, "point": "drivers", "user": cast.admin}
    notes.sign(**word, note="Reviewed", settled=True, now=now)
    assert state(here, "drivers", now) == notes.SIGNED
    notes.sign(**word, note="A new driver came", settled=False, now=now + timedelta(seconds=1))
    assert state(here, "drivers", now) == NOTE
    assert ReadinessNote.objects.count() == 2, "nothing that was signed is changed"
    actions = AuditEntry.objects.order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["readiness.sign", "readiness.unsign"]


def test_what_is_seen_to_be_open_stays_open_whatever_is_signed(
    here: Cluster, cast: Cast, now: datetime
) -> None:
    finding(here, "doubly-managed", now)
    notes.sign(cluster=here, point="one-manager", note="We know", settled=True, user=cast.admin, now=now)
    assert state(here, "one-manager", now) == OPEN
    judged = next(j for j in notes.checklist(here, now=now) if j.point.code == "one-manager")
    assert judged.note is not None
    assert judged.note.note == "We know"


@pytest.mark.parametrize(("point", "note", "field"), [("drivers", "", "note"), ("nothing", "x", "point")])
def test_a_word_says_something_about_a_point(
    here: Cluster, cast: Cast, *, point: str, note: str, field: str
) -> None:
    with pytest.raises(notes.UnableToSign) as caught:
        notes.sign(cluster=here, point=point, note=note, settled=True, user=cast.admin, now=timezone.now())
    assert caught.value.field == field
    assert not ReadinessNote.objects.exists()


# --- pages ------------------------------------------------------------------------------------------


def test_the_page_shows_points_and_an_administrator_signs(client: Client, here: Cluster, cast: Cast) -> None:
    GrowablePool.objects.create(
        cluster=here,
        name="burst",
        max_nodes=9,
        labels={"pool": "burst"},
        device_class="gpu",
        devices=8,
        changed_at=timezone.now(),
        changed_by=cast.admin,
    )
    client.force_login(cast.admin)
    page = client.get("/clusters/north/readiness/").content.decode()
    assert "burst can grow to 9 nodes" in page
    assert "wants a note" in page
    path = "/clusters/north/readiness/autoscaling/"
    refused = client.post(path, {"note": "  "})
    assert refused.status_code == 422
    assert "Say what was looked at" in refused.content.decode()
    assert client.post(path, {"note": "Tried on <b>Monday</b>"}).status_code == 303
    page = client.get("/clusters/north/readiness/").content.decode()
    assert "Tried on &lt;b&gt;Monday&lt;/b&gt;" in page
    assert "signed for" in page
    assert client.get("/clusters/north/readiness/nothing/").status_code == 404


def test_the_checklist_is_a_file(client: Client, here: Cluster, cast: Cast) -> None:
    client.force_login(cast.auditor)
    text = b"".join(client.get("/clusters/north/readiness/?format=csv")).decode()
    assert len(text.strip().splitlines()) == 1 + len(POINTS)
    document = json.loads(client.get("/clusters/north/readiness/?format=json").content)
    assert [point["code"] for point in document["points"]] == [point.code for point in POINTS]
    assert document["cluster"] == here.name
