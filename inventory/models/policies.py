"""What a cluster's administrators lay over it: namespaces, rules that taint devices, runtimes."""

from typing import ClassVar

from django.db import models

from inventory.models.devices import Mirrored


class Namespace(Mirrored):
    labels = models.JSONField(default=dict)
    created_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True, help_text="metadata.deletionTimestamp")
    # Whether claims with admin access are admitted here: they see devices that others hold.
    admin_access = models.BooleanField(default=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "name"], name="one_namespace_per_name")
        ]


class DeviceTaintRule(Mirrored):
    """A rule that taints all devices it selects. An empty column selects any; a rule that selects nothing
    at all (`selects` is false) is kept to be shown."""

    selects = models.BooleanField()
    driver = models.CharField(max_length=63, blank=True)
    pool_name = models.CharField(max_length=253, blank=True)
    device_name = models.CharField(max_length=63, blank=True)
    key = models.CharField(max_length=317)
    value = models.CharField(max_length=63, blank=True)
    # NoSchedule, NoExecute, None, or one that a later Kubernetes brings.
    effect = models.CharField(max_length=63)
    # When the taint began: as the rule says, else when the rule was made.
    added_at = models.DateTimeField(null=True)
    # Normalised to resource.k8s.io/v1: what the engine is fed.
    spec = models.JSONField()
    # status.conditions, as in the API: how far eviction has come.
    conditions = models.JSONField(default=list)
    # Null in rows that an older release wrote; it still may while this one is brought in.
    labels = models.JSONField(default=dict, null=True)
    # Who wrote it first, as managedFields say: "kubectl-create", "claimdesk". A program, not a person.
    made_by = models.CharField(max_length=128, blank=True, default="", db_default="")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "name"], name="one_taint_rule_per_name")
        ]


class RuntimeClass(Mirrored):
    handler = models.CharField(max_length=253)
    labels = models.JSONField(default=dict)
    created_at = models.DateTimeField(null=True)
    # {"nodeSelector": {…}, "tolerations": […]} as in the API; {} = any node.
    scheduling = models.JSONField(default=dict)
    # {"cpu": "250m"}: what each Pod costs in addition.
    overhead = models.JSONField(default=dict)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "name"], name="one_runtime_class_per_name")
        ]
