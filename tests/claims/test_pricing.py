"""Prices in time, exact amounts, and lines that add up."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from claims.money.pricing import Book, PriceList, Usage, rate, share, statement

T0 = datetime(2026, 3, 29, tzinfo=UTC)
NOW = T0 + timedelta(days=400)


def hours(number: float) -> timedelta:
    return timedelta(hours=number)


def book(start: datetime, currency: str = "EUR", **prices: str) -> Book:
    keys = {"any": ("", ""), "h100": ("", "H100"), "gpu": ("gpu", ""), "both": ("gpu", "H100")}
    return Book(
        name=f"from {start:%Y-%m-%d}",
        currency=currency,
        valid_from=start,
        prices={keys[name]: Decimal(price) for name, price in prices.items()},
    )


def usage(start: float = 0, end: float | None = 1, **more: object) -> Usage:
    values: dict[str, object] = {
        "project_id": 1,
        "device_class": "gpu",
        "product": "H100",
        "start": T0 + hours(start),
        "end": None if end is None else T0 + hours(end),
    }
    return Usage(**(values | more))  # type: ignore[arg-type]  # a table of values


def test_the_most_specific_price_wins() -> None:
    prices = book(T0, any="1", gpu="2", h100="3", both="4")
    assert prices.price(device_class="gpu", product="H100") == 4
    assert prices.price(device_class="other", product="H100") == 3
    assert prices.price(device_class="gpu", product="A100") == 2
    assert prices.price(device_class="other", product="A100") == 1
    assert book(T0, h100="3").price(device_class="gpu", product="A100") is None


def test_a_usage_is_cut_where_books_change() -> None:
    prices = PriceList(books=(book(T0, any="1"), book(T0 + hours(2), any="3")))
    segments = rate(usage(1, 5), prices, start=T0, end=NOW, now=NOW)
    assert [s.per_hour for s in segments] == [Decimal(1), Decimal(3)]
    assert [s.amount for s in segments] == [Fraction(1), Fraction(9)]


def test_time_before_the_first_book_has_no_price_and_is_not_free() -> None:
    prices = PriceList(books=(book(T0 + hours(2), any="3"),))
    result = statement([usage(1, 3)], prices, start=T0, end=NOW, now=NOW)
    assert [(line.per_hour, line.amount) for line in result.lines] == [
        (Decimal(3), Decimal("3.00")),
        (None, None),
    ]
    assert result.unpriced
    assert result.totals == {"EUR": Decimal("3.00")}


def test_what_still_runs_is_rated_up_to_now_and_marked() -> None:
    prices = PriceList(books=(book(T0, any="2"),))
    result = statement([usage(0, None)], prices, start=T0, end=T0 + hours(9), now=T0 + hours(3))
    (line,) = result.lines
    assert (line.amount, line.running, line.device_hours) == (Decimal("6.00"), 1, Fraction(3))


def test_a_period_that_is_over_marks_nothing_as_running() -> None:
    prices = PriceList(books=(book(T0, any="2"),))
    result = statement([usage(0, None)], prices, start=T0, end=T0 + hours(2), now=T0 + hours(3))
    assert (result.lines[0].amount, result.running) == (Decimal("4.00"), False)


def test_what_starts_after_now_or_outside_the_period_costs_nothing() -> None:
    prices = PriceList(books=(book(T0, any="2"),))
    result = statement(
        [usage(5, 6), usage(0, 1)], prices, start=T0 + hours(1), end=T0 + hours(5), now=T0 + hours(4)
    )
    assert result.lines == ()


def test_lines_of_a_currency_add_up_to_its_rounded_total() -> None:
    prices = PriceList(books=(book(T0, any="1"),))
    usages = [usage(0, 1 / 3, product=product) for product in ("A", "B", "C")]
    result = statement(usages, prices, start=T0, end=NOW, now=NOW)
    assert [line.amount for line in result.lines] == [Decimal("0.34"), Decimal("0.33"), Decimal("0.33")]
    assert result.totals == {"EUR": Decimal("1.00")}


def test_currencies_are_never_added_together() -> None:
    prices = PriceList(books=(book(T0, any="1"), book(T0 + hours(1), currency="JPY", any="200")))
    result = statement([usage(0, 2)], prices, start=T0, end=NOW, now=NOW)
    assert result.totals == {"EUR": Decimal("1.00"), "JPY": Decimal(200)}


def test_unattributed_usage_is_a_line_of_its_own() -> None:
    prices = PriceList(books=(book(T0, any="1"),))
    result = statement([usage(), usage(project_id=None)], prices, start=T0, end=NOW, now=NOW)
    assert [line.project_id for line in result.lines] == [1, None]


def test_a_share_is_its_largest_part_of_a_capacity() -> None:
    capacity = {"gpu/memory": {"value": "80Gi"}, "gpu/cores": "100"}
    assert share({"gpu/memory": "20Gi", "gpu/cores": "50"}, capacity) == Fraction(1, 2)
    assert share({"gpu/memory": "200Gi"}, capacity) == 1
    assert share({}, capacity) == 1
    assert share({"gpu/unknown": "1", "gpu/memory": "none"}, capacity) == 1


moments = st.integers(0, 10**12).map(lambda us: T0 + timedelta(microseconds=us))


@given(
    st.lists(st.tuples(moments, st.none() | moments), max_size=5),
    st.lists(st.tuples(moments, st.integers(0, 10**9)), max_size=4, unique_by=lambda b: b[0]),
    st.lists(moments, min_size=3, max_size=3).map(sorted),
)
def test_costs_of_adjacent_periods_add_up_exactly(
    intervals: list[tuple[datetime, datetime | None]],
    books: list[tuple[datetime, int]],
    bounds: list[datetime],
) -> None:
    prices = PriceList(
        books=tuple(book(start, any=str(Decimal(micro).scaleb(-6))) for start, micro in sorted(books))
    )
    usages = [
        Usage(
            project_id=1,
            device_class="gpu",
            product="H100",
            start=min(start, end or start),
            end=max(start, end) if end else None,
        )
        for start, end in intervals
    ]

    def exact(start: datetime, end: datetime) -> Fraction:
        lines = statement(usages, prices, start=start, end=end, now=NOW).lines
        return sum((line.exact for line in lines if line.exact is not None), Fraction(0))

    first, middle, last = bounds
    assert exact(first, middle) + exact(middle, last) == exact(first, last)


@given(
    st.lists(st.tuples(moments, st.none() | moments, st.fractions(Fraction(0), Fraction(1))), max_size=5),
    st.lists(st.tuples(moments, st.integers(0, 10**9)), max_size=4, unique_by=lambda b: b[0]),
    st.lists(moments, min_size=3, max_size=3).map(sorted),
)
def test_a_statement_is_the_sum_of_its_rated_usages(
    intervals: list[tuple[datetime, datetime | None, Fraction]],
    books: list[tuple[datetime, int]],
    bounds: list[datetime],
) -> None:
    prices = PriceList(
        books=tuple(book(start, any=str(Decimal(micro).scaleb(-6))) for start, micro in sorted(books))
    )
    start, now, end = bounds
    usages = [
        Usage(project_id=1, device_class="gpu", product="H100", start=since, end=until, quantity=quantity)
        for since, until, quantity in intervals
        if until is None or since <= until
    ]
    lines = statement(usages, prices, start=start, end=end, now=now).lines
    segments = [s for usage in usages for s in rate(usage, prices, start=start, end=end, now=now)]
    amounts = [segment.amount for segment in segments if segment.amount is not None]
    assert sum((line.exact for line in lines if line.exact is not None), Fraction(0)) == sum(
        amounts, Fraction(0)
    )
    assert sum(line.device_microseconds for line in lines) == sum(s.device_microseconds for s in segments)
    assert sum(line.count for line in lines) == len(segments)
