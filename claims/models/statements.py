"""Statements: a project's month, from open over review to closed; and what happens to it beside the charges:
adjustments, disputes, totals of the ledger of the house, budgets."""

from decimal import Decimal
from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _
from django.utils.translation import pgettext_lazy

from claims.models.charges import Charge, FractionField
from portal import money
from portal.accounts.models import Project, User


class Statement(models.Model):
    """A month of one project (None = what nobody is known to pay for, and idle time)."""

    class State(models.TextChoices):
        OPEN = "open", pgettext_lazy("statement", "open")
        REVIEW = "review", _("in review")
        CLOSED = "closed", _("closed")

    project = models.ForeignKey(Project, models.PROTECT, null=True, related_name="statements")
    # "2026-11", in this IANA time zone; and when that is.
    month = models.CharField(max_length=7)
    zone = models.CharField(max_length=64)
    starts_at = models.DateTimeField()
    ends_at = models.DateTimeField()
    state = models.CharField(max_length=6, choices=State.choices, default=State.OPEN)
    reviewed_at = models.DateTimeField(null=True)
    reviewed_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    closed_at = models.DateTimeField(null=True)
    closed_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    # SHA-256 over the lines and the charges, kept on closing.
    digest = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "month"], name="one_statement_a_month"),
            models.UniqueConstraint(
                fields=["month"], condition=Q(project=None), name="one_statement_a_month_of_nobody"
            ),
            models.CheckConstraint(
                condition=Q(state="closed", closed_at__isnull=False) & ~Q(digest="") | ~Q(state="closed"),
                name="statement_closed_with_digest",
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["month", "state"])]

    def __str__(self) -> str:
        return f"{self.month} {self.project.slug if self.project else '–'}"


class StatementLine(models.Model):
    """What charges of one kind at one price came to; the lines of a currency add up to its total."""

    statement = models.ForeignKey(Statement, models.CASCADE, related_name="lines")
    position = models.PositiveIntegerField()
    kind = models.CharField(max_length=10, choices=Charge.Kind.choices)
    cost_centre = models.CharField(max_length=40, blank=True)
    device_class = models.CharField(max_length=253, blank=True)
    product = models.CharField(max_length=128, blank=True)
    use = models.CharField(max_length=6, blank=True)
    unit = models.CharField(max_length=8)
    per = models.CharField(max_length=32, blank=True)
    currency = models.CharField(max_length=3, blank=True)
    list_micros = models.BigIntegerField(null=True)
    discount_micros = models.IntegerField(default=0)
    # Units × microseconds, and the amount in currency units; None = no price.
    time = FractionField()
    exact = FractionField(null=True)
    # Rounded, in whole minor units of the currency.
    minor = models.BigIntegerField(null=True)
    note = models.CharField(max_length=500, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["statement", "position"], name="one_line_per_position")
        ]

    def __str__(self) -> str:
        return f"{self.position}. {self.product or self.device_class}"

    @property
    def amount(self) -> Decimal | None:
        return None if self.minor is None else money.from_minor_units(self.minor, currency=self.currency)


class Adjustment(models.Model):
    """A credit note or an adjustment by hand; it counts once a second person has agreed."""

    class State(models.TextChoices):
        PROPOSED = "proposed", _("waits for a second person")
        APPROVED = "approved", _("approved")
        REJECTED = "rejected", _("rejected")

    project = models.ForeignKey(Project, models.PROTECT, related_name="adjustments")
    month = models.CharField(max_length=7)
    # A credit is negative, what is owed in addition is positive.
    minor = models.BigIntegerField()
    currency = models.CharField(max_length=3)
    reason = models.CharField(max_length=500)
    # What it makes good.
    refers_to = models.ForeignKey(Statement, models.PROTECT, null=True, related_name="adjustments")
    proposed_at = models.DateTimeField()
    proposed_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    state = models.CharField(max_length=8, choices=State.choices, default=State.PROPOSED)
    decided_at = models.DateTimeField(null=True)
    decided_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    decision_note = models.CharField(max_length=500, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=~Q(minor=0), name="adjustment_of_something"),
            models.CheckConstraint(
                condition=Q(decided_by=None) | ~Q(decided_by=models.F("proposed_by")),
                name="adjustment_by_two_people",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.project} {self.month}: {self.amount} {self.currency}"

    @property
    def amount(self) -> Decimal:
        return money.from_minor_units(self.minor, currency=self.currency)


class Dispute(models.Model):
    """Somebody of the project does not agree with a charge."""

    class State(models.TextChoices):
        OPEN = "open", _("open")
        ACCEPTED = "accepted", _("accepted")
        REJECTED = "rejected", _("rejected")
        WITHDRAWN = "withdrawn", _("withdrawn")

    project = models.ForeignKey(Project, models.PROTECT, related_name="disputes")
    charge = models.ForeignKey(Charge, models.PROTECT, related_name="disputes")
    state = models.CharField(max_length=9, choices=State.choices, default=State.OPEN)
    opened_at = models.DateTimeField()
    opened_by = models.ForeignKey(User, models.PROTECT, related_name="+")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["charge"], condition=Q(state="open"), name="one_open_dispute_per_charge"
            )
        ]

    def __str__(self) -> str:
        return f"#{self.pk}"


class DisputeEntry(models.Model):
    """One step of a dispute's course; append-only."""

    dispute = models.ForeignKey(Dispute, models.PROTECT, related_name="entries")
    at = models.DateTimeField()
    by = models.ForeignKey(User, models.PROTECT, related_name="+")
    # What the dispute is from here on.
    state = models.CharField(max_length=9, choices=Dispute.State.choices)
    text = models.CharField(max_length=1000)

    def __str__(self) -> str:
        return self.text


class BookedTotal(models.Model):
    """What the ledger of the house (ERP) has booked for a project's month."""

    project = models.ForeignKey(Project, models.PROTECT, related_name="+")
    month = models.CharField(max_length=7)
    currency = models.CharField(max_length=3)
    minor = models.BigIntegerField()
    imported_at = models.DateTimeField()
    imported_by = models.ForeignKey(User, models.PROTECT, related_name="+")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "month", "currency"], name="one_booked_total")
        ]

    def __str__(self) -> str:
        return f"{self.project} {self.month}"


class Budget(models.Model):
    """What a project means to spend in a month."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="budgets")
    currency = models.CharField(max_length=3)
    minor = models.BigIntegerField()
    # Percentages at which its leads are told.
    thresholds = models.JSONField(default=list)
    # Whether new requests are refused once it is spent.
    blocks = models.BooleanField(default=False)
    changed_at = models.DateTimeField()
    changed_by = models.ForeignKey(User, models.PROTECT, related_name="+")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["project", "currency"], name="one_budget_per_currency"),
            models.CheckConstraint(condition=Q(minor__gt=0), name="budget_positive"),
        ]

    def __str__(self) -> str:
        return f"{self.project}: {self.amount} {self.currency}"

    @property
    def amount(self) -> Decimal:
        return money.from_minor_units(self.minor, currency=self.currency)


class BudgetAlert(models.Model):
    """A threshold was passed in a month; told once."""

    budget = models.ForeignKey(Budget, models.CASCADE, related_name="alerts")
    month = models.CharField(max_length=7)
    threshold = models.PositiveIntegerField()
    told_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["budget", "month", "threshold"], name="told_once_a_month")
        ]

    def __str__(self) -> str:
        return f"{self.budget} {self.threshold} %"
