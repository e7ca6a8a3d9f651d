"""Putting a fleet into an empty store, by the words of the command line."""

import argparse
from typing import TYPE_CHECKING

from .build import Object
from .sample import infrastructure
from .workloads import workloads

if TYPE_CHECKING:
    from portal.demo.store import Store


class UnknownFleet(ValueError):
    """What stands behind ``--fleet`` is not understood; the message says what would be."""


def plant(store: "Store", wish: str) -> int:
    """Create the fleet that ``wish`` names and return the number of objects.

    ``none``: nothing. ``sample``: the sample institute. ``nodes=N,devices=M,pods=P``: a generated fleet (see
    :mod:`portal.demo.load`). Meant for a store that holds none of these objects yet; raises UnknownFleet.
    """
    if wish == "none":
        return 0
    if wish == "sample":
        machines, wishes = infrastructure(), workloads()
        store.load(_missing(store, machines))
        # People's objects go the way of people's objects, so that defaults, quotas and checks apply.
        for obj in _missing(store, wishes):
            store.create(_plural(obj), obj)
        return len(machines) + len(wishes)
    from portal.demo.load import FleetSize, generate

    return store.load(generate(FleetSize.parse(wish)))


def check_wish(wish: str) -> str:
    """Return ``wish`` if :func:`plant` understands it: an argparse type."""
    if wish not in ("none", "sample"):
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
        return store.find(_plural(obj), metadata["name"], namespace=metadata.get("namespace", "")) is None

    return [obj for obj in objects if is_missing(obj)]


def _plural(obj: Object) -> str:
    from portal.demo.resources import BY_KIND

    return BY_KIND[obj["apiVersion"], obj["kind"]].plural
