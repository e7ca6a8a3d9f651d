"""How busy the device of an allocation was while it was held, as far as that was measured."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from claims.models.ledger import Allocation
from inventory.models import Cluster


class AllocationUse(models.Model):
    """Added up slot by slot as they are measured. Of a device that several share it is the use of the whole
    device: what each of them does is not measured."""

    allocation = models.OneToOneField(Allocation, models.CASCADE, related_name="use")
    # As it was when counting began: where the ledger learns better, counting begins anew.
    started_at = models.DateTimeField()
    # What was measured up to here is in the sums.
    counted_to = models.DateTimeField()
    # Minutes that were measured; the sum of what they were and the highest, in percent.
    minutes = models.PositiveIntegerField(default=0)
    total = models.FloatField(default=0)
    highest = models.FloatField(default=0)
    # It ended, and everything that was measured is in.
    final = models.BooleanField(default=False)

    # How long it has now been used less than `low_percent`, without a longer pause of measuring in between.
    low_percent = models.PositiveSmallIntegerField(default=0)
    low_minutes = models.PositiveIntegerField(default=0)
    low_total = models.FloatField(default=0)
    low_since = models.DateTimeField(null=True)
    low_until = models.DateTimeField(null=True)
    told_at = models.DateTimeField(null=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["allocation"], condition=Q(final=False), name="use_goes_on"),
        ]

    def __str__(self) -> str:
        return f"{self.allocation_id}: {self.minutes} min"


class UseCursor(models.Model):
    """Up to when the use of a cluster's allocations has been added up."""

    cluster = models.OneToOneField(Cluster, models.CASCADE, related_name="use_cursor")
    until = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.cluster}: {self.until}"
