"""What nodes report of their Container Device Interface, and the tokens that they report with."""

from typing import ClassVar

from django.db import models
from django.db.models import F, Q

from inventory.models.clusters import Cluster
from portal.accounts.models import User


class CdiNode(models.Model):
    """A node that may report, and its latest report. There from its first token on, whether or not the
    mirror knows a node of this name."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="cdi_nodes")
    name = models.CharField(max_length=253)
    created_at = models.DateTimeField()

    # The latest report; null before the first.
    received_at = models.DateTimeField(null=True)
    # When the first one came.
    reporting_since = models.DateTimeField(null=True)
    # By the node's clock: an older report never replaces a newer one.
    sent_at = models.DateTimeField(null=True)
    # When what it says last differed from the report before.
    changed_at = models.DateTimeField(null=True)
    # SHA-256 of what the report says, without its times.
    digest = models.CharField(max_length=64, blank=True)
    # Within which time the next report is due.
    interval_seconds = models.IntegerField(default=0)
    # The node's clock minus ours.
    clock_skew_ms = models.BigIntegerField(null=True)
    collector = models.CharField(max_length=40, blank=True)
    # [{"path", "state": "read|missing|unreadable", "uid", "gid", "mode"}], in the order of precedence.
    directories = models.JSONField(default=list)
    # {"name", "version", "config_version", "enable_cdi", "spec_dirs", "handlers", "sources"}, None = unknown.
    runtime = models.JSONField(default=dict)
    # Files that were there but not sent, for the report would have been too large.
    files_left_out = models.IntegerField(default=0)
    # Drivers seen to write specs here: {"gpu.nvidia.com": ["base", "claim"]}. Only grows.
    writers = models.JSONField(default=dict)

    # Why the last report that was refused was, until one is accepted.
    refused_at = models.DateTimeField(null=True)
    refusal = models.CharField(max_length=40, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["cluster", "name"], name="one_cdi_node_per_name")
        ]

    def __str__(self) -> str:
        return f"{self.cluster}/{self.name}"


class CdiToken(models.Model):
    """What one node proves itself with; only its digest is stored."""

    node = models.ForeignKey(CdiNode, models.CASCADE, related_name="tokens")
    # SHA-256 of the token, which has 256 random bits: nothing to guess, so nothing to slow down.
    digest = models.CharField(max_length=64, unique=True)
    # How people tell tokens apart.
    prefix = models.CharField(max_length=16)
    # None: issued by a command on the portal's host.
    created_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(condition=Q(expires_at__gt=F("created_at")), name="cdi_token_lives")
        ]

    def __str__(self) -> str:
        return f"{self.prefix}…"


class CdiSpecFile(models.Model):
    """One file of a node's spec directories, as its latest report has it."""

    node = models.ForeignKey(CdiNode, models.CASCADE, related_name="files")
    directory = models.CharField(max_length=1000)
    name = models.CharField(max_length=255)
    uid = models.BigIntegerField()
    gid = models.BigIntegerField()
    mode = models.IntegerField()
    size = models.BigIntegerField()
    modified_at = models.DateTimeField()
    sha256 = models.CharField(max_length=64, blank=True)
    # Why the collector did not read it ("symlink", "binary", "too-large", …); empty when it did.
    unread = models.CharField(max_length=40, blank=True)

    # What it says. Its text is not kept: variables of containers may be secret.
    version = models.CharField(max_length=253, blank=True)
    kind = models.CharField(max_length=253, blank=True)
    # Whether a runtime takes it; None when its text was not sent.
    valid = models.BooleanField(null=True)
    # [{"name", "edits": {"env": […], "device_nodes": […], …}}].
    devices = models.JSONField(default=list)
    edits = models.JSONField(default=dict)
    # [{"code", "path", "level", "params"}], see `inventory.cdi.specs`.
    problems = models.JSONField(default=list)
    # The claim that it was written for; empty for a base spec.
    claim_uid = models.CharField(max_length=64, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["node", "directory", "name"], name="one_cdi_file_per_path")
        ]

    def __str__(self) -> str:
        return self.path

    @property
    def path(self) -> str:
        return f"{self.directory}/{self.name}"

    @property
    def permissions(self) -> str:
        """As `ls` and `chmod` write it: "0644"."""
        return f"{self.mode & 0o7777:04o}"
