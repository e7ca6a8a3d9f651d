"""What an ask would be given if it were placed now, node by node, and what exactly that costs: where prices
differ by device, a range says little to somebody whose device is waiting.

The scheduler chooses among the nodes; on each of them it is these devices, unless somebody else is faster.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from claims.asks.values import Reading
from claims.catalogue.candidates import candidates_of
from claims.catalogue.kinds import asks_of
from claims.money.expected import Candidate, Cost, counts_counters, expected, together
from claims.money.pricing import PriceList
from claims.preview.verdicts import Asked
from inventory.mirror import consumption
from inventory.models import Cluster, Device
from portal.dra.allocator import allocate
from portal.dra.model import AllocationResult
from portal.dra.outcomes import Allocated

Name = tuple[str, str, str]
# Nodes that are looked at; each is a search of its own.
MOST = 5


@dataclass(frozen=True, kw_only=True)
class Placed:
    """The devices that it would be given on some nodes, and their cost."""

    nodes: Sequence[str]
    # Products with how many of each.
    devices: Sequence[tuple[str, int]]
    cost: Cost


def placed(
    reading: Reading, asked: Asked, nodes: Sequence[str], prices: PriceList, *, now: datetime
) -> list[Placed]:
    """For the first of the nodes on which it fits; those that would give the same are one."""
    cluster = reading.cluster
    if cluster is None or reading.duration is None or reading.spec is None:
        return []
    outcomes = {node: allocate(asked.fleet, node=node, claims=(asked.claim,)) for node in nodes[:MOST]}
    given = {node: outcome.claims[0] for node, outcome in outcomes.items() if isinstance(outcome, Allocated)}
    known = _known(cluster, given.values())
    drawn = consumption.of(known.values()) if counts_counters(prices) else {}
    classes = _classes(reading.spec)
    found: dict[str, Placed] = {}
    for node, allocation in given.items():
        kinds = list(_candidates(allocation, classes, known, drawn, cluster))
        if len(kinds) != len(allocation.devices.results):
            # A device of which the mirror does not know the kind (any more).
            continue
        project = reading.project.pk if reading.project else None
        cost = together(
            [
                expected([kind], prices, project=project, count=1, start=now, duration=reading.duration)
                for kind in kinds
            ]
        )
        names = [kind.name for kind in kinds]
        devices = sorted({(name, names.count(name)) for name in names})
        same = repr((devices, cost.amounts, cost.unpriced))
        before = found[same].nodes if same in found else ()
        found[same] = Placed(nodes=(*before, node), devices=devices, cost=cost)
    return list(found.values())


def _known(cluster: Cluster, allocations: Iterable[AllocationResult]) -> Mapping[Name, Device]:
    results = [result for allocation in allocations for result in allocation.devices.results]
    wanted = {(result.driver, result.pool, result.device) for result in results}
    rows = Device.objects.filter(
        cluster=cluster,
        pool__name__in={pool for _driver, pool, _name in wanted},
        name__in={name for _driver, _pool, name in wanted},
    )
    named = {
        (device.pool.driver, device.pool.name, device.name): device
        for device in rows.select_related("pool", "profile")
    }
    return {name: device for name, device in named.items() if name in wanted}


def _classes(spec: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """What is asked for, by the name of the request ("request/subrequest" of an alternative)."""
    requests = spec["devices"]["requests"]
    found: dict[str, Mapping[str, Any]] = {}
    for request, asks in zip(requests, asks_of(spec), strict=True):
        for ask in asks:
            name = f"{request['name']}/{ask['name']}" if request.get("firstAvailable") else request["name"]
            found[name] = ask
    return found


def _candidates(
    allocation: AllocationResult,
    classes: Mapping[str, Mapping[str, Any]],
    known: Mapping[Name, Device],
    drawn: Mapping[int, consumption.Counters],
    cluster: Cluster,
) -> Iterator[Candidate]:
    for result in allocation.devices.results:
        device, ask = known.get((result.driver, result.pool, result.device)), classes.get(result.request)
        if device is None or ask is None:
            continue
        for one in candidates_of(
            [device.profile],
            device_class=ask["deviceClassName"],
            cluster=cluster,
            requested=(ask.get("capacity") or {}).get("requests") or {},
        ):
            yield replace(one, kind=replace(one.kind, counters=drawn.get(device.pk, {})))
