"""Kubelets for all nodes: leases are renewed, Pods start, run, finish, and go when they are deleted.

Nothing really runs. How long a Pod "runs" follows from an annotation, from ``sleep N`` as its command or from
``activeDeadlineSeconds``; without any of them it runs until it is deleted.
"""

import json
from datetime import datetime, timedelta
from typing import Any

from portal.demo.fleet.build import (
    KUBELET_ANNOTATION,
    PREPARE_FAILS_ANNOTATION,
    RUN_SECONDS_ANNOTATION,
)
from portal.demo.records import Key
from portal.demo.store import Object
from portal.dra.model import Node, Pod

from .claims import claim_names
from .drivers import DeviceReports
from .fit import is_ready
from .loop import Controller
from .view import Delta
from .world import World, is_finished, set_condition

MANAGER = "kubelet"
LEASE_NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
RENEW_SECONDS = 10.0
START_SECONDS = 0.5
STOP_SECONDS = 0.5
"""How long containers take to start and to stop: enough to be seen, too little to be waited for."""


class PodRunner(Controller[Key]):
    """Moves Pods that have a node through their life."""

    name = "kubelet"

    def __init__(self, world: World, reports: DeviceReports) -> None:
        super().__init__()
        self.world = world
        self.reports = reports
        world.pods.subscribe(self._pod_changed)
        world.nodes.subscribe(self._node_changed)
        world.claims.subscribe(self._claim_changed)

    def sync(self, key: Key) -> float | None:
        """Take the step that is due for one Pod."""
        world = self.world
        world.refresh()
        pod = world.pods.objects.get(key)
        if pod is None or not self._is_ours(pod):
            return None
        raw = world.store.get("pods", key[1], namespace=key[0])
        if pod.metadata.deletion_timestamp:
            return self._stop(key, pod, raw)
        if is_finished(pod):
            return None
        if pod.status.phase != "Running":
            return self._start(pod, raw)
        return self._continue(raw)

    def _start(self, pod: Pod, raw: Object) -> float | None:
        scheduled = _condition_time(raw, "PodScheduled") or self.world.now
        wait = (scheduled + timedelta(seconds=START_SECONDS) - self.world.now).total_seconds()
        if wait > 0:
            return wait
        if problem := self._unprepared(pod):
            self.world.event(
                raw,
                kind="Pod",
                reason="FailedPrepareDynamicResources",
                message=f"Failed to prepare dynamic resources: {problem}",
                component=MANAGER,
                warning=True,
            )
            return 2.0
        now, node = self.world.stamp(), self.world.nodes.get("", pod.spec.node_name)
        status = raw.setdefault("status", {})
        status["phase"] = "Running"
        status["startTime"] = status.get("startTime") or now
        status["podIP"] = _address("10.42", pod.metadata.uid)
        status["podIPs"] = [{"ip": status["podIP"]}]
        status["hostIP"] = _address("10.20", node.metadata.uid if node else pod.spec.node_name)
        status["containerStatuses"] = [
            _container_status(container, {"running": {"startedAt": now}}, ready=True)
            for container in raw["spec"]["containers"]
        ]
        _set_ready(status, ready=True, now=now)
        self.reports.add_health(pod, raw)
        self.world.store.update_status("pods", raw, manager=MANAGER)
        self.reports.report_networks(pod)
        for container in raw["spec"]["containers"]:
            self.world.event(
                raw,
                kind="Pod",
                reason="Started",
                message=f"Started container {container['name']}",
                component=MANAGER,
            )
        return self._continue(raw)

    def _unprepared(self, pod: Pod) -> str:
        """Why the devices of a Pod cannot be handed to it; empty if they can."""
        node = self.world.nodes.get("", pod.spec.node_name)
        broken = node.metadata.annotations.get(PREPARE_FAILS_ANNOTATION, "") if node is not None else ""
        for claim_name in claim_names(pod).values():
            claim = None if claim_name is None else self.world.claims.get(pod.metadata.namespace, claim_name)
            if claim is None:
                return f'resourceclaims.resource.k8s.io "{claim_name}" not found'
            if claim.status.allocation is None:
                return f"ResourceClaim {claim_name} not allocated"
            if all(entry.uid != pod.metadata.uid for entry in claim.status.reserved_for):
                who = f"pod {pod.metadata.name} ({pod.metadata.uid})"
                return f"{who} is not allowed to use ResourceClaim {claim_name}"
            if any(result.driver == broken for result in claim.status.allocation.devices.results):
                return (
                    f"NodePrepareResources failed for ResourceClaim {claim_name}: driver {broken}: "
                    "failed to initialise: the kernel module and the library differ in version"
                )
        return ""

    def _continue(self, raw: Object) -> float | None:
        """End a running Pod when its time has come; else say when that will be."""
        started = _time(raw["status"].get("startTime")) or self.world.now
        end, phase = _end_of(raw)
        if end is None:
            return None
        wait = (started + timedelta(seconds=end) - self.world.now).total_seconds()
        if wait > 0:
            return wait
        self._finish(raw, phase)
        return None

    def _finish(self, raw: Object, phase: str) -> None:
        now, status = self.world.stamp(), raw["status"]
        status["phase"] = phase
        if phase == "Failed":
            status["reason"] = "DeadlineExceeded"
            status["message"] = "Pod was active on the node longer than the specified deadline"
        reason, code = ("Completed", 0) if phase == "Succeeded" else ("Error", 137)
        ended = {
            "terminated": {
                "exitCode": code,
                "reason": reason,
                "startedAt": status.get("startTime"),
                "finishedAt": now,
            }
        }
        status["containerStatuses"] = [
            _container_status(container, ended, ready=False) for container in raw["spec"]["containers"]
        ]
        _set_ready(status, ready=False, now=now)
        self.world.store.update_status("pods", raw, manager=MANAGER)

    def _stop(self, key: Key, pod: Pod, raw: Object) -> float | None:
        """Complete a graceful deletion: containers end, then the Pod goes for good."""
        asked_at = _time(pod.metadata.deletion_timestamp) or self.world.now
        grace = raw["metadata"].get("deletionGracePeriodSeconds") or 0
        begun = asked_at - timedelta(seconds=grace)
        wait = (begun + timedelta(seconds=STOP_SECONDS) - self.world.now).total_seconds()
        if wait > 0 and not is_finished(pod):
            return wait
        if not is_finished(pod) and pod.status.phase == "Running":
            self._finish(raw, "Succeeded")
        self.world.delete("pods", key, uid=pod.metadata.uid, grace_period_seconds=0)
        return None

    def _is_ours(self, pod: Pod) -> bool:
        node = self.world.nodes.get("", pod.spec.node_name) if pod.spec.node_name else None
        return node is not None and runs_kubelet(node)

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        if delta.new is not None and not _settled(delta.new) and self._is_ours(delta.new):
            self.queue.add(delta.key)

    def _node_changed(self, delta: Delta[Node]) -> None:
        if (
            delta.new is not None
            and runs_kubelet(delta.new)
            and (delta.old is None or not runs_kubelet(delta.old))
        ):
            for key in self.world.pods_on[delta.new.metadata.name]:
                self.queue.add(key)

    def _claim_changed(self, delta: Delta[Any]) -> None:
        """A Pod that waits for its devices is looked at again when its claim changes."""
        if delta.new is None:
            return
        for entry in delta.new.status.reserved_for:
            pod = self.world.pods.get(delta.key[0], entry.name)
            if pod is not None and pod.spec.node_name and pod.status.phase == "Pending":
                self.queue.add((delta.key[0], entry.name))


class NodeHeart(Controller[str]):
    """Renews the lease of each node and says that it is ready."""

    name = "node-heartbeat"

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        world.nodes.subscribe(self._node_changed)

    def sync(self, key: str) -> float | None:
        """One heartbeat of one node."""
        store, world = self.world.store, self.world
        world.nodes.refresh()
        node = world.nodes.get("", key)
        if node is None or not runs_kubelet(node):
            return None
        renewed = world.now.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        lease = store.find("leases", key, namespace=LEASE_NAMESPACE)
        if lease is None:
            spec = {"holderIdentity": key, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": renewed}
            owner = {"apiVersion": "v1", "kind": "Node", "name": key, "uid": node.metadata.uid}
            metadata = {"name": key, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
            fresh = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": metadata,
                "spec": spec,
            }
            store.create("leases", fresh, namespace=LEASE_NAMESPACE, manager=MANAGER)
        else:
            lease["spec"]["renewTime"] = renewed
            store.update("leases", lease, namespace=LEASE_NAMESPACE, manager=MANAGER)
        if not is_ready(node):
            self._say_ready(key)
        return RENEW_SECONDS

    def _say_ready(self, name: str) -> None:
        raw = self.world.store.get("nodes", name)
        now = self.world.stamp()
        condition = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletReady",
            "message": "kubelet is posting ready status",
            "lastHeartbeatTime": now,
        }
        status = raw.setdefault("status", {})
        status["conditions"] = set_condition(status.get("conditions", ()), condition, now=now)
        self.world.store.update_status("nodes", raw, manager=MANAGER)

    def _node_changed(self, delta: Delta[Node]) -> None:
        if delta.new is not None and runs_kubelet(delta.new):
            was_well = delta.old is not None and runs_kubelet(delta.old) and is_ready(delta.new)
            if not was_well:
                self.queue.add(delta.key[1])


def runs_kubelet(node: Node) -> bool:
    """Whether the node's kubelet is alive in this cluster."""
    return (
        node.metadata.annotations.get(KUBELET_ANNOTATION) != "stopped"
        and not node.metadata.deletion_timestamp
    )


def _settled(pod: Pod) -> bool:
    return is_finished(pod) and not pod.metadata.deletion_timestamp


def _end_of(raw: Object) -> tuple[float | None, str]:
    """After how many seconds of running the Pod ends, and in which phase."""
    spec = raw["spec"]
    deadline = spec.get("activeDeadlineSeconds")
    own = _run_seconds(raw) if spec.get("restartPolicy", "Always") != "Always" else None
    if own is not None and (deadline is None or own <= deadline):
        return own, "Succeeded"
    return (None, "") if deadline is None else (float(deadline), "Failed")


def _run_seconds(raw: Object) -> float | None:
    annotated = (raw["metadata"].get("annotations") or {}).get(RUN_SECONDS_ANNOTATION)
    container = raw["spec"]["containers"][0]
    words = [*(container.get("command") or ()), *(container.get("args") or ())]
    if annotated is None and len(words) == 2 and words[0].rpartition("/")[2] == "sleep":
        annotated = words[1]
    try:
        seconds = json.loads(annotated) if annotated is not None else None
    except ValueError:
        return None  # ``sleep infinity``, and annotations that are no numbers
    return float(seconds) if isinstance(seconds, int | float) and seconds >= 0 else None


def _container_status(container: Object, state: Object, *, ready: bool) -> Object:
    image = container.get("image", "")
    return {
        "name": container["name"],
        "image": image,
        "imageID": "",
        "ready": ready,
        "started": ready,
        "restartCount": 0,
        "state": state,
        "lastState": {},
    }


def _set_ready(status: Object, *, ready: bool, now: str) -> None:
    conditions = status.get("conditions", [])
    for kind in ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready"):
        keeps = kind == "Initialized"
        condition: Object = {
            "type": kind,
            "status": "True" if ready or keeps else "False",
            "lastProbeTime": None,
        }
        if not ready and not keeps:
            condition["reason"] = "PodCompleted"
        conditions = set_condition(conditions, condition, now=now)
    status["conditions"] = conditions


def _condition_time(raw: Object, kind: str) -> datetime | None:
    for condition in (raw.get("status") or {}).get("conditions", ()):
        if condition.get("type") == kind:
            return _time(condition.get("lastTransitionTime"))
    return None


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _address(prefix: str, uid: str) -> str:
    digits = uid.replace("-", "")[:4]
    try:
        return f"{prefix}.{int(digits[:2], 16)}.{int(digits[2:], 16) or 1}"
    except ValueError:
        return f"{prefix}.0.1"


__all__ = ["NodeHeart", "PodRunner", "runs_kubelet"]
