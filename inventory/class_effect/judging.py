"""What a list of selectors says of a cluster's devices: which match, and which they have no answer for.

Selectors are asked in their order, as the scheduler does: the first that does not say yes decides. Kinds of
device are asked once; single devices only where an answer hangs on what identifies the piece.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from inventory.browse_cells import product_name
from inventory.browse_counts import counts_of
from inventory.class_effect.model import MOST, DeviceName, Devices, Failing, KindCount
from inventory.expressions import Piece, leave_open
from inventory.identity import is_identity
from inventory.identity_names import identity_names
from inventory.mirror import matching
from inventory.mirror.writer import features_of
from inventory.models import Cluster, Device, DeviceProfile
from portal.dra.cel import EVERYTHING, CelEvaluationError, DeviceView, Selector
from portal.sql import among

# (number of the selector, from 0; what it says)
Trouble = tuple[int, str]


@dataclass
class Judged:
    """Devices that match: of whole kinds, and single ones with their kind; and how many some selector has no
    answer for, by kind and trouble."""

    problem: str = ""
    kinds: set[int] = field(default_factory=set)
    devices: dict[int, int] = field(default_factory=dict)
    troubles: Counter[tuple[int, Trouble]] = field(default_factory=Counter)


@dataclass(frozen=True)
class Part:
    """Some devices: all of these kinds, and single ones with their kind."""

    kinds: frozenset[int]
    devices: Mapping[int, int]

    def __bool__(self) -> bool:
        return bool(self.kinds or self.devices)

    def rows(self, cluster: Cluster) -> Any:
        """The devices as rows."""
        wanted = among("profile", self.kinds) | among("pk", self.devices.keys())
        return Device.objects.filter(wanted, cluster=cluster).order_by()


class Judge:
    """A cluster's devices, read once, to be asked about by any number of selectors."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.features = features_of(cluster.server_version, served=cluster.served)
        counts: Counter[int] = Counter()
        for profile, _cluster, _state, _health, count in counts_of([cluster]):
            counts[profile] += count
        self.counts: Mapping[int, int] = counts
        self.profiles: Mapping[int, DeviceProfile] = {
            profile.pk: profile for profile in DeviceProfile.objects.filter(among("pk", counts.keys()))
        }
        self._views: dict[int, DeviceView] = {}
        self._known: dict[tuple[str, ...], Judged] = {}

    def of(self, expressions: Sequence[str]) -> Judged:
        """What these selectors say together; none at all match every device."""
        key = tuple(expressions)
        if key not in self._known:
            self._known[key] = self._judge(key)
        return self._known[key]

    def _judge(self, expressions: Sequence[str]) -> Judged:
        compiled = matching.compile_all(expressions, features=self.features)
        if compiled.problem:
            return Judged(problem=compiled.problem)
        found = Judged()
        selectors = compiled.selectors
        pieces = any(_reads_pieces(selector) for selector in selectors)
        domains = {read[1] for one in selectors for read in one.reads if read[0] == "attribute?"}
        singly: dict[int, DeviceProfile] = {}
        for pk, profile in self.profiles.items():
            if pieces:
                seen = matching.view(profile)
                leave_open(seen)
            elif domains and not self._same_domains(pk, domains):
                singly[pk] = profile
                continue
            else:
                seen = self._view(pk, domains)
            matches, trouble = _ask(selectors, seen)
            if matches:
                found.kinds.add(pk)
            elif trouble is not None and pieces:
                singly[pk] = profile
            elif trouble is not None:
                found.troubles[pk, trouble] += self.counts[pk]
        if singly:
            self._ask_singly(found, selectors, singly)
        return found

    def _ask_singly(
        self, found: Judged, selectors: Sequence[Selector], profiles: Mapping[int, DeviceProfile]
    ) -> None:
        pieces = {pk: Piece(profile) for pk, profile in profiles.items()}
        rows = Device.objects.filter(among("profile", profiles.keys()), cluster=self.cluster).order_by()
        for pk, profile, identity in rows.values_list("pk", "profile_id", "identity").iterator(5_000):
            matches, trouble = _ask(selectors, pieces[profile].view(identity))
            if matches:
                found.devices[pk] = profile
            elif trouble is not None:
                found.troubles[profile, trouble] += 1

    def _view(self, pk: int, domains: Set[str]) -> DeviceView:
        if not domains:
            if pk not in self._views:
                self._views[pk] = matching.view(self.profiles[pk])
            return self._views[pk]
        seen = matching.view(self.profiles[pk])
        for domain in domains & self._identity_domains(pk).keys():
            # What identifies the pieces is of this domain, so that there is one.
            seen.attributes.setdefault(domain, {})
        return seen

    def _same_domains(self, pk: int, domains: Set[str]) -> bool:
        """Whether all devices of a kind are alike in having something of these domains, or nothing."""
        known = {name.rpartition("/")[0] for name in self.profiles[pk].attributes}
        counts = self._identity_domains(pk)
        return all(counts.get(domain, 0) in (0, self.counts[pk]) for domain in domains - known)

    def _identity_domains(self, pk: int) -> Mapping[str, int]:
        """Domains of identifying attributes, and how many devices of the kind have (at least) how many."""
        found: dict[str, int] = {}
        for name, seen in identity_names(self.cluster).get(pk, {}).items():
            domain = name.rpartition("/")[0]
            found[domain] = max(found.get(domain, 0), seen.devices)
        return found

    # --- what is told of it -------------------------------------------------------------------------

    def count(self, part: Judged | Part) -> int:
        """How many devices match."""
        return sum(self.counts[pk] for pk in part.kinds) + len(part.devices)

    def without(self, one: Judged, other: Judged) -> Part:
        """The devices that match the one and not the other."""
        kinds = set(one.kinds - other.kinds)
        split = kinds & set(other.devices.values())
        singles = {
            pk: profile
            for pk, profile in one.devices.items()
            if profile not in other.kinds and pk not in other.devices
        }
        if split:
            rows = Device.objects.filter(among("profile", split), cluster=self.cluster).order_by()
            singles |= {
                pk: kind for pk, kind in rows.values_list("pk", "profile_id") if pk not in other.devices
            }
        return Part(frozenset(kinds - split), singles)

    def both(self, one: Judged, other: Judged) -> int:
        """How many devices match both."""
        return self.count(one) - self.count(self.without(one, other))

    def told(self, part: Part, *, listed: bool = True) -> Devices:
        """The devices by product, and the first of them by name."""
        if not part:
            return Devices()
        counts: Counter[tuple[str, str]] = Counter()
        for pk in part.kinds:
            counts[self._product(pk)] += self.counts[pk]
        for pk in part.devices.values():
            counts[self._product(pk)] += 1
        kinds = [KindCount(product, driver, count) for (product, driver), count in counts.items()]
        return Devices(
            count=counts.total(),
            kinds=tuple(sorted(kinds, key=lambda kind: (-kind.count, kind.product, kind.driver))),
            first=tuple(self._first(part)) if listed else (),
        )

    def _first(self, part: Part) -> Iterator[DeviceName]:
        rows = part.rows(self.cluster).order_by("node_name", "name", "pool")[:MOST]
        for pk, name, node, driver, pool in rows.values_list(
            "pk", "name", "node_name", "pool__driver", "pool__name"
        ):
            yield DeviceName(driver=driver, pool=pool, name=name, node=node, key=pk)

    def failing(self, judged: Judged, expressions: Sequence[str]) -> Sequence[Failing]:
        """The devices that some selector has no answer for, by product, selector and what is missing."""
        selectors = matching.compile_all(expressions, features=self.features).selectors
        counts: Counter[tuple[str, str, int, str, tuple[str, ...]]] = Counter()
        for (pk, (number, message)), count in judged.troubles.items():
            missing = tuple(missing_of(selectors[number], self.profiles[pk]))
            counts[*self._product(pk), number, message, missing] += count
        found = [
            Failing(product, driver, count, number, message, missing)
            for (product, driver, number, message, missing), count in counts.items()
        ]
        return tuple(sorted(found, key=lambda part: (-part.count, part.product, part.selector, part.message)))

    def _product(self, pk: int) -> tuple[str, str]:
        profile = self.profiles[pk]
        return product_name(profile), profile.driver


def _reads_pieces(selector: Selector) -> bool:
    """Whether it reads (or may read) an attribute that identifies single pieces."""
    return selector.reads == EVERYTHING or any(
        read[0] == "attribute" and is_identity(read[2], driver=read[1]) for read in selector.reads
    )


def missing_of(selector: Selector, profile: DeviceProfile) -> Iterable[str]:
    """What the selector reads by name and devices of this kind lack. What identifies single pieces is not
    known of kinds, and not told."""
    reads = selector.reads
    for read in sorted(reads) if isinstance(reads, frozenset) else ():
        match read:
            case ("attribute", domain, name) if f"{domain}/{name}" not in profile.attributes:
                if not is_identity(name, driver=domain):
                    yield f"{domain}/{name}"
            case ("capacity", domain, name) if f"{domain}/{name}" not in profile.capacity:
                yield f"{domain}/{name}"


def _ask(selectors: Sequence[Selector], seen: DeviceView) -> tuple[bool, Trouble | None]:
    for number, selector in enumerate(selectors):
        try:
            if not selector.evaluate(seen):
                return False, None
        except CelEvaluationError as error:
            return False, (number, str(error)[:1000])
    return True, None
