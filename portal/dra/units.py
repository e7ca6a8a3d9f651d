"""Quantities as whole numbers of nano units: what search and ledgers of counters calculate with."""

from functools import lru_cache

from portal.dra.quantity import Quantity

NANO = 10**9


@lru_cache(maxsize=65536)
def quantity(value: str | int | float) -> Quantity:
    """A quantity as it stands in an object; raises InvalidQuantity."""
    return Quantity.parse(str(value))


@lru_cache(maxsize=65536)
def nanos(value: str | int | float) -> int:
    """Its exact value in units of 1e-9; raises InvalidQuantity."""
    return quantity(value).nanos
