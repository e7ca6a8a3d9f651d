"""From a charge to a row. Pure: everything that it needs to know is handed in.

- Use and idle time are *Usage*. A credit note is a *Credit*; what was adjusted by hand, and idle time passed
  on, are *Adjustments*. A correction has the category of what it corrects, and the class *Correction*; so has
  a credit note or an adjustment that makes good a month that was closed before.
- List cost is list price × quantity, contracted cost the same less the project's discount, both to the last
  digit of the quantity as it is written. Billed cost, and effective cost with it, is the row's part of its
  statement.

What charges of one line have in common is put together once (`common`), and copied for each (`row_of`).
"""

from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from typing import Any, NamedTuple

from claims.focus.columns import BILLED_PLACES, LIST_PRICE_PLACES, PRICE_PLACES, QUANTITY_PLACES
from claims.focus.values import Sku, ascii_text, decimal, exact_time, json_text, priced, second, sku
from claims.models import Charge, PriceBook, Statement
from portal import money
from portal.accounts.models import Project

Row = dict[str, Any]
METHOD = "idle-in-proportion-to-use"
# ISO 4217: no currency. Only where no price book was ever there.
NO_CURRENCY = "XXX"
_KIND = Charge.Kind
_CATEGORIES = {
    _KIND.USAGE: "Usage", _KIND.IDLE: "Usage", _KIND.CORRECTION: "Usage", _KIND.CREDIT: "Credit",
    _KIND.ADJUSTMENT: "Adjustment", _KIND.SHARED: "Adjustment",
}  # fmt: skip
_HOURS = money.MICROSECONDS_PER_HOUR
_FINEST = 10**QUANTITY_PLACES
_SECOND = 1_000_000


class Item(NamedTuple):
    """A charge as it is read: the columns of `claims.models.Charge` that rows are made of."""

    id: int
    kind: str
    source: str
    started_us: int
    ended_us: int
    project_id: int | None
    cost_centre: str
    cluster_id: int | None
    claim_uid: str
    epoch: int
    driver: str
    pool_name: str
    device_name: str
    hardware_id: str
    device_class: str
    product: str
    profile_digest: str
    resource: str
    use: str
    book_id: int | None
    currency: str
    unit: str
    per: str
    quantity: Fraction
    list_micros: int | None
    discount_micros: int
    fixed: Fraction | None
    origin_id: int | None
    note: str


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The statement that a charge is on: its month, how far it is; what still runs counts up to `until_us`.
    `payer` is the project's short name, or "unattributed"."""

    month: str
    starts_at: datetime
    ends_at: datetime
    until_us: int
    state: str
    payer: str

    @property
    def closed(self) -> bool:
        return self.state == Statement.State.CLOSED

    def invoice(self, currency: str) -> str | None:
        """A closed statement is an invoice per currency."""
        return invoice_id(self.month, self.payer, currency) if self.closed else None


def invoice_id(month: str, payer: str, currency: str) -> str:
    return f"{month}-{payer}-{currency}"


class Facts(NamedTuple):
    """What the ledger says of the interval that a charge is for."""

    request_key: str
    start_source: str
    start_uncertainty_us: int
    end_source: str
    end_uncertainty_us: int


@dataclass(frozen=True, kw_only=True)
class Shared:
    """What charges of one line have in common. `line` is where the line stands on the statement, `passed_on`
    all that was passed on of the idle time of the month."""

    frame: Frame
    organisation: str
    line: int | None
    currency: str
    project: Project | None = None
    book: PriceBook | None = None
    passed_on: Fraction | None = None


@dataclass(frozen=True, kw_only=True)
class Single:
    """What is the row's own. `billed` is in units of its last place, `exact` None = it has no price; `page`
    is where it is explained, `makes_good` the closed month that a credit or an adjustment refers to."""

    billed: int
    exact: Fraction | None
    page: str
    cluster: str | None = None
    facts: Facts | None = None
    makes_good: Frame | None = None


# --- what charges of a line have in common --------------------------------------------------------


def common(item: Item, shared: Shared) -> Row:
    """Columns of all versions; those that are each row's own are null still."""
    frame, project, book = shared.frame, shared.project, shared.book
    name = ascii_text(shared.organisation) or "Claimdesk"
    invoice = frame.invoice(shared.currency)
    return {
        "BillingAccountId": name,
        "BillingAccountName": name,
        "BillingAccountType": "Organisation",
        "BillingCurrency": shared.currency,
        "BillingPeriodEnd": frame.ends_at,
        "BillingPeriodStart": frame.starts_at,
        "ChargeCategory": _CATEGORIES[_KIND(item.kind)],
        "ChargeClass": "Correction" if item.kind == _KIND.CORRECTION else None,
        "CommitmentDiscountStatus": None,
        "HostProviderName": name,
        "InvoiceDetailId": str(shared.line) if invoice and shared.line is not None else None,
        "InvoiceId": invoice,
        "InvoiceIssuerName": name,
        "ProviderName": name,
        "PublisherName": name,
        "ServiceCategory": "Compute",
        "ServiceName": "Kubernetes Devices",
        "ServiceProviderName": name,
        "ServiceSubcategory": "Other (Compute)",
        "SubAccountId": project.slug if project else None,
        # As it is written: x_ProjectName.
        "SubAccountName": (project.name if project.name.isascii() else project.slug) if project else None,
        "SubAccountType": "Project" if project else None,
        "Tags": json_text({"cost_centre": item.cost_centre}),
        "x_ChargeKind": item.kind,
        "x_CostCentre": item.cost_centre or None,
        "x_DeviceClassName": item.device_class or None,
        "x_Note": item.note or None,
        "x_PriceVersionId": book.pk if book else None,
        "x_PriceVersionName": book.name if book else None,
        "x_ProjectName": project.name if project else None,
        "x_Provisional": not frame.closed,
        "x_StatementState": frame.state,
        "x_Use": item.use or None,
        **_passed_on(item, shared),
        **(_timed(item) if item.fixed is None else _fixed(item, shared)),
    }


def _passed_on(item: Item, shared: Shared) -> Row:
    """Idle time that is passed on: nobody's row is what the operator is relieved of."""
    if item.kind != _KIND.SHARED:
        names = ("MethodDetails", "MethodId", "ResourceId", "ResourceName", "Tags")
        return dict.fromkeys(f"Allocated{name}" for name in names)
    project, details = shared.project, None
    if project is not None and shared.passed_on and item.fixed is not None:
        ratio = round(float(item.fixed / shared.passed_on), 12)
        details = json_text({"Elements": [{"AllocatedRatio": ratio}]})
    return {
        "AllocatedMethodDetails": details,
        "AllocatedMethodId": METHOD,
        "AllocatedResourceId": project.slug if project else None,
        "AllocatedResourceName": (ascii_text(project.name) or project.slug) if project else None,
        "AllocatedTags": json_text({"cost_centre": item.cost_centre}),
    }


def _timed(item: Item) -> Row:
    """Time at a price."""
    sold, listed = sku_of(item), item.list_micros or 0
    return {
        "ChargeDescription": _described(item, sold),
        "ChargeFrequency": "Usage-Based",
        "ConsumedUnit": sold.unit,
        "ContractedUnitPrice": decimal(listed * (_SECOND - item.discount_micros), PRICE_PLACES),
        "ListUnitPrice": decimal(listed, LIST_PRICE_PLACES),
        "PricingCategory": "Standard",
        "PricingUnit": sold.unit,
        "SkuId": sold.id,
        "SkuMeter": sold.meter,
        "SkuPriceDetails": sold.details,
        "SkuPriceId": sold.price_id,
    }


def _fixed(item: Item, shared: Shared) -> Row:
    """An amount that no time at a price makes."""
    sold = sku_of(item) if item.kind == _KIND.CORRECTION else None
    names = (
        "ConsumedQuantity", "ConsumedUnit", "ContractedUnitPrice", "ListUnitPrice", "PricingCategory",
        "PricingQuantity", "PricingUnit", "SkuPriceDetails", "SkuPriceId",
    )  # fmt: skip
    return {
        **dict.fromkeys(names),
        "ChargeDescription": _said(item, shared, sold),
        "ChargeFrequency": "Usage-Based" if sold else "One-Time",
        "SkuId": sold.id if sold else None,
        "SkuMeter": sold.meter if sold else None,
    }


def sku_of(item: Item) -> Sku:
    return sku(
        device_class=item.device_class,
        product=item.product,
        profile=item.profile_digest,
        resource=item.resource,
        use=item.use,
        unit=item.unit,
        per=item.per,
    )


def _described(item: Item, sold: Sku) -> str:
    if item.list_micros is None:
        return f"{sold.called}, {sold.meter[0].lower()}{sold.meter[1:]}: no price"
    return priced(
        sold.called,
        sold.meter,
        unit=sold.unit,
        list_micros=item.list_micros,
        discount_micros=item.discount_micros,
        currency=item.currency,
    )


def _said(item: Item, shared: Shared, sold: Sku | None) -> str:
    if sold is not None:
        return f"Correction of {ascii_text(item.note)}: {sold.called}"
    if item.kind == _KIND.SHARED:
        verb = "passed on" if item.project_id is not None else "taken over by projects"
        return f"Idle time of {shared.frame.month}, {verb}"
    return "Credit note" if item.kind == _KIND.CREDIT else "Adjustment"


# --- what is the row's own ------------------------------------------------------------------------


def row_of(item: Item, basis: Row, frame: Frame, single: Single) -> Row:
    """The row of a charge. `basis` is what `common` made for its line."""
    facts, exact, cluster, device = single.facts, single.exact, single.cluster, item.device_name
    billed = decimal(single.billed, BILLED_PLACES)
    row = {
        **basis,
        "BilledCost": billed,
        "EffectiveCost": billed,
        "RegionId": cluster,
        "RegionName": cluster,
        "ResourceId": ascii_text("/".join(filter(None, (cluster, item.driver, item.pool_name, device))))
        if device
        else None,
        "ResourceName": ascii_text(device),
        "ResourceType": (ascii_text(item.product or item.device_class or item.resource) or "Device")
        if device
        else None,
        "x_AllocationEpoch": item.epoch if item.claim_uid else None,
        "x_ChargeId": item.id,
        "x_ChargeUrl": single.page,
        "x_ClaimUid": item.claim_uid or None,
        "x_ClusterName": cluster,
        "x_CorrectsChargeId": item.origin_id,
        "x_CorrectsInvoiceId": None,
        "x_DriverName": item.driver or None,
        "x_EndSource": (facts.end_source or None) if facts else None,
        "x_EndUncertaintyMicroseconds": facts.end_uncertainty_us if facts and facts.end_source else None,
        "x_ExactCostDenominator": None if exact is None else str(exact.denominator),
        "x_ExactCostNumerator": None if exact is None else str(exact.numerator),
        "x_ExactQuantity": str(item.quantity) if item.fixed is None else None,
        "x_HardwareId": item.hardware_id or None,
        "x_NodePoolName": item.pool_name or None,
        "x_RequestKey": (facts.request_key or None) if facts else None,
        "x_StartSource": (facts.start_source or None) if facts else None,
        "x_StartUncertaintyMicroseconds": facts.start_uncertainty_us if facts else None,
        "x_Unpriced": exact is None,
    }
    if item.fixed is not None:
        row["ContractedCost"] = row["ListCost"] = billed
    if item.fixed is None or item.kind == _KIND.CORRECTION:
        _add_time(row, item, frame.until_us)
    else:
        _add_period(row, item, single.makes_good or frame)
    if item.kind == _KIND.CORRECTION and item.note:
        row["x_CorrectsInvoiceId"] = invoice_id(item.note, frame.payer, row["BillingCurrency"])
    elif (before := single.makes_good) is not None:
        row["ChargeClass"] = "Correction"
        row["ChargeDescription"] += f" for {before.month}"
        row["x_CorrectsInvoiceId"] = before.invoice(row["BillingCurrency"])
    return row


def _add_time(row: Row, item: Item, until_us: int) -> None:
    start = item.started_us
    end = max(start, min(item.ended_us, until_us))
    # Whole seconds; a stretch within one second has that second.
    row["ChargePeriodStart"], row["ChargePeriodEnd"] = second(start), second(max(end, start + _SECOND))
    row["x_ExactPeriodStart"], row["x_ExactPeriodEnd"] = exact_time(start), exact_time(end)
    if item.fixed is None:
        # In 10⁻¹⁰ unit-hours: finer than a microsecond.
        shares, parts = item.quantity.numerator, item.quantity.denominator * _HOURS
        quantity = (2 * (end - start) * shares * _FINEST + parts) // (2 * parts)
        listed = (item.list_micros or 0) * quantity
        kept = _SECOND - item.discount_micros
        row["ConsumedQuantity"] = row["PricingQuantity"] = decimal(quantity, QUANTITY_PLACES)
        row["ContractedCost"] = decimal(listed * kept, PRICE_PLACES + QUANTITY_PLACES)
        row["ListCost"] = decimal(listed, LIST_PRICE_PLACES + QUANTITY_PLACES)


def _add_period(row: Row, item: Item, frame: Frame) -> None:
    """An amount for a whole month."""
    row["ChargePeriodStart"], row["ChargePeriodEnd"] = frame.starts_at, frame.ends_at
    row["x_ExactPeriodStart"] = row["x_ExactPeriodEnd"] = exact_time(item.started_us)
