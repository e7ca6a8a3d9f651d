"""Adding price books. A book holds from its date until the next one; it explains what was rated by it."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal, InvalidOperation

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from claims.models import Price, PriceBook, PriceDiscount, PriceRule, Statement
from claims.money.price_terms import Terms
from claims.money.shutting import write_alone
from portal import money
from portal.accounts import audit
from portal.accounts.models import User

COLUMNS = ("device_class", "product", "per_hour")


class UnableToAddBook(Exception):
    """The book cannot be added; `message` says why, with the line where it is one."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def add_book(
    *,
    name: str,
    currency: str,
    valid_from: datetime,
    rows: Sequence[Mapping[str, str | None]],
    now: datetime,
    actor: User | None = None,
) -> PriceBook:
    """Add a book with its prices, or nothing at all. `rows` have COLUMNS; an empty class or product means
    any; it begins no earlier than the last closed month ends. Raises UnableToAddBook."""
    try:
        money.demand_currency(currency)
    except money.InvalidCurrency as error:
        raise UnableToAddBook(str(error)) from error
    if not rows:
        raise UnableToAddBook(_("A price book needs at least one price."))
    prices = [_price(row, number) for number, row in enumerate(rows, start=1)]
    targets = [(price.device_class, price.product) for price in prices]
    if twice := next((target for target in targets if targets.count(target) > 1), None):
        raise UnableToAddBook(_("Two prices are for the same: %(target)s.") % {"target": twice})
    try:
        with transaction.atomic():
            _check_nothing_is_closed(valid_from)
            book = PriceBook.objects.create(name=name[:80], currency=currency, valid_from=valid_from)
            for price in prices:
                price.book = book
            Price.objects.bulk_create(prices)
            audit.record(
                now=now,
                actor=actor,
                action="pricebook.add",
                target=book,
                after={"currency": currency, "valid_from": valid_from.isoformat(), "prices": len(prices)},
            )
    except IntegrityError as error:
        raise UnableToAddBook(_("Another book begins at that very moment.")) from error
    return book


def publish(
    *,
    terms: Terms,
    valid_from: datetime,
    now: datetime,
    actor: User | None,
    source_ip: str | None = None,
) -> PriceBook:
    """Put a book into force from `valid_from` on, for good. What is closed was rated by other books, so it
    begins no earlier than the last closed month ends. Raises UnableToAddBook."""
    try:
        with transaction.atomic():
            _check_nothing_is_closed(valid_from)
            book = PriceBook.objects.create(
                name=terms.name,
                currency=terms.currency,
                note=terms.note,
                valid_from=valid_from,
                published_at=now,
                published_by=actor,
            )
            Price.objects.bulk_create(
                Price(book=book, device_class=device_class, product=product, per_hour=price)
                for (device_class, product), price in terms.prices.items()
            )
            PriceRule.objects.bulk_create(
                PriceRule(book=book, position=position, **vars(rule))
                for position, rule in enumerate(terms.rules)
            )
            PriceDiscount.objects.bulk_create(
                PriceDiscount(book=book, position=position, **vars(discount))
                for position, discount in enumerate(terms.discounts)
            )
            audit.record(
                now=now,
                actor=actor,
                action="pricebook.publish",
                target=book,
                after={
                    "currency": terms.currency,
                    "valid_from": valid_from.isoformat(),
                    "prices": len(terms.prices),
                    "rules": len(terms.rules),
                    "discounts": len(terms.discounts),
                    "note": terms.note,
                },
                source_ip=source_ip,
            )
    except IntegrityError as error:
        raise UnableToAddBook(_("Another book begins at that very moment.")) from error
    return book


def _check_nothing_is_closed(valid_from: datetime) -> None:
    """Raises UnableToAddBook where what is closed would have been rated by the book. Nobody closes anything
    until the transaction ends."""
    write_alone()
    closed = Statement.objects.filter(state=Statement.State.CLOSED).order_by("-ends_at").first()
    if closed is not None and valid_from < closed.ends_at:
        raise UnableToAddBook(
            _("%(month)s is closed: new prices hold from its end on, at the earliest.")
            % {"month": closed.month}
        )


def _price(row: Mapping[str, str | None], number: int) -> Price:
    typed = (row.get("per_hour") or "").strip()
    try:
        per_hour = Decimal(typed)
    except InvalidOperation:
        per_hour = Decimal("NaN")
    # Six decimals are kept, fifteen digits in all: more would be rounded away silently.
    if not per_hour.is_finite() or not 0 <= per_hour < 10**9 or per_hour != round(per_hour, 6):
        raise UnableToAddBook(
            _("Line %(number)s: “%(typed)s” is not a price (a number of at least 0, six decimals at most).")
            % {"number": number, "typed": typed[:40]}
        )
    device_class, product = ((row.get(name) or "").strip() for name in ("device_class", "product"))
    if len(device_class) > 253 or len(product) > 128:
        raise UnableToAddBook(_("Line %(number)s: the name is too long.") % {"number": number})
    return Price(device_class=device_class, product=product, per_hour=per_hour)
