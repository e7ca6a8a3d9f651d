"""What drivers report once a Pod runs: the health of devices (KEP 4680), and the state of network devices.

The health is in the Pod, container by container (``allocatedResourcesStatus``); a driver that has tainted a
device calls it unhealthy. A DeviceTaintRule is a person's word and changes nothing about health. What a
network driver has set up is in the claim (``status.devices``).
"""

from collections.abc import Iterable, Mapping

from portal.demo.records import Key
from portal.demo.store import Object
from portal.dra.model import Device, DeviceRequestAllocationResult, Pod, ResourceClaim, ResourceSlice

from .claims import claim_names
from .loop import Controller
from .view import Delta
from .world import World, set_condition

NETWORK_DRIVER = "dra.net"
MANAGER = "kubelet"
_ALARMING = ("NoSchedule", "NoExecute")
DeviceId = tuple[str, str, str]


class DeviceReports(Controller[Key]):
    """Keeps the health that running Pods report true, whenever a driver taints a device or takes it back."""

    name = "device-reports"

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self._published: dict[Key, dict[DeviceId, str]] = {}
        world.slices.subscribe(self._slice_changed)

    def sync(self, key: Key) -> float | None:
        """Bring the health that one Pod reports up to date."""
        world = self.world
        world.refresh()
        pod = world.pods.objects.get(key)
        if pod is None or pod.status.phase != "Running" or pod.metadata.deletion_timestamp:
            return None
        raw = world.store.get("pods", key[1], namespace=key[0])
        self.add_health(pod, raw)
        world.store.update_status("pods", raw, manager=MANAGER)
        return None

    def add_health(self, pod: Pod, raw: Object) -> None:
        """Write the health of a Pod's devices into its container statuses (from Kubernetes 1.36 on)."""
        if not self.world.store.features.at_least(1, 36):
            return
        held = self._held_by(pod)
        if not held:
            return
        statuses = {status["name"]: status for status in raw["status"].get("containerStatuses", ())}
        for container in raw["spec"]["containers"]:
            entries = [
                {"name": _resource_name(entry), "resources": self._health(held[entry["name"]], entry)}
                for entry in container.get("resources", {}).get("claims", ())
                if entry["name"] in held
            ]
            if entries and container["name"] in statuses:
                statuses[container["name"]]["allocatedResourcesStatus"] = entries

    def _health(self, claim: ResourceClaim, entry: Object) -> list[Object]:
        return [
            self._health_of((result.driver, result.pool, result.device))
            for result in _results(claim)
            if entry.get("request") in (None, "", result.request.partition("/")[0])
        ]

    def _health_of(self, device: DeviceId) -> Object:
        """Devices are known by driver, pool and name as long as no CDI name tells them apart."""
        known: Object = {"resourceID": "/".join(device), "health": "Healthy"}
        for tainted in self._published.values():
            if reason := tainted.get(device):
                known |= {"health": "Unhealthy", "message": reason}
        return known

    def _held_by(self, pod: Pod) -> dict[str, ResourceClaim]:
        """The claims of a Pod that have devices, by the Pod's own names for them."""
        found = {}
        for name, claim_name in claim_names(pod).items():
            claim = self.world.claims.get(pod.metadata.namespace, claim_name) if claim_name else None
            if claim is not None and claim.status.allocation is not None:
                found[name] = claim
        return found

    def report_networks(self, pod: Pod) -> None:
        """Say in the claims of a Pod that its network devices are up, as their driver does."""
        for claim in self._held_by(pod).values():
            results = [result for result in _results(claim) if result.driver == NETWORK_DRIVER]
            if not results:
                continue
            metadata = claim.metadata
            raw = self.world.store.get("resourceclaims", metadata.name, namespace=metadata.namespace)
            if raw["status"].get("devices"):
                continue  # another Pod that shares the claim came first
            now = self.world.stamp()
            raw["status"]["devices"] = [
                _network_status(result, self._device(result), now=now) for result in results
            ]
            self.world.store.update_status("resourceclaims", raw, manager=NETWORK_DRIVER)

    def _device(self, result: DeviceRequestAllocationResult) -> Device | None:
        for item in self.world.slices.objects.values():
            if (item.spec.driver, item.spec.pool.name) == (result.driver, result.pool):
                for device in item.spec.devices:
                    if device.name == result.device:
                        return device
        return None

    def _slice_changed(self, delta: Delta[ResourceSlice]) -> None:
        before = self._published.pop(delta.key, {})
        after = _unwell(delta.new)
        if after:
            self._published[delta.key] = after
        changed = {
            device for device in before.keys() | after.keys() if before.get(device) != after.get(device)
        }
        if not changed:
            return
        for (namespace, _), claim in self.world.claims.objects.items():
            if any((item.driver, item.pool, item.device) in changed for item in _results(claim)):
                for entry in claim.status.reserved_for:
                    self.queue.add((namespace, entry.name))


def _results(claim: ResourceClaim) -> Iterable[DeviceRequestAllocationResult]:
    allocation = claim.status.allocation
    return () if allocation is None else allocation.devices.results


def _resource_name(entry: Mapping[str, str]) -> str:
    name = f"claim:{entry['name']}"
    return f"{name}/{entry['request']}" if entry.get("request") else name


def _unwell(item: ResourceSlice | None) -> dict[DeviceId, str]:
    """The devices of a slice that their driver has tainted, with the reason."""
    if item is None:
        return {}
    found = {}
    for device in item.spec.devices:
        alarms = [taint for taint in device.taints if taint.effect in _ALARMING]
        if alarms:
            reasons = (f"{taint.key}={taint.value}" if taint.value else taint.key for taint in alarms)
            found[item.spec.driver, item.spec.pool.name, device.name] = ", ".join(sorted(reasons))
    return found


def _network_status(result: DeviceRequestAllocationResult, device: Device | None, *, now: str) -> Object:
    ready = {"type": "Ready", "status": "True", "reason": "NetworkDeviceReady", "message": "interface moved"}
    texts = {
        name.rpartition("/")[2]: attribute.string_value
        for name, attribute in (device.attributes if device else {}).items()
        if attribute.string_value is not None
    }
    data: Object = {"interfaceName": texts.get("ifName", result.device)}
    if "mac" in texts:
        data["hardwareAddress"] = texts["mac"]
    if "ipv4" in texts:
        data["ips"] = [texts["ipv4"]]
    status = {
        "driver": result.driver,
        "pool": result.pool,
        "device": result.device,
        "conditions": set_condition((), ready, now=now),
        "networkData": data,
    }
    return {**status, "shareID": result.share_id} if result.share_id else status
