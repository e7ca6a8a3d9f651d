"""What an ask would cost if it were held for the whole time, with its arithmetic."""

from collections.abc import Sequence
from datetime import datetime

from claims.asks.values import Reading
from claims.catalogue.candidates import candidates_of, candidates_of_units, drawn_on
from claims.money.expected import Candidate, Cost, CostLine, expected
from claims.money.pricing import PriceList
from inventory.models import CountedUnits, DeviceProfile

__all__ = ["Cost", "CostLine", "costs_of", "costs_of_units"]


def costs_of(
    reading: Reading, profiles: Sequence[DeviceProfile], prices: PriceList, *, now: datetime
) -> list[Cost]:
    """For every kind of device that it may be (which it will be is the scheduler's choice): of what is asked
    for first, of each alternative, and of each further part. By the prices from `now` on."""
    if reading.device_class is None or reading.count is None:
        return []
    kinds = _candidates(reading, profiles, reading.device_class.name, prices, share=True)
    found = [_cost(reading, kinds, prices, count=reading.count, now=now, role="")]
    for role, pieces in (("instead", reading.options.alternatives), ("besides", reading.options.parts)):
        for piece in pieces:
            kinds = _candidates(reading, piece.profiles, piece.wish.device_class, prices)
            found.append(_cost(reading, kinds, prices, count=piece.count, now=now, role=role))
    return [cost for cost in found if cost is not None]


def costs_of_units(
    reading: Reading, rows: Sequence[CountedUnits], prices: PriceList, *, now: datetime
) -> list[Cost]:
    """The same of what a Device Plugin hands out."""
    if reading.count is None:
        return []
    cost = _cost(reading, candidates_of_units(rows), prices, count=reading.count, now=now, role="")
    return [] if cost is None else [cost]


def _candidates(
    reading: Reading,
    profiles: Sequence[DeviceProfile],
    device_class: str,
    prices: PriceList,
    *,
    share: bool = False,
) -> Sequence[Candidate]:
    assert reading.cluster is not None  # a class is one of a cluster
    requested = reading.options.share if share else {}
    found = candidates_of(profiles, device_class=device_class, cluster=reading.cluster, requested=requested)
    return drawn_on(found, cluster=reading.cluster, prices=prices)


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
