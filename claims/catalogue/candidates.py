"""Which kinds of device something may turn out to be, as prices see them (`claims.money.expected`): what the
ledger will say of them once they are allocated."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import msgspec
from django.core.cache import cache

from claims.money.books import Kind, PriceList, share
from claims.money.expected import Candidate, counts_counters
from inventory.mirror import consumption
from inventory.mirror.writer import features_of
from inventory.models import Cluster, CountedUnits, Device, DeviceProfile
from portal.dra import model as dra
from portal.dra.allocator.capacity import Requested, share_of, suffices
from portal.dra.features import Features

# As for places: versions that have passed are never asked for again.
KEEP_SECONDS = 3600


def candidates_of(
    profiles: Iterable[DeviceProfile],
    *,
    device_class: str,
    cluster: Cluster,
    requested: Mapping[str, str] | None = None,
) -> tuple[Candidate, ...]:
    """Those of these kinds that can give what is `requested` of their capacities; a shared one counts as what
    it would be drawn on."""
    features = features_of(cluster.server_version, served=cluster.served)
    found = []
    for profile in profiles:
        drawn = _drawn(profile, requested or {}, features)
        if drawn is None:
            continue
        found.append(
            Candidate(
                name=profile.product or profile.driver,
                kind=Kind(
                    device_class=device_class,
                    product=profile.product,
                    profile=profile.digest,
                    share=share(drawn, profile.capacity)
                    if profile.allow_multiple_allocations
                    else Fraction(1),
                    consumed=drawn,
                    capacity=profile.capacity,
                ),
            )
        )
    return tuple(found)


def candidates_of_units(rows: Iterable[CountedUnits]) -> tuple[Candidate, ...]:
    """Units of a Device Plugin: parts of a device where several share one."""
    return tuple(
        Candidate(
            name=row.product,
            kind=Kind(product=row.product, resource=row.resource, share=Fraction(1, max(row.replicas, 1))),
        )
        for row in rows
    )


def drawn_on(
    candidates: Sequence[Candidate], *, cluster: Cluster, prices: PriceList
) -> tuple[Candidate, ...]:
    """The same with the counters that partitions draw on, where prices are by them. Partitions of one kind
    that draw on different amounts are several."""
    digests = {one.kind.profile for one in candidates if one.kind.profile}
    if not digests or not counts_counters(prices):
        return tuple(candidates)
    counters = _counters(cluster, digests)
    return tuple(
        replace(one, kind=replace(one.kind, counters=each))
        for one in candidates
        for each in counters.get(one.kind.profile) or ({},)
    )


def _drawn(
    profile: DeviceProfile, requested: Mapping[str, str], features: Features
) -> Mapping[str, str] | None:
    """What one allocation consumes, by qualified names; {} of a device given away as a whole; None = it is
    not enough."""
    if not requested and not profile.allow_multiple_allocations:
        return {}
    try:
        device = msgspec.convert({"name": "device", "capacity": profile.capacity}, dra.Device)
    except msgspec.ValidationError:
        return {}
    asked: Requested = {
        name if name in profile.capacity else f"{profile.driver}/{name}": amount
        for name, amount in requested.items()
    }
    if not profile.allow_multiple_allocations:
        return {} if suffices(device, asked) else None
    consumed = share_of(device, asked, features)
    return None if consumed is None else {name: str(amount) for name, amount in consumed.items()}


def _counters(cluster: Cluster, digests: Iterable[str]) -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """By digest; looked up once while the devices of the cluster stay the same."""
    key = f"claims:counters:{cluster.pk}:{cluster.fleet_version}"
    known: dict[str, list[Mapping[str, Any]]] = dict(cache.get(key) or {})
    missing = [digest for digest in digests if digest not in known]
    if missing:
        rows = Device.objects.filter(cluster=cluster, profile__digest__in=missing, pool__has_counters=True)
        devices = {device.pk: device for device in rows.select_related("profile")}
        told = consumption.of(devices.values())
        found: dict[str, list[Mapping[str, Any]]] = {digest: [] for digest in missing}
        for pk, drawn in told.items():
            if drawn not in (kinds := found[devices[pk].profile.digest]):
                kinds.append(drawn)
        known |= found
        cache.set(key, known, KEEP_SECONDS)
    return known
