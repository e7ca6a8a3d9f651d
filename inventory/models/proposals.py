"""Proposals: a change of a DeviceClass on some clusters, from its drawing to what became of it on each."""

from typing import ClassVar

from django.db import models
from django.utils.translation import gettext_lazy as _

from inventory.models.clusters import Cluster
from portal.accounts.models import User


class ClassProposal(models.Model):
    """One change of one class, on one or several clusters."""

    class Kind(models.TextChoices):
        CREATE = "create", _("create")
        EDIT = "edit", _("change")
        DELETE = "delete", _("delete")
        ROLL_BACK = "roll-back", _("back to a version")
        RESTORE = "restore", _("restore what was agreed")

    class State(models.TextChoices):
        OPEN = "open", _("waits for approval")
        APPROVED = "approved", _("approved")
        APPLYING = "applying", _("is being applied")
        APPLIED = "applied", _("applied")
        PARTLY = "partly-applied", _("partly applied")
        FAILED = "failed", _("failed")
        REJECTED = "rejected", _("rejected")
        WITHDRAWN = "withdrawn", _("withdrawn")
        # A class is no longer what the change was drawn from.
        OUTDATED = "outdated", _("outdated")

    kind = models.CharField(max_length=10, choices=Kind.choices)
    name = models.CharField(max_length=253)
    state = models.CharField(max_length=14, choices=State.choices, default=State.OPEN)
    reason = models.CharField(max_length=1000, blank=True)
    author = models.ForeignKey(User, models.PROTECT, related_name="+")
    # Who drew it last: what is approved is theirs too.
    drawn_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    # Counts drawings: an approval is about the one that was looked at.
    revision = models.PositiveIntegerField(default=1)
    # Made at once, without a review: the rule in force asked for none.
    direct = models.BooleanField(default=False)
    # Fields that another field manager owns are taken over.
    take_over = models.BooleanField(default=False)
    approved_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    # The proposal whose done part this one takes back.
    undoes = models.ForeignKey("self", models.SET_NULL, null=True, related_name="undone_by")
    created_at = models.DateTimeField()
    changed_at = models.DateTimeField()
    # A stopped roll-out that nobody will resume.
    given_up_at = models.DateTimeField(null=True)
    # Who rolls it out now, until when: a worker that died is followed by another then.
    runner = models.CharField(max_length=64, blank=True)
    runs_until = models.DateTimeField(null=True)

    class Meta:
        indexes: ClassVar = [
            models.Index(fields=["state", "changed_at"], name="class_proposals_by_state"),
            models.Index(fields=["name", "id"], name="class_proposals_by_name"),
        ]

    def __str__(self) -> str:
        return f"{self.name} #{self.pk}"


class ProposalTarget(models.Model):
    """What a proposal makes of the class on one cluster, and how far that is. Specs are normalised to
    resource.k8s.io/v1; None = there is no class. Labels and annotations None = they stay as they are."""

    class State(models.TextChoices):
        WAITING = "waiting", _("waits")
        REHEARSED = "rehearsed", _("rehearsed")
        # Sent, or about to be: whether it arrived is read from the cluster.
        WRITING = "writing", _("is being written")
        DONE = "done", _("done")
        FAILED = "failed", _("failed")

    class Outcome(models.TextChoices):
        NONE = "", ""
        ALREADY = "already", _("was so already")
        CHANGED = "changed", _("changed meanwhile")
        CONFLICT = "conflict", _("belongs to another field manager")
        DROPPED = "dropped", _("fields were dropped")
        INVALID = "invalid", _("refused as invalid")
        FORBIDDEN = "forbidden", _("not permitted")
        UNREACHABLE = "unreachable", _("not reachable")
        USED = "used", _("used by others meanwhile")
        ERROR = "error", _("error of the cluster")

    proposal = models.ForeignKey(ClassProposal, models.CASCADE, related_name="targets")
    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+")
    # The order of the roll-out.
    position = models.PositiveSmallIntegerField()
    # What it was drawn from.
    base = models.JSONField(null=True)
    base_labels = models.JSONField(default=dict)
    base_annotations = models.JSONField(default=dict)
    base_uid = models.CharField(max_length=63, blank=True)
    base_version = models.CharField(max_length=63, blank=True)
    wanted = models.JSONField(null=True)
    wanted_labels = models.JSONField(null=True)
    wanted_annotations = models.JSONField(null=True)
    # `inventory.proposals.effects`, as of the drawing; None for what was done at once.
    effect = models.JSONField(null=True)
    # Of a deletion: who uses the class, as was confirmed: ["ResourceClaim team/train", …].
    users = models.JSONField(default=list)

    state = models.CharField(max_length=10, choices=State.choices, default=State.WAITING)
    outcome = models.CharField(max_length=12, choices=Outcome.choices, blank=True)
    message = models.CharField(max_length=2000, blank=True)
    # What the rehearsal answered (its spec), fields that it dropped with their gate ({"field", "gate"}), and
    # field managers in the way.
    answer = models.JSONField(null=True)
    dropped = models.JSONField(default=list)
    managers = models.JSONField(default=list)
    rehearsed_at = models.DateTimeField(null=True)
    done_at = models.DateTimeField(null=True)

    class Meta:
        ordering: ClassVar = ["proposal", "position"]
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["proposal", "cluster"], name="one_target_per_cluster")
        ]

    def __str__(self) -> str:
        return f"{self.proposal} on {self.cluster}"


class ProposalEntry(models.Model):
    """What was said and done about a proposal, in order. Rows are only added."""

    class Kind(models.TextChoices):
        PROPOSED = "proposed", _("proposed it")
        COMMENT = "comment", _("wrote")
        APPROVED = "approved", _("approved it")
        REJECTED = "rejected", _("rejected it")
        WITHDRAWN = "withdrawn", _("withdrew it")
        OUTDATED = "outdated", _("found it outdated")
        REDRAWN = "redrawn", _("drew it anew")
        STOPPED = "stopped", _("stopped")
        RESUMED = "resumed", _("resumed it")
        GIVEN_UP = "given-up", _("gave it up")
        APPLIED = "applied", _("applied it")

    proposal = models.ForeignKey(ClassProposal, models.CASCADE, related_name="entries")
    kind = models.CharField(max_length=10, choices=Kind.choices)
    # None = the desk itself.
    person = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    text = models.CharField(max_length=2000, blank=True)
    revision = models.PositiveIntegerField()
    at = models.DateTimeField()

    class Meta:
        ordering: ClassVar = ["pk"]

    def __str__(self) -> str:
        return f"{self.proposal}: {self.kind}"
