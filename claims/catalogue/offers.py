"""The catalogue as researchers see it: each flavor with what is free now, the typical wait, and its price."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.http import Http404

from claims.catalogue.candidates import drawn_on
from claims.catalogue.places import Place, places_of
from claims.catalogue.stock import FleetOf
from claims.models import Flavor, Request
from claims.money.books import Kind
from claims.money.expected import Candidate, Cost, announce, digits, expected, joined
from claims.money.pricing import PriceList
from claims.waiting.typical import NO_WAIT, Wait, waits
from inventory.snapshot import fleet
from portal import access
from portal.accounts.models import Membership, Project, User

HOUR = timedelta(hours=1)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A flavor and what may be said of it now."""

    flavor: Flavor
    places: Sequence[Place]
    wait: Wait
    # What a device-hour may cost, over its places and those who may pay.
    cost: Cost

    @property
    def total(self) -> int | None:
        """Devices in all; None when no place can tell."""
        return _sum([place.total for place in self.places])

    @property
    def free(self) -> int | None:
        """What is free in places that can tell; None when none can. See `unknown`."""
        return _sum([place.free for place in self.places])

    @property
    def unknown(self) -> Sequence[Place]:
        """Places of which it is not known what is free."""
        return [place for place in self.places if place.free is None]

    @property
    def clusters(self) -> Sequence[str]:
        return list(dict.fromkeys(place.cluster for place in self.places))

    @property
    def products(self) -> Sequence[str]:
        return sorted({product for place in self.places for product in place.stock.products})

    @property
    def memory(self) -> Sequence[int]:
        return sorted({size for place in self.places for size in place.stock.memory})

    @property
    def price(self) -> str:
        """The price per device-hour with all its digits, a range where several apply; "" = none."""
        return self.cost.hourly_words

    @property
    def ranged(self) -> bool:
        """Whether that hangs on the device that it will be (or on whose project pays, or on its use)."""
        return self.cost.hourly is not None and not self.cost.hourly.single

    @property
    def prices(self) -> Sequence[str]:
        """Prices per device-hour that may apply, lowest first."""
        found = {line.hourly for line in self.cost.lines if line.hourly is not None}
        return [digits(price) for price in sorted(found)]

    @property
    def currency(self) -> str:
        return self.cost.currency

    @property
    def partly_priced(self) -> bool:
        """Some of its products have a price and others have none."""
        return bool(self.cost.unpriced) and bool(self.price)

    @property
    def offers(self) -> Sequence[str]:
        return [line.strip() for line in self.flavor.offers.splitlines() if line.strip()]

    @property
    def backends(self) -> Sequence[str]:
        return sorted({place.choice.backend for place in self.places})


def entries(
    *, user: User, prices: PriceList, now: datetime, slug: str = "", fleet_of: FleetOf = fleet
) -> list[Entry]:
    """The catalogue that `user` sees, in its order; with `slug` only that flavor. The number of queries
    depends neither on the number of flavors nor on the size of the fleets."""
    rows = Flavor.objects.visible_to(user).offered()
    if slug:
        rows = rows.filter(slug=slug)
    rows = rows.order_by("position", "name", "pk").prefetch_related("placements__cluster")
    return entries_of(list(rows), prices=prices, now=now, fleet_of=fleet_of, user=user)


def entries_of(
    flavors: Sequence[Flavor],
    *,
    prices: PriceList,
    now: datetime,
    fleet_of: FleetOf = fleet,
    user: User | None = None,
) -> list[Entry]:
    """The same of these flavors, whose `placements__cluster` was prefetched; for the projects of
    `user`, where some pay less than others."""
    payers: Sequence[int | None] = ()
    book = prices.current(now)
    if user is not None and book is not None and book.discounts:
        mine = Membership.objects.filter(user=user).order_by("project_id")
        payers = list(mine.values_list("project_id", flat=True))
    placed = []
    for flavor in flavors:
        for placement in flavor.placements.all():
            # The prefetched rows know their flavor already; this keeps them from asking again.
            placement.flavor = flavor
            if placement.cluster.enabled:
                placed.append(placement)
    places = places_of(placed, now=now, fleet_of=fleet_of)
    waited = waits(now=now)
    announce(prices, [one for place in places.values() for one in place.stock.candidates])
    told = []
    for flavor in flavors:
        own = [places[p.pk] for p in placed if p.flavor_id == flavor.pk and p.pk in places]
        own.sort(key=lambda place: (place.placement.position, place.placement.pk))
        told.append(
            Entry(
                flavor=flavor,
                places=own,
                wait=waited.get(flavor.pk, NO_WAIT),
                cost=_cost(own, prices, payers=payers, now=now),
            )
        )
    return told


def entry_or_404(
    *, user: User, slug: str, prices: PriceList, now: datetime, fleet_of: FleetOf = fleet
) -> Entry:
    """One flavor; who may not see it does not learn that it is there (Http404)."""
    found = entries(user=user, prices=prices, now=now, slug=slug, fleet_of=fleet_of)
    if not found:
        raise Http404
    return found[0]


def may_ask_for(*, user: User, flavor: Flavor, project: Project) -> bool:
    """Whether `user` may ask for the flavor for that project; that they work in it is checked elsewhere."""
    if flavor.archived_at is not None:
        return False
    if access.may_administer(user) or flavor.visibility == Flavor.Visibility.ALL:
        return True
    found = False
    if flavor.visibility == Flavor.Visibility.PROJECTS:
        found = flavor.projects.filter(pk=project.pk).exists()
    elif flavor.visibility == Flavor.Visibility.LEADS:
        found = access.role_in(user, project) == Membership.Role.LEAD
    elif flavor.visibility == Flavor.Visibility.GROUPS:
        found = flavor.groups.filter(pk__in=user.groups.values("pk")).exists()
    return found


def askable(*, user: User, project: Project | None) -> list[Flavor]:
    """Flavors that `user` may ask for (for that project), in the order of the catalogue; two queries."""
    rows = Flavor.objects.visible_to(user).offered()
    if project is not None and not access.may_administer(user):
        others = rows.filter(visibility=Flavor.Visibility.PROJECTS).exclude(projects=project)
        rows = rows.exclude(pk__in=others.values("pk"))
        if access.role_in(user, project) != Membership.Role.LEAD:
            rows = rows.exclude(visibility=Flavor.Visibility.LEADS)
    return list(rows.order_by("position", "name", "pk"))


def flavor_names(user: User) -> dict[str, str]:
    """What flavors that the reader may see are called, by what programs call them."""
    return dict(Flavor.objects.visible_to(user).values_list("slug", "name"))


def waiting_for(flavors: Sequence[int]) -> Mapping[int, int]:
    """How many requests wait for a device of each flavor (by primary key) now."""
    rows = Request.objects.filter(flavor__in=flavors, state=Request.State.WAITING_FOR_DEVICE)
    counts: dict[int, int] = dict.fromkeys(flavors, 0)
    for pk in rows.values_list("flavor", flat=True):
        if pk is not None:
            counts[pk] += 1
    return counts


def _cost(places: Sequence[Place], prices: PriceList, *, payers: Sequence[int | None], now: datetime) -> Cost:
    """Of one device for an hour, whichever place gives it. By list price if nobody is known to pay."""
    found: list[Candidate] = []
    for place in places:
        by_dra = place.choice.backend == Request.Backend.DRA
        made_of = place.placement.device_class if by_dra else place.placement.extended_resource
        kind = Kind(device_class=made_of) if by_dra else Kind(resource=made_of)
        # A place without a device now still has the price of its class.
        kinds = place.stock.candidates or (Candidate(name=made_of, kind=kind),)
        found += drawn_on(kinds, cluster=place.placement.cluster, prices=prices)
    return joined(
        [
            expected(found, prices, project=payer, count=1, start=now, duration=HOUR)
            for payer in payers or (None,)
        ]
    )


def _sum(numbers: Sequence[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None
