"""A month of money for tests of pages: charges, a statement in review, a dispute, an adjustment, a budget."""

import hashlib
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any

from claims.history.curves import us
from claims.models import Charge, PriceBook, Statement
from claims.money.adjusting import propose
from claims.money.budgets import set_budget
from claims.money.centres import assign
from claims.money.disputing import open_dispute
from claims.money.months import Month
from claims.money.rating import content_of
from tests.cast import Cast

JANUARY = Month(2026, 1)


def make_money(cast: Cast, book: PriceBook, *, size: int = 1) -> dict[str, Any]:
    """What pages and calls name: "charge", "dispute" and "adjustment"."""
    start, end = JANUARY.bounds(UTC)
    charges = [_charge(cast, book, start + number * timedelta(hours=9), number) for number in range(6 * size)]
    Statement.objects.create(
        project=cast.project, month=str(JANUARY), zone="UTC", starts_at=start, ends_at=end,
        state=Statement.State.REVIEW, reviewed_at=end, reviewed_by=cast.finance,
    )  # fmt: skip
    disputes = [
        open_dispute(charge=charge, text="We never had this device.", actor=cast.lead, now=end)
        for charge in charges[-size:]
    ]
    for _number in range(size):
        adjustment = propose(
            project=cast.project, month=JANUARY, minor=-1250, currency="EUR", reason="A node was broken.",
            actor=cast.lead, now=end,
        )  # fmt: skip
        moment = datetime(2026, 2, 1, tzinfo=UTC) + timedelta(days=30 * _number)
        assign(project=cast.project, code=f"OC-{_number}", valid_from=moment, actor=cast.finance, now=end)
    set_budget(
        project=cast.project, currency="EUR", minor=50_000, thresholds=[80, 100], blocks=False,
        actor=cast.lead, now=end,
    )  # fmt: skip
    return {"charge": charges[0].pk, "dispute": disputes[0].pk, "adjustment": adjustment.pk}


def source(number: int) -> str:
    """What a charge of the month is for: a digest, as of an interval of the ledger."""
    return hashlib.sha256(f"interval {number}".encode()).hexdigest()


def _charge(cast: Cast, book: PriceBook, at: datetime, number: int) -> Charge:
    charge = Charge(
        kind=Charge.Kind.USAGE,
        source=source(number),
        month=str(JANUARY),
        started_us=us(at),
        ended_us=us(at + timedelta(hours=7, minutes=20)),
        project=cast.project,
        cost_centre="OC-7",
        device_name=f"gpu-{number}",
        device_class="gpu.nvidia.com",
        product="NVIDIA H100 80GB HBM3" if number % 2 else "NVIDIA L4",
        book=book,
        currency="EUR",
        quantity=Fraction(1, 1 + number % 3),  # type: ignore[misc] # the field takes fractions
        list_micros=2_500_000,
        discount_micros=125_000,
    )
    charge.content = content_of(charge)
    charge.save()
    return charge
