"""What of the ledger was written lately, so that only that is rated anew."""

from typing import ClassVar

from django.db import models

from inventory.models import Cluster


class LedgerTouch(models.Model):
    """A claim or Pod whose intervals, or stays in them, were written together with `LedgerCursor.changes`
    becoming `change`. Where an interval is no more, `gone` is the digest of its natural key. Rows go once
    they are rated; where one is missing, all is rated."""

    cluster = models.ForeignKey(Cluster, models.CASCADE, related_name="+", db_index=False)
    change = models.BigIntegerField()
    claim_uid = models.CharField(max_length=64)
    gone = models.CharField(max_length=64, blank=True)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["cluster", "change"], name="ledger_touch_by_change")]

    def __str__(self) -> str:
        return f"{self.claim_uid} {self.change}"
