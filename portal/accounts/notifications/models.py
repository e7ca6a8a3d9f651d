"""Notifications, what each person chose, webhooks, and the outbox of what is still to be delivered."""

import uuid
from typing import TYPE_CHECKING, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from portal.accounts.notifications.kinds import Channel
from portal.accounts.notifications.texts import Text

if TYPE_CHECKING:
    from portal.accounts.models import User


class NotificationQuerySet(models.QuerySet["Notification"]):
    def of(self, person: "User") -> "NotificationQuerySet":
        """What `person` is shown in the portal: nobody reads another's."""
        return self.filter(person=person, in_portal=True)

    def unread(self) -> "NotificationQuerySet":
        return self.filter(read_at=None)


class Notification(models.Model):
    """Something that one person is told once."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="notifications")
    # A `Kind`; choices are not in the column, so that a new kind is no migration.
    kind = models.CharField(max_length=20)
    # What it tells, so that the same is told once.
    key = models.CharField(max_length=160)
    # `Text`s: said in the language of who reads it.
    subject = models.JSONField()
    body = models.JSONField(null=True)
    # A path of the portal.
    url = models.CharField(max_length=500, blank=True)
    project = models.ForeignKey("accounts.Project", models.CASCADE, null=True, related_name="+")
    # What mails about one thing have in common; "" = stands alone.
    thread = models.CharField(max_length=80, blank=True)
    # Who turned the portal off for this kind is not shown it; the row remains for the other channels.
    in_portal = models.BooleanField(default=True)
    created_at = models.DateTimeField()
    read_at = models.DateTimeField(null=True)

    objects = NotificationQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["person", "key"], name="one_notification_per_key")
        ]
        indexes: ClassVar = [
            models.Index(fields=["person", "-created_at"], name="notifications_of_person"),
            # The bell, on every page.
            models.Index(
                fields=["person"], condition=Q(read_at=None, in_portal=True), name="notifications_unread"
            ),
            models.Index(fields=["created_at"], name="notifications_by_age"),
        ]

    def __str__(self) -> str:
        return str(Text.read(self.subject))

    @property
    def body_text(self) -> str:
        return str(Text.read(self.body)) if self.body else ""


class NotificationChoice(models.Model):
    """What one person wants of one kind by one channel, where it is not the default."""

    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, related_name="notification_choices")
    kind = models.CharField(max_length=20)
    channel = models.CharField(max_length=10, choices=Channel.choices)
    wanted = models.BooleanField()

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["person", "kind", "channel"], name="one_choice_per_kind_and_channel"
            )
        ]


class Webhook(models.Model):
    """An address of a person's, or of a project's, that is told by signed HTTP requests."""

    key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    person = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.CASCADE, null=True, blank=True, related_name="webhooks"
    )
    project = models.ForeignKey(
        "accounts.Project", models.CASCADE, null=True, blank=True, related_name="webhooks"
    )
    url = models.CharField(max_length=500)
    # Encrypted; shown once, when it is made.
    secret = models.BinaryField()
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    # None = told; otherwise since when not, by the desk (after repeated failure) or by a person.
    disabled_at = models.DateTimeField(null=True, blank=True)
    # Since when nothing arrives any more.
    failing_since = models.DateTimeField(null=True, blank=True)
    failures = models.PositiveIntegerField(default=0)
    # It, or its host, did not answer: until then it is left alone.
    rests_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(person=None, project__isnull=False) | Q(person__isnull=False, project=None),
                name="webhook_of_a_person_or_a_project",
            )
        ]

    def __str__(self) -> str:
        return self.url


class Delivery(models.Model):
    """The outbox: one message that has to reach one mailbox or webhook, written with what it tells."""

    class State(models.TextChoices):
        PENDING = "pending", _("on its way")
        SENT = "sent", _("delivered")
        DEAD = "dead", _("given up")
        SKIPPED = "skipped", _("no longer wanted")

    channel = models.CharField(max_length=10, choices=Channel.choices)
    notification = models.ForeignKey(Notification, models.CASCADE, null=True, related_name="deliveries")
    person = models.ForeignKey(settings.AUTH_USER_MODEL, models.CASCADE, null=True, related_name="+")
    webhook = models.ForeignKey(Webhook, models.CASCADE, null=True, related_name="deliveries")
    kind = models.CharField(max_length=20)
    key = models.CharField(max_length=160)
    # The same at every attempt: by this a receiver knows a message that comes twice.
    message_id = models.UUIDField(default=uuid.uuid4, editable=False)
    # What a webhook is sent; null for mails, which are written from the notification.
    payload = models.JSONField(null=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.PENDING)
    attempts = models.PositiveIntegerField(default=0)
    # When to try (again); null once it is finished.
    due_at = models.DateTimeField(null=True)
    # Until then a worker is at it; one that dies leaves it to the next.
    leased_until = models.DateTimeField(null=True)
    # Mails that went, or shall go, as one.
    batch = models.UUIDField(null=True)
    created_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)
    status_code = models.PositiveIntegerField(null=True)
    # Why the last attempt failed, in English; `Text` where the desk itself says it.
    error = models.JSONField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(
                fields=["notification"], condition=Q(channel="mail"), name="one_mail_per_notification"
            ),
            models.UniqueConstraint(
                fields=["webhook", "key"], condition=Q(channel="webhook"), name="one_delivery_per_webhook"
            ),
        ]
        indexes: ClassVar = [
            models.Index(fields=["due_at"], condition=Q(state="pending"), name="deliveries_due"),
            models.Index(fields=["webhook", "-created_at"], name="deliveries_of_webhook"),
            models.Index(fields=["created_at"], name="deliveries_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.channel} {self.key}"

    @property
    def error_text(self) -> str:
        return str(Text.read(self.error)) if self.error else ""
