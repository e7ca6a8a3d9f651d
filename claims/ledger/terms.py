"""What the fold reads and what it gives: observations as events, intervals, and stays of consumers. Pure."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from claims.ledger.bounds import TENANT

ALLOCATED = "claim-allocated"
ENDS = ("claim-released", "claim-deleted")
JOINED = "consumer-joined"
LEFT = "consumer-left"
# Completes what the allocation says of one device; never contradicts it.
DETAILED = "allocation-detailed"
# A claim that the scheduler made for a Pod's extended resources; told of the claim and of the Pod.
EXTENDED = "extended-claim"
SCHEDULED, POD_DETAILED, FINISHED = "pod-scheduled", "pod-detailed", "pod-finished"
OF_CLAIMS = (ALLOCATED, *ENDS, JOINED, LEFT, DETAILED, EXTENDED)
OF_PODS = (SCHEDULED, POD_DETAILED, FINISHED, EXTENDED)
KINDS = (ALLOCATED, *ENDS, JOINED, LEFT, DETAILED, EXTENDED, SCHEDULED, POD_DETAILED, FINISHED)

# The columns of an observation that make an event, in the order of its fields.
EVENT_VALUES = (
    *("key", "kind", "at", "source", "uncertainty_us", "observed_at", "namespace", "name", "uid", "facts"),
)

CLAIM, UNITS = "claim", "units"


@dataclass(frozen=True, kw_only=True)
class Event:
    """One observation of a claim or a Pod, as stored."""

    key: str
    kind: str
    at: datetime
    source: str
    uncertainty_us: int = 0
    observed_at: datetime
    namespace: str
    name: str
    uid: str
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def epoch(self) -> int:
        return int(self.facts.get("epoch", 0))

    @property
    def latest(self) -> datetime:
        """When it happened at the latest. Clocks may run ahead of ours, and nothing happens later than we see
        it."""
        return min(self.at, self.observed_at)

    @property
    def earliest(self) -> datetime:
        return self.latest - self.uncertainty

    @property
    def uncertainty(self) -> timedelta:
        return timedelta(microseconds=self.uncertainty_us)


@dataclass(frozen=True, kw_only=True, order=True)
class DeviceKey:
    """What tells apart the intervals of one (claim, epoch)."""

    driver: str
    pool: str
    device: str
    share_id: str
    request: str


@dataclass(frozen=True, kw_only=True)
class Interval:
    """One device (or share of it) held by one claim for [start, end), or units of a Device Plugin that one
    Pod had; `end` None = still held."""

    claim_uid: str
    epoch: int
    namespace: str
    claim_name: str
    device: DeviceKey
    node: str
    start: datetime
    start_source: str
    start_uncertainty_us: int
    end: datetime | None
    end_source: str
    end_uncertainty_us: int
    # Everything else that was known of the device when it was allocated, as observed.
    facts: dict[str, Any]
    kind: str = CLAIM
    units: int = 1
    replicas: int = 1
    extended_resource: str = ""
    bound: str = TENANT


@dataclass(frozen=True, kw_only=True)
class Stay:
    """A consumer's time at an allocation, for information; `left` None = still there."""

    claim_uid: str
    epoch: int
    resource: str
    name: str
    uid: str
    joined: datetime
    left: datetime | None
    # Its containers that use the claim, each with the request of the claim that it uses ("" = all of it);
    # None = not known.
    containers: list[list[str]] | None = None


@dataclass(frozen=True, kw_only=True)
class Folded:
    intervals: tuple[Interval, ...]
    stays: tuple[Stay, ...]
