"""One transaction of the writer: what it has touched so far, and the observations that it will append."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

import msgspec

from inventory.models import Observation
from portal.dra.features import Features

Kind = Observation.Kind
Source = Observation.Source

# Below this the Date header (whole seconds) says nothing about a clock.
NOTABLE_SKEW = timedelta(seconds=2)
LONG_AGO = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True)
class Moment:
    """When something happened: within [at - uncertainty, at]."""

    at: datetime
    source: Source
    uncertainty: timedelta = timedelta(0)


class Placed(Protocol):
    """A device as what is noted of it needs it: stored, or about to be."""

    @property
    def name(self) -> str: ...
    @property
    def hardware_id(self) -> str: ...
    @property
    def node_name(self) -> str: ...


class Noted(msgspec.Struct, gc=False):
    """An observation that is to be appended, by the columns of `Observation`; a first sync has many of them,
    and a model takes ten times as long to make."""

    cluster_id: int
    kind: str
    at: datetime
    source: str
    uncertainty_us: int
    observed_at: datetime
    namespace: str
    name: str
    uid: str
    facts: Mapping[str, Any]
    key: str


@dataclass
class Turn:
    """Collects what one transaction does to one cluster's mirror.

    `now` and `since` belong to the batch that is being applied and are on the cluster's clock, so that
    they compare with the times in its objects.
    """

    cluster_id: int
    features: Features
    skew: timedelta = timedelta(0)
    now: datetime = LONG_AGO
    since: datetime | None = None
    changed: bool = False
    # Whether slices, classes or what matters of nodes changed (as opposed to who holds what).
    fleet_changed: bool = False
    observations: list[Noted] = field(default_factory=list)
    # Whose devices' states must be looked at again before the commit.
    dirty_pools: set[int] = field(default_factory=set)
    dirty_devices: set[int] = field(default_factory=set)
    dirty_nodes: set[str] = field(default_factory=set)
    # Nodes whose counted units must be settled, and whether Pods were listed as a whole.
    dirty_counts: set[str] = field(default_factory=set)
    pods_listed: bool = False
    # Profiles that (may) have come new to this cluster, and devices that are new or have another identity.
    new_profiles: set[int] = field(default_factory=set)
    new_devices: set[int] = field(default_factory=set)
    _observed: Moment = Moment(LONG_AGO, Source.OBSERVED)

    def begin(self, *, received_at: datetime, since: datetime | None) -> None:
        """Start with a batch; converts our clock to the cluster's where they differ notably."""
        skew = self.skew if abs(self.skew) >= NOTABLE_SKEW else timedelta(0)
        self.now = received_at + skew
        self.since = since + skew if since is not None else None
        width = self.now - self.since if self.since is not None else timedelta(0)
        self._observed = Moment(self.now, Source.OBSERVED, max(width, timedelta(0)))

    def observed(self) -> Moment:
        """Now, as uncertain as the coverage was."""
        return self._observed

    def told(self, at: datetime | None, source: Source) -> Moment:
        """A time that the cluster gives, or `observed` where it gives none."""
        return Moment(at, source) if at is not None else self.observed()

    def observe(
        self,
        kind: Kind,
        *,
        key: str,
        moment: Moment,
        name: str,
        uid: str = "",
        namespace: str = "",
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Append a fact. `key` is its natural key: the same fact seen twice is stored once."""
        self.observations.append(
            Noted(
                cluster_id=self.cluster_id,
                kind=kind,
                at=moment.at,
                source=moment.source,
                uncertainty_us=moment.uncertainty // timedelta(microseconds=1),
                observed_at=self.now,
                namespace=namespace,
                name=name,
                uid=uid,
                facts=facts or {},
                key=key if len(key) <= 200 else short(key, 200),
            )
        )


def short(text: str, limit: int) -> str:
    """`text` cut to `limit` characters with a digest at its end, so that different texts stay different."""
    if len(text) <= limit:
        return text
    return f"{text[: limit - 33]}#{hashlib.sha256(text.encode()).hexdigest()[:32]}"


def digest(*parts: str) -> str:
    """A short stand-in for a compound name in a natural key."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def parse_time(text: object) -> datetime | None:
    """A `metav1.Time` or `MicroTime`; None for anything that is none."""
    if not isinstance(text, str) or not text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed.astimezone(UTC)
