"""What requests will cost if they are held for the whole time: by what each asks for, whichever devices it
will be given."""

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from claims.catalogue.candidates import drawn_on
from claims.catalogue.kinds import Kinds, Sought, Wanted
from claims.models import Request
from claims.money.books import Kind
from claims.money.expected import Candidate, Cost, announce, expected, joined
from claims.money.pricing import PriceList
from inventory.models import Cluster


def costs_of_all(
    requests: Sequence[tuple[Request, Sequence[Candidate]]], prices: PriceList, *, now: datetime
) -> list[list[Cost]]:
    """From now on, for each request the cost of each of its parts; of alternatives it is any one. Beside each
    request (with its cluster) what may serve it where it has no spec to go by: units of a Device Plugin.
    A fixed number of queries."""
    sought = {
        request.pk: Sought(cluster=request.cluster, spec=request.spec, node_selector=request.node_selector)
        for request, _served in requests
        if request.spec
    }
    kinds = Kinds.load(list(sought.values()))
    asked = []
    for request, served in requests:
        whole = Wanted(name=_made_of(request), count=request.count, candidates=served)
        asked.append((kinds.of(sought[request.pk]) if request.pk in sought else []) or [[whole]])
    _look_ahead([request for request, _served in requests], asked, prices)
    return [
        _costs(request, parts, prices, now=now)
        for (request, _served), parts in zip(requests, asked, strict=True)
    ]


def _look_ahead(
    requests: Sequence[Request], asked: Sequence[Sequence[Sequence[Wanted]]], prices: PriceList
) -> None:
    """Ask at once for everything that prices will ask of these kinds."""
    by_cluster: dict[Cluster, list[Candidate]] = defaultdict(list)
    for request, parts in zip(requests, asked, strict=True):
        by_cluster[request.cluster] += [one for part in parts for wanted in part for one in wanted.candidates]
    for cluster, found in by_cluster.items():
        announce(prices, drawn_on(found, cluster=cluster, prices=prices))


def _costs(
    request: Request, parts: Sequence[Sequence[Wanted]], prices: PriceList, *, now: datetime
) -> list[Cost]:
    found: list[Cost] = []
    for choices in parts:
        role = "besides" if found else ""
        any_of = []
        for wanted in choices:
            # Of what is not there (yet), the price of its class is known.
            candidates = wanted.candidates or [_described(request, wanted.name)]
            any_of.append(
                expected(
                    drawn_on(candidates, cluster=request.cluster, prices=prices),
                    prices,
                    project=request.project_id,
                    count=wanted.count,
                    start=now,
                    duration=request.duration,
                    role=role,
                )
            )
        found.append(joined(any_of))
    return found


def _made_of(request: Request) -> str:
    return request.device_class or request.extended_resource


def _described(request: Request, name: str) -> Candidate:
    if request.backend == Request.Backend.PLUGIN:
        return Candidate(name=name, kind=Kind(resource=name))
    return Candidate(name=name, kind=Kind(device_class=name))
