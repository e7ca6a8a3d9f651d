"""Putting a fleet into an empty store, by the words of the command line."""

import argparse
from collections.abc import Callable
from typing import TYPE_CHECKING

from portal.demo.catalog import DEFAULT_VERSION

from . import edge
from .build import Object
from .sample import infrastructure, wishes

if TYPE_CHECKING:
    from portal.demo.store import Store


# What administrators and drivers bring, and what people ask for.
_SITES: dict[str, tuple[Callable[[], list[Object]], Callable[[], list[Object]]]] = {
    "sample": (infrastructure, wishes),
    "edge": (edge.infrastructure, edge.workloads),
}


class UnknownFleet(ValueError):
    """What stands behind ``--fleet`` is not understood; the message says what would be."""


def plant(store: "Store", wish: str) -> int:
    """Create the fleet that ``wish`` names and return the number of objects.

    ``none``: nothing. ``sample``: the sample institute. ``edge``: a small site of another organisation.
    ``nodes=N,devices=M,pods=P``: a generated fleet (see :mod:`portal.demo.load`). Meant for a store that
    holds none of these objects yet; raises UnknownFleet.
    """
    if wish == "none":
        return 0
    if wish in _SITES:
        machines, asked = (part() for part in _SITES[wish])
        store.load(_missing(store, machines))
        # People's objects go the way of people's objects, so that defaults, quotas and checks apply.
        for obj in _missing(store, asked):
            store.create(_key(obj), obj)
        return len(machines) + len(asked)
    from portal.demo.load import FleetSize, generate

    return store.load(generate(FleetSize.parse(wish)))


def preferred_version(wish: str) -> str:
    """The Kubernetes version that a fleet's site runs."""
    return edge.KUBERNETES if wish == "edge" else DEFAULT_VERSION


def check_wish(wish: str) -> str:
    """Return ``wish`` if :func:`plant` understands it: an argparse type."""
    if wish != "none" and wish not in _SITES:
        from portal.demo.load import FleetSize

        try:
            FleetSize.parse(wish)
        except UnknownFleet as error:
            raise argparse.ArgumentTypeError(str(error)) from None
    return wish


def _missing(store: "Store", objects: list[Object]) -> list[Object]:
    """What an interrupted planting has not brought in yet."""

    def is_missing(obj: Object) -> bool:
        metadata = obj["metadata"]
        return store.find(_key(obj), metadata["name"], namespace=metadata.get("namespace", "")) is None

    return [obj for obj in objects if is_missing(obj)]


def _key(obj: Object) -> str:
    from portal.demo.resources import BY_KIND

    return BY_KIND[obj["apiVersion"], obj["kind"]].key
