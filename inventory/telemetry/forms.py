"""Forms of monitoring as they are drawn. What is right and wrong is decided by `configuring`."""

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy as _

from inventory.models import MetricQuery, MetricSource
from inventory.telemetry import configuring
from inventory.telemetry.configuring import WantedQuery, WantedSource

_plain = {"autocomplete": "off", "spellcheck": "false"}
_code = {"class": "cd-mono", "spellcheck": "false", "autocomplete": "off"}


class SourceForm(forms.Form):
    """Where a cluster's Prometheus is."""

    url = forms.CharField(
        label=_("Address"),
        max_length=configuring.MAX_URL,
        help_text=_(
            "Of Prometheus, or of what speaks like it (Thanos, Mimir, VictoriaMetrics), without /api/v1. It "
            "may be one of your own network. Where it leads elsewhere, the desk does not follow."
        ),
        widget=forms.URLInput(attrs={**_plain, "placeholder": "http://prometheus.monitoring:9090"}),
    )
    token = forms.CharField(
        label=_("Bearer token"),
        max_length=configuring.MAX_TOKEN,
        required=False,
        help_text=_("Stored encrypted, and never shown again. Empty: as it is."),
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password", "spellcheck": "false"}),
    )
    without_token = forms.BooleanField(
        label=_("Ask without a token; forget one that is stored"), required=False
    )
    ca = forms.CharField(
        label=_("Certificate of the authority"),
        max_length=configuring.MAX_CA,
        required=False,
        help_text=_("In PEM form, where its certificate is signed by an authority of your own."),
        widget=forms.Textarea(attrs={**_code, "rows": 4}),
    )
    label = forms.CharField(
        label=_("Label that tells the cluster"),
        max_length=63,
        required=False,
        help_text=_("Where it knows several clusters. It is put for $cluster in every query."),
        widget=forms.TextInput(attrs={**_plain, "placeholder": "cluster"}),
    )
    label_value = forms.CharField(
        label=_("Its value"), max_length=253, required=False, widget=forms.TextInput(attrs=_plain)
    )
    idle_percent = forms.IntegerField(
        label=_("Idle is a device that is used less than (percent)"), min_value=1, max_value=100, initial=5
    )
    idle_hours = forms.IntegerField(
        label=_("for so many measured hours on end"),
        min_value=0,
        max_value=configuring.MAX_IDLE_HOURS,
        initial=0,
        help_text=_("Then its holder is told. 0: nobody is. Hours that were not measured never count."),
    )
    keep_days = forms.IntegerField(
        label=_("Days that the use of devices is kept by the hour"),
        min_value=configuring.KEPT_DAYS[0],
        max_value=configuring.KEPT_DAYS[1],
        initial=60,
        help_text=_("What each allocation used in all is kept as long as the allocation."),
    )
    enabled = forms.BooleanField(label=_("Ask it"), required=False, initial=True)

    def wanted(self) -> WantedSource:
        """What `configuring.save` is asked for."""
        values = dict(self.cleaned_data)
        without, token = values.pop("without_token"), values.pop("token")
        return WantedSource(token="" if without else token or None, **values)

    def refuse(self, field: str, message: str) -> None:
        """Shows an error of the domain next to the field that it is about."""
        self.add_error(field if field in self.fields else None, message)

    @staticmethod
    def initial_of(source: MetricSource | None) -> dict[str, Any]:
        """All but the token."""
        if source is None:
            return {}
        names = ("url", "ca", "label", "label_value", "enabled", "idle_percent", "idle_hours", "keep_days")
        return {name: getattr(source, name) for name in names}


class QueryForm(forms.Form):
    """One query, and how its samples are read."""

    name = forms.CharField(label=_("Name"), max_length=configuring.MAX_NAME)
    kind = forms.ChoiceField(label=_("What it tells"), choices=MetricQuery.Kind.choices)
    expression = forms.CharField(
        label=_("Query in PromQL"),
        max_length=configuring.MAX_EXPRESSION,
        help_text=_(
            '$cluster stands for the label that tells the cluster: up{job="kubelet", $cluster}. How busy '
            "devices are must come in percent, 0 to 100."
        ),
        widget=forms.Textarea(attrs={**_code, "rows": 5}),
    )
    unit = forms.ChoiceField(label=_("Unit"), choices=MetricQuery.Unit.choices)
    label = forms.CharField(
        label=_("Label that names the device, or the driver"),
        max_length=63,
        required=False,
        help_text=_("A device by its uuid, or by its PCI address. Empty: it tells of no single driver."),
        widget=forms.TextInput(attrs=_plain),
    )
    node_label = forms.CharField(
        label=_("Label that names the node"),
        max_length=63,
        required=False,
        help_text=_(
            "Where the device is named by its PCI address, and for Pods. Empty: the exporter's usual one."
        ),
        widget=forms.TextInput(attrs=_plain),
    )
    enabled = forms.BooleanField(label=_("Ask it"), required=False, initial=True)

    def wanted(self) -> WantedQuery:
        """What `configuring.save_query` is asked for."""
        return WantedQuery(**self.cleaned_data)

    def refuse(self, field: str, message: str) -> None:
        """Shows an error of the domain next to the field that it is about."""
        self.add_error(field if field in self.fields else None, message)

    @staticmethod
    def initial_of(query: MetricQuery) -> dict[str, Any]:
        names = ("name", "kind", "expression", "unit", "label", "node_label", "enabled")
        return {name: getattr(query, name) for name in names}
