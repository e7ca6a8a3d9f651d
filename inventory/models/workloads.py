"""The workload side of the mirror: claims, templates, Pods that use devices, what happened to them."""

from typing import ClassVar

from django.db import models

from inventory.models.clusters import Cluster
from inventory.models.devices import Device, Mirrored


class Namespaced(Mirrored):
    namespace = models.CharField(max_length=63)
    labels = models.JSONField(default=dict)
    annotations = models.JSONField(default=dict)
    created_at = models.DateTimeField(null=True)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


class Claim(Namespaced):
    """A ResourceClaim as it is now."""

    spec = models.JSONField()
    status = models.JSONField(default=dict)
    deleted_at = models.DateTimeField(null=True, help_text="metadata.deletionTimestamp")
    allocated = models.BooleanField(default=False)
    # Which allocation of this uid it is: 1, 2, … ; 0 before the first. A claim lives through several.
    epoch = models.IntegerField(default=0)
    # When the present (or last) allocation began, as its observation says.
    allocated_at = models.DateTimeField(null=True)
    node_name = models.CharField(max_length=253, blank=True)
    # Consumers that left a moment ago and may be back before it counts: uid → {"consumer", "at", "version",
    # "uncertainty_us"}; and when the first of them left.
    leaving = models.JSONField(default=dict)
    leaving_since = models.DateTimeField(null=True, db_index=True)
    # Owner Pod of a claim made from a template or for extended resources ("" otherwise).
    owner_pod_uid = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "namespace", "name"], name="one_claim_per_name")
        ]
        indexes: ClassVar = [models.Index(fields=["cluster", "uid"])]


class ClaimDevice(models.Model):
    """One result of a claim's present allocation."""

    claim = models.ForeignKey(Claim, models.CASCADE, related_name="devices")
    # The device by name, which may not (or no longer) be published: `device` is null then.
    driver = models.CharField(max_length=63)
    pool_name = models.CharField(max_length=253)
    device_name = models.CharField(max_length=63)
    device = models.ForeignKey(Device, models.SET_NULL, null=True, related_name="holds")
    request = models.CharField(max_length=130)
    share_id = models.CharField(max_length=64, blank=True)
    admin_access = models.BooleanField(default=False)
    # {"gpu.nvidia.com/memory": "10Gi"} for shared devices.
    consumed_capacity = models.JSONField(default=dict)
    # What its driver says of this device for this claim (status.devices): conditions as in the API,
    # {"interfaceName", "hardwareAddress", "ips"}, and whatever else the driver adds.
    conditions = models.JSONField(default=list)
    network_data = models.JSONField(default=dict)
    driver_data = models.JSONField(default=dict)
    # Whether the observation of the allocation, or a later one, tells which hardware it was.
    identified = models.BooleanField(default=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["claim", "driver", "pool_name", "device_name", "share_id", "request"],
                name="one_result_per_device",
            )
        ]
        indexes: ClassVar = [models.Index(fields=["driver", "pool_name", "device_name"])]


class ClaimTemplate(Namespaced):
    # The template's inner claim spec.
    spec = models.JSONField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "namespace", "name"], name="one_template_per_name")
        ]


class Pod(Namespaced):
    """A Pod that uses devices; others are not kept."""

    phase = models.CharField(max_length=12)
    node_name = models.CharField(max_length=253, blank=True)
    deleted_at = models.DateTimeField(null=True, help_text="metadata.deletionTimestamp")
    scheduled_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    # spec.resourceClaims names → claim names as resolved in status: {"gpu": "train-gpu-x7k2p"}.
    claim_names = models.JSONField(default=dict)
    # Which containers use them: [{"container", "claim", "request", "image"}] with names of the Pod's spec;
    # `request` is "" where the container gets all of the claim's devices. "image" is missing in what was
    # mirrored before it was kept.
    claim_uses = models.JSONField(default=list)
    # Device Plugin counts: {"nvidia.com/gpu": 2}.
    extended_resources = models.JSONField(default=dict)
    # Which of them a claim serves that the scheduler made: {request of the claim: resource}.
    extended_mapping = models.JSONField(default=dict)
    # Message of the PodScheduled condition while it is False.
    unschedulable_message = models.TextField(blank=True)
    # What made it: its controller in ownerReferences.
    owner_kind = models.CharField(max_length=63, blank=True)
    owner_name = models.CharField(max_length=253, blank=True)
    owner_uid = models.CharField(max_length=64, blank=True)
    # The PodGroup (of scheduling.k8s.io) that it is scheduled with.
    pod_group = models.CharField(max_length=253, blank=True)
    # What the kubelet says of its devices: [{"container", "resource", "device", "health", "message"}];
    # health is Healthy, Unhealthy or Unknown, `resource` "claim:gpu" or the name of an extended resource.
    device_health = models.JSONField(default=list)
    # Whether it calls one of them unhealthy: few do, and those are looked for often.
    complains = models.BooleanField(default=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "namespace", "name"], name="one_pod_per_name")
        ]
        indexes: ClassVar = [
            models.Index(fields=["cluster", "uid"]),
            models.Index(fields=["cluster"], condition=models.Q(complains=True), name="complaining_pods"),
        ]


class PodEvent(models.Model):
    """The latest Event of one reason about one Pod (FailedScheduling, FailedPrepareDynamicResources, …)."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+")
    namespace = models.CharField(max_length=63)
    pod_name = models.CharField(max_length=253)
    pod_uid = models.CharField(max_length=64)
    reason = models.CharField(max_length=128)
    message = models.TextField()
    count = models.IntegerField(default=1)
    last_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "pod_uid", "reason"], name="latest_event_per_reason")
        ]
