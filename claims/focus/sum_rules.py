"""Rules about many rows: what an invoice and a split come to, one parent and one price of a SKU."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from claims.focus.row_rules import exact_cost
from claims.focus.terms import Row, Rule, Sum, Violation
from claims.focus.values import EXACTLY
from portal import money

TOTAL = Rule(
    code="invoice-total",
    text="The BilledCost of an InvoiceId adds up to the invoice, which is in whole minor units.",
)
SPLIT = Rule(code="split-sum", text="The parts of a split cost come to what they are the parts of, exactly.")
PARENT = Rule(code="sku-parent", text="A SkuPriceId has one SkuId only.")
PRICE = Rule(code="sku-price", text="In one version of the prices, a SkuPriceId has one ListUnitPrice only.")
SCOPE = Rule(
    code="invoice-scope", text="An InvoiceId is of one account, one billing period and one currency."
)
SUM_RULES = (TOTAL, SPLIT, PARENT, PRICE, SCOPE)


def sums(totals: Mapping[str, Decimal] | None) -> list[Sum]:
    """A fresh set of them, for one file."""
    invoice = ("BillingAccountId", "BillingPeriodStart", "BillingPeriodEnd", "BillingCurrency")
    return [
        InvoiceTotals(totals),
        Splits(),
        OneOf(PARENT, ("SkuPriceId",), ("SkuId",)),
        OneOf(PRICE, ("SkuPriceId", "x_PriceVersionId"), ("ListUnitPrice",)),
        OneOf(SCOPE, ("InvoiceId",), invoice),
    ]


class InvoiceTotals:
    """What is billed on an invoice."""

    rule = TOTAL

    def __init__(self, totals: Mapping[str, Decimal] | None) -> None:
        """`totals` is what the invoices come to, where that is known."""
        self._known = totals
        self._sums: dict[tuple[str, str], Decimal] = defaultdict(Decimal)

    def see(self, row: Row, _number: int) -> Iterator[Violation]:
        if (invoice := row.get("InvoiceId")) is not None and row.get("BilledCost") is not None:
            key = invoice, str(row.get("BillingCurrency"))
            self._sums[key] = EXACTLY.add(self._sums[key], row["BilledCost"])
        yield from ()

    def end(self) -> Iterator[Violation]:
        for (invoice, currency), total in sorted(self._sums.items()):
            known = self._known.get(invoice) if self._known is not None else None
            if self._known is not None and known is None:
                yield self._violation(f"{invoice} is not among the invoices that are known")
            elif known is not None and known != total:
                yield self._violation(f"{invoice} comes to {total:f}, and not to {known:f}")
            elif known is None and not _whole(total, currency):
                yield self._violation(f"{invoice} comes to {total:f} {currency}")
        for invoice in sorted(set(self._known or ()) - {invoice for invoice, _currency in self._sums}):
            yield self._violation(f"{invoice} is not there")

    def _violation(self, detail: str) -> Violation:
        return Violation(rule=self.rule, row=0, column="BilledCost", detail=detail)


def _whole(total: Decimal, currency: str) -> bool:
    try:
        scale: int = 10 ** money.exponent(currency)
    except money.InvalidCurrency:
        return True
    return (Fraction(total) * scale).denominator == 1


class Splits:
    """Idle cost that is passed on: where the row that relieves the operator is in the file, all parts are."""

    rule = SPLIT

    def __init__(self) -> None:
        self._sums: dict[tuple[str, str], Fraction] = defaultdict(Fraction)
        self._origins: set[tuple[str, str]] = set()

    def see(self, row: Row, _number: int) -> Iterator[Violation]:
        exact = exact_cost(row) if row.get("x_ChargeKind") == "shared" else None
        if exact is not None:
            key = str(row.get("BillingPeriodStart")), str(row.get("BillingCurrency"))
            self._sums[key] += exact
            if row.get("SubAccountId") is None:
                self._origins.add(key)
        yield from ()

    def end(self) -> Iterator[Violation]:
        for key in sorted(self._origins):
            if self._sums[key]:
                detail = f"{' '.join(key)}: the parts differ from the whole by {float(self._sums[key]):f}"
                yield Violation(rule=self.rule, row=0, column="x_ExactCostNumerator", detail=detail)


class OneOf:
    """Columns that have one value only, for each value of others."""

    def __init__(self, rule: Rule, by: tuple[str, ...], of: tuple[str, ...]) -> None:
        self.rule, self._by, self._of = rule, by, of
        self._first: dict[Any, Any] = {}

    def see(self, row: Row, number: int) -> Iterator[Violation]:
        key = tuple(row.get(name) for name in self._by)
        if any(part is None for part in key):
            return
        for name in self._of:
            if name not in row:
                continue
            first = self._first.setdefault((key, name), row[name])
            if first != row[name]:
                detail = f"is {row[name]}; of {' and '.join(map(str, key))} it was {first}"
                yield Violation(rule=self.rule, row=number, column=name, detail=detail)

    def end(self) -> Iterator[Violation]:
        yield from ()
