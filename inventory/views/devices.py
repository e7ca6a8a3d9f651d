"""The device list: search, facets, table, CSV."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.http import require_safe

from inventory import browse_entries
from inventory.browse import (
    BACKEND_LABELS,
    DRA,
    STATE_LABELS,
    UNKNOWN,
    DeviceSearch,
    Facet,
    FacetValue,
    FleetFacts,
)
from inventory.browse_counted import PLUGIN
from inventory.coverage import Coverage
from inventory.filters import DeviceFilter
from inventory.models import CountedUnits, Device
from inventory.products import PARTITION
from inventory.rows import DeviceRow, device_rows
from portal import csvs, htmx
from portal.access import person
from portal.accounts.models import User

PAGE_SIZE = 50
FACET_VALUES_SHOWN = 8
EXPORT_CHUNK = 2_000
_LABELS = {"state": STATE_LABELS, "backend": BACKEND_LABELS}
EXPORT_HEADER = (
    "cluster", "node", "driver", "pool", "device", "vendor", "product", "type", "memory_bytes",
    "hardware_id", "state", "reason", "as_of", "project", "held_since", "namespace", "claim",
    "offered_as", "units", "units_free", "units_used", "units_unavailable", "counted_elsewhere",
)  # fmt: skip


@require_safe
def device_list(request: HttpRequest) -> HttpResponse:
    """Devices by free text and facets; every choice is in the address."""
    now = timezone.now()
    search = DeviceSearch(DeviceFilter.parse(request.GET), facts=FleetFacts.load(now=now))
    # The counts know the total: the paginator gets a range and never touches the database.
    entries = range(search.total + search.counted.entries)
    page = Paginator(entries, PAGE_SIZE).get_page(request.GET.get("page"))
    start = max(page.start_index() - 1, 0)
    found = browse_entries.page(search, offset=start, limit=PAGE_SIZE)
    facts = search.facts
    facets = search.facets()
    context = {
        "search": search,
        "filter": search.wanted,
        "page": page,
        "rows": _rows(found, facts=facts, viewer=person(request), now=now),
        "counted_total": search.counted_states.total(),
        "facets": [_folded(facet) for facet in facets if _chooses(facet)],
        "chips": _chips(search.wanted),
        "states": search.states,
        "partitions": sum(cell.count for cell in search.cells if cell.profile.kind == PARTITION),
        "whole_url": _whole_url(search.wanted, facets),
        "behind": [c for c in facts.coverage.values() if not c.in_step],
        "several_clusters": len(facts.coverage) > 1,
        "no_clusters": not facts.coverage,
        "export_url": f"{reverse('device-export')}?{search.wanted.query()}",
    }
    response = htmx.render(request, "inventory/device_list.html", context, partial="browser")
    if htmx.wants_partial(request):
        # The address as one would write it: without the form's empty fields.
        query = search.wanted.query(**({"page": page.number} if page.number > 1 else {}))
        response["HX-Push-Url"] = reverse("device-list") + (f"?{query}" if query else "")
    return response


@require_safe
def device_export(request: HttpRequest) -> HttpResponseBase:
    """All matching devices, then counted units, as CSV, in the order of their keys, streamed."""
    now = timezone.now()
    viewer = person(request)
    search = DeviceSearch(DeviceFilter.parse(request.GET), facts=FleetFacts.load(now=now))
    return csvs.download(
        f"devices-{now:%Y%m%dT%H%MZ}.csv", EXPORT_HEADER, _export(search, viewer=viewer, now=now)
    )


@dataclass(frozen=True)
class CountedRow:
    """The units of one resource on one node."""

    unit: CountedUnits
    coverage: Coverage


def _rows(
    found: Sequence[Device | CountedUnits], *, facts: FleetFacts, viewer: User, now: datetime
) -> list[DeviceRow | CountedRow]:
    """The entries of a page in their order, as the table tells them."""
    devices = [entry for entry in found if isinstance(entry, Device)]
    told = {row.device.pk: row for row in device_rows(devices, facts=facts, viewer=viewer, now=now)}
    rows: list[DeviceRow | CountedRow] = []
    for entry in found:
        if isinstance(entry, CountedUnits):
            rows.append(CountedRow(entry, facts.coverage[entry.cluster_id]))
        elif entry.pk in told:
            rows.append(told[entry.pk])
    return rows


# --- facets and chips -----------------------------------------------------------------------------


@dataclass(frozen=True)
class FoldedFacet:
    """A facet for the page: its first values, and those behind “more”."""

    facet: Facet
    shown: Sequence[FacetValue]
    folded: Sequence[FacetValue]


def _chooses(facet: Facet) -> bool:
    """A desk with one cluster needs no choice of clusters."""
    return facet.name != "cluster" or len(facet.values) > 1 or any(value.chosen for value in facet.values)


def _folded(facet: Facet) -> FoldedFacet:
    chosen_late = [v for v in facet.values[FACET_VALUES_SHOWN:] if v.chosen]
    rest = [v for v in facet.values[FACET_VALUES_SHOWN:] if not v.chosen]
    return FoldedFacet(facet, [*facet.values[:FACET_VALUES_SHOWN], *chosen_late], rest)


def _whole_url(wanted: DeviceFilter, facets: Sequence[Facet]) -> str:
    """The same search without partitions; "" where nothing else would be left or the kind is chosen."""
    if wanted.values("kind"):
        return ""
    kinds = [
        v.value for facet in facets if facet.name == "kind" for v in facet.values if v.value != PARTITION
    ]
    for kind in kinds:
        wanted = wanted.toggled("kind", kind)
    return f"{reverse('device-list')}?{wanted.query()}" if kinds else ""


def _chips(wanted: DeviceFilter) -> list[dict[str, Any]]:
    """The choices in force, each with the address that takes it back."""
    return [
        {
            "facet": facet,
            "label": _LABELS.get(facet, {}).get(value, value),
            "url": f"{reverse('device-list')}?{wanted.toggled(facet, value).query()}",
        }
        for facet, values in wanted.chosen.items()
        for value in values
    ]


# --- CSV ------------------------------------------------------------------------------------------


def _export(search: DeviceSearch, *, viewer: User, now: datetime) -> Iterator[list[str]]:
    rows = search.rows().order_by("pk").select_related("pool").defer("identity", "taints")
    devices = rows.iterator(chunk_size=EXPORT_CHUNK)
    while chunk := list(islice(devices, EXPORT_CHUNK)):
        for row in device_rows(chunk, facts=search.facts, viewer=viewer, now=now):
            yield _line(row)
    for unit in search.counted.rows().order_by("pk").iterator(chunk_size=EXPORT_CHUNK):
        yield _counted_line(unit, search.facts.coverage[unit.cluster_id])


def _line(row: DeviceRow) -> list[str]:
    device, profile = row.device, row.profile
    holders = row.holders
    return [
        row.cluster.name,
        device.node_name,
        device.pool.driver,
        device.pool.name,
        device.name,
        profile.vendor,
        row.product,
        profile.kind,
        "" if profile.memory_bytes is None else str(profile.memory_bytes),
        device.hardware_id,
        row.state,
        device.reason if row.coverage.in_step else "",
        row.coverage.as_of.isoformat() if row.coverage.as_of else "",
        "; ".join(holder.project.slug for holder in holders if holder.project),
        "; ".join(holder.since.isoformat() for holder in holders if holder.since),
        "; ".join(holder.claim.namespace for holder in holders if holder.claim),
        "; ".join(holder.claim.name for holder in holders if holder.claim),
        DRA,
        *[""] * 5,
    ]


def _counted_line(unit: CountedUnits, coverage: Coverage) -> list[str]:
    """Units of one resource on one node. What is left of them is not known where the Pods are not seen, or
    the cluster is not in step."""
    known = coverage.in_step and unit.used is not None
    return [
        coverage.cluster.name,
        unit.node_name,
        unit.resource,
        *["", ""],
        unit.vendor,
        unit.product,
        unit.kind,
        "" if unit.memory_bytes is None else str(unit.memory_bytes),
        "",
        "" if known else UNKNOWN,
        "",
        coverage.as_of.isoformat() if coverage.as_of else "",
        *[""] * 4,
        PLUGIN,
        str(unit.capacity),
        *([str(unit.free), str(unit.used), str(unit.unavailable)] if known else [""] * 3),
        "no" if unit.counts else "yes",
    ]
