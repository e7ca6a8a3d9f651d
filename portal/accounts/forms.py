"""What people type about themselves, their tokens and their projects."""

import zoneinfo
from datetime import date, timedelta
from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator
from django.utils.functional import lazy
from django.utils.translation import gettext_lazy as _

from portal.accounts.models import ApiToken, AuditEntry, Membership, Project, User


def _time_zones() -> list[tuple[str, str]]:
    # Only places ("Europe/Berlin"): abbreviations and Etc/GMT+3 mislead.
    places = sorted(name for name in zoneinfo.available_timezones() if "/" in name and "Etc/" not in name)
    return [("", "UTC"), *((name, name.replace("_", " ")) for name in places)]


class ProfileForm(forms.ModelForm):  # type: ignore[type-arg] # no subscript at run time
    language = forms.ChoiceField(
        label=_("Language"), choices=[("", _("As the browser says")), *settings.LANGUAGES], required=False
    )
    time_zone = forms.ChoiceField(label=_("Time zone"), choices=lazy(_time_zones, list)(), required=False)

    class Meta:
        model = User
        fields = ("first_name", "last_name", "language", "time_zone")
        labels: ClassVar = {"first_name": _("First name"), "last_name": _("Last name")}


class TokenForm(forms.Form):
    LIFETIMES = ((7, _("7 days")), (30, _("30 days")), (90, _("90 days")), (365, _("1 year")))

    name = forms.CharField(
        label=_("Name"), max_length=80, help_text=_("What will use it, for example “nightly cost export”.")
    )
    scopes = forms.MultipleChoiceField(
        label=_("What it may do"), choices=ApiToken.Scope.choices, widget=forms.CheckboxSelectMultiple
    )
    lifetime = forms.TypedChoiceField(
        label=_("Expires after"),
        choices=LIFETIMES,
        initial=90,
        coerce=lambda days: timedelta(days=int(days)),
    )


class ProjectForm(forms.ModelForm):  # type: ignore[type-arg] # no subscript at run time
    class Meta:
        model = Project
        fields = ("name", "slug", "description", "cost_centre")
        labels: ClassVar = {
            "name": _("Name"),
            "slug": _("Short name"),
            "description": _("Description"),
            "cost_centre": _("Cost centre"),
        }
        help_texts: ClassVar = {
            "slug": _("For addresses: lower-case letters, digits and hyphens. It cannot be changed later.")
        }
        widgets: ClassVar = {"description": forms.Textarea(attrs={"rows": 3})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            del self.fields["slug"]

    def _post_clean(self) -> None:
        """Only cleans: the domain function assigns and saves, so that a refused change leaves no trace."""


class MemberForm(forms.Form):
    username = forms.CharField(label=_("Person"), max_length=254, help_text=_("User name or e-mail address."))
    role = forms.ChoiceField(label=_("Role"), choices=Membership.Role.choices)


# The calendar's own ends cannot be reckoned with: a day after, another time zone.
DAYS_IN_REACH = (MinValueValidator(date(1970, 1, 1)), MaxValueValidator(date(2999, 12, 31)))


class AuditFilter(forms.Form):
    """The filters of the audit trail; whatever is not valid is ignored, with a message next to it."""

    actor = forms.CharField(label=_("Who"), max_length=150, required=False)
    action = forms.ChoiceField(label=_("What"), required=False)
    project = forms.ModelChoiceField(
        label=_("Project"),
        queryset=Project.objects.order_by("name"),
        required=False,
        to_field_name="slug",
        empty_label=_("any"),
    )
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

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        actions = AuditEntry.objects.values_list("action", flat=True).distinct().order_by("action")
        field = self.fields["action"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = [("", _("anything")), *((action, action) for action in actions)]
