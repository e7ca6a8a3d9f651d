"""Charges: what each stretch of use at one price costs, and which cost centre a project belongs to when."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any, ClassVar

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from claims.models.prices import PriceBook
from inventory.models import Cluster
from portal import money
from portal.accounts.models import Project, User

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class FractionField(models.CharField):  # type: ignore[type-arg] # no subscript at run time
    """An exact number: numerator and denominator as integers of any size, "3/8"."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"max_length": 120, **kwargs})

    def from_db_value(self, value: str | None, *_args: Any) -> Fraction | None:
        return None if value is None else Fraction(value)

    def to_python(self, value: Any) -> Fraction | None:
        return None if value is None else Fraction(value)

    def get_prep_value(self, value: Any) -> str | None:
        return None if value is None else str(Fraction(value))


class CostCentre(models.Model):
    """A project belongs to a cost centre from `valid_from` until before `valid_until`."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="cost_centres")
    code = models.CharField(max_length=40, blank=True)
    valid_from = models.DateTimeField()
    valid_until = models.DateTimeField(null=True, blank=True)
    recorded_at = models.DateTimeField()
    recorded_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "valid_from"], name="one_cost_centre_at_once"),
            models.CheckConstraint(
                condition=Q(valid_until=None) | Q(valid_until__gt=F("valid_from")),
                name="cost_centre_period_not_empty",
            ),
        ]

    def __str__(self) -> str:
        return self.code or "–"


class Charge(models.Model):
    """A stretch of time at one rate, of one use of a device; or a fixed amount.

    What a use costs is list price × (1 − discount) × quantity × microseconds, all of them kept as integers:
    so that a stretch may be cut anywhere, and its parts come to the whole."""

    class Kind(models.TextChoices):
        USAGE = "usage", _("use")
        IDLE = "idle", _("idle time, on the operator's account")
        SHARED = "shared", _("part of the idle time, passed on")
        CORRECTION = "correction", _("correction of a closed month")
        CREDIT = "credit", _("credit note")
        ADJUSTMENT = "adjustment", _("adjustment")

    kind = models.CharField(max_length=10, choices=Kind.choices, default=Kind.USAGE)
    # What it is for: a digest of the natural key of the ledger's interval (or of the device that was idle).
    # The ledger's own numbers change when it is folded anew.
    source = models.CharField(max_length=64)
    # The month that it is billed in, in the organisation's time zone: "2026-11".
    month = models.CharField(max_length=7)
    started_us = models.BigIntegerField()
    # While it still runs: when its rate or its month ends at the latest.
    ended_us = models.BigIntegerField()

    # Who pays.
    project = models.ForeignKey(Project, models.PROTECT, null=True, related_name="charges")
    cost_centre = models.CharField(max_length=40, blank=True)
    person = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")

    # What it was.
    cluster = models.ForeignKey(Cluster, models.PROTECT, null=True, related_name="+")
    claim_uid = models.CharField(max_length=64, blank=True)
    epoch = models.IntegerField(default=0)
    driver = models.CharField(max_length=63, blank=True)
    pool_name = models.CharField(max_length=253, blank=True)
    device_name = models.CharField(max_length=253, blank=True)
    hardware_id = models.CharField(max_length=128, blank=True)
    device_class = models.CharField(max_length=253, blank=True)
    product = models.CharField(max_length=128, blank=True)
    profile_digest = models.CharField(max_length=64, blank=True)
    resource = models.CharField(max_length=317, blank=True)
    use = models.CharField(max_length=6, default="held")

    # The rate. No book or no list price = nothing has a price for it.
    book = models.ForeignKey(PriceBook, models.PROTECT, null=True, related_name="+")
    # Position of the book's rule; None = its price list.
    rule = models.PositiveIntegerField(null=True)
    currency = models.CharField(max_length=3, blank=True)
    unit = models.CharField(max_length=8, default="device")
    per = models.CharField(max_length=32, blank=True)
    quantity = FractionField()
    # Millionths of a currency unit per unit and hour, and millionths of that taken off.
    list_micros = models.BigIntegerField(null=True)
    discount_micros = models.IntegerField(default=0)
    # An amount that no time makes, in currency units.
    fixed = FractionField(null=True)
    # What it corrects, or whose idle time it passes on.
    origin = models.ForeignKey("self", models.PROTECT, null=True, related_name="followed_by")
    note = models.CharField(max_length=500, blank=True)

    # Of everything above: rated again, what is the same is left alone.
    content = models.CharField(max_length=64)
    # Its month is closed: it never changes again.
    closed = models.BooleanField(default=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["source", "kind", "month", "started_us", "project"], name="charge_natural_key"
            ),
            models.UniqueConstraint(
                fields=["source", "kind", "month", "started_us"],
                condition=Q(project=None),
                name="charge_natural_key_of_nobody",
            ),
            models.CheckConstraint(condition=Q(ended_us__gte=F("started_us")), name="charge_not_negative"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["project", "month"], name="charge_by_project"),
            models.Index(fields=["month", "kind"], name="charge_by_month"),
            models.Index(fields=["started_us", "id"], name="charge_by_time"),
            # Amounts that no time makes are few.
            models.Index(
                fields=["started_us"], condition=Q(fixed__isnull=False), name="charge_fixed_by_time"
            ),
            # All that hours of one project are made of: its charges lie far apart in the table.
            models.Index(
                fields=[
                    *("project", "month", "started_us", "ended_us", "unit", "per", "currency"),
                    *("list_micros", "discount_micros", "quantity", "fixed"),
                ],
                name="charge_of_project_in_time",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.product or self.device_class} {self.month}"

    @property
    def start(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self.started_us)

    @property
    def end(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self.ended_us)

    @property
    def list_price(self) -> Decimal | None:
        """Per unit and hour, before the discount."""
        return None if self.list_micros is None else Decimal(self.list_micros).scaleb(-6)

    def amount(self, *, start_us: int | None = None, end_us: int | None = None) -> Fraction | None:
        """The exact amount of its part within [start_us, end_us); None = it has no price. A fixed amount is
        whole or not at all."""
        return amount(
            fixed=self.fixed,
            list_micros=self.list_micros,
            discount_micros=self.discount_micros,
            quantity=self.quantity,
            microseconds=self.microseconds(start_us=start_us, end_us=end_us),
        )

    def microseconds(self, *, start_us: int | None = None, end_us: int | None = None) -> int:
        """How long it is within the bounds."""
        begins = self.started_us if start_us is None else max(self.started_us, start_us)
        ends = self.ended_us if end_us is None else min(self.ended_us, end_us)
        return max(0, ends - begins)


def amount(
    *,
    fixed: Fraction | None,
    list_micros: int | None,
    discount_micros: int,
    quantity: Fraction,
    microseconds: int,
) -> Fraction | None:
    """What so much time at a rate costs, exactly, in currency units; None = no price."""
    if fixed is not None:
        return fixed
    if list_micros is None:
        return None
    whole = list_micros * (1_000_000 - discount_micros) * microseconds * quantity.numerator
    return Fraction(whole, 10**12 * money.MICROSECONDS_PER_HOUR * quantity.denominator)
