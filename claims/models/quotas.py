"""Quotas: how much a project may have, and the ResourceQuotas by which clusters enforce it too."""

import uuid
from datetime import datetime
from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from claims.models.catalogue import Flavor
from inventory.models import Cluster
from portal.accounts.models import Project, User


class QuotaQuerySet(models.QuerySet["Quota"]):
    def visible_to(self, user: User) -> "QuotaQuerySet":
        """Quotas of projects that `user` knows."""
        return self.filter(project__in=Project.objects.all().visible_to(user))

    def holding(self, at: datetime) -> "QuotaQuerySet":
        """Those in force at an instant."""
        return self.filter(Q(valid_until=None) | Q(valid_until__gt=at), valid_from__lte=at)


class Quota(models.Model):
    """How much of a flavor (or of everything) a project may have. Never deleted: one that no longer holds has
    an end."""

    class Kind(models.TextChoices):
        DEVICES = "devices", _("devices at once")
        MEMORY = "memory", _("device memory at once")
        HOURS = "device-hours", _("device-hours in a calendar month")
        MONEY = "money", _("money in a calendar month")

    class Action(models.TextChoices):
        NOTIFY = "notify", _("notify")
        BLOCK = "block", _("refuse new requests")
        RELEASE = "release", _("refuse new requests, and release the newest")

    key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, models.PROTECT, related_name="quotas")
    # Null = everything that the project has.
    flavor = models.ForeignKey(Flavor, models.PROTECT, null=True, blank=True, related_name="quotas")
    kind = models.CharField(max_length=12, choices=Kind.choices)
    # Exact, as it is written: a whole number of devices, a Kubernetes quantity, decimal hours or money.
    limit = models.CharField(max_length=32)
    # ISO 4217, of money; else "".
    currency = models.CharField(max_length=3, blank=True)
    action = models.CharField(max_length=7, choices=Action.choices)
    # Whether clusters enforce it too, by a ResourceQuota in each of the project's namespaces.
    enforced = models.BooleanField(default=False)
    valid_from = models.DateTimeField()
    valid_until = models.DateTimeField(null=True, blank=True)
    note = models.CharField(max_length=500, blank=True)

    # Since when the project is over it, so that each crossing is told once; null = it is not.
    over_since = models.DateTimeField(null=True, blank=True)

    # Counts changes: who saves an older one is told of the conflict.
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    changed_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")

    objects = QuotaQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(valid_until=None) | Q(valid_until__gte=F("valid_from")),
                name="quota_validity_in_order",
            ),
            models.CheckConstraint(
                condition=Q(kind="money") & ~Q(currency="") | ~Q(kind="money") & Q(currency=""),
                name="quota_currency_with_money",
            ),
            # Clusters count devices alone.
            models.CheckConstraint(
                condition=Q(enforced=False) | Q(kind="devices"), name="quota_enforced_in_devices"
            ),
        ]
        indexes: ClassVar = [models.Index(fields=["project", "valid_from"], name="quotas_of_project")]

    def __str__(self) -> str:
        return f"{self.project}: {self.limit} {self.currency or self.kind}"


class QuotaObject(models.Model):
    """A ResourceQuota that the desk keeps in a namespace: of a quota, or of the namespace's entitlements to
    units of a Device Plugin."""

    class State(models.TextChoices):
        DUE = "due", _("being written")
        WRITTEN = "written", _("on the cluster")
        DRIFT = "drift", _("changed on the cluster by others")
        REFUSED = "refused", _("the cluster refused it")
        NAME_TAKEN = "name-taken", _("an object that the desk did not make has its name")

    # Null = entitlements.
    quota = models.ForeignKey(Quota, models.PROTECT, null=True, related_name="objects_on_clusters")
    project = models.ForeignKey(Project, models.PROTECT, related_name="+")
    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+")
    namespace = models.CharField(max_length=63)
    name = models.CharField(max_length=63)
    # spec.hard: key → amount. Empty = it shall go; the row goes with it.
    wanted = models.JSONField(default=dict)
    # spec.hard as the desk wrote it last; empty = never yet.
    written = models.JSONField(default=dict)
    written_at = models.DateTimeField(null=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.DUE)
    # What is on the cluster instead, or what it said.
    message = models.TextField(blank=True)
    # When to write or look next; null = nothing to do.
    due_at = models.DateTimeField(null=True)
    attempts = models.PositiveIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "namespace", "name"], name="one_object_of_the_desk")
        ]
        indexes: ClassVar = [models.Index(fields=["due_at"], name="quota_objects_due")]

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
