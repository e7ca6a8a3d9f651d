"""The units of Device Plugins in the search for devices: counted, never named.

They answer to the same filters and count in the same facets as devices. A unit that is also published as a
device, or that is part of another unit, is listed and flagged, but counts nowhere a second time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_
from typing import Any

from django.db.models import Case, CharField, Count, F, IntegerField, Q, QuerySet, Sum, Value, When

from inventory.coverage import Coverage
from inventory.filters import DeviceFilter, is_number
from inventory.models import CountedUnits, Device

PLUGIN = "plugin"
State = Device.State
# Facets that a column of the units answers; "driver" is the resource that the plugin advertises.
_COLUMNS = {
    "cluster": "cluster__name",
    "vendor": "vendor",
    "product": "product",
    "kind": "kind",
    "memory": "memory_bytes",
    "driver": "resource",
    "node": "node_name",
}

# What only devices have.
_OF_DEVICES = ("class", "pool", "health")


@dataclass(frozen=True)
class Group:
    """Units of one kind on one cluster, with how many are in which (stored) state."""

    cluster_id: int
    vendor: str
    product: str
    kind: str
    resource: str
    states: Mapping[str, int]


class CountedSearch:
    """The part of one search that is about counted units."""

    def __init__(self, wanted: DeviceFilter, *, coverage: Mapping[int, Coverage], unknown: str) -> None:
        """`unknown` is the state that is told of a cluster that is not in step."""
        self._wanted = wanted
        self._coverage = coverage
        self._unknown = unknown

    def rows(self) -> QuerySet[CountedUnits]:
        """Matching units, an entry per node and resource, in the order of the racks."""
        wanted = self._wanted
        rows = self._narrowed().filter(cluster__in=list(self._coverage))
        if wanted.values("class") or (wanted.values("backend") and PLUGIN not in wanted.values("backend")):
            return rows.none()
        for facet, column in _COLUMNS.items():
            if chosen := wanted.values(facet):
                known = [v for v in chosen if is_number(v)] if facet == "memory" else chosen
                rows = rows.filter(**{f"{column}__in": known})
        if states := wanted.values("state"):
            rows = rows.filter(self._in_states(states))
        return rows.order_by("node_name", "resource", "pk")

    @cached_property
    def entries(self) -> int:
        """How many entries match."""
        return self.rows().count()

    def page(
        self, *, offset: int, limit: int, column: str = "", order: Mapping[Any, int] | None = None
    ) -> list[CountedUnits]:
        """Some of the matching entries; `order` puts values of `column` (see `values`) in their places."""
        rows = self.rows()
        if order:
            rows = self._told(rows)
            places = (When(**_equals(column, value), then=Value(place)) for value, place in order.items())
            rows = rows.annotate(place=Case(*places, default=Value(len(order)), output_field=IntegerField()))
            rows = rows.order_by("place", "node_name", "resource", "pk")
        return list(rows[offset : offset + limit]) if limit > 0 else []

    def values(self, column: str) -> list[tuple[Any, int]]:
        """How many matching entries have which value of a column; "told" is the best state that one of an
        entry's units is in."""
        return list(self._told(self.rows()).order_by().values_list(column).annotate(Count("pk")))

    def by_node(self) -> QuerySet[CountedUnits, tuple[str, int]]:
        """Units that count and match, by node."""
        rows = self.rows().filter(counts=True).order_by("node_name")
        return rows.values_list("node_name").annotate(Sum("capacity"))

    def places(self, start: int, stop: int) -> list[str]:
        """Nodes of some of the matching entries, in the order of the racks."""
        return list(self.rows().values_list("node_name", flat=True)[start:stop])

    def before(self, node: str) -> int:
        """How many matching entries are of nodes before this one."""
        return self.rows().filter(node_name__lt=node).count()

    @cached_property
    def groups(self) -> Sequence[Group]:
        """Units that count, by all that facets tell apart, whatever was chosen (but for text and node)."""
        keys = ("cluster_id", "vendor", "product", "kind", "resource")
        rows = self._narrowed().filter(counts=True).order_by().values_list(*keys)
        seen = Q(used__isnull=False)
        summed = rows.annotate(
            all_free=Sum("free", filter=seen, default=0),
            all_unavailable=Sum("unavailable", filter=seen, default=0),
            all_held=Sum(F("capacity") - F("free") - F("unavailable"), filter=seen, default=0),
            unseen=Sum("capacity", filter=~seen, default=0),
        )
        states = (State.FREE, State.UNAVAILABLE, State.HELD, self._unknown)
        return [
            Group(
                cluster_id=cluster,
                vendor=vendor,
                product=product,
                kind=kind,
                resource=resource,
                states=dict(zip(states, counts, strict=True)),
            )
            for cluster, vendor, product, kind, resource, *counts in summed
        ]

    def _narrowed(self) -> QuerySet[CountedUnits]:
        rows = CountedUnits.objects.all()
        if self._wanted.expression or any(self._wanted.values(facet) for facet in _OF_DEVICES):
            return rows.none()
        for term in self._wanted.terms:
            named = [pk for pk, c in self._coverage.items() if term.casefold() in c.cluster.name]
            rows = rows.filter(
                Q(node_name__icontains=term)
                | Q(resource__icontains=term)
                | Q(product__icontains=term)
                | Q(vendor__icontains=term)
                | Q(kind__icontains=term)
                | Q(cluster__in=named)
            )
        if nodes := self._wanted.values("node"):
            rows = rows.filter(node_name__in=nodes)
        return rows

    def _in_states(self, states: Sequence[str]) -> Q:
        """Entries with at least one unit in one of these (told) states."""
        conditions = self._conditions()
        wanted = (conditions[state] for state in states if state in conditions)
        return reduce(or_, wanted, Q(pk__in=()))

    def _conditions(self) -> Mapping[str, Q]:
        in_step = Q(cluster__in=[pk for pk, coverage in self._coverage.items() if coverage.in_step])
        known = in_step & Q(used__isnull=False)
        return {
            State.FREE: known & Q(free__gt=0),
            State.HELD: known & Q(capacity__gt=F("free") + F("unavailable")),
            State.UNAVAILABLE: known & Q(unavailable__gt=0),
            # Where Pods are not seen, nobody knows what is left.
            self._unknown: ~known,
        }

    def _told(self, rows: QuerySet[CountedUnits]) -> QuerySet[CountedUnits]:
        cases = (When(condition, then=Value(str(state))) for state, condition in self._conditions().items())
        told = Case(*cases, default=Value(str(State.HELD)), output_field=CharField())
        return rows.annotate(told=told)


def _equals(column: str, value: Any) -> dict[str, Any]:
    return {f"{column}__isnull": True} if value is None else {column: value}
