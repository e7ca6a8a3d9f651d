"""What the ledger must say, worked out anew at every instant from observations: slow, and nothing in common
with how the ledger is folded.

An oracle takes the observations of one cluster, in any order and with repetitions, and answers for one
instant at a time: who held what. It reads the rules as they are told to people:

- a claim holds the devices of an allocation from when that was made until the first sign that it was over;
- nobody held anything later than it was seen held, or after it was seen released;
- where the time of an end is not certain, it ended as early as it can have (the tenant's favour);
- an allocation that is followed by another of the same claim is over when that one begins;
- a Pod has its units from when it was scheduled until it finished, but for those that a claim served.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

OVER = {"claim-released", "claim-deleted"}


@dataclass(frozen=True, order=True)
class Holding:
    """Somebody (a claim's or a Pod's uid, and which allocation of it) holds something now."""

    uid: str
    epoch: int
    what: tuple[str, ...]
    units: Fraction = Fraction(1)


class Oracle:
    """Over observations that have the attributes of `inventory.models.Observation`, or of the ledger's
    events."""

    def __init__(self, observations: Iterable[Any]) -> None:
        seen: dict[str, Any] = {}
        for one in observations:
            seen.setdefault(one.key, one)
        self._seen = list(seen.values())

    def holdings(self, instant: datetime) -> Sequence[Holding]:
        """Who holds what at that instant, in order."""
        return sorted({*self._of_claims(instant), *self._of_pods(instant)})

    def held(
        self, *, start: datetime, end: datetime, step: timedelta = timedelta(seconds=1)
    ) -> dict[Holding, timedelta]:
        """How long each was held within [start, end), looked at every `step`; exact if nothing happens
        between two looks."""
        found: dict[Holding, timedelta] = {}
        at = start
        while at < end:
            for holding in self.holdings(at):
                found[holding] = found.get(holding, timedelta(0)) + step
            at += step
        return found

    def instants(self) -> list[datetime]:
        """When anything can begin or end."""
        found = set()
        for one in self._seen:
            late = min(one.at, one.observed_at)
            found |= {one.at, one.observed_at, late, late - timedelta(microseconds=one.uncertainty_us)}
        return sorted(found)

    # --- claims -----------------------------------------------------------------------------------------

    def _of_claims(self, instant: datetime) -> Iterator[Holding]:
        for uid in {one.uid for one in self._seen if one.kind == "claim-allocated"}:
            mine = [one for one in self._seen if one.uid == uid]
            allocations = [one for one in mine if one.kind == "claim-allocated" and one.facts["epoch"] > 0]
            for epoch in {one.facts["epoch"] for one in allocations}:
                first = self._first([one for one in allocations if one.facts["epoch"] == epoch])
                if first is None or not _begun(first, instant):
                    continue
                if self._over(mine, allocations, epoch, first, instant):
                    continue
                for device in first.facts["devices"]:
                    named = ("driver", "pool", "device", "share_id", "request")
                    yield Holding(uid, epoch, tuple(device.get(name) or "" for name in named))

    def _over(
        self, mine: Sequence[Any], allocations: Sequence[Any], epoch: int, first: Any, instant: datetime
    ) -> bool:
        ends = [one for one in mine if one.kind in OVER and one.facts.get("epoch", 0) == epoch]
        if any(_can_have_happened(one, instant) for one in ends):
            return True
        later = [one for one in allocations if one.facts["epoch"] > epoch]
        if not later:
            return False
        following = min(one.facts["epoch"] for one in later)
        successor = self._first([one for one in later if one.facts["epoch"] == following])
        if _begun(successor, instant):
            return True
        # Nobody saw it end: it was certainly held when it was last heard of, and no longer.
        if ends:
            return False
        begins = min(successor.at, successor.observed_at)
        heard = [
            one.observed_at
            for one in mine
            if one.facts.get("epoch", 0) == epoch and one.observed_at <= begins
        ]
        return bool(instant >= max([*heard, min(first.at, first.observed_at)]))

    @staticmethod
    def _first(allocations: Sequence[Any]) -> Any:
        """Of several accounts of one allocation, the earliest."""
        return min(allocations, key=lambda one: (min(one.at, one.observed_at), one.key), default=None)

    # --- Pods -------------------------------------------------------------------------------------------

    def _of_pods(self, instant: datetime) -> Iterator[Holding]:
        for uid in {one.uid for one in self._seen if one.kind == "pod-scheduled"}:
            mine = [one for one in self._seen if one.uid == uid]
            first = self._first([one for one in mine if one.kind == "pod-scheduled"])
            finished = [one for one in mine if one.kind == "pod-finished"]
            if not _begun(first, instant) or any(_can_have_happened(one, instant) for one in finished):
                continue
            served = [
                resource
                for one in mine
                if one.kind == "extended-claim" and one.facts["pod"] == uid
                for resource in one.facts["resources"].values()
            ]
            for resource, count in first.facts["extended"].items():
                if count > 0 and resource not in served:
                    replicas = self._replicas(mine, first, resource)
                    yield Holding(uid, 1, (resource, first.facts["node"]), Fraction(count, replicas))

    @staticmethod
    def _replicas(mine: Sequence[Any], first: Any, resource: str) -> int:
        later = sorted(
            (one for one in mine if one.kind == "pod-detailed"), key=lambda one: (one.observed_at, one.key)
        )
        for one in (first, *later):
            for unit in one.facts.get("units", ()):
                if unit["resource"] == resource:
                    return int(unit["replicas"])
        return 1


def _begun(one: Any, instant: datetime) -> bool:
    return bool(instant >= one.at or instant >= one.observed_at)


def _can_have_happened(one: Any, instant: datetime) -> bool:
    width = timedelta(microseconds=one.uncertainty_us)
    return bool(instant >= one.at - width or instant >= one.observed_at - width)
