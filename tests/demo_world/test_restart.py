"""The embedded cluster killed in the middle of its work: after the next start nothing is lost and nothing
doubled."""

import time
from pathlib import Path
from typing import Any

import pytest

from portal.demo.fleet import oddities
from portal.kube.client import Client
from portal.kube.config import Credentials
from portal.kube.resources import PODS, RESOURCE_CLAIMS
from tests.embedded import EmbeddedCluster

DEADLINE = 20.0
NEVER_RUN = {"giant-pretraining", "render-probe"}
RANKS = ("detector-simulation-0", "detector-simulation-1")
Object = dict[str, Any]


def contradictions(client: Client) -> list[str]:
    """What the objects say about one another that cannot be."""
    pods = {pod["metadata"]["uid"]: pod for pod in client.list_all(PODS)}
    claims = client.list_all(RESOURCE_CLAIMS)
    found, held = [], set()
    for claim in claims:
        if claim["metadata"]["name"] in (oddities.FORGOTTEN_CLAIM, oddities.UNDYING_CLAIM):
            continue  # these are so from the beginning
        name, status = claim["metadata"]["name"], claim.get("status") or {}
        consumers = [entry["uid"] for entry in status.get("reservedFor", ())]
        if status.get("allocation") and not consumers:
            found.append(f"{name} holds devices for nobody")
        found += [f"{name} is reserved for a Pod that is not there" for uid in consumers if uid not in pods]
        found += [
            f"{name} belongs to a Pod that is not there"
            for owner in claim["metadata"].get("ownerReferences", ())
            if owner["uid"] not in pods
        ]
        for result in (status.get("allocation") or {"devices": {"results": []}})["devices"]["results"]:
            if result.get("adminAccess"):
                continue
            device = (result["driver"], result["pool"], result["device"], result.get("shareID"))
            if device in held:
                found.append(f"{device} is held twice")
            held.add(device)
    return found + _unserved(pods, claims)


def _unserved(pods: dict[str, Object], claims: list[Object]) -> list[str]:
    by_name = {(claim["metadata"]["namespace"], claim["metadata"]["name"]): claim for claim in claims}
    found = []
    for uid, pod in pods.items():
        space, generated = pod["metadata"]["namespace"], pod["status"].get("resourceClaimStatuses", ())
        names = [entry["resourceClaimName"] for entry in generated]
        names += [
            entry["resourceClaimName"]
            for entry in pod["spec"].get("resourceClaims", ())
            if "resourceClaimName" in entry
        ]
        for name in names:
            claim = by_name.get((space, name), {})
            consumers = [entry["uid"] for entry in (claim.get("status") or {}).get("reservedFor", ())]
            if pod["spec"].get("nodeName") and uid not in consumers:
                found.append(f"{pod['metadata']['name']} has a node but not its claim {name}")
    return found


def is_settled(client: Client) -> bool:
    """Whether every Pod runs that can: one is too large, one's driver fails, one of a group has no room."""
    pods = client.list_all(PODS)
    waiting = {pod["metadata"]["name"] for pod in pods if pod["status"].get("phase") != "Running"} - NEVER_RUN
    return len(pods) >= 12 and (waiting == {RANKS[0]} or waiting == {RANKS[1]})


@pytest.mark.parametrize("moments", [(0.0, 0.05), (0.1, 0.2), (0.35, 0.6)])
def test_killed_while_it_schedules_it_goes_on_where_it_was(
    tmp_path: Path, moments: tuple[float, ...]
) -> None:
    cluster = EmbeddedCluster(tmp_path / "cluster", fleet="sample").start()
    try:
        for moment in moments:
            time.sleep(moment)
            cluster.kill()
            cluster.start()
        with Client(Credentials.from_kubeconfig(cluster.kubeconfig)) as client:
            deadline = time.monotonic() + DEADLINE
            while not is_settled(client) and time.monotonic() < deadline:
                time.sleep(0.1)
            assert is_settled(client), cluster.log
            assert contradictions(client) == []
    finally:
        cluster.stop()
