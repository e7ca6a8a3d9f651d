"""Requests that would run into bookings: told in the preview, refused where the flavor keeps its bookings."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils.translation import gettext as _

from claims.asks.values import UnableToSubmit
from claims.bookings import news
from claims.bookings.booking import take_book
from claims.bookings.room import shortage
from claims.bookings.supply import Target, supply
from claims.catalogue.stock import FleetOf
from claims.models import Booking, Placement, Request
from inventory.models import Cluster
from inventory.snapshot import fleet


@dataclass(frozen=True, kw_only=True)
class Conflict:
    """A request that begins now would leave too few devices for what is booked."""

    # From when on, and how many would be missing then.
    at: datetime
    missing: int
    # The bookings are of a flavor that keeps them: the request is refused.
    kept: bool


def conflicts(
    *,
    placement: Placement,
    count: int,
    start: datetime,
    end: datetime,
    now: datetime,
    min_memory: str = "",
    without: Booking | None = None,
    replaced: Request | None = None,
    fleet_of: FleetOf = fleet,
) -> Conflict | None:
    """Whether `count` devices of `placement` in [start, end) would run into bookings; None = no. What
    `replaced` holds or waits for is there for them.

    Only where the devices would do were nothing booked: what has to wait anyway is in nobody's way. A
    `placement` that is not stored stands for a class that a person describes."""
    cluster = placement.cluster
    if (
        not placement.device_class
        or not Booking.objects.filter(cluster=cluster).planned().within(start, end).exists()
    ):
        return None
    target = Target(placement, min_memory)
    for only_kept in (True, False):
        there = supply(
            target=target, now=now, start=start, end=end, without=without, replaced=replaced,
            only_kept=only_kept, fleet_of=fleet_of,
        )  # fmt: skip
        found = shortage(there.fleet, target=0, count=count, start=start, end=end)
        if found is not None:
            return Conflict(at=found[0], missing=found[1], kept=only_kept)
    return None


def conflicts_of(
    *,
    cluster: Cluster,
    placement: Placement | None,
    device_class: str,
    count: int,
    min_memory: str,
    duration: timedelta,
    now: datetime,
    replaced: Request | None = None,
    fleet_of: FleetOf = fleet,
) -> Conflict | None:
    """The same of an ask: of a flavor's placement, or of a class that a person describes; from now on."""
    placed = placement or Placement(cluster=cluster, device_class=device_class)
    return conflicts(
        placement=placed, count=count, min_memory=min_memory, start=now, end=now + duration, now=now,
        replaced=replaced, fleet_of=fleet_of,
    )  # fmt: skip


def words_of(conflict: Conflict) -> str:
    """The conflict in a sentence, with the way out."""
    at = news.local(conflict.at)
    if conflict.kept:
        return _(
            "From %(at)s on, %(missing)s of these devices are booked, and bookings of this flavor are kept: "
            "ask for a shorter time, for fewer, or book a time ahead."
        ) % {"at": at, "missing": conflict.missing}
    return _(
        "From %(at)s on, %(missing)s of these devices are booked: who booked them may find them held."
    ) % {"at": at, "missing": conflict.missing}


def kept_within(cluster: Cluster, start: datetime, end: datetime) -> bool:
    """Whether anything is booked then that has to be kept clear. If so, waits until nobody else books there,
    until the end of the transaction."""
    kept = Booking.objects.filter(cluster=cluster, flavor__bookings_kept=True).planned()
    if not kept.within(start, end).exists():
        return False
    take_book(cluster)
    return True


def keep_clear(
    *, request: Request, now: datetime, replaced: Request | None = None, fleet_of: FleetOf = fleet
) -> None:
    """Refuse a request that would run into bookings that are kept: UnableToSubmit. Called inside the
    transaction that stores the request, so that a booking made at the same moment is seen. The request of a
    booking is in its own time and passes. `replaced` gives its devices back for it."""
    cluster, end = request.cluster, now + request.duration
    if request.backend == Request.Backend.PLUGIN:
        return
    if not kept_within(cluster, now, end):
        return
    if Booking.objects.filter(request_key=request.key).exists():
        return
    placement = None
    if request.flavor is not None:
        rows = Placement.objects.filter(flavor=request.flavor, cluster=cluster, pool=request.pool)
        placement = rows.select_related("flavor", "cluster").first()
    found = conflicts_of(
        cluster=cluster, placement=placement, device_class=request.device_class, count=request.count,
        min_memory=request.min_memory, duration=request.duration, now=now, replaced=replaced,
        fleet_of=fleet_of,
    )  # fmt: skip
    if found is not None and found.kept:
        raise UnableToSubmit({"duration": [words_of(found)]})
