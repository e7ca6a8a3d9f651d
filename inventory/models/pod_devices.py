"""Which Pods have which devices of Device Plugins, as nodes and metrics tell; and the tokens of nodes."""

from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from inventory.models.clusters import Cluster
from portal.accounts.models import User


class PodDeviceNode(models.Model):
    """One source that tells of one node, and what its latest report was. For a collector it is there from its
    first token on, whether or not the mirror knows a node of this name."""

    class Source(models.TextChoices):
        PODRESOURCES = "podresources", _("the kubelet (PodResources)")
        DCGM = "dcgm", _("metrics of the DCGM exporter")

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="pod_device_nodes")
    name = models.CharField(max_length=253)
    source = models.CharField(max_length=12, choices=Source.choices, default=Source.PODRESOURCES)
    created_at = models.DateTimeField()

    # The latest report; null before the first.
    received_at = models.DateTimeField(null=True)
    # By the node's clock: an older report never replaces a newer one.
    sent_at = models.DateTimeField(null=True)
    # When it was so, by the node's clock, but never ahead of ours nor behind the report before.
    seen_at = models.DateTimeField(null=True)
    # Since when reports came without a silence between them.
    reporting_since = models.DateTimeField(null=True)
    changed_at = models.DateTimeField(null=True)
    # SHA-256 of what the report says, without its times.
    digest = models.CharField(max_length=64, blank=True)
    # Within which time the next report is due.
    interval_seconds = models.IntegerField(default=0)
    # The node's clock minus ours.
    clock_skew_ms = models.BigIntegerField(null=True)
    # Its version.
    collector = models.CharField(max_length=40, blank=True)

    # Why the last report that was refused was, until one is accepted.
    refused_at = models.DateTimeField(null=True)
    refusal = models.CharField(max_length=40, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "name", "source"], name="one_pod_device_node_per_name")
        ]

    def __str__(self) -> str:
        return f"{self.cluster}/{self.name}"


class PodDeviceToken(models.Model):
    """What one node's collector proves itself with; only its digest is stored."""

    node = models.ForeignKey(PodDeviceNode, models.CASCADE, related_name="tokens")
    # SHA-256 of the token, which has 256 random bits: nothing to guess, so nothing to slow down.
    digest = models.CharField(max_length=64, unique=True)
    # How people tell tokens apart.
    prefix = models.CharField(max_length=16)
    # None: issued by a command on the portal's host.
    created_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(expires_at__gt=F("created_at")), name="pod_device_token_lives")
        ]

    def __str__(self) -> str:
        return f"{self.prefix}…"


class PodDevice(models.Model):
    """One device that one container was seen to have, in reports that followed each other without silence.

    It was there at all times from `first_seen_at` to `last_seen_at`, both seen. It began after `earliest_at`
    and had ended by `gone_at`, when reports without it came; where these are null, nobody looked.
    """

    node = models.ForeignKey(PodDeviceNode, models.CASCADE, related_name="devices")
    # The node's: what is searched by comes without joining.
    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+", db_index=False)
    namespace = models.CharField(max_length=63)
    pod_name = models.CharField(max_length=253)
    # "" where the mirror had no such Pod on this node: the kubelet tells names only.
    pod_uid = models.CharField(max_length=64, blank=True)
    container = models.CharField(max_length=63)
    # "nvidia.com/gpu"; "" where the source does not tell.
    resource = models.CharField(max_length=317, blank=True)
    # As the source has it: "GPU-8a10b6f7-…::3", "0000:0b:00.0".
    device_id = models.CharField(max_length=255)
    # What names the piece, in the form of `Device.hardware_id`.
    hardware_id = models.CharField(max_length=128)
    # Which part of the piece, where the source names the whole: "MIG 1g.5gb #7".
    part = models.CharField(max_length=63, blank=True)
    # NUMA nodes that it is near to.
    numa = models.JSONField(default=list)

    earliest_at = models.DateTimeField(null=True)
    first_seen_at = models.DateTimeField()
    # Null while the latest report has it.
    last_seen_at = models.DateTimeField(null=True)
    gone_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["node", "namespace", "pod_name", "container", "resource", "device_id", "part"],
                condition=Q(last_seen_at=None),
                name="one_pod_device_at_a_time",
            ),
            models.CheckConstraint(
                condition=Q(last_seen_at=None) | Q(last_seen_at__gte=F("first_seen_at")),
                name="pod_device_not_negative",
            ),
            models.CheckConstraint(
                condition=Q(gone_at=None) | Q(gone_at__gte=F("last_seen_at")), name="pod_device_gone_after"
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["cluster", "pod_uid"], name="pod_device_by_pod"),
            models.Index(fields=["hardware_id", "first_seen_at"], name="pod_device_by_piece"),
            models.Index(fields=["node"], condition=Q(last_seen_at=None), name="pod_device_open"),
        ]

    def __str__(self) -> str:
        return f"{self.device_id} of {self.namespace}/{self.pod_name}"
