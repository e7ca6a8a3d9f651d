"""Kueue, where it is installed: what waits, what is let in, and what the queues tell."""

import pytest

from portal.kube.client import Client
from portal.kube.errors import Invalid
from portal.kube.resources import JOBS, Resource
from tests.contract import objects
from tests.contract.objects import Object
from tests.contract.room import Room

GROUP = "kueue.x-k8s.io"
PLURALS = ("clusterqueues", "localqueues", "resourceflavors", "workloads")
Kueue = dict[str, Resource]


@pytest.fixture
def kueue(client: Client, is_real: bool) -> Kueue:
    """Kueue's resources in the version that the cluster prefers; a real cluster may not have it."""
    for resources in client.served(GROUP).values():
        return {plural: resources[plural] for plural in PLURALS}
    if is_real:
        pytest.skip("Kueue is not installed in the cluster")
    raise AssertionError("the embedded cluster has Kueue installed")


class Line:
    """A queue with quota for the cpu of one small Pod, and what stands in it."""

    def __init__(self, room: Room, kueue: Kueue, *, cpu: str = "15m") -> None:
        self.room, self.kueue, self.name = room, kueue, room.name("line")
        self._create("resourceflavors", "ResourceFlavor", {"nodeLabels": room.label})
        quotas = [
            {"name": "cpu", "nominalQuota": cpu},
            {"name": "memory", "nominalQuota": "1Gi"},
        ]
        group = {
            "coveredResources": ["cpu", "memory"],
            "flavors": [{"name": self.name, "resources": quotas}],
        }
        self._create("clusterqueues", "ClusterQueue", {"namespaceSelector": {}, "resourceGroups": [group]})
        self._create("localqueues", "LocalQueue", {"clusterQueue": self.name})

    def _create(self, plural: str, kind: str, spec: Object) -> None:
        resource = self.kueue[plural]
        metadata = {"name": self.name}
        head = {"apiVersion": resource.api_version, "kind": kind, "metadata": metadata}
        self.room.create(resource, {**head, "spec": spec})

    def join(self, name: str) -> Object:
        """A Job of one Pod that wants two thirds of the cpu."""
        pod = objects.pod(name, node_selector=self.room.label)
        body = {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": name, "labels": {"kueue.x-k8s.io/queue-name": self.name}},
            "spec": {"suspend": True, "template": {"spec": pod["spec"]}},
        }
        return self.room.create(JOBS, body)

    def job(self, name: str) -> Object:
        return self.room.client.get(JOBS, name, namespace=self.room.namespace)

    def workload(self, job: Object) -> Object:
        """The Workload of a Job; empty as long as there is none."""
        for found in self.room.client.list_all(self.kueue["workloads"], namespace=self.room.namespace):
            owners = found["metadata"].get("ownerReferences", ())
            if any(owner["uid"] == job["metadata"]["uid"] for owner in owners):
                return found
        return {}

    def counts(self, plural: str) -> tuple[int, int]:
        """(pending, admitted)"""
        found = self.room.client.get(self.kueue[plural], self.name, namespace=self.room.namespace)
        status = found.get("status", {})
        return status.get("pendingWorkloads", 0), status.get("admittedWorkloads", 0)


def condition(obj: Object, kind: str) -> Object:
    found = obj.get("status", {}).get("conditions", ())
    return next((item for item in found if item["type"] == kind), {})


def test_who_fits_is_let_in_and_who_does_not_waits(room: Room, kueue: Kueue) -> None:
    room.node()
    line = Line(room, kueue)
    first = line.join("first")
    room.wait_for(lambda: not line.job("first")["spec"]["suspend"], "the first goes")
    workload = line.workload(first)
    assert condition(workload, "QuotaReserved")["status"] == "True"
    assert condition(workload, "Admitted")["status"] == "True"
    admission = workload["status"]["admission"]
    (assignment,) = admission["podSetAssignments"]
    assert admission["clusterQueue"] == line.name
    assert (assignment["flavors"]["cpu"], assignment["count"]) == (line.name, 1)
    assert assignment["resourceUsage"]["cpu"] == "10m"
    second = line.join("second")
    waiting = room.wait_for(
        lambda: str(condition(line.workload(second), "QuotaReserved").get("message", "")), "a reason to wait"
    )
    assert "insufficient unused quota for cpu" in waiting
    assert line.job("second")["spec"]["suspend"] is True
    for plural in ("clusterqueues", "localqueues"):
        room.wait_for(lambda plural=plural: line.counts(plural) == (1, 1), f"the counts of {plural}")  # type: ignore[misc]  # mypy cannot infer a lambda with a default
    room.client.delete(JOBS, "first", namespace=room.namespace)
    room.wait_for(lambda: not line.job("second")["spec"]["suspend"], "the second's turn")


def test_usage_is_told_by_flavor(room: Room, kueue: Kueue, client: Client) -> None:
    room.node()
    line = Line(room, kueue)
    line.join("only")

    def used() -> str | None:
        status = client.get(kueue["clusterqueues"], line.name).get("status", {})
        for flavor in status.get("flavorsUsage", ()):
            totals = {item["name"]: item.get("total") for item in flavor["resources"]}
            if totals.get("cpu") == "10m":
                return str(flavor["name"])
        return None

    assert room.wait_for(used, "the usage") == line.name


def test_both_versions_tell_the_same(client: Client, kueue: Kueue, room: Room) -> None:
    line = Line(room, kueue)
    for resources in client.served(GROUP).values():
        queue = client.get(resources["clusterqueues"], line.name)
        assert queue["apiVersion"] == resources["clusterqueues"].api_version
        (group,) = queue["spec"]["resourceGroups"]
        assert group["flavors"][0]["resources"][0]["name"] == "cpu"


def test_a_queue_that_does_not_add_up_is_refused(kueue: Kueue, room: Room) -> None:
    group = {
        "coveredResources": ["cpu", "memory"],
        "flavors": [{"name": "any", "resources": [{"name": "cpu", "nominalQuota": 1}]}],
    }
    resource = kueue["clusterqueues"]
    body = {
        "apiVersion": resource.api_version,
        "kind": "ClusterQueue",
        "metadata": {"name": room.name("odd")},
        "spec": {"resourceGroups": [group]},
    }
    with pytest.raises(Invalid):
        room.create(resource, body)
