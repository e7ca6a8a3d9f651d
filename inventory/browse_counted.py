"""The units of Device Plugins in the search for devices: counted, never named.

They answer to the same filters and count in the same facets as devices. A unit that is also published as a
device, or that is part of another unit, is listed and flagged, but counts nowhere a second time.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import or_

from django.db.models import F, Q, QuerySet, Sum

from inventory.coverage import Coverage
from inventory.filters import DeviceFilter
from inventory.models import CountedUnits, Device

PLUGIN = "plugin"
State = Device.State
# Facets that a column of the units answers; "driver" is the resource that the plugin advertises.
_COLUMNS = {
    "cluster": "cluster__name",
    "vendor": "vendor",
    "product": "product",
    "kind": "kind",
    "driver": "resource",
    "node": "node_name",
}


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
                rows = rows.filter(**{f"{column}__in": chosen})
        if states := wanted.values("state"):
            rows = rows.filter(self._in_states(states))
        return rows.order_by("node_name", "resource", "pk")

    @cached_property
    def entries(self) -> int:
        """How many entries match."""
        return self.rows().count()

    def page(self, *, offset: int, limit: int) -> list[CountedUnits]:
        """Some of the matching entries."""
        return list(self.rows()[offset : offset + limit]) if limit > 0 else []

    @cached_property
    def groups(self) -> Sequence[Group]:
        """Units that count, by all that facets tell apart, whatever was chosen (but for text and node)."""
        keys = ("cluster_id", "vendor", "product", "kind", "resource")
        rows = self._narrowed().filter(counts=True).order_by().values_list(*keys)
        summed = rows.annotate(
            Sum("free"), Sum("unavailable"), held=Sum(F("capacity") - F("free") - F("unavailable"))
        )
        return [
            Group(
                cluster_id=cluster,
                vendor=vendor,
                product=product,
                kind=kind,
                resource=resource,
                states={State.FREE: free, State.UNAVAILABLE: unavailable, State.HELD: held},
            )
            for cluster, vendor, product, kind, resource, free, unavailable, held in summed
        ]

    def _narrowed(self) -> QuerySet[CountedUnits]:
        rows = CountedUnits.objects.all()
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
        in_step = Q(cluster__in=[pk for pk, coverage in self._coverage.items() if coverage.in_step])
        conditions = {
            State.FREE: in_step & Q(free__gt=0),
            State.UNAVAILABLE: in_step & Q(unavailable__gt=0),
            State.HELD: in_step & Q(capacity__gt=F("free") + F("unavailable")),
            self._unknown: ~in_step,
        }
        wanted = (conditions[state] for state in states if state in conditions)
        return reduce(or_, wanted, Q(pk__in=()))
