"""People, the projects that they work in, their API tokens, and the audit trail."""

from datetime import datetime
from typing import Any, ClassVar, NoReturn

from django.contrib.auth.models import AbstractUser, UserManager
from django.core.serializers.json import DjangoJSONEncoder
from django.db import models
from django.db.models import Q
from django.utils.translation import get_language
from django.utils.translation import gettext_lazy as _
from knox.models import AbstractAuthToken


class PeopleManager(UserManager["User"]):
    """Makes accounts; ``manage.py createsuperuser`` makes the first administrator of an installation."""

    use_in_migrations = False

    def create_superuser(
        self, username: str, email: str | None = None, password: str | None = None, **extra_fields: Any
    ) -> "User":
        extra_fields.setdefault("is_administrator", True)
        return super().create_superuser(username, email, password, **extra_fields)


class User(AbstractUser):  # type: ignore[django-manager-missing] # knox's manager has no types
    """A person who signs in. Roles over the whole desk are flags, since one person may have several;
    the role inside a project is on `Membership`."""

    is_administrator = models.BooleanField(_("platform administrator"), default=False)
    is_finance = models.BooleanField(_("finance"), default=False)
    # Reads everything, changes nothing.
    is_auditor = models.BooleanField(_("auditor"), default=False)
    # "" = as the browser says, and UTC.
    language = models.CharField(_("language"), max_length=10, blank=True)
    time_zone = models.CharField(_("time zone"), max_length=64, blank=True)
    # Which of the roles above are there only because the sign-in's groups say so ("administrator", …).
    claimed_roles = models.JSONField(default=list, blank=True)

    objects: ClassVar[PeopleManager] = PeopleManager()

    def __str__(self) -> str:
        return self.get_full_name() or self.username


class ProjectQuerySet(models.QuerySet["Project"]):
    def visible_to(self, user: "User") -> "ProjectQuerySet":
        """Projects that `user` may know of: their own, all for administrators, auditors and finance."""
        if not user.is_active:
            return self.none()
        if user.is_administrator or user.is_auditor or user.is_finance:
            return self
        return self.filter(pk__in=Membership.objects.filter(user=user).values("project"))

    def detailed_to(self, user: "User") -> "ProjectQuerySet":
        """Projects whose people, claims and Pods `user` may see: finance only sees those of their own."""
        if not user.is_active:
            return self.none()
        if user.is_administrator or user.is_auditor:
            return self
        return self.filter(pk__in=Membership.objects.filter(user=user).values("project"))

    def workable_by(self, user: "User") -> "ProjectQuerySet":
        """Projects that `user` may make requests for; an auditor changes nothing."""
        if not user.is_active or user.is_auditor:
            return self.none()
        living = self.filter(archived_at=None)
        if user.is_administrator:
            return living
        return living.filter(pk__in=Membership.objects.filter(user=user).values("project"))


class Project(models.Model):
    """A research group's account: it owns requests and pays for what they hold."""

    slug = models.SlugField(unique=True)
    name = models.CharField(max_length=120, unique=True)
    description = models.CharField(max_length=1000, blank=True)
    cost_centre = models.CharField(max_length=40, blank=True)
    created_at = models.DateTimeField()
    archived_at = models.DateTimeField(null=True, blank=True)
    members: "models.ManyToManyField[User, Membership]" = models.ManyToManyField(
        User, through="Membership", related_name="projects"
    )

    objects = ProjectQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    class Role(models.TextChoices):
        MEMBER = "member", _("member")
        LEAD = "lead", _("project lead")

    user = models.ForeignKey(User, models.CASCADE, related_name="memberships")
    project = models.ForeignKey(Project, models.CASCADE, related_name="memberships")
    # What holds: the higher one of what people gave and what the sign-in's groups say.
    role = models.CharField(max_length=10, choices=Role.choices, default=Role.MEMBER)
    # What the sign-in's groups say ("" = nothing), and, only beside that, what people gave ("" = nothing).
    claimed_role = models.CharField(max_length=10, choices=Role.choices, blank=True)
    given_role = models.CharField(max_length=10, choices=Role.choices, blank=True)
    # Unknown for those of before it was kept.
    joined_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["user", "project"], name="one_membership_per_project"),
            models.CheckConstraint(condition=Q(role__in=["member", "lead"]), name="membership_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.project}"

    @property
    def by_hand(self) -> str:
        """The role that people gave, or ""."""
        return self.given_role if self.claimed_role else self.role


class PastMembership(models.Model):
    """Somebody belonged to a project until a moment. What they did there still names them."""

    class Reason(models.TextChoices):
        LEFT = "left", _("left")
        REMOVED = "removed", _("removed")
        GROUP = "group", _("no longer in the group")

    user = models.ForeignKey(User, models.PROTECT, related_name="past_memberships")
    project = models.ForeignKey(Project, models.PROTECT, related_name="past_memberships")
    role = models.CharField(max_length=10, choices=Membership.Role.choices)
    joined_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField()
    reason = models.CharField(max_length=10, choices=Reason.choices)

    class Meta:
        indexes: ClassVar = [models.Index(fields=["project", "-ended_at"])]

    def __str__(self) -> str:
        return f"{self.user} in {self.project} until {self.ended_at}"


class Invitation(models.Model):
    """A link that takes one person into a project, once. Only the digest of its secret is stored."""

    project = models.ForeignKey(Project, models.CASCADE, related_name="invitations")
    role = models.CharField(max_length=10, choices=Membership.Role.choices, default=Membership.Role.MEMBER)
    # Only for who has this address; "" = for whoever holds the link.
    email = models.EmailField(blank=True)
    digest = models.CharField(max_length=64, unique=True)
    created_by = models.ForeignKey(User, models.PROTECT, related_name="+")
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField()
    used_by = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(used_at=None) | Q(revoked_at=None), name="invitation_used_or_revoked"
            ),
            models.CheckConstraint(condition=Q(role__in=["member", "lead"]), name="invitation_role_known"),
        ]

    def __str__(self) -> str:
        return self.email or f"#{self.pk}"

    def state(self, now: datetime) -> str:
        """ "used", "revoked", "expired" or "open"."""
        if self.used_at is not None:
            return "used"
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at <= now else "open"


class ApiToken(AbstractAuthToken):  # type: ignore[misc] # knox has no types
    """A named, expiring token for the REST API; only its digest is stored."""

    class Scope(models.TextChoices):
        INVENTORY = "inventory", _("read devices and clusters")
        REQUESTS = "requests", _("read and make requests")
        CHARGEBACK = "chargeback", _("read history and charges")
        METRICS = "metrics", _("read metrics of the desk and of all clusters")
        ADMINISTRATION = "administration", _("read the audit trail, and change what only administrators may")

    name = models.CharField(max_length=80)
    scopes = models.JSONField(default=list)
    last_used_at = models.DateTimeField(null=True, blank=True)

    def scope_labels(self) -> list[str]:
        """What the token may do, in words."""
        return [str(self.Scope(scope).label) for scope in self.scopes if scope in self.Scope.values]


class AppendOnlyError(TypeError):
    """Something tried to change or delete an entry of the audit trail."""


class AuditQuerySet(models.QuerySet["AuditEntry"]):
    def update(self, **kwargs: Any) -> NoReturn:  # noqa: ARG002 - Django's signature
        raise AppendOnlyError("Entries of the audit trail are never changed")

    def bulk_update(self, *args: Any, **kwargs: Any) -> NoReturn:  # noqa: ARG002 - Django's signature
        raise AppendOnlyError("Entries of the audit trail are never changed")

    def delete(self) -> NoReturn:
        raise AppendOnlyError("Entries of the audit trail are never deleted")


class AuditEntry(models.Model):
    """One change that somebody (or the desk itself: no actor) made. Append-only."""

    at = models.DateTimeField(db_index=True)
    actor = models.ForeignKey(User, models.PROTECT, null=True, related_name="+")
    action = models.CharField(max_length=60, db_index=True)
    # What was changed, by kind, key and the name that people knew it by then.
    target_kind = models.CharField(max_length=40)
    target_id = models.CharField(max_length=64)
    target_name = models.CharField(max_length=253)
    project = models.ForeignKey(Project, models.PROTECT, null=True, related_name="+")
    before = models.JSONField(null=True, encoder=DjangoJSONEncoder)
    after = models.JSONField(null=True, encoder=DjangoJSONEncoder)
    source_ip = models.GenericIPAddressField(null=True)

    objects = AuditQuerySet.as_manager()

    class Meta:
        indexes: ClassVar = [models.Index(fields=["target_kind", "target_id"])]

    def __str__(self) -> str:
        return f"{self.action} {self.target_name}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise AppendOnlyError("Entries of the audit trail are never changed")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> NoReturn:  # noqa: ARG002 - Django's signature
        raise AppendOnlyError("Entries of the audit trail are never deleted")

    def difference(self) -> list[dict[str, Any]]:
        """Before and after side by side: [{"name", "before", "after"}], None where there is no value."""
        before, after = self.before or {}, self.after or {}
        return [
            {"name": name, "before": _shown(before.get(name)), "after": _shown(after.get(name))}
            for name in {**before, **after}
        ]


def _shown(value: Any) -> Any:
    return ", ".join(str(item) for item in value) if isinstance(value, list) else value


class AnnouncementQuerySet(models.QuerySet["Announcement"]):
    def current(self, now: datetime) -> "AnnouncementQuerySet":
        """Those that are shown at that time."""
        return self.filter(Q(ends_at=None) | Q(ends_at__gt=now), starts_at__lte=now)

    def for_reader(self, user: "User", *, now: datetime) -> "AnnouncementQuerySet":
        """What `user` should see now, the gravest first: not what they have put away."""
        put_away = user.dismissed_announcements.values("announcement")
        return self.current(now).exclude(pk__in=put_away).order_by("-level", "-starts_at", "-pk")


class Announcement(models.Model):
    """What administrators tell everybody on the first page, from `starts_at` until before `ends_at`."""

    class Level(models.IntegerChoices):
        """In order of gravity."""

        INFO = 1, _("for information")
        WARNING = 2, _("warning")
        OUTAGE = 3, _("outage")

    level = models.PositiveSmallIntegerField(choices=Level.choices, default=Level.INFO)
    text = models.CharField(max_length=500)
    # The same in Chinese; "" = the text serves everybody.
    text_zh_hans = models.CharField(max_length=500, blank=True)
    starts_at = models.DateTimeField()
    # None = until somebody ends it.
    ends_at = models.DateTimeField(null=True, blank=True)
    # Whether a reader may put it away for good.
    dismissible = models.BooleanField(default=True)
    created_by = models.ForeignKey(User, models.PROTECT, related_name="+")

    objects = AnnouncementQuerySet.as_manager()

    class Meta:
        constraints: ClassVar = [
            models.CheckConstraint(
                condition=Q(ends_at=None) | Q(ends_at__gt=models.F("starts_at")),
                name="announcement_period_not_empty",
            )
        ]

    def __str__(self) -> str:
        return self.text

    @property
    def told(self) -> str:
        """The text in the language of the reader."""
        return (self.text_zh_hans if get_language() == "zh-hans" else "") or self.text


class AnnouncementDismissal(models.Model):
    """Somebody has read an announcement and wants to see it no more."""

    announcement = models.ForeignKey(Announcement, models.CASCADE, related_name="dismissals")
    user = models.ForeignKey(User, models.CASCADE, related_name="dismissed_announcements")

    class Meta:
        constraints: ClassVar = [
            models.UniqueConstraint(fields=["announcement", "user"], name="one_dismissal_per_reader")
        ]


# At the end, since they refer to the people and projects above.
from portal.accounts.notifications.models import (  # noqa: E402 - see above
    Delivery,
    Notification,
    NotificationChoice,
    Webhook,
)

__all__ = [
    "Announcement",
    "AnnouncementDismissal",
    "ApiToken",
    "AppendOnlyError",
    "AuditEntry",
    "Delivery",
    "Invitation",
    "Membership",
    "Notification",
    "NotificationChoice",
    "PastMembership",
    "Project",
    "User",
    "Webhook",
]
