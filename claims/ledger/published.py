"""What was published when: devices, when they could not be had, and which counters they draw on. From what is
published now, and for devices that are gone from what was observed when they came."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property

from claims.history.curves import us
from claims.ledger.conservation import Piece, Span, spans
from inventory.models import Cluster, Device, Observation, ResourceSlice
from portal.dra import model as dra
from portal.dra.quantity import InvalidQuantity, Quantity

Kind = Observation.Kind
# Driver, pool, device.
DeviceName = tuple[str, str, str]
# (time, +1 or -1) of something that comes and goes.
Changes = Mapping[DeviceName, list[tuple[int, int]]]
# Set of counters → counter → how much of it a device draws; nothing known of how much: {}.
Draws = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, kw_only=True, order=True)
class Looks:
    """What prices of idle time may depend on, as a device was when it came."""

    product: str
    profile: str
    hardware_id: str


@dataclass
class World:
    """All devices of a cluster, those that are gone included."""

    published: Mapping[DeviceName, list[Span]]
    barred: Mapping[DeviceName, list[Span]]
    # As it came last; and in order of time since when it was what, where it was more than one thing.
    looks: Mapping[DeviceName, Looks]
    changes: Mapping[DeviceName, Sequence[tuple[int, Looks]]]
    draws: dict[DeviceName, Draws]
    taken: set[DeviceName] = field(default_factory=set)

    @classmethod
    def load(cls, cluster: Cluster, now: int) -> "World":
        here: set[DeviceName] = set()
        barred_now: set[DeviceName] = set()
        devices = Device.objects.filter(cluster=cluster).values_list(
            "pool__driver", "pool__name", "name", "state", "reason"
        )
        for driver, pool, name, state, reason in devices.iterator():
            here.add((driver, pool, name))
            if state == Device.State.UNAVAILABLE and reason != Device.Reason.PARENT_HELD:
                barred_now.add((driver, pool, name))
        observed = _Observed()
        observed.read(cluster)
        came, barred = observed.came, observed.barred
        return cls(
            published={n: spans(changes, now=now, until_now=n in here) for n, changes in came.items()},
            barred={n: spans(changes, now=now, until_now=n in barred_now) for n, changes in barred.items()},
            looks=observed.looks,
            changes={name: sorted(told) for name, told in observed.changes.items() if len(told) > 1},
            draws={**observed.draws, **_drawn_now(cluster)},
        )

    def sets_of(self, name: DeviceName) -> set[str]:
        return set(self.draws.get(name, ()))

    def join(self, name: DeviceName, sets: Iterable[str]) -> None:
        """What was allocated tells that a device drew on these counters, whatever is published of it now."""
        known = self.draws.get(name, {})
        more: Draws = {one: {} for one in sets if one not in known}
        if more:
            self.draws[name] = {**known, **more}

    def piece(self, name: DeviceName) -> Piece:
        self.taken.add(name)
        return Piece("/".join(name), [], self.published.get(name, []), self.barred.get(name, []))

    def left(self) -> Iterator[DeviceName]:
        """Devices that nobody ever held, alone."""
        return (name for name in self.published if name not in self.taken)

    def members(self, named: str) -> Sequence[DeviceName]:
        """What is cut from one piece of hardware: the whole of it first, if that is published."""
        return self._members.get(named, ())

    @cached_property
    def _members(self) -> Mapping[str, Sequence[DeviceName]]:
        """Asked once every device has joined."""
        found: dict[str, dict[DeviceName, Mapping[str, int]]] = defaultdict(dict)
        for name, sets in self.draws.items():
            for one, counters in sets.items():
                found[piece_name(name, one)][name] = counters
        return {named: _largest_first(members) for named, members in found.items()}


def piece_name(device: DeviceName, counter_set: str) -> str:
    """What partitions are cut from, by the set of counters that they share."""
    return f"{device[0]}/{device[1]}/{counter_set}"


def _largest_first(members: Mapping[DeviceName, Mapping[str, int]]) -> list[DeviceName]:
    most: dict[str, int] = defaultdict(int)
    for counters in members.values():
        for counter, amount in counters.items():
            most[counter] = max(most[counter], amount)

    def size(name: DeviceName) -> Fraction:
        return sum((Fraction(n, most[c]) for c, n in members[name].items() if most[c]), Fraction(0))

    return sorted(members, key=lambda name: (-size(name), name))


@dataclass
class _Observed:
    came: dict[DeviceName, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    barred: dict[DeviceName, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    looks: dict[DeviceName, Looks] = field(default_factory=dict)
    changes: dict[DeviceName, list[tuple[int, Looks]]] = field(default_factory=lambda: defaultdict(list))
    draws: dict[DeviceName, Draws] = field(default_factory=dict)

    def read(self, cluster: Cluster) -> None:
        kinds = (Kind.DEVICE_APPEARED, Kind.DEVICE_GONE, Kind.DEVICE_UNAVAILABLE, Kind.DEVICE_AVAILABLE)
        rows = Observation.objects.filter(cluster=cluster, kind__in=kinds).order_by("id")
        for kind, at, facts in rows.values_list("kind", "at", "facts").iterator(chunk_size=5_000):
            name = (facts.get("driver", ""), facts.get("pool", ""), facts.get("device", ""))
            if kind == Kind.DEVICE_APPEARED:
                looks = Looks(
                    product=facts.get("product") or "",
                    profile=facts.get("profile") or "",
                    hardware_id=facts.get("hardware_id") or "",
                )
                if self.looks.get(name) != looks:
                    self.changes[name].append((us(at), looks))
                self.looks[name] = looks
                if drawn := facts.get("draws"):
                    self.draws[name] = {
                        one: {counter: _nanos(amount) for counter, amount in counters.items()}
                        for one, counters in drawn.items()
                    }
            if kind in (Kind.DEVICE_APPEARED, Kind.DEVICE_GONE):
                self.came[name].append((us(at), 1 if kind == Kind.DEVICE_APPEARED else -1))
                reason = facts.get("unavailable")
            else:
                reason = facts.get("reason") or facts.get("was")
            if reason and reason != Device.Reason.PARENT_HELD:
                begins = kind in (Kind.DEVICE_APPEARED, Kind.DEVICE_UNAVAILABLE)
                self.barred[name].append((us(at), 1 if begins else -1))


def _drawn_now(cluster: Cluster) -> dict[DeviceName, Draws]:
    found: dict[DeviceName, Draws] = {}
    slices = ResourceSlice.objects.filter(cluster=cluster, pool__has_counters=True).order_by(
        "generation", "pk"
    )
    for driver, pool, manifest in slices.values_list("pool__driver", "pool__name", "manifest").iterator():
        item = dra.decode_object(manifest)
        assert isinstance(item, dra.ResourceSlice)
        for device in item.spec.devices:
            if device.consumes_counters:
                found[driver, pool, device.name] = {
                    use.counter_set: {name: _nanos(c.value) for name, c in use.counters.items()}
                    for use in device.consumes_counters
                }
    return found


def _nanos(amount: object) -> int:
    try:
        return Quantity.parse(str(amount)).nanos
    except InvalidQuantity:
        return 0
