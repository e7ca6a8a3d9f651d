"""What the catalogue and the mirror say of things that quotas count: which flavors are made of what, and what
devices a request may get."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from claims.catalogue.candidates import candidates_of, candidates_of_units, drawn_on
from claims.catalogue.flavored import profiles_of
from claims.models import Flavor, Placement, Request
from claims.money.expected import Candidate
from claims.money.pricing import PriceList
from claims.quotas.standing import Asked, Part
from inventory.models import ClassProfile, Cluster, CountedUnits, DeviceProfile
from portal.dra.quantity import InvalidQuantity, Quantity

_NANO = 10**9


@dataclass(kw_only=True)
class Catalogue:
    """Which flavors are made of what, and what their devices are."""

    flavor_keys: Mapping[str, int]
    placements: Sequence[Placement]
    # Whether memory and products of what is asked for matter: only then they are looked up.
    deep: bool
    # What prices depend on, where there are any.
    prices: PriceList
    _clusters: dict[int, Cluster] = field(default_factory=dict)
    _priced: dict[str, tuple[Candidate, ...]] = field(default_factory=dict)
    _profiles: dict[int, list[DeviceProfile]] = field(default_factory=dict)

    @classmethod
    def load(cls, *, deep: bool, prices: PriceList) -> "Catalogue":
        return cls(
            flavor_keys=dict(Flavor.objects.values_list("slug", "pk")),
            placements=list(Placement.objects.select_related("cluster").order_by("position", "pk")),
            deep=deep,
            prices=prices,
        )

    @cached_property
    def _by_class(self) -> Mapping[tuple[int, str], frozenset[int]]:
        found: dict[tuple[int, str], set[int]] = defaultdict(set)
        for placement in self.placements:
            for name in filter(None, (placement.device_class, placement.extended_resource)):
                found[placement.cluster_id, name].add(placement.flavor_id)
        return {key: frozenset(flavors) for key, flavors in found.items()}

    def flavors_of(self, cluster: int, name: str) -> frozenset[int]:
        """Flavors that are made of a class or resource there."""
        return self._by_class.get((cluster, name), frozenset())

    def flavors_of_result(
        self, *, cluster: int, flavor: int | None, options: Mapping[str, Any], part: str, made_of: str
    ) -> frozenset[int]:
        """The flavors of one result of a claim, by the name of its part
        (`claims.requests.manifests.claim_spec`)."""
        if flavor is None or part.startswith("part-"):
            return self.flavors_of(cluster, made_of)
        number = part.rpartition("/choice-")[2]
        alternatives = options.get("alternatives") or []
        if number.isdecimal() and 2 <= int(number) <= len(alternatives) + 1:
            chosen = self.flavor_keys.get(str(alternatives[int(number) - 2].get("flavor", "")))
            return frozenset(() if chosen is None else (chosen,))
        return frozenset((flavor,))

    # --- what devices it may be -----------------------------------------------------------------------

    @cached_property
    def _of_classes(self) -> Mapping[tuple[int, str], list[DeviceProfile]]:
        rows = ClassProfile.objects.select_related("profile", "device_class__cluster")
        rows = rows.defer("device_class__cluster__kubeconfig_encrypted")
        found: dict[tuple[int, str], dict[int, DeviceProfile]] = defaultdict(dict)
        for row in rows:
            self._clusters[row.device_class.cluster_id] = row.device_class.cluster
            found[row.device_class.cluster_id, row.device_class.name][row.profile_id] = row.profile
        return {key: list(profiles.values()) for key, profiles in found.items()}

    @cached_property
    def _of_resources(self) -> Mapping[tuple[int, str], list[CountedUnits]]:
        found: dict[tuple[int, str], list[CountedUnits]] = defaultdict(list)
        for row in CountedUnits.objects.filter(capacity__gt=0):
            found[row.cluster_id, row.resource].append(row)
        return found

    def part(
        self,
        *,
        cluster: int,
        flavors: frozenset[int],
        units: int,
        device_class: str = "",
        resource: str = "",
        placement: Placement | None = None,
        min_memory: str = "",
        share: Mapping[str, str] | None = None,
    ) -> Part:
        """So many devices, with what they may be at most."""
        part = Part(flavors=flavors, units=units, device_class=device_class, resource=resource)
        if not self.deep:
            return part
        rows: Sequence[DeviceProfile | CountedUnits]
        if resource:
            rows = self._of_resources.get((cluster, resource), [])
        else:
            rows = self._narrowed(placement, self._of_classes.get((cluster, device_class), []))
        least = _bytes(min_memory) or 0
        known = [
            row.memory_bytes for row in rows if row.memory_bytes is not None and row.memory_bytes >= least
        ]
        large = [row for row in rows if row.memory_bytes is None or row.memory_bytes >= least]
        return replace(
            part,
            candidates=self._candidates(cluster, device_class, large, share),
            memory=memory_of(share or {}) or max(known, default=least or None),
            products=tuple(sorted({row.product for row in large})) or ("",),
        )

    def _narrowed(self, placement: Placement | None, rows: list[DeviceProfile]) -> list[DeviceProfile]:
        if placement is None or not placement.selectors:
            return rows
        if placement.pk not in self._profiles:
            self._profiles[placement.pk] = profiles_of(placement, rows)
        return self._profiles[placement.pk]

    def _candidates(
        self,
        cluster: int,
        device_class: str,
        rows: Sequence[DeviceProfile | CountedUnits],
        share: Mapping[str, str] | None,
    ) -> tuple[Candidate, ...]:
        """What prices of so few or many may depend on; once for what is alike."""
        if not self.prices.books:
            return ()
        key = repr((cluster, device_class, [row.pk for row in rows], share))
        if key not in self._priced:
            profiles = [row for row in rows if isinstance(row, DeviceProfile)]
            found = candidates_of_units(row for row in rows if isinstance(row, CountedUnits))
            if profiles:
                place = self._clusters[cluster]
                found = candidates_of(profiles, device_class=device_class, cluster=place, requested=share)
                found = drawn_on(found, cluster=place, prices=self.prices)
            self._priced[key] = found
        return self._priced[key]

    def placement_of(self, *, cluster: int, flavor: int | None, pool: str | None = None) -> Placement | None:
        """Where a flavor is served."""
        return next(
            (
                p
                for p in self.placements
                if (p.flavor_id, p.cluster_id) == (flavor, cluster) and pool in (None, p.pool)
            ),
            None,
        )

    # --- a request --------------------------------------------------------------------------------------

    def asked(self, request: Request) -> Asked:
        """What a request (which need not be stored) may take."""
        cluster, options = request.cluster_id, request.options or {}
        main = self.part(
            cluster=cluster,
            flavors=(
                frozenset((request.flavor_id,))
                if request.flavor_id
                else self.flavors_of(cluster, request.device_class or request.extended_resource)
            ),
            units=request.count,
            device_class=request.device_class,
            resource=request.extended_resource,
            placement=self.placement_of(cluster=cluster, flavor=request.flavor_id, pool=request.pool),
            min_memory=request.min_memory,
            share=options.get("share"),
        )
        first = [main]
        for entry in options.get("alternatives") or ():
            pk = self.flavor_keys.get(str(entry.get("flavor", "")))
            placement = self.placement_of(cluster=cluster, flavor=pk)
            first.append(
                self.part(
                    cluster=cluster,
                    flavors=frozenset(() if pk is None else (pk,)),
                    units=int(entry.get("count") or 1),
                    device_class=placement.device_class if placement else "",
                    placement=placement,
                )
            )
        groups = [tuple(first)]
        for entry in options.get("parts") or ():
            name = str(entry.get("device_class", ""))
            groups.append(
                (
                    self.part(
                        cluster=cluster,
                        flavors=self.flavors_of(cluster, name),
                        units=int(entry.get("count") or 1),
                        device_class=name,
                    ),
                )
            )
        return Asked(
            request=request.pk,
            groups=tuple(groups),
            duration=request.duration,
            until=request.expires_at if request.allocated_at else None,
        )


def memory_of(capacity: Mapping[str, Any]) -> int | None:
    """Bytes of the capacity ``memory``, under whatever domain; None = not told."""
    for name, value in capacity.items():
        if name.rpartition("/")[2] == "memory":
            return _bytes(str(value.get("value", "")) if isinstance(value, Mapping) else str(value))
    return None


def _bytes(text: str) -> int | None:
    try:
        return Quantity.parse(text).nanos // _NANO if text else None
    except InvalidQuantity:
        return None
