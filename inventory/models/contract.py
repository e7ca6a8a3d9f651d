"""The platform contract of a cluster, and which versions were seen on it over time."""

from typing import ClassVar

from django.db import models

from inventory.models.clusters import Cluster
from portal.accounts.models import User


class PlatformContract(models.Model):
    """What a cluster is expected to run. Expectations are version ranges (`inventory.contract`); an empty
    one expects nothing."""

    cluster = models.OneToOneField(Cluster, models.CASCADE, related_name="contract")
    # Clusters of one group are expected to agree, for example in their device classes.
    group = models.SlugField(max_length=63, blank=True)
    kubernetes = models.CharField(max_length=200, blank=True)
    kubelet = models.CharField(max_length=200, blank=True)
    runtime = models.CharField(max_length=200, blank=True)
    # {"gpu.nvidia.com": ">=580 <590"}.
    drivers = models.JSONField(default=dict)
    changed_at = models.DateTimeField()
    changed_by = models.ForeignKey(User, models.PROTECT, related_name="+")

    def __str__(self) -> str:
        return f"{self.cluster}"


class PlatformChange(models.Model):
    """The versions of one part of a platform became others. Append-only; the latest row of a part says what
    was last observed of it."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="platform_changes")
    # "kubernetes", "kubelet", "runtime", "driver:gpu.nvidia.com".
    part = models.CharField(max_length=80)
    # Sorted versions; several while a rollout is under way. None before: seen for the first time.
    before = models.JSONField(null=True)
    after = models.JSONField()
    # Noticed then; it happened since the evaluation before.
    seen_at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["cluster", "part", "seen_at"], name="platform_history")]

    def __str__(self) -> str:
        return f"{self.cluster}/{self.part}: {self.after}"
