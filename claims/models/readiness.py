"""Somebody's word for a point of a cluster's readiness that the desk cannot see for itself."""

from typing import ClassVar

from django.db import models

from inventory.models import Cluster
from portal.accounts.models import User


class ReadinessNote(models.Model):
    """A signed note: never changed. The latest one of a point counts; with `settled` false it takes back the
    one before."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+")
    # One of `claims.readiness.points.POINTS`.
    point = models.CharField(max_length=40)
    settled = models.BooleanField(default=True)
    note = models.CharField(max_length=1000)
    person = models.ForeignKey(User, models.PROTECT, related_name="+")
    at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["cluster", "point", "-at"], name="readiness_notes")]

    def __str__(self) -> str:
        return f"{self.point} of {self.cluster}"
