"""A request: one ask by one person for one project, and the objects that it created."""

import uuid
from datetime import datetime
from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from claims.models.catalogue import Flavor
from inventory.models import Cluster
from portal.accounts.models import Project, User


class RequestQuerySet(models.QuerySet["Request"]):
    def visible_to(self, user: User) -> "RequestQuerySet":
        """Requests of the user's projects; all for administrators and auditors."""
        if user.is_active and (user.is_administrator or user.is_auditor):
            # Not one by one.
            return self
        return self.filter(project__in=Project.objects.all().detailed_to(user))

    def active(self) -> "RequestQuerySet":
        """Requests that still have, or may still get, something on a cluster."""
        return self.exclude(state__in=FINAL_STATES)

    def due(self, now: datetime) -> "RequestQuerySet":
        """Requests with work on the cluster that should be tried now."""
        return self.filter(due_at__lte=now)


RequestManager = models.Manager.from_queryset(RequestQuerySet)


class Request(models.Model):
    class State(models.TextChoices):
        # What the desk knows by itself.
        WAITING_FOR_APPROVAL = "waiting-for-approval", _("waiting for approval")
        SUBMITTED = "submitted", _("submitted")
        APPROVED = "approved", _("approved")
        CREATING = "creating", _("being created")
        FAILED = "failed", _("failed")
        CANCELLED = "cancelled", _("cancelled")
        REJECTED = "rejected", _("rejected")
        EXPIRED = "expired", _("expired")
        # What the cluster reports.
        WAITING_FOR_POD = "waiting-for-pod", _("waiting for a Pod")
        WAITING_FOR_DEVICE = "waiting-for-device", _("waiting for a device")
        ALLOCATED = "allocated", _("allocated")
        IN_USE = "in-use", _("in use")
        ENDING = "ending", _("ending")
        ENDED = "ended", _("released")

    class Shape(models.TextChoices):
        CLAIM = "claim", _("shared claim: Pods join one ResourceClaim")
        TEMPLATE = "template", _("template: every Pod gets a claim of its own")
        # By a Device Plugin, which knows no claims: Pods ask for units, and the desk recognises them.
        ENTITLEMENT = "entitlement", _("entitlement: Pods ask for units of a Device Plugin")

    class Backend(models.TextChoices):
        DRA = "dra", _("Dynamic Resource Allocation")
        PLUGIN = "device-plugin", _("Device Plugin")

    class Reason(models.TextChoices):
        """Why a request is in its state, where the state alone does not say it."""

        NONE = "", _("nothing to add")
        RETRYING = "retrying", _("the cluster did not answer as it should; the desk tries again")
        REFUSED = "refused", _("the cluster refused it")
        NAME_TAKEN = "name-taken", _("an object that the desk did not make has its name")
        NAMESPACE_LOST = "namespace-lost", _("its namespace no longer belongs to the project")
        DELETED_ELSEWHERE = "deleted-elsewhere", _("its object was deleted on the cluster, not by the desk")
        NOT_SCHEDULED = "not-scheduled", _("a Pod waits for it, and the scheduler found no place")
        PARTLY = "partly", _("some of its Pods still wait for a device")
        RELEASED = "released", _("released by a person")
        EXPIRED = "expired", _("the time asked for is over")
        IDLE = "idle", _("nobody used it")
        NOT_DECIDED = "not-decided", _("nobody decided about it in time")
        STILL_USED = "still-used", _("Pods still use it: they hold the device, and it still costs")
        REPLACED = "replaced", _("another request has taken its place")
        WINDING_UP = "winding-up", _("its objects are being removed")
        OVER_QUOTA = "over-quota", _("its project is over its quota")

    # What URLs and object names carry; reveals neither order nor number.
    key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    project = models.ForeignKey(Project, models.PROTECT, related_name="requests")
    requester = models.ForeignKey(User, models.PROTECT, related_name="requests")
    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="requests")
    namespace = models.CharField(max_length=63)

    # The catalogue entry that was asked for; null = described by the person.
    flavor = models.ForeignKey(Flavor, models.PROTECT, null=True, blank=True, related_name="requests")
    # How the cluster (or its node pool) served the flavor when it was asked for: later changes of the
    # catalogue do not touch it.
    backend = models.CharField(max_length=14, choices=Backend.choices, default=Backend.DRA)
    pool = models.CharField(max_length=63, blank=True)
    # "" with a Device Plugin.
    device_class = models.CharField(max_length=253, blank=True)
    # "" with DRA.
    extended_resource = models.CharField(max_length=317, blank=True)
    # What Pods need to get to the nodes, as in the API.
    node_selector = models.JSONField(default=dict)
    tolerations = models.JSONField(default=list)
    count = models.PositiveIntegerField()
    # A Kubernetes quantity such as "40Gi"; "" = any.
    min_memory = models.CharField(max_length=32, blank=True)
    shape = models.CharField(max_length=12, choices=Shape.choices)
    # What was chosen beyond that (alternatives, constraints, further parts, …), as `claims.asks.options`
    # reads it.
    options = models.JSONField(default=dict)
    # The ResourceClaimSpec as the cluster accepted it on trial (resource.k8s.io/v1): what is created.
    spec = models.JSONField(default=dict)
    duration = models.DurationField()
    purpose = models.CharField(max_length=1000)

    # Who has to agree, and whether the requester may be the one; as the flavor said when it was asked for.
    approval = models.CharField(max_length=14, choices=Flavor.Approval.choices, default=Flavor.Approval.NONE)
    own_approval = models.BooleanField(default=False)

    # What becomes of Pods that still use it at the end, and of its hold; as the flavor said likewise.
    ends_pods = models.BooleanField(default=False)
    hold_steps_aside = models.BooleanField(default=False)

    state = models.CharField(max_length=20, choices=State.choices, default=State.SUBMITTED)
    reason = models.CharField(max_length=20, choices=Reason.choices, blank=True)
    # The same in the cluster's words (scheduler event, API error); "" = it said nothing.
    message = models.TextField(blank=True)
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    # The duration runs from the first allocation; until then this bounds the wait.
    expires_at = models.DateTimeField(null=True, blank=True)
    # It ends then at the latest, however late it got its first device: what was booked from there on is
    # another's. Null = the duration alone decides.
    ends_by = models.DateTimeField(null=True, blank=True)
    # When somebody began to wait for a device: the hold was asked for, or a Pod found none.
    asked_at = models.DateTimeField(null=True, blank=True)
    allocated_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    # Why it ends, kept while `reason` tells how the ending goes on.
    end_reason = models.CharField(max_length=20, choices=Reason.choices, blank=True)

    # The object on the cluster: a ResourceClaim or a ResourceClaimTemplate by shape.
    object_name = models.CharField(max_length=253)
    object_uid = models.CharField(max_length=64, blank=True)
    object_created_at = models.DateTimeField(null=True, blank=True)
    # The mirror has shown the object: from then on its absence means that it is gone.
    object_seen = models.BooleanField(default=False)
    # A hold is asked for by the person and kept by the desk until release.
    hold_wanted = models.BooleanField(default=False)
    hold_pod_uid = models.CharField(max_length=64, blank=True)
    # Its image as the cluster accepted it; null = not known.
    hold_pod_image = models.CharField(max_length=512, null=True, blank=True)

    # Work on the cluster that is due (create, hold, wind up): how often it failed, and when to try again.
    # Null = nothing to do.
    due_at = models.DateTimeField(null=True, blank=True)
    attempts = models.PositiveIntegerField(default=0)

    objects = RequestManager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["cluster", "namespace", "object_name"], name="one_request_per_object"
            ),
            models.CheckConstraint(condition=models.Q(count__gte=1), name="request_count_positive"),
        ]
        indexes: ClassVar = [
            models.Index(fields=["cluster", "object_uid"]),
            models.Index(fields=["project", "state"]),
            models.Index(fields=["due_at"]),
            # The typical wait of a flavor: its latest allocations.
            models.Index(fields=["flavor", "allocated_at"], name="request_waits"),
        ]

    def __str__(self) -> str:
        return self.object_name

    @property
    def short_key(self) -> str:
        """The first eight digits of the key: how people and object names call the request."""
        return self.key.hex[:8]


FINAL_STATES = (
    Request.State.FAILED,
    Request.State.CANCELLED,
    Request.State.REJECTED,
    Request.State.EXPIRED,
    Request.State.ENDED,
)


class Decision(models.Model):
    """What a lead or an administrator decided about a request. Written once, never changed."""

    class Role(models.TextChoices):
        LEAD = "lead", _("lead of the project")
        ADMINISTRATOR = "administrator", _("administrator")

    class Verdict(models.TextChoices):
        APPROVED = "approved", _("approved")
        REJECTED = "rejected", _("rejected")

    request = models.ForeignKey(Request, models.CASCADE, related_name="decisions")
    role = models.CharField(max_length=14, choices=Role.choices)
    verdict = models.CharField(max_length=10, choices=Verdict.choices)
    person = models.ForeignKey(User, models.PROTECT, related_name="+")
    comment = models.CharField(max_length=1000, blank=True)
    at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["request", "role"], name="one_decision_per_role")
        ]

    def __str__(self) -> str:
        return f"{self.request}: {self.verdict} by {self.person}"


class RequestClaim(models.Model):
    """A ResourceClaim that belongs to a request: the shared claim itself, or one made from its template.

    Written once when it is first seen and kept for good, so that a rebuilt ledger finds the same payer
    after the claim has gone from the cluster."""

    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="+")
    claim_uid = models.CharField(max_length=64)
    claim_name = models.CharField(max_length=253)
    request = models.ForeignKey(Request, models.CASCADE, related_name="claims")
    # The Pod that owns a claim made from a template; "" for the shared claim.
    pod_uid = models.CharField(max_length=64, blank=True)
    seen_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "claim_uid"], name="one_request_per_claim")
        ]

    def __str__(self) -> str:
        return self.claim_name


class RequestPod(models.Model):
    """A Pod that uses an entitlement, by its uid. Written once when it is first seen: a label that is taken
    away or copied later changes nothing."""

    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="+")
    pod_uid = models.CharField(max_length=64)
    pod_name = models.CharField(max_length=253)
    request = models.ForeignKey(Request, models.CASCADE, related_name="entitled_pods")
    seen_at = models.DateTimeField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "pod_uid"], name="one_request_per_pod")
        ]

    def __str__(self) -> str:
        return self.pod_name


class HoldPod(models.Model):
    """A Pod that was a request's hold at some time, by its uid. Kept for good, so that a rebuilt ledger is
    rated the same. Names and labels say nothing: whoever makes a Pod writes them."""

    cluster = models.ForeignKey(Cluster, models.PROTECT, related_name="+")
    pod_uid = models.CharField(max_length=64)
    request = models.ForeignKey(Request, models.CASCADE, related_name="hold_pods")
    # The desk made it: else it was only found under the hold's name, and what it runs is not what the desk
    # sends. Then it is kept and removed as the hold, but counts as somebody's use.
    made = models.BooleanField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "pod_uid"], name="one_request_per_hold_pod")
        ]

    def __str__(self) -> str:
        return self.pod_uid
