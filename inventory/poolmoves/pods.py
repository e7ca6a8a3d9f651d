"""The Pods of a node pool side by side: how those of the canary fare, and those of the nodes that are as they
were."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median_low

from django.db.models import Q

from inventory.models import Observation, Pod
from inventory.poolmoves.pool import CANARY, OLD, Members, NodePool

PHASES = ("Pending", "Running", "Succeeded", "Failed", "Unknown")


@dataclass(frozen=True, kw_only=True)
class PodFates:
    """Pods that use devices on one part of the pool: their phases now; how many finished in the period, and
    how many of those failed; the median from creation to a node of those that the mirror still has (None = no
    data)."""

    phases: Mapping[str, int]
    finished: int
    failed: int
    waits: int
    typical_wait: timedelta | None

    @property
    def seen(self) -> bool:
        return bool(self.finished or self.waits or sum(self.phases.values()))


def fates_of(pool: NodePool, members: Members, *, start: datetime, end: datetime) -> Mapping[str, PodFates]:
    """By part (CANARY, OLD), over [start, end). Two queries."""
    phases: dict[str, Counter[str]] = {CANARY: Counter(), OLD: Counter()}
    waits: dict[str, list[timedelta]] = {CANARY: [], OLD: []}
    uses = ~Q(claim_names={}) | ~Q(extended_resources={})
    rows = Pod.objects.filter(uses, cluster=pool.cluster).exclude(node_name="")
    for node, phase, created, scheduled in rows.values_list(
        "node_name", "phase", "created_at", "scheduled_at"
    ):
        if (part := members.parts.get(node)) is None:
            continue
        phases[part][phase] += 1
        if created is not None and scheduled is not None and start <= scheduled < end:
            # Times of the API are whole seconds.
            waits[part].append(max(scheduled - created, timedelta()))
    ended: dict[str, Counter[bool]] = {CANARY: Counter(), OLD: Counter()}
    facts = Observation.objects.filter(
        cluster=pool.cluster, kind=Observation.Kind.POD_FINISHED, at__gte=start, at__lt=end
    ).values_list("facts", flat=True)
    for told in facts.iterator():
        part = members.parts.get(str(told.get("node") or ""))
        if part is not None:
            ended[part][told.get("phase") == "Failed"] += 1
    return {
        part: PodFates(
            phases=dict(phases[part]),
            finished=ended[part].total(),
            failed=ended[part][True],
            waits=len(waits[part]),
            typical_wait=_typical(waits[part]),
        )
        for part in (CANARY, OLD)
    }


def _typical(waits: Sequence[timedelta]) -> timedelta | None:
    return median_low(waits) if waits else None
