"""The device taint eviction controller (KEP 5055): Pods leave devices that carry a NoExecute taint.

A toleration in the request, which the allocation carries along, lets a Pod stay: for ever, or for some
seconds after the taint was added. It has to name the effect NoExecute; of several with seconds the shortest
counts. A Pod that no node has been found for is left alone. Taints come from slices and DeviceTaintRules.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from portal.demo.records import Key
from portal.dra.model import (
    DeviceRequestAllocationResult,
    DeviceTaint,
    DeviceToleration,
    ResourceClaim,
    ResourceSlice,
)
from portal.dra.taints import TaintRules, tolerates

from .loop import Controller
from .view import Delta
from .world import World, set_condition

MANAGER = "device-taint-eviction"
MESSAGE = "Device Taint manager: deleting due to NoExecute taint"
DeviceId = tuple[str, str, str]


class DeviceTaintEviction(Controller[Key]):
    """Deletes the consumers of claims whose devices are not to be used any more."""

    name = MANAGER

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self._published: dict[Key, dict[DeviceId, tuple[DeviceTaint, ...]]] = {}
        self._rules = TaintRules(())
        # How many Pods left for a rule, by its uid, since the controller began.
        self.evicted: Counter[str] = Counter()
        world.slices.subscribe(self._slice_changed)
        world.taint_rules.subscribe(self._rules_changed)
        world.claims.subscribe(self._claim_changed)

    def sync(self, key: Key) -> float | None:
        """Evict the Pods of one claim, if that is due."""
        self.world.refresh()
        claim = self.world.claims.objects.get(key)
        if claim is None or claim.status.allocation is None:
            return None
        due = [self._due(result) for result in claim.status.allocation.devices.results]
        moments = [moment for moment in due if moment is not None]
        if not moments:
            return None
        wait = (min(moments) - self.world.now).total_seconds()
        if wait > 0:
            return wait
        for entry in claim.status.reserved_for:
            if entry.resource == "pods" and self._evict(key[0], entry.name, entry.uid):
                self.evicted.update(self._reasons(claim))
        return None

    def _reasons(self, claim: ResourceClaim) -> list[str]:
        """The uids of the rules for which a claim has to be left."""
        assert claim.status.allocation is not None  # the caller looked
        results = claim.status.allocation.devices.results
        return [
            rule.metadata.uid
            for rule in self.world.taint_rules.objects.values()
            if rule.spec.taint.effect == "NoExecute"
            and any(is_struck(result, TaintRules((rule,))) for result in results)
        ]

    def _due(self, result: DeviceRequestAllocationResult) -> datetime | None:
        """When a device has to be left; None if it may be kept."""
        device = (result.driver, result.pool, result.device)
        taints = [taint for found in self._published.values() for taint in found.get(device, ())]
        taints += self._rules.for_device(*device)
        moments = []
        for taint in taints:
            if taint.effect != "NoExecute":
                continue
            added = self.world.parse(taint.time_added) if taint.time_added else self.world.now
            stay = stays_for(result.tolerations, taint)
            if stay is not None:
                moments.append(added + stay)
        return min(moments, default=None)

    def _evict(self, namespace: str, name: str, uid: str) -> bool:
        """Whether there was somebody to evict."""
        pod = self.world.store.find("pods", name, namespace=namespace)
        if pod is None or pod["metadata"]["uid"] != uid or pod["metadata"].get("deletionTimestamp"):
            return False
        if not pod["spec"].get("nodeName"):
            return False
        now, status = self.world.stamp(), pod.setdefault("status", {})
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "DeletionByDeviceTaintManager",
            "message": MESSAGE,
        }
        status["conditions"] = set_condition(status.get("conditions", ()), condition, now=now)
        self.world.store.update_status("pods", pod, manager=MANAGER)
        self.world.event(
            pod,
            kind="Pod",
            reason="DeviceTaintManagerEviction",
            message="Marking for deletion",
            component=MANAGER,
        )
        return self.world.delete("pods", (namespace, name), uid=uid)

    def _slice_changed(self, delta: Delta[ResourceSlice]) -> None:
        before = self._published.pop(delta.key, {})
        after = _tainted(delta.new)
        if after:
            self._published[delta.key] = after
        if after != before:
            self._look_at_all()

    def _rules_changed(self, _delta: object) -> None:
        self._rules = TaintRules(self.world.taint_rules.objects.values())
        self._look_at_all()

    def _claim_changed(self, delta: Delta[ResourceClaim]) -> None:
        if (
            delta.new is not None
            and delta.new.status.allocation is not None
            and (self._published or self._rules)
        ):
            self.queue.add(delta.key)

    def _look_at_all(self) -> None:
        for key, claim in self.world.claims.objects.items():
            if claim.status.allocation is not None:
                self.queue.add(key)


def stays_for(tolerations: Iterable[DeviceToleration], taint: DeviceTaint) -> timedelta | None:
    """How long after a NoExecute taint was added its device may be kept; None = for ever."""
    limits = [
        item.toleration_seconds
        for item in tolerations
        if item.effect == "NoExecute" and tolerates(item, taint)
    ]
    if not limits:
        return timedelta()
    known = [seconds for seconds in limits if seconds is not None]
    return timedelta(seconds=max(0, min(known))) if len(known) == len(limits) else None


def is_struck(result: DeviceRequestAllocationResult, rules: TaintRules) -> bool:
    """Whether some of these rules would have the device left, if their effect was NoExecute."""
    return any(
        stays_for(result.tolerations, msgspec.structs.replace(taint, effect="NoExecute")) is not None
        for taint in rules.for_device(result.driver, result.pool, result.device)
    )


def _tainted(item: ResourceSlice | None) -> dict[DeviceId, tuple[DeviceTaint, ...]]:
    if item is None:
        return {}
    spec = item.spec
    return {
        (spec.driver, spec.pool.name, device.name): device.taints
        for device in spec.devices
        if any(taint.effect == "NoExecute" for taint in device.taints)
    }
