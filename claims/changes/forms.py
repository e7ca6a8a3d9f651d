"""Forms of changes and of conditions as they are drawn. What is right and wrong is decided by
`claims.changes.changing` and `claims.changes.decisions`, for the API too."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from claims.asks.again import values_of
from claims.asks.judging import MAX_COUNT, MAX_PURPOSE
from claims.changes.changing import MAX_REASON
from claims.models import Request, RequestChange

_UNITS = [("hours", _("hours")), ("days", _("days"))]


class ChangeForm(forms.Form):
    """What shall be different; filled with what is."""

    duration = forms.CharField(
        label=_("For how long, from its first device on"),
        required=False,
        widget=forms.NumberInput(attrs={"min": 1, "inputmode": "numeric"}),
    )
    duration_unit = forms.CharField(label=_("Unit"), required=False, widget=forms.Select(choices=_UNITS))
    count = forms.CharField(
        label=_("How many"),
        required=False,
        widget=forms.NumberInput(attrs={"min": 1, "max": MAX_COUNT, "inputmode": "numeric"}),
    )
    min_memory = forms.CharField(
        label=_("Memory of each, at least"),
        required=False,
        widget=forms.TextInput(attrs={"placeholder": "40Gi", "maxlength": 32, "autocomplete": "off"}),
        help_text=_("A number with a unit, such as 40Gi; empty for any."),
    )
    release = forms.CharField(
        label=_("If a new request has to take its place, the present one gives its devices back"),
        required=False,
        widget=forms.RadioSelect(choices=RequestChange.Release.choices),
    )
    purpose = forms.CharField(
        label=_("Purpose"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "maxlength": MAX_PURPOSE}),
    )
    reason = forms.CharField(
        label=_("Why"),
        widget=forms.Textarea(attrs={"rows": 2, "maxlength": MAX_REASON}),
        help_text=_("Those who decide read it."),
    )

    def __init__(
        self,
        *,
        request: Request,
        values: Mapping[str, Any],
        errors: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """`values` overrule what is; `errors` None = nothing was sent yet."""
        self.messages = errors
        shown = {**values_of(request), "release": RequestChange.Release.WHEN_SERVED, **values}
        super().__init__(data=shown if errors is not None else None, initial=shown)
        if request.shape == Request.Shape.ENTITLEMENT and not request.min_memory:
            del self.fields["min_memory"]

    def full_clean(self) -> None:
        """Puts the domain's messages where they belong; Django's own checks would say the same twice."""
        self.cleaned_data = {}
        self._errors = forms.utils.ErrorDict()
        for name, messages in (self.messages or {}).items():
            self.add_error(name if name in self.fields else None, list(messages))
