"""What a CEL expression says of the fleet as a whole: which kinds of device it admits, and which single ones.

Kinds are asked first, with the attributes that identify single pieces left open. Most answers do not hang on
them: ``device.driver == "x" && device.attributes["x"].uuid == "y"`` is false for kinds of other drivers.
Only devices of kinds that leave the answer open are asked singly, those that are the same to the expression
together.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from django.utils.translation import ngettext

from inventory.coverage import Coverage
from inventory.filters import MAX_EXPRESSION
from inventory.identity import is_identity
from inventory.mirror import matching
from inventory.mirror.writer import features_of
from inventory.models import Cluster, DeviceProfile
from inventory.pieces import alike
from portal.dra.cel import (
    EVERYTHING,
    CelCompileError,
    CelEvaluationError,
    DeviceView,
    Selector,
    compile_selector,
)
from portal.dra.cel.device import MAX_VALUE_LENGTH
from portal.dra.features import Features

# Answers are kept while people narrow them down with facets.
MAX_CACHED = 16


@dataclass(frozen=True)
class Meaning:
    """`problem` says why the expression cannot be read (at `line` and `column`, from 1; 0 = the whole);
    `evaluation_error` is the first error that it gives for a device, which would make the scheduler give up
    on a claim."""

    problem: str = ""
    line: int = 0
    column: int = 0
    evaluation_error: str = ""
    # Profiles of which every device matches, by cluster.
    kinds: Mapping[int, frozenset[int]] = field(default_factory=dict)
    # Whether devices of one kind may differ, and which of those match.
    singly: bool = False
    devices: frozenset[int] = frozenset()


def meaning_of(expression: str, *, coverage: Mapping[int, Coverage]) -> Meaning:
    """What the expression says on these clusters, each with its own features; those that cannot read it match
    nothing. Two queries, one more for each group of clusters of which single devices have to be asked."""
    if len(expression) > MAX_EXPRESSION:
        words = ngettext(
            "An expression in a search has at most %(n)d character.",
            "An expression in a search has at most %(n)d characters.",
            MAX_EXPRESSION,
        )
        return Meaning(problem=words % {"n": MAX_EXPRESSION})
    clusters = [known.cluster for known in coverage.values()]
    key = (expression, tuple((c.pk, c.fleet_version, c.server_version) for c in clusters))
    with _lock:
        if (known := _cached.get(key)) is not None:
            _cached.move_to_end(key)
            return known
    found = _mean(expression, clusters)
    if not found.problem:
        with _lock:
            _cached[key] = found
            while len(_cached) > MAX_CACHED:
                _cached.popitem(last=False)
    return found


_lock = threading.Lock()
_cached: "OrderedDict[Hashable, Meaning]" = OrderedDict()


def _mean(expression: str, clusters: Iterable[Cluster]) -> Meaning:
    groups: dict[Features, list[Cluster]] = {}
    for cluster in clusters:
        features = features_of(cluster.server_version, served=cluster.served)
        groups.setdefault(features, []).append(cluster)
    refused: list[CelCompileError] = []
    answers: list[_Answers] = []
    profiles = list(DeviceProfile.objects.all())
    for features, same in groups.items():
        try:
            selector = compile_selector(expression, features=features.gates, enforce_estimate=True)
        except CelCompileError as error:
            refused.append(error)
            continue
        answers.append(_Answers.of(selector, profiles, same))
    if refused and not answers:
        return Meaning(problem=refused[0].message, line=refused[0].line, column=refused[0].column)
    return Meaning(
        evaluation_error=next((a.error for a in answers if a.error), ""),
        kinds={cluster.pk: frozenset(a.kinds) for a in answers for cluster in a.clusters},
        singly=any(a.singly for a in answers),
        devices=frozenset(pk for a in answers for pk in a.devices),
    )


class _Answers:
    """What one selector answers for the devices of clusters that are alike."""

    def __init__(self, selector: Selector, clusters: list[Cluster]) -> None:
        self.selector = selector
        self.clusters = clusters
        self.kinds: set[int] = set()
        self.devices: set[int] = set()
        self.singly = False
        self.error = ""

    @classmethod
    def of(cls, selector: Selector, profiles: Iterable[DeviceProfile], clusters: list[Cluster]) -> "_Answers":
        found = cls(selector, clusters)
        reads_identity = matching.reads_identity(selector)
        open_ones: dict[int, DeviceProfile] = {}
        for profile in profiles:
            view = matching.view(profile)
            if not reads_identity:
                if found.ask(view):
                    found.kinds.add(profile.pk)
                continue
            leave_open(view)
            try:
                if selector.evaluate(view):
                    found.kinds.add(profile.pk)
            except CelEvaluationError:
                open_ones[profile.pk] = profile
        if open_ones:
            found.ask_singly(open_ones)
        return found

    def ask(self, view: DeviceView) -> bool:
        try:
            return self.selector.evaluate(view)
        except CelEvaluationError as error:
            self.error = self.error or str(error)[:1000]
            return False

    def ask_singly(self, profiles: Mapping[int, DeviceProfile]) -> None:
        self.singly = True
        for pk, groups in alike(self.selector, clusters=self.clusters, profiles=profiles).items():
            piece = Piece(profiles[pk])
            for identity, devices in groups:
                if self.ask(piece.view(identity)):
                    self.devices.update(devices)


class Piece:
    """A kind of device as CEL sees it, lent to one of its pieces after the other: what they have in common is
    read once."""

    def __init__(self, profile: DeviceProfile) -> None:
        self.profile = profile
        self.common = matching.view(profile)
        self.attributes = self.common.attributes

    def view(self, identity: Mapping[str, Any]) -> DeviceView:
        """The piece with this identity; good until the next one is asked for."""
        added: dict[str, dict[str, Any]] = {}
        for qualified, value in identity.items():
            text = value.get("string")
            if type(text) is not str or len(text) > MAX_VALUE_LENGTH or len(value) > 1:
                # Rare: numbers, lists, what is larger than the API admits.
                return matching.view(self.profile, identity=identity)
            domain, _slash, name = qualified.rpartition("/")
            added.setdefault(domain or self.profile.driver, {})[name] = text
        common = self.attributes
        self.common.attributes = {**common, **{d: {**common.get(d, {}), **more} for d, more in added.items()}}
        return self.common


def reads_of(expression: str, *, features: Features) -> list[str] | None:
    """What of a device an expression reads, as people write it; None for one that may read everything, or
    that cannot be read."""
    try:
        reads = compile_selector(expression, features=features.gates).reads
    except CelCompileError:
        return None
    if reads == EVERYTHING:
        return None
    said = []
    for read in sorted(reads):
        match read:
            case (("attribute" | "capacity") as what, domain, name):
                said.append(f"{domain}/{name}" if what == "attribute" else f"{domain}/{name} (capacity)")
            case (("attribute?" | "capacity?"), domain):
                said.append(f"{domain}/*")
            case (name,):
                said.append(name)
    return said


def place_of(text: str, line: int, column: int) -> str:
    """The line at fault with a mark under the column, as compilers show it; "" when there is no place."""
    lines = text.split("\n")
    if not 1 <= line <= len(lines) or column < 1:
        return ""
    shown = lines[line - 1].replace("\t", " ")
    # Long lines are cut around the place.
    start = max(column - 60, 0)
    return f"{shown[start : start + 100]}\n{' ' * (column - 1 - start)}^"


# --- what is left open --------------------------------------------------------------------------------


def _open(*_arguments: object) -> NoReturn:
    raise CelEvaluationError("left open")


class _Open(dict[str, Any]):
    """A map of which nothing but its subclass's lookup has an answer: not what it has, nor how much."""

    __len__ = __iter__ = __bool__ = __eq__ = _open
    get = keys = values = items = copy = _open
    __hash__ = None

    def __contains__(self, key: object) -> bool:
        return _open(key)


class _Names(_Open):
    """The attributes of one domain, of which those that identify the single piece are not known."""

    def __init__(self, domain: str, known: Mapping[str, Any]) -> None:
        super().__init__(known)
        self.domain = domain

    def __getitem__(self, name: str) -> Any:
        return _open() if is_identity(name, driver=self.domain) else super().__getitem__(name)


class _Domains(_Open):
    """Attributes by domain. All that an expression can do with one is ``device.attributes["domain"].name``; a
    domain as a value of its own is left open."""

    def __missing__(self, domain: str) -> _Names:
        return _Names(domain, {})

    def __contains__(self, domain: object) -> bool:
        # What the kind has of it, every piece has.
        return dict.__contains__(self, domain) or _open()


def leave_open(view: DeviceView) -> None:
    """Takes from the view of a kind what it does not know of its single devices."""
    view.attributes = _Domains({d: _Names(d, names) for d, names in view.attributes.items()})
