"""Hardware that is published under several names."""

from typing import ClassVar

from django.db import models

from inventory.models.clusters import Cluster
from inventory.models.devices import Device


class Twin(models.Model):
    """A device whose piece of hardware is published under another name, too (see `inventory.linking`). Most
    devices have none."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+")
    device = models.OneToOneField(Device, models.CASCADE, related_name="twin")
    # The same for all names of the piece: the lowest key among its devices.
    piece = models.BigIntegerField()
    # Whether this name stands for the piece where hardware is counted; one of them does, the one that is
    # most in use.
    counts = models.BooleanField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["cluster", "piece"], name="twins_of_piece")]

    def __str__(self) -> str:
        return f"{self.device_id} of {self.piece}"
