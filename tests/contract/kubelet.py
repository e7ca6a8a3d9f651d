"""A small kubelet over HTTP, for clusters that have none: nodes stay ready, Pods start, and go when
deleted."""

import contextlib
import logging
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from portal.kube.client import Client
from portal.kube.errors import ClusterError, Conflict, NotFound
from portal.kube.resources import NODES, PODS, Resource

LEASES = Resource("coordination.k8s.io/v1", "leases", namespaced=True, kind="Lease")
LEASE_NAMESPACE = "kube-node-lease"
NOT_READY = "node.kubernetes.io/not-ready"
POLL_SECONDS = 0.2
BEAT_SECONDS = 5.0
log = logging.getLogger(__name__)


class FakeKubelet:
    """Serves the nodes that it is given, in a thread of its own."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._ready: dict[str, bool] = {}
        self._beaten: dict[str, float] = {}
        self._ended = threading.Event()
        self._at_work = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="fake kubelet", daemon=True)
        self.errors: list[ClusterError] = []

    def start(self) -> "FakeKubelet":
        self._thread.start()
        return self

    def stop(self) -> None:
        """End the thread; leases are left for whoever made the nodes."""
        self._ended.set()
        self._thread.join(30)

    def adopt(self, name: str, *, ready: bool = True) -> None:
        """Register at a node: say what it can hold and whether it is ready, and keep saying so."""
        resources = {"cpu": "64", "memory": "256Gi", "pods": "110", "ephemeral-storage": "100Gi"}
        self._client.patch(
            NODES, name, {"status": {"capacity": resources, "allocatable": resources}}, subresource="status"
        )
        with self._at_work:
            self._beat(name, ready=ready)
            self._ready[name] = ready
            self._beaten[name] = time.monotonic()

    def forget(self, name: str) -> None:
        """Serve a node no longer; once this returns, nothing is written for it any more."""
        with self._at_work:
            self._ready.pop(name, None)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """For a few seconds (not so many that leases run out) nothing starts and no deletion is completed."""
        with self._at_work:  # once it is ours, nothing is under way any more
            yield

    def finish(self, namespace: str, name: str, phase: str = "Succeeded") -> None:
        """The Pod's containers end."""
        for _ in range(10):
            with contextlib.suppress(Conflict):  # somebody else wrote to the Pod in between: look again
                self._set_phase(self._client.get(PODS, name, namespace=namespace), phase)
                return
        raise AssertionError(f"the status of Pod {name} cannot be written")

    def _run(self) -> None:
        while not self._ended.wait(POLL_SECONDS):
            for name in list(self._ready):
                if self._at_work.acquire(blocking=False):
                    try:
                        self._serve(name)
                    finally:
                        self._at_work.release()

    def _serve(self, name: str) -> None:
        if name not in self._ready:
            return
        ready = self._ready[name]
        try:
            if time.monotonic() - self._beaten.get(name, 0.0) > BEAT_SECONDS:
                self._beat(name, ready=ready)
                self._beaten[name] = time.monotonic()
            if ready:
                self._attend(name)
        except (NotFound, Conflict):
            pass  # gone or changed meanwhile: seen again in a moment
        except ClusterError as error:
            log.warning("fake kubelet of %s: %s", name, error.message)
            self.errors.append(error)

    def _attend(self, node: str) -> None:
        """Start the node's new Pods, and complete the deletion of those that are to go."""
        for pod in self._client.list_all(PODS, field_selector=f"spec.nodeName={node}"):
            metadata = pod["metadata"]
            if metadata.get("deletionTimestamp"):
                self._client.delete(
                    PODS,
                    metadata["name"],
                    namespace=metadata["namespace"],
                    uid=metadata["uid"],
                    grace_period_seconds=0,
                )
            elif pod.get("status", {}).get("phase", "Pending") == "Pending":
                self._set_phase(pod, "Running")
            elif _is_overdue(pod):
                self._set_phase(pod, "Failed")

    def _set_phase(self, pod: dict[str, Any], phase: str) -> None:
        metadata, now = pod["metadata"], _now()
        status = pod.setdefault("status", {})
        kept = [
            item for item in status.get("conditions", ()) if item["type"] not in ("Ready", "ContainersReady")
        ]
        is_running = "True" if phase == "Running" else "False"
        ready = [
            {"type": kind, "status": is_running, "lastTransitionTime": now}
            for kind in ("Ready", "ContainersReady")
        ]
        changed = {"phase": phase, "startTime": status.get("startTime") or now, "conditions": [*kept, *ready]}
        # The resourceVersion makes a change in between a Conflict, instead of something we undo.
        body = {"metadata": {"resourceVersion": metadata["resourceVersion"]}, "status": changed}
        self._client.patch(
            PODS, metadata["name"], body, namespace=metadata["namespace"], subresource="status"
        )

    def _beat(self, name: str, *, ready: bool) -> None:
        self._renew_lease(name)
        node = self._client.get(NODES, name)
        now = _now()
        known: list[dict[str, Any]] = node.get("status", {}).get("conditions", [])
        conditions = [item for item in known if item["type"] != "Ready"]
        before = next((item for item in known if item["type"] == "Ready"), {})
        wanted = "True" if ready else "False"
        condition = {
            "type": "Ready",
            "status": wanted,
            "reason": "KubeletReady" if ready else "KubeletNotReady",
            "message": "kubelet is posting ready status" if ready else "container runtime is down",
            "lastHeartbeatTime": now,
            "lastTransitionTime": before.get("lastTransitionTime", now)
            if before.get("status") == wanted
            else now,
        }
        self._client.patch(
            NODES, name, {"status": {"conditions": [*conditions, condition]}}, subresource="status"
        )
        if ready:
            self._clear_taint(name)

    def _clear_taint(self, name: str) -> None:
        """Take off what admission puts on a new node; the node controller would, but not every cluster has
        it on."""
        node = self._client.get(NODES, name)
        taints = node["spec"].get("taints") or []
        kept = [taint for taint in taints if taint["key"] != NOT_READY]
        if len(kept) < len(taints):
            version = node["metadata"]["resourceVersion"]
            body = {"metadata": {"resourceVersion": version}, "spec": {"taints": kept or None}}
            with contextlib.suppress(Conflict):
                self._client.patch(NODES, name, body)

    def _renew_lease(self, name: str) -> None:
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": 40,
            "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        try:
            self._client.patch(LEASES, name, {"spec": spec}, namespace=LEASE_NAMESPACE)
        except NotFound:
            metadata = {"name": name, "namespace": LEASE_NAMESPACE}
            lease = {"apiVersion": LEASES.api_version, "kind": "Lease", "metadata": metadata, "spec": spec}
            self._client.create(LEASES, lease, namespace=LEASE_NAMESPACE)


def _is_overdue(pod: dict[str, Any]) -> bool:
    """Whether a Pod has run for longer than it may."""
    seconds, started = pod["spec"].get("activeDeadlineSeconds"), pod["status"].get("startTime")
    if pod["status"].get("phase") != "Running" or not seconds or not started:
        return False
    return bool((datetime.now(UTC) - datetime.fromisoformat(started)).total_seconds() > seconds)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
