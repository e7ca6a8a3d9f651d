"""Lifecycle drills: runs that prove on a node pool what DRA does there, with claims and Pods of their own."""

import uuid
from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from claims.models.poolplans import PoolPlan
from inventory.models import Cluster
from portal.accounts.models import User


class Drill(models.Model):
    """One run. What it needs is copied from its pool's plan, so that a later change of the plan changes no
    evidence."""

    class State(models.TextChoices):
        RUNNING = "running", _("running")
        # All its objects are being removed.
        CLEANING = "cleaning", _("cleaning up")
        FINISHED = "finished", _("finished")

    key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    plan = models.ForeignKey(PoolPlan, models.CASCADE, related_name="drills")
    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+")
    namespace = models.CharField(max_length=63)
    device_class = models.CharField(max_length=253)
    driver = models.CharField(max_length=63, blank=True)
    node_selector = models.JSONField(default=dict)
    # As in the API.
    tolerations = models.JSONField(default=list)
    image = models.CharField(max_length=400)
    command = models.JSONField(default=list)
    # How long one step waits for the cluster, and for a person.
    step_seconds = models.PositiveIntegerField(default=120)
    ask_seconds = models.PositiveIntegerField(default=24 * 3600)
    # Somebody typed the pool's name: it may take the last free device.
    last_device = models.BooleanField(default=False)

    state = models.CharField(max_length=8, choices=State.choices, default=State.RUNNING)
    cancelled = models.BooleanField(default=False)
    # What went wrong outside of any step, in the cluster's words.
    message = models.TextField(blank=True)
    person = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True, blank=True)
    # Nothing of it is on the cluster any more, as far as asked.
    clean_at = models.DateTimeField(null=True, blank=True)
    # When there is work; who works on it has put it ahead, so that nobody else does.
    due_at = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveIntegerField(default=0)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["plan"], condition=~Q(state="finished"), name="one_drill_at_once_per_pool"
            )
        ]
        indexes: ClassVar = [models.Index(fields=["due_at"], name="drills_due")]

    def __str__(self) -> str:
        return f"drill {str(self.key)[:8]} of {self.plan}"


class DrillStep(models.Model):
    """One question of a drill (by its code in `claims.drill.questions`), and what was observed."""

    class State(models.TextChoices):
        WAITING = "waiting", _("not yet")
        RUNNING = "running", _("running")
        # An operator has something to do.
        ASKING = "asking", _("asks an operator")
        DONE = "done", _("done")

    class Verdict(models.TextChoices):
        NONE = "", _("open")
        PROVEN = "proven", _("proven")
        NOT_PROVEN = "not-proven", _("not proven")
        DIFFERS = "differs", _("differs")
        SKIPPED = "skipped", _("skipped")

    drill = models.ForeignKey(Drill, models.CASCADE, related_name="steps")
    position = models.PositiveIntegerField()
    code = models.CharField(max_length=40)
    state = models.CharField(max_length=8, choices=State.choices, default=State.WAITING)
    verdict = models.CharField(max_length=10, choices=Verdict.choices, blank=True)
    # Why it came out so: a code of `claims.drill.words`, with its parameters in `facts`.
    why = models.CharField(max_length=40, blank=True)
    # Which part of the step is under way, and what it remembers.
    phase = models.CharField(max_length=20, blank=True)
    facts = models.JSONField(default=dict)
    # [{"at", "source": "object" | "event" | "desk" | "operator", "code", "what": {…}}], in order.
    observed = models.JSONField(default=list)
    started_at = models.DateTimeField(null=True, blank=True)
    phase_at = models.DateTimeField(null=True, blank=True)
    asked_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    answered_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["drill", "code"], name="one_step_per_question")
        ]

    def __str__(self) -> str:
        return self.code


class DrillObject(models.Model):
    """The uid of an object that a drill made, or that was made for it: what it holds is nobody's to pay."""

    # Kept without it: the ledger asks for it as long as there is history.
    drill = models.ForeignKey(Drill, models.SET_NULL, null=True, related_name="objects_made")
    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+")
    uid = models.CharField(max_length=64)
    kind = models.CharField(max_length=32)
    name = models.CharField(max_length=253)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "uid"], name="one_drill_per_object")
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"
