"""The facets of nodes and of pools: a fleet has thousands of each, of which the first are listed and the
others are found by typing."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext_lazy as _

from inventory.browse_cells import Cell, FleetFacts
from inventory.browse_counted import CountedSearch
from inventory.browse_hits import Hits
from inventory.browse_rows import TableRows, pools_named
from portal.lists import Facet, Value

NODES_SHOWN = 8
POOLS_SHOWN = 8


@dataclass(frozen=True)
class Found:
    """What is found while any value of the facet is admitted."""

    rows: TableRows | Hits
    cells: Collection[Cell]
    counted: CountedSearch


# A value of the facet, with how many there are of it.
Told = Callable[[str, int], Value]


def nodes(found: Found, *, chosen: Sequence[str], told: Told) -> Facet:
    """The chosen nodes and the first others."""
    units = found.counted.by_node()
    first = found.rows.by_node(found.cells, first=NODES_SHOWN + 1)
    first_units = list(units[: NODES_SHOWN + 1]) if found.counted.groups else []
    names = sorted({name for name, _count in (*first, *first_units)})
    values = dict.fromkeys(names[:NODES_SHOWN], 0)
    if missing := set(chosen) - set(values):
        values |= dict.fromkeys(missing, 0)
        first += found.rows.of_nodes(found.cells, missing)
        first_units += units.filter(node_name__in=missing) if found.counted.groups else []
    # A node may be in both, and a missing one in neither.
    for name, count in (*dict(first).items(), *dict(first_units).items()):
        if name in values:
            values[name] += count
    return Facet(
        "node", _("Node"), [told(v, n) for v, n in sorted(values.items())], more=len(names) > NODES_SHOWN
    )


def pools(found: Found, *, near: Facet, chosen: Sequence[str], told: Told, facts: FleetFacts) -> Facet:
    """The chosen pools, and those of the nodes that are listed or of no node: a large fleet has a pool or
    more per node. `near` are the nodes while any pool is admitted."""
    nodes_near = {*(value.value for value in near.values), ""}
    first = found.rows.pools_near(found.cells, nodes_near, first=POOLS_SHOWN + 1)
    more = len(first) > POOLS_SHOWN or near.more
    by_name = dict.fromkeys([*first[:POOLS_SHOWN], *chosen], 0)
    # Clusters may have pools of the same name.
    known = {
        pk: f"{driver}/{name}"
        for pk, driver, name in pools_named(by_name, facts=facts).values_list("pk", "driver", "name")
    }
    for pk, count in found.rows.of_pools(found.cells, known):
        by_name[known[pk]] += count
    return Facet("pool", _("Pool"), [told(name, n) for name, n in sorted(by_name.items())], more=more)
