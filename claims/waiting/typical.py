"""How long people waited for a device, from history: the typical wait of each flavor."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median_low

from django.db.models import F, Window
from django.db.models.functions import RowNumber

from claims.models import Request

# What was long ago says nothing about now, and a few cases say nothing at all.
LOOK_BACK = timedelta(days=90)
LATEST = 50
FEWEST = 5


@dataclass(frozen=True, kw_only=True)
class Wait:
    """The median of the latest waits, and how many there were. `typical` None = too few to say."""

    typical: timedelta | None
    cases: int


NO_WAIT = Wait(typical=None, cases=0)


def typical(waits: Sequence[timedelta]) -> Wait:
    """The typical one of some waits."""
    return Wait(typical=median_low(waits) if len(waits) >= FEWEST else None, cases=len(waits))


def waits(*, now: datetime) -> Mapping[int, Wait]:
    """By flavor (primary key): from when a hold was asked for or a Pod found none, to the allocation. One
    query, whatever the number of flavors; flavors without a case are absent."""
    rows = (
        Request.objects.filter(flavor__isnull=False, asked_at__isnull=False, allocated_at__gt=now - LOOK_BACK)
        .annotate(nth=Window(RowNumber(), partition_by=[F("flavor")], order_by=F("allocated_at").desc()))
        .filter(nth__lte=LATEST)
    )
    found: dict[int, list[timedelta]] = defaultdict(list)
    for flavor, asked_at, allocated_at in rows.values_list("flavor", "asked_at", "allocated_at"):
        if flavor is not None and asked_at is not None and allocated_at is not None:
            # The cluster's clock may be a little behind ours.
            found[flavor].append(max(allocated_at - asked_at, timedelta()))
    return {flavor: typical(cases) for flavor, cases in found.items()}
