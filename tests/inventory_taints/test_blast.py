"""What a taint would do, against the controller that does it."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from inventory.coverage import coverage_of
from inventory.models import Cluster
from inventory.taints.blast import Blast, blast_of
from inventory.taints.selecting import Selector, Taint
from portal.demo.controllers.eviction import DeviceTaintEviction
from portal.demo.controllers.rule_status import DeviceTaintRuleStatus
from portal.demo.controllers.world import World
from portal.demo.store import Store
from tests.inventory import objects
from tests.inventory.conftest import Mirror
from tests.inventory_taints.random_fleets import BEGAN, SPACES, RandomFleet, random_fleet

# (namespace, name) of a Pod to how long after the taint it was told to go.
Departures = dict[tuple[str, str], timedelta]
RULE = "resource.k8s.io/v1beta2"


def see(mirror: Mirror, fleet: RandomFleet) -> None:
    """The cluster is this fleet and nothing else."""
    mirror.lists(*fleet.slices, kind="ResourceSlice")
    mirror.lists(*fleet.claims, kind="ResourceClaim")
    mirror.lists(*fleet.pods, kind="Pod")


def foretold(cluster: Cluster, fleet: RandomFleet) -> Blast:
    cluster.refresh_from_db()
    now = timezone.now()
    return blast_of(
        cluster=cluster,
        selectors=[Selector(**{name: fleet.selector.get(name, "") for name in ("driver", "pool", "device")})],
        taint=Taint(fleet.taint["key"], fleet.taint.get("value", ""), fleet.taint["effect"]),
        coverage=coverage_of(cluster, (), now=now),
        now=now,
    )


class Played:
    """The fleet under the embedded cluster's eviction controller, with a clock that we turn."""

    def __init__(self, fleet: RandomFleet) -> None:
        self.now: datetime = BEGAN
        self.store = Store(clock=lambda: self.now)
        spaces = [objects.namespace(space) for space in SPACES]
        self.store.load([*spaces, *fleet.slices, *fleet.claims, *fleet.pods])
        self.fleet = fleet
        # Who was about to go before anything was tainted.
        self._told = set(self._going())

    async def evict(self) -> Departures:
        """Make the rule, and turn the clock from one eviction to the next."""
        world = World(self.store)
        world.refresh()
        controller = DeviceTaintEviction(world)
        self.store.create("devicetaintrules", self._rule(self.fleet.taint))
        departures: Departures = {}
        for _turn in range(100):
            waits = [controller.sync(key) for key in list(world.claims.objects)]
            departures |= {pod: self.now - BEGAN for pod in self._going() if pod not in self._told}
            self._told |= departures.keys()
            ahead = [seconds for seconds in waits if seconds]
            if not ahead:
                return departures
            self.now += timedelta(seconds=min(ahead))
        raise AssertionError("it never ends")

    async def simulate(self) -> str:
        """What the status says of the same rule without effect."""
        world = World(self.store)
        world.refresh()
        status = DeviceTaintRuleStatus(world, DeviceTaintEviction(world))
        self.store.create("devicetaintrules", self._rule(self.fleet.taint | {"effect": "None"}))
        status.sync(("", "trial"))
        return str(self.store.get("devicetaintrules", "trial")["status"]["conditions"][0]["message"])

    def _rule(self, taint: dict[str, str]) -> objects.Json:
        name = "trial" if taint["effect"] == "None" else "recall"
        spec = {"deviceSelector": self.fleet.selector, "taint": taint}
        return {"apiVersion": RULE, "kind": "DeviceTaintRule", "metadata": {"name": name}, "spec": spec}

    def _going(self) -> Iterator[tuple[str, str]]:
        for pod in self.fleet.pods:
            name, space = pod["metadata"]["name"], pod["metadata"]["namespace"]
            found = self.store.find("pods", name, namespace=space)
            if found is None or found["metadata"].get("deletionTimestamp"):
                yield space, name


@pytest.mark.parametrize("block", range(5))
def test_who_is_said_to_be_evicted_and_when_is_evicted_then(
    block: int, mirror: Mirror, cluster: Cluster
) -> None:
    evicted = 0
    for seed in range(10 * block, 10 * block + 10):
        fleet = random_fleet(seed)
        see(mirror, fleet)
        blast = foretold(cluster, fleet)
        said = {(pod.namespace, pod.name): pod.after for pod in blast.evicted}
        assert said == asyncio.run(Played(fleet).evict()), seed
        assert not said.keys() & {(pod.namespace, pod.name) for pod in blast.staying}, seed
        evicted += len(said)
    assert evicted, "random fleets in which nobody is ever evicted prove nothing"


def test_the_numbers_are_those_of_the_clusters_own_simulation(mirror: Mirror, cluster: Cluster) -> None:
    for seed in range(100, 112):
        fleet = random_fleet(seed)
        see(mirror, fleet)
        blast = foretold(cluster, fleet)
        message = asyncio.run(Played(fleet).simulate())
        published, allocated, rest = message.split(". ", 2)
        assert published.startswith(f"{blast.devices} published device"), (seed, message)
        assert allocated.startswith(f"{blast.allocated} allocated device"), (seed, message)
        assert rest.startswith(f"{len(blast.evicted)} pod"), (seed, message)
        assert f"in {blast.namespaces} " in rest, (seed, message)
