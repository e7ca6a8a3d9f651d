"""The hardware side of the mirror: nodes, ResourceSlices, pools, devices, their profiles, DeviceClasses."""

from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from inventory.models.clusters import Cluster


class Mirrored(models.Model):
    """Columns that every mirrored Kubernetes object has."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+")
    name = models.CharField(max_length=253)
    uid = models.CharField(max_length=64)
    resource_version = models.CharField(max_length=63)

    class Meta:
        abstract = True

    def __str__(self) -> str:
        return self.name


class Node(Mirrored):
    ready = models.BooleanField()
    unschedulable = models.BooleanField()
    labels = models.JSONField(default=dict)
    # As in the API: [{"key", "value", "effect", "timeAdded" (if it says so)}].
    taints = models.JSONField(default=list)
    # Extended resources only (cpu, memory, … left out): {"nvidia.com/gpu": "2"}.
    capacity = models.JSONField(default=dict)
    allocatable = models.JSONField(default=dict)
    # status.nodeInfo: "v1.36.2", "containerd://2.1.4", "6.12.41", "Debian GNU/Linux 13".
    kubelet_version = models.CharField(max_length=63, blank=True)
    container_runtime = models.CharField(max_length=128, blank=True)
    kernel_version = models.CharField(max_length=128, blank=True)
    os_image = models.CharField(max_length=128, blank=True)
    created_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "name"], name="one_node_per_name")
        ]


class Pool(models.Model):
    """(driver, pool name) of a cluster, as far as its newest generation is published."""

    # `one_pool_per_name` begins with it.
    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="pools", db_index=False)
    driver = models.CharField(max_length=63)
    name = models.CharField(max_length=253)
    generation = models.BigIntegerField()
    slices_expected = models.IntegerField()
    slices_seen = models.IntegerField()
    complete = models.BooleanField()
    # Whether its devices draw on shared counters (partitions of one piece of hardware).
    has_counters = models.BooleanField(default=False)
    # The feature gate that it needs and that the cluster does not have on, as far as is known.
    missing_gate = models.CharField(max_length=63, blank=True)
    # Why the scheduler would not use it (duplicate device names, unknown counters); empty = valid.
    problem = models.CharField(max_length=1000, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "driver", "name"], name="one_pool_per_name")
        ]

    def __str__(self) -> str:
        return f"{self.driver}/{self.name}"


class ResourceSlice(Mirrored):
    pool = models.ForeignKey(Pool, models.CASCADE, related_name="slices")
    generation = models.BigIntegerField()
    node_name = models.CharField(max_length=253, blank=True, db_index=True)
    # The whole object, normalised to resource.k8s.io/v1 and without managedFields: what the engine is fed.
    manifest = models.JSONField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "name"], name="one_slice_per_name")
        ]


class DeviceProfile(models.Model):
    """A kind of device: attributes and capacities without those that identify the single piece."""

    # SHA-256 over the canonical JSON of driver, attributes and capacity.
    digest = models.CharField(max_length=64, unique=True)
    driver = models.CharField(max_length=63, db_index=True)
    # Fully qualified names, typed values as in the API: {"gpu.nvidia.com/type": {"string": "gpu"}}.
    attributes = models.JSONField()
    # {"gpu.nvidia.com/memory": {"value": "80Gi", "requestPolicy": {…}}}.
    capacity = models.JSONField()
    allow_multiple_allocations = models.BooleanField(default=False)
    # For people and facets, derived from the attributes.
    vendor = models.CharField(max_length=63, blank=True)
    product = models.CharField(max_length=128, blank=True, db_index=True)
    kind = models.CharField(max_length=32, blank=True)
    memory_bytes = models.BigIntegerField(null=True)

    def __str__(self) -> str:
        return self.product or self.driver


class Device(models.Model):
    """One device (or partition) that a pool publishes now."""

    class State(models.TextChoices):
        FREE = "free", _("free")
        HELD = "held", _("held")
        # Several allocations share it and something is left.
        PARTLY = "partly", _("partly held")
        # Nobody holds it, and the scheduler would not hand it out: see `reason`.
        UNAVAILABLE = "unavailable", _("unavailable")

    class Reason(models.TextChoices):
        NONE = "", _("none")
        CORDONED = "node-cordoned", _("its node is cordoned")
        NOT_READY = "node-not-ready", _("its node is not ready")
        NODE_TAINTED = "node-tainted", _("its node is tainted")
        NODE_MISSING = "node-missing", _("its node does not exist")
        TAINTED = "device-tainted", _("it is tainted")
        INCOMPLETE = "pool-incomplete", _("its pool is incomplete")
        INVALID = "pool-invalid", _("its pool is invalid")
        GATED = "pool-gated", _("its pool needs a feature that the cluster does not have on")
        PARENT_HELD = "counters-used", _("a partition of the same device is held")

    class Health(models.TextChoices):
        # Nobody complains of it; that is less than a certificate.
        GOOD = "good", _("no complaint")
        # Its slice or a rule keeps Pods away that tolerate nothing.
        TAINTED = "tainted", _("tainted")
        # The driver says so in an attribute, or the kubelet in the status of a Pod that has it.
        UNHEALTHY = "unhealthy", _("reported unhealthy")

    # Without statistics SQLite takes a cluster for ten rows, and walks all its devices if an index by it is
    # there rather than look up the few that are asked for by node or pool.
    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="devices", db_index=False)
    # `one_device_per_name` begins with the pool, `device_counts` with the profile.
    pool = models.ForeignKey(Pool, models.CASCADE, related_name="devices", db_index=False)
    slice = models.ForeignKey(ResourceSlice, models.CASCADE, related_name="devices")
    profile = models.ForeignKey(DeviceProfile, models.PROTECT, related_name="devices", db_index=False)
    name = models.CharField(max_length=63)
    # Position in its slice: the scheduler tries devices in this order.
    position = models.IntegerField()
    # Attributes that identify the single piece, fully qualified, typed as in the API.
    identity = models.JSONField(default=dict)
    # uuid where unique, else PCI address, else serial, else "": the physical piece across renames.
    hardware_id = models.CharField(max_length=128, blank=True)
    # "" for devices that are not bound to one node. Indexed by `device_browse`.
    node_name = models.CharField(max_length=253, blank=True)
    # [{"key", "value", "effect", "timeAdded"}] from the slice.
    taints = models.JSONField(default=list)
    state = models.CharField(max_length=12, choices=State.choices)
    reason = models.CharField(max_length=20, choices=Reason.choices, blank=True)
    # Whatever its state: what is held may be ill, too.
    health = models.CharField(max_length=10, choices=Health.choices, default=Health.GOOD)
    first_seen_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [models.UniqueConstraint(fields=["pool", "name"], name="one_device_per_name")]
        indexes: ClassVar = [
            models.Index(fields=["hardware_id"], name="device_hardware"),
            # Counts of a search: read from the index alone.
            models.Index(fields=["profile", "cluster", "state", "health"], name="device_counts"),
            # The order of the racks, with all that narrows a search: pages and node counts read no rows.
            models.Index(
                fields=["node_name", "name", "pool", "cluster", "profile", "state", "health"],
                name="device_browse",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.pool}/{self.name}"


class DeviceClass(Mirrored):
    # Normalised to resource.k8s.io/v1.
    spec = models.JSONField()
    labels = models.JSONField(default=dict)
    annotations = models.JSONField(default=dict)
    extended_resource_name = models.CharField(max_length=253, blank=True)
    created_at = models.DateTimeField(null=True)
    # Names of its field managers, those that set fields of its spec first; null = not read yet.
    managers = models.JSONField(null=True)
    # Why its selectors cannot be evaluated; empty = they can.
    problem = models.CharField(max_length=1000, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "name"], name="one_class_per_name")
        ]


class ClassProfile(models.Model):
    """That a class matches the devices of a profile. A class whose selectors read identity attributes
    has `device` set instead, a row per matching device."""

    device_class = models.ForeignKey(DeviceClass, models.CASCADE, related_name="matches")
    profile = models.ForeignKey(DeviceProfile, models.CASCADE, related_name="classes")
    device = models.ForeignKey(Device, models.CASCADE, null=True, related_name="+")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["device_class", "profile"], condition=Q(device=None), name="one_match_per_profile"
            ),
            models.UniqueConstraint(fields=["device_class", "device"], name="one_match_per_device"),
        ]
