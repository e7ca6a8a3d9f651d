"""How long claims waited for their devices: from their creation on the cluster to their first allocation.

Who still waits, or gave up, has waited *at least* so long. To leave them out would flatter: typical waits are
estimated with them (Kaplan and Meier).
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from claims.history.curves import us
from claims.models import Allocation, RequestClaim
from inventory.coverage import coverage_of_all
from inventory.models import Claim, Observation

ALLOCATED, WAITING, GONE = "allocated", "waiting", "gone"
# Upper bounds of the classes of waits, in seconds; the last has none.
BOUNDS = (10, 60, 300, 900, 3_600, 4 * 3_600, 12 * 3_600, 86_400, 3 * 86_400)
SECOND = 1_000_000

_Uid = tuple[int, str]


@dataclass(frozen=True)
class Wait:
    """One claim's: how long (in seconds, at least where the outcome is not `allocated`), and for what."""

    seconds: float
    outcome: str
    device_class: str
    product: str = ""


@dataclass
class Waits:
    """The waits of one class or product."""

    counts: dict[str, Counter[int]] = field(default_factory=lambda: defaultdict(Counter))
    all: list[Wait] = field(default_factory=list)

    def add(self, wait: Wait) -> None:
        index = next((i for i, bound in enumerate(BOUNDS) if wait.seconds < bound), len(BOUNDS))
        self.counts[wait.outcome][index] += 1
        self.all.append(wait)

    def count(self, outcome: str) -> int:
        return self.counts[outcome].total()

    def within(self, part: float) -> timedelta | None:
        """How long the given part of them waits at most, as far as can be said; None where too many have not
        got anything yet."""
        return survival_quantile(((w.seconds, w.outcome == ALLOCATED) for w in self.all), part)


def survival_quantile(waits: Iterable[tuple[float, bool]], part: float) -> timedelta | None:
    """The Kaplan-Meier estimate of the time by which `part` have got something; (seconds, got it) each."""
    ordered = sorted(waits, key=lambda wait: (wait[0], not wait[1]))
    remaining, share = len(ordered), 1.0
    for seconds, got in ordered:
        if got:
            share *= 1 - 1 / remaining
            if share <= 1 - part + 1e-12:
                return timedelta(seconds=seconds)
        remaining -= 1
    return None


def waits(*, start: datetime, now: datetime, by_product: bool = False) -> Mapping[str, Waits]:
    """The waits of all claims made since `start`, by the class that they ask for or by the product that they
    got ("" = none yet, or not known), the busiest first. A fixed number of queries."""
    found: dict[str, Waits] = defaultdict(Waits)
    for wait in _waits(start=start, now=now):
        found[wait.product if by_product else wait.device_class].add(wait)
    return dict(sorted(found.items(), key=lambda item: (item[0] == "", -len(item[1].all), item[0])))


def _waits(*, start: datetime, now: datetime) -> Iterable[Wait]:
    got = _allocated(start)
    pending = _pending(start)
    ended = _ended(start)
    asked = _asked_for({*ended} - {*got})
    until = {
        pk: us(now if known.in_step else known.as_of or now) for pk, known in coverage_of_all(now=now).items()
    }
    made = Observation.objects.filter(kind=Observation.Kind.CLAIM_CREATED, at__gte=start, at__lte=now)
    for cluster, uid, at in made.values_list("cluster_id", "uid", "at").iterator(chunk_size=5_000):
        key, created = (cluster, uid), us(at)
        if key in got:
            begun, device_class, product = got[key]
            yield Wait(max(begun - created, 0) / SECOND, ALLOCATED, device_class, product)
        elif key in pending:
            yield Wait(max(until[cluster] - created, 0) / SECOND, WAITING, pending[key])
        elif key in ended:
            yield Wait(max(ended[key] - created, 0) / SECOND, GONE, asked.get(key, ""))


def _allocated(start: datetime) -> dict[_Uid, tuple[int, str, str]]:
    """First allocations: when, of which class, which product."""
    rows = Allocation.objects.filter(epoch=1, started_at__gte=start, admin_access=False)
    columns = ("cluster_id", "claim_uid", "started_us", "device_class", "product")
    return {
        (cluster, uid): (begun, device_class, product)
        for cluster, uid, begun, device_class, product in rows.order_by()
        .values_list(*columns)
        .iterator(chunk_size=5_000)
    }


def _pending(start: datetime) -> dict[_Uid, str]:
    """Claims that have got nothing yet, and the class that each asks for."""
    rows = Claim.objects.filter(epoch=0, created_at__gte=start)
    return {
        (cluster, uid): class_of(spec) for cluster, uid, spec in rows.values_list("cluster_id", "uid", "spec")
    }


def _ended(start: datetime) -> dict[_Uid, int]:
    """Claims that went without having got anything, and when."""
    rows = Observation.objects.filter(kind=Observation.Kind.CLAIM_DELETED, at__gte=start, facts__epoch=0)
    return {(cluster, uid): us(at) for cluster, uid, at in rows.values_list("cluster_id", "uid", "at")}


def _asked_for(uids: Iterable[_Uid]) -> dict[_Uid, str]:
    """What requests of the desk asked for, for claims that are no more."""
    wanted = set(uids)
    if not wanted:
        return {}
    rows = RequestClaim.objects.values_list("cluster_id", "claim_uid", "request__device_class")
    return {(cluster, uid): name for cluster, uid, name in rows.iterator() if (cluster, uid) in wanted}


def class_of(spec: Mapping[str, Any]) -> str:
    """The DeviceClass of a claim's first request; "" where it names none."""
    requests: Sequence[Any] = (spec.get("devices") or {}).get("requests") or ()
    for request in requests:
        for part in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if part and part.get("deviceClassName"):
                return str(part["deviceClassName"])
    return ""
