"""Launch templates, with which the desk starts something on a request, and what it started."""

import uuid
from datetime import datetime
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from claims.models.catalogue import Flavor
from claims.models.requests import Request
from portal.accounts.models import Project, User


class LaunchTemplateQuerySet(models.QuerySet["LaunchTemplate"]):
    def offered(self) -> "LaunchTemplateQuerySet":
        """Those that can be started."""
        return self.filter(archived_at=None)

    def for_request(self, request: Request) -> "LaunchTemplateQuerySet":
        """Offered to the project of a request, for its flavor."""
        rows = self.offered().filter(models.Q(projects=None) | models.Q(projects=request.project_id))
        flavors = models.Q(flavors=None)
        if request.flavor_id is not None:
            flavors |= models.Q(flavors=request.flavor_id)
        return rows.filter(flavors).distinct()


class LaunchTemplate(models.Model):
    """What administrators prepared: an image and how it is run. Its Pods are within the "restricted" Pod
    security level, whatever else it says."""

    class Kind(models.TextChoices):
        JOB = "job", _("Job: runs to its end")
        NOTEBOOK = "notebook", _("Notebook: a Pod that serves a port until the request ends")

    slug = models.SlugField(max_length=40, unique=True)
    name = models.CharField(max_length=80, unique=True)
    description = models.CharField(max_length=1000, blank=True)
    kind = models.CharField(max_length=10, choices=Kind.choices)
    image = models.CharField(max_length=400)
    # As in a container: lists of texts; [] = what the image says.
    command = models.JSONField(default=list)
    args = models.JSONField(default=list)
    # {name: value}.
    env = models.JSONField(default=dict)
    # Kubernetes quantities, as request and limit.
    cpu = models.CharField(max_length=32)
    memory = models.CharField(max_length=32)
    # [{"name", "path", "claim": name of a PersistentVolumeClaim, "" = emptyDir, "size": of an emptyDir}].
    volumes = models.JSONField(default=list)
    # What a notebook serves.
    port = models.PositiveIntegerField(null=True, blank=True)
    user_id = models.PositiveIntegerField(default=1000)
    # What a researcher fills in; each becomes an environment variable:
    # [{"name", "label", "default", "pattern", "choices": […], "required": bool}].
    parameters = models.JSONField(default=list)
    # None chosen = any.
    flavors = models.ManyToManyField(Flavor, related_name="+", blank=True)
    projects = models.ManyToManyField(Project, related_name="+", blank=True)

    # Counts changes: who saves an older one is told of the conflict.
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    changed_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    archived_at = models.DateTimeField(null=True, blank=True)

    objects = LaunchTemplateQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name


class LaunchQuerySet(models.QuerySet["Launch"]):
    def due(self, now: datetime) -> "LaunchQuerySet":
        """Launches with work on the cluster that should be tried now."""
        return self.filter(due_at__lte=now)


class Launch(models.Model):
    """One object that the desk made for a request: a Job or a Pod."""

    class State(models.TextChoices):
        STARTING = "starting", _("being started")
        STARTED = "started", _("on the cluster")
        FAILED = "failed", _("refused by the cluster")
        STOPPING = "stopping", _("being removed")
        STOPPED = "stopped", _("removed")

    key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    request = models.ForeignKey(Request, models.CASCADE, related_name="launches")
    template = models.ForeignKey(LaunchTemplate, models.PROTECT, related_name="+")
    person = models.ForeignKey(User, models.PROTECT, related_name="+")
    # What was filled in, by name.
    parameters = models.JSONField(default=dict)
    # The object as the cluster accepted it on trial: what is created, whatever becomes of the template.
    manifest = models.JSONField()
    object_name = models.CharField(max_length=63)
    object_uid = models.CharField(max_length=64, blank=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.STARTING)
    # In the cluster's words.
    message = models.TextField(blank=True)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    # Work on the cluster that is due: null = nothing to do.
    due_at = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveIntegerField(default=0)

    objects = LaunchQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["request", "object_name"], name="one_launch_per_object")
        ]
        indexes: ClassVar = [models.Index(fields=["due_at"], name="launches_due")]

    def __str__(self) -> str:
        return self.object_name
