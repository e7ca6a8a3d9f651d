"""What a booking would cost if the devices were held for the whole time."""

from collections.abc import Sequence
from datetime import datetime
from fractions import Fraction

from claims.bookings.reading import Wanted
from claims.money.pricing import MICROSECOND, PriceList
from claims.preview.panel import CostLine
from portal import money


def cost_of(wanted: Wanted, *, prices: PriceList, now: datetime) -> Sequence[CostLine]:
    """devices × price × hours, one line per price that may apply: which product it will be is the
    scheduler's choice. By the prices that hold at the start, as far as they are known `now`."""
    seen = wanted.reading
    if seen.device_class is None or seen.count is None or seen.duration is None:
        return []
    book = prices.current(max(wanted.start or now, now))
    hours = Fraction(seen.duration // MICROSECOND, money.MICROSECONDS_PER_HOUR)
    lines: dict[object, CostLine] = {}
    for product in sorted({profile.product for profile in seen.profiles}):
        per_hour = book.price(device_class=seen.device_class.name, product=product) if book else None
        lines.setdefault(
            per_hour,
            CostLine(
                product=product or seen.device_class.name,
                count=seen.count,
                hours=hours,
                per_hour=per_hour,
                currency=book.currency if book else "",
                amount=None if per_hour is None else Fraction(per_hour) * hours * seen.count,
            ),
        )
    return list(lines.values())
