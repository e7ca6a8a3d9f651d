"""The forms of rules, maintenance and drains as they are drawn. What is right is decided by the domain."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from inventory.models import Cluster, DrainHolder, Effect
from inventory.models.taints import Place
from inventory.taints.answers import MAX_NOTE
from inventory.taints.drains import MAX_MESSAGE
from inventory.taints.maintenance import MAX_REASON, Terms
from inventory.taints.places import MOST_DEVICES, Where, read_place
from inventory.taints.rules import WantedRule
from inventory.taints.selecting import Selector, Taint
from inventory.taints.serving import serving
from portal.moments import MomentField

_PLAIN = {"autocomplete": "off", "spellcheck": "false"}
# A device's line: driver, pool and name, as long as each may be.
MAX_DEVICES_TEXT = MOST_DEVICES * (63 + 253 + 63 + 4)


def _text(label: Any, *, most: int, required: bool = False, **more: Any) -> forms.CharField:
    attrs = {**_PLAIN, **more.pop("attrs", {})}
    return forms.CharField(
        label=label, max_length=most, required=required, widget=forms.TextInput(attrs=attrs), **more
    )


class Refusable(forms.Form):
    """Shows what the domain refuses next to the field that it is about."""

    def refuse(self, field: str, message: str) -> None:
        shown = field in self.fields and not self.fields[field].widget.is_hidden
        self.add_error(field if shown else None, message)

    def put(self, name: str, value: str) -> None:
        """Have a field sent back with another value than came."""
        data = QueryDict(mutable=True)
        data.update(self.data)
        data[name] = value
        self.data = data


class RuleForm(Refusable):
    """A DeviceTaintRule. `cluster` and `name` are fixed once it is there."""

    cluster = forms.ChoiceField(label=_("Cluster"))
    name = _text(_("Name"), most=253, required=True)
    driver = _text(_("Driver"), most=63, attrs={"list": "drivers"})
    pool = _text(_("Pool"), most=253, help_text=_("Often the name of a node."))
    device = _text(_("Device"), most=63)
    key = _text(_("Key"), most=317, required=True, help_text=_("Such as example.com/repair."))
    value = _text(_("Value"), most=63)
    effect = forms.ChoiceField(label=_("Effect"), choices=Effect.choices, widget=forms.RadioSelect)
    reason = forms.CharField(
        label=_("Why"),
        max_length=1000,
        required=False,
        help_text=_("It is kept with the rule, here and on the cluster."),
    )
    confirm = _text(_("Type the name of the cluster"), most=63)
    seen_version = forms.CharField(max_length=63, required=False, widget=forms.HiddenInput)
    looked = forms.CharField(max_length=63, required=False, widget=forms.HiddenInput)

    def __init__(self, *args: Any, clusters: Sequence[Cluster], fixed: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fixed = fixed
        self.clusters = {cluster.name: cluster for cluster in clusters}
        if fixed:
            del self.fields["cluster"], self.fields["name"]
        else:
            field = self.fields["cluster"]
            assert isinstance(field, forms.ChoiceField)  # as declared
            field.choices = [(cluster.name, cluster.name) for cluster in clusters]
        if clusters and not any(serving(cluster).knows_none for cluster in clusters):
            effects = self.fields["effect"]
            assert isinstance(effects, forms.ChoiceField)  # as declared
            effects.choices = [choice for choice in Effect.choices if choice[0] != Effect.NONE]

    def chosen_cluster(self) -> Cluster:
        return (
            next(iter(self.clusters.values())) if self.fixed else self.clusters[self.cleaned_data["cluster"]]
        )

    def wanted(self, name: str = "") -> WantedRule:
        """What `inventory.taints.rules` is asked for."""
        values = self.cleaned_data
        return WantedRule(
            name=name or values["name"],
            selector=Selector(values["driver"], values["pool"], values["device"]),
            taint=Taint(values["key"], values["value"], values["effect"]),
            reason=values["reason"],
        )


class PlaceForm(Refusable):
    """A part of a cluster."""

    cluster = forms.ChoiceField(label=_("Cluster"))
    scope = forms.ChoiceField(
        label=_("What of it"), choices=Place.Scope.choices, widget=forms.RadioSelect, initial=Place.Scope.NODE
    )
    node = _text(_("Node"), most=253, help_text=_("Of a node: its name."))
    driver = _text(
        _("Driver"), most=63, attrs={"list": "drivers"}, help_text=_("Of a pool: who publishes it.")
    )
    pool = _text(_("Pool"), most=253, help_text=_("Of a pool: its name."))
    devices = forms.CharField(
        label=_("Devices"),
        required=False,
        max_length=MAX_DEVICES_TEXT,
        widget=forms.Textarea(attrs={"rows": 3, "class": "cd-mono", "spellcheck": "false"}),
        help_text=_("Of single devices: one a line, driver/pool/device."),
    )

    def __init__(self, *args: Any, clusters: Sequence[Cluster], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.clusters = {cluster.name: cluster for cluster in clusters}
        field = self.fields["cluster"]
        assert isinstance(field, forms.ChoiceField)  # as declared
        field.choices = [(cluster.name, cluster.name) for cluster in clusters]

    def where(self) -> Where:
        """Raises UnableToPlace."""
        values = self.cleaned_data
        return read_place(
            cluster=self.clusters[values["cluster"]], scope=values["scope"], driver=values["driver"],
            pool=values["pool"], node=values["node"], devices=values["devices"],
        )  # fmt: skip


_EFFECTS = [("", _("nothing: it is only announced")), *Effect.choices]


class MaintenanceForm(PlaceForm):
    """A maintenance to be planned."""

    starts_at = MomentField(label=_("From"))
    ends_at = MomentField(label=_("Until"))
    reason = forms.CharField(label=_("Why"), max_length=MAX_REASON, help_text=_("Holders read it."))
    effect = forms.ChoiceField(
        label=_("Taint of its devices meanwhile"), choices=_EFFECTS, required=False, widget=forms.RadioSelect
    )
    confirm = _text(
        _("Type the name of the cluster"), most=63, help_text=_("Only where a whole cluster is tainted.")
    )

    def terms(self) -> Terms:
        """What `inventory.taints.maintenance` is asked for."""
        values = self.cleaned_data
        return Terms(
            starts_at=values["starts_at"], ends_at=values["ends_at"], reason=values["reason"],
            effect=values["effect"],
        )  # fmt: skip


class MaintenanceChangeForm(Refusable):
    """The same without its place, which stays."""

    starts_at = MomentField(label=_("From"))
    ends_at = MomentField(label=_("Until"))
    reason = forms.CharField(label=_("Why"), max_length=MAX_REASON, help_text=_("Holders read it."))
    effect = forms.ChoiceField(
        label=_("Taint of its devices meanwhile"), choices=_EFFECTS, required=False, widget=forms.RadioSelect
    )
    confirm = _text(
        _("Type the name of the cluster"), most=63, help_text=_("Only where a whole cluster is tainted.")
    )
    version = forms.IntegerField(min_value=0, max_value=2**31 - 1, widget=forms.HiddenInput)

    def __init__(
        self, *args: Any, begun: bool = False, began_at: datetime | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.began_at = began_at
        if begun:
            del self.fields["starts_at"]

    def terms(self) -> Terms:
        """What `inventory.taints.maintenance` is asked for."""
        values = self.cleaned_data
        starts = values.get("starts_at") or self.began_at
        assert starts is not None  # one of both
        return Terms(
            starts_at=starts, ends_at=values["ends_at"], reason=values["reason"], effect=values["effect"]
        )


class DrainForm(PlaceForm):
    """A node, or devices, to be emptied."""

    reason = forms.CharField(label=_("Why"), max_length=MAX_REASON, help_text=_("Holders read it."))

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        del self.fields["driver"], self.fields["pool"]
        scope = self.fields["scope"]
        assert isinstance(scope, forms.ChoiceField)  # as declared
        scope.choices = [
            (value, label) for value, label in Place.Scope.choices if value in ("node", "devices")
        ]

    def where(self) -> Where:
        self.cleaned_data |= {"driver": "", "pool": ""}
        return super().where()


class AskForm(Refusable):
    """A message to those who hold something."""

    message = forms.CharField(
        label=_("Message"), max_length=MAX_MESSAGE, required=False, widget=forms.Textarea(attrs={"rows": 3})
    )
    wanted_by = MomentField(label=_("Please leave by"), required=False)
    version = forms.IntegerField(min_value=0, max_value=2**31 - 1, widget=forms.HiddenInput)


class HandOverForm(Refusable):
    """Until when what is empty is under maintenance."""

    ends_at = MomentField(label=_("Until"))
    reason = forms.CharField(label=_("Why"), max_length=MAX_REASON, required=False)
    version = forms.IntegerField(min_value=0, max_value=2**31 - 1, widget=forms.HiddenInput)


class StepForm(Refusable):
    """Nothing but which version was looked at."""

    version = forms.IntegerField(min_value=0, max_value=2**31 - 1, widget=forms.HiddenInput)


class AnswerForm(Refusable):
    """What a holder answers."""

    answer = forms.ChoiceField(
        label=_("Your answer"),
        choices=[
            (DrainHolder.Answer.BY, _("I will be done by")),
            (DrainHolder.Answer.DONE, _("I am done")),
            (DrainHolder.Answer.CANNOT, _("I cannot leave")),
        ],
        widget=forms.RadioSelect,
    )
    by = MomentField(label=_("Until when"), required=False)
    note = forms.CharField(label=_("Note"), max_length=MAX_NOTE, required=False)
