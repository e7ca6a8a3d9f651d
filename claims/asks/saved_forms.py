"""Forms of saved requests as they are drawn. What is right and wrong is decided by `claims.asks.saved`."""

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from claims.asks.saved import MAX_NAME
from portal.accounts.models import Project


class SavingForm(forms.Form):
    """A name, and with whom it is shared. Inside another form, hence the prefix of its fields."""

    save_name = forms.CharField(
        label=_("Name of the template"),
        required=False,
        widget=forms.TextInput(attrs={"maxlength": MAX_NAME, "autocomplete": "off"}),
    )
    save_project = forms.CharField(label=_("Shared with"), required=False, widget=forms.Select)

    def __init__(
        self,
        *,
        projects: Sequence[Project],
        values: Mapping[str, Any] | None = None,
        errors: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """`values` and `errors` are keyed as `claims.asks.saved.save` names them: "name", "project"."""
        shown = {f"save_{name}": value for name, value in (values or {}).items()}
        self.messages = errors
        super().__init__(data=shown if errors is not None else None, initial=shown)
        choices = [("", _t("nobody: for myself")), *((p.slug, p.name) for p in projects)]
        typed = str(shown.get("save_project") or "")
        if typed and typed not in [slug for slug, _name in choices]:
            choices.append((typed, typed))
        widget = self.fields["save_project"].widget
        assert isinstance(widget, forms.Select)  # as declared above
        widget.choices = choices

    def full_clean(self) -> None:
        """Puts the domain's messages where they belong."""
        self.cleaned_data = {}
        self._errors = forms.utils.ErrorDict()
        for name, messages in (self.messages or {}).items():
            field = f"save_{name}"
            self.add_error(field if field in self.fields else None, list(messages))
