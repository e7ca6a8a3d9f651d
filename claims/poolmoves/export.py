"""A pool's plan as a document that can be kept: JSON for programs, rows for spreadsheets. Amounts are exact
decimals, or fractions where they have no end; what is not known is null."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from fractions import Fraction
from typing import Any

from claims.catalogue.stock import Stock
from claims.models import PoolPlan, PoolPlanEntry
from claims.poolmoves.billing import Use
from claims.poolmoves.checklist import Point
from claims.poolmoves.planner import Planner
from claims.poolmoves.switching import Effect, PlaceEffect
from inventory.poolmoves.dependents import Dependents
from inventory.poolmoves.pods import PodFates
from inventory.poolmoves.pool import CANARY, OLD
from inventory.poolmoves.sightings import Comparison

NODE_COLUMNS = (
    *("node", "part", "units", "pieces", "used", "devices", "held", "partitions", "twins", "labelled"),
    *("ready", "differences"),
)


def summary(plan: PoolPlan) -> dict[str, Any]:
    """What the plan itself says."""
    return {
        "id": plan.pk,
        "cluster": plan.cluster.name,
        "name": plan.name,
        "labels": plan.labels,
        "canary_labels": plan.canary_labels,
        "extended_resource": plan.extended_resource,
        "device_class": plan.device_class,
        "driver": plan.driver,
        "way": plan.way,
        "reason": plan.reason,
        "stage": plan.stage,
        "version": plan.version,
        "created_at": plan.created_at,
        "changed_at": plan.changed_at,
        "changed_by": str(plan.changed_by) if plan.changed_by else None,
    }


def document(found: Planner, *, entries: Sequence[PoolPlanEntry]) -> dict[str, Any]:
    """Everything that the planner's page shows."""
    return summary(found.plan) | {
        "in_step": found.coverage.in_step,
        "as_of": found.coverage.as_of,
        "period": {"from": found.start, "to": found.end},
        "inventories": _comparison(found.comparison),
        "depends_on_plugin": _dependents(found.dependents),
        "pods": {part: _fates(found.fates[part]) for part in (CANARY, OLD)},
        "billing": {part: _use(found.use[part]) for part in (CANARY, OLD)},
        "flavors": effect_document(found.effect)["places"],
        "checklist": [_point(point) for point in found.points],
        "history": [entry_document(entry) for entry in entries],
    }


def effect_document(effect: Effect) -> dict[str, Any]:
    """What a switch would do, place by place."""
    return {"seen": effect.seen, "places": [_place(place) for place in effect.places]}


def entry_document(entry: PoolPlanEntry) -> dict[str, Any]:
    """One entry of the pool's history."""
    return {
        "id": entry.pk,
        "kind": entry.kind,
        "at": entry.at,
        "person": str(entry.person) if entry.person else None,
        "why": entry.why,
        "facts": entry.facts,
    }


def node_rows(comparison: Comparison) -> Iterator[list[Any]]:
    """One row a node, in the order of NODE_COLUMNS."""
    for row in comparison.rows:
        values = [getattr(row, name) for name in NODE_COLUMNS[:-1]]
        yield [*values, " ".join(row.differences)]


def exact(amount: Fraction) -> str:
    """A number without loss: a decimal where it has an end within twelve places, else a fraction."""
    scaled = amount * 10**12
    if scaled.denominator != 1:
        return str(amount)
    text = f"{abs(scaled.numerator):013d}"
    sign = "-" if amount < 0 else ""
    return f"{sign}{text[:-12]}.{text[-12:]}".rstrip("0").rstrip(".")


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "nodes": [
            dict(zip(NODE_COLUMNS, values, strict=True)) | {"differences": list(row.differences)}
            for row, values in zip(comparison.rows, node_rows(comparison), strict=True)
        ],
        "totals": {part: comparison.total(part) for part in (CANARY, OLD)},
        "two_managers_on": comparison.dangers,
        "unusable_pools": list(comparison.broken_pools),
    }


def _dependents(found: Dependents) -> dict[str, Any]:
    def rows(listed: Sequence[Any] | None) -> list[dict[str, Any]] | None:
        return None if listed is None else [dict(vars(row)) for row in listed]

    return {
        "workloads": rows(found.workloads),
        "more_workloads": found.more,
        "served_by_claims": found.served_by_claims,
        "quotas": rows(found.quotas),
        "queues": rows(found.queues),
        "classes": list(found.classes),
        # The desk does not read LimitRanges.
        "limit_ranges": None,
    }


def _seconds(length: timedelta | None) -> float | None:
    return None if length is None else length.total_seconds()


def _fates(found: PodFates) -> dict[str, Any] | None:
    if not found.seen:
        return None
    return {
        "phases": dict(found.phases),
        "finished": found.finished,
        "failed": found.failed,
        "typical_wait_seconds": _seconds(found.typical_wait),
    }


def _use(found: Use) -> dict[str, Any] | None:
    if not found.seen:
        return None
    return {
        "intervals": found.intervals,
        "device_hours": exact(found.device_hours),
        "cost": {currency: exact(amount) for currency, amount in found.cost.items()},
        "intervals_without_price": found.unpriced,
        "typical_wait_seconds": _seconds(found.typical_wait),
    }


def _stock(stock: Stock | None) -> Mapping[str, int | None] | None:
    return None if stock is None else {"total": stock.total, "free": stock.free}


def _place(place: PlaceEffect) -> dict[str, Any]:
    row = place.placement
    return {
        "id": row.pk,
        "flavor": row.flavor.slug,
        "pool": row.pool,
        "part": place.part,
        "whole_cluster": place.whole_cluster,
        "stage": place.stage_now,
        "backend": place.choice.backend,
        "stock": _stock(place.stock),
        "changes": place.changes,
        "stage_after": place.stage if place.changes else place.stage_now,
        "backend_after": place.after.backend if place.after else place.choice.backend,
        "stock_after": _stock(place.stock_after if place.changes else place.stock),
        "open_requests": {"device-plugin": place.by_plugin, "dra": place.by_dra},
        "why_not": place.why_not,
    }


def _point(point: Point) -> dict[str, Any]:
    signed = point.signature
    return {
        "item": point.key,
        "before": point.before,
        "title": point.title,
        "verdict": point.verdict,
        "settled": point.settled,
        "evidence": point.evidence,
        "signed": None
        if signed is None
        else {"by": str(signed.person) if signed.person else None, "at": signed.at, "note": signed.note},
    }
