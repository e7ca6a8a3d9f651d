"""Of which time something can be said about a cluster, and of which not."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from claims.history.curves import merged, us
from inventory.coverage import DEVICE_RESOURCES, Coverage
from inventory.models import Observation


@dataclass(frozen=True)
class Watched:
    """In microseconds since 1970."""

    # Nothing is known of the time before.
    known_from: int
    # Since then the mirror is not in step; now, where it is.
    in_step_until: int
    # When changes can have gone unseen.
    lost: Sequence[tuple[int, int]]

    def blanks(self, start: int, end: int) -> list[tuple[int, int]]:
        """What of [start, end) nobody has seen, in order."""
        blank = merged([(start, self.known_from), *self.lost, (self.in_step_until, end)])
        return [(max(a, start), min(b, end)) for a, b in blank if a < end and b > start]


def watched(coverage: Coverage, *, since: datetime, now: datetime) -> Watched | None:
    """What is known of a cluster's observation from `since` on; None where it was never followed. Two
    queries."""
    observed = Observation.objects.filter(cluster=coverage.cluster.pk)
    first = observed.order_by("id").values_list("observed_at", flat=True).first()
    if first is None:
        return None
    gaps = observed.filter(kind=Observation.Kind.GAP, at__gt=since)
    return Watched(
        known_from=us(first),
        in_step_until=us(now if coverage.in_step else coverage.as_of or first),
        lost=[
            (us(datetime.fromisoformat(facts["from"])), us(at))
            for at, facts in gaps.values_list("at", "facts")
            if facts.get("lost") and facts.get("resource") in DEVICE_RESOURCES
        ],
    )
