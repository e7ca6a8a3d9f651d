"""Classes by name, across clusters; and what one is on two of them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from inventory import class_history, class_names
from inventory.class_names import NamedClass, named_classes
from inventory.coverage import coverage_of_all
from inventory.models import DeviceClass
from portal import csvs, htmx, lists
from portal.access import may_administer, person, require_reader_of_everything
from portal.lists import PAGE_SIZE, Choice, Column, Facet, Listing, ListState
from portal.texts import searched

MANAGERS = {
    class_names.PORTAL: _("this desk"),
    class_names.DRIVER: _("a driver"),
    class_names.TOOL: _("another tool"),
    class_names.HAND: _("by hand"),
    class_names.UNKNOWN: _("not known"),
}
_KINDS: Mapping[str, tuple[Any, Callable[[NamedClass], bool]]] = {
    "differs": (_("differs within a group"), lambda row: bool(row.differing)),
    "missing": (_("missing within a group"), lambda row: bool(row.missing)),
    "drift": (_("changed without the desk"), lambda row: bool(row.drift)),
    "problem": (_("cannot be evaluated"), lambda row: row.problem),
    "unmatched": (_("matches no device"), lambda row: not row.matched),
    "unused": (_("nobody names it"), lambda row: not (row.claims or row.templates or row.flavors)),
    "extended": (_("with an extended resource"), lambda row: bool(row.resources)),
}
# What each facet's values are for a row.
_FACETS: Mapping[str, Callable[[NamedClass], Sequence[str]]] = {
    "kind": lambda row: [name for name, (_label, holds) in _KINDS.items() if holds(row)],
    "managed": lambda row: row.managers,
    "cluster": lambda row: row.clusters,
}
_SORTS: Mapping[str, Callable[[NamedClass], Any]] = {
    "name": lambda row: row.name,
    "clusters": lambda row: len(row.rows),
    "devices": lambda row: row.matched,
    "free": lambda row: -1 if row.free is None else row.free,
    "users": lambda row: row.claims + row.templates + len(row.flavors),
    "extended": lambda row: row.resources,
}
# `order` only says that it can be sorted by: the rows are no query.
LISTING = Listing(
    "class-names",
    columns=(
        Column("name", _("Class"), order=("name",), fixed=True),
        Column("clusters", _("On clusters"), order=("name",)),
        Column("differs", _("Agreement")),
        Column("devices", _("Devices"), order=("name",), css="cd-number"),
        Column("free", _("Free"), order=("name",), css="cd-number"),
        Column("users", _("Used by"), order=("name",)),
        Column("extended", _("Extended resource"), order=("name",)),
        Column("managed", _("Managed")),
        Column("drift", _("Drift")),
    ),
    facets=(
        Choice("kind", _("Which"), labels={name: label for name, (label, _holds) in _KINDS.items()}),
        Choice("managed", _("Managed"), labels=MANAGERS),
        Choice("cluster", _("Cluster")),
    ),
    search=("name",),
    sort="name",
)
CSV_HEADER = (
    *("class", "clusters", "missing", "differing", "devices", "free", "claims", "templates"),
    *("flavors", "extended_resources", "managed", "drift"),
)


@require_safe
@require_reader_of_everything
def class_name_list(request: HttpRequest) -> HttpResponseBase:
    """One row per name, whatever clusters have it."""
    if (chosen := LISTING.remembered(request)) is not None:
        return chosen
    state = LISTING.read(request)
    coverage = coverage_of_all(now=timezone.now())
    everything = named_classes(coverage=coverage)
    rows = sorted((row for row in everything if _admits(state, row)), key=lambda row: row.name)
    rows.sort(key=_SORTS[state.sort], reverse=state.descending)
    if state.wants_csv:
        return csvs.download("device-classes-by-name.csv", CSV_HEADER, map(_line, rows))
    page = Paginator(rows, PAGE_SIZE).get_page(state.page_asked)
    context = {
        "page": page,
        "rows": page.object_list,
        "facets": _facets(state, everything),
        "behind": [c for c in coverage.values() if not c.in_step],
        "managers": MANAGERS,
        "may_administer": may_administer(person(request)),
    }
    return lists.answer(request, "inventory/class_name_list.html", context, state=state)


@require_safe
@require_reader_of_everything
def class_across(request: HttpRequest, name: str) -> HttpResponse:
    """A class on all clusters that have it, and its difference between two of them."""
    found = list(DeviceClass.objects.filter(name=name).select_related("cluster").order_by("cluster__name"))
    if not found:
        raise Http404
    by_cluster = {row.cluster.name: row for row in found}
    left = by_cluster.get(searched(request.GET.get("a", ""), limit=63), found[0])
    right = by_cluster.get(searched(request.GET.get("b", ""), limit=63), found[-1])
    context = {
        "name": name,
        "clusters": list(by_cluster),
        "left": left,
        "right": right,
        "same": left.spec == right.spec,
        "diff": class_history.diff(*(class_history.whole(one.spec, one.labels) for one in (left, right))),
    }
    return htmx.render(request, "inventory/class_across.html", context)


def _admits(state: ListState, row: NamedClass, *, but: str = "") -> bool:
    text = f"{row.name} {' '.join(row.resources)}".casefold()
    if any(term.casefold() not in text for term in lists.terms(state.text)):
        return False
    return all(
        name == but or not (chosen := state.values(name)) or set(chosen) & set(values(row))
        for name, values in _FACETS.items()
    )


def _facets(state: ListState, rows: Sequence[NamedClass]) -> list[Facet]:
    """Every facet with the counts that the other choices leave."""
    found = []
    for choice in LISTING.facets:
        counts: dict[str, int] = {}
        for row in rows:
            if _admits(state, row, but=choice.name):
                for value in _FACETS[choice.name](row):
                    counts[value] = counts.get(value, 0) + 1
        found.append(state.facet(choice, counts))
    return found


def _line(row: NamedClass) -> tuple[Any, ...]:
    return (
        *(row.name, " ".join(row.clusters), " ".join(row.missing)),
        " ".join(f"{one}/{other}" for one, other in row.differing),
        *(row.matched, "" if row.free is None else row.free, row.claims, row.templates),
        *(", ".join(row.flavors), " ".join(row.resources), " ".join(row.managers), " ".join(row.drift)),
    )
