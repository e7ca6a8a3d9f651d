"""Price books: what a device-hour costs, with versions in time."""

from typing import ClassVar

from django.db import models
from django.db.models import Q


class PriceBook(models.Model):
    """All prices that hold from `valid_from` until the next book starts."""

    name = models.CharField(max_length=80)
    currency = models.CharField(max_length=3, help_text="ISO 4217")
    valid_from = models.DateTimeField(unique=True)

    def __str__(self) -> str:
        return self.name


class Price(models.Model):
    """Price per device-hour of a DeviceClass, of a product, or (both empty) of everything else.
    The most specific row wins: class and product, product, class, else."""

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
