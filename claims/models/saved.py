"""Requests that people keep by a name, to ask for the same again."""

import uuid
from typing import ClassVar

from django.db import models
from django.db.models import Q

from portal.accounts.models import Membership, Project, User


class SavedRequestQuerySet(models.QuerySet["SavedRequest"]):
    def visible_to(self, user: User) -> "SavedRequestQuerySet":
        """The user's own, and those shared with projects of which the user sees the requests."""
        projects = Project.objects.all().detailed_to(user)
        return self.filter(Q(owner=user, project=None) | Q(project__in=projects))

    def changeable_by(self, user: User) -> "SavedRequestQuerySet":
        """Those that `user` may rename, share or delete: their own, and those of projects that they lead."""
        if not user.is_active or user.is_auditor:
            return self.none()
        own = Q(owner=user) & (Q(project=None) | Q(project__in=Project.objects.all().workable_by(user)))
        if user.is_administrator:
            return self.filter(own | Q(project__isnull=False))
        led = Membership.objects.filter(user=user, role=Membership.Role.LEAD).values("project")
        return self.filter(own | Q(project__in=led))


class SavedRequest(models.Model):
    """What a form held when it was saved (keys of `claims.asks.judging.FIELDS`); judged anew whenever it is
    used."""

    key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(User, models.CASCADE, related_name="+")
    # Shared with the members of a project; null = for the owner alone.
    project = models.ForeignKey(Project, models.CASCADE, null=True, blank=True, related_name="+")
    name = models.CharField(max_length=80)
    values = models.JSONField(default=dict)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()

    objects = SavedRequestQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["owner", "name"], condition=Q(project=None), name="one_saved_request_per_owner"
            ),
            models.UniqueConstraint(
                fields=["project", "name"],
                condition=Q(project__isnull=False),
                name="one_saved_request_per_project",
            ),
        ]

    def __str__(self) -> str:
        return self.name
