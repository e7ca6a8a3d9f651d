"""What would make an ask fit that does not fit now: fewer devices, less memory, without a condition, with a
taint tolerated, at another place, of another flavor. Every suggestion is one that the engine has confirmed.

The search is bounded in time: what was not looked at is not suggested, and no answer waits for it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.utils.translation import gettext as _

from claims.asks.engine import claim_of, node_tolerations
from claims.asks.options import Options
from claims.asks.values import Reading
from claims.catalogue.offers import may_ask_for
from claims.catalogue.places import Place, places_of
from claims.catalogue.stock import FleetOf, wish_of
from claims.models import Flavor, Placement, Request
from claims.preview.verdicts import Asked, tolerating
from claims.requests import manifests
from inventory.coverage import coverage_of_all
from inventory.models import Cluster, DeviceClass, NamespaceBinding, Stream
from portal.accounts.models import User
from portal.dra.cluster import Feasibility
from portal.dra.model import DeviceToleration, ResourceClaim, Taint, Toleration
from portal.dra.taints import PREVENTING, untolerated
from portal.dra.units import nanos

# Taints, memory sizes, flavors and clusters that are tried of each.
TRIED = 3
FLAVORS_TRIED = 8
# A fleet of so many slices is built in a few hundredths of a second.
QUICK_SLICES = 300


@dataclass(frozen=True, kw_only=True)
class Suggestion:
    """One change that would make it fit now. `change` has the fields of the ask and their other values;
    empty where the person cannot make the change alone."""

    code: str
    words: str
    change: Mapping[str, str] = field(default_factory=dict)


@dataclass(kw_only=True)
class Search:
    """A search for suggestions; `seconds` of `clock` are what it may take."""

    asked: Asked
    reading: Reading
    feasible: Feasibility
    viewer: User | None
    now: datetime
    fleet_of: FleetOf
    clock: Callable[[], float]
    seconds: float
    _until: float = 0.0

    def run(self) -> list[Suggestion]:
        """The suggestions, the smallest change first."""
        self._until = self.clock() + self.seconds
        found: list[Suggestion] = []
        for look in (
            self._fewer,
            self._less_memory,
            self._without,
            self._taints,
            self._places,
            self._flavors,
        ):
            for suggestion in look():
                found.append(suggestion)
                if self._over():
                    return found
            if self._over():
                break
        return found

    def _over(self) -> bool:
        return self.clock() > self._until

    # --- of the same -------------------------------------------------------------------------------

    def _fits(self, reading: Reading) -> bool:
        spec = reading.spec
        return spec is not None and self.asked.changed(claim=_claim(spec)).fits()

    def _fewer(self) -> Iterator[Suggestion]:
        count, flavor = self.reading.count or 1, self.reading.flavor
        least, best = (flavor.min_count if flavor else 1), 0
        high = count - 1
        # What fits for some fits for fewer.
        while least <= high and not self._over():
            middle = (least + high) // 2
            if self._fits(replace(self.reading, count=middle)):
                best, least = middle, middle + 1
            else:
                high = middle - 1
        if best:
            words = _("%(count)s instead of %(asked)s would fit now.") % {"count": best, "asked": count}
            yield Suggestion(code="fewer", words=words, change={"count": str(best)})

    def _less_memory(self) -> Iterator[Suggestion]:
        if not self.reading.min_memory:
            return
        asked = nanos(self.reading.min_memory) // 10**9
        sizes = {p.memory_bytes for p in self.reading.profiles if p.memory_bytes is not None}
        least = self.reading.flavor.min_memory if self.reading.flavor else ""
        floor = nanos(least) // 10**9 if least else 0
        for size in sorted((size for size in sizes if floor <= size < asked), reverse=True)[:TRIED]:
            text = f"{size // 2**30}Gi" if size % 2**30 == 0 else f"{size // 2**20}Mi"
            if self._fits(replace(self.reading, min_memory=text)):
                words = _("With at least %(memory)s of memory each, it would fit now.") % {"memory": text}
                yield Suggestion(code="memory", words=words, change={"min_memory": text})
                return

    def _without(self) -> Iterator[Suggestion]:
        options = self.reading.options
        offers = {
            "same": _("Without “all with the same %(value)s”, it would fit now.") % {"value": options.same},
            "different": _("Without “each with a different %(value)s”, it would fit now.")
            % {"value": options.different},
            "parts": _("Without the further parts, it would fit now."),
            "expression": _("Without the CEL expression, it would fit now."),
        }
        usual = Options()
        for name, words in offers.items():
            if getattr(options, name):
                without = replace(options, **{name: getattr(usual, name)})
                if self._fits(replace(self.reading, options=without)):
                    yield Suggestion(code=f"without-{name}", words=words, change={name: ""})

    # --- taints ------------------------------------------------------------------------------------

    def _taints(self) -> Iterator[Suggestion]:
        for taint in self._taints_of_nodes():
            added = Toleration(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)
            if self.asked.changed(tolerations=(*self.asked.tolerations, added)).fits():
                words = _(
                    "On nodes with the taint %(taint)s it would fit now, for Pods that tolerate it: "
                    "an administrator can say so for the flavor."
                ) % {"taint": _text(taint.key, taint.value, taint.effect)}
                yield Suggestion(code="node-taint", words=words)
        for key, value, effect in self._taints_of_devices():
            toleration = DeviceToleration(key=key, operator="Equal", value=value, effect=effect)
            if self.asked.changed(claim=tolerating(self.asked.claim, toleration)).fits():
                text = _text(key, value, effect)
                words = _("If you accept devices with the taint %(taint)s, it would fit now.") % {
                    "taint": text
                }
                yield Suggestion(code="device-taint", words=words, change={"tolerations": text})

    def _taints_of_nodes(self) -> list[Taint]:
        """Taints that keep the Pod from nodes, the most frequent first; those of the node's own condition
        left out."""
        found: dict[tuple[str, str, str], int] = {}
        for name, reason in self.feasible.rejected.items():
            if reason.code == "node-tainted":
                for taint in self.asked.fleet.node(name).spec.taints:
                    own = taint.key.startswith("node.kubernetes.io/")
                    if taint.effect in PREVENTING and not own:
                        key = (taint.key, taint.value, taint.effect)
                        found[key] = found.get(key, 0) + 1
        ordered = sorted(found, key=lambda key: -found[key])[:TRIED]
        return [Taint(key=key, value=value, effect=effect) for key, value, effect in ordered]

    def _taints_of_devices(self) -> list[tuple[str, str, str]]:
        drivers = {profile.driver for profile in self.reading.profiles}
        found: dict[tuple[str, str, str], int] = {}
        requests = self.asked.claim.spec.devices.requests
        own = requests[0].exactly.tolerations if requests and requests[0].exactly else ()
        for pool in self.asked.fleet.pools:
            if pool.key[0] not in drivers:
                continue
            for item in self.asked.fleet.devices(pool):
                if item.taints and (taint := untolerated(item.taints, own)) is not None:
                    key = (taint.key, taint.value, taint.effect)
                    found[key] = found.get(key, 0) + 1
        return sorted(found, key=lambda key: -found[key])[:TRIED]

    # --- elsewhere ---------------------------------------------------------------------------------

    def _places(self) -> Iterator[Suggestion]:
        """The same flavor on another node pool or cluster, the same class on another cluster."""
        seen = self.reading
        usable = self._usable_clusters()
        if seen.flavor is not None:
            others = [p for p in seen.placements if p.pk != (seen.placement.pk if seen.placement else None)]
            for place in self._with_enough([p for p in others if p.cluster_id in usable], seen.count or 1):
                if self._place_fits(place, seen.min_memory):
                    yield self._elsewhere(place.placement)
                    return
            return
        if seen.device_class is None or seen.spec is None:
            return
        same = DeviceClass.objects.filter(cluster__in=usable, name=seen.device_class.name, problem="")
        rows = same.exclude(cluster=seen.device_class.cluster_id).select_related("cluster")
        for cluster in [row.cluster for row in rows.order_by("cluster__name")[:TRIED]]:
            if self._quick(cluster) and self.asked.changed(fleet=self.fleet_of(cluster)).fits():
                words = _("On %(cluster)s it would fit now.") % {"cluster": cluster.name}
                yield Suggestion(code="cluster", words=words, change={"cluster": cluster.name})
                return

    def _elsewhere(self, placement: Placement) -> Suggestion:
        told = {"cluster": placement.cluster.name, "pool": placement.pool}
        if self.reading.cluster is not None and placement.cluster_id == self.reading.cluster.pk:
            words = _("In the node pool %(pool)s it would fit now.") % told
            return Suggestion(code="pool", words=words, change={"pool": placement.pool})
        words = _("On %(cluster)s it would fit now.") % told
        return Suggestion(code="cluster", words=words, change=told)

    def _flavors(self) -> Iterator[Suggestion]:
        """Another flavor that would be placed now, with as many devices, on a cluster of the project."""
        user, project = self.viewer, self.reading.project
        if user is None or project is None:
            return
        flavors = Flavor.objects.all().visible_to(user).offered().order_by("position", "name")
        if self.reading.flavor is not None:
            flavors = flavors.exclude(pk=self.reading.flavor.pk)
        count = self.reading.count or 1
        named = [
            flavor
            for flavor in flavors.filter(min_count__lte=count, max_count__gte=count)[:FLAVORS_TRIED]
            if may_ask_for(user=user, flavor=flavor, project=project)
        ]
        placements = Placement.objects.filter(flavor__in=named, cluster__in=self._usable_clusters())
        rows = list(placements.select_related("flavor", "cluster").order_by("flavor__position", "position"))
        told: set[int] = set()
        for place in self._with_enough(rows, count):
            flavor = place.placement.flavor
            if flavor.pk not in told and self._place_fits(place, flavor.default_memory or flavor.min_memory):
                told.add(flavor.pk)
                words = _("%(flavor)s on %(cluster)s would fit now.") % {
                    "flavor": flavor.name,
                    "cluster": place.cluster,
                }
                change = {"flavor": flavor.slug, "cluster": place.cluster, "pool": place.placement.pool}
                yield Suggestion(code="flavor", words=words, change=change)
                if len(told) == TRIED:
                    return

    def _usable_clusters(self) -> set[int]:
        """Clusters in step on which the project has a namespace now."""
        bindings = NamespaceBinding.objects.filter(
            project=self.reading.project, valid_from__lte=self.now
        ).exclude(valid_until__lte=self.now)
        bound = set(bindings.values_list("cluster_id", flat=True))
        return {pk for pk, known in coverage_of_all(now=self.now).items() if known.in_step and pk in bound}

    def _with_enough(self, placements: Sequence[Placement], count: int) -> list[Place]:
        """Places that have so many free devices at all, by numbers that are known already mostly."""
        if not placements:
            return []
        places = places_of(placements, now=self.now, fleet_of=self.fleet_of)
        found = [places[placement.pk] for placement in placements if placement.pk in places]
        return [place for place in found if place.free is not None and place.free >= count]

    def _place_fits(self, place: Place, memory: str) -> bool:
        placement, count = place.placement, self.reading.count or 1
        if place.choice.backend != Request.Backend.DRA:
            # Units are alike; that one node has so many of them is not said.
            return count == 1 and not memory
        if not self._quick(placement.cluster):
            return False
        claim = _claim(manifests.claim_spec(wish_of(placement, count=count, min_memory=memory)))
        return Asked(
            fleet=self.fleet_of(placement.cluster),
            claim=claim,
            tolerations=node_tolerations(placement.tolerations),
            node_selector=dict(placement.node_selector),
        ).fits()

    def _quick(self, cluster: Cluster) -> bool:
        """Whether its fleet is there, or made in no time: nobody waits for a large one on the side."""
        if self.reading.cluster is not None and cluster.pk == self.reading.cluster.pk:
            return True
        slices = Stream.objects.filter(cluster=cluster, resource="resourceslices")
        return (slices.values_list("object_count", flat=True).first() or 0) <= QUICK_SLICES


def _claim(spec: manifests.Manifest) -> ResourceClaim:
    return claim_of(manifests.preview_claim(spec))


def _text(key: str, value: str, effect: str) -> str:
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"
