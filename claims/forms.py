"""The request form as it is drawn. What is right and wrong is decided by `claims.asks`, for the API too."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django import forms
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from claims.asks import FIELDS, MAX_COUNT, MAX_PURPOSE, namespaces_of, projects_for
from claims.models import Request
from inventory.models import Cluster, DeviceClass
from portal.accounts.models import User

Choices = Sequence[tuple[str, str]]


class RequestForm(forms.Form):
    """Fields, their widgets and help. Bound with what was typed; messages come from the domain."""

    key = forms.CharField(widget=forms.HiddenInput)
    project = forms.CharField(label=_("Project"), widget=forms.Select, help_text=_("Who pays."))
    cluster = forms.CharField(label=_("Cluster"), widget=forms.Select)
    namespace = forms.CharField(
        label=_("Namespace"), widget=forms.Select, help_text=_("Where your Pods will run.")
    )
    device_class = forms.CharField(label=_("Class of devices"), widget=forms.Select)
    count = forms.CharField(
        label=_("How many"),
        widget=forms.NumberInput(attrs={"min": 1, "max": MAX_COUNT, "inputmode": "numeric"}),
    )
    min_memory = forms.CharField(
        label=_("Memory of each, at least"),
        required=False,
        widget=forms.TextInput(attrs={"placeholder": "40Gi", "maxlength": 32, "autocomplete": "off"}),
        help_text=_("A number with a unit, such as 40Gi; empty for any."),
    )
    shape = forms.CharField(label=_("Shape"), widget=forms.RadioSelect)
    duration = forms.CharField(
        label=_("For how long"), widget=forms.NumberInput(attrs={"min": 1, "inputmode": "numeric"})
    )
    duration_unit = forms.CharField(label=_("Unit"), widget=forms.Select)
    purpose = forms.CharField(
        label=_("Purpose"),
        widget=forms.Textarea(attrs={"rows": 3, "maxlength": MAX_PURPOSE}),
        help_text=_("Seen by the members of your project and by administrators."),
    )

    def __init__(
        self,
        *,
        user: User,
        now: datetime,
        values: Mapping[str, Any],
        errors: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """`values` is what is shown; `errors` None = nothing was sent yet."""
        self.messages = errors
        super().__init__(data=dict(values) if errors is not None else None, initial=dict(values))
        self.projects = projects_for(user)
        self.clusters = list(Cluster.objects.filter(enabled=True).order_by("name"))
        self._fill(values, now=now)

    def full_clean(self) -> None:
        """Puts the domain's messages where they belong; Django's own checks would say the same twice."""
        self.cleaned_data = {}
        self._errors = forms.utils.ErrorDict()
        for name, messages in (self.messages or {}).items():
            target = name if name in self.fields and not self[name].is_hidden else None
            self.add_error(target, list(messages))

    def _fill(self, values: Mapping[str, Any], *, now: datetime) -> None:
        project = next((p for p in self.projects if p.slug == values.get("project")), None)
        cluster = next((c for c in self.clusters if c.name == values.get("cluster")), None)
        self._choose("project", [(p.slug, p.name) for p in self.projects], values)
        self._choose("cluster", [(c.name, c.name) for c in self.clusters], values)
        bound = namespaces_of(project, cluster, now=now) if project and cluster else []
        self._choose("namespace", [(name, name) for name in bound], values)
        classes = (
            DeviceClass.objects.filter(cluster=cluster).order_by("name").values_list("name", flat=True)
            if cluster
            else []
        )
        self._choose("device_class", [("", _t("choose…")), *((name, name) for name in classes)], values)
        self._choose("shape", [(value, str(label)) for value, label in Request.Shape.choices], values)
        self._choose("duration_unit", [("hours", _t("hours")), ("days", _t("days"))], values)

    def _choose(self, name: str, choices: Choices, values: Mapping[str, Any]) -> None:
        """What was typed stays, also when it is no choice (any more): its message says so."""
        typed = str(values.get(name) or "")
        known = [value for value, _label in choices]
        extra = [(typed, typed)] if typed and typed not in known else []
        widget = self.fields[name].widget
        widget.choices = [*choices, *extra]


def initial_values(*, user: User, now: datetime, chosen: Mapping[str, Any]) -> dict[str, str]:
    """What a fresh form shows: sensible choices, overruled by the query string (links from devices)."""
    projects = projects_for(user)
    values: dict[str, str] = {
        "key": str(uuid.uuid4()),
        "project": projects[0].slug if projects else "",
        "count": "1",
        "shape": Request.Shape.CLAIM,
        "duration": "24",
        "duration_unit": "hours",
        **{name: str(chosen[name]) for name in FIELDS if chosen.get(name)},
    }
    project = next((p for p in projects if p.slug == values["project"]), None)
    if "cluster" not in values:
        clusters = list(Cluster.objects.filter(enabled=True).order_by("name"))
        bound = [c for c in clusters if project and namespaces_of(project, c, now=now)]
        values["cluster"] = next((c.name for c in [*bound, *clusters]), "")
    return values
