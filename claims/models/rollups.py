"""Charges of a month added up by day, so that questions about whole days need not look at each of them."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from claims.models.charges import Charge, FractionField
from inventory.models import Cluster
from portal.accounts.models import Project, User


class ChargeMonth(models.Model):
    """Whether what `ChargeDay` has of a month is what its charges come to. Who writes charges of a month
    bumps `version` in the same transaction; who adds them up says so only if it is still the same."""

    month = models.CharField(max_length=7, unique=True)
    version = models.BigIntegerField(default=0)
    fresh = models.BooleanField(default=False)
    # Whose days they are.
    zone = models.CharField(max_length=64, blank=True)

    def __str__(self) -> str:
        return self.month


class ChargeDay(models.Model):
    """Charges of one day at one rate, of what has all of this in common: for how long together."""

    month = models.CharField(max_length=7)
    # "2026-11-30", in the zone of its month.
    day = models.CharField(max_length=10)
    kind = models.CharField(max_length=10, choices=Charge.Kind.choices)
    project = models.ForeignKey(Project, models.PROTECT, null=True, related_name="+", db_index=False)
    cost_centre = models.CharField(max_length=40, blank=True)
    person = models.ForeignKey(User, models.PROTECT, null=True, related_name="+", db_index=False)
    cluster = models.ForeignKey(Cluster, models.PROTECT, null=True, related_name="+", db_index=False)
    device_class = models.CharField(max_length=253, blank=True)
    product = models.CharField(max_length=128, blank=True)
    profile_digest = models.CharField(max_length=64, blank=True)
    unit = models.CharField(max_length=8)
    per = models.CharField(max_length=32, blank=True)
    currency = models.CharField(max_length=3, blank=True)
    list_micros = models.BigIntegerField(null=True)
    discount_micros = models.IntegerField(default=0)
    quantity = FractionField()
    # Microseconds.
    time = models.BigIntegerField()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(time__gt=0), name="charge_day_of_some_time")
        ]
        indexes: ClassVar = [
            models.Index(fields=["month", "project"], name="charge_days_by_project"),
            models.Index(fields=["month", "day"], name="charge_days_by_day"),
        ]

    def __str__(self) -> str:
        return f"{self.day} {self.product}"
