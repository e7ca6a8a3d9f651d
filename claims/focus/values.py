"""Single values as FOCUS wants them: ASCII, exact decimals, units, and what a product and its price are
called."""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from functools import lru_cache
from typing import Any

from claims.models import PriceRule
from claims.money.books import plain

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# More digits than any amount here has: nothing is rounded on the way.
EXACTLY = Context(prec=200)
_PER = re.compile(r"(\d*)(Ki|Mi|Gi|Ti|Pi|Ei|k|M|G|T|P|E)?", re.ASCII)
_BYTES = {"k": "KB"} | {prefix: f"{prefix}B" for prefix in "MGTPE"} | {f"{p}i": f"{p}iB" for p in "KMGTPE"}
_METERS = {"held": "Held device time", "unused": "Held but unused device time", "idle": "Idle device time"}
NOTHING = Decimal("0.0")


def ascii_text(text: str) -> str | None:
    """The text with what is not ASCII written as escapes; None for none."""
    if not text:
        return None
    return text if text.isascii() else text.encode("ascii", "backslashreplace").decode()


def json_text(values: dict[str, Any]) -> str | None:
    """An object of what has a value, in ASCII and in order of its keys; None for none."""
    told = {name: value for name, value in sorted(values.items()) if value not in ("", None)}
    return json.dumps(told, separators=(",", ":")) if told else None


def decimal(units: int, places: int) -> Decimal:
    """`units` × 10⁻ᵖˡᵃᶜᵉˢ, exactly."""
    return EXACTLY.scaleb(Decimal(units), -places)


def number(value: Decimal) -> str:
    """Without an exponent, with at least one and no needless places: "2.0", "0.125"."""
    told = f"{value:f}"
    if "." not in told:
        return f"{told}.0"
    told = told.rstrip("0")
    return f"{told}0" if told.endswith(".") else told


def second(us: int) -> datetime:
    """The whole second in which a time lies."""
    return _EPOCH + timedelta(seconds=us // 1_000_000)


def exact_time(us: int) -> str:
    """With microseconds, always six digits."""
    seconds, rest = divmod(us, 1_000_000)
    return f"{(_EPOCH + timedelta(seconds=seconds)).isoformat()[:19]}.{rest:06}Z"


def unit_of(unit: str, per: str) -> str:
    """What a price is per, as `UnitFormat` writes it: Device-Hours, GiB-Hours, 4 GiB-Hours, Unit-Hours."""
    if unit != PriceRule.Unit.CAPACITY:
        return "Device-Hours"
    found = _PER.fullmatch(per or "1")
    if found is None:
        return "Unit-Hours"
    count = f"{int(found[1])} " if found[1] and int(found[1]) != 1 else ""
    return f"{count}{_BYTES[found[2]] if found[2] else 'Unit'}-Hours"


@dataclass(frozen=True, kw_only=True)
class Sku:
    """What is sold, and at which price: the same in every month and for everybody."""

    id: str
    price_id: str
    meter: str
    unit: str
    details: str | None
    # What a person would call it.
    called: str


@lru_cache(maxsize=4_096)
def sku(
    *, device_class: str, product: str, profile: str, resource: str, use: str, unit: str, per: str
) -> Sku:
    """All that a book's list price can depend on tells one from another."""
    use = use or "held"
    parts = (use, device_class, product, resource, profile[:16])
    name = ascii_text("|".join(parts)) or use
    details = {
        "x_DeviceClass": device_class, "x_ExtendedResource": resource, "x_Per": per, "x_Product": product,
        "x_ProfileDigest": profile, "x_Use": use,
    }  # fmt: skip
    return Sku(
        id=name,
        price_id=f"{name}|{unit or 'device'}|{ascii_text(per) or ''}",
        meter=_METERS.get(use, "Device time"),
        unit=unit_of(unit, per),
        details=json_text(details),
        called=ascii_text(product or device_class or resource) or "Device",
    )


@lru_cache(maxsize=4_096)
def priced(
    called: str, meter: str, *, unit: str, list_micros: int, discount_micros: int, currency: str
) -> str:
    """What a charge is for and at which price, in a line."""
    listed = plain(Decimal(list_micros).scaleb(-6))
    told = f"{called}, {meter[0].lower()}{meter[1:]}: {listed} {currency} per {unit.removesuffix('s')}"
    off = (Decimal(discount_micros) / 10_000).normalize()
    return f"{told}, less {off:f} %" if discount_micros else told
