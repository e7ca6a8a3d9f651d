"""Pools in words: whether the scheduler would use one, what its slices say, where its devices can be used."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django_stubs_ext import StrOrPromise

from inventory.models import Pool, ResourceSlice

COMPLETE, INCOMPLETE, INVALID, GATED = "complete", "incomplete", "invalid", "gated"
STATE_LABELS: Mapping[str, StrOrPromise] = {
    COMPLETE: gettext_lazy("complete"),
    INCOMPLETE: gettext_lazy("incomplete"),
    INVALID: gettext_lazy("invalid"),
    GATED: gettext_lazy("needs a feature"),
}
# As a query asks for it; the order is that of `state_of`.
STATE_CONDITIONS: Mapping[str, Q] = {
    COMPLETE: Q(complete=True, problem="", missing_gate=""),
    INCOMPLETE: Q(complete=False, missing_gate=""),
    INVALID: Q(complete=True, missing_gate="") & ~Q(problem=""),
    GATED: ~Q(missing_gate=""),
}


def state_of(pool: Pool) -> str:
    """Whether the scheduler uses the pool, else the first of the reasons against it."""
    if pool.missing_gate:
        return GATED
    if not pool.complete:
        return INCOMPLETE
    return INVALID if pool.problem else COMPLETE


def why_not(pool: Pool) -> str:
    """Why the scheduler would not use the pool; "" where it would."""
    if pool.missing_gate:
        said = _("It needs %(gate)s, which this cluster presumably has switched off.")
        return said % {"gate": pool.missing_gate}
    if not pool.complete:
        said = _(
            "%(seen)d of the %(expected)d slices that its driver announces for generation %(generation)d can"
            " be seen. Until it is complete, the scheduler keeps its hands off all of its devices."
        )
        seen = {"seen": pool.slices_seen, "expected": pool.slices_expected, "generation": pool.generation}
        return said % seen
    if pool.problem:
        return _("The scheduler refuses all of its devices: %(why)s") % {"why": pool.problem}
    return ""


@dataclass(frozen=True)
class SliceRow:
    """A slice of a pool. One that is not `current` is of an older generation: the scheduler passes over
    it."""

    slice: ResourceSlice
    current: bool
    devices: int
    counter_sets: int
    reach: str


def slice_rows(pool: Pool) -> list[SliceRow]:
    """The slices of a pool, the current ones first. One query."""
    rows = []
    for part in ResourceSlice.objects.filter(pool=pool).order_by("-generation", "name"):
        spec = _mapping(part.manifest.get("spec") if isinstance(part.manifest, dict) else None)
        rows.append(
            SliceRow(
                slice=part,
                current=part.generation == pool.generation,
                devices=_length(spec.get("devices")),
                counter_sets=_length(spec.get("sharedCounters")),
                reach=_reach(spec),
            )
        )
    return rows


def _reach(spec: Mapping[str, Any]) -> str:
    """Where the devices of a slice can be used."""
    if name := spec.get("nodeName"):
        return _("on %(node)s") % {"node": name}
    if spec.get("allNodes"):
        return _("on every node")
    if spec.get("perDeviceNodeSelection"):
        return _("each device says on which nodes")
    if selector := spec.get("nodeSelector"):
        return _("on nodes with %(terms)s") % {"terms": _terms(selector)}
    return "–"


def _terms(selector: Any) -> str:
    """A node selector as a short line: any of the terms, all of a term's requirements."""
    said = []
    for term in _listed(_mapping(selector).get("nodeSelectorTerms")):
        needs = [
            " ".join(
                filter(
                    None,
                    [
                        str(need.get("key", "")),
                        str(need.get("operator", "")),
                        ", ".join(str(v) for v in need.get("values") or ()),
                    ],
                )
            )
            for field in ("matchExpressions", "matchFields")
            for need in _listed(_mapping(term).get(field))
        ]
        said.append(_(" and ").join(needs))
    return _(" or ").join(said)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _listed(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _length(value: Any) -> int:
    return len(value) if isinstance(value, list) else 0
