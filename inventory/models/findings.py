"""What is wrong on a cluster, since when, and what people have said and done about it."""

from datetime import datetime
from typing import ClassVar

from django.db import models
from django.db.models import F, Q
from django.utils.translation import gettext_lazy as _

from inventory.models.clusters import Cluster
from portal.accounts.models import User


class Severity(models.TextChoices):
    """How much it matters, the worst first."""

    BAD = "bad", _("bad")
    WARNING = "warning", _("warning")
    INFO = "info", _("for information")


class Finding(models.Model):
    """One thing that one rule found, from when it was first seen until it no longer held. What comes back
    later is a new row.

    A row without `opened_at` waits: the rule's condition holds, but not yet for long enough. Nobody sees it,
    and it goes without a trace when the condition does.
    """

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="findings")
    # Name of the rule, see `inventory.findings.registry`.
    kind = models.CharField(max_length=40)
    # What it is about, as the rule names it: the same subject is the same finding.
    subject = models.CharField(max_length=700)
    severity = models.CharField(max_length=8, choices=Severity.choices)
    # What pages link to: "node", "pool", "device", "claim", "pod", "workload", "namespace", "class",
    # "cluster", "taint-rule" or "pod-devices".
    object_kind = models.CharField(max_length=12)
    namespace = models.CharField(max_length=63, blank=True)
    name = models.CharField(max_length=253)
    # The sentence and what stands in it, see `inventory.findings.words`.
    code = models.CharField(max_length=40)
    params = models.JSONField(default=dict)

    # Since when it has been so by the cluster's own times; null where the cluster does not say.
    since = models.DateTimeField(null=True)
    first_seen_at = models.DateTimeField()
    opened_at = models.DateTimeField(null=True)
    last_seen_at = models.DateTimeField()
    # Since when nobody can say whether it still holds, for what the rule reads is not observed.
    unknown_since = models.DateTimeField(null=True)
    # It held at `last_seen_at` and did not at this time.
    resolved_at = models.DateTimeField(null=True)

    acknowledged_at = models.DateTimeField(null=True)
    acknowledged_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    # Out of the list of what is to be done until then; with `acknowledged_by`.
    snoozed_until = models.DateTimeField(null=True)
    note = models.CharField(max_length=1000, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cluster", "kind", "subject"],
                condition=Q(resolved_at=None),
                name="one_open_finding_per_subject",
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["resolved_at", "first_seen_at"], name="finding_list"),
            models.Index(fields=["cluster", "kind", "resolved_at"], name="finding_rule"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.subject}"

    @property
    def began_at(self) -> datetime:
        """The best that is known of when it began."""
        return (
            self.since if self.since is not None and self.since < self.first_seen_at else self.first_seen_at
        )


class RuleState(models.Model):
    """How the last evaluation of one rule on one cluster went."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+")
    kind = models.CharField(max_length=40)
    # The last time that the rule could be judged; null: never.
    judged_at = models.DateTimeField(null=True)
    # The last attempt.
    tried_at = models.DateTimeField()
    unknown_since = models.DateTimeField(null=True)
    # The resource that is not observed while it is unknown; "" when the rule itself failed.
    missing = models.CharField(max_length=63, blank=True)
    # More was found than is kept.
    truncated = models.BooleanField(default=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "kind"], name="one_state_per_rule")
        ]

    def __str__(self) -> str:
        return f"{self.cluster}/{self.kind}"


class DiagnosisTask(models.Model):
    """Work that a health fault asks for. It outlives the finding: a taint that goes says nothing about why
    it came."""

    class State(models.TextChoices):
        OPEN = "open", _("open")
        IN_WORK = "in-work", _("in work")
        DONE = "done", _("done")

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="diagnosis_tasks")
    # The subject of its findings; a fault that comes back before the task is done joins it.
    subject = models.CharField(max_length=700)
    # The latest of them.
    finding = models.ForeignKey(Finding, models.CASCADE, related_name="tasks")
    state = models.CharField(max_length=8, choices=State.choices, default=State.OPEN)
    owner = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    opened_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    done_at = models.DateTimeField(null=True)
    note = models.CharField(max_length=1000, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cluster", "subject"], condition=Q(done_at=None), name="one_open_task_per_subject"
            ),
            models.CheckConstraint(
                condition=Q(state="done", done_at__gte=F("opened_at")) | (~Q(state="done") & Q(done_at=None)),
                name="done_tasks_say_when",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.cluster}/{self.subject}"
