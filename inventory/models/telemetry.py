"""Where a cluster's metrics can be asked for and with what queries, and how busy devices were."""

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from inventory.models.clusters import Cluster
from portal.accounts.models import User


class MetricSource(models.Model):
    """The Prometheus (or what speaks like one) that knows one cluster."""

    cluster = models.OneToOneField(Cluster, models.CASCADE, related_name="metric_source")
    # Without /api/v1; http or https.
    url = models.CharField(max_length=500)
    # Fernet token of the bearer token; never shown, never logged. Null = it asks for none.
    token_encrypted = models.BinaryField(null=True, blank=True)
    # PEM of who signed its certificate; "" = whom this machine trusts.
    ca = models.TextField(blank=True)
    # What tells the cluster from others that the same Prometheus knows: cluster="physics". Both "" = nothing
    # has to.
    label = models.CharField(max_length=63, blank=True)
    label_value = models.CharField(max_length=253, blank=True)
    enabled = models.BooleanField(default=True)
    # A held device whose use stays under so many percent for so many measured hours: its holder is told.
    # 0 hours = nobody is.
    idle_percent = models.PositiveSmallIntegerField(default=5)
    idle_hours = models.PositiveIntegerField(default=0)
    # For so many days the use of devices is kept by the hour.
    keep_days = models.PositiveIntegerField(default=60)
    changed_at = models.DateTimeField()
    changed_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")

    # How asking it goes. `problem` is a `telemetry.problems.Problem` as JSON; null while all is well.
    asked_at = models.DateTimeField(null=True)
    answered_at = models.DateTimeField(null=True)
    problem = models.JSONField(null=True)
    failures = models.PositiveIntegerField(default=0)
    # When it is to be asked next (null = at once), and until when somebody is at it.
    due_at = models.DateTimeField(null=True)
    busy_until = models.DateTimeField(null=True)
    # From when on use was read at all; what was before is not known.
    since = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.cluster}: {self.url}"


class MetricQuery(models.Model):
    """One query in PromQL, and what it brought last. All of them are administrators' to change."""

    class Kind(models.TextChoices):
        # A sample per device: how busy it is, in percent.
        USE = "use", _("how busy devices are")
        # Samples per driver, or of the cluster as a whole.
        DRIVERS = "drivers", _("what drivers and Kubernetes say of themselves")
        # A sample per device, with the Pod that has it in its labels, as DCGM's exporter writes them.
        PODS = "pods", _("which Pods have which devices of Device Plugins")

    class Unit(models.TextChoices):
        NUMBER = "number", _("a number")
        SECONDS = "seconds", _("seconds")
        PER_HOUR = "per-hour", _("per hour")
        PERCENT = "percent", _("percent")

    source = models.ForeignKey(MetricSource, models.CASCADE, related_name="queries")
    kind = models.CharField(max_length=8, choices=Kind.choices)
    name = models.CharField(max_length=120)
    # "$cluster" stands for what tells the cluster.
    expression = models.TextField(max_length=4000)
    unit = models.CharField(max_length=8, choices=Unit.choices, default=Unit.NUMBER)
    # The label of its samples that names the device, or the driver ("" = not of one driver).
    label = models.CharField(max_length=63, blank=True)
    # Where the device is named by a PCI address: the label that names its node.
    node_label = models.CharField(max_length=63, blank=True)
    enabled = models.BooleanField(default=True)
    position = models.PositiveIntegerField(default=0)

    asked_at = models.DateTimeField(null=True)
    answered_at = models.DateTimeField(null=True)
    problem = models.JSONField(null=True)
    # Drivers: [{"driver", "labels", "value"}], at most `MOST`; `samples` tells how many there were.
    values = models.JSONField(default=list)
    samples = models.PositiveIntegerField(default=0)
    # Use: how many of them are devices of the mirror, and some that are not: ["GPU-…"].
    matched = models.PositiveIntegerField(default=0)
    strangers = models.JSONField(default=list)
    # Use: read up to here; always the end of a slot.
    read_until = models.DateTimeField(null=True)

    MOST: ClassVar = 200

    class Meta:
        indexes: ClassVar = [models.Index(fields=["source", "position"], name="queries_of_source")]

    def __str__(self) -> str:
        return self.name


class DeviceUse(models.Model):
    """How busy one piece of hardware was within one hour, as far as it was measured. What has no row was not
    measured at all."""

    # The constraint begins with it.
    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+", db_index=False)
    # As devices of the mirror have it.
    hardware_id = models.CharField(max_length=128)
    hour = models.DateTimeField()
    # Minutes that were measured; the sum of what they were, and the highest, in percent.
    minutes = models.PositiveSmallIntegerField()
    total = models.FloatField()
    highest = models.FloatField()
    # The same by five minutes: `telemetry.slots`.
    slots = models.BinaryField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "hardware_id", "hour"], name="one_use_per_hour")
        ]
        indexes: ClassVar = [models.Index(fields=["cluster", "hour"], name="use_by_hour")]

    def __str__(self) -> str:
        return f"{self.hardware_id} at {self.hour}"
