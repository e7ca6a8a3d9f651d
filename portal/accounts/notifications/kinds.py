"""What people are told about, the ways to them, and what goes which way unless they choose otherwise."""

from collections.abc import Mapping

from django.db import models
from django.utils.translation import gettext_lazy as _


class Kind(models.TextChoices):
    """What a notification is about; people choose per kind. A kind that is added later needs no migration."""

    REQUEST = "request", _("What becomes of my requests")
    APPROVAL = "approval", _("Requests that wait for my decision")
    EXPIRY = "expiry", _("The time of a request runs out")
    IDLE = "idle", _("A held device that nobody uses")
    FREE = "free", _("A device that I wait for is free")
    QUOTA = "quota", _("Quotas and budgets")
    COST = "cost", _("Statements of what projects cost")
    MESSAGE = "message", _("Messages of other people")
    MAINTENANCE = "maintenance", _("Maintenance of what I hold")
    FINDING = "finding", _("Findings on clusters")
    CLASS = "class", _("Proposals to change device classes")
    DESK = "desk", _("The desk itself")


class Channel(models.TextChoices):
    PORTAL = "portal", _("Portal")
    MAIL = "mail", _("Mail")
    WEBHOOK = "webhook", _("Webhook")


# Only administrators hear of these, so only they choose.
FOR_ADMINISTRATORS = frozenset({Kind.FINDING, Kind.CLASS})
# Told in the portal whatever is chosen: it says why another channel fell silent.
ALWAYS_IN_PORTAL = frozenset({Kind.DESK})
# Reminders: those for one person that come up together go into one mail.
COLLECTED = frozenset({Kind.EXPIRY, Kind.IDLE})
# What the webhook of a project hears.
FOR_PROJECTS = frozenset(
    {Kind.REQUEST, Kind.APPROVAL, Kind.EXPIRY, Kind.IDLE, Kind.QUOTA, Kind.COST, Kind.MAINTENANCE}
)

_ALL = frozenset(Channel)
DEFAULTS: Mapping[str, frozenset[Channel]] = {
    Kind.REQUEST: frozenset({Channel.PORTAL, Channel.WEBHOOK}),
    Kind.APPROVAL: _ALL,
    Kind.EXPIRY: _ALL,
    Kind.IDLE: _ALL,
    Kind.FREE: _ALL,
    Kind.QUOTA: _ALL,
    Kind.COST: _ALL,
    Kind.MESSAGE: _ALL,
    Kind.MAINTENANCE: _ALL,
    Kind.FINDING: frozenset({Channel.PORTAL, Channel.WEBHOOK}),
    Kind.CLASS: _ALL,
    Kind.DESK: frozenset({Channel.PORTAL, Channel.MAIL}),
}
