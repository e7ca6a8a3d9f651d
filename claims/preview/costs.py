"""What an ask would cost if it were held for the whole time, with its arithmetic."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from claims.asks.options import Piece
from claims.asks.values import Reading
from claims.money.pricing import MICROSECOND, PriceList, plain
from inventory.models import DeviceProfile
from portal import money


@dataclass(frozen=True, kw_only=True)
class CostLine:
    """devices × price × hours of one product; `per_hour` None = no price."""

    product: str
    count: int
    hours: Fraction
    per_hour: Decimal | None
    currency: str
    amount: Fraction | None
    # "instead" for an alternative, "besides" for a further part; "" for what is asked for first.
    role: str = ""

    @property
    def price(self) -> str:
        """The exact price per device-hour."""
        return plain(self.per_hour)


def costs_of(
    reading: Reading, profiles: Sequence[DeviceProfile], prices: PriceList, *, now: datetime
) -> list[CostLine]:
    """One line per price that may apply: which product it will be is the scheduler's choice."""
    if reading.device_class is None:
        return []
    lines = cost_lines(_products(profiles), reading.device_class.name, reading, prices, now=now)
    for role, pieces in (("instead", reading.options.alternatives), ("besides", reading.options.parts)):
        for piece in pieces:
            lines += [
                replace(line, role=role)
                for line in cost_lines(
                    _products(piece.profiles), piece.wish.device_class, reading, prices, now=now, piece=piece
                )
            ]
    return lines


def _products(profiles: Sequence[DeviceProfile]) -> list[str]:
    return sorted({profile.product for profile in profiles})


def cost_lines(
    products: Sequence[str],
    device_class: str,
    reading: Reading,
    prices: PriceList,
    *,
    now: datetime,
    piece: Piece | None = None,
) -> list[CostLine]:
    book = prices.current(now)
    count = piece.count if piece else reading.count
    if count is None or reading.duration is None:
        return []
    hours = Fraction(reading.duration // MICROSECOND, money.MICROSECONDS_PER_HOUR)
    lines: dict[tuple[Decimal | None, str], CostLine] = {}
    for product in products:
        per_hour = book.price(device_class=device_class, product=product) if book else None
        key = (per_hour, "" if per_hour is None else product)
        lines.setdefault(
            key,
            CostLine(
                product=product or device_class,
                count=count,
                hours=hours,
                per_hour=per_hour,
                currency=book.currency if book else "",
                amount=None if per_hour is None else Fraction(per_hour) * hours * count,
            ),
        )
    return list(lines.values())
