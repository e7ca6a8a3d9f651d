"""What the eviction controller writes into the status of DeviceTaintRules.

Of a rule with the effect None it says once what the rule would do if it were NoExecute; of one with NoExecute
how many Pods still have to leave, and looks again while there are some.
"""

from portal.demo.records import Key
from portal.dra.model import DeviceTaintRule, Pod
from portal.dra.taints import TaintRules

from .eviction import MANAGER, DeviceTaintEviction, is_struck
from .loop import Controller
from .view import Delta
from .world import World, set_condition

PERIOD_SECONDS = 10.0
ONCE = "This information will not be updated again. Recreate the DeviceTaintRule to trigger an update."


class DeviceTaintRuleStatus(Controller[Key]):
    """Keeps the condition EvictionInProgress of every rule."""

    name = "device-taint-rule-status"

    def __init__(self, world: World, evictions: DeviceTaintEviction) -> None:
        super().__init__()
        self.world = world
        self._evictions = evictions
        world.taint_rules.subscribe(self._changed)

    def sync(self, key: Key) -> float | None:
        """Write the condition of one rule."""
        self.world.refresh()
        rule = self.world.taint_rules.objects.get(key)
        raw = self.world.store.find("devicetaintrules", key[1])
        if rule is None or raw is None:
            return None
        condition, again = self._condition(rule)
        condition["observedGeneration"] = raw["metadata"].get("generation", 1)
        status = raw.setdefault("status", {})
        known: dict[str, object] = next(
            (c for c in status.get("conditions") or () if c["type"] == condition["type"]), {}
        )
        if any(known.get(name) != value for name, value in condition.items()):
            status["conditions"] = set_condition(
                status.get("conditions") or (), condition, now=self.world.stamp()
            )
            self.world.store.update_status("devicetaintrules", raw, manager=MANAGER)
        return again

    def _condition(self, rule: DeviceTaintRule) -> tuple[dict[str, object], float | None]:
        effect = rule.spec.taint.effect
        condition: dict[str, object] = {"type": "EvictionInProgress", "status": "False"}
        again: float | None = None
        said: list[str] = []
        if effect == "None":
            condition["reason"] = "NoEffect"
            said += [*self._selected(rule), self._would_leave(rule), ONCE]
        elif effect == "NoExecute":
            pods = self._struck(rule)
            if pods:
                condition |= {"reason": "PodsPendingEviction", "status": "True"}
                need = "1 pod needs" if len(pods) == 1 else f"{len(pods)} pods need"
                said.append(f"{need} to be evicted in {_namespaces(pods)}.")
                again = PERIOD_SECONDS
            else:
                condition["reason"] = (
                    "Completed" if self._evictions.evicted[rule.metadata.uid] else "NotStarted"
                )
                again = None
        else:
            condition["reason"] = "OtherEffect"
            said.append("Eviction only happens for the NoExecute effect.")
        if count := self._evictions.evicted[rule.metadata.uid]:
            said.append(f"{_count(count, 'pod')} evicted since starting the controller.")
        condition["message"] = " ".join(said)
        return condition, again

    def _selected(self, rule: DeviceTaintRule) -> list[str]:
        rules = TaintRules((rule,))
        newest: dict[tuple[str, str], int] = {}
        for item in self.world.slices.objects.values():
            pool = (item.spec.driver, item.spec.pool.name)
            newest[pool] = max(newest.get(pool, 0), item.spec.pool.generation)
        published = sum(
            bool(rules.for_device(item.spec.driver, item.spec.pool.name, device.name))
            for item in self.world.slices.objects.values()
            if item.spec.pool.generation == newest[item.spec.driver, item.spec.pool.name]
            for device in item.spec.devices
        )
        allocated = sum(
            bool(rules.for_device(result.driver, result.pool, result.device))
            for claim in self.world.claims.objects.values()
            if claim.status.allocation is not None
            for result in claim.status.allocation.devices.results
        )
        return [
            f"{_count(published, 'published device')} selected.",
            f"{_count(allocated, 'allocated device')} selected.",
        ]

    def _would_leave(self, rule: DeviceTaintRule) -> str:
        pods = self._struck(rule)
        return (
            f"{_count(len(pods), 'pod')} would be evicted in {_namespaces(pods)} if the effect was NoExecute."
        )

    def _struck(self, rule: DeviceTaintRule) -> list[Pod]:
        """Pods that have to leave some day for this rule, were it NoExecute."""
        rules = TaintRules((rule,))
        found: dict[str, Pod] = {}
        for (namespace, _name), claim in self.world.claims.objects.items():
            allocation = claim.status.allocation
            if allocation is None or not any(is_struck(one, rules) for one in allocation.devices.results):
                continue
            for entry in claim.status.reserved_for:
                pod = self.world.pods.get(namespace, entry.name) if entry.resource == "pods" else None
                if pod is None or pod.metadata.uid != entry.uid or pod.metadata.deletion_timestamp:
                    continue
                if pod.spec.node_name:
                    found[entry.uid] = pod
        return list(found.values())

    def _changed(self, delta: Delta[DeviceTaintRule]) -> None:
        if delta.new is not None and (delta.old is None or delta.old.spec != delta.new.spec):
            self.queue.add(delta.key)


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


def _namespaces(pods: list[Pod]) -> str:
    spaces = {pod.metadata.namespace for pod in pods}
    return "1 namespace" if len(spaces) == 1 else f"{len(spaces)} different namespaces"
