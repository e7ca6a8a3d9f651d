"""Rules that each row keeps or breaks by itself: null or not, what belongs together, price × quantity."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction

from claims.focus.columns import VERSIONS
from claims.focus.terms import Fault, Row, RowRule, Rule
from claims.focus.values import EXACTLY
from portal import money

ROW_RULES: list[RowRule] = []
_NEW = ("1.4",)
_PRICED = ("PricingQuantity", "PricingUnit", "PricingCategory", "ListUnitPrice", "ContractedUnitPrice")
SUBCATEGORIES = {
    "AI and Machine Learning": (
        "AI Platforms", "Bots", "Generative AI", "Machine Learning", "Natural Language Processing",
        "Other (AI and Machine Learning)",
    ),
    "Compute": (
        "Containers", "End User Computing", "Quantum Compute", "Serverless Compute", "Virtual Machines",
        "Other (Compute)",
    ),
}  # fmt: skip

_Check = Callable[[Row], Iterable[Fault]]


def _rule(code: str, text: str, versions: Sequence[str] = VERSIONS) -> Callable[[_Check], _Check]:
    def keep(check: _Check) -> _Check:
        ROW_RULES.append(RowRule(rule=Rule(code=code, text=text, versions=versions), check=check))
        return check

    return keep


def _null(row: Row, name: str) -> bool:
    """Whether the file has the column, and the row nothing in it."""
    return name in row and row[name] is None


def _told(row: Row, name: str) -> bool:
    return row.get(name) is not None


def _regular(row: Row) -> bool:
    """Use or a purchase, and no correction."""
    return row.get("ChargeCategory") in ("Usage", "Purchase") and row.get("ChargeClass") != "Correction"


def _together(row: Row, first: str, *others: str) -> Iterator[Fault]:
    """The others are told if, and only if, the first is."""
    for name in others:
        if first in row and name in row and _told(row, first) != _told(row, name):
            yield name, f"does not go with {first}"


# --- periods ------------------------------------------------------------------------------------


@_rule("billing-period", "A billing period ends after it begins.")
def _billing_period(row: Row) -> Iterator[Fault]:
    start, end = row.get("BillingPeriodStart"), row.get("BillingPeriodEnd")
    if start and end and end <= start:
        yield "BillingPeriodEnd", "is not after BillingPeriodStart"


@_rule("charge-period", "A charge period ends after it begins.")
def _charge_period(row: Row) -> Iterator[Fault]:
    start, end = row.get("ChargePeriodStart"), row.get("ChargePeriodEnd")
    if start and end and end <= start:
        yield "ChargePeriodEnd", "is not after ChargePeriodStart"


@_rule("charge-in-billing-period", "What is no correction was charged within its billing period.")
def _within(row: Row) -> Iterator[Fault]:
    if row.get("ChargeClass") == "Correction":
        return
    start, begins = row.get("ChargePeriodStart"), row.get("BillingPeriodStart")
    if start and begins and start < begins:
        yield "ChargePeriodStart", "is before BillingPeriodStart"
    end, ends = row.get("ChargePeriodEnd"), row.get("BillingPeriodEnd")
    if end and ends and end > ends:
        yield "ChargePeriodEnd", "is after BillingPeriodEnd"


@_rule("correction-of-before", "A correction keeps the charge period of what it corrects, which is over.")
def _correction(row: Row) -> Iterator[Fault]:
    end, billed = row.get("ChargePeriodEnd"), row.get("BillingPeriodStart")
    if row.get("ChargeClass") == "Correction" and end and billed and end > billed:
        yield "ChargePeriodEnd", "is not before the billing period"


@_rule("correction-on-another-invoice", "A correction is on another invoice than what it corrects.")
def _another(row: Row) -> Iterator[Fault]:
    before = row.get("x_CorrectsInvoiceId")
    if before is not None and row.get("InvoiceId") == before:
        yield "InvoiceId", "is that of what is corrected"
    if before is not None and row.get("ChargeClass") != "Correction":
        yield "ChargeClass", "is not Correction, and an invoice is corrected"


# --- prices and costs ---------------------------------------------------------------------------


def _product(row: Row, price: str, cost: str) -> Iterator[Fault]:
    unit, quantity, total = (row.get(name) for name in (price, "PricingQuantity", cost))
    if row.get("ChargeClass") == "Correction" or unit is None or quantity is None or total is None:
        return
    expected = EXACTLY.multiply(Decimal(unit), Decimal(quantity))
    if expected != total:
        yield cost, f"is {total:f}; {price} × PricingQuantity is {expected:f}"


@_rule("list-cost", "ListCost is ListUnitPrice × PricingQuantity, unless the row is a correction.")
def _list_cost(row: Row) -> Iterator[Fault]:
    return _product(row, "ListUnitPrice", "ListCost")


@_rule("contracted-cost", "ContractedCost is ContractedUnitPrice × PricingQuantity, but for corrections.")
def _contracted_cost(row: Row) -> Iterator[Fault]:
    return _product(row, "ContractedUnitPrice", "ContractedCost")


@_rule("effective-cost", "Without commitments, EffectiveCost is BilledCost.")
def _effective(row: Row) -> Iterator[Fault]:
    billed, effective = row.get("BilledCost"), row.get("EffectiveCost")
    if billed is not None and effective is not None and billed != effective:
        yield "EffectiveCost", f"is {effective:f}, BilledCost is {billed:f}"


@_rule("credit-cost", "The costs of a credit are all its BilledCost.")
def _credit(row: Row) -> Iterator[Fault]:
    for name in ("ContractedCost", "ListCost") if row.get("ChargeCategory") == "Credit" else ():
        if _told(row, name) and row[name] != row.get("BilledCost"):
            yield name, "is another than BilledCost"


@_rule(
    "billed-cost", "BilledCost is within a minor unit of what the row exactly costs: its part of a rounding."
)
def _billed(row: Row) -> Iterator[Fault]:
    billed, exact = row.get("BilledCost"), exact_cost(row)
    if billed is None or exact is None:
        return
    try:
        minor = Fraction(1, 10 ** money.exponent(str(row.get("BillingCurrency"))))
    except money.InvalidCurrency:
        return
    if abs(Fraction(billed) - exact) > minor:
        yield "BilledCost", f"is {billed:f}, and {float(exact):f} exactly"


def exact_cost(row: Row) -> Fraction | None:
    """As the x_ columns tell it; None = they do not, or in no way that could be read."""
    try:
        return Fraction(int(row["x_ExactCostNumerator"]), int(row["x_ExactCostDenominator"]))
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        return None


@_rule("price-not-negative", "Unit prices are not negative.")
def _negative(row: Row) -> Iterator[Fault]:
    for name in ("ListUnitPrice", "ContractedUnitPrice"):
        if _told(row, name) and row[name] < 0:
            yield name, f"is {row[name]:f}"


@_rule("price-missing", "Use and purchases have a SKU price, a quantity, unit, category and unit prices.")
def _missing(row: Row) -> Iterator[Fault]:
    for name in ("SkuPriceId", *_PRICED) if _regular(row) else ():
        if _null(row, name):
            yield name, f"is null, and the row is {row['ChargeCategory']}"


@_rule("price-without-sku-price", "Without a SkuPriceId there is nothing about prices or quantities.")
def _without(row: Row) -> Iterator[Fault]:
    for name in (*_PRICED, "ConsumedQuantity", "SkuPriceDetails") if _null(row, "SkuPriceId") else ():
        if _told(row, name):
            yield name, "is told, and SkuPriceId is null"


@_rule("tax-has-no-price", "A tax has no SKU, no price and no quantity.")
def _tax(row: Row) -> Iterator[Fault]:
    for name in ("SkuId", "SkuPriceId", *_PRICED) if row.get("ChargeCategory") == "Tax" else ():
        if _told(row, name):
            yield name, "is told, and the row is Tax"


@_rule("pricing-unit", "PricingUnit is null if, and only if, PricingQuantity is.")
def _pricing_unit(row: Row) -> Iterator[Fault]:
    return _together(row, "PricingQuantity", "PricingUnit")


@_rule("consumed-unit", "ConsumedUnit is null if, and only if, ConsumedQuantity is.")
def _consumed_unit(row: Row) -> Iterator[Fault]:
    return _together(row, "ConsumedQuantity", "ConsumedUnit")


@_rule("consumed-quantity", "ConsumedQuantity is told of use, unless it is corrected, and of nothing else.")
def _consumed(row: Row) -> Iterator[Fault]:
    used = row.get("ChargeCategory") == "Usage"
    if _told(row, "ConsumedQuantity") and not used:
        yield "ConsumedQuantity", "is told, and the row is no use"
    if used and _regular(row) and _null(row, "ConsumedQuantity"):
        yield "ConsumedQuantity", "is null, and the row is Usage"


@_rule("frequency-of-purchases", "A purchase is one-time or recurring, never usage-based.")
def _frequency(row: Row) -> Iterator[Fault]:
    if row.get("ChargeCategory") == "Purchase" and row.get("ChargeFrequency") == "Usage-Based":
        yield "ChargeFrequency", "is Usage-Based, and the row is Purchase"


@_rule("commitment-status", "Without a commitment discount there is no status of one, and no such price.")
def _commitment(row: Row) -> Iterator[Fault]:
    if _told(row, "CommitmentDiscountId"):
        return
    if _told(row, "CommitmentDiscountStatus"):
        yield "CommitmentDiscountStatus", "is told, and there is no CommitmentDiscountId"
    if row.get("PricingCategory") == "Committed":
        yield "PricingCategory", "is Committed, and there is no CommitmentDiscountId"


# --- what belongs together ----------------------------------------------------------------------


@_rule("sku-missing", "A SkuPriceId, and a SkuMeter, have a SkuId.")
def _sku(row: Row) -> Iterator[Fault]:
    for name in ("SkuPriceId", "SkuMeter"):
        if _told(row, name) and _null(row, "SkuId"):
            yield "SkuId", f"is null, and {name} is not"


@_rule("resource", "ResourceName and ResourceType are null if, and only if, ResourceId is.")
def _resource(row: Row) -> Iterator[Fault]:
    return _together(row, "ResourceId", "ResourceName", "ResourceType")


@_rule("sub-account", "SubAccountName and SubAccountType are null if, and only if, SubAccountId is.")
def _sub_account(row: Row) -> Iterator[Fault]:
    return _together(row, "SubAccountId", "SubAccountName", "SubAccountType")


@_rule("region", "RegionName is null if, and only if, RegionId is.")
def _region(row: Row) -> Iterator[Fault]:
    return _together(row, "RegionId", "RegionName")


@_rule("service-subcategory", "A ServiceSubcategory belongs to the ServiceCategory.")
def _subcategory(row: Row) -> Iterator[Fault]:
    category, sub = row.get("ServiceCategory"), row.get("ServiceSubcategory")
    if sub is not None and category in SUBCATEGORIES and sub not in SUBCATEGORIES[category]:
        yield "ServiceSubcategory", f"{sub} is none of {category}"


@_rule("invoice-detail", "InvoiceDetailId is null if, and only if, InvoiceId is.", _NEW)
def _detail(row: Row) -> Iterator[Fault]:
    return _together(row, "InvoiceId", "InvoiceDetailId")


@_rule("provisional", "What is on no invoice is provisional, and nothing else is.")
def _provisional(row: Row) -> Iterator[Fault]:
    if "InvoiceId" in row and _told(row, "x_Provisional") and row["x_Provisional"] == _told(row, "InvoiceId"):
        yield "x_Provisional", "does not go with InvoiceId"


@_rule("allocation", "What cost is split to, and how, is told only of splits, which name their method.", _NEW)
def _allocation(row: Row) -> Iterator[Fault]:
    names = ("AllocatedMethodDetails", "AllocatedResourceId", "AllocatedResourceName", "AllocatedTags")
    for name in names if _null(row, "AllocatedMethodId") else ():
        if _told(row, name):
            yield name, "is told, and AllocatedMethodId is null"
    yield from _together(row, "AllocatedResourceId", "AllocatedResourceName")
