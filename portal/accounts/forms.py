"""What people type about themselves, their tokens and their projects."""

from datetime import timedelta
from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.utils.translation import gettext_lazy as _

from portal.accounts import zones
from portal.accounts.invitations import LONGEST_ADDRESS
from portal.accounts.models import ApiToken, Membership, Project, User


class ProfileForm(forms.ModelForm):  # type: ignore[type-arg] # no subscript at run time
    language = forms.ChoiceField(
        label=_("Language"), choices=[("", _("As the browser says")), *settings.LANGUAGES], required=False
    )
    time_zone = forms.ChoiceField(label=_("Time zone"), required=False)

    class Meta:
        model = User
        fields = ("first_name", "last_name", "language", "time_zone")
        labels: ClassVar = {"first_name": _("First name"), "last_name": _("Last name")}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["time_zone"]
        assert isinstance(field, forms.ChoiceField)
        field.choices = zones.choices(self.instance.time_zone)


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

    def leave_out(self, scope: str) -> None:
        """Does not offer, nor accept, one of the scopes."""
        field = self.fields["scopes"]
        assert isinstance(field, forms.MultipleChoiceField)
        field.choices = [choice for choice in ApiToken.Scope.choices if choice[0] != scope]


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


class InvitationForm(forms.Form):
    LIFETIMES = ((1, _("1 day")), (7, _("7 days")), (30, _("30 days")), (60, _("60 days")))

    role = forms.ChoiceField(label=_("Role"), choices=Membership.Role.choices)
    email = forms.EmailField(
        label=_("E-mail"),
        required=False,
        max_length=LONGEST_ADDRESS,
        help_text=_("Then the link works only for an account with this address."),
    )
    lifetime = forms.TypedChoiceField(
        label=_("Good for"), choices=LIFETIMES, initial=7, coerce=lambda days: timedelta(days=int(days))
    )


class JoinForm(forms.ModelForm):  # type: ignore[type-arg] # no subscript at run time
    email = forms.EmailField(label=_("E-mail"), max_length=LONGEST_ADDRESS)
    password = forms.CharField(
        label=_("Password"),
        strip=False,
        max_length=1000,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=_("At least eight characters; a sentence is easier to keep in mind than signs."),
    )
    again = forms.CharField(
        label=_("Password again"),
        strip=False,
        max_length=1000,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    class Meta:
        model = User
        fields = ("username", "first_name", "last_name", "email")
        labels: ClassVar = {
            "username": _("User name"),
            "first_name": _("First name"),
            "last_name": _("Last name"),
        }
        help_texts: ClassVar = {"username": ""}

    def clean_again(self) -> str:
        again: str = self.cleaned_data["again"]
        if again != self.cleaned_data.get("password", again):
            raise forms.ValidationError(_("The two passwords differ."))
        return again

    def _post_clean(self) -> None:
        """Only cleans: the domain function makes the account."""


class RolesForm(forms.Form):
    roles = forms.MultipleChoiceField(
        label=_("Roles over the whole desk"),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        choices=(
            ("administrator", _("platform administrator: manages clusters, classes, projects and people")),
            ("finance", _("finance: sees what every project costs")),
            ("auditor", _("auditor: reads everything, changes nothing")),
        ),
    )
