"""A small Kueue: Jobs with a queue wait as Workloads until their ClusterQueue has quota for them.

Each sync looks at all queues, since one workload's end is another's beginning; there are never many. Names,
conditions and messages are Kueue's; what it leaves out is said in :mod:`.flavors`.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

from portal.demo.admission import QUEUE_LABEL
from portal.demo.store import Object

from .loop import Controller
from .queueing import FLAVORS, MANAGER, WORKLOADS, Round, is_true
from .view import Delta
from .world import World, owner_reference

_ALL = "all queues"


class Queues(Controller[str]):
    """Admits, starts and stops what is queued, and keeps the status of queues and workloads true.

    ``mappings`` say under which name the devices of a DeviceClass are counted (``deviceClassMappings`` of
    Kueue's configuration); a class that is not among them counts as its extended resource, if it has one.
    """

    name = "kueue"

    def __init__(self, world: World, mappings: Mapping[str, str]) -> None:
        super().__init__()
        self.world = world
        self._mappings = mappings
        for view in (
            world.cluster_queues, world.local_queues, world.flavors, world.workloads, world.jobs,
        ):  # fmt: skip
            view.subscribe(self._changed)
        world.classes.subscribe(self._countable_changed)
        world.templates.subscribe(self._countable_changed)

    def sync(self, key: str) -> float | None:
        """Bring everything in line."""
        del key
        self.world.refresh()
        round_ = Round(self.world, self._resource_of)
        for job in self._queued_jobs():
            self._ensure_workload(job)
        round_.read()
        round_.evict()
        round_.admit()
        for job in self._queued_jobs():
            self._follow(job, round_)
        round_.tell()
        return None

    def _queued_jobs(self) -> list[Object]:
        store = self.world.store
        keys = [key for key, job in self.world.jobs.objects.items() if QUEUE_LABEL in job.metadata.labels]
        found = [store.find("jobs", name, namespace=namespace) for namespace, name in sorted(keys)]
        return [job for job in found if job is not None and not job["metadata"].get("deletionTimestamp")]

    def _ensure_workload(self, job: Object) -> None:
        metadata = job["metadata"]
        if self.world.store.exists(WORKLOADS, _workload_name(job), namespace=metadata["namespace"]):
            return
        spec = job["spec"]
        completions = spec.get("completions", spec.get("parallelism", 1))
        workload = {
            "metadata": {
                "name": _workload_name(job),
                "namespace": metadata["namespace"],
                "labels": {"kueue.x-k8s.io/job-uid": metadata["uid"]},
                "ownerReferences": [owner_reference(job)],
            },
            "spec": {
                "queueName": metadata["labels"][QUEUE_LABEL],
                "podSets": [
                    {
                        "name": "main",
                        "count": min(spec.get("parallelism", 1), completions),
                        "template": {"spec": spec["template"]["spec"]},
                    }
                ],
                "priority": 0,
            },
        }
        made = self.world.store.create(WORKLOADS, workload, manager=MANAGER)
        text = f"Created Workload: {metadata['namespace']}/{made['metadata']['name']}"
        self.world.event(job, kind="Job", reason="CreatedWorkload", message=text, component="batch/job-kueue")

    def _follow(self, job: Object, round_: Round) -> None:
        """Start a Job whose workload is admitted, stop one whose is not, and note its end."""
        workload = round_.workloads.get((job["metadata"]["namespace"], _workload_name(job)))
        if workload is None:
            return
        ended = is_true(job, "Complete") or is_true(job, "Failed")
        if ended:
            round_.finish(workload, succeeded=is_true(job, "Complete"))
        elif is_true(workload, "Admitted") and job["spec"].get("suspend"):
            self._start(job, workload)
        elif not is_true(workload, "Admitted") and not job["spec"].get("suspend"):
            job["spec"]["suspend"] = True
            self.world.store.update("jobs", job, manager=MANAGER)

    def _start(self, job: Object, workload: Object) -> None:
        """Let a Job go, to the nodes of the flavors that it was given."""
        admission = workload["status"].get("admission", {})
        pod_set = workload["spec"]["podSets"][0]
        wanted, given = pod_set["template"]["spec"], job["spec"]["template"]["spec"]
        selector, tolerations = dict(wanted.get("nodeSelector", {})), list(wanted.get("tolerations", ()))
        assigned = {
            name
            for assignment in admission.get("podSetAssignments", ())
            for name in assignment.get("flavors", {}).values()
        }
        for name in sorted(assigned):
            flavor = (self.world.store.find(FLAVORS, name) or {}).get("spec", {})
            selector |= flavor.get("nodeLabels", {})
            tolerations += [item for item in flavor.get("tolerations", ()) if item not in tolerations]
        given.update({"nodeSelector": selector, "tolerations": tolerations})
        job["spec"]["suspend"] = False
        self.world.store.update("jobs", job, manager=MANAGER)
        text = f"Admitted by clusterQueue {admission.get('clusterQueue', '')}"
        self.world.event(job, kind="Job", reason="Started", message=text, component="batch/job-kueue")

    def _resource_of(self, device_class: str) -> str | None:
        if device_class in self._mappings:
            return self._mappings[device_class]
        known = self.world.classes.get("", device_class)
        return None if known is None else known.spec.extended_resource_name or None

    def _changed(self, _delta: Delta[Any]) -> None:
        self.queue.add(_ALL)

    def _countable_changed(self, delta: Delta[Any]) -> None:
        """What could not be counted before may be now."""
        if self.world.workloads.objects and (delta.old is None or delta.new is None):
            self.queue.add(_ALL)


def _workload_name(job: Object) -> str:
    metadata = job["metadata"]
    digest = hashlib.sha256(metadata["uid"].encode()).hexdigest()[:5]
    return f"job-{metadata['name'][:200]}-{digest}"
