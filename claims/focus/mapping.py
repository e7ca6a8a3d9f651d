"""From a charge to a row. Pure: everything that it needs to know is handed in.

- Use and idle time are *Usage*. A credit note is a *Credit*; what was adjusted by hand, and idle time passed
  on, are *Adjustments*. A correction has the category of what it corrects, and the class *Correction*; so
  has a credit note or an adjustment that makes good a month that was closed before.
- List cost is list price × quantity, contracted cost the same less the project's discount, both to the last
  digit of the quantity as it is written. Billed cost, and effective cost with it, is the row's part of its
  statement.
"""

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from fractions import Fraction
from typing import Any

from claims.focus.columns import (
    BILLED_PLACES,
    LIST_PRICE_PLACES,
    PRICE_PLACES,
    QUANTITY_PLACES,
)
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
_SERVICE = {
    "ServiceCategory": "Compute",
    "ServiceName": "Kubernetes Devices",
    "ServiceSubcategory": "Other (Compute)",
}


@dataclass(frozen=True, kw_only=True)
class Frame:
    """The statement that a charge is on: its month, how far it is, and where each of its lines stands."""

    month: str
    starts_at: datetime
    ends_at: datetime
    # What still runs counts until then.
    until_us: int
    state: str
    # The project's short name, or "unattributed".
    payer: str

    @property
    def closed(self) -> bool:
        return self.state == Statement.State.CLOSED

    def invoice(self, currency: str) -> str | None:
        """A closed statement is an invoice per currency."""
        return invoice_id(self.month, self.payer, currency) if self.closed else None


def invoice_id(month: str, payer: str, currency: str) -> str:
    return f"{month}-{payer}-{currency}"


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What the ledger says of the interval that a charge is for."""

    request_key: str
    start_source: str
    start_uncertainty_us: int
    end_source: str
    end_uncertainty_us: int


@dataclass(frozen=True, kw_only=True)
class Around:
    """What a row tells beside its charge. `billed` is in 10⁻¹⁰ of a currency unit; `line` is where its line
    stands on the statement; `makes_good` is the closed month that a credit or an adjustment refers to, and
    `shared` all that was passed on of the idle time that the charge is a part of."""

    frame: Frame
    organisation: str
    # Where a charge is explained, before its number.
    pages: str
    line: int | None
    billed: int
    currency: str
    project: Project | None = None
    cluster: str | None = None
    book: PriceBook | None = None
    facts: Facts | None = None
    makes_good: Frame | None = None
    shared: Fraction | None = None


def row_of(charge: Charge, around: Around) -> Row:
    """All columns of all versions."""
    frame = around.frame
    exact = charge.amount(start_us=None, end_us=frame.until_us)
    row: Row = {
        **_SERVICE,
        **_who(charge, around),
        **_when(charge, around),
        **_what(charge, around.cluster),
        **_why(charge, around),
        **_costs(charge, around),
        **_own(charge, around, exact),
        "ChargeCategory": _CATEGORIES[_KIND(charge.kind)],
        "ChargeClass": "Correction" if _corrects(charge, around) else None,
        "CommitmentDiscountStatus": None,
        "InvoiceDetailId": str(around.line) if frame.closed and around.line is not None else None,
        "InvoiceId": frame.invoice(around.currency),
    }
    return row


def _corrects(charge: Charge, around: Around) -> bool:
    return charge.kind == _KIND.CORRECTION or around.makes_good is not None


def _who(charge: Charge, around: Around) -> Row:
    name, project = ascii_text(around.organisation) or "Claimdesk", around.project
    return {
        "BillingAccountId": name,
        "BillingAccountName": name,
        "BillingAccountType": "Organisation",
        "BillingCurrency": around.currency,
        "HostProviderName": name,
        "InvoiceIssuerName": name,
        "ProviderName": name,
        "PublisherName": name,
        "ServiceProviderName": name,
        "SubAccountId": project.slug if project else None,
        # The original is in x_ProjectName.
        "SubAccountName": (project.name if project.name.isascii() else project.slug) if project else None,
        "SubAccountType": "Project" if project else None,
        "Tags": json_text({"cost_centre": charge.cost_centre}),
    }


def _when(charge: Charge, around: Around) -> Row:
    frame = around.frame
    period = around.makes_good or frame
    if charge.fixed is None or charge.kind == _KIND.CORRECTION:
        start, end = charge.started_us, min(charge.ended_us, max(frame.until_us, charge.started_us))
        first, last = second(start), second(max(end, start + 1_000_000))
    else:
        first, last = period.starts_at, period.ends_at
        start = end = charge.started_us
    return {
        "BillingPeriodEnd": frame.ends_at,
        "BillingPeriodStart": frame.starts_at,
        # Whole seconds; a stretch within one second has that second. Exactly: x_ExactPeriodStart and End.
        "ChargePeriodEnd": last,
        "ChargePeriodStart": first,
        "x_ExactPeriodEnd": exact_time(end),
        "x_ExactPeriodStart": exact_time(start),
    }


def _what(charge: Charge, cluster: str | None) -> Row:
    identity = (cluster, charge.driver, charge.pool_name, charge.device_name)
    held = bool(charge.device_name)
    return {
        "RegionId": cluster,
        "RegionName": cluster,
        "ResourceId": ascii_text("/".join(part for part in identity if part)) if held else None,
        "ResourceName": ascii_text(charge.device_name) if held else None,
        "ResourceType": (ascii_text(charge.product or charge.device_class or charge.resource) or "Device")
        if held
        else None,
    }


def _why(charge: Charge, around: Around) -> Row:
    """The columns of idle time that is passed on: nobody's row is what the operator is relieved of."""
    if charge.kind != _KIND.SHARED:
        names = ("MethodDetails", "MethodId", "ResourceId", "ResourceName", "Tags")
        return dict.fromkeys((f"Allocated{name}" for name in names), None)
    project, details = around.project, None
    if project is not None and around.shared and charge.fixed is not None:
        ratio = charge.fixed / around.shared
        details = json_text({"Elements": [{"AllocatedRatio": round(float(ratio), 12)}]})
    return {
        "AllocatedMethodDetails": details,
        "AllocatedMethodId": METHOD,
        "AllocatedResourceId": project.slug if project else None,
        "AllocatedResourceName": (ascii_text(project.name) or project.slug) if project else None,
        "AllocatedTags": json_text({"cost_centre": charge.cost_centre}),
    }


def _costs(charge: Charge, around: Around) -> Row:
    billed = decimal(around.billed, BILLED_PLACES)
    if charge.fixed is not None:
        return _fixed(charge, around, billed)
    sold = sku_of(charge)
    # In 10⁻¹⁰ unit-hours: finer than a microsecond.
    hours = charge.quantity * charge.microseconds(end_us=around.frame.until_us) / money.MICROSECONDS_PER_HOUR
    quantity = round(hours * 10**QUANTITY_PLACES)
    listed, kept = charge.list_micros or 0, 1_000_000 - charge.discount_micros
    written = decimal(quantity, QUANTITY_PLACES)
    return {
        "BilledCost": billed,
        "ChargeDescription": _described(charge, sold),
        "ChargeFrequency": "Usage-Based",
        "ConsumedQuantity": written,
        "ConsumedUnit": sold.unit,
        "ContractedCost": decimal(listed * kept * quantity, PRICE_PLACES + QUANTITY_PLACES),
        "ContractedUnitPrice": decimal(listed * kept, PRICE_PLACES),
        "EffectiveCost": billed,
        "ListCost": decimal(listed * quantity, LIST_PRICE_PLACES + QUANTITY_PLACES),
        "ListUnitPrice": decimal(listed, LIST_PRICE_PLACES),
        "PricingCategory": "Standard",
        "PricingQuantity": written,
        "PricingUnit": sold.unit,
        "SkuId": sold.id,
        "SkuMeter": sold.meter,
        "SkuPriceDetails": sold.details,
        "SkuPriceId": sold.price_id,
    }


def _fixed(charge: Charge, around: Around, billed: Decimal) -> Row:
    """An amount that no time at a price makes. What it was before it was rounded is the exact cost of x_."""
    corrects = charge.kind == _KIND.CORRECTION
    sold = sku_of(charge) if corrects else None
    return {
        "BilledCost": billed,
        "ChargeDescription": _said(charge, around, sold),
        "ChargeFrequency": "One-Time" if not corrects else "Usage-Based",
        "ConsumedQuantity": None,
        "ConsumedUnit": None,
        "ContractedCost": billed,
        "ContractedUnitPrice": None,
        "EffectiveCost": billed,
        "ListCost": billed,
        "ListUnitPrice": None,
        "PricingCategory": None,
        "PricingQuantity": None,
        "PricingUnit": None,
        "SkuId": sold.id if sold else None,
        "SkuMeter": sold.meter if sold else None,
        "SkuPriceDetails": None,
        "SkuPriceId": None,
    }


def sku_of(charge: Charge) -> Sku:
    return sku(
        device_class=charge.device_class,
        product=charge.product,
        profile=charge.profile_digest,
        resource=charge.resource,
        use=charge.use,
        unit=charge.unit,
        per=charge.per,
    )


def _described(charge: Charge, sold: Sku) -> str:
    if charge.list_micros is None:
        return f"{sold.called}, {sold.meter[0].lower()}{sold.meter[1:]}: no price"
    return priced(
        sold.called,
        sold.meter,
        unit=sold.unit,
        list_micros=charge.list_micros,
        discount_micros=charge.discount_micros,
        currency=charge.currency,
    )


def _said(charge: Charge, around: Around, sold: Sku | None) -> str:
    if sold is not None:
        return f"Correction of {charge.note}: {sold.called}"
    if charge.kind == _KIND.SHARED:
        verb = "passed on" if charge.project_id is not None else "taken over by projects"
        return f"Idle time of {around.frame.month}, {verb}"
    told = "Credit note" if charge.kind == _KIND.CREDIT else "Adjustment"
    return f"{told} for {around.makes_good.month}" if around.makes_good else told


def _own(charge: Charge, around: Around, exact: Fraction | None) -> Row:
    facts, book = around.facts, around.book
    return {
        "x_AllocationEpoch": charge.epoch if charge.claim_uid else None,
        "x_ChargeId": charge.pk,
        "x_ChargeKind": charge.kind,
        "x_ChargeUrl": f"{around.pages}{charge.pk}/",
        "x_ClaimUid": charge.claim_uid or None,
        "x_ClusterName": around.cluster,
        "x_CorrectsChargeId": charge.origin_id,
        "x_CorrectsInvoiceId": _corrected(charge, around),
        "x_CostCentre": charge.cost_centre or None,
        "x_DeviceClassName": charge.device_class or None,
        "x_DriverName": charge.driver or None,
        "x_EndSource": (facts.end_source or None) if facts else None,
        "x_EndUncertaintyMicroseconds": facts.end_uncertainty_us if facts and facts.end_source else None,
        "x_ExactCostDenominator": None if exact is None else str(exact.denominator),
        "x_ExactCostNumerator": None if exact is None else str(exact.numerator),
        "x_ExactQuantity": str(charge.quantity) if charge.fixed is None else None,
        "x_HardwareId": charge.hardware_id or None,
        "x_NodePoolName": charge.pool_name or None,
        "x_Note": charge.note or None,
        "x_PriceVersionId": book.pk if book else None,
        "x_PriceVersionName": book.name if book else None,
        "x_ProjectName": around.project.name if around.project else None,
        "x_Provisional": not around.frame.closed,
        "x_RequestKey": (facts.request_key or None) if facts else None,
        "x_StartSource": (facts.start_source or None) if facts else None,
        "x_StartUncertaintyMicroseconds": facts.start_uncertainty_us if facts else None,
        "x_StatementState": around.frame.state,
        "x_Unpriced": exact is None,
        "x_Use": charge.use or None,
    }


def _corrected(charge: Charge, around: Around) -> str | None:
    """The invoice that had it wrong."""
    if charge.kind == _KIND.CORRECTION and charge.note:
        return invoice_id(charge.note, around.frame.payer, around.currency)
    return around.makes_good.invoice(around.currency) if around.makes_good else None
