"""A cluster of a few lines for drills: a scheduler, the claim controller, and a kubelet that can be
missing."""

import itertools
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import datetime, timedelta
from typing import Any

from claims.drill import running, starting
from claims.models import Drill, PoolPlan
from portal.accounts.models import User
from portal.kube import errors
from portal.kube.resources import Resource
from tests.claims.conftest import NOW

Object = dict[str, Any]
DRIVER = "gpu.nvidia.com"


class TinyCluster:
    """Objects by (plural, name); `turn` is a moment in which controllers do their work."""

    def __init__(self, *, devices: int = 2, kubelet: bool = True) -> None:
        self.objects: dict[tuple[str, str], Object] = {}
        self.devices = [f"gpu-{number}" for number in range(devices)]
        self.nodes = {"node-a": True, "node-b": True}
        self.kubelet = kubelet
        self.down = False
        self.refuses = ""
        self.restarts = 0
        self.now = NOW
        self._uids = itertools.count(1)
        self.created: list[str] = []

    # --- what the desk calls --------------------------------------------------------------------------

    def get(self, resource: Resource, name: str, **_namespace: str) -> Object:
        self._answer()
        if resource.plural == "nodes":
            if name not in self.nodes:
                raise errors.NotFound("not found", status=404)
            return {
                "metadata": {"name": name},
                "spec": {} if self.nodes[name] else {"unschedulable": True},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }
        if (resource.plural, name) not in self.objects:
            raise errors.NotFound("not found", status=404)
        return self.objects[resource.plural, name]

    def list_all(self, resource: Resource, **selectors: str) -> list[Object]:
        self._answer()
        if resource.plural == "resourceslices":
            return self._slices()
        if resource.plural == "events":
            name = selectors["field_selector"].partition("=")[2]
            return [
                {
                    "metadata": {},
                    "reason": "Scheduled",
                    "message": f"{name} has a node",
                    "lastTimestamp": self._time(),
                }
            ]
        name, _equals, value = selectors.get("label_selector", "").partition("=")
        return [
            found
            for (plural, _name), found in self.objects.items()
            if plural == resource.plural and (not name or found["metadata"]["labels"].get(name) == value)
        ]

    def create(
        self, resource: Resource, body: Mapping[str, Any], *, dry_run: bool = False, **_namespace: str
    ) -> Object:
        self._answer()
        group = "v1" if body["kind"] == "Pod" else "resource.k8s.io/v1"
        assert body["apiVersion"] == resource.api_version == group
        if self.refuses:
            raise errors.Forbidden(self.refuses, status=403)
        metadata = {**body["metadata"], "uid": f"uid-{next(self._uids)}", "creationTimestamp": self._time()}
        made = {**body, "metadata": metadata, "status": {}}
        if dry_run:
            return made
        key = resource.plural, metadata["name"]
        if key in self.objects:
            raise errors.AlreadyExists("already exists", status=409)
        self.created.append(metadata["name"])
        self.objects[key] = made
        return made

    def replace(self, *_args: Any, **_more: Any) -> Object:
        raise AssertionError("drills replace nothing")

    def delete(
        self, resource: Resource, name: str, *, grace_period_seconds: int | None = None, **_more: Any
    ) -> Object:
        self._answer()
        found = self.objects.get((resource.plural, name))
        if found is None:
            raise errors.NotFound("not found", status=404)
        found["metadata"].setdefault("deletionTimestamp", self._time())
        bound = resource.plural == "pods" and found["spec"].get("nodeName")
        if (not bound and resource.plural != "resourceclaims") or grace_period_seconds == 0:
            del self.objects[resource.plural, name]
        return found

    # --- what happens by itself -----------------------------------------------------------------------

    def turn(self) -> None:
        pods = [found for (plural, _), found in self.objects.items() if plural == "pods"]
        for pod in pods:
            self._place(pod)
        if self.kubelet:
            for pod in pods:
                self._run(pod)
        self._control()

    def drain(self, node: str) -> None:
        self.nodes[node] = False
        for (plural, name), found in list(self.objects.items()):
            if plural == "pods" and found["spec"].get("nodeName") == node:
                del self.objects[plural, name]

    def claim(self, suffix: str) -> Object:
        return next(
            f for (p, n), f in self.objects.items() if p == "resourceclaims" and n.endswith(f"-{suffix}")
        )

    def _place(self, pod: Object) -> None:
        if pod["spec"].get("nodeName") or pod["metadata"].get("deletionTimestamp"):
            return
        reference = pod["spec"]["resourceClaims"][0]
        name = reference.get("resourceClaimName") or f"{pod['metadata']['name']}-made"
        claim = self.objects.get(("resourceclaims", name))
        if claim is None:
            owner = {"uid": pod["metadata"]["uid"], "kind": "Pod", "name": pod["metadata"]["name"]}
            metadata = {
                "name": name, "namespace": pod["metadata"]["namespace"], "uid": f"uid-{next(self._uids)}",
                "labels": dict(pod["metadata"]["labels"]), "ownerReferences": [owner],
                "creationTimestamp": self._time(),
            }  # fmt: skip
            claim = {"kind": "ResourceClaim", "metadata": metadata, "spec": {}, "status": {}}
            self.objects["resourceclaims", name] = claim
            return
        node = next((name for name, takes in self.nodes.items() if takes), "")
        held = {r["device"] for c in self._claims() for r in _results(c)}
        free = [device for device in self.devices if device not in held]
        if not _results(claim):
            if not free or not node:
                told = {"type": "PodScheduled", "status": "False", "message": "0/2 nodes are available"}
                pod["status"]["conditions"] = [told]
                return
            result = {"driver": DRIVER, "pool": node, "device": free[0], "request": "accelerator"}
            claim["status"]["allocation"] = {"devices": {"results": [result]}}
        entry = {"resource": "pods", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        claim["status"].setdefault("reservedFor", []).append(entry)
        pod["spec"]["nodeName"] = _results(claim)[0]["pool"]
        told = {"type": "PodScheduled", "status": "True", "lastTransitionTime": self._time()}
        pod["status"] = {"phase": "Pending", "conditions": [told]}

    def _run(self, pod: Object) -> None:
        if pod["metadata"].get("deletionTimestamp"):
            self.objects.pop(("pods", pod["metadata"]["name"]), None)
        elif pod["status"].get("phase") == "Running" and pod["spec"].get("activeDeadlineSeconds"):
            pod["status"] |= {"phase": "Failed", "reason": "DeadlineExceeded"}
        elif pod["status"].get("phase") == "Pending":
            pod["status"] |= {"phase": "Running", "startTime": self._time()}

    def _control(self) -> None:
        live = {
            f["metadata"]["uid"] for (plural, _), f in self.objects.items()
            if plural == "pods" and f["status"].get("phase") not in ("Succeeded", "Failed")
        }  # fmt: skip
        pods = {f["metadata"]["uid"] for (plural, _), f in self.objects.items() if plural == "pods"}
        for claim in self._claims():
            status = claim["status"]
            status["reservedFor"] = [e for e in status.get("reservedFor", []) if e["uid"] in live]
            if not status["reservedFor"]:
                status.pop("allocation", None)
            owners = list(claim["metadata"].get("ownerReferences") or ())
            orphaned = bool(owners) and owners[0]["uid"] not in pods
            if (claim["metadata"].get("deletionTimestamp") or orphaned) and "allocation" not in status:
                del self.objects["resourceclaims", claim["metadata"]["name"]]

    def _claims(self) -> list[Object]:
        return [found for (plural, _), found in list(self.objects.items()) if plural == "resourceclaims"]

    def _slices(self) -> list[Object]:
        return [
            {
                "metadata": {"name": f"slice-{node}", "uid": f"slice-{node}", "resourceVersion":
                str(self.restarts)}, "spec": {
                    "driver": DRIVER, "pool": {"name": node},
                    "devices": [{"name": device} for device in self.devices],
                },
            }
            for node in self.nodes
        ]  # fmt: skip

    def _answer(self) -> None:
        if self.down:
            raise errors.Unreachable("no answer")

    def _time(self) -> str:
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")


def _results(claim: Object) -> list[Any]:
    return list(((claim["status"].get("allocation") or {}).get("devices") or {}).get("results") or ())


def start(plan: PoolPlan, user: User, cluster: TinyCluster, *, free: int | None = 5, **values: Any) -> Drill:
    """A drill as an administrator starts it."""
    said = {"namespace": "drills", "step_seconds": "20"} | values
    return starting.start(
        plan=plan, terms=starting.read_drill(said), image="example.org/pause:1", user=user, now=NOW,
        connect=lambda _cluster: nullcontext(cluster), free_of=lambda _drill: free,
    )  # fmt: skip


def go_on(
    drill: Drill, cluster: TinyCluster, *, turns: int = 400, until: Any = None, free: int | None = 5
) -> Drill:
    """Time goes by, two seconds a turn, until something is so; the drill is refreshed."""
    for _turn in range(turns):
        pursue(drill, cluster, free=free)
        if until(drill) if until else drill.state == Drill.State.FINISHED:
            return drill
        cluster.turn()
    raise AssertionError(
        f"not within {turns} turns: {[(s.code, s.phase, s.state) for s in drill.steps.all()]}"
    )


def pursue(drill: Drill, cluster: TinyCluster, *, free: int | None = 5) -> None:
    """A worker comes by, two seconds later."""
    cluster.now += timedelta(seconds=2)
    running.pursue(
        drill_id=drill.pk, now=later(cluster), connect=lambda _cluster: nullcontext(cluster),
        free_of=lambda _drill: free,
    )  # fmt: skip
    drill.refresh_from_db()


def later(cluster: TinyCluster) -> datetime:
    return cluster.now
