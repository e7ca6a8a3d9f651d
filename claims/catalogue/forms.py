"""Forms of the catalogue as they are drawn. What is right and wrong is decided by
`claims.catalogue.flavor_terms` and `claims.catalogue.placement_terms`, for the API too."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import yaml
from django import forms
from django.contrib.auth.models import Group
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _

from claims.catalogue.flavor_terms import MAX_BOOKABLE_DAYS, MAX_COUNT, MAX_HOURS, MAX_IDLE_HOURS, Terms
from claims.catalogue.icons import ICONS
from claims.catalogue.placement_terms import COLUMNS
from claims.catalogue.tolerations import lines_of
from claims.models import Flavor, Placement
from inventory.models import Cluster, CountedUnits, DeviceClass
from portal.accounts.models import Project

_PLAIN = {"autocomplete": "off", "spellcheck": "false"}
_CODE = {"rows": 3, "class": "cd-mono", "spellcheck": "false"}


class DomainForm(forms.Form):
    """Fields that were judged elsewhere: shows what was typed, and the messages next to their fields."""

    version = forms.CharField(widget=forms.HiddenInput)

    def __init__(
        self, *, values: Mapping[str, Any], errors: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        """`errors` None = nothing was sent yet."""
        self.messages = errors
        data = values if isinstance(values, QueryDict) else dict(values)
        super().__init__(data=data if errors is not None else None, initial=dict(values))

    def full_clean(self) -> None:
        """Puts the domain's messages where they belong; Django's own checks would say the same twice."""
        self.cleaned_data = {}
        self._errors = forms.utils.ErrorDict()
        for name, messages in (self.messages or {}).items():
            target = name if name in self.fields and not self[name].is_hidden else None
            self.add_error(target, list(messages))


def _number(most: int) -> forms.NumberInput:
    return forms.NumberInput(attrs={"min": 1, "max": most, "inputmode": "numeric"})


class FlavorForm(DomainForm):
    name = forms.CharField(label=_("Name"), help_text=_("What researchers call it, such as H100 80 GB."))
    slug = forms.CharField(
        label=_("Short name"),
        help_text=_("Lower-case letters, digits and hyphens; addresses and programs use it."),
        widget=forms.TextInput(attrs=_PLAIN),
    )
    description = forms.CharField(
        label=_("Description"), required=False, widget=forms.Textarea(attrs={"rows": 2, "maxlength": 1000})
    )
    offers = forms.CharField(
        label=_("What it offers"),
        required=False,
        help_text=_("One point a line: memory, interconnect, what it is good for."),
        widget=forms.Textarea(attrs={"rows": 3, "maxlength": 1000}),
    )
    icon = forms.CharField(label=_("Icon"), widget=forms.RadioSelect(choices=list(ICONS.items())))
    min_count = forms.CharField(label=_("Devices, at least"), widget=_number(MAX_COUNT))
    default_count = forms.CharField(label=_("usually"), widget=_number(MAX_COUNT))
    max_count = forms.CharField(label=_("at most"), widget=_number(MAX_COUNT))
    min_memory = forms.CharField(
        label=_("Memory, at least"),
        required=False,
        help_text=_("Of each device, such as 40Gi; empty for no bound."),
        widget=forms.TextInput(attrs=_PLAIN | {"maxlength": 32}),
    )
    default_memory = forms.CharField(
        label=_("usually"), required=False, widget=forms.TextInput(attrs=_PLAIN | {"maxlength": 32})
    )
    max_memory = forms.CharField(
        label=_("at most"), required=False, widget=forms.TextInput(attrs=_PLAIN | {"maxlength": 32})
    )
    min_hours = forms.CharField(label=_("Hours, at least"), widget=_number(MAX_HOURS))
    default_hours = forms.CharField(label=_("usually"), widget=_number(MAX_HOURS))
    max_hours = forms.CharField(label=_("at most"), widget=_number(MAX_HOURS))
    visibility = forms.CharField(
        label=_("Who may ask for it"), widget=forms.Select(choices=Flavor.Visibility.choices)
    )
    projects = forms.CharField(
        label=_("Chosen projects"), required=False, widget=forms.CheckboxSelectMultiple
    )
    groups = forms.CharField(label=_("Chosen groups"), required=False, widget=forms.CheckboxSelectMultiple)
    approval = forms.CharField(
        label=_("Who has to approve a request"), widget=forms.Select(choices=Flavor.Approval.choices)
    )
    own_approval = forms.BooleanField(label=_("A person may approve a request of their own"), required=False)
    ends_pods = forms.BooleanField(
        label=_("Pods end with the request"),
        required=False,
        help_text=_("Pods that still use the device when a request ends are deleted. Else they keep it."),
    )
    hold_steps_aside = forms.BooleanField(
        label=_("The hold steps aside once Pods have joined"),
        required=False,
        help_text=_("Then the device is free as soon as these Pods end."),
    )
    hold_image = forms.CharField(
        label=_("Image of hold Pods"),
        required=False,
        help_text=_("Empty: the desk's own."),
        widget=forms.TextInput(attrs=_PLAIN | {"maxlength": 255}),
    )
    hold_pull_secret = forms.CharField(
        label=_("Their pull secret"),
        required=False,
        help_text=_("A Secret that every namespace of a requester has."),
        widget=forms.TextInput(attrs=_PLAIN | {"maxlength": 253}),
    )
    hold_priority_class = forms.CharField(
        label=_("Their PriorityClass"),
        required=False,
        help_text=_("It orders Pods that wait; it frees no device that is held."),
        widget=forms.TextInput(attrs=_PLAIN | {"maxlength": 253}),
    )
    hold_tolerations = forms.CharField(
        label=_("Taints of nodes that they tolerate besides"),
        required=False,
        help_text=_("One a line, as key=value:Effect or key:Effect."),
        widget=forms.Textarea(attrs=_CODE | {"rows": 2}),
    )
    idle_hours = forms.CharField(
        label=_("Hours until a hold that nobody uses is idle"),
        help_text=_("0: it may lie idle. Then its people are reminded."),
        widget=forms.NumberInput(attrs={"min": 0, "max": MAX_IDLE_HOURS, "inputmode": "numeric"}),
    )
    idle_release = forms.BooleanField(
        label=_("Give an idle device back"),
        required=False,
        help_text=_("An hour after the reminder, unless a Pod has joined the hold."),
    )
    bookable_days = forms.CharField(
        label=_("Bookable how many days ahead"),
        help_text=_("0: it cannot be booked, only requested."),
        widget=forms.NumberInput(attrs={"min": 0, "max": MAX_BOOKABLE_DAYS, "inputmode": "numeric"}),
    )
    bookings_kept = forms.BooleanField(
        label=_("Bookings are kept"),
        required=False,
        help_text=_("Requests that would run into a booking are refused, not only warned."),
    )

    def __init__(
        self, *, values: Mapping[str, Any], errors: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        super().__init__(values=values, errors=errors)
        projects = Project.objects.filter(archived_at=None).order_by("name")
        _choose(self, "projects", [(p.slug, p.name) for p in projects])
        _choose(self, "groups", [(g.name, g.name) for g in Group.objects.order_by("name")])


def flavor_values(terms: Terms, *, version: int) -> dict[str, Any]:
    """A flavor as its form shows it."""
    lines = lines_of(terms.hold_tolerations)
    return terms.as_dict() | {"version": str(version), "hold_tolerations": lines}


class PlacementForm(DomainForm):
    cluster = forms.CharField(label=_("Cluster"), widget=forms.Select)
    pool = forms.CharField(
        label=_("Node pool"),
        required=False,
        help_text=_("A name for people; empty for the whole cluster."),
        widget=forms.TextInput(attrs=_PLAIN | {"maxlength": 63}),
    )
    node_selector = forms.CharField(
        label=_("Labels of its nodes"),
        required=False,
        help_text=_("One a line, as name=value. Pods of this flavor go only there."),
        widget=forms.Textarea(attrs=_CODE | {"rows": 2}),
    )
    tolerations = forms.CharField(
        label=_("Taints of nodes that Pods tolerate"),
        required=False,
        help_text=_("One a line, as key=value:Effect or key:Effect."),
        widget=forms.Textarea(attrs=_CODE | {"rows": 2}),
    )
    device_class = forms.CharField(
        label=_("DeviceClass"),
        required=False,
        widget=forms.TextInput(attrs=_PLAIN | {"list": "device-classes"}),
    )
    selectors = forms.CharField(
        label=_("Which devices of the class"),
        required=False,
        help_text=_("CEL, all of which must be true; an empty line separates one expression from the next."),
        widget=forms.Textarea(attrs=_CODE),
    )
    config = forms.CharField(
        label=_("Configuration for drivers"),
        required=False,
        strip=False,
        help_text=_(
            "YAML as in a claim's devices.config: a list of entries with opaque.driver and opaque.parameters."
        ),
        widget=forms.Textarea(attrs=_CODE),
    )
    device_tolerations = forms.CharField(
        label=_("Taints of devices that are tolerated"),
        required=False,
        help_text=_("One a line, as key=value:Effect or key:Effect."),
        widget=forms.Textarea(attrs=_CODE | {"rows": 2}),
    )
    extended_resource = forms.CharField(
        label=_("Resource of a Device Plugin"),
        required=False,
        help_text=_("As nodes advertise it, such as nvidia.com/gpu."),
        widget=forms.TextInput(attrs=_PLAIN | {"list": "extended-resources"}),
    )
    stage = forms.CharField(
        label=_("Which of the two is used"), widget=forms.Select(choices=Placement.Stage.choices)
    )
    kubernetes = forms.CharField(
        label=_("DRA if the API server is"),
        required=False,
        help_text=_("A range of versions, such as >=1.34; empty for any."),
        widget=forms.TextInput(attrs=_PLAIN),
    )
    driver = forms.CharField(
        label=_("DRA if the driver"), required=False, widget=forms.TextInput(attrs=_PLAIN)
    )
    driver_versions = forms.CharField(
        label=_("has the version"), required=False, widget=forms.TextInput(attrs=_PLAIN)
    )
    runtime = forms.CharField(
        label=_("DRA if the container runtime is"),
        required=False,
        help_text=_("May name it: containerd >=2.0 || cri-o >=1.34."),
        widget=forms.TextInput(attrs=_PLAIN),
    )

    def __init__(
        self, *, values: Mapping[str, Any], errors: Mapping[str, Sequence[str]] | None = None
    ) -> None:
        super().__init__(values=values, errors=errors)
        clusters = Cluster.objects.order_by("name").values_list("name", flat=True)
        _choose(self, "cluster", [(name, name) for name in clusters])
        classes = DeviceClass.objects.order_by("name").values_list("name", flat=True)
        self.device_classes = list(classes.distinct())
        resources = CountedUnits.objects.order_by("resource").values_list("resource", flat=True)
        self.extended_resources = list(resources.distinct())


def placement_values(placement: Placement | None, *, version: int) -> dict[str, Any]:
    """A placement as its form shows it."""
    if placement is None:
        cluster = Cluster.objects.order_by("name").values_list("name", flat=True).first() or ""
        return {"version": str(version), "cluster": cluster, "stage": Placement.Stage.AUTOMATIC}
    config = placement.config
    return {name: getattr(placement, name) for name in COLUMNS} | {
        "version": str(version),
        "cluster": placement.cluster.name,
        "node_selector": "\n".join(f"{name}={value}" for name, value in placement.node_selector.items()),
        "tolerations": lines_of(placement.tolerations),
        "device_tolerations": lines_of(placement.device_tolerations),
        "selectors": "\n\n".join(placement.selectors),
        # By way of JSON: only plain values, never an alias.
        "config": yaml.safe_dump(json.loads(json.dumps(config)), sort_keys=False) if config else "",
    }


def _choose(form: forms.Form, name: str, choices: Sequence[tuple[str, str]]) -> None:
    widget = form.fields[name].widget
    assert isinstance(widget, forms.Select | forms.CheckboxSelectMultiple)
    widget.choices = list(choices)
