"""The device taint eviction controller (KEP 5055): Pods leave devices that carry a NoExecute taint.

A toleration in the request, which the allocation carries along, lets a Pod stay: for ever, or for some
seconds after the taint was added. Taints come from slices and from DeviceTaintRules.
"""

from datetime import datetime, timedelta

from portal.demo.records import Key
from portal.dra.model import DeviceRequestAllocationResult, DeviceTaint, ResourceClaim, ResourceSlice
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
            if entry.resource == "pods":
                self._evict(key[0], entry.name, entry.uid)
        return None

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
            stays = [item.toleration_seconds for item in result.tolerations if tolerates(item, taint)]
            if not stays:
                moments.append(added)
            elif (limits := [seconds for seconds in stays if seconds is not None]) and len(limits) == len(
                stays
            ):
                moments.append(added + timedelta(seconds=max(0, *limits)))
        return min(moments, default=None)

    def _evict(self, namespace: str, name: str, uid: str) -> None:
        pod = self.world.store.find("pods", name, namespace=namespace)
        if pod is None or pod["metadata"]["uid"] != uid or pod["metadata"].get("deletionTimestamp"):
            return
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
        self.world.delete("pods", (namespace, name), uid=uid)

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


def _tainted(item: ResourceSlice | None) -> dict[DeviceId, tuple[DeviceTaint, ...]]:
    if item is None:
        return {}
    spec = item.spec
    return {
        (spec.driver, spec.pool.name, device.name): device.taints
        for device in spec.devices
        if any(taint.effect == "NoExecute" for taint in device.taints)
    }
