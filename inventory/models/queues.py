"""What decides when workloads get their turn: quotas, Jobs, groups of Pods, and Kueue's queues."""

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from inventory.models.devices import Mirrored
from inventory.models.workloads import Namespaced


class ResourceQuota(Namespaced):
    """Amounts by key, as in the API: `requests.nvidia.com/gpu`,
    `<class>.deviceclass.resource.k8s.io/devices`, `requests.cpu`, …"""

    # status.hard once the controller has taken spec.hard over, which enforces it.
    hard = models.JSONField(default=dict)
    used = models.JSONField(default=dict)
    # Whether the two are in force: until the controller has counted for the first time, nothing is limited.
    counted = models.BooleanField(default=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "namespace", "name"], name="one_quota_per_name")
        ]


class Owned(Namespaced):
    """With what made it: the controller in its ownerReferences."""

    owner_kind = models.CharField(max_length=63, blank=True)
    owner_name = models.CharField(max_length=253, blank=True)
    owner_uid = models.CharField(max_length=64, blank=True)

    class Meta:
        abstract = True


class Job(Owned):
    """A Job whose Pods use devices; others are not kept."""

    suspended = models.BooleanField(default=False)
    parallelism = models.IntegerField(default=1)
    # None: any success of a Pod completes it.
    completions = models.IntegerField(null=True)
    active = models.IntegerField(default=0)
    succeeded = models.IntegerField(default=0)
    failed = models.IntegerField(default=0)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    # Complete, Failed, or "" while it runs (or waits).
    outcome = models.CharField(max_length=32, blank=True)
    # The LocalQueue that it was submitted to; "" without Kueue.
    queue_name = models.CharField(max_length=253, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "namespace", "name"], name="one_job_per_name")
        ]
        indexes: ClassVar = [models.Index(fields=["cluster", "uid"])]


class PodGroup(Owned):
    """scheduling.k8s.io: Pods that are scheduled together, and claims that they share."""

    workload_name = models.CharField(max_length=253, blank=True)
    template_name = models.CharField(max_length=253, blank=True)
    # How many Pods have to fit at once; None: each by itself.
    min_count = models.IntegerField(null=True)
    # Name in the group → claim, as far as made.
    claim_names = models.JSONField(default=dict)
    # As in the API.
    conditions = models.JSONField(default=list)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "namespace", "name"], name="one_pod_group_per_name")
        ]
        indexes: ClassVar = [models.Index(fields=["cluster", "uid"])]


class SchedulingWorkload(Owned):
    """scheduling.k8s.io: the templates of PodGroups of one controller."""

    controller_kind = models.CharField(max_length=63, blank=True)
    controller_name = models.CharField(max_length=253, blank=True)
    # [{"name", "min_count": int|None}].
    groups = models.JSONField(default=list)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cluster", "namespace", "name"], name="one_scheduling_workload_per_name"
            )
        ]


# --- Kueue --------------------------------------------------------------------------------------------


class QueueCounts(models.Model):
    """What a queue's status says. Amounts per flavor and resource: {"h100": {"nvidia.com/gpu": "4"}}."""

    active = models.BooleanField(default=True)
    # Why it is not active, from its condition.
    message = models.TextField(blank=True)
    stop_policy = models.CharField(max_length=32, blank=True)
    # Of admitted workloads, and of all for which quota is set aside.
    usage = models.JSONField(default=dict)
    reserved = models.JSONField(default=dict)
    pending = models.IntegerField(default=0)
    reserving = models.IntegerField(default=0)
    admitted = models.IntegerField(default=0)

    class Meta:
        abstract = True


class ClusterQueue(Mirrored, QueueCounts):
    cohort = models.CharField(max_length=253, blank=True)
    # BestEffortFIFO or StrictFIFO.
    strategy = models.CharField(max_length=32, blank=True)
    created_at = models.DateTimeField(null=True)
    # In their order: [{"flavor", "resource", "nominal", "borrowing": str|None, "lending": str|None}].
    quotas = models.JSONField(default=list)
    # How much of `usage` is borrowed, of the same form.
    borrowed = models.JSONField(default=dict)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "name"], name="one_cluster_queue_per_name")
        ]


class LocalQueue(Namespaced, QueueCounts):
    cluster_queue = models.CharField(max_length=253, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "namespace", "name"], name="one_local_queue_per_name")
        ]


class ResourceFlavor(Mirrored):
    created_at = models.DateTimeField(null=True)
    node_labels = models.JSONField(default=dict)
    # As in the API.
    node_taints = models.JSONField(default=list)
    topology = models.CharField(max_length=253, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "name"], name="one_flavor_per_name")
        ]


class QueuedWorkload(Owned):
    """A Workload of Kueue. It carries no device; `owner_uid` leads to the Job (or Pod) that uses them."""

    class State(models.TextChoices):
        PENDING = "pending", _("waits for quota")
        RESERVED = "reserved", _("has quota, waits for admission")
        ADMITTED = "admitted", _("admitted")
        EVICTED = "evicted", _("evicted")
        FINISHED = "finished", _("finished")
        INACTIVE = "inactive", _("switched off")

    queue_name = models.CharField(max_length=253, blank=True)
    # That admitted it (or holds quota for it).
    cluster_queue = models.CharField(max_length=253, blank=True)
    priority = models.IntegerField(default=0)
    state = models.CharField(max_length=12, choices=State.choices)
    # What Kueue says about it: reason and message of the condition that decides its state, and since when.
    reason = models.CharField(max_length=1024, blank=True)
    message = models.TextField(blank=True)
    state_since = models.DateTimeField(null=True)
    # Decides with the priority about the position: creation, or when it was put back into the queue.
    queued_at = models.DateTimeField(null=True)
    # [{"name", "count", "requests": {"cpu": "1"}, "flavors": {"nvidia.com/gpu": "h100"}, "usage": {…}}].
    pod_sets = models.JSONField(default=list)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cluster", "namespace", "name"], name="one_queued_workload_per_name"
            )
        ]
        indexes: ClassVar = [
            models.Index(fields=["cluster", "state"], name="queued_by_state"),
            models.Index(fields=["cluster", "owner_uid"], name="queued_by_owner"),
        ]
