"""What the panel says of a change of a request that goes on: its own devices are its own. More time needs no
other place; another number or memory needs devices of its own while the present ones are still held."""

import copy
from dataclasses import dataclass
from datetime import datetime

from django.utils.translation import gettext as _

from claims.asks.values import Reading
from claims.bookings.conflicts import conflicts_of, words_of
from claims.catalogue.stock import FleetOf
from claims.changes.limits import booked_on_top
from claims.changes.wanted import place_of
from claims.models import Request, RequestClaim
from claims.preview.verdicts import Asked
from claims.quotas.guard import Verdict, foretell, verdicts
from inventory.snapshot import claims_of


@dataclass(frozen=True, kw_only=True)
class Changing:
    """The request that an ask changes, and when it gives its devices back where another takes its place."""

    request: Request
    release: str

    def in_place(self, reading: Reading) -> bool:
        """Whether it keeps the devices that it has, or the place in the line."""
        same = reading.count == self.request.count
        return same and reading.min_memory == self.request.min_memory

    def quotas(self, reading: Reading, *, now: datetime) -> list[Verdict]:
        """What it means for the project's quotas: of more time that time, else the larger of what is given
        back and what is taken instead."""
        if not self.in_place(reading):
            return foretell(reading, now=now, **place_of(self.request, self.release))
        if reading.duration is None or reading.duration <= self.request.duration:
            return []
        longer = copy.copy(self.request)
        longer.duration = reading.duration
        return [one for one in verdicts([longer], now=now)[0] if one.field == "duration"]

    def booked(self, reading: Reading, *, now: datetime, fleet_of: FleetOf) -> str:
        """What of it others have booked, in a sentence; "" = nothing."""
        if reading.duration is None or reading.count is None or reading.cluster is None:
            return ""
        if self.in_place(reading):
            longer = reading.duration > self.request.duration
            found = booked_on_top(self.request, reading.duration, now=now) if longer else None
        else:
            found = conflicts_of(
                cluster=reading.cluster, placement=reading.placement,
                device_class=reading.device_class.name if reading.device_class else "",
                count=reading.count, min_memory=reading.min_memory, duration=reading.duration, now=now,
                replaced=place_of(self.request, self.release).get("replaced"), fleet_of=fleet_of,
            )  # fmt: skip
        return words_of(found) if found is not None else ""

    def way_out(self, asked: Asked) -> str:
        """Where what takes the place does not fit beside the present request, but would in its place: what
        to do; "" = that would not help either."""
        own = RequestClaim.objects.filter(request=self.request).values_list("claim_uid", flat=True)
        others = claims_of(self.request.cluster, without=list(own))
        if not asked.changed(fleet=asked.fleet.with_claims(others)).fits():
            return ""
        return _(
            "It would fit in the place of the present request, which gives its devices back only when the "
            "new one has its own. If nothing else becomes free, release the present one yourself once the "
            "new one waits."
        )
