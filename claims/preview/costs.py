"""What an ask would cost if it were held for the whole time, with its arithmetic."""

from collections.abc import Sequence
from datetime import datetime

from claims.asks.values import Reading
from claims.catalogue.candidates import candidates_of_units, drawn_on
from claims.catalogue.kinds import Kinds, Sought
from claims.money.expected import Candidate, Cost, CostLine, expected
from claims.money.pricing import PriceList
from inventory.models import CountedUnits

__all__ = ["Cost", "CostLine", "costs_of", "costs_of_units"]


def costs_of(reading: Reading, prices: PriceList, *, now: datetime) -> list[Cost]:
    """For every kind of device that it may be (which it will be is the scheduler's choice): of what is asked
    for first, of each alternative, and of each further part. By the prices from `now` on."""
    spec, cluster = reading.spec, reading.cluster
    if spec is None or cluster is None:
        return []
    selector = reading.placement.node_selector if reading.placement else {}
    sought = Sought(cluster=cluster, spec=spec, node_selector=selector)
    found = []
    for number, choices in enumerate(Kinds.load([sought]).of(sought)):
        for place, wanted in enumerate(choices):
            role = "besides" if number else "instead" if place else ""
            kinds = drawn_on(wanted.candidates, cluster=cluster, prices=prices)
            found.append(_cost(reading, kinds, prices, count=wanted.count, now=now, role=role))
    return [cost for cost in found if cost is not None]


def costs_of_units(
    reading: Reading, rows: Sequence[CountedUnits], prices: PriceList, *, now: datetime
) -> list[Cost]:
    """The same of what a Device Plugin hands out."""
    if reading.count is None:
        return []
    cost = _cost(reading, candidates_of_units(rows), prices, count=reading.count, now=now, role="")
    return [] if cost is None else [cost]


def _cost(
    reading: Reading,
    candidates: Sequence[Candidate],
    prices: PriceList,
    *,
    count: int,
    now: datetime,
    role: str,
) -> Cost | None:
    if reading.duration is None or not candidates:
        return None
    project = reading.project.pk if reading.project else None
    return expected(
        candidates, prices, project=project, count=count, start=now, duration=reading.duration, role=role
    )
