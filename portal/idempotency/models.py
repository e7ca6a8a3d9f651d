"""What was asked under a key, and what was answered."""

import uuid
from typing import ClassVar

from django.db import models

from portal.accounts.models import User


class KeptAnswer(models.Model):
    """One use of a key by one person at one endpoint. `status` None: it is being worked on by `owner`."""

    person = models.ForeignKey(User, models.CASCADE, related_name="+")
    # Method and path.
    endpoint = models.CharField(max_length=400)
    key = models.CharField(max_length=255)
    # SHA-256 of what was asked: the same key for something else is a mistake of the client's.
    fingerprint = models.CharField(max_length=64)
    # Who works on it: one attempt, which may be given up for dead and followed by another.
    owner = models.UUIDField(default=uuid.uuid4)
    created_at = models.DateTimeField()
    started_at = models.DateTimeField()
    status = models.PositiveSmallIntegerField(null=True)
    # JSON; "" where the answer must not be kept (it carried a secret) or had no body.
    body = models.TextField(blank=True)
    secret = models.BooleanField(default=False)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["person", "endpoint", "key"], name="one_answer_per_key")
        ]
        indexes: ClassVar = [models.Index(fields=["created_at"], name="answers_by_age")]

    def __str__(self) -> str:
        return f"{self.endpoint} {self.key}"
