"""Expressions made safe: an attribute is only read where there is one, so that no device stops a claim."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from inventory.class_effect.judging import Judge
from inventory.models import Cluster, DeviceProfile
from portal.dra.cel import CelCompileError, Selector, compile_selector

MAX_LENGTH = 10 * 1024


@dataclass(frozen=True)
class Guarded:
    """The expression with guards before it, and for how many devices it failed without them. It matches what
    it matched, and fails for none."""

    expression: str
    failing: int
    guards: tuple[str, ...]


def guarded(cluster: Cluster, expression: str) -> Guarded | None:
    """A safe form of an expression that fails for some device of the cluster; None where it fails for none,
    or where no guard helps (it reads a value as what it is not)."""
    judge = Judge(cluster)
    said = judge.of([expression])
    failing = sum(said.troubles.values())
    if said.problem or not failing:
        return None
    try:
        selector = compile_selector(expression, features=judge.features.gates)
    except CelCompileError:
        return None
    for strict in (False, True):
        found = dict.fromkeys(_guards(selector, judge.profiles, strict=strict))
        guards = tuple(guard for guard in found if guard not in expression)
        safe = " && ".join((*guards, _whole(expression)))
        if not guards or len(safe.encode()) > MAX_LENGTH:
            continue
        again = judge.of([safe])
        if not (again.problem or again.troubles or judge.without(said, again)):
            return Guarded(expression=safe, failing=failing, guards=guards)
    return None


def _guards(selector: Selector, profiles: Mapping[int, DeviceProfile], *, strict: bool) -> Iterator[str]:
    reads = selector.reads
    for read in sorted(reads) if isinstance(reads, frozenset) else ():
        match read:
            case (("attribute" | "capacity") as what, domain, name):
                have = {pk for pk, kind in profiles.items() if f"{domain}/{name}" in _names(kind, what)}
                if len(have) < len(profiles):
                    yield _guard(what, domain, name, set() if strict else have, profiles)


def _guard(what: str, domain: str, name: str, have: set[int], profiles: Mapping[int, DeviceProfile]) -> str:
    """The plainest that seems enough: the driver, else anything of its domain, else the name itself. What
    identifies single pieces is of no kind, so that the plain ones may turn out not to be enough."""
    of_driver = {pk for pk, kind in profiles.items() if kind.driver == domain}
    if of_driver and of_driver == have:
        return f'device.driver == "{domain}"'
    values = "attributes" if what == "attribute" else "capacity"
    of_domain = {
        pk for pk, kind in profiles.items() if any(n.startswith(f"{domain}/") for n in _names(kind, what))
    }
    if of_domain and of_domain == have:
        return f'"{domain}" in device.{values}'
    return f'has(device.{values}["{domain}"].{name})'


def _names(kind: DeviceProfile, what: str) -> Mapping[str, object]:
    names: Mapping[str, object] = kind.attributes if what == "attribute" else kind.capacity
    return names


def _whole(expression: str) -> str:
    """The expression as one term of a conjunction."""
    return f"({expression})" if re.search(r"\|\||\?|=>", expression) else expression
