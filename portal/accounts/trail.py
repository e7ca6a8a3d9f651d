"""Searching the audit trail: what pages, CSV and REST ask for in the same words."""

from datetime import date, datetime, time, timedelta

from django import forms
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from portal import lists
from portal.accounts.models import AuditEntry

# The calendar's own ends cannot be reckoned with: a day after, another time zone.
DAYS_IN_REACH = (MinValueValidator(date(1970, 1, 1)), MaxValueValidator(date(2999, 12, 31)))

TRAIL = lists.Listing(
    name="audit",
    columns=(
        lists.Column("at", _("When"), order=("at",), fixed=True),
        lists.Column("actor", _("Who"), order=("actor__username",), nullable=True),
        lists.Column("action", _("What"), order=("action",)),
        lists.Column("target", _("Object"), order=("target_name",), fixed=True),
        lists.Column("project", _("Project"), order=("project__name",), nullable=True),
        lists.Column("change", _("Change")),
        lists.Column("source", _("From address"), order=("source_ip",), nullable=True),
    ),
    facets=(
        lists.Choice("actor", _("Who"), column="actor__username"),
        lists.Choice("action", _("What"), column="action"),
        lists.Choice("kind", _("Kind of object"), column="target_kind"),
        lists.Choice("project", _("Project"), column="project__slug"),
    ),
    search=(
        *("target_name", "target_id", "action"),
        *("actor__username", "actor__first_name", "actor__last_name"),
    ),
    keeps=("since", "until"),
    sort="-at",
)


class DaysForm(forms.Form):
    """From which day to which; a day that is not valid does not narrow, with a message next to it."""

    since = forms.DateField(
        label=_("From"),
        required=False,
        validators=DAYS_IN_REACH,
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
    )
    until = forms.DateField(
        label=_("To"),
        required=False,
        validators=DAYS_IN_REACH,
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
    )


def within(form: DaysForm) -> "QuerySet[AuditEntry]":
    """The entries of those days, in the reader's time zone."""
    form.is_valid()
    since, until = form.cleaned_data.get("since"), form.cleaned_data.get("until")
    entries: QuerySet[AuditEntry] = AuditEntry.objects.all()
    if since:
        entries = entries.filter(at__gte=_midnight(since))
    if until:
        entries = entries.filter(at__lt=_midnight(until + timedelta(days=1)))
    return entries


def about(entry: AuditEntry) -> "QuerySet[AuditEntry]":
    """Everything that was done to the same object."""
    return AuditEntry.objects.filter(target_kind=entry.target_kind, target_id=entry.target_id)


def found(request: HttpRequest, form: DaysForm) -> "QuerySet[AuditEntry]":
    """The entries that a request asks for by words, facets and days, not in order."""
    return TRAIL.read(request).narrowed(within(form))


def _midnight(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time()))
