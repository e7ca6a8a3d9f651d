"""The device list: search, facets, table, CSV."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from inventory import browse_entries
from inventory.browse import (
    DRA,
    UNKNOWN,
    Cell,
    DeviceSearch,
    Facet,
    FacetValue,
    FleetFacts,
    product_name,
    value_label,
)
from inventory.browse_counted import PLUGIN
from inventory.coverage import Coverage
from inventory.expressions import Meaning, place_of
from inventory.filters import FACETS, DeviceFilter, clean_expression
from inventory.models import CountedUnits, Device
from inventory.products import PARTITION
from inventory.rows import DeviceRow, device_rows
from portal import csvs, htmx
from portal.access import person
from portal.accounts.models import User
from portal.lists import Choice, Column, Listing, ListState

PAGE_SIZE = 50
FACET_VALUES_SHOWN = 8
EXPORT_CHUNK = 2_000
PRODUCTS = "products"
EXPORT_HEADER = (
    "cluster", "node", "driver", "pool", "device", "vendor", "product", "type", "memory_bytes",
    "hardware_id", "state", "reason", "as_of", "project", "held_since", "namespace", "claim",
    "offered_as", "units", "units_free", "units_used", "units_unavailable", "counted_elsewhere",
)  # fmt: skip


@require_safe
def device_list(request: HttpRequest) -> HttpResponse:
    """Devices by words, facets and expression, as a table or by product; every choice is in the address."""
    now = timezone.now()
    search = DeviceSearch(DeviceFilter.parse(request.GET), facts=FleetFacts.load(now=now))
    facts = search.facts
    listing = _listing(several_clusters=len(facts.coverage) > 1)
    if (chosen := listing.remembered(request)) is not None:
        return chosen
    state = listing.read(request)
    by_product = state.extra.get("view") == PRODUCTS
    facets = search.facets()
    context = {
        "search": search,
        "filter": search.wanted,
        "facets": [_folded(facet) for facet in facets if _chooses(facet)],
        "chips": _chips(state),
        "states": search.states,
        "counted_total": search.counted_states.total(),
        "partitions": sum(cell.count for cell in search.cells if cell.profile.kind == PARTITION),
        "whole_url": _whole_url(search.wanted, facets),
        "behind": [c for c in facts.coverage.values() if not c.in_step],
        "no_clusters": not facts.coverage,
        "export_url": f"{reverse('device-export')}?{search.wanted.query()}",
        "views": _views(state),
        "kept": [pair for pair in state.pairs() if pair[0] in ("sort", "columns", "view")],
        "expression": told_expression(search),
    }
    if by_product:
        context["products"] = products_of(search)
    else:
        context |= _table(request, search, state, now=now)
    response = htmx.render(
        request, "inventory/device_list.html", {**context, "list": state}, partial="browser"
    )
    if htmx.wants_partial(request):
        # The address as one would write it: without the form's empty fields.
        query = state.href(page=state.page_asked if state.page_asked.isdigit() else "")
        response["HX-Push-Url"] = reverse("device-list") + (query if query != "?" else "")
    return response


def _table(request: HttpRequest, search: DeviceSearch, state: ListState, *, now: datetime) -> dict[str, Any]:
    # The counts know the total: the paginator gets a range and never touches the database.
    entries = range(search.total + search.counted.entries)
    page = Paginator(entries, PAGE_SIZE).get_page(state.page_asked)
    start = max(page.start_index() - 1, 0)
    found = browse_entries.page(search, offset=start, limit=PAGE_SIZE)
    return {"page": page, "rows": _rows(found, facts=search.facts, viewer=person(request), now=now)}


@require_safe
def device_expression(request: HttpRequest) -> HttpResponse:
    """What the expression in the search means, while it is typed. Once it can be read, the list follows."""
    wanted = DeviceFilter(expression=clean_expression(request.GET.get("cel", "")))
    search = DeviceSearch(wanted, facts=FleetFacts.load(now=timezone.now()))
    told = told_expression(search)
    response = htmx.render(request, "inventory/_search_expression.html", {"expression": told})
    if told is None or not told.meaning.problem:
        response["HX-Trigger-After-Settle"] = "expression-good"
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


# --- columns, views, expression -------------------------------------------------------------------


def _listing(*, several_clusters: bool) -> Listing:
    """The columns of the table; those with an order are named as `DeviceFilter` names it."""
    return Listing(
        "devices",
        columns=(
            Column("node", _("Device"), order=("node",), fixed=True),
            Column("product", _("Product"), order=("product",), css="inv-wide"),
            Column("vendor", _("Vendor"), shown=False),
            Column("driver", _("Driver"), order=("driver",), shown=False),
            Column("memory", _("Memory"), order=("memory",), css="cd-number inv-wide"),
            Column("state", _("State"), order=("state",)),
            Column("health", _("Health"), shown=False),
            Column("holder", _("Held by")),
            Column("pool", _("Pool"), shown=False),
            Column("hardware", _("Hardware id"), shown=False),
            Column("cluster", _("Cluster"), order=("cluster",), shown=several_clusters),
        ),
        facets=[Choice(facet, facet) for facet in FACETS],
        search=("name",),
        sort="node",
        keeps=("cel", "view"),
    )


def _views(state: ListState) -> list[dict[str, Any]]:
    """The same search as a table, or by product."""
    now = state.extra.get("view", "")
    return [
        {"label": _("Devices"), "icon": "list", "url": state.href(view=""), "current": now != PRODUCTS},
        {
            "label": _("By product"),
            "icon": "chart-bar",
            "url": state.href(view=PRODUCTS),
            "current": now == PRODUCTS,
        },
    ]


@dataclass(frozen=True)
class ToldExpression:
    """An expression with what it means; `place` shows where it is wrong."""

    meaning: Meaning
    place: str
    matched: int
    free: int


def told_expression(search: DeviceSearch) -> ToldExpression | None:
    """What the search's expression says by itself of the whole fleet, whatever else is asked for."""
    meaning, text = search.meaning, search.wanted.expression
    if meaning is None:
        return None
    alone = DeviceSearch(DeviceFilter(expression=text), facts=search.facts)
    if search.wanted == alone.wanted:
        alone = search
    return ToldExpression(
        meaning=meaning,
        place=place_of(text, meaning.line, meaning.column),
        matched=0 if meaning.problem else alone.total,
        free=0 if meaning.problem else alone.states[Device.State.FREE],
    )


@dataclass(frozen=True)
class ProductRow:
    """The matching devices of one product that one driver offers."""

    product: str
    vendor: str
    driver: str
    kind: str
    counted: bool
    memory: Sequence[int]
    states: Counter[str]
    url: str

    @property
    def total(self) -> int:
        return self.states.total()


def products_of(search: DeviceSearch) -> list[ProductRow]:
    """The matching devices and counted units by product, the most numerous first."""
    groups: dict[tuple[str, str, str, str, str], list[Cell]] = {}
    for cell in [*search.cells, *search.counted_cells]:
        profile = cell.profile
        key = (product_name(profile), profile.vendor, profile.driver, profile.kind, cell.backend)
        groups.setdefault(key, []).append(cell)
    rows = []
    for (product, vendor, driver, kind, backend), cells in groups.items():
        states: Counter[str] = Counter()
        for cell in cells:
            states[cell.state] += cell.count
        wanted = search.wanted.only("product", product).only("driver", driver)
        rows.append(
            ProductRow(
                product=product,
                vendor=vendor,
                driver=driver,
                kind=kind,
                counted=backend == PLUGIN,
                memory=sorted({c.profile.memory_bytes for c in cells if c.profile.memory_bytes is not None}),
                states=states,
                url=f"{reverse('device-list')}?{wanted.query()}",
            )
        )
    return sorted(rows, key=lambda row: (row.counted, -row.total, row.product, row.driver))


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


def _chips(state: ListState) -> list[dict[str, Any]]:
    """The choices in force, each with the address that takes it back."""
    chips = [
        {"label": value_label(facet, value), "url": reverse("device-list") + state.toggled(facet, value)}
        for facet, chosen in state.chosen.items()
        for value in chosen
    ]
    if "cel" in state.extra:
        chips.append({"label": "CEL", "url": reverse("device-list") + state.href(cel="")})
    return chips


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
