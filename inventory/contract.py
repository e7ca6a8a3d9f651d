"""Platform contracts: which versions a cluster is expected to run, which it runs, and when those changed.

An expectation is a range: ``>=1.35 <1.37``, or alternatives, ``1.34 || 1.36``. A bound says as much as it
says: ``1.36`` is every 1.36.x, ``<=1.36`` includes 1.36.9, ``>1.36`` begins at 1.37. What follows the numbers
(``v1.36.2-gke.1200``, ``+k3s1``, a pre-release) counts for nothing. For container runtimes an alternative may
name the runtime: ``containerd >=2.0 || cri-o >=1.34``.

What nobody observes is *not observed*, never met or broken.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Count
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from inventory.models import CdiNode, Cluster, Device, DeviceProfile, Node, PlatformChange, PlatformContract
from portal.accounts import audit
from portal.accounts.models import User

KUBERNETES, KUBELET, RUNTIME, DRIVER = "kubernetes", "kubelet", "runtime", "driver:"
MAX_RANGE = 200
MAX_DRIVERS = 50
# More versions of one part at a time are noise, not a rollout.
MAX_VERSIONS = 50
# Attributes, bare and lower-case, in which drivers say their version.
_VERSION_ATTRIBUTES = ("driverversion", "neurondriverversion")

_COMPARATOR = re.compile(r"(>=|<=|>|<|==?)?v?(\d{1,9}(?:\.\d{1,9}){0,3})(?:\.[x*])?", re.ASCII)
_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}", re.ASCII)
_NUMBERS = re.compile(r"\d{1,9}(?:\.\d{1,9})*", re.ASCII)
_DRIVER_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_GROUP = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)


# --- ranges ------------------------------------------------------------------------------------------


class InvalidRange(ValueError):
    """The text is no version range; `message` says why, for people."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


Numbers = tuple[int, ...]


@dataclass(frozen=True)
class _Alternative:
    name: str
    bounds: tuple[tuple[str, Numbers], ...]

    def admits(self, version: str) -> bool:
        if self.name and version.partition(" ")[0].lower() != self.name:
            return False
        found = _NUMBERS.search(version)
        if found is None:
            return not self.bounds
        numbers = _numbers(found.group())
        return all(_holds(numbers, operator, bound) for operator, bound in self.bounds)


@dataclass(frozen=True)
class Range:
    """What `parse` read. `admits` takes a version as a cluster reports it."""

    alternatives: tuple[_Alternative, ...]

    def admits(self, version: str) -> bool:
        return any(alternative.admits(version) for alternative in self.alternatives)


def parse(text: str, *, named: bool = False) -> Range:
    """Read a range; with `named` its alternatives may begin with the name of a runtime. Raises
    InvalidRange."""
    if len(text) > MAX_RANGE:
        raise InvalidRange(_("A range has at most %(limit)d characters.") % {"limit": MAX_RANGE})
    return Range(tuple(_alternative(part, named=named) for part in text.split("||")))


def _alternative(text: str, *, named: bool) -> _Alternative:
    # ">= 1.35" is as good as ">=1.35".
    words = re.sub(r"([<>=])\s+", r"\1", text.replace(",", " ")).split()
    name = words.pop(0) if named and words and _NAME.fullmatch(words[0]) and words[0] != "v" else ""
    if not words and not name:
        raise InvalidRange(_("There is no version here. Write for example >=1.35 <1.37, or 1.36."))
    bounds = []
    for word in words:
        found = _COMPARATOR.fullmatch(word)
        if found is None:
            raise InvalidRange(
                _("“%(word)s” is no bound. Write for example >=1.35 <1.37, or 1.36.") % {"word": word[:40]}
            )
        bounds.append(((found.group(1) or "=")[:2].replace("==", "="), _numbers(found.group(2))))
    return _Alternative(name, tuple(bounds))


def _numbers(text: str) -> Numbers:
    return tuple(map(int, text.split(".")))


def _holds(version: Numbers, operator: str, bound: Numbers) -> bool:
    """Compares as many numbers as the bound has."""
    seen = (version + (0,) * len(bound))[: len(bound)]
    return {
        ">=": seen >= bound,
        "<=": seen <= bound,
        ">": seen > bound,
        "<": seen < bound,
        "=": seen == bound,
    }[operator]


# --- what is observed --------------------------------------------------------------------------------

Observed = Mapping[str, Mapping[str, int]]


def observe(cluster: Cluster) -> Observed:
    """Part → version → how many report it (nodes for kubelets and runtimes, devices for drivers), from the
    mirror as it is. Parts of which nothing is known are absent. Six queries at most."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    if cluster.server_version:
        found[KUBERNETES][cluster.server_version] = 1
    nodes = Node.objects.filter(cluster=cluster).exclude(kubelet_version="").order_by()
    found[KUBELET].update(dict(nodes.values_list("kubelet_version").annotate(n=Count("pk"))))
    found[RUNTIME].update(_runtimes(cluster))
    for driver, version, count in _drivers(cluster):
        found[DRIVER + driver][version] += count
    return {part: dict(versions.most_common(MAX_VERSIONS)) for part, versions in found.items() if versions}


def _runtimes(cluster: Cluster) -> Mapping[str, int]:
    """As kubelets say ("containerd://2.1.4"); where they do not, as nodes report them with CDI specs."""
    nodes = Node.objects.filter(cluster=cluster).exclude(container_runtime="").order_by()
    told = dict(nodes.values_list("container_runtime").annotate(n=Count("pk")))
    if told:
        return {name.replace("://", " ", 1)[:100]: count for name, count in told.items()}
    reported: Counter[str] = Counter()
    reports = CdiNode.objects.filter(cluster=cluster).exclude(received_at=None)
    for runtime in reports.values_list("runtime", flat=True):
        name, version = str(runtime.get("name") or ""), str(runtime.get("version") or "")
        if name and version:
            reported[f"{name} {version}"[:100]] += 1
    return reported


def _drivers(cluster: Cluster) -> list[tuple[str, str, int]]:
    devices = Device.objects.filter(cluster=cluster).order_by()
    counts = dict(devices.values_list("profile").annotate(n=Count("pk")))
    found = []
    for profile in DeviceProfile.objects.filter(pk__in=counts).only("driver", "attributes"):
        version = version_of(profile.attributes)
        if version:
            found.append((profile.driver, version, counts[profile.pk]))
    return found


def version_of(attributes: Mapping[str, Any]) -> str:
    """The driver's version among a device's attributes; "" where it publishes none."""
    for name, typed in attributes.items():
        if name.rpartition("/")[2].lower() in _VERSION_ATTRIBUTES:
            value = typed.get("version") or typed.get("string")
            if isinstance(value, str):
                return value.strip()[:100]
    return ""


def note_changes(*, cluster: Cluster, observed: Observed, now: datetime) -> list[PlatformChange]:
    """Append what differs from what was last observed. A part that is not observed has not changed."""
    rows = PlatformChange.objects.filter(cluster=cluster).order_by("seen_at", "pk")
    latest: dict[str, Sequence[str]] = dict(rows.values_list("part", "after"))
    changes = []
    for part, versions in sorted(observed.items()):
        after = sorted(versions)
        before = latest.get(part)
        if before is None and latest and part.startswith(DRIVER):
            # A driver that was not there when the cluster was first looked at is new.
            before = []
        if before is None or list(before) != after:
            changes.append(
                PlatformChange(cluster=cluster, part=part[:80], before=before, after=after, seen_at=now)
            )
    return PlatformChange.objects.bulk_create(changes)


# --- expected against observed -----------------------------------------------------------------------

MET, BROKEN, NOT_OBSERVED, FREE = "met", "broken", "not-observed", "not-expected"

STATE_LABELS = {
    MET: gettext_lazy("as expected"),
    BROKEN: gettext_lazy("not as expected"),
    NOT_OBSERVED: gettext_lazy("not observed"),
    FREE: gettext_lazy("nothing expected"),
}


@dataclass(frozen=True)
class Version:
    version: str
    count: int
    admitted: bool


@dataclass(frozen=True)
class Part:
    """One part of a platform. `expected` is a range, "" for none."""

    part: str
    expected: str
    observed: Sequence[Version]
    state: str

    @property
    def label(self) -> str:
        return part_label(self.part)

    @property
    def state_label(self) -> str:
        return str(STATE_LABELS[self.state])

    @property
    def counts_nodes(self) -> bool:
        return self.part in {KUBELET, RUNTIME}


def part_label(part: str) -> str:
    """The name of a part for people."""
    if part.startswith(DRIVER):
        return _("driver %(driver)s") % {"driver": part.removeprefix(DRIVER)}
    return {KUBERNETES: _("API server"), KUBELET: _("kubelets"), RUNTIME: _("container runtimes")}[part]


def compare(contract: PlatformContract | None, observed: Observed) -> list[Part]:
    """Every part that is expected or observed: the API server, kubelets, runtimes, then drivers by name."""
    expected = expectations(contract)
    drivers = sorted({part for part in (*expected, *observed) if part.startswith(DRIVER)})
    return [
        _part(name, expected.get(name, ""), observed.get(name, {}))
        for name in (KUBERNETES, KUBELET, RUNTIME, *drivers)
    ]


@dataclass(frozen=True)
class Summary:
    """How far a cluster meets its contract, as last observed. `state` is that of the worst part of which
    something is expected."""

    expects: bool
    state: str
    parts: Sequence[Part]

    @property
    def state_label(self) -> str:
        return str(STATE_LABELS[self.state])


def summary(cluster: Cluster) -> Summary:
    """From the versions as last noted, for pages that are drawn often: two queries."""
    rows = PlatformChange.objects.filter(cluster=cluster).order_by("seen_at", "pk")
    latest = {part: dict.fromkeys(versions, 0) for part, versions in rows.values_list("part", "after")}
    found = PlatformContract.objects.filter(cluster=cluster).first()
    parts = compare(found, latest)
    expected = [part for part in parts if part.expected]
    worst = next((s for s in (BROKEN, NOT_OBSERVED, MET) if any(p.state == s for p in expected)), FREE)
    return Summary(bool(expected), worst, parts)


def expectations(contract: PlatformContract | None) -> dict[str, str]:
    """Part → range, where the contract has one."""
    if contract is None:
        return {}
    wanted = {KUBERNETES: contract.kubernetes, KUBELET: contract.kubelet, RUNTIME: contract.runtime}
    wanted |= {DRIVER + driver: text for driver, text in contract.drivers.items()}
    return {part: text for part, text in wanted.items() if text}


def _part(part: str, expected: str, observed: Mapping[str, int]) -> Part:
    admits = parse(expected, named=part == RUNTIME).admits if expected else lambda _version: True
    versions = [Version(version, count, admits(version)) for version, count in sorted(observed.items())]
    if not expected:
        state = FREE if versions else NOT_OBSERVED
    elif not versions:
        state = NOT_OBSERVED
    else:
        state = MET if all(version.admitted for version in versions) else BROKEN
    return Part(part, expected, versions, state)


# --- changing it -------------------------------------------------------------------------------------


class UnableToSaveContract(ValueError):
    """`field` is what is at fault: "group", "kubernetes", "kubelet", "runtime", "drivers"."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


@dataclass(frozen=True)
class Terms:
    """What a contract says; every text may be empty."""

    group: str = ""
    kubernetes: str = ""
    kubelet: str = ""
    runtime: str = ""
    drivers: Mapping[str, str] | None = None


def terms_of(contract: PlatformContract | None) -> Terms:
    """The terms of a contract; empty ones without."""
    if contract is None:
        return Terms()
    return Terms(
        group=contract.group,
        kubernetes=contract.kubernetes,
        kubelet=contract.kubelet,
        runtime=contract.runtime,
        drivers=contract.drivers,
    )


def save(
    *, cluster: Cluster, terms: Terms, actor: User, now: datetime, source_ip: str | None = None
) -> PlatformContract:
    """Make these the cluster's terms, and record what changed. Raises UnableToSaveContract; nothing is
    changed then."""
    values = _checked(terms)
    with transaction.atomic():
        # Two who save at once are one after the other: each audit entry tells its own step.
        Cluster.objects.select_for_update().only("pk").get(pk=cluster.pk)
        contract = PlatformContract.objects.filter(cluster=cluster).first()
        before, after = audit.changes(_as_dict(terms_of(contract)) if contract else {}, values)
        if contract is not None and before is None:
            return contract
        contract = contract or PlatformContract(cluster=cluster)
        for name, value in values.items():
            setattr(contract, name, value)
        contract.changed_at, contract.changed_by = now, actor
        contract.save()
        audit.record(
            now=now,
            actor=actor,
            action="contract.change",
            target=contract,
            target_kind="contract",
            target_name=cluster.name,
            before=before,
            after=after,
            source_ip=source_ip,
        )
    return contract


def _as_dict(terms: Terms) -> dict[str, Any]:
    return {
        "group": terms.group,
        "kubernetes": terms.kubernetes,
        "kubelet": terms.kubelet,
        "runtime": terms.runtime,
        "drivers": dict(terms.drivers or {}),
    }


def _checked(terms: Terms) -> dict[str, Any]:
    values = _as_dict(terms)
    if terms.group and not _GROUP.fullmatch(terms.group):
        raise UnableToSaveContract(
            "group", _("Lower-case letters, digits and hyphens; it starts and ends with a letter or digit.")
        )
    for field in (KUBERNETES, KUBELET, RUNTIME):
        if text := " ".join(values[field].split()):
            _check_range(field, text)
        values[field] = text
    if len(values["drivers"]) > MAX_DRIVERS:
        raise UnableToSaveContract(
            "drivers", _("A contract has at most %(limit)d drivers.") % {"limit": MAX_DRIVERS}
        )
    for driver, text in values["drivers"].items():
        if len(driver) > 63 or not _DRIVER_NAME.fullmatch(driver):
            raise UnableToSaveContract(
                "drivers", _("“%(name)s” is no name of a driver.") % {"name": driver[:63]}
            )
        _check_range("drivers", text, prefix=f"{driver}: ")
    return values


def _check_range(field: str, text: str, *, prefix: str = "") -> None:
    try:
        parse(text, named=field == RUNTIME)
    except InvalidRange as error:
        raise UnableToSaveContract(field, prefix + error.message) from error
