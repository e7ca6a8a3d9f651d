"""Findings over time: one row from when it was seen until it was not, in as few queries as rules need."""

import logging
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from pytest_django import Settings

from inventory.findings import evaluation, handling, storage
from inventory.findings.evaluation import evaluate
from inventory.findings.model import Rule
from inventory.findings.registry import RULES
from inventory.findings.thresholds import Thresholds, from_minutes
from inventory.models import Cluster, Device, DiagnosisTask, Finding, PlatformChange, RuleState
from inventory.tasks import evaluate_findings
from tests.cast import Cast
from tests.inventory_findings.conftest import MINUTE, complete_streams, hear, look, shown
from tests.inventory_pages.factories import make_cluster, make_device, make_fleet, make_holders, make_node

pytestmark = pytest.mark.django_db

XID = {"key": "gpu.nvidia.com/xid", "value": "43", "effect": "NoSchedule"}


def break_device(*, node: str = "gpu-02") -> None:
    Device.objects.filter(node_name=node).update(taints=[XID])


def repair() -> None:
    Device.objects.update(taints=[])


def test_the_same_thing_seen_again_is_one_finding(healthy: Cluster) -> None:
    break_device()
    first = look(healthy)
    last = look(healthy, after=MINUTE)
    (finding,) = shown("health-fault")
    assert (finding.first_seen_at, finding.last_seen_at) == (first, last)


def test_what_comes_back_is_another_finding(healthy: Cluster) -> None:
    for minute in range(3):
        repair() if minute == 1 else break_device()
        look(healthy, after=minute * MINUTE)
    found = Finding.objects.order_by("pk")
    assert [finding.resolved_at is None for finding in found] == [False, True]


def test_words_and_severity_follow_what_is_seen(healthy: Cluster) -> None:
    break_device()
    look(healthy)
    Device.objects.filter(node_name="gpu-02").update(taints=[XID | {"effect": "NoExecute"}])
    look(healthy, after=MINUTE)
    (finding,) = shown("health-fault")
    assert finding.severity == "bad"
    assert finding.params["taints"] == ["gpu.nvidia.com/xid=43:NoExecute"]


def test_an_older_evaluation_changes_nothing(healthy: Cluster) -> None:
    break_device()
    look(healthy, after=MINUTE)
    repair()
    look(healthy)
    assert len(shown("health-fault")) == 1


def test_it_remembers_since_when_nobody_can_say(healthy: Cluster) -> None:
    break_device()
    look(healthy)
    healthy.streams.update(state="failed")
    look(healthy, after=MINUTE)
    (before,) = shown("health-fault")
    look(healthy, after=2 * MINUTE)
    (after,) = shown("health-fault")
    assert after.unknown_since == before.unknown_since
    states = RuleState.objects.get(kind="health-fault")
    assert states.unknown_since is not None
    assert states.tried_at - MINUTE >= states.unknown_since


def test_a_finding_that_holds_after_all_is_no_longer_unknown(healthy: Cluster) -> None:
    break_device()
    look(healthy)
    healthy.streams.update(state="failed")
    look(healthy, after=MINUTE)
    healthy.streams.update(state="watching")
    look(healthy, after=2 * MINUTE)
    (finding,) = shown("health-fault")
    assert finding.unknown_since is None


def test_a_rule_that_fails_is_unknown_and_stops_no_other(
    healthy: Cluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def trip(_facts: object) -> list[object]:
        raise KeyError("odd")

    broken = Rule("pool-incomplete", "x", "x", (), trip)  # type: ignore[arg-type] # it fails
    rest = tuple(rule for rule in RULES if rule.kind != "pool-incomplete")
    monkeypatch.setattr(evaluation, "RULES", (broken, *rest))
    break_device()
    with caplog.at_level(logging.CRITICAL):
        look(healthy)
    assert RuleState.objects.get(kind="pool-incomplete").unknown_since is not None
    assert len(shown("health-fault")) == 1


def test_a_rule_that_is_gone_leaves_nothing_open(healthy: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    break_device()
    look(healthy)
    monkeypatch.setattr(evaluation, "RULES", tuple(rule for rule in RULES if rule.kind != "health-fault"))
    look(healthy, after=MINUTE)
    assert shown("health-fault") == []
    assert not RuleState.objects.filter(kind="health-fault").exists()


def test_what_is_beyond_the_limit_is_neither_kept_nor_resolved(
    healthy: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    Device.objects.update(taints=[XID])
    look(healthy)
    monkeypatch.setattr(evaluation, "MAX_FOUND", 1)
    look(healthy, after=MINUTE)
    assert len(shown("health-fault")) == 2
    assert RuleState.objects.get(kind="health-fault").truncated


# --- diagnosis tasks ---------------------------------------------------------------------------------


def test_a_fault_opens_a_task_that_outlives_it(healthy: Cluster) -> None:
    break_device()
    look(healthy)
    repair()
    look(healthy, after=MINUTE)
    task = DiagnosisTask.objects.get()
    assert (task.state, task.owner) == ("open", None)


def test_a_fault_that_comes_back_joins_its_task_until_that_is_done(healthy: Cluster, cast: Cast) -> None:
    break_device()
    look(healthy)
    task = DiagnosisTask.objects.get()
    repair()
    look(healthy, after=MINUTE)
    break_device()
    look(healthy, after=2 * MINUTE)
    task.refresh_from_db()
    assert (task.finding,) == tuple(shown("health-fault"))

    handling.change_task(
        task=task, state="done", owner=None, note="", actor=cast.administrator, now=timezone.now() + MINUTE
    )
    repair()
    look(healthy, after=3 * MINUTE)
    break_device()
    look(healthy, after=4 * MINUTE)
    assert DiagnosisTask.objects.count() == 2


# --- thresholds and the task -------------------------------------------------------------------------


def test_thresholds_are_the_desks_own(healthy: Cluster) -> None:
    healthy.pools.filter(name="gpu-01").update(complete=False)
    now = timezone.now()
    hear(healthy, now)
    healthy.refresh_from_db()
    evaluate(cluster=healthy, now=now, thresholds=from_minutes({"pool_incomplete": 0}))
    assert len(shown("pool-incomplete")) == 1


@pytest.mark.parametrize(
    ("minutes", "said"),
    [({"pendin": 1}, "pendin"), ({"pending": -1}, "pending"), ({"pending": 1e9}, "525600")],
)
def test_thresholds_that_make_no_sense_are_refused(minutes: dict[str, float], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        from_minutes(minutes)


def test_the_task_judges_every_cluster(
    healthy: Cluster, settings: object, caplog: pytest.LogCaptureFixture
) -> None:
    other = make_cluster("oslo")
    complete_streams(other)
    break_device()
    hear(healthy, timezone.now())
    evaluate_findings()
    assert len(shown("health-fault")) == 1
    assert RuleState.objects.filter(cluster=other, unknown_since=None).exists()


# --- cost --------------------------------------------------------------------------------------------


def queries(cluster: Cluster, *, after: timedelta) -> int:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        look(cluster, after=after)
    return len(captured)


def test_the_number_of_queries_does_not_depend_on_the_size_of_a_cluster(db: None) -> None:
    counts = []
    for name, nodes in (("small", 3), ("large", 60)):
        cluster = make_cluster(name)
        complete_streams(cluster)
        make_fleet(cluster, nodes=nodes)
        if name == "large":
            make_holders(cluster, claims=200)
        # The first evaluation writes what is new; then nothing changes.
        look(cluster)
        counts.append(queries(cluster, after=MINUTE))
    assert counts[0] <= 49
    assert counts[1] <= counts[0] + 2  # what is found is read and written, too


def test_versions_are_noted_once(healthy: Cluster) -> None:
    look(healthy)
    look(healthy, after=MINUTE)
    assert [change.part for change in PlatformChange.objects.all()] == ["kubernetes"]


def test_thousands_of_findings_are_written_in_few_queries(cluster: Cluster) -> None:
    for n in range(30):
        make_node(cluster, f"gpu-{n}")
        make_device(cluster, node=f"gpu-{n}", taints=[XID])
    with CaptureQueriesContext(connection) as captured:
        look(cluster)
    assert len(shown("health-fault")) == 30
    assert DiagnosisTask.objects.count() == 30
    assert len(captured) < 60


def test_the_defaults_leave_time() -> None:
    limits = Thresholds()
    assert limits.node_gone < limits.node_not_ready
    assert limits.pool_incomplete >= timedelta(minutes=5)


# --- what is over is not kept for ever ---------------------------------------------------------------


def over(cluster: Cluster, name: str, *, days: int) -> Finding:
    ended = timezone.now() - timedelta(days=days)
    return Finding.objects.create(
        cluster=cluster, kind="taint-old", subject=name, severity="info", object_kind="device", name=name,
        code="taint-old", first_seen_at=ended - MINUTE, opened_at=ended - MINUTE, last_seen_at=ended,
        resolved_at=ended,
    )  # fmt: skip


def test_what_is_long_over_goes(healthy: Cluster, settings: Settings) -> None:
    settings.FINDING_RETENTION = timedelta(days=30)
    break_device()
    look(healthy)
    over(healthy, "old", days=31)
    kept = over(healthy, "young", days=29)
    evaluate_findings()
    assert list(Finding.objects.exclude(resolved_at=None)) == [kept]
    assert shown("health-fault")


def test_what_a_diagnosis_is_about_stays(healthy: Cluster, settings: Settings) -> None:
    settings.FINDING_RETENTION = timedelta(days=30)
    finding = over(healthy, "old", days=400)
    now = timezone.now()
    DiagnosisTask.objects.create(
        cluster=healthy,
        subject="old",
        finding=finding,
        state="done",
        opened_at=now,
        changed_at=now,
        done_at=now,
    )
    evaluate_findings()
    assert Finding.objects.filter(pk=finding.pk).exists()


def test_a_desk_may_keep_everything(healthy: Cluster, settings: Settings) -> None:
    settings.FINDING_RETENTION = timedelta(0)
    over(healthy, "old", days=4000)
    evaluate_findings()
    assert Finding.objects.filter(name="old").exists()


def test_much_that_is_over_goes_bit_by_bit(healthy: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "BATCH", 2)
    for number in range(5):
        over(healthy, f"old-{number}", days=31)
    assert storage.prune(before=timezone.now() - timedelta(days=30)) == 5
