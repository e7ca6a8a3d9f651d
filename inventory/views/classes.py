"""DeviceClasses: what each matches and how much of it is free; creating and changing them for
administrators."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from inventory import describe
from inventory.browse import DeviceSearch, FleetFacts, product_name
from inventory.class_counts import ClassRow, class_rows
from inventory.class_history import drift_of
from inventory.class_users import ClassUser, users_of
from inventory.coverage import coverage_of_all
from inventory.expressions import reads_of
from inventory.filters import MAX_EXPRESSION, DeviceFilter
from inventory.holders import projects_of
from inventory.mirror.writer import features_of
from inventory.models import Device, DeviceClass
from portal import csvs, htmx, lists
from portal.access import may_administer, may_read_everything, person
from portal.accounts.models import Project, User
from portal.lists import Choice, Column, Listing

USERS_SHOWN = 50
SELECTORS_EXPLAINED = 8


@dataclass(frozen=True)
class KindRow:
    """Matching devices of one product, by state."""

    product: str
    driver: str
    devices: Counter[str]

    @property
    def total(self) -> int:
        return self.devices.total()


LISTING = Listing(
    "classes",
    columns=(
        Column("name", _("Class"), order=("name", "cluster__name"), fixed=True),
        Column("selectors", _("Matches")),
        Column("devices", _("Devices"), css="cd-number"),
        Column("free", _("Free"), css="cd-number"),
        Column("use", _("In use")),
        Column("extended", _("Extended resource"), order=("extended_resource_name", "name")),
        Column("age", _("Age"), order=("-created_at",), css="cd-nowrap", shown=False, nullable=True),
        Column("cluster", _("Cluster"), order=("cluster__name", "name")),
    ),
    facets=(
        Choice(
            "kind",
            _("Which"),
            conditions={
                "extended": ~Q(extended_resource_name=""),
                "problem": ~Q(problem=""),
                "unmatched": Q(problem="", matches=None),
            },
            labels={
                "extended": _("with an extended resource"),
                "problem": _("cannot be evaluated"),
                "unmatched": _("matches no device"),
            },
        ),
        Choice("cluster", _("Cluster"), column="cluster__name"),
    ),
    search=("name", "extended_resource_name"),
    sort="name",
)
CSV_HEADER = (
    *("cluster", "class", "extended_resource", "selectors", "problem", "matched"),
    *("free", "partly", "held", "unavailable", "unknown", "created_at"),
)


@require_safe
def class_list(request: HttpRequest) -> HttpResponseBase:
    """Classes of all clusters with matched and free devices; the first of their selectors, and what is
    wrong."""
    coverage = coverage_of_all(now=timezone.now())
    listing = LISTING if len(coverage) > 1 else LISTING.without("cluster")
    if (chosen := listing.remembered(request)) is not None:
        return chosen
    state = listing.read(request)
    classes = state.narrowed(DeviceClass.objects.all())
    if state.wants_csv:
        rows = class_rows(list(state.ordered(classes)), coverage=coverage)
        return csvs.download("device-classes.csv", CSV_HEADER, map(_line, rows))
    page = state.page(classes)
    context = {
        "page": page,
        "rows": class_rows(list(page.object_list), coverage=coverage),
        "facets": state.facets(DeviceClass.objects.all()),
        "behind": [c for c in coverage.values() if not c.in_step],
        "may_administer": may_administer(person(request)),
        "reads_all": may_read_everything(person(request)),
    }
    return lists.answer(request, "inventory/class_list.html", context, state=state)


def _line(row: ClassRow) -> tuple[Any, ...]:
    found, counts = row.device_class, row.devices
    return (
        *(row.cluster.name, found.name, found.extended_resource_name),
        *(" && ".join(f"({part})" for part in selectors_of(found.spec)), found.problem, row.matched),
        *(counts.get(state, 0) for state in ("free", "partly", "held", "unavailable", "unknown")),
        found.created_at.isoformat() if found.created_at else "",
    )


@require_safe
def class_detail(request: HttpRequest, cluster: str, name: str) -> HttpResponse:
    """One class: its rules, what they match by product, who uses it, its YAML."""
    viewer = person(request)
    found = get_object_or_404(DeviceClass.objects.select_related("cluster"), cluster__name=cluster, name=name)
    facts = FleetFacts.load(now=timezone.now())
    row = class_rows([found], coverage=facts.coverage)[0]
    users = users_of(found)
    seen = visible_users(users, found, viewer=viewer)
    context = {
        "row": row,
        "class": found,
        "kinds": _kinds(found, facts),
        "selectors": selector_rows(found, facts),
        "config": describe.as_yaml(found.spec["config"]) if found.spec.get("config") else "",
        "labels": sorted(found.labels.items()),
        "users": seen[:USERS_SHOWN],
        "more_users": max(len(seen) - USERS_SHOWN, 0),
        "hidden_users": len(users) - len(seen),
        "yaml": describe.as_yaml(manifest_of(found)),
        "may_administer": may_administer(viewer),
        "cluster": found.cluster,
        "name": found.name,
        "drift": drift_of(found.cluster, found.name),
        "reads_all": may_read_everything(viewer),
    }
    return htmx.render(request, "inventory/class_detail.html", context)


def visible_users(
    users: Sequence[ClassUser], device_class: DeviceClass, *, viewer: User
) -> Sequence[ClassUser]:
    """Those of the class's users whose names the reader may know."""
    if may_read_everything(viewer):
        return users
    owners = projects_of({(device_class.cluster_id, user.namespace) for user in users}, at=timezone.now())
    detailed = set(Project.objects.detailed_to(viewer).values_list("pk", flat=True))
    own = {namespace for (_cluster, namespace), project in owners.items() if project.pk in detailed}
    return [user for user in users if user.namespace in own]


def _kinds(found: DeviceClass, facts: FleetFacts) -> list[KindRow]:
    """Matching devices by product, most first."""
    chosen = {"class": (found.name,), "cluster": (found.cluster.name,)}
    search = DeviceSearch(DeviceFilter(chosen=chosen), facts=facts)
    kinds: dict[tuple[str, str], Counter[str]] = {}
    for cell in search.cells:
        key = (product_name(cell.profile), cell.profile.driver)
        kinds.setdefault(key, Counter())[cell.state] += cell.count
    rows = [KindRow(product, driver, devices) for (product, driver), devices in kinds.items()]
    return sorted(rows, key=lambda row: (-row.total, row.product))


@dataclass(frozen=True)
class SelectorRow:
    """One selector of a class: what it reads of a device, and how many it admits by itself."""

    expression: str
    # None where it cannot be told beforehand: it may read everything.
    reads: Sequence[str] | None
    matched: int
    free: int | None
    problem: str
    # The same selector as a search.
    url: str


def selector_rows(found: DeviceClass, facts: FleetFacts) -> list[SelectorRow]:
    """The selectors of a class, each explained; those beyond `SELECTORS_EXPLAINED` only shown."""
    rows = []
    features = features_of(found.cluster.server_version, served=found.cluster.served)
    for place, expression in enumerate(selectors_of(found.spec)):
        if place >= SELECTORS_EXPLAINED or len(expression) > MAX_EXPRESSION:
            rows.append(SelectorRow(expression, reads=None, matched=0, free=None, problem="", url=""))
            continue
        wanted = DeviceFilter(chosen={"cluster": (found.cluster.name,)}, expression=expression)
        search = DeviceSearch(wanted, facts=facts)
        meaning = search.meaning
        rows.append(
            SelectorRow(
                expression=expression,
                reads=reads_of(expression, features=features),
                matched=search.total,
                free=search.states[Device.State.FREE] if facts.coverage[found.cluster_id].in_step else None,
                problem=(meaning.problem or meaning.evaluation_error) if meaning else "",
                url=f"{reverse('device-list')}?{wanted.query()}",
            )
        )
    return rows


def selectors_of(spec: Any) -> list[str]:
    """The CEL expressions of a class's spec, in order."""
    selectors = spec.get("selectors") if isinstance(spec, dict) else None
    return [
        str((selector.get("cel") or {}).get("expression", ""))
        for selector in selectors or []
        if isinstance(selector, dict)
    ]


def manifest_of(found: DeviceClass) -> dict[str, Any]:
    """The class as one would write it into a file."""
    metadata: dict[str, Any] = {"name": found.name}
    if found.labels:
        metadata["labels"] = found.labels
    if found.annotations:
        metadata["annotations"] = found.annotations
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": metadata,
        "spec": found.spec,
    }
