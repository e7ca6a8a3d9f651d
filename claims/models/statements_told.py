"""Whom programs of finance's are told of statements, and what they were told of corrections."""

from django.db import models

from portal.accounts.models import Webhook


class StatementHook(models.Model):
    """A person's webhook that hears of every project's statements, as long as the person may see them."""

    webhook = models.OneToOneField(Webhook, models.CASCADE, related_name="of_statements")
    added_at = models.DateTimeField()

    def __str__(self) -> str:
        return str(self.webhook)


class ToldCorrection(models.Model):
    """What was last told of the corrections of a project's closed month: the same is not told twice, and what
    nobody has been told yet is found again."""

    # Primary key of the project (0 = nobody known) and the month that was corrected: "17:2026-10".
    subject = models.CharField(max_length=40, unique=True)
    # Digest over those corrections.
    digest = models.CharField(max_length=64)
    # How often something was told of it.
    revision = models.PositiveIntegerField(default=0)
    told_at = models.DateTimeField()

    def __str__(self) -> str:
        return self.subject
