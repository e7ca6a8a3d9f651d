"""What clusters run, against what they should run and against their neighbours."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from inventory import contract
from inventory.findings.facts import Facts
from inventory.findings.model import NOW, Found
from inventory.models import Severity

MAX_STEPS = 20


def changed_together(facts: Facts) -> Iterable[Found]:
    """Several parts became others within one window: which of them broke something is hard to tell then."""
    changes = facts.recent_changes
    parts = sorted({change.part for change in changes})
    if len(parts) > 1:
        yield _of_cluster(
            facts,
            "changed-together",
            subject="platform",
            params={
                "parts": parts,
                "steps": [[c.part, c.before or [], c.after] for c in changes][-MAX_STEPS:],
            },
            since=changes[0].seen_at,
        )


def contract_broken(facts: Facts) -> Iterable[Found]:
    """A part runs a version that its contract does not admit."""
    observed = {part: dict.fromkeys(versions, 0) for part, versions in facts.latest_versions.items()}
    for part in contract.compare(facts.contract, observed):
        if part.state == contract.BROKEN:
            params = {
                "part": part.part,
                "expected": part.expected,
                "versions": [v.version for v in part.observed if not v.admitted],
            }
            yield _of_cluster(
                facts,
                "contract-broken",
                subject=part.part,
                params=params,
                holds_for=facts.thresholds.contract_broken,
            )


def class_missing(facts: Facts) -> Iterable[Found]:
    """A DeviceClass that other clusters of the same contract group have: claims that name it work there
    only."""
    for name, clusters in sorted(facts.classes_of_group.items()):
        if name not in facts.class_names:
            yield Found(
                subject=name,
                object_kind="class",
                name=name,
                code="class-missing",
                severity=Severity.WARNING,
                params={"class": name, "clusters": list(clusters)[:20]},
                holds_for=facts.thresholds.class_missing,
            )


def _of_cluster(
    facts: Facts,
    code: str,
    *,
    subject: str,
    params: Mapping[str, object],
    since: datetime | None = None,
    holds_for: timedelta = NOW,
) -> Found:
    return Found(
        subject=subject,
        object_kind="cluster",
        name=facts.cluster.name,
        code=code,
        severity=Severity.WARNING,
        params=params,
        since=since,
        holds_for=holds_for,
    )
