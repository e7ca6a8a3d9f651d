"""Pools that the scheduler does not use, or that have nothing to give."""

from collections.abc import Iterable
from datetime import timedelta

from inventory.findings.facts import Facts, PoolRow
from inventory.findings.model import NOW, Found
from inventory.models import Severity


def incomplete(facts: Facts) -> Iterable[Found]:
    """Fewer (or more) slices of the newest generation than they say there are: the scheduler takes none of
    its devices."""
    for pool in facts.unfit_pools:
        if not pool.complete:
            params = {"found": pool.slices_seen, "expected": pool.slices_expected}
            yield _found(pool, "pool-incomplete", facts.thresholds.pool_incomplete, Severity.BAD, **params)


def invalid(facts: Facts) -> Iterable[Found]:
    """Slices that contradict each other."""
    for pool in facts.unfit_pools:
        if pool.complete and pool.problem:
            yield _found(pool, "pool-invalid", NOW, Severity.BAD, why=pool.problem)


def empty(facts: Facts) -> Iterable[Found]:
    """A driver that publishes a pool without devices has found none."""
    for pool in facts.empty_pools:
        yield _found(pool, "pool-empty", facts.thresholds.pool_empty, Severity.WARNING)


def _found(pool: PoolRow, code: str, holds_for: timedelta, severity: Severity, **params: object) -> Found:
    return Found(
        subject=f"{pool.driver}/{pool.name}",
        object_kind="pool",
        name=pool.name,
        code=code,
        severity=severity,
        params={"driver": pool.driver, "pool": pool.name, **params},
        holds_for=holds_for,
    )
