"""Price books: what the use of devices costs, with versions in time. A book never changes once it is there:
other prices are another book, from another day on. What is still being written is a draft."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import Project, User


class PriceBook(models.Model):
    """All prices that hold from `valid_from` until the next book starts."""

    name = models.CharField(max_length=80)
    currency = models.CharField(max_length=3, help_text="ISO 4217")
    valid_from = models.DateTimeField(unique=True)
    # Why there are new prices, in the words of who published them.
    note = models.CharField(max_length=500, blank=True, default="")
    published_at = models.DateTimeField(null=True, blank=True)
    published_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")

    def __str__(self) -> str:
        return self.name


class Price(models.Model):
    """Price per device-hour of a DeviceClass, of a product, or (both empty) of everything else: for what no
    rule of the book is for. The most specific row wins: class and product, product, class, else."""

    book = models.ForeignKey(PriceBook, models.CASCADE, related_name="prices")
    device_class = models.CharField(max_length=253, blank=True)
    product = models.CharField(max_length=128, blank=True)
    # Currency units per device and hour.
    per_hour = models.DecimalField(max_digits=18, decimal_places=6)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["book", "device_class", "product"], name="one_price_per_target"),
            models.CheckConstraint(condition=Q(per_hour__gte=0), name="price_not_negative"),
        ]

    def __str__(self) -> str:
        return f"{self.device_class or self.product or '*'}: {self.per_hour}"


class PriceRule(models.Model):
    """One of a book's ordered rules; the first that is for a use gives its price."""

    class Use(models.TextChoices):
        HELD = "held", _("held")
        # Held by the desk's own Pod, or by none.
        UNUSED = "unused", _("held but not used")
        IDLE = "idle", _("idle: nobody holds it")

    class Unit(models.TextChoices):
        DEVICE = "device", _("per device and hour")
        CAPACITY = "capacity", _("per unit of capacity and hour")
        COUNTERS = "counters", _("per whole device and hour, by the partition's share of its counters")

    book = models.ForeignKey(PriceBook, models.CASCADE, related_name="rules")
    position = models.PositiveIntegerField()
    label = models.CharField(max_length=80, blank=True)
    use = models.CharField(max_length=6, choices=Use.choices, default=Use.HELD)
    # What it is for; "" = any.
    device_class = models.CharField(max_length=253, blank=True)
    product = models.CharField(max_length=128, blank=True)
    # Digest of a DeviceProfile.
    profile = models.CharField(max_length=64, blank=True)
    # An extended resource that a Device Plugin counts.
    resource = models.CharField(max_length=317, blank=True)
    # CEL over the attributes and capacities of the device's profile.
    expression = models.CharField(max_length=4000, blank=True)
    unit = models.CharField(max_length=8, choices=Unit.choices, default=Unit.DEVICE)
    # Name of the capacity that is counted, qualified by its domain; only with the unit of that name.
    capacity = models.CharField(max_length=320, blank=True)
    # How much of the capacity the price is for, such as 1Gi.
    per = models.CharField(max_length=32, blank=True)
    per_hour = models.DecimalField(max_digits=15, decimal_places=6)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["book", "position"], name="one_rule_per_position"),
            models.CheckConstraint(condition=Q(per_hour__gte=0), name="rule_price_not_negative"),
        ]

    def __str__(self) -> str:
        return self.label or f"{self.position}"


class PriceDiscount(models.Model):
    """What a project, or a group of projects (those of one cost centre), need not pay; the first that is for
    a project counts."""

    book = models.ForeignKey(PriceBook, models.CASCADE, related_name="discounts")
    position = models.PositiveIntegerField()
    project = models.ForeignKey(Project, models.PROTECT, null=True, related_name="+")
    cost_centre = models.CharField(max_length=40, blank=True)
    percent = models.DecimalField(max_digits=7, decimal_places=4)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["book", "position"], name="one_discount_per_position"),
            models.CheckConstraint(
                condition=Q(percent__gt=0) & Q(percent__lte=100), name="discount_is_a_percentage"
            ),
            models.CheckConstraint(
                condition=Q(project=None, cost_centre__gt="") | Q(project__isnull=False, cost_centre=""),
                name="discount_for_one_thing",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.project or self.cost_centre}: {self.percent} %"


class PriceDraft(models.Model):
    """A book that is being written. `document` is as `claims.money.price_terms` reads it."""

    document = models.JSONField()
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    changed_by = models.ForeignKey(User, models.PROTECT, related_name="+")

    def __str__(self) -> str:
        return str(self.document.get("name") or f"#{self.pk}")
