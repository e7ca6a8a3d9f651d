"""A followed cluster, how far each of its resources has been followed, and what went wrong."""

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _


class Cluster(models.Model):
    """One Kubernetes API server that the desk follows."""

    class Credentials(models.TextChoices):
        IN_CLUSTER = "in-cluster", _("the portal's own service account")
        KUBECONFIG = "kubeconfig", _("a kubeconfig file on the portal's disk")
        STORED = "stored", _("a kubeconfig stored encrypted")

    class State(models.TextChoices):
        NEW = "new", _("not contacted yet")
        SYNCED = "synced", _("in step")
        SYNCING = "syncing", _("first lists are running")
        UNREACHABLE = "unreachable", _("cannot be reached")
        REFUSED = "refused", _("credentials refused")
        MISCONFIGURED = "misconfigured", _("credentials cannot be read")
        DISABLED = "disabled", _("not followed")

    name = models.SlugField(max_length=63, unique=True)
    region = models.CharField(max_length=63, blank=True)
    credentials = models.CharField(max_length=12, choices=Credentials.choices)
    kubeconfig_path = models.CharField(max_length=1000, blank=True)
    kubeconfig_context = models.CharField(max_length=253, blank=True)
    # Fernet token of the kubeconfig text; never shown, never logged.
    kubeconfig_encrypted = models.BinaryField(null=True, blank=True)
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField()

    # What the last contact told.
    api_url = models.CharField(max_length=500, blank=True)
    server_version = models.CharField(max_length=40, blank=True)
    # uid of the namespace kube-system: another uid behind the same address is another (or a restored)
    # cluster.
    uid = models.CharField(max_length=64, blank=True)
    # Which version of each resource it serves: {"resourceslices": "resource.k8s.io/v1"}.
    served = models.JSONField(default=dict)
    # What our account may not do, though the desk needs it: ["list pods", "create resourceclaims"].
    missing_permissions = models.JSONField(default=list)
    state = models.CharField(max_length=14, choices=State.choices, default=State.NEW)
    # Why the state is not `synced`, for people; empty while all is well.
    message = models.CharField(max_length=2000, blank=True)
    contacted_at = models.DateTimeField(null=True, blank=True)
    # Cluster clock minus ours, from the Date header, in microseconds.
    clock_skew_us = models.BigIntegerField(null=True, blank=True)

    # The lease that makes one follower the only writer.
    lease_holder = models.CharField(max_length=120, blank=True)
    lease_expires_at = models.DateTimeField(null=True, blank=True)
    # Counts the transactions that changed the mirror: the version of what `inventory.snapshot` caches.
    mirror_version = models.BigIntegerField(default=0)
    # The same, counting only what changes which devices there are and where: slices, classes, usable nodes.
    fleet_version = models.BigIntegerField(default=0)
    # Set by "sync now"; the follower lists again when it is later than the last full list.
    relist_requested_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return self.name


class Stream(models.Model):
    """How far one resource of one cluster has been followed: the checkpoint that is saved in the same
    transaction as the rows it produced."""

    class State(models.TextChoices):
        NEW = "new", _("not listed yet")
        LISTING = "listing", _("listing")
        WATCHING = "watching", _("watching")
        FAILED = "failed", _("failing")
        NOT_PERMITTED = "not-permitted", _("not permitted")
        NOT_SERVED = "not-served", _("not served by this cluster")

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="streams")
    # Plural resource name as in the API path, e.g. "resourceslices".
    resource = models.CharField(max_length=63)
    # As discovered, e.g. "resource.k8s.io/v1".
    api_version = models.CharField(max_length=63, blank=True)
    resource_version = models.CharField(max_length=63, blank=True)
    state = models.CharField(max_length=14, choices=State.choices, default=State.NEW)
    message = models.CharField(max_length=2000, blank=True)
    listed_at = models.DateTimeField(null=True, blank=True)
    # Any line of the watch, bookmarks included: proof that the stream was alive then.
    heard_at = models.DateTimeField(null=True, blank=True)
    object_count = models.BigIntegerField(default=0)
    # When an object last came (listed or watched), and how long it then took from its arrival to its row.
    event_at = models.DateTimeField(null=True, blank=True)
    lag_us = models.BigIntegerField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "resource"], name="one_stream_per_resource")
        ]

    def __str__(self) -> str:
        return f"{self.cluster}/{self.resource}"

    @property
    def lag_seconds(self) -> float | None:
        """The lag for people; None where none was measured."""
        return None if self.lag_us is None else self.lag_us / 1_000_000


class SyncProblem(models.Model):
    """One object that could not be mirrored, with the path and the reason; gone once it can be."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="problems")
    resource = models.CharField(max_length=63)
    namespace = models.CharField(max_length=63, blank=True)
    name = models.CharField(max_length=253)
    path = models.CharField(max_length=500, blank=True)
    reason = models.CharField(max_length=2000)
    seen_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cluster", "resource", "namespace", "name"], name="one_problem_per_object"
            )
        ]

    def __str__(self) -> str:
        return f"{self.resource} {self.name}: {self.reason}"
