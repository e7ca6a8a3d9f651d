"""One look at all queues: who gets quota, who waits and for what, and what the queues say of themselves."""

from collections.abc import Callable, Mapping

from portal.demo.records import Key
from portal.demo.store import Object

from .flavors import Assignment, Inadmissible, Usage, assign, requests_of, times, usage_of, usage_status
from .world import World, set_condition

MANAGER = "kueue"
CLUSTER_QUEUES, LOCAL_QUEUES = "clusterqueues.kueue.x-k8s.io", "localqueues.kueue.x-k8s.io"
FLAVORS, WORKLOADS = "resourceflavors.kueue.x-k8s.io", "workloads.kueue.x-k8s.io"


class Round:
    """One look at all queues and workloads."""

    def __init__(self, world: World, resource_of: Callable[[str], str | None]) -> None:
        self._world = world
        self._store = world.store
        self._resource_of = resource_of
        self.workloads: dict[Key, Object] = {}

    def read(self) -> None:
        """Take in what there is, before anything is decided."""
        listed = self._store.list
        self.workloads = {_key(item): item for item in listed(WORKLOADS)}
        self._queues = {item["metadata"]["name"]: item for item in listed(CLUSTER_QUEUES)}
        self._locals = {_key(item): item for item in listed(LOCAL_QUEUES)}
        self._flavors = {item["metadata"]["name"]: item for item in listed(FLAVORS)}

    def evict(self) -> None:
        """Take back the quota of what may not run (any more)."""
        for workload in self.workloads.values():
            reason = self._reason_to_leave(workload) if _holds(workload) else None
            if reason is None:
                continue
            status, (why, text) = workload["status"], reason
            status.pop("admission", None)
            self._condition(workload, "Evicted", why, text)
            self._condition(workload, "QuotaReserved", "Pending", text, value="False")
            no_reservation = "The workload has no reservation"
            self._condition(workload, "Admitted", "NoReservation", no_reservation, value="False")
            self._save(workload)
            self._event(workload, f"EvictedDueTo{why}", text)

    def _reason_to_leave(self, workload: Object) -> tuple[str, str] | None:
        if not workload["spec"].get("active", True):
            return "Deactivated", "The workload is deactivated"
        queue = self._queues.get(workload["status"]["admission"].get("clusterQueue", ""))
        if queue is not None and queue["spec"].get("stopPolicy") == "HoldAndDrain":
            return "ClusterQueueStopped", "The ClusterQueue is stopped"
        local = self._local_of(workload)
        if local is not None and local["spec"].get("stopPolicy") == "HoldAndDrain":
            return "LocalQueueStopped", "The LocalQueue is stopped"
        return None

    def admit(self) -> None:
        """Reserve quota for whoever is next, by priority and age; the rest is told what it waits for."""
        waiting = [
            item for item in self.workloads.values() if not _holds(item) and not is_true(item, "Finished")
        ]
        blocked: set[str] = set()
        for workload in sorted(waiting, key=_rank):
            queue, obstacle = self._queue_for(workload)
            if queue is None:
                self._postpone(workload, "Inadmissible", obstacle)
                continue
            name = queue["metadata"]["name"]
            if name in blocked:
                continue
            outcome = self._try(workload, queue)
            if outcome and queue["spec"].get("queueingStrategy") == "StrictFIFO":
                blocked.add(name)

    def _try(self, workload: Object, queue: Object) -> bool:
        """Admit one workload; whether it has to go on waiting."""
        name, used = queue["metadata"]["name"], self._used(queue["metadata"]["name"])
        assigned: list[tuple[Object, Assignment]] = []
        for pod_set in workload["spec"]["podSets"]:
            label = f"couldn't assign flavors to pod set {pod_set['name']}: "
            try:
                wanted = requests_of(
                    pod_set["template"],
                    find_template=lambda template: self._store.find(
                        "resourceclaimtemplates", template, namespace=workload["metadata"]["namespace"]
                    ),
                    resource_of=self._resource_of,
                )
            except Inadmissible as error:
                self._postpone(workload, "Inadmissible", str(error))
                return True
            wanted = {name: times(amount, pod_set["count"]) for name, amount in wanted.items()}
            found = assign(queue, self._flavors, wanted=wanted, template=pod_set["template"], used=used)
            if isinstance(found, list):
                requested = {name: str(amount) for name, amount in sorted(wanted.items())}
                workload.setdefault("status", {})["resourceRequests"] = [
                    {"name": pod_set["name"], "resources": requested}
                ]
                self._postpone(workload, "Pending", label + ", ".join(found))
                return True
            assigned.append((pod_set, found))
            for resource, amount in found.amounts.items():
                key = (found.flavors[resource], resource)
                used[key] = used[key] + amount if key in used else amount
        status = workload.setdefault("status", {})
        status.pop("resourceRequests", None)
        status["admission"] = {
            "clusterQueue": name,
            "podSetAssignments": [_assignment(pod_set, found) for pod_set, found in assigned],
        }
        reserved = f"Quota reserved in ClusterQueue {name}"
        self._condition(workload, "QuotaReserved", "QuotaReserved", reserved)
        self._condition(workload, "Admitted", "Admitted", "The workload is admitted")
        if _condition(workload, "Evicted"):
            self._condition(workload, "Evicted", "QuotaReserved", "Previously evicted", value="False")
        self._save(workload)
        self._event(workload, "QuotaReserved", reserved)
        self._event(workload, "Admitted", f"Admitted by ClusterQueue {name}")
        return False

    def _queue_for(self, workload: Object) -> tuple[Object | None, str]:
        """The ClusterQueue that a workload may wait in, or why there is none."""
        wish = workload["spec"].get("queueName", "")
        local = self._local_of(workload)
        queue = None if local is None else self._queues.get(local["spec"].get("clusterQueue", ""))
        obstacle = ""
        if not workload["spec"].get("active", True):
            obstacle = "The workload is deactivated"
        elif local is None:
            obstacle = f"LocalQueue {wish} doesn't exist"
        elif local["spec"].get("stopPolicy", "None") != "None":
            obstacle = f"LocalQueue {wish} is inactive"
        elif queue is None:
            obstacle = f"ClusterQueue {local['spec'].get('clusterQueue', '')} doesn't exist"
        elif self._inactive(queue):
            obstacle = f"ClusterQueue {queue['metadata']['name']} is inactive"
        elif not self._lets_in(queue, workload["metadata"]["namespace"]):
            obstacle = "Workload namespace doesn't match ClusterQueue selector"
        return (None if obstacle else queue), obstacle

    def _lets_in(self, queue: Object, namespace: str) -> bool:
        labels = self._store.get("namespaces", namespace)["metadata"].get("labels", {})
        return _selects(queue["spec"].get("namespaceSelector"), labels)

    def _postpone(self, workload: Object, reason: str, message: str) -> None:
        present = _condition(workload, "QuotaReserved")
        self._condition(workload, "QuotaReserved", reason, message, value="False")
        self._save(workload)
        if present.get("message") != message:
            self._event(workload, "Pending", message, warning=True)

    def finish(self, workload: Object, *, succeeded: bool) -> None:
        """Note that the Job of a workload has ended, which frees its quota."""
        if not is_true(workload, "Finished"):
            reason = "Succeeded" if succeeded else "Failed"
            text = "Job finished successfully" if succeeded else "Job failed"
            self._condition(workload, "Finished", reason, text)
            self._save(workload)

    def tell(self) -> None:
        """Bring the status of all queues up to date."""
        for name, queue in self._queues.items():
            mine = [item for item in self.workloads.values() if self._cluster_queue_of(item) == name]
            problem = self._inactive(queue)
            reason, why = problem or ("Ready", "Can admit new workloads")
            self._report(CLUSTER_QUEUES, queue, mine, reason, why, quotas=queue)
        for key, local in self._locals.items():
            mine = [item for item in self.workloads.values() if _local_key(item) == key]
            target = self._queues.get(local["spec"].get("clusterQueue", ""))
            reason, why = "Ready", "Can submit new workloads to localQueue"
            if local["spec"].get("stopPolicy", "None") != "None":
                reason, why = "Stopped", "LocalQueue is stopped"
            elif target is None:
                reason, why = "ClusterQueueDoesNotExist", "Can't submit new workloads to clusterQueue"
            elif self._inactive(target):
                reason, why = "ClusterQueueIsInactive", "Can't submit new workloads to clusterQueue"
            self._report(LOCAL_QUEUES, local, mine, reason, why, quotas=target)

    def _report(
        self, plural: str, queue: Object, mine: list[Object], reason: str, why: str, *, quotas: Object | None
    ) -> None:
        going = [item for item in mine if not is_true(item, "Finished")]
        holding = [item for item in going if _holds(item)]
        status = queue.setdefault("status", {})
        status["pendingWorkloads"] = len(going) - len(holding)
        status["reservingWorkloads"] = len(holding)
        status["admittedWorkloads"] = sum(is_true(item, "Admitted") for item in holding)
        for name in ("flavorsReservation", "flavorsUsage"):
            used = usage_of(holding)
            status[name] = usage_status(quotas, used, local=plural == LOCAL_QUEUES) if quotas else []
        condition = {
            "type": "Active",
            "status": "True" if reason == "Ready" else "False",
            "reason": reason,
            "message": why,
            "observedGeneration": queue["metadata"].get("generation", 1),
        }
        status["conditions"] = set_condition(status.get("conditions", ()), condition, now=self._world.stamp())
        self._store.update_status(plural, queue, manager=MANAGER)

    def _inactive(self, queue: Object) -> tuple[str, str] | None:
        if queue["spec"].get("stopPolicy", "None") != "None":
            return "Stopped", "Can't admit new workloads: is stopped"
        missing = sorted(
            flavor["name"]
            for group in queue["spec"].get("resourceGroups", ())
            for flavor in group["flavors"]
            if flavor["name"] not in self._flavors
        )
        if missing:
            text = f"Can't admit new workloads: references missing ResourceFlavor(s): {', '.join(missing)}"
            return "FlavorNotFound", text
        return None

    def _used(self, queue: str) -> Usage:
        return usage_of(
            item
            for item in self.workloads.values()
            if _holds(item) and not is_true(item, "Finished") and self._cluster_queue_of(item) == queue
        )

    def _cluster_queue_of(self, workload: Object) -> str:
        if _holds(workload):
            return str(workload["status"]["admission"].get("clusterQueue", ""))
        local = self._local_of(workload)
        return "" if local is None else str(local["spec"].get("clusterQueue", ""))

    def _local_of(self, workload: Object) -> Object | None:
        return self._locals.get(_local_key(workload))

    def _condition(
        self, workload: Object, kind: str, reason: str, message: str, *, value: str = "True"
    ) -> None:
        status = workload.setdefault("status", {})
        condition = {
            "type": kind,
            "status": value,
            "reason": reason,
            "message": message,
            "observedGeneration": workload["metadata"].get("generation", 1),
        }
        status["conditions"] = set_condition(status.get("conditions", ()), condition, now=self._world.stamp())

    def _save(self, workload: Object) -> None:
        saved = self._store.update_status(WORKLOADS, workload, manager=MANAGER)
        self.workloads[_key(saved)] = saved
        workload.update(saved)

    def _event(self, workload: Object, reason: str, message: str, *, warning: bool = False) -> None:
        self._world.event(
            workload,
            kind="Workload",
            reason=reason,
            message=message,
            component="kueue-admission",
            warning=warning,
        )


def _assignment(pod_set: Object, found: Assignment) -> Object:
    return {
        "name": pod_set["name"],
        "count": pod_set["count"],
        "flavors": dict(sorted(found.flavors.items())),
        "resourceUsage": {name: str(amount) for name, amount in sorted(found.amounts.items())},
    }


def _key(obj: Object) -> Key:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _local_key(workload: Object) -> Key:
    return workload["metadata"]["namespace"], workload["spec"].get("queueName", "")


def _rank(workload: Object) -> tuple[int, str, Key]:
    metadata = workload["metadata"]
    return -workload["spec"].get("priority", 0), metadata["creationTimestamp"], _key(workload)


def _holds(workload: Object) -> bool:
    return bool(workload.get("status", {}).get("admission"))


def _condition(obj: Object, kind: str) -> Object:
    conditions = obj.get("status", {}).get("conditions", ())
    return next((item for item in conditions if item["type"] == kind), {})


def is_true(obj: Object, kind: str) -> bool:
    return _condition(obj, kind).get("status") == "True"


def _selects(selector: Object | None, labels: Mapping[str, str]) -> bool:
    """As Kueue: no selector lets nobody in, an empty one everybody."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    for item in selector.get("matchExpressions", ()):
        value, values = labels.get(item["key"]), item.get("values", ())
        holds = {
            "In": value in values,
            "NotIn": value not in values,
            "Exists": value is not None,
            "DoesNotExist": value is None,
        }.get(item["operator"], False)
        if not holds:
            return False
    return True
