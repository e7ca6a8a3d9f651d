"""Changes of requests, which are asked for, offered and decided by themselves; and asks not sent yet."""

import uuid
from typing import ClassVar

from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from claims.models.catalogue import Flavor
from claims.models.requests import Decision, Request
from portal.accounts.models import Project, User


class RequestChangeQuerySet(models.QuerySet["RequestChange"]):
    def visible_to(self, user: User) -> "RequestChangeQuerySet":
        """Changes of requests of the user's projects; all for administrators and auditors."""
        return self.filter(request__project__in=Project.objects.all().detailed_to(user))

    def open(self) -> "RequestChangeQuerySet":
        """Changes about which something is still to be said or done."""
        return self.filter(state__in=OPEN_CHANGES)


class RequestChange(models.Model):
    """What is to be different about a request: asked for by a member of the project, or set by an approver as
    the condition of an approval. What needs another object on the cluster becomes a request of its own that
    takes the place of the first."""

    class State(models.TextChoices):
        WAITING = "waiting", _("waiting for a decision")
        OFFERED = "offered", _("approved on a condition")
        APPROVED = "approved", _("approved")
        APPLIED = "applied", _("done")
        REJECTED = "rejected", _("rejected")
        WITHDRAWN = "withdrawn", _("withdrawn")
        FAILED = "failed", _("failed")

    class Origin(models.TextChoices):
        MEMBER = "member", _("asked for")
        APPROVER = "approver", _("condition of an approval")

    class Release(models.TextChoices):
        """When the request whose place is taken gives its devices back."""

        WHEN_SERVED = "when-served", _("as soon as the new request has its devices")
        BY_HAND = "by-hand", _("when I release it")

    key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    request = models.ForeignKey(Request, models.CASCADE, related_name="changes")
    origin = models.CharField(max_length=8, choices=Origin.choices, default=Origin.MEMBER)
    # What changes, by name (`claims.changing.FIELDS`): as it was when it was asked for, and as it shall be.
    current = models.JSONField()
    wanted = models.JSONField()
    reason = models.CharField(max_length=1000)
    person = models.ForeignKey(User, models.PROTECT, related_name="+")

    # Who has to agree, as the flavor said when it was asked for.
    approval = models.CharField(max_length=14, choices=Flavor.Approval.choices, default=Flavor.Approval.NONE)
    own_approval = models.BooleanField(default=False)
    # An approver's condition: what they would agree to instead, as what (a role), and who; {} = none.
    offered = models.JSONField(default=dict)
    offered_as = models.CharField(max_length=14, choices=Decision.Role.choices, blank=True)
    offered_by = models.ForeignKey(User, models.PROTECT, null=True, blank=True, related_name="+")
    comment = models.CharField(max_length=1000, blank=True)

    # The claim on the cluster cannot be changed: a request that follows takes its place.
    replaces = models.BooleanField(default=False)
    release = models.CharField(max_length=12, choices=Release.choices, default=Release.WHEN_SERVED)
    successor = models.OneToOneField(
        Request, models.PROTECT, null=True, blank=True, related_name="took_place_by"
    )
    # The spec that the cluster accepted on trial, for the successor.
    spec = models.JSONField(default=dict)

    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    # Why it failed, for people.
    message = models.TextField(blank=True)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, blank=True)
    # The request whose place was taken has been released.
    released_at = models.DateTimeField(null=True, blank=True)

    objects = RequestChangeQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            # Two changes at once would each be about what the other changes.
            models.UniqueConstraint(
                fields=["request"],
                condition=Q(state__in=["waiting", "offered", "approved"]),
                name="one_open_change_per_request",
            )
        ]
        indexes: ClassVar = [models.Index(fields=["state", "created_at"], name="changes_to_decide")]

    def __str__(self) -> str:
        return f"{self.request}: {', '.join(self.wanted)}"


OPEN_CHANGES = (
    RequestChange.State.WAITING,
    RequestChange.State.OFFERED,
    RequestChange.State.APPROVED,
)


class ChangeDecision(models.Model):
    """What a lead or an administrator decided about a change. Written once, never changed."""

    change = models.ForeignKey(RequestChange, models.CASCADE, related_name="decisions")
    role = models.CharField(max_length=14, choices=Decision.Role.choices)
    verdict = models.CharField(max_length=10, choices=Decision.Verdict.choices)
    person = models.ForeignKey(User, models.PROTECT, related_name="+")
    comment = models.CharField(max_length=1000, blank=True)
    at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["change", "role"], name="one_decision_per_role_and_change")
        ]

    def __str__(self) -> str:
        return f"{self.change}: {self.verdict} by {self.person}"


class Draft(models.Model):
    """An ask that a person has not sent yet, as they typed it; nobody else sees it. Sent, it becomes a
    request with the same key."""

    key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    owner = models.ForeignKey(User, models.CASCADE, related_name="request_drafts")
    # As `claims.asks.judging` reads them; nothing of it is judged before it is sent.
    values = models.JSONField()
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["owner", "-changed_at"], name="drafts_of_person")]

    def __str__(self) -> str:
        return str(self.key)
