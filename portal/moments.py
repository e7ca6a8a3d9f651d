"""Moments in forms: drawn and typed to the minute in the reader's time zone, and kept to the microsecond.

Browsers ask for minutes without an offset. Who saves a form without touching a moment in it must not move
it, so the minute that was drawn stands for the moment that is stored: also where clocks show it twice.
"""

from datetime import UTC, datetime, tzinfo
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.translation import gettext as _

MINUTES = "%Y-%m-%dT%H:%M"
# The calendar's own ends cannot be reckoned with.
EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2999, 12, 30, tzinfo=UTC)


class UnreadableMoment(ValueError):
    """What is wrong with a moment as it was typed, for people."""


class MomentInput(forms.DateTimeInput):
    """A browser's own field for a date and a time. `form_field` tells the zone beneath it."""

    input_type = "datetime-local"
    # Only what is drawn is cut; the form knows the moment as it is stored.
    supports_microseconds = True

    def __init__(self, attrs: dict[str, Any] | None = None) -> None:
        super().__init__(attrs, format=MINUTES)


class MomentField(forms.DateTimeField):
    """A moment in the reader's time zone. What the form began with comes back to the microsecond, if the
    minute is the same."""

    widget = MomentInput

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stored: datetime | None = None

    def get_bound_field(self, form: forms.BaseForm, field_name: str) -> forms.BoundField:
        # Every form has fields of its own, and binds them before it cleans.
        found = form.get_initial_for_field(self, field_name)
        self.stored = found if isinstance(found, datetime) else None
        return super().get_bound_field(form, field_name)

    def clean(self, value: Any) -> datetime | None:
        if self.stored is not None and value == drawn(self.stored):
            return self.stored
        found: datetime | None = super().clean(value)
        if found is not None and not EARLIEST <= found <= LATEST:
            raise ValidationError(_("Choose a time between the years 2000 and 2999."))
        return found


def drawn(moment: datetime, *, zone: tzinfo | None = None) -> str:
    """As a form shows it and browsers send it: its minute in `zone`, or in the reader's."""
    return timezone.localtime(moment, zone).isoformat()[: len("2026-01-31T12:00")]


def demand_plain(found: datetime, *, zone: tzinfo) -> None:
    """Raises UnreadableMoment for a moment that was typed without an offset in `zone`, and that `MomentField`
    would refuse: out of the years of forms, or of two times that look the same."""
    if not EARLIEST <= found <= LATEST:
        raise UnreadableMoment(_("Choose a time between the years 2000 and 2999."))
    local = found.astimezone(zone).replace(tzinfo=None)
    if len({local.replace(tzinfo=zone, fold=fold).utcoffset() for fold in (0, 1)}) > 1:
        raise UnreadableMoment(_("The clocks go back then: that time is there twice on that day."))


def placed(local: datetime, zone: tzinfo) -> datetime:
    """A time without an offset in a zone, in UTC; of two times that look the same the first. Raises
    UnreadableMoment for one that the clocks leave out."""
    found = local.replace(tzinfo=zone).astimezone(UTC)
    if found.astimezone(zone).replace(tzinfo=None) != local:
        raise UnreadableMoment(_("The clocks go forward then: that time does not exist on that day."))
    return found
