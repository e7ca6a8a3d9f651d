"""The moment in which somebody asks for something, as budgets see it."""

from datetime import datetime

from django.conf import settings

from claims.asks.values import UnableToSubmit
from claims.money.budgets import why_blocked
from claims.money.months import zone_named
from portal.accounts.models import Project


def refuse_spent(project: Project, *, now: datetime) -> None:
    """Raises UnableToSubmit where the project's budget of the month is spent and refuses new requests."""
    if why := why_blocked(project=project, zone=zone_named(settings.ORGANISATION_ZONE), now=now):
        raise UnableToSubmit({"project": [why]})
