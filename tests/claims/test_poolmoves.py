"""Node pools that go from a Device Plugin to DRA: what is compared, what depends, and what a switch does."""

from datetime import timedelta
from fractions import Fraction
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from claims.models import Allocation, Drill, DrillStep, Placement, PoolPlan, PoolPlanEntry
from claims.poolmoves import checklist, planner, plans, stages, switching
from claims.poolmoves.plans import UnableToPlan
from inventory.models import (
    Cluster,
    ClusterQueue,
    CountedUnits,
    Device,
    Observation,
    QueuedWorkload,
    ResourceQuota,
)
from inventory.poolmoves.dependents import dependents_of
from inventory.poolmoves.sightings import compare
from portal.accounts.models import AuditEntry
from tests.claims import catalogue, poolplans
from tests.claims.conftest import NOW, Cast

pytestmark = pytest.mark.django_db
Stage = PoolPlan.Stage
Way = Placement.Stage
WEEK = timedelta(days=7)


@pytest.fixture
def plan(cluster: Cluster) -> PoolPlan:
    poolplans.nodes(cluster)
    return poolplans.plan(cluster)


def look(plan: PoolPlan) -> planner.Planner:
    return planner.look(plan, start=NOW - WEEK, end=NOW + WEEK, now=NOW)


def point(plan: PoolPlan, key: str) -> checklist.Point:
    return next(point for point in look(plan).points if point.key == key)


def switch(plan: PoolPlan, cast: Cast, way: str, **more: Any) -> PoolPlanEntry:
    members = planner.members_now(plan)
    rows = switching.places_in(plan, members)
    found = switching.effect(plan, members, targets=switching.targets_for(rows, way), rows=rows)
    said: dict[str, Any] = {"seen": found.seen, "why": "The canary is good", "user": cast.admin, "now": NOW}
    return switching.apply(plan=plan, found=found, **said | more)


# --- both inventories -------------------------------------------------------------------------------


def test_each_node_is_told_by_both_ways_and_by_its_part(plan: PoolPlan) -> None:
    rows = {row.node: row for row in look(plan).comparison.rows}
    old, canary = rows["node-h100"], rows["node-a100"]
    assert (old.part, old.units, old.pieces, old.devices) == ("old", 4, 4, 0)
    assert (canary.part, canary.units, canary.devices, canary.differences) == ("canary", None, 2, ())
    assert look(plan).comparison.total("canary")["devices"] == 2


def test_two_managers_of_one_device_are_named(plan: PoolPlan, cluster: Cluster) -> None:
    catalogue.units(cluster, "node-a100", capacity=8, replicas=4)
    comparison = look(plan).comparison
    assert comparison.dangers == ["node-a100"]
    row = next(row for row in comparison.rows if row.dangerous)
    # Eight units of four that share a piece each are two pieces: the counts agree.
    assert row.differences == ("both-managers",)
    assert "hand out the same device twice" in row.words[0]
    assert point(plan, "one-manager").verdict == checklist.FAILS


def test_differences_of_counts_and_labels_are_named(plan: PoolPlan, cluster: Cluster) -> None:
    catalogue.units(cluster, "node-a100")
    CountedUnits.objects.filter(node_name="node-h100").update(capacity=3)
    rows = {row.node: row for row in look(plan).comparison.rows}
    assert rows["node-a100"].differences == ("both-managers", "counts-differ")
    assert rows["node-h100"].differences == ("labels-differ",)
    assert all(row.words for row in rows.values())
    CountedUnits.objects.all().delete()
    Device.objects.all().delete()
    assert {row.differences[0] for row in look(plan).comparison.rows} == {"neither"}


def test_the_number_of_queries_does_not_grow_with_the_pool(
    plan: PoolPlan, cluster: Cluster, django_assert_num_queries: Any
) -> None:
    pool, members = plans.pool_of(plan), planner.members_now(plan)
    with django_assert_num_queries(5):
        compare(pool, members)
    for number in range(5):
        poolplans.pod(cluster, f"more-{number}", owner_kind="Job", owner_uid=f"job-{number}")
    with django_assert_num_queries(8):
        dependents_of(pool, members)


# --- what depends on the resource -------------------------------------------------------------------


def test_workloads_are_told_by_what_was_submitted(plan: PoolPlan, cluster: Cluster) -> None:
    owned = {
        "owner_kind": "ReplicaSet",
        "owner_name": "serve-5f6d",
        "owner_uid": "rs",
        "labels": {"pod-template-hash": "5f6d"},
    }
    poolplans.pod(cluster, "serve-1", **owned)
    poolplans.pod(cluster, "serve-2", **owned, node_name="", extended_resources={poolplans.RESOURCE: 2})
    poolplans.pod(cluster, "done", phase="Succeeded")
    poolplans.pod(cluster, "elsewhere", node_name="node-b")
    poolplans.pod(cluster, "claimed", extended_mapping={"request-0": poolplans.RESOURCE})
    found = look(plan).dependents
    assert found.workloads is not None
    assert [(w.kind, w.name, w.pods, w.units, w.waiting) for w in found.workloads] == [
        ("Deployment", "serve", 2, 3, 1)
    ]
    assert found.served_by_claims == 1
    assert point(plan, "nothing-depends").verdict == checklist.FAILS
    poolplans.serve(cluster)
    assert point(plan, "nothing-depends").verdict == checklist.HOLDS


def test_quotas_and_queues_of_the_resource_are_found(plan: PoolPlan, cluster: Cluster) -> None:
    mirrored = {"cluster": cluster, "resource_version": "1"}
    hard = {f"requests.{poolplans.RESOURCE}": "8", "cpu": "1"}
    quota = ResourceQuota.objects.create(
        **mirrored, namespace="protein-folding", name="gpus", uid="q", hard=hard, used={}, counted=True
    )
    ClusterQueue.objects.create(
        **mirrored, name="main", uid="cq",
        quotas=[{"flavor": "h100", "resource": poolplans.RESOURCE, "nominal": "8"}],
    )  # fmt: skip
    QueuedWorkload.objects.create(
        **mirrored, namespace="protein-folding", name="w", uid="w", state="pending", queue_name="local",
        pod_sets=[{"name": "main", "count": 1, "requests": {poolplans.RESOURCE: "1"}}],
    )  # fmt: skip
    found = look(plan).dependents
    assert found.quotas is not None
    assert found.queues is not None
    assert [(row.namespace, row.hard, row.carried_over) for row in found.quotas] == [
        ("protein-folding", "8", False)
    ]
    assert [(row.queue, row.nominal, row.waiting) for row in found.queues] == [("main", "8", 1)]
    assert point(plan, "quotas").verdict == checklist.FAILS
    quota.hard = hard | {"gpu.deviceclass.resource.k8s.io/devices": "8"}
    quota.save()
    assert point(plan, "quotas").verdict == checklist.HOLDS


def test_what_is_not_followed_is_not_called_empty(plan: PoolPlan, cluster: Cluster) -> None:
    cluster.streams.all().delete()
    found = look(plan).dependents
    assert (found.workloads, found.quotas, found.queues, found.pods) == (None, None, None, None)
    assert {point(plan, key).verdict for key in ("nothing-depends", "quotas", "queues")} == {"unknown"}


# --- Pods and money side by side --------------------------------------------------------------------


def test_pods_of_both_parts_are_compared_and_without_any_there_is_no_data(
    plan: PoolPlan, cluster: Cluster
) -> None:
    poolplans.pod(cluster, "a")
    poolplans.pod(cluster, "b", scheduled_at=NOW - timedelta(minutes=5))
    for name, phase in (("x", "Failed"), ("y", "Succeeded")):
        Observation.objects.create(
            cluster=cluster, kind="pod-finished", at=NOW - timedelta(days=1), source="pod", observed_at=NOW,
            name=name, uid=name, key=name, facts={"node": "node-h100", "phase": phase},
        )  # fmt: skip
    fates = look(plan).fates
    assert (fates["old"].phases, fates["old"].finished, fates["old"].failed) == ({"Running": 2}, 2, 1)
    assert fates["old"].typical_wait == timedelta(minutes=1)
    assert not fates["canary"].seen
    assert point(plan, "pods-run").verdict == checklist.UNKNOWN


def test_use_is_counted_within_the_period_and_priced_exactly(plan: PoolPlan, cluster: Cluster) -> None:
    def held(node: str, hours: int, **columns: Any) -> None:
        values: dict[str, Any] = {
            "namespace": "protein-folding", "claim_name": "c", "claim_uid": f"{node}-{hours}", "epoch": 1,
            "driver": "gpu.nvidia.com", "pool_name": node, "device_name": "gpu-0", "request_name": "r",
            "node_name": node, "started_at": NOW - timedelta(hours=hours), "start_source": "observed",
            "ended_at": NOW,
        }  # fmt: skip
        Allocation.objects.create(cluster=cluster, **values | columns)

    held("node-a100", 3)
    held("node-a100", 1000, device_name="gpu-1")
    held(
        "node-h100",
        2,
        kind="units",
        driver="nvidia.com",
        units=4,
        replicas=2,
        extended_resource="nvidia.com/gpu",
    )
    held("node-h100", 5, driver="dra.net")
    held("node-h100", 6, admin_access=True)
    use = look(plan).use
    assert use["canary"].device_hours == Fraction(3 + 7 * 24)
    assert use["old"].device_hours == Fraction(4)
    assert (use["old"].intervals, use["old"].unpriced) == (1, 1)
    assert point(plan, "billing").verdict == checklist.FAILS


# --- stages -----------------------------------------------------------------------------------------


def move(plan: PoolPlan, cast: Cast, to: str, **more: Any) -> None:
    said: dict[str, Any] = {
        "why": "The time has come", "seen_version": plan.version, "user": cast.admin, "now": NOW,
        "points": list(look(plan).points),
    }  # fmt: skip
    stages.move(plan=plan, to=to, **said | more)


def test_no_canary_without_a_written_reason_and_a_settled_list(plan: PoolPlan, cast: Cast) -> None:
    with pytest.raises(UnableToPlan, match="reason of the business"):
        move(plan, cast, Stage.CANARY)
    plan.way, plan.reason = "dra", "Partitions per project"
    plan.save()
    with pytest.raises(UnableToPlan, match="rolled back"):
        move(plan, cast, Stage.CANARY)
    checklist.sign(plan=plan, item="way-back", note="Runbook 7", settled=True, user=cast.admin, now=NOW)
    with pytest.raises(UnableToPlan) as refused:
        move(plan, cast, Stage.CANARY, why="")
    assert set(refused.value.errors) == {"why"}
    move(plan, cast, Stage.CANARY)
    assert plan.stage == Stage.CANARY
    assert [(e.facts, e.why) for e in plan.entries.all()] == [
        ({"from": "inventory", "to": "canary"}, "The time has come")
    ]
    assert AuditEntry.objects.filter(action="pool-plan.stage").count() == 1


def test_even_the_database_refuses_a_canary_without_a_reason(plan: PoolPlan) -> None:
    with pytest.raises(IntegrityError), transaction.atomic():
        PoolPlan.objects.filter(pk=plan.pk).update(stage=Stage.CANARY, reason="", way="dra")


def test_back_is_free_and_forward_is_one_step(plan: PoolPlan, cast: Cast) -> None:
    PoolPlan.objects.update(stage=Stage.MIGRATED, reason="x", way="dra")
    plan.refresh_from_db()
    assert stages.choices(Stage.INVENTORY) == [Stage.CANARY]
    assert stages.choices(Stage.MIGRATED) == [Stage.DUAL, Stage.CANARY, Stage.INVENTORY]
    move(plan, cast, Stage.INVENTORY)
    with pytest.raises(UnableToPlan, match="next stage"):
        move(plan, cast, Stage.MIGRATED)


def test_who_decides_on_what_is_no_longer_so_is_told(plan: PoolPlan, cast: Cast) -> None:
    PoolPlan.objects.update(stage=Stage.DUAL, reason="x", way="dra")
    plan.refresh_from_db()
    PoolPlan.objects.update(version=7)
    with pytest.raises(UnableToPlan) as refused:
        move(plan, cast, Stage.CANARY)
    assert refused.value.conflict
    assert not plan.entries.exists()


def test_a_signature_counts_until_it_is_taken_back_and_never_against_what_is_seen(
    plan: PoolPlan, cast: Cast, cluster: Cluster
) -> None:
    def sign(settled: bool, minutes: int) -> None:
        checklist.sign(
            plan=plan, item="queues", note="Looked", settled=settled, user=cast.admin,
            now=NOW + timedelta(minutes=minutes),
        )  # fmt: skip

    cluster.streams.filter(resource="clusterqueues").delete()
    sign(True, 0)
    signed = point(plan, "queues")
    assert (signed.verdict, signed.settled) == (checklist.SIGNED, True)
    assert signed.signature is not None
    assert signed.signature.person == cast.admin
    sign(False, 1)
    assert point(plan, "queues").verdict == checklist.UNKNOWN
    with pytest.raises(UnableToPlan):
        checklist.sign(plan=plan, item="reason", note="x", settled=True, user=cast.admin, now=NOW)


def test_a_drill_settles_its_point_only_if_nothing_was_otherwise(plan: PoolPlan, cluster: Cluster) -> None:
    assert point(plan, "drill").verdict == checklist.OPEN
    drill = Drill.objects.create(
        plan=plan, cluster=cluster, namespace="drill", device_class="gpu", image="x", state="finished",
        created_at=NOW, finished_at=NOW,
    )  # fmt: skip
    for position, verdict in enumerate(("proven", "skipped")):
        DrillStep.objects.create(
            drill=drill, position=position, code=f"s{position}", state="done", verdict=verdict
        )
    assert point(plan, "drill").verdict == checklist.HOLDS
    drill.steps.filter(position=1).update(verdict="differs")
    assert point(plan, "drill").verdict == checklist.FAILS


# --- flavors ----------------------------------------------------------------------------------------


def test_the_effect_is_shown_and_then_done_and_rolled_back(
    plan: PoolPlan, cast: Cast, cluster: Cluster
) -> None:
    placement = poolplans.both_ways(cluster)
    alone = catalogue.placement(catalogue.flavor("other"), cluster, device_class="gpu", node_selector={})
    members = planner.members_now(plan)
    rows = switching.places_in(plan, members)
    found = switching.effect(plan, members, targets=switching.targets_for(rows, Way.DRA), rows=rows)
    by_key = {place.placement.pk: place for place in found.places}
    assert by_key[placement.pk].switches
    assert not by_key[alone.pk].changes
    assert by_key[alone.pk].why_not
    assert by_key[alone.pk].whole_cluster
    assert by_key[placement.pk].stock.total == 4
    entry = switch(plan, cast, Way.DRA)
    placement.refresh_from_db()
    assert placement.stage == Way.DRA
    assert [told["from"] for told in entry.facts["places"]] == [Way.PLUGIN]
    rows = switching.places_in(plan, members)
    back = switching.effect(plan, members, targets=switching.targets_back(entry, rows), rows=rows)
    switching.apply(
        plan=plan, found=back, seen=back.seen, why="It was not good", user=cast.admin, now=NOW, undoes=entry
    )
    placement.refresh_from_db()
    assert placement.stage == Way.PLUGIN
    assert switching.undone(plan) == {entry.pk}
    trail = AuditEntry.objects.filter(action__startswith="pool-plan.").order_by("pk")
    assert list(trail.values_list("action", flat=True)) == ["pool-plan.switch", "pool-plan.undo"]


def test_what_has_changed_since_it_was_looked_at_is_not_done(
    plan: PoolPlan, cast: Cast, cluster: Cluster
) -> None:
    placement = poolplans.both_ways(cluster)
    with pytest.raises(UnableToPlan) as refused:
        switch(plan, cast, Way.DRA, seen="something else")
    assert refused.value.conflict
    with pytest.raises(UnableToPlan, match="Say why"):
        switch(plan, cast, Way.DRA, why="")
    with pytest.raises(UnableToPlan, match="Nothing would change"):
        switch(plan, cast, Way.PLUGIN)
    placement.refresh_from_db()
    assert placement.stage == Way.PLUGIN
    assert not plan.entries.exists()


def test_a_roll_back_leaves_alone_what_somebody_changed_since(
    plan: PoolPlan, cast: Cast, cluster: Cluster
) -> None:
    first, second = poolplans.both_ways(cluster), poolplans.both_ways(cluster, "second")
    entry = switch(plan, cast, Way.DRA)
    Placement.objects.filter(pk=second.pk).update(stage=Way.AUTOMATIC)
    rows = switching.places_in(plan, planner.members_now(plan))
    assert switching.targets_back(entry, rows) == {first.pk: Way.PLUGIN}


@pytest.mark.parametrize(
    ("stage", "old", "canary"),
    [
        (Stage.INVENTORY, Way.PLUGIN, Way.PLUGIN),
        (Stage.CANARY, Way.PLUGIN, Way.DRA),
        (Stage.DUAL, Way.AUTOMATIC, Way.AUTOMATIC),
        (Stage.MIGRATED, Way.DRA, Way.DRA),
    ],
)
def test_each_stage_asks_for_its_way(
    plan: PoolPlan, cluster: Cluster, stage: str, old: str, canary: str
) -> None:
    kept = poolplans.both_ways(cluster)
    tried = poolplans.both_ways(cluster, "tried", node_selector=poolplans.CANARY_LABELS)
    plan.stage = stage
    members = planner.members_now(plan)
    rows = switching.places_in(plan, members)
    assert switching.targets_of(plan, rows, members) == {kept.pk: old, tried.pk: canary}


# --- plans ------------------------------------------------------------------------------------------


def values(**more: Any) -> dict[str, Any]:
    return {
        "cluster": "main", "name": "a100", "labels": "pool=a100", "canary_labels": "",
        "extended_resource": "nvidia.com/gpu", "device_class": "a100",
    } | more  # fmt: skip


def test_a_plan_is_made_changed_and_removed_with_its_trail(cluster: Cluster, cast: Cast) -> None:
    made = plans.save(plan=None, terms=plans.read_plan(values()), user=cast.admin, now=NOW)
    changed = plans.read_plan(values(way="dra", reason="Sharing"))
    plans.save(plan=made, terms=changed, seen_version=1, user=cast.admin, now=NOW)
    assert (made.version, made.reason, made.labels) == (2, "Sharing", {"pool": "a100"})
    with pytest.raises(UnableToPlan) as refused:
        plans.save(plan=made, terms=changed, seen_version=1, user=cast.admin, now=NOW)
    assert refused.value.conflict
    with pytest.raises(UnableToPlan, match="already"):
        plans.save(plan=None, terms=changed, user=cast.admin, now=NOW)
    plans.remove(plan=made, user=cast.admin, now=NOW)
    assert list(AuditEntry.objects.order_by("pk").values_list("action", flat=True)) == [
        "pool-plan.add", "pool-plan.change", "pool-plan.remove",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"cluster": "nowhere\0"}, "cluster"),
        ({"name": "\u200b"}, "name"),
        ({"name": "x" * 64}, "name"),
        ({"labels": "pool"}, "labels"),
        ({"canary_labels": "pool=a100"}, "canary_labels"),
        ({"extended_resource": "gpu"}, "extended_resource"),
        ({"device_class": "\ud800"}, "device_class"),
        ({"way": "kubevirt"}, "way"),
        ({"way": "dra"}, "reason"),
        ({"reason": "why"}, "way"),
        ({"reason": "\0", "way": "dra"}, "reason"),
    ],
)
def test_what_is_wrong_with_a_plan_is_told_at_its_field(
    cluster: Cluster, wrong: dict[str, Any], field: str
) -> None:
    with pytest.raises(UnableToPlan) as refused:
        plans.read_plan(values(**wrong))
    assert set(refused.value.errors) == {field}
