"""What only who keeps requests knows of a cluster's objects: which of them belong to something that the desk
does not account for, and which differ from what it sent. The inventory only asks."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from datetime import datetime

from inventory.findings.facts import Facts
from inventory.findings.model import Found
from inventory.models import Cluster

Provider = Callable[[Cluster, datetime], Iterable[Found]]
STRAY, CHANGED = "stray-object", "object-changed"
_providers: dict[str, list[Provider]] = defaultdict(list)


def register(provider: Provider, kind: str = STRAY) -> None:
    """Ask `provider` at every evaluation of the rule `kind`; once, however often it is said."""
    if provider not in _providers[kind]:
        _providers[kind].append(provider)


def strays(facts: Facts) -> Iterable[Found]:
    """Objects of nothing that the desk accounts for."""
    return _asked(STRAY, facts)


def changed(facts: Facts) -> Iterable[Found]:
    """Objects of the desk that others changed."""
    return _asked(CHANGED, facts)


def _asked(kind: str, facts: Facts) -> Iterable[Found]:
    for provider in _providers[kind]:
        yield from provider(facts.cluster, facts.now)
