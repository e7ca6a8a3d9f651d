"""The columns of the export, as data: type, whether null is allowed, which values are, and in which versions.

Names and levels are those of the specification's dataset "Cost and Usage" in 1.2 and 1.4. Columns that speak
of what the desk does not know (commitment discounts, capacity reservations, a second currency) are left out,
as the specification wants them; `CommitmentDiscountStatus` is there, and always null. Columns of our own
begin with x_.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import pyarrow as pa

VERSIONS = ("1.2", "1.4")
LATEST = VERSIONS[-1]
# When the columns below were last changed: what a schema's `CreationDate` says.
SCHEMA_CREATED = "2026-11-30T00:00:00Z"
# Digits of a decimal: what Parquet readers know at most.
PRECISION = 38


class Type(StrEnum):
    """As `DataType` of the schema's metadata has it."""

    STRING = "STRING"
    DECIMAL = "DECIMAL"
    DATETIME = "DATETIME"
    JSON = "JSON"
    INTEGER = "INTEGER"
    BOOLEAN = "BOOLEAN"


class Level(StrEnum):
    """How much the specification insists on a column."""

    MANDATORY = "Mandatory"
    CONDITIONAL = "Conditional"
    RECOMMENDED = "Recommended"
    CUSTOM = "Custom"


@dataclass(frozen=True, kw_only=True)
class Column:
    """One column. `scale` is how many places a decimal has at most."""

    name: str
    type: Type = Type.STRING
    level: Level = Level.CONDITIONAL
    nullable: bool = True
    allowed: Sequence[str] = ()
    scale: int = 0
    versions: Sequence[str] = VERSIONS

    @property
    def custom(self) -> bool:
        return self.name.startswith("x_")

    @property
    def ours(self) -> bool:
        """A text of which nothing that people choose is the beginning: no cell that could be a formula."""
        return self.name in _OURS or self.name.startswith("x_Exact")


def _must(name: str, **values: Any) -> Column:
    return Column(name=name, level=Level.MANDATORY, nullable=values.pop("nullable", False), **values)


def _may(name: str, **values: Any) -> Column:
    return Column(name=name, **values)


def _should(name: str, **values: Any) -> Column:
    return Column(name=name, level=Level.RECOMMENDED, **values)


def _own(name: str, kind: Type = Type.STRING, *, nullable: bool = True) -> Column:
    return Column(name=name, type=kind, level=Level.CUSTOM, nullable=nullable)


_OURS = frozenset(
    (
        "AllocatedMethodId", "AllocatedResourceId", "BillingAccountType", "BillingCurrency", "ChargeCategory",
        "ChargeClass", "ChargeFrequency", "CommitmentDiscountStatus", "ConsumedUnit", "InvoiceDetailId",
        "InvoiceId", "PricingCategory", "PricingUnit", "ServiceCategory", "ServiceName", "ServiceSubcategory",
        "SkuId", "SkuMeter", "SkuPriceId", "SubAccountId", "SubAccountType", "x_ChargeKind", "x_ChargeUrl",
        "x_CorrectsInvoiceId", "x_EndSource", "x_RequestKey", "x_StartSource", "x_StatementState", "x_Use",
    )
)  # fmt: skip
# What is billed is told to ten places, so that what costs less than a cent is not nothing.
BILLED_PLACES = 10
QUANTITY_PLACES = 10
LIST_PRICE_PLACES = 6
# With up to six places of a discount.
PRICE_PLACES = 12
COST_PLACES = PRICE_PLACES + QUANTITY_PLACES

_DECIMAL, _TIME, _JSON = Type.DECIMAL, Type.DATETIME, Type.JSON
_OLD, _NEW = ("1.2",), ("1.4",)

_ALL: Sequence[Column] = (
    _should("AllocatedMethodDetails", type=_JSON, versions=_NEW),
    _may("AllocatedMethodId", versions=_NEW),
    _may("AllocatedResourceId", versions=_NEW),
    _may("AllocatedResourceName", versions=_NEW),
    _may("AllocatedTags", type=_JSON, versions=_NEW),
    _must("BilledCost", type=_DECIMAL, scale=BILLED_PLACES),
    _must("BillingAccountId"),
    _must("BillingAccountName", nullable=True),
    _may("BillingAccountType"),
    _must("BillingCurrency"),
    _must("BillingPeriodEnd", type=_TIME),
    _must("BillingPeriodStart", type=_TIME),
    _must("ChargeCategory", allowed=("Usage", "Purchase", "Tax", "Credit", "Adjustment")),
    _must("ChargeClass", nullable=True, allowed=("Correction",)),
    _must("ChargeDescription", nullable=True),
    _should("ChargeFrequency", nullable=False, allowed=("One-Time", "Recurring", "Usage-Based")),
    _must("ChargePeriodEnd", type=_TIME),
    _must("ChargePeriodStart", type=_TIME),
    _may("CommitmentDiscountStatus", allowed=("Used", "Unused")),
    _may("ConsumedQuantity", type=_DECIMAL, scale=QUANTITY_PLACES),
    _may("ConsumedUnit"),
    _must("ContractedCost", type=_DECIMAL, scale=COST_PLACES),
    _may("ContractedUnitPrice", type=_DECIMAL, scale=PRICE_PLACES),
    _must("EffectiveCost", type=_DECIMAL, scale=BILLED_PLACES),
    _must("HostProviderName", versions=_NEW),
    _must("InvoiceDetailId", nullable=True, versions=_NEW),
    _should("InvoiceId"),
    _must("InvoiceIssuerName"),
    _must("ListCost", type=_DECIMAL, scale=COST_PLACES),
    _may("ListUnitPrice", type=_DECIMAL, scale=LIST_PRICE_PLACES),
    _may("PricingCategory", allowed=("Standard", "Dynamic", "Committed", "Other")),
    _must("PricingQuantity", nullable=True, type=_DECIMAL, scale=QUANTITY_PLACES),
    _must("PricingUnit", nullable=True),
    _must("ProviderName", versions=_OLD),
    _must("PublisherName", versions=_OLD),
    _may("RegionId"),
    _may("RegionName"),
    _may("ResourceId"),
    _may("ResourceName"),
    _may("ResourceType"),
    _must("ServiceCategory", allowed=("AI and Machine Learning", "Compute")),
    _must("ServiceName"),
    _must("ServiceProviderName", versions=_NEW),
    _should("ServiceSubcategory", nullable=False),
    _may("SkuId"),
    _may("SkuMeter"),
    _may("SkuPriceDetails", type=_JSON),
    _may("SkuPriceId"),
    _may("SubAccountId"),
    _may("SubAccountName"),
    _may("SubAccountType"),
    _may("Tags", type=_JSON),
    _own("x_AllocationEpoch", Type.INTEGER),
    _own("x_ChargeId", Type.INTEGER, nullable=False),
    _own("x_ChargeKind", nullable=False),
    _own("x_ChargeUrl", nullable=False),
    _own("x_ClaimUid"),
    _own("x_ClusterName"),
    _own("x_CorrectsChargeId", Type.INTEGER),
    _own("x_CorrectsInvoiceId"),
    _own("x_CostCentre"),
    _own("x_DeviceClassName"),
    _own("x_DriverName"),
    _own("x_EndSource"),
    _own("x_EndUncertaintyMicroseconds", Type.INTEGER),
    _own("x_ExactCostDenominator"),
    _own("x_ExactCostNumerator"),
    _own("x_ExactPeriodEnd", nullable=False),
    _own("x_ExactPeriodStart", nullable=False),
    _own("x_ExactQuantity"),
    _own("x_HardwareId"),
    _own("x_NodePoolName"),
    _own("x_Note"),
    _own("x_PriceVersionId", Type.INTEGER),
    _own("x_PriceVersionName"),
    _own("x_ProjectName"),
    _own("x_Provisional", Type.BOOLEAN, nullable=False),
    _own("x_RequestKey"),
    _own("x_StartSource"),
    _own("x_StartUncertaintyMicroseconds", Type.INTEGER),
    _own("x_StatementState", nullable=False),
    _own("x_Unpriced", Type.BOOLEAN, nullable=False),
    _own("x_Use"),
)


def columns(version: str) -> tuple[Column, ...]:
    """The columns of a version, in the order in which files have them."""
    return tuple(column for column in _ALL if version in column.versions)


def named(version: str) -> dict[str, Column]:
    return {column.name: column for column in columns(version)}


def schema_id(version: str) -> str:
    """Another one whenever anything about the columns of a version is another."""
    told = repr([(c.name, c.type.value, c.nullable, c.scale) for c in columns(version)])
    return f"claimdesk-{version}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"


def arrow_schema(version: str) -> "pa.Schema":
    """The columns as Parquet has them. JSON and exact integers of any size are strings."""
    fields = [pa.field(c.name, _arrow_type(c), nullable=c.nullable) for c in columns(version)]
    return pa.schema(fields, metadata={"focus.version": version, "focus.schema": schema_id(version)})


def _arrow_type(column: Column) -> "pa.DataType":
    if column.type is Type.DECIMAL:
        return pa.decimal128(PRECISION, column.scale)
    if column.type is Type.DATETIME:
        return pa.timestamp("us", tz="UTC")
    return {Type.INTEGER: pa.int64(), Type.BOOLEAN: pa.bool_()}.get(column.type, pa.string())
