"""Objects that say they belong to something which the desk does not account for. Who keeps requests knows
which; the inventory only asks."""

from collections.abc import Callable, Iterable
from datetime import datetime

from inventory.findings.facts import Facts
from inventory.findings.model import Found
from inventory.models import Cluster

Provider = Callable[[Cluster, datetime], Iterable[Found]]
_providers: list[Provider] = []


def register(provider: Provider) -> None:
    """Ask `provider` at every evaluation; once, however often it is said."""
    if provider not in _providers:
        _providers.append(provider)


def strays(facts: Facts) -> Iterable[Found]:
    """What those who were registered find on the cluster."""
    for provider in _providers:
        yield from provider(facts.cluster, facts.now)
