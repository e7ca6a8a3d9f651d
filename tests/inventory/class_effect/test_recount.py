"""The numbers of the preview equal a recount after applying: by the engine, from the slices themselves."""

import random
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from inventory import snapshot
from inventory.class_effect import ClassEffect, as_json, effect_of
from inventory.models import Claim, ClaimTemplate, Cluster, DeviceClass
from portal.dra import model as dra
from portal.dra.cluster import feasible_nodes
from portal.dra.fleet import Fleet
from portal.dra.matching import BadExpression
from tests.inventory.class_effect import fleets
from tests.inventory.class_effect.fleets import NAME
from tests.inventory.conftest import Mirror
from tests.inventory.objects import changed, device_class

CHANGES = 25
# The last one found selectors of which one cannot be read, and that nevertheless tell claims apart.
SEEDS = (0, 1, 2, 15)


def matched(fleet: Fleet, name: str) -> tuple[set[Any], set[Any]]:
    """Devices that match a class, and those that it errs for, by what the engine says of every one."""
    if name not in fleet.classes:
        return set(), set()
    found = fleet.match_class(name)
    if isinstance(found, BadExpression):
        return set(), set()
    verdicts = list(found)
    return (
        {m.device.id for m in verdicts if m.verdict.matches},
        {m.device.id for m in verdicts if m.verdict.error},
    )


def admitted(fleet: Fleet, ask: Any) -> bool:
    """Whether any device of the fleet satisfies the class and the selectors of a request."""
    left, _errs = matched(fleet, ask.device_class_name)
    for selector in ask.selectors:
        found = fleet.match(selector.cel.expression)
        assert not isinstance(found, BadExpression)
        left &= {m.device.id for m in found if m.verdict.matches}
    return bool(left)


class Counted:
    """All that the effect tells, counted anew."""

    def __init__(self, cluster: Cluster) -> None:
        self.fleet = fleet = snapshot.fleet(Cluster.objects.get(pk=cluster.pk))
        self.matched, self.errs = matched(fleet, NAME)
        self.fits: dict[str, bool] = {}
        self.empty: set[str] = set()
        for claim in Claim.objects.filter(allocated=False):
            if NAME in str(claim.spec):
                found = feasible_nodes(fleet, (self._claim(claim.spec),))
                self.fits[claim.name] = bool(found.nodes)
        for template in ClaimTemplate.objects.all():
            requests = self._claim(template.spec).spec.devices.requests
            asks = [[r.exactly] if r.exactly else list(r.first_available) for r in requests]
            if NAME in str(template.spec) and any(not any(admitted(fleet, a) for a in own) for own in asks):
                self.empty.add(template.name)
        self.overlaps = {
            name: len(self.matched & matched(fleet, name)[0]) for name in fleet.classes if name != NAME
        }

    @staticmethod
    def _claim(spec: Any) -> dra.ResourceClaim:
        return dra.ResourceClaim(spec=msgspec.convert(spec, dra.ResourceClaimSpec))

    def holders_of(self, lost: set[Any]) -> set[str]:
        names = set()
        for claim in Claim.objects.filter(allocated=True):
            by_name = {r["name"]: r for r in claim.spec["devices"]["requests"]}
            for result in claim.status["allocation"]["devices"]["results"]:
                asked, _slash, part = result["request"].partition("/")
                asks = by_name[asked]
                ask = asks.get("exactly") or next(p for p in asks["firstAvailable"] if p["name"] == part)
                piece = (result["driver"], result["pool"], result["device"])
                if piece in lost and ask["deviceClassName"] == NAME:
                    names.add(claim.name)
        return names


def names(objects: Iterable[Any]) -> set[str]:
    return {found.name for found in objects}


def compare(effect: ClassEffect, before: Counted, after: Counted) -> None:
    gained, lost = after.matched - before.matched, before.matched - after.matched
    assert (effect.before, effect.after) == (len(before.matched), len(after.matched))
    for told, recounted in ((effect.gained, gained), (effect.lost, lost)):
        assert told.count == len(recounted)
        assert {(d.driver, d.pool, d.name) for d in told.first} == recounted
        by_driver = Counter(driver for driver, *_rest in recounted)
        counted: Counter[str] = Counter()
        for kind in told.kinds:
            counted[kind.driver] += kind.count
        assert counted == by_driver
    assert effect.failing_count == len(after.errs)
    assert names(effect.keeping.first) == before.holders_of(lost)
    assert effect.keeping.count == len(effect.keeping.first)
    waiting = effect.waiting
    assert waiting.unasked == 0
    assert names(waiting.starting.first) == {
        n for n, fits in after.fits.items() if fits and not before.fits[n]
    }
    assert names(waiting.stopping.first) == {
        n for n, fits in before.fits.items() if fits and not after.fits[n]
    }
    assert names(effect.templates.first) == after.empty
    assert names(t for t in effect.templates.first if t.already) == after.empty & before.empty
    overlapping = {row.name: (row.before, row.after) for row in effect.overlaps}
    everything = {name: (before.overlaps[name], after.overlaps[name]) for name in after.overlaps}
    assert overlapping == {name: counts for name, counts in everything.items() if any(counts)}
    msgspec.json.encode(as_json(effect))


@pytest.mark.parametrize("seed", SEEDS)
def test_what_is_told_beforehand_is_what_is_counted_afterwards(
    mirror: Mirror, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from inventory.class_effect import waiting

    monkeypatch.setattr(waiting, "MOST_FORMS", 100)
    rng = random.Random(seed)
    nodes, slices = fleets.fleet(rng)
    mirror.see(*nodes)
    mirror.see(*slices)
    mirror.see(*fleets.others(rng))
    mirror.see(*fleets.claims(rng, slices))
    mirror.see(*fleets.templates(rng))
    found = device_class(NAME, "true")
    mirror.see(found)
    cluster = Cluster.objects.get()
    before = Counted(cluster)
    told: Counter[str] = Counter()
    for _change in range(CHANGES):
        old = DeviceClass.objects.filter(name=NAME).first()
        new = None if old and rng.random() < 0.05 else fleets.spec(rng)
        cluster = Cluster.objects.get()
        effect = effect_of(cluster=cluster, name=NAME, before=old.spec if old else None, after=new)
        if new is None:
            mirror.see(found, deleted=True)
        else:
            found = changed(found, spec=new)
            mirror.see(found)
        after = Counted(cluster)
        compare(effect, before, after)
        told["gained"] += effect.gained.count
        told["lost"] += effect.lost.count
        told["failing"] += effect.failing_count
        told["keeping"] += effect.keeping.count
        told["starting"] += effect.waiting.starting.count
        told["stopping"] += effect.waiting.stopping.count
        told["templates"] += effect.templates.count
        before = after
    # The fleet is such that there is something to tell of everything.
    assert min(told.values()) > 0, told
