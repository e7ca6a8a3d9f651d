"""The form of a quota as it is drawn. What is right and wrong is decided by `claims.quotas.admin`, for REST
too."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from django import forms
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from claims.catalogue.forms import DomainForm
from claims.models import Flavor, PriceBook, Quota
from claims.quotas.admin import MAX_NOTE, Effect, as_dict
from portal.accounts.models import Project
from portal.moments import MomentInput, drawn

_PLAIN = {"autocomplete": "off", "spellcheck": "false"}


class QuotaForm(DomainForm):
    # What was looked at: only that is saved.
    looked = forms.CharField(widget=forms.HiddenInput, required=False)
    project = forms.CharField(label=_("Project"), widget=forms.Select)
    flavor = forms.CharField(
        label=_("Flavor"),
        required=False,
        help_text=_("What describes a class instead counts for the flavors that are made of it."),
        widget=forms.Select,
    )
    kind = forms.CharField(
        label=_("What is limited"),
        help_text=_("A month is a calendar month in the organisation's time zone, as on statements."),
        widget=forms.Select(choices=Quota.Kind.choices),
    )
    limit = forms.CharField(
        label=_("Limit"),
        help_text=_("Devices: 8. Memory: 640Gi. Hours: 1500. Money: 2000.00."),
        widget=forms.TextInput(attrs=_PLAIN | {"maxlength": 32}),
    )
    currency = forms.CharField(
        label=_("Currency"),
        required=False,
        help_text=_("Of money only, such as EUR."),
        widget=forms.TextInput(attrs=_PLAIN | {"maxlength": 3, "list": "currencies"}),
    )
    action = forms.CharField(
        label=_("When more is asked for"),
        help_text=_(
            "To notify lets requests through, also where a flavor asks for no approval, and tells leads and "
            "administrators once. To release also ends the newest requests when more is held; Pods of people "
            "are never deleted."
        ),
        widget=forms.Select(choices=Quota.Action.choices),
    )
    enforced = forms.BooleanField(
        label=_("Let clusters enforce it too"),
        required=False,
        help_text=_(
            "For devices: the desk writes a ResourceQuota into each namespace of the project. Each namespace "
            "has the whole limit there."
        ),
    )
    valid_from = forms.CharField(
        label=_("Holds from"),
        required=False,
        help_text=_("Empty: from now on."),
        widget=MomentInput,
    )
    valid_until = forms.CharField(
        label=_("Holds until"),
        required=False,
        help_text=_("Empty: without an end."),
        widget=MomentInput,
    )
    note = forms.CharField(
        label=_("Note"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 2, "maxlength": MAX_NOTE}),
    )

    def __init__(
        self,
        *,
        values: Mapping[str, Any],
        errors: Mapping[str, Sequence[str]] | None = None,
        quota: Quota | None = None,
    ) -> None:
        super().__init__(values=values, errors=errors)
        projects = Project.objects.filter(archived_at=None).order_by("name").values_list("slug", "name")
        flavors = Flavor.objects.offered().order_by("position", "name").values_list("slug", "name")
        self._choose("project", [("", _t("choose…")), *projects], values)
        self._choose("flavor", [("", _t("everything")), *flavors], values)
        self.currencies = sorted(set(PriceBook.objects.values_list("currency", flat=True)))
        if quota is not None:
            for name in ("project", "flavor", "kind"):
                # What it is about does not change: told above the form.
                del self.fields[name]

    def _choose(self, name: str, choices: Sequence[tuple[str, str]], values: Mapping[str, Any]) -> None:
        """What was typed stays, also when it is no choice (any more): its message says so."""
        typed = str(values.get(name) or "")
        extra = [] if typed in {value for value, _label in choices} else [(typed, typed)]
        widget = self.fields[name].widget
        assert isinstance(widget, forms.Select)
        widget.choices = [*choices, *extra]


def quota_values(quota: Quota | None, *, project: str = "", flavor: str = "") -> dict[str, Any]:
    """A quota as its form shows it."""
    if quota is None:
        return {"version": "0", "project": project, "flavor": flavor, "action": Quota.Action.BLOCK.value}
    until = quota.valid_until
    moments = {"valid_from": drawn(quota.valid_from), "valid_until": drawn(until) if until else ""}
    return as_dict(quota) | moments | {"version": str(quota.version)}


def differing(form: QuotaForm, quota: Quota) -> list[tuple[str, str]]:
    """Labels of what was typed otherwise than it is stored now, with what is stored, in words."""
    stored = quota_values(quota)
    words = {
        "action": quota.get_action_display(),
        "enforced": _t("yes") if quota.enforced else _t("no"),
        **{name: str(stored[name]).replace("T", " ") for name in ("valid_from", "valid_until")},
    }
    return [
        (str(form.fields[name].label), str(words.get(name, stored[name])))
        for name in form.fields
        if name in stored and str(stored[name] or "") != str(form[name].value() or "")
    ]


def digest(effect: Effect) -> str:
    """Stands for what was looked at."""
    said = effect.said
    told = (
        *(said.project.pk, said.flavor.pk if said.flavor else 0, said.kind, said.limit, said.currency),
        *(said.action, said.enforced, said.valid_from, said.valid_until, said.note),
    )
    return hashlib.sha256(repr(tuple(map(str, told))).encode()).hexdigest()[:16]
