"""kill -9 of the follower and of the worker in the middle of their work."""

from pathlib import Path

import pytest

from portal.kube.resources import NAMESPACES, RESOURCE_CLAIMS
from tests.system.desk import NAMESPACE, running, until

pytestmark = [pytest.mark.xdist_group("system"), pytest.mark.timeout(300), pytest.mark.nodatabase]


@pytest.mark.parametrize(
    "fleet",
    [
        "nodes=300,devices=4,pods=300",
        pytest.param("nodes=2000,devices=8,pods=5000", marks=pytest.mark.long),
    ],
)
def test_processes_killed_in_a_first_sync_and_in_a_creation_leave_nothing_wrong(
    tmp_path: Path, fleet: str
) -> None:
    with running(tmp_path, fleet=fleet, cluster=False) as desk:
        desk.cluster.create(
            NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
        desk.add_cluster()
        # The first lists have just begun; then, some of them are there.
        until(lambda: desk.cluster_told()["state"] != "new", "a follower")
        desk.kill("follower", "worker")
        desk.restart("follower", "worker")
        until(lambda: desk.api("devices/", limit="1")["results"], "the first devices")
        desk.kill("follower", "worker")
        desk.restart("follower", "worker")
        desk.until_in_step()
        assert desk.faults() == []
        devices = {(row["node"], row["pool"], row["name"]) for row in desk.all_of("devices/")}
        assert devices == desk.devices_published()

        # The worker is killed while its creation is on the way: the claim may be there or not.
        desk.disturb(delay_seconds=1, path_prefix=f"/apis/resource.k8s.io/v1/namespaces/{NAMESPACE}")
        path = desk.asked()
        until(lambda: desk.state_of(path) == "creating", "the worker has begun")
        desk.kill("worker")
        assert desk.state_of(path) == "creating"
        desk.disturb()
        desk.restart("worker")
        desk.until_state(path, "waiting-for-pod")
        assert len(desk.cluster.list_all(RESOURCE_CLAIMS, namespace=NAMESPACE)) == 1

        # As soon as the claim is there, whether the worker has noted that or not; and before it had begun.
        second = desk.asked()
        until(lambda: len(desk.claims()) == 2, "the second claim on the cluster")
        desk.kill("worker")
        third = desk.asked()
        desk.restart("worker")
        for later in (second, third):
            desk.until_state(later, "waiting-for-pod")
        assert len(desk.claims()) == 3
        assert desk.faults() == []


def test_of_two_followers_one_writes_and_the_other_takes_over(tmp_path: Path) -> None:
    with running(tmp_path) as desk:
        desk.second("follower")
        desk.call_followers(8)
        desk.until_in_step()
        workers = {name: desk.pid_of(name) for name in ("follower", "follower-2")}
        leader = desk.leader()
        assert leader in workers.values()
        path, claim = desk.held()
        desk.call_followers(8)
        assert desk.leader() == leader

        desk.kill(next(name for name, pid in workers.items() if pid == leader))
        # What happens while nobody follows is told by the next one.
        desk.release(path)
        until(lambda: desk.leader() in set(workers.values()) - {leader}, "the other follower")
        desk.until_state(path, "ended")
        (row,) = desk.history_of(claim)
        assert row["ended_at"]
        assert desk.faults() == []
