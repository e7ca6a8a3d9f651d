"""How the ledger is kept: which bound of an uncertain time is billed, and what the last audit found."""

from typing import ClassVar

from django.db import models

from claims.models.ledger import Bound
from inventory.models import Cluster
from portal.accounts.models import User


class LedgerPolicy(models.Model):
    """Which bound counts for allocations that begin at or after `valid_from`; before the first, the tenant's.

    Rows in time, and not a setting: a ledger that is rebuilt must come out as it was."""

    valid_from = models.DateTimeField(unique=True)
    bound = models.CharField(max_length=8, choices=Bound.choices)
    set_at = models.DateTimeField()
    # Null = from the command line.
    set_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")

    def __str__(self) -> str:
        return f"{self.bound} from {self.valid_from}"


class LedgerAudit(models.Model):
    """The latest audit of one cluster's ledger."""

    cluster = models.OneToOneField(Cluster, models.CASCADE, related_name="ledger_audit")
    checked_at = models.DateTimeField()
    # The period whose device time was added up, and the sums in device-microseconds, as text (they are exact,
    # and may be fractions): {"existence", "allocated", "idle", "unavailable", "unknown"}.
    since = models.DateTimeField(null=True)
    until = models.DateTimeField(null=True)
    sums = models.JSONField(default=dict)
    devices = models.IntegerField(default=0)
    # [{"code", "where", "detail"}], at most `MOST`, and how many there are in all.
    violations = models.JSONField(default=list)
    violation_count = models.IntegerField(default=0)

    MOST: ClassVar = 500

    def __str__(self) -> str:
        return f"{self.cluster}: {self.violation_count} violations"
