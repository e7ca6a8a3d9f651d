"""DeviceClasses: what each matches and how much of it is free; creating and changing them for
administrators."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.core.paginator import Paginator
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.utils import timezone
from django.views.decorators.http import require_safe

from inventory import describe
from inventory.browse import DeviceSearch, FleetFacts, product_name
from inventory.class_counts import class_rows
from inventory.class_users import ClassUser, users_of
from inventory.coverage import coverage_of_all
from inventory.filters import DeviceFilter, clean_text
from inventory.holders import projects_of
from inventory.models import DeviceClass
from portal import htmx
from portal.access import may_administer, may_read_everything, person
from portal.accounts.models import Project, User

PAGE_SIZE = 50
USERS_SHOWN = 50


@dataclass(frozen=True)
class KindRow:
    """Matching devices of one product, by state."""

    product: str
    driver: str
    devices: Counter[str]

    @property
    def total(self) -> int:
        return self.devices.total()


@require_safe
def class_list(request: HttpRequest) -> HttpResponse:
    """Classes of all clusters with matched and free devices; the first of their selectors, and what is
    wrong."""
    coverage = coverage_of_all(now=timezone.now())
    text = clean_text(request.GET.get("q", ""))
    cluster = clean_text(request.GET.get("cluster", ""))
    wanted = Q(name__icontains=text) | Q(extended_resource_name__icontains=text) if text else Q()
    if cluster:
        wanted &= Q(cluster__name=cluster)
    classes = DeviceClass.objects.filter(wanted).order_by("name", "cluster__name")
    page = Paginator(classes, PAGE_SIZE).get_page(request.GET.get("page"))
    context = {
        "page": page,
        "rows": class_rows(list(page.object_list), coverage=coverage),
        "text": text,
        "cluster": cluster,
        "clusters": [c.cluster.name for c in coverage.values()],
        "behind": [c for c in coverage.values() if not c.in_step],
        "may_administer": may_administer(person(request)),
    }
    return htmx.render(request, "inventory/class_list.html", context, partial="classes")


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
        "selectors": selectors_of(found.spec),
        "config": describe.as_yaml(found.spec["config"]) if found.spec.get("config") else "",
        "labels": sorted(found.labels.items()),
        "users": seen[:USERS_SHOWN],
        "more_users": max(len(seen) - USERS_SHOWN, 0),
        "hidden_users": len(users) - len(seen),
        "yaml": describe.as_yaml(manifest_of(found)),
        "may_administer": may_administer(viewer),
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
