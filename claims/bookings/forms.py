"""The booking form as it is drawn. What is right and wrong is decided by `claims.bookings.booking`."""

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Any

from django import forms
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from claims.asks.judging import MAX_COUNT, MAX_PURPOSE, namespaces_of, projects_for
from claims.bookings.reading import FIELDS, HOUR, Wanted, read
from claims.catalogue.flavored import default_cluster, placements_of
from claims.catalogue.offers import askable
from claims.models import Flavor
from portal.accounts.models import User
from portal.templatetags.ui import human_duration

Choices = Sequence[tuple[str, str]]


class BookingForm(forms.Form):
    """Fields, their widgets and help. Bound with what was typed; messages come from the domain."""

    key = forms.CharField(widget=forms.HiddenInput)
    project = forms.CharField(label=_("Project"), widget=forms.Select, help_text=_("Who pays."))
    flavor = forms.CharField(label=_("Flavor"), widget=forms.Select(attrs={"class": "cd-refills"}))
    cluster = forms.CharField(label=_("Cluster"), widget=forms.Select(attrs={"class": "cd-refills"}))
    pool = forms.CharField(label=_("Node pool"), widget=forms.Select, required=False)
    namespace = forms.CharField(
        label=_("Namespace"), widget=forms.Select, help_text=_("Where your Pods will run.")
    )
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
    start = forms.CharField(
        label=_("From"), widget=forms.DateTimeInput(attrs={"type": "datetime-local", "step": 900})
    )
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
        zone: tzinfo,
        values: Mapping[str, Any],
        errors: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """`values` is what is shown; `errors` None = nothing was sent yet."""
        self.messages = errors
        super().__init__(data=dict(values) if errors is not None else None, initial=dict(values))
        self.projects = projects_for(user)
        self.wanted: Wanted = read(values, user=user, now=now, zone=zone)
        self._fill(values, user=user, now=now, zone=zone)

    def full_clean(self) -> None:
        """Puts the domain's messages where they belong; Django's own checks would say the same twice."""
        self.cleaned_data = {}
        self._errors = forms.utils.ErrorDict()
        for name, messages in (self.messages or {}).items():
            target = name if name in self.fields and not self[name].is_hidden else None
            self.add_error(target, list(messages))

    @property
    def several_pools(self) -> bool:
        widget = self.fields["pool"].widget
        return isinstance(widget, forms.Select) and len(list(widget.choices)) > 1

    def _fill(self, values: Mapping[str, Any], *, user: User, now: datetime, zone: tzinfo) -> None:
        seen = self.wanted.reading
        project = next((p for p in self.projects if p.slug == values.get("project")), None)
        self._choose("project", [(p.slug, p.name) for p in self.projects], values)
        flavors = [f for f in askable(user=user, project=project) if f.bookable_days]
        self._choose("flavor", [("", _t("choose…")), *((f.slug, f.name) for f in flavors)], values)
        clusters = list(dict.fromkeys(placement.cluster.name for placement in seen.placements))
        self._choose("cluster", [(name, name) for name in clusters], values)
        here = [placement.pool for placement in seen.placements if placement.cluster == seen.cluster]
        self._choose("pool", [(pool, pool or _t("any")) for pool in here], values)
        bound = namespaces_of(project, seen.cluster, now=now) if project and seen.cluster else []
        self._choose("namespace", [(name, name) for name in bound], values)
        self._choose("duration_unit", [("hours", _t("hours")), ("days", _t("days"))], values)
        self.fields["start"].help_text = _t("In your time zone, %(zone)s.") % {"zone": zone}
        if seen.flavor is not None:
            self._limit(seen.flavor)

    def _limit(self, flavor: Flavor) -> None:
        """What the flavor allows, told at the fields; it is checked elsewhere."""
        count, duration = self.fields["count"], self.fields["duration"]
        count.widget.attrs |= {"min": flavor.min_count, "max": flavor.max_count}
        count.help_text = _t("%(least)s to %(most)s in one request.") % {
            "least": flavor.min_count,
            "most": flavor.max_count,
        }
        duration.help_text = _t("%(least)s to %(most)s.") % {
            "least": human_duration(flavor.min_duration),
            "most": human_duration(flavor.max_duration),
        }

    def _choose(self, name: str, choices: Choices, values: Mapping[str, Any]) -> None:
        """What was typed stays, also when it is no choice (any more): its message says so."""
        typed = str(values.get(name) or "")
        extra = [(typed, typed)] if typed and typed not in [value for value, _label in choices] else []
        widget = self.fields[name].widget
        assert isinstance(widget, forms.Select)
        widget.choices = [*choices, *extra]


def initial_values(*, user: User, now: datetime, zone: tzinfo, chosen: Mapping[str, Any]) -> dict[str, str]:
    """What a fresh form shows: sensible choices, overruled by the query string (links from the calendar and
    from the catalogue)."""
    projects = projects_for(user)
    typed = {name: str(chosen[name]) for name in FIELDS if chosen.get(name)}
    values = {
        "key": str(uuid.uuid4()),
        "project": projects[0].slug if projects else "",
        "start": _tomorrow(now, zone),
        "duration": "8",
        "duration_unit": "hours",
        "count": "1",
        "min_memory": "",
    }
    rows = Flavor.objects.visible_to(user).offered()
    flavor = rows.filter(slug=typed["flavor"]).first() if "flavor" in typed else None
    if flavor is not None:
        shortest, longest = flavor.min_duration, flavor.max_duration
        usual = min(max(8 * HOUR, shortest), longest)
        values |= {
            "count": str(flavor.default_count),
            "min_memory": flavor.default_memory,
            "duration": str(usual // HOUR),
        }
    values |= typed
    if flavor is not None:
        project = next((p for p in projects if p.slug == values["project"]), None)
        placements = placements_of(flavor)
        if values.get("cluster") not in {placement.cluster.name for placement in placements}:
            cluster = default_cluster(placements, project, now=now)
            values["cluster"] = cluster.name if cluster else ""
            values.pop("pool", None)
            values.pop("namespace", None)
    return values


def _tomorrow(now: datetime, zone: tzinfo) -> str:
    """Tomorrow at nine, as a browser writes it."""
    day = now.astimezone(zone).date() + timedelta(days=1)
    return f"{day.isoformat()}T09:00"
