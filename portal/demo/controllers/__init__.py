"""The controllers of the embedded cluster: what makes Pods, claims and nodes move."""

import asyncio
from collections.abc import Mapping
from typing import Any

from portal.demo.catalog import KUEUE
from portal.demo.store import Store
from portal.dra.features import DEVICE_TAINT_RULES, Features

from .claims import ClaimsOfPods, Reservations
from .drivers import DeviceReports
from .eviction import DeviceTaintEviction
from .garbage import GarbageCollector
from .jobs import Jobs
from .kubelet import NodeHeart, PodRunner
from .loop import Controller
from .nodes import NodeHealth, OrphanedPods
from .queues import Queues
from .rule_status import DeviceTaintRuleStatus
from .scheduling import Scheduler
from .world import World


async def run(
    store: Store,
    *,
    features: Features | None = None,
    kubelet: bool = True,
    device_class_mappings: Mapping[str, str] | None = None,
) -> None:
    """Run all controllers until cancelled. All state is in the store, so that they may stop at any moment.

    ``features`` are the gates that are on (default: those of the store, and taint rules, which it serves).
    Without ``kubelet`` the cluster is a bare control plane: Pods are placed but never start, and nodes are
    as ready as somebody says they are. ``device_class_mappings`` (DeviceClass → resource) are for queues.
    """
    world = World(store)
    # Indexes fill as they subscribe: the world is read first, so that nothing is judged half seen.
    world.refresh()
    health = NodeHealth(world)
    evictions = DeviceTaintEviction(world)
    controllers: list[Controller[Any]] = [
        ClaimsOfPods(world),
        Reservations(world),
        Scheduler(world, features or store.features.with_gates(DEVICE_TAINT_RULES)),
        Jobs(world),
        GarbageCollector(world),
        evictions,
        DeviceTaintRuleStatus(world, evictions),
        health,
        OrphanedPods(world),
    ]
    if KUEUE in store.installed:
        controllers.append(Queues(world, device_class_mappings or {}))
    if kubelet:
        reports = DeviceReports(world)
        controllers += [reports, PodRunner(world, reports), NodeHeart(world)]
    async with asyncio.TaskGroup() as tasks:
        for view in (*world.views.values(), health.leases):
            tasks.create_task(view.follow(), name=f"view of {view.plural}")
        for controller in controllers:
            tasks.create_task(controller.run(), name=controller.name)
