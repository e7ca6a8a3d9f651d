"""From the ledger's intervals to charges: cut where the price, the owner, the cost centre, the use or the
month changes, so that each charge is a stretch of time at one rate. Pure but for what it is given to read.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from claims.history.curves import us
from claims.models import Allocation, Charge
from claims.money.books import HELD, UNUSED, Book, Kind, PriceList, Rate, share
from claims.money.months import Month
from claims.money.ownership import Owners

# What is read of the ledger.
COLUMNS = (
    *(
        "pk",
        "kind",
        "cluster_id",
        "namespace",
        "claim_name",
        "claim_uid",
        "epoch",
        "driver",
        "pool_name",
        "device_name",
    ),
    *("share_id", "request_name", "hardware_id", "device_class", "product", "profile_digest"),
    *("consumed_capacity", "capacity", "counters", "units", "replicas", "extended_resource"),
    *("started_at", "ended_at", "request_id", "project_id", "request__requester_id"),
)
# What a charge says: the same content is the same charge.
CONTENT = (
    *("kind", "source", "month", "started_us", "ended_us", "project_id", "cost_centre", "person_id"),
    *("cluster_id", "claim_uid", "epoch", "driver", "pool_name", "device_name", "hardware_id"),
    *("device_class", "product", "profile_digest", "resource", "use", "book_id", "rule", "currency"),
    *("unit", "per", "quantity", "list_micros", "discount_micros", "fixed", "origin_id", "note"),
)
Row = Mapping[str, Any]
# When something other than the desk's own Pod reserved the claim, by (cluster, claim uid, epoch).
Stays = Mapping[tuple[int, str, int], Sequence[tuple[datetime, datetime | None]]]


class Part(NamedTuple):
    """A stretch of an interval, for which one payer pays by one book."""

    start: datetime
    end: datetime
    project_id: int | None
    use: str
    book: Book | None


@dataclass(kw_only=True)
class Rater:
    """Rates intervals of the ledger for one month at a time."""

    prices: PriceList
    zone: tzinfo
    owners: Owners
    stays: Stays = field(default_factory=dict)
    _rates: dict[Any, Rate | None] = field(default_factory=dict)

    def charges(self, row: Row, *, month: Month) -> Iterator[Charge]:
        """What a row of the ledger costs in a month, in order of time. What still runs is taken to run to
        the month's end."""
        first, last = month.bounds(self.zone)
        start, end = max(row["started_at"], first), min(row["ended_at"] or last, last)
        if start >= end:
            return
        source = source_of(row)
        for part in self.parts(row, start, end):
            charge = self._charge(row, part)
            charge.source, charge.month = source, str(month)
            charge.content = content_of(charge)
            yield charge

    def parts(self, row: Row, start: datetime, end: datetime) -> Iterator["Part"]:
        """[start, end) of a row, cut wherever its price, payer, cost centre or use can change."""
        told = self._stays(row) if row["kind"] == Allocation.Kind.CLAIM else ()
        for since, until, project in self._owned(row, start, end):
            for lower, upper in pairwise(self._cuts(row, since, until, project)):
                book, use = self.prices.current(lower), HELD
                if book is not None and book.tells_unused and row["kind"] == Allocation.Kind.CLAIM:
                    used = any(joined <= lower and (left is None or lower < left) for joined, left in told)
                    use = HELD if used else UNUSED
                yield Part(lower, upper, project, use, book)

    def _owned(
        self, row: Row, start: datetime, end: datetime
    ) -> Iterator[tuple[datetime, datetime, int | None]]:
        if row["request_id"] is not None:
            return iter([(start, end, row["project_id"])])
        if row["project_id"] is None and self.owners.is_drilled(
            cluster_id=row["cluster_id"], namespace=row["namespace"], claim_uid=row["claim_uid"]
        ):
            return iter([(start, end, None)])
        return self.owners.parts(
            cluster_id=row["cluster_id"],
            namespace=row["namespace"],
            project_id=row["project_id"],
            start=start,
            end=end,
        )

    def _cuts(self, row: Row, start: datetime, end: datetime, project: int | None) -> list[datetime]:
        cuts = {book.valid_from for book in self.prices.books}
        if project is not None:
            cuts |= self.prices.centres.cuts(start, end, project)
        if any(book.tells_unused for book in self.prices.books):
            for joined, left in self._stays(row):
                cuts |= {joined, left or end}
        return [start, *sorted(cut for cut in cuts if start < cut < end), end]

    def _stays(self, row: Row) -> Sequence[tuple[datetime, datetime | None]]:
        return self.stays.get((row["cluster_id"], row["claim_uid"], row["epoch"]), ())

    def _charge(self, row: Row, part: "Part") -> Charge:
        start, end, project, use, book = part
        centre = self.prices.centres.of(project, start) if project is not None else ""
        rate = self._rate(book, row, project, centre, use)
        return Charge(
            kind=Charge.Kind.USAGE,
            started_us=us(start),
            ended_us=us(end),
            project_id=project,
            cost_centre=centre,
            person_id=row["request__requester_id"],
            cluster_id=row["cluster_id"],
            claim_uid=row["claim_uid"],
            epoch=row["epoch"],
            driver=row["driver"],
            pool_name=row["pool_name"],
            device_name=row["device_name"],
            hardware_id=row["hardware_id"],
            device_class=row["device_class"],
            product=row["product"],
            profile_digest=row["profile_digest"],
            resource=row["extended_resource"],
            use=use,
            **rated(book, rate, otherwise=share_of(row)),
        )

    def _rate(self, book: Book | None, row: Row, project: int | None, centre: str, use: str) -> Rate | None:
        if book is None:
            return None
        amounts = json.dumps(
            [row["consumed_capacity"], row["capacity"] if row["share_id"] or book.detailed else 0,
             row["counters"] if book.detailed else 0], sort_keys=True,
        )  # fmt: skip
        names = ("device_class", "product", "profile_digest", "extended_resource", "units", "replicas")
        key = (book.valid_from, project, centre, use, bool(row["share_id"]), amounts, *map(row.get, names))
        if key not in self._rates:
            self._rates[key] = book.rate(
                Kind(
                    project_id=project,
                    cost_centre=centre,
                    device_class=row["device_class"],
                    product=row["product"],
                    profile=row["profile_digest"],
                    resource=row["extended_resource"],
                    use=use,
                    share=share_of(row),
                    consumed=row["consumed_capacity"],
                    capacity=row["capacity"],
                    counters=row["counters"],
                )
            )
        return self._rates[key]


def rated(book: Book | None, rate: Rate | None, *, otherwise: Fraction) -> dict[str, Any]:
    """What a charge keeps of its rate: integers, so that nothing is ever rounded before a line."""
    if book is None or rate is None:
        return {"book_id": book.pk if book else None, "quantity": otherwise}
    return {
        "book_id": book.pk,
        "rule": rate.rule,
        "currency": book.currency,
        "unit": rate.unit,
        "per": rate.per,
        "quantity": rate.quantity,
        "list_micros": micros(rate.list_price),
        # A percentage has four decimals at most: a whole number of millionths.
        "discount_micros": int(rate.percent * 10_000),
    }


def micros(price: Decimal) -> int:
    """A price with six decimals at most, in millionths."""
    return int(price.scaleb(6))


def share_of(row: Row) -> Fraction:
    """Which part of a device, or how many, an interval holds."""
    if row["share_id"]:
        return share(row["consumed_capacity"], row["capacity"])
    return Fraction(row["units"], row["replicas"])


def source_of(row: Row) -> str:
    """A digest of the interval's natural key."""
    key = [
        row[name]
        for name in (
            *("cluster_id", "claim_uid", "epoch", "driver", "pool_name", "device_name", "share_id"),
            "request_name",
        )
    ]
    return hashlib.sha256(json.dumps(key).encode()).hexdigest()


def content_of(charge: Charge) -> str:
    """A digest of everything that a charge says."""
    said = [getattr(charge, name) for name in CONTENT]
    return hashlib.sha256(json.dumps(said, default=str).encode()).hexdigest()
