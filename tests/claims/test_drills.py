"""Lifecycle drills: what each question finds, what operators do, and that nothing stays or is billed."""

from contextlib import nullcontext
from datetime import UTC, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from claims.drill import consistency, hands, namespaces, running, starting, sweeping
from claims.drill.starting import UnableToDrill
from claims.drill.steps import STEPS
from claims.ledger import storage
from claims.models import Allocation, Charge, Drill, DrillObject, DrillStep, PoolPlan
from claims.money.months import Month
from claims.money.rated import rate_month
from inventory.bindings import UnableToBind, bind
from inventory.models import Cluster, Device, NamespaceBinding, Observation, Pod
from portal.accounts.models import AuditEntry, Project
from tests.claims import drills, poolplans
from tests.claims.conftest import NOW, Cast
from tests.claims.drills import TinyCluster

pytestmark = pytest.mark.django_db
Verdict = DrillStep.Verdict
ASKS = ("driver-restart", "node-gone", "restored")
BY_ITSELF = [step.code for step in STEPS if not step.asks]


@pytest.fixture
def plan(cluster: Cluster) -> PoolPlan:
    return poolplans.plan(cluster)


@pytest.fixture
def tiny() -> TinyCluster:
    return TinyCluster()


def asked(code: str) -> Any:
    return lambda drill: drill.steps.filter(code=code, state="asking").exists()


def verdicts(drill: Drill) -> dict[str, tuple[str, str]]:
    return {step.code: (step.verdict, step.why) for step in drill.steps.order_by("position")}


def codes(drill: Drill, code: str) -> list[str]:
    return [entry["code"] for entry in drill.steps.get(code=code).observed]


def did(drill: Drill, code: str, cast: Cast, tiny: TinyCluster) -> None:
    starting.answer(drill=drill, code=code, did=True, user=cast.admin, now=drills.later(tiny))


# --- a whole run ------------------------------------------------------------------------------------


def test_a_whole_drill_proves_every_question_with_its_operator(
    plan: PoolPlan, cast: Cast, tiny: TinyCluster
) -> None:
    drill = drills.start(plan, cast.admin, tiny)
    drills.go_on(drill, tiny, until=asked("driver-restart"))
    tiny.restarts += 1
    drills.pursue(drill, tiny)
    did(drill, "driver-restart", cast, tiny)
    drills.go_on(drill, tiny, until=asked("node-gone"))
    tiny.drain("node-a")
    did(drill, "node-gone", cast, tiny)
    tiny.turn()
    drills.go_on(drill, tiny, until=asked("node-gone"))
    assert "placed-elsewhere" in codes(drill, "node-gone")
    tiny.nodes["node-a"] = True
    did(drill, "node-gone", cast, tiny)
    drills.go_on(drill, tiny, until=asked("restored"))
    did(drill, "restored", cast, tiny)
    drills.go_on(drill, tiny, until=lambda d: d.steps.filter(phase="restore", state="asking").exists())
    tiny.down = True
    drills.pursue(drill, tiny)
    tiny.down = False
    did(drill, "restored", cast, tiny)
    drills.go_on(drill, tiny)
    assert set(verdicts(drill).values()) == {(Verdict.PROVEN, "")}
    assert tiny.objects == {}
    assert {"slices-changed", "pod-undisturbed", "did"} <= set(codes(drill, "driver-restart"))
    assert {"node-cordoned", "released", "node-back"} <= set(codes(drill, "node-gone"))
    assert {"not-reachable", "later-pod-there", "consistent"} <= set(codes(drill, "restored"))
    assert AuditEntry.objects.filter(action="drill.finish").get().after == {
        "proven": len(STEPS), "not-proven": 0, "differs": 0, "skipped": 0,
    }  # fmt: skip


def test_evidence_has_the_clusters_times_and_its_events(
    plan: PoolPlan, cast: Cast, tiny: TinyCluster
) -> None:
    drill = drills.start(plan, cast.admin, tiny, questions=["devices-chosen"])
    drills.go_on(drill, tiny)
    found = drill.steps.get().observed
    assert [entry["code"] for entry in found] == [
        "claim-made", "nothing-chosen", "pod-made", "allocated", "scheduled", "event",
    ]  # fmt: skip
    made = next(entry for entry in found if entry["code"] == "pod-made")
    assert made["source"] == "object"
    assert made["at"].endswith("Z")
    assert next(e for e in found if e["code"] == "event")["what"]["reason"] == "Scheduled"


def test_without_a_kubelet_what_needs_one_ends_not_proven_and_nothing_stays(
    plan: PoolPlan, cast: Cast
) -> None:
    tiny = TinyCluster(kubelet=False)
    drill = drills.start(plan, cast.admin, tiny, questions=BY_ITSELF)
    drills.go_on(drill, tiny, turns=600)
    never = (Verdict.NOT_PROVEN, "pod-never-started")
    found = verdicts(drill)
    assert found.pop("claim-created") == found.pop("devices-chosen") == (Verdict.PROVEN, "")
    assert set(found.values()) == {never}
    assert tiny.objects == {}


def test_what_is_otherwise_differs(plan: PoolPlan, cast: Cast, tiny: TinyCluster) -> None:
    drill = drills.start(plan, cast.admin, tiny, questions=["pod-deleted", "freed"])
    drills.go_on(drill, tiny, until=lambda d: d.steps.filter(phase="delete").exists())
    tiny.claim("x")["status"]["allocation"]["devices"]["results"][0]["device"] = "gpu-1"
    drills.go_on(drill, tiny, until=lambda d: d.steps.filter(code="freed", phase="protected").exists())
    assert verdicts(drill)["pod-deleted"] == (Verdict.DIFFERS, "not-kept")
    del tiny.objects["resourceclaims", tiny.claim("e")["metadata"]["name"]]
    drills.go_on(drill, tiny)
    assert verdicts(drill)["freed"] == (Verdict.DIFFERS, "not-protected")


def test_a_restore_that_contradicts_itself_differs_by_name(
    plan: PoolPlan, cast: Cast, tiny: TinyCluster
) -> None:
    drill = drills.start(plan, cast.admin, tiny, questions=["restored"])
    drills.go_on(drill, tiny, until=asked("restored"))
    did(drill, "restored", cast, tiny)
    drills.go_on(drill, tiny, until=lambda d: d.steps.filter(phase="restore", state="asking").exists())
    lost = tiny.claim("b")["metadata"]["name"]
    tiny.turn = lambda: None  # type: ignore[method-assign] # nobody puts it right again
    del tiny.objects["resourceclaims", lost]
    did(drill, "restored", cast, tiny)
    drills.go_on(drill, tiny, until=lambda d: d.steps.get().state == "done")
    assert verdicts(drill)["restored"] == (Verdict.NOT_PROVEN, "not-consistent")
    assert "problem-claim-missing" in codes(drill, "restored")


# --- people -----------------------------------------------------------------------------------------


def test_who_is_asked_may_skip_and_nobody_is_waited_for_for_ever(
    plan: PoolPlan, cast: Cast, tiny: TinyCluster
) -> None:
    drill = drills.start(plan, cast.admin, tiny, questions=list(ASKS), ask_hours="1")
    drills.go_on(drill, tiny, until=asked("driver-restart"))
    starting.answer(drill=drill, code="driver-restart", did=False, user=cast.admin, now=drills.later(tiny))
    starting.answer(drill=drill, code="restored", did=False, user=cast.admin, now=drills.later(tiny))
    with pytest.raises(UnableToDrill):
        starting.answer(drill=drill, code="restored", did=True, user=cast.admin, now=drills.later(tiny))
    drills.go_on(drill, tiny, until=asked("node-gone"))
    tiny.now += timedelta(hours=1)
    drills.go_on(drill, tiny)
    assert verdicts(drill) == {
        "driver-restart": (Verdict.SKIPPED, "by-person"),
        "node-gone": (Verdict.SKIPPED, "nobody-answered"),
        "restored": (Verdict.SKIPPED, "by-person"),
    }
    assert tiny.objects == {}


def test_a_drill_that_is_called_off_takes_everything_along(
    plan: PoolPlan, cast: Cast, tiny: TinyCluster
) -> None:
    drill = drills.start(plan, cast.admin, tiny)
    drills.go_on(drill, tiny, until=lambda d: d.steps.filter(code="several-pods", phase="run").exists())
    assert tiny.objects
    starting.cancel(drill=drill, user=cast.admin, now=drills.later(tiny))
    starting.cancel(drill=drill, user=cast.admin, now=drills.later(tiny))
    drills.go_on(drill, tiny)
    assert tiny.objects == {}
    assert drill.cancelled
    assert verdicts(drill)["restored"] == (Verdict.SKIPPED, "called-off")
    assert AuditEntry.objects.filter(action="drill.cancel").count() == 1


# --- crashes ----------------------------------------------------------------------------------------


def test_who_dies_at_any_call_is_succeeded_and_nothing_is_made_twice(
    plan: PoolPlan, cast: Cast, tiny: TinyCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by kill -9 at the nth call to the cluster, for every n: the lease runs out, and another goes on."""
    drill = drills.start(plan, cast.admin, tiny, questions=["claim-created", "pod-deleted"])
    calls, dies_at = 0, 1

    class Killed(BaseException):
        pass

    def dying(real: Any) -> Any:
        def call(*args: Any, **more: Any) -> Any:
            nonlocal calls
            answer = real(*args, **more)
            calls += 1
            if calls == dies_at:
                raise Killed
            return answer

        return call

    for name in ("get", "list_all", "create", "delete"):
        monkeypatch.setattr(tiny, name, dying(getattr(tiny, name)))
    for _attempt in range(2_000):
        try:
            drills.pursue(drill, tiny)
        except Killed:
            dies_at = calls + 7
            tiny.now += running.LEASE
        drill.refresh_from_db()
        if drill.state == Drill.State.FINISHED:
            break
        tiny.turn()
    assert drill.state == Drill.State.FINISHED
    # Where the lease of the dead is longer than a step may take, the step ends: never wrong, only not proven.
    assert {verdict for verdict, _why in verdicts(drill).values()} <= {Verdict.PROVEN, Verdict.NOT_PROVEN}
    assert tiny.objects == {}
    assert len(tiny.created) == len(set(tiny.created))


def test_two_workers_do_not_work_on_one_drill(plan: PoolPlan, cast: Cast, tiny: TinyCluster) -> None:
    drill = drills.start(plan, cast.admin, tiny)
    Drill.objects.update(due_at=NOW + running.LEASE)
    drills.pursue(drill, tiny)
    assert tiny.created == []
    assert running.due(now=NOW) == []
    assert running.due(now=NOW + running.LEASE) == [drill.pk]


def test_a_cluster_that_does_not_answer_is_asked_ever_more_slowly(
    plan: PoolPlan, cast: Cast, tiny: TinyCluster
) -> None:
    drill = drills.start(plan, cast.admin, tiny)
    tiny.down = True
    waits = []
    for _time in range(8):
        drills.pursue(drill, tiny)
        assert drill.due_at is not None
        waits.append(drill.due_at - tiny.now)
        tiny.now = drill.due_at
    assert waits[0] == running.AGAIN
    assert waits[-1] == running.MOST_WAIT
    assert drill.message == "no answer"
    tiny.down = False
    drills.pursue(drill, tiny)
    assert (drill.message, drill.attempts) == ("", 0)


def test_what_the_cluster_refuses_is_evidence_and_the_next_question_is_asked(
    plan: PoolPlan, cast: Cast, tiny: TinyCluster
) -> None:
    drill = drills.start(plan, cast.admin, tiny, questions=["claim-created", "devices-chosen"])
    tiny.refuses = "exceeded quota"
    drills.go_on(drill, tiny, until=lambda d: d.steps.filter(code="claim-created", state="done").exists())
    tiny.refuses = ""
    drills.go_on(drill, tiny)
    assert verdicts(drill)["claim-created"] == (Verdict.NOT_PROVEN, "refused")
    assert drill.steps.get(code="claim-created").observed[0]["what"] == {"message": "exceeded quota"}
    assert verdicts(drill)["devices-chosen"] == (Verdict.PROVEN, "")


def test_what_is_found_later_of_a_drill_that_is_over_is_swept_away_and_strangers_are_told(
    plan: PoolPlan, cast: Cast, tiny: TinyCluster, cluster: Cluster
) -> None:
    drill = drills.start(plan, cast.admin, tiny, questions=["claim-created"])
    drills.go_on(drill, tiny)
    hands.Hands(drill, tiny).make_claim("late")

    def seen(name: str, key: str) -> None:
        Pod.objects.create(
            cluster=cluster, namespace="drills", name=name, uid=name, resource_version="1", phase="Running",
            labels={hands.DRILL_LABEL: key},
        )  # fmt: skip

    seen("ours", str(drill.key))
    seen("strange", "0b9e0b1e-0000-4000-8000-000000000000")
    after = drills.later(tiny) + timedelta(minutes=10)
    assert sweeping.sweep(cluster=cluster, now=after, connect=lambda _c: nullcontext(tiny)) == 1
    tiny.turn()
    assert tiny.objects == {}
    assert [found.name for found in sweeping.findings(cluster, after)] == ["strange"]


# --- limits -----------------------------------------------------------------------------------------


def test_one_drill_at_a_time_per_pool(plan: PoolPlan, cast: Cast, tiny: TinyCluster) -> None:
    drill = drills.start(plan, cast.admin, tiny)
    with pytest.raises(UnableToDrill, match="under way already"):
        drills.start(plan, cast.admin, tiny)
    with pytest.raises(IntegrityError), transaction.atomic():
        Drill.objects.create(
            plan=plan, cluster=plan.cluster, namespace="x", device_class="gpu", image="x", created_at=NOW
        )
    Drill.objects.filter(pk=drill.pk).update(state=Drill.State.FINISHED)
    drills.start(plan, cast.admin, tiny)


@pytest.mark.parametrize("free", [1, None])
def test_the_last_free_device_is_only_taken_when_somebody_typed_the_pools_name(
    plan: PoolPlan, cast: Cast, tiny: TinyCluster, free: int | None
) -> None:
    with pytest.raises(UnableToDrill) as refused:
        drills.start(plan, cast.admin, tiny, free=free, last_device="yes")
    assert set(refused.value.errors) == {"last_device"}
    assert drills.start(plan, cast.admin, tiny, free=free, last_device=plan.name).last_device


def test_a_pool_without_a_free_device_has_no_drill(plan: PoolPlan, cast: Cast, tiny: TinyCluster) -> None:
    with pytest.raises(UnableToDrill, match="No device of this pool is free"):
        drills.start(plan, cast.admin, tiny, free=0, last_device=plan.name)


def test_a_device_that_became_the_last_one_meanwhile_is_left_alone(
    plan: PoolPlan, cast: Cast, tiny: TinyCluster
) -> None:
    drill = drills.start(plan, cast.admin, tiny, questions=["devices-chosen"])
    drills.go_on(drill, tiny, free=1)
    assert verdicts(drill) == {"devices-chosen": (Verdict.NOT_PROVEN, "no-room")}
    assert tiny.created == []


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"namespace": "Not A Name"}, "namespace"),
        ({"namespace": "x\0"}, "namespace"),
        ({"step_seconds": "1"}, "step_seconds"),
        ({"step_seconds": "9" * 30}, "step_seconds"),
        ({"ask_hours": "NaN"}, "ask_hours"),
        ({"part": "third"}, "part"),
        ({"questions": ["nothing"]}, "questions"),
        ({"tolerations": "###"}, "tolerations"),
        ({"last_device": "\ud800"}, "last_device"),
    ],
)
def test_what_is_wrong_is_told_at_its_field(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(UnableToDrill) as refused:
        starting.read_drill(wrong)
    assert set(refused.value.errors) == {field}


def test_a_namespace_that_the_cluster_refuses_is_told_before_anything_is_made(
    plan: PoolPlan, cast: Cast, tiny: TinyCluster
) -> None:
    tiny.refuses = 'namespaces "drills" not found'
    with pytest.raises(UnableToDrill, match="not found"):
        drills.start(plan, cast.admin, tiny)
    assert not Drill.objects.exists()


def test_pods_of_drills_keep_the_restricted_level_and_carry_the_label(
    plan: PoolPlan, cast: Cast, tiny: TinyCluster
) -> None:
    drill = drills.start(plan, cast.admin, tiny)
    drill.command = ["/pause"]
    pod = hands.pod_of(drill, "p", reference={"resourceClaimName": "c"}, seconds=5)
    spec, container = pod["spec"], pod["spec"]["containers"][0]
    assert pod["metadata"]["labels"] == {
        "app.kubernetes.io/managed-by": "claimdesk",
        "claimdesk.io/drill": str(drill.key),
        "claimdesk.io/role": "drill",
    }
    assert (spec["restartPolicy"], spec["activeDeadlineSeconds"]) == ("Never", 5)
    assert (container["image"], container["command"]) == ("example.org/pause:1", ["/pause"])
    assert spec["securityContext"]["runAsNonRoot"]
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert not spec["automountServiceAccountToken"]


# --- money ------------------------------------------------------------------------------------------


def test_nothing_of_a_drill_is_billed_and_all_of_it_is_recorded(
    plan: PoolPlan, cast: Cast, tiny: TinyCluster, prices: object
) -> None:
    cluster, project = plan.cluster, Project.objects.get(slug="protein-folding")
    with pytest.raises(UnableToDrill, match="belongs to a project"):
        drills.start(plan, cast.admin, tiny, namespace=project.slug)
    drill = drills.start(plan, cast.admin, tiny, questions=["devices-chosen"])
    drills.go_on(drill, tiny, until=lambda d: d.steps.filter(phase="chosen").exists())
    with pytest.raises(UnableToBind, match="nobody pays"):
        bind(cluster=cluster, namespace="drills", project=project, now=NOW)
    uid = tiny.claim("d")["metadata"]["uid"]
    # Even if somebody got around that.
    NamespaceBinding.objects.create(
        cluster=cluster, namespace="drills", project=project, valid_from=NOW - timedelta(days=1)
    )
    device = Device.objects.filter(name="gpu-0").select_related("pool").first()
    assert device is not None
    facts = {
        "epoch": 1, "node": device.node_name,
        "devices": [{
            "driver": device.pool.driver, "pool": device.pool.name, "device": device.name,
            "request": "accelerator", "share_id": "", "admin_access": False, "consumed_capacity": {},
            "hardware_id": "", "profile": "", "capacity": {}, "counters": {},
        }],
    }  # fmt: skip
    for kind, at, more in (
        ("claim-allocated", NOW, facts),
        ("claim-released", NOW + timedelta(hours=1), {"epoch": 1}),
    ):
        Observation.objects.create(
            cluster=cluster, kind=kind, at=at, source="observed", observed_at=at, namespace="drills",
            name="d", uid=uid, key=f"{uid}/{kind}", facts=more,
        )  # fmt: skip
    storage.apply(cluster=cluster)
    drills.go_on(drill, tiny)
    row = Allocation.objects.get(claim_uid=uid)
    assert (row.project, row.request, row.ended_at) == (None, None, NOW + timedelta(hours=1))
    assert DrillObject.objects.filter(uid=uid, drill=drill).exists()
    storage.reattribute(cluster=cluster)
    row.refresh_from_db()
    assert row.project is None
    rate_month(month=Month.of(NOW, UTC), zone=UTC)
    assert {charge.project for charge in Charge.objects.filter(claim_uid=uid)} == {None}


def test_a_namespace_is_a_projects_before_and_after_the_drills_in_it(
    plan: PoolPlan, cast: Cast, tiny: TinyCluster, cluster: Cluster
) -> None:
    drill = drills.start(plan, cast.admin, tiny, questions=["claim-created"])
    drills.go_on(drill, tiny)
    assert drill.clean_at is not None
    ended = drill.clean_at

    def asks(start: Any, end: Any) -> bool:
        return not namespaces.why_not_bound(cluster, "drills", start, end)

    assert asks(NOW - timedelta(days=9), NOW)
    assert asks(ended, None)
    assert not asks(NOW, None)
    assert not asks(ended - timedelta(seconds=1), ended + timedelta(days=1))
    assert not asks(NOW - timedelta(days=1), NOW + timedelta(seconds=1))


# --- does all fit together --------------------------------------------------------------------------


def held(name: str, device: str = "gpu-0", *pods: str, **result: Any) -> dict[str, Any]:
    results = [{"driver": "d", "pool": "p", "device": device, **result}]
    reserved = [{"resource": "pods", "name": pod, "uid": pod} for pod in pods]
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": reserved}
    return {"metadata": {"namespace": "n", "name": name}, "status": status}


def runs(name: str, claim: str) -> dict[str, Any]:
    spec = {"resourceClaims": [{"name": "x", "resourceClaimName": claim}]}
    return {
        "metadata": {"namespace": "n", "name": name, "uid": name},
        "spec": spec,
        "status": {"phase": "Running"},
    }


SLICES = [{"spec": {"driver": "d", "pool": {"name": "p"}, "devices": [{"name": "gpu-0"}]}}]


@pytest.mark.parametrize(
    ("claims", "pods", "expected"),
    [
        ([held("a", "gpu-0", "one")], [runs("one", "a")], []),
        ([held("a"), held("b")], [], ["held-twice"]),
        ([held("a", shareID="1"), held("b", shareID="2")], [], []),
        ([held("a"), held("b", adminAccess=True)], [], []),
        ([held("a", "gpu-0", "gone")], [], ["for-nobody"]),
        ([held("a", "gpu-9")], [], ["not-published"]),
        ([], [runs("one", "a")], ["claim-missing"]),
        (
            [{"metadata": {"namespace": "n", "name": "a"}, "status": {}}],
            [runs("one", "a")],
            ["holds-nothing"],
        ),
        ([held("a", "gpu-0", "two")], [runs("one", "a"), runs("two", "a")], ["not-reserved"]),
        ([held("a", "gpu-0", driver="other"), held("b", "gpu-0", driver="other")], [], []),
    ],
)
def test_contradictions_are_found_and_nothing_else(claims: Any, pods: Any, expected: list[str]) -> None:
    found = consistency.problems(claims=claims, pods=pods, slices=SLICES, drivers=["d"])
    assert [problem["code"] for problem in found] == expected
