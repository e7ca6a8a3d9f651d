"""What requests hold by the ledger, and what they have cost so far: for many of them at once."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from claims.models import Allocation, Request
from claims.money.charges import parts_of
from claims.money.pricing import Usage, price_list, statement
from inventory.models import Device


@dataclass(frozen=True)
class Held:
    """A device that a request holds; `pk` of the mirror's device while it is published."""

    pk: int | None
    name: str
    node: str
    product: str


@dataclass(frozen=True)
class Running:
    """A request with what it holds now, and what it has cost so far by currency. `unpriced`: something of it
    has no price."""

    request: Request
    devices: Sequence[Held]
    totals: Mapping[str, Decimal]
    unpriced: bool


def running(requests: Sequence[Request], *, now: datetime) -> list[Running]:
    """The same requests in the same order; a fixed number of queries."""
    held: dict[int, list[Allocation]] = defaultdict(list)
    used: dict[int, list[Usage]] = defaultdict(list)
    rows = Allocation.objects.filter(request__in=requests, admin_access=False)
    for row in rows.filter(ended_at=None).order_by("device_name", "pk"):
        assert row.request_id is not None
        held[row.request_id].append(row)
    published = _published([row for rows_ in held.values() for row in rows_])
    prices, told = price_list(), []
    since = min((request.created_at for request in requests), default=now)
    for values, part in parts_of(rows, prices, start=since, end=now):
        used[values["request_id"]].append(part)
    for request in requests:
        cost = statement(used[request.pk], prices, start=request.created_at, end=now, now=now)
        devices = [
            Held(published.get(_place(row)), _name(row), row.node_name, row.product)
            for row in held[request.pk]
        ]
        told.append(Running(request, devices, cost.totals, cost.unpriced))
    return told


def _name(row: Allocation) -> str:
    # Units of a Device Plugin have no names.
    return f"{row.units} × {row.extended_resource}" if row.kind == row.Kind.UNITS else row.device_name


_Place = tuple[int, str, str, str]


def _place(row: Allocation) -> _Place:
    return row.cluster_id, row.driver, row.pool_name, row.device_name


def _published(rows: Sequence[Allocation]) -> dict[_Place, int]:
    """Where the devices of these intervals are in the mirror."""
    if not rows:
        return {}
    found = Device.objects.filter(
        cluster__in={row.cluster_id for row in rows},
        pool__name__in={row.pool_name for row in rows},
        name__in={row.device_name for row in rows},
    )
    columns = ("cluster_id", "pool__driver", "pool__name", "name", "pk")
    return {
        (cluster, driver, pool, name): pk for cluster, driver, pool, name, pk in found.values_list(*columns)
    }
