"""Whose a namespace is, and was."""

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from inventory.models.clusters import Cluster
from portal.accounts.models import Project


class NamespaceBinding(models.Model):
    """A namespace of a cluster belongs to a project for the half-open period [valid_from, valid_until).
    At any instant a namespace belongs to one project at most: `inventory.bindings.bind` checks it, and the
    database refuses two periods that overlap (an exclusion constraint on PostgreSQL, triggers on SQLite)."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="bindings")
    namespace = models.CharField(max_length=63)
    project = models.ForeignKey(Project, models.PROTECT, related_name="bindings")
    valid_from = models.DateTimeField()
    valid_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cluster", "namespace"],
                condition=Q(valid_until=None),
                name="one_open_binding_per_namespace",
            ),
            models.CheckConstraint(
                condition=Q(valid_until=None) | Q(valid_until__gt=F("valid_from")),
                name="binding_period_not_empty",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.cluster}/{self.namespace} → {self.project}"
