"""What a booking would cost if the devices were held for the whole time."""

from collections.abc import Sequence
from datetime import datetime

from claims.bookings.reading import Wanted
from claims.money.pricing import PriceList
from claims.preview.costs import Cost, costs_of


def cost_of(wanted: Wanted, *, prices: PriceList, now: datetime) -> Sequence[Cost]:
    """For every kind of device that it may be: which it will be is the scheduler's choice. By the prices that
    hold from the start on, as far as they are known `now`."""
    return costs_of(wanted.reading, prices, now=max(wanted.start or now, now))
