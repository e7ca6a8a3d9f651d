"""Keeps what rules found: opens, refreshes and resolves findings, in one transaction per cluster."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.db import transaction

from inventory.findings import news
from inventory.findings.model import Found, Rule
from inventory.models import Cluster, DiagnosisTask, Finding, RuleState
from inventory.signals import findings_opened
from portal.sql import chunks

BATCH = 500
_TOLD = ("severity", "object_kind", "namespace", "name", "code", "since")
_UPDATED = [*_TOLD, "params", "opened_at"]


@dataclass(frozen=True)
class Outcome:
    """What one rule said. `found` is None when it could not be judged: since `unknown_since`, for want of
    `missing`. `unjudged` are single subjects of which it could say nothing."""

    rule: Rule
    found: Sequence[Found] | None
    unjudged: Mapping[str, datetime | None] = field(default_factory=dict)
    missing: str = ""
    unknown_since: datetime | None = None
    truncated: bool = False
    # The cluster does not even serve `missing`: where nothing was found before, nothing is unknown either.
    absent: bool = False


@dataclass
class _Work:
    new: list[Finding] = field(default_factory=list)
    changed: list[Finding] = field(default_factory=list)
    seen: list[int] = field(default_factory=list)
    resolved: list[int] = field(default_factory=list)
    forgotten: list[int] = field(default_factory=list)
    # Findings that nobody can judge now, and since when.
    unknown: list[Finding] = field(default_factory=list)
    opened: list[Finding] = field(default_factory=list)


@transaction.atomic
def keep(*, cluster: Cluster, outcomes: Sequence[Outcome], now: datetime) -> None:
    """Store one evaluation. One that is older than what is stored is dropped: two workers may race."""
    states = {
        state.kind: state
        for state in RuleState.objects.select_for_update().filter(cluster=cluster).order_by("kind")
    }
    if any(state.tried_at >= now for state in states.values()):
        return
    known: dict[str, dict[str, Finding]] = {}
    for finding in Finding.objects.filter(cluster=cluster, resolved_at=None):
        known.setdefault(finding.kind, {})[finding.subject] = finding
    work = _Work()
    tasks: list[Finding] = []
    outcomes = [
        replace(outcome, found=()) if outcome.absent and outcome.rule.kind not in known else outcome
        for outcome in outcomes
    ]
    for outcome in outcomes:
        before = len(work.opened)
        existing = known.get(outcome.rule.kind, {})
        if outcome.found is None:
            _note_unknown(work, existing.values(), since=outcome.unknown_since or now)
        else:
            _compare(work, cluster, outcome, existing, now=now)
        if outcome.rule.opens_task:
            tasks += work.opened[before:]
    _write(work, now=now)
    _open_tasks(cluster, tasks, now=now)
    news.tell_of(
        cluster=cluster,
        opened=work.opened,
        labels={outcome.rule.kind: outcome.rule.label for outcome in outcomes},
        now=now,
    )
    if work.opened:
        findings_opened.send(Finding, cluster=cluster, opened=work.opened, now=now)
    _save_states(cluster, states, outcomes, now=now)


def prune(*, before: datetime) -> int:
    """Delete what no longer held at that time, but for what diagnosis tasks are about; how many went."""
    old = Finding.objects.filter(resolved_at__lt=before, tasks=None).order_by("resolved_at")
    gone = 0
    while pks := list(old.values_list("pk", flat=True)[:BATCH]):
        gone += Finding.objects.filter(pk__in=pks).delete()[0]
    return gone


def _compare(
    work: _Work, cluster: Cluster, outcome: Outcome, existing: Mapping[str, Finding], *, now: datetime
) -> None:
    found: dict[str, Found] = {}
    for item in outcome.found or ():
        found.setdefault(item.subject[:700], item)
    for subject, item in found.items():
        finding = existing.get(subject)
        if finding is None:
            finding = Finding(
                cluster=cluster,
                kind=outcome.rule.kind,
                subject=subject,
                first_seen_at=now,
                last_seen_at=now,
            )
            _tell(finding, item)
            _open_if_due(work, finding, item, now=now)
            work.new.append(finding)
            continue
        work.seen.append(finding.pk)
        if _tell(finding, item) | _open_if_due(work, finding, item, now=now):
            work.changed.append(finding)
    for subject, finding in existing.items():
        if subject in found or (outcome.truncated and subject not in outcome.unjudged):
            continue
        if subject in outcome.unjudged:
            _note_unknown(work, [finding], since=outcome.unjudged[subject] or now)
        elif finding.opened_at is None:
            work.forgotten.append(finding.pk)
        else:
            work.resolved.append(finding.pk)


def _tell(finding: Finding, item: Found) -> bool:
    """Put what was found into the row; whether anything in it is new."""
    changed = dict(finding.params) != dict(item.params)
    finding.params = dict(item.params)
    for name in _TOLD:
        value = getattr(item, name)
        if name == "name":
            value = value[:253]
        changed |= getattr(finding, name) != value
        setattr(finding, name, value)
    return changed


def _open_if_due(work: _Work, finding: Finding, item: Found, *, now: datetime) -> bool:
    if finding.opened_at is not None or (item.since or finding.first_seen_at) + item.holds_for > now:
        return False
    finding.opened_at = now
    work.opened.append(finding)
    return True


def _note_unknown(work: _Work, findings: Iterable[Finding], *, since: datetime) -> None:
    for finding in findings:
        if finding.unknown_since is None:
            # It was seen to hold at `last_seen_at`, whatever was heard since.
            finding.unknown_since = max(since, finding.last_seen_at)
            work.unknown.append(finding)


def _write(work: _Work, *, now: datetime) -> None:
    Finding.objects.bulk_create(work.new, batch_size=BATCH)
    Finding.objects.bulk_update(work.changed, _UPDATED, batch_size=BATCH)
    Finding.objects.bulk_update(work.unknown, ["unknown_since"], batch_size=BATCH)
    for pks in chunks(work.seen, 5000):
        Finding.objects.filter(pk__in=pks).update(last_seen_at=now, unknown_since=None)
    for pks in chunks(work.resolved, 5000):
        Finding.objects.filter(pk__in=pks).update(resolved_at=now, unknown_since=None)
    for pks in chunks(work.forgotten, 5000):
        Finding.objects.filter(pk__in=pks).delete()


def _open_tasks(cluster: Cluster, opened: Sequence[Finding], *, now: datetime) -> None:
    """A task for each fault that has none; a fault that is back joins the task that is not done yet."""
    by_subject = {finding.subject: finding for finding in opened}
    if not by_subject:
        return
    waiting = DiagnosisTask.objects.filter(cluster=cluster, done_at=None)
    joined = []
    for task in waiting:
        if task.subject in by_subject:
            task.finding = by_subject.pop(task.subject)
            joined.append(task)
    DiagnosisTask.objects.bulk_update(joined, ["finding"], batch_size=BATCH)
    DiagnosisTask.objects.bulk_create(
        [
            DiagnosisTask(cluster=cluster, subject=subject, finding=finding, opened_at=now, changed_at=now)
            for subject, finding in by_subject.items()
        ],
        batch_size=BATCH,
    )


def _save_states(
    cluster: Cluster, states: Mapping[str, RuleState], outcomes: Sequence[Outcome], *, now: datetime
) -> None:
    rows = []
    for outcome in outcomes:
        old = states.get(outcome.rule.kind)
        judged = outcome.found is not None
        since = old.unknown_since if old is not None else None
        rows.append(
            RuleState(
                cluster=cluster,
                kind=outcome.rule.kind,
                tried_at=now,
                judged_at=now if judged else (old.judged_at if old else None),
                unknown_since=None if judged else since or outcome.unknown_since or now,
                missing="" if judged else outcome.missing,
                truncated=outcome.truncated,
            )
        )
    RuleState.objects.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["cluster", "kind"],
        update_fields=["tried_at", "judged_at", "unknown_since", "missing", "truncated"],
    )
    # A rule that there is no longer says nothing any more: its findings would stay open for ever.
    gone = states.keys() - {outcome.rule.kind for outcome in outcomes}
    if gone:
        Finding.objects.filter(cluster=cluster, kind__in=gone, resolved_at=None).update(resolved_at=now)
        RuleState.objects.filter(cluster=cluster, kind__in=gone).delete()
