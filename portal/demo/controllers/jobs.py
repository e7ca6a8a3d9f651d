"""The Job controller, as far as the desk's workloads need it: parallel Pods until enough of them
succeeded."""

from typing import Any

from portal.demo.records import Key
from portal.demo.store import Object
from portal.dra.model import Pod

from .loop import Controller
from .view import Delta, Described, Index
from .world import World, controller_of, is_finished, owner_reference, set_condition

MANAGER = "kube-controller-manager"
COMPONENT = "job-controller"


class Jobs(Controller[Key]):
    """Creates the Pods of Jobs and keeps count of them."""

    name = "job"

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self._pods = Index(world.pods, _job_uids)
        world.jobs.subscribe(self._job_changed)
        world.pods.subscribe(self._pod_changed)

    def sync(self, key: Key) -> float | None:
        """Bring one Job's Pods and status in line with its spec."""
        world = self.world
        world.pods.refresh()
        job = world.store.find("jobs", key[1], namespace=key[0])
        if job is None or job["metadata"].get("deletionTimestamp"):
            return None
        status = job.setdefault("status", {})
        if any(
            item["type"] in ("Complete", "Failed") and item["status"] == "True" for item in _conditions(job)
        ):
            return self._retire(key, job)
        pods = [world.pods.objects[pod] for pod in self._pods[job["metadata"]["uid"]]]
        counts = _Counts(pods, already=status)
        spec = job["spec"]
        self._note_suspension(job, status)
        outcome = self._outcome(spec, counts)
        if outcome is None and not spec.get("suspend"):
            self._create_missing(job, counts)
        elif outcome is not None or spec.get("suspend"):
            self._remove(counts.running)
        status["active"] = len(counts.running) if outcome is None else 0
        status["succeeded"], status["failed"] = counts.succeeded, counts.failed
        status["uncountedTerminatedPods"] = {}
        if outcome is not None:
            self._conclude(status, *outcome)
        for name in ("active", "succeeded", "failed"):
            if not status[name]:
                del status[name]
        world.store.update_status("jobs", job, manager=MANAGER)
        return self._retire(key, job) if outcome is not None else None

    def _note_suspension(self, job: Object, status: Object) -> None:
        """A suspended Job has not started; one that goes on starts anew."""
        now, suspended = self.world.stamp(), bool(job["spec"].get("suspend"))
        was_suspended = any(
            item["type"] == "Suspended" and item["status"] == "True" for item in _conditions(job)
        )
        if suspended:
            status.pop("startTime", None)
        elif was_suspended:
            status["startTime"] = now
        else:
            status.setdefault("startTime", now)
        if suspended != was_suspended:
            reason, word = ("JobSuspended", "suspended") if suspended else ("JobResumed", "resumed")
            condition = {
                "type": "Suspended",
                "status": str(suspended),
                "reason": reason,
                "message": f"Job {word}",
                "lastProbeTime": now,
            }
            status["conditions"] = set_condition(status.get("conditions", ()), condition, now=now)

    @staticmethod
    def _outcome(spec: Object, counts: "_Counts") -> tuple[str, str, str] | None:
        if counts.failed > spec.get("backoffLimit", 6):
            return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        completions = spec.get("completions")
        enough = counts.succeeded >= completions if completions is not None else counts.succeeded > 0
        if enough and not (completions is None and counts.running):
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        return None

    def _create_missing(self, job: Object, counts: "_Counts") -> None:
        spec = job["spec"]
        completions = spec.get("completions")
        wanted = spec.get("parallelism", 1)
        if completions is not None:
            wanted = min(wanted, completions - counts.succeeded)
        elif counts.succeeded:
            wanted = len(counts.running)
        name, uid = job["metadata"]["name"], job["metadata"]["uid"]
        labels = {
            "batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": name,
            "controller-uid": uid,
            "job-name": name,
        }
        template = spec["template"]
        metadata = template.get("metadata") or {}
        for _ in range(max(0, wanted - len(counts.running))):
            created = self.world.store.create(
                "pods",
                {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "metadata": {
                        "generateName": f"{name}-",
                        "namespace": job["metadata"]["namespace"],
                        "labels": {**(metadata.get("labels") or {}), **labels},
                        "annotations": dict(metadata.get("annotations") or {}),
                        "ownerReferences": [owner_reference(job)],
                    },
                    "spec": template["spec"],
                },
                manager=MANAGER,
            )
            counts.running.append((created["metadata"]["namespace"], created["metadata"]["name"]))
            self.world.event(
                job,
                kind="Job",
                reason="SuccessfulCreate",
                message=f"Created pod: {created['metadata']['name']}",
                component=COMPONENT,
            )

    def _remove(self, pods: list[Key]) -> None:
        for key in pods:
            self.world.delete("pods", key)

    def _conclude(self, status: Object, kind: str, reason: str, message: str) -> None:
        now = self.world.stamp()
        condition = {
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastProbeTime": now,
        }
        status["conditions"] = set_condition(status.get("conditions", ()), condition, now=now)
        if kind == "Complete":
            status["completionTime"] = now

    def _retire(self, key: Key, job: Object) -> float | None:
        """Delete a finished Job when its time to live is over; its Pods follow as garbage."""
        keep = job["spec"].get("ttlSecondsAfterFinished")
        if keep is None:
            return None
        ended = max(
            self.world.parse(item["lastTransitionTime"])
            for item in _conditions(job)
            if item["status"] == "True"
        )
        wait = float(keep) - (self.world.now - ended).total_seconds()
        if wait > 0:
            return wait
        self.world.delete("jobs", key, uid=job["metadata"]["uid"])
        return None

    def _job_changed(self, delta: Delta[Described]) -> None:
        if delta.new is not None:
            self.queue.add(delta.key)

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        pod = delta.new or delta.old
        owner = controller_of(pod.metadata) if pod is not None else None
        if owner is not None and owner.kind == "Job":
            self.queue.add((delta.key[0], owner.name))


class _Counts:
    """How a Job's Pods stand; Pods that were removed after they ended stay counted through the Job's
    status."""

    def __init__(self, pods: list[Pod], *, already: Object) -> None:
        self.running = [
            (pod.metadata.namespace, pod.metadata.name)
            for pod in pods
            if not is_finished(pod) and not pod.metadata.deletion_timestamp
        ]
        self.succeeded = max(
            sum(pod.status.phase == "Succeeded" for pod in pods), already.get("succeeded", 0)
        )
        self.failed = max(sum(pod.status.phase == "Failed" for pod in pods), already.get("failed", 0))


def _job_uids(pod: Pod) -> list[str]:
    owner = controller_of(pod.metadata)
    return [owner.uid] if owner is not None and owner.kind == "Job" else []


def _conditions(job: Object) -> list[Any]:
    return list((job.get("status") or {}).get("conditions", ()))
