"""The request form as it is drawn. What is right and wrong is decided by `claims.asks.judging`, for the API
too."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from claims.asks.judging import FIELDS, MAX_COUNT, MAX_PURPOSE, namespaces_of, projects_for, read
from claims.asks.options import NAMES as OPTIONS
from claims.asks.options import attributes_of
from claims.asks.queueing import off_by_queue, queues_of
from claims.catalogue.flavored import default_cluster, placements_of
from claims.catalogue.offers import askable
from claims.catalogue.places import choices_of
from claims.models import Flavor, Request
from inventory.models import Cluster, DeviceClass, LocalQueue
from portal.accounts.models import User
from portal.templatetags.ui import human_duration

Choices = Sequence[tuple[str, str]]


_LINES = {"rows": 2, "spellcheck": "false", "autocomplete": "off"}
_ATTRIBUTE = {"spellcheck": "false", "autocomplete": "off", "list": "attributes"}


def _refilling() -> forms.Select:
    """A choice on which other choices hang: the form is filled anew when it changes."""
    return forms.Select(attrs={"class": "cd-refills"})


class RequestForm(forms.Form):
    """Fields, their widgets and help. Bound with what was typed; messages come from the domain."""

    key = forms.CharField(widget=forms.HiddenInput)
    # The flavor that the shown values were made for: what is usual for it gives way to the next one's.
    flavor_before = forms.CharField(widget=forms.HiddenInput, required=False)
    project = forms.CharField(label=_("Project"), widget=_refilling(), help_text=_("Who pays."))
    flavor = forms.CharField(label=_("Flavor"), widget=_refilling())
    cluster = forms.CharField(label=_("Cluster"), widget=_refilling())
    pool = forms.CharField(label=_("Node pool"), widget=_refilling(), required=False)
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
    alternatives = forms.CharField(
        label=_("Else, in this order"),
        required=False,
        help_text=_("Flavors that would do instead, one a line, such as 2 × a100-40g."),
        widget=forms.Textarea(attrs=_LINES),
    )
    parts = forms.CharField(
        label=_("And besides"),
        required=False,
        help_text=_("Classes of further devices on the same node, one a line, such as 1 × rdma-nic."),
        widget=forms.Textarea(attrs=_LINES),
    )
    same = forms.CharField(
        label=_("All with the same"),
        required=False,
        help_text=_("An attribute, such as resource.kubernetes.io/pcieRoot."),
        widget=forms.TextInput(attrs=_ATTRIBUTE),
    )
    different = forms.CharField(
        label=_("Each with a different"), required=False, widget=forms.TextInput(attrs=_ATTRIBUTE)
    )
    share = forms.CharField(
        label=_("Only a share of each"),
        required=False,
        help_text=_("Of devices that can be shared; one capacity a line, such as memory=10Gi."),
        widget=forms.Textarea(attrs=_LINES),
    )
    tolerations = forms.CharField(
        label=_("Taints of devices that you accept"),
        required=False,
        help_text=_("One a line, as key=value:Effect or key:Effect."),
        widget=forms.Textarea(attrs=_LINES),
    )
    expression = forms.CharField(
        label=_("A CEL expression that must be true"),
        required=False,
        widget=forms.Textarea(attrs=_LINES | {"class": "cd-mono"}),
    )
    queue = forms.CharField(
        label=_("Queue of Kueue"),
        required=False,
        widget=_refilling(),
        help_text=_("Your Jobs wait in it until it admits them; empty for none."),
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
        self.reading = read(values, user=user, now=now)
        self._fill(values, user=user, now=now)

    def full_clean(self) -> None:
        """Puts the domain's messages where they belong; Django's own checks would say the same twice."""
        self.cleaned_data = {}
        self._errors = forms.utils.ErrorDict()
        for name, messages in (self.messages or {}).items():
            target = name if name in self.fields and not self[name].is_hidden else None
            self.add_error(target, list(messages))

    def _fill(self, values: Mapping[str, Any], *, user: User, now: datetime) -> None:
        seen = self.reading
        project = next((p for p in self.projects if p.slug == values.get("project")), None)
        self._choose("project", [(p.slug, p.name) for p in self.projects], values)
        flavors = [(flavor.slug, flavor.name) for flavor in askable(user=user, project=project)]
        self._choose("flavor", [("", _t("describe what I need")), *flavors], values)
        clusters = [c.name for c in self.clusters]
        if seen.flavor is not None:
            clusters = list(dict.fromkeys(placement.cluster.name for placement in seen.placements))
        self._choose("cluster", [(name, name) for name in clusters], values)
        here = [placement.pool for placement in seen.placements if placement.cluster == seen.cluster]
        self._choose("pool", [(pool, pool or _t("any")) for pool in here], values)
        bound = namespaces_of(project, seen.cluster, now=now) if project and seen.cluster else []
        self._choose("namespace", [(name, name) for name in bound], values)
        classes = DeviceClass.objects.filter(cluster=seen.cluster).order_by("name")
        names = classes.values_list("name", flat=True) if seen.cluster and not seen.flavor else []
        self._choose("device_class", [("", _t("choose…")), *((name, name) for name in names)], values)
        self.queues = queues_of(seen.cluster, seen.namespace)
        self._choose(
            "queue", [("", _t("none")), *((row.name, _queue_label(row)) for row in self.queues)], values
        )
        self.off = off_by_queue(str(values.get("queue") or ""), by_plugin=self.by_plugin)
        shapes = [
            shape
            for shape in Request.Shape.choices
            if (shape[0] == _ENTITLED) == self.by_plugin and shape[0] not in self.off
        ]
        self._choose("shape", [(value, str(label)) for value, label in shapes], values)
        self._choose("duration_unit", [("hours", _t("hours")), ("days", _t("days"))], values)
        if seen.flavor is not None:
            self._limit(seen.flavor)

    @property
    def by_plugin(self) -> bool:
        """Whether a Device Plugin would serve it."""
        return self.reading.choice is not None and self.reading.backend == Request.Backend.PLUGIN

    @property
    def attributes(self) -> list[str]:
        """Attributes that the devices tell, to choose from."""
        cluster = self.reading.cluster
        return attributes_of(self.reading.profiles, cluster) if cluster else []

    @property
    def beyond(self) -> bool:
        """Whether something beyond the ordinary was chosen: then it is not folded away."""
        return any(self[name].value() or self[name].errors for name in OPTIONS)

    @property
    def switched_off(self) -> bool:
        """Whether a queue takes choices away that would be there without it."""
        return bool(self.off)

    def shows(self, name: str) -> bool:
        """Whether a field beyond the ordinary is there to be filled in; what was typed is never hidden."""
        return name not in self.off or bool(self[name].value() or self[name].errors)

    @property
    def shown(self) -> Mapping[str, bool]:
        """The same for templates."""
        return {name: self.shows(name) for name in OPTIONS}

    @property
    def several_pools(self) -> bool:
        """Whether there is a node pool to choose."""
        widget = self.fields["pool"].widget
        return isinstance(widget, forms.Select) and len(list(widget.choices)) > 1

    def _limit(self, flavor: Flavor) -> None:
        """What the flavor allows, told at the fields; it is checked elsewhere."""
        count, memory, duration = (self.fields[name] for name in ("count", "min_memory", "duration"))
        count.widget.attrs |= {"min": flavor.min_count, "max": flavor.max_count}
        count.help_text = _t("%(least)s to %(most)s in one request.") % {
            "least": flavor.min_count,
            "most": flavor.max_count,
        }
        duration.help_text = _t("%(least)s to %(most)s.") % {
            "least": human_duration(flavor.min_duration),
            "most": human_duration(flavor.max_duration),
        }
        told = {"least": flavor.min_memory, "most": flavor.max_memory}
        if flavor.min_memory and flavor.max_memory:
            memory.help_text = _t("%(least)s to %(most)s; empty for the least.") % told
        elif flavor.min_memory:
            memory.help_text = _t("%(least)s or more; empty for the least.") % told
        elif flavor.max_memory:
            memory.help_text = _t("At most %(most)s; empty for any.") % told

    def _choose(self, name: str, choices: Choices, values: Mapping[str, Any]) -> None:
        """What was typed stays, also when it is no choice (any more): its message says so."""
        typed = str(values.get(name) or "")
        known = [value for value, _label in choices]
        extra = [(typed, typed)] if typed and typed not in known else []
        widget = self.fields[name].widget
        widget.choices = [*choices, *extra]


def _queue_label(queue: LocalQueue) -> str:
    """Its name, and how many wait in it."""
    if not queue.pending:
        return queue.name
    return _t("%(queue)s (%(waiting)s waiting)") % {"queue": queue.name, "waiting": queue.pending}


_ENTITLED = Request.Shape.ENTITLEMENT.value
# What a flavor has a usual value for.
_USUAL = ("count", "min_memory", "duration", "duration_unit", "shape")


def initial_values(*, user: User, now: datetime, chosen: Mapping[str, Any]) -> dict[str, str]:
    """What a fresh form shows: sensible choices, overruled by the query string (links from devices and from
    the catalogue). What was typed stays when another flavor is chosen; what was merely usual for the one
    before becomes what is usual for this one."""
    projects = projects_for(user)
    typed = {name: str(chosen[name]) for name in FIELDS if chosen.get(name)}
    flavor = _visible(user, typed.get("flavor", ""))
    slug = flavor.slug if flavor else ""
    if "flavor_before" in chosen and (before := str(chosen["flavor_before"])) != slug:
        old = _usual(_visible(user, before))
        typed = {name: value for name, value in typed.items() if name not in _USUAL or value != old.get(name)}
        # A cluster and a class belong to what was chosen before.
        for name in ("pool", "device_class", "queue", *(["cluster", "namespace"] if flavor else [])):
            typed.pop(name, None)
    values: dict[str, str] = {
        "key": str(uuid.uuid4()),
        "flavor_before": slug,
        "project": projects[0].slug if projects else "",
        **_usual(flavor),
        **typed,
    }
    project = next((p for p in projects if p.slug == values["project"]), None)
    if flavor is not None:
        placements = placements_of(flavor)
        on = {placement.cluster.name for placement in placements}
        if values.get("cluster") not in on:
            cluster = default_cluster(placements, project, now=now)
            values["cluster"] = cluster.name if cluster else ""
        here = [p for p in placements if p.cluster.name == values["cluster"]]
        by_plugin = bool(here) and choices_of(here[:1])[here[0].pk].backend == Request.Backend.PLUGIN
        if by_plugin != (values["shape"] == _ENTITLED):
            values["shape"] = _ENTITLED if by_plugin else Request.Shape.CLAIM.value
    elif "cluster" not in values:
        clusters = list(Cluster.objects.filter(enabled=True).order_by("name"))
        bound = [c for c in clusters if project and namespaces_of(project, c, now=now)]
        values["cluster"] = next((c.name for c in [*bound, *clusters]), "")
    if values.get("queue") and values["shape"] == Request.Shape.CLAIM:
        # Kueue admits no claims that Pods share.
        values["shape"] = Request.Shape.TEMPLATE.value
    return values


def _visible(user: User, slug: str) -> Flavor | None:
    if not slug:
        return None
    return Flavor.objects.all().visible_to(user).offered().filter(slug=slug).first()


def _usual(flavor: Flavor | None) -> dict[str, str]:
    """The values of a form that nobody has touched."""
    usual = {"count": "1", "shape": Request.Shape.CLAIM.value, "duration": "24", "duration_unit": "hours"}
    if flavor is None:
        return usual
    hours = flavor.default_duration // timedelta(hours=1)
    in_days = hours >= 48 and hours % 24 == 0
    return usual | {
        "count": str(flavor.default_count),
        "min_memory": flavor.default_memory,
        "duration": str(hours // 24 if in_days else hours),
        "duration_unit": "days" if in_days else "hours",
    }
