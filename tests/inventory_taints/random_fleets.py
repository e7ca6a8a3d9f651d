"""Random clusters with allocated claims and Pods, and a random rule over them, as objects of the API."""

import random
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tests.inventory import objects

Json = dict[str, Any]
DRIVERS = ("gpu.example.com", "nic.example.com")
KEYS = ("example.com/ill", "example.com/repair")
VALUES = ("", "fan", "board")
SPACES = ("tides", "glaciers")
BEGAN = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@dataclass
class RandomFleet:
    """Objects by kind, and the rule that is about to be made."""

    slices: list[Json]
    claims: list[Json]
    pods: list[Json]
    selector: dict[str, str]
    taint: dict[str, str]


def random_fleet(seed: int) -> RandomFleet:
    choose = random.Random(seed)
    slices, devices = _slices(choose)
    claims: list[Json] = []
    pods: dict[tuple[str, str], Json] = {}
    for number in range(choose.randrange(1, 8)):
        space = choose.choice(SPACES)
        node = choose.choice(sorted({place[0] for place in devices}))
        here = [place for place in devices if place[0] == node]
        taken = choose.sample(here, k=min(len(here), choose.randrange(1, 4)))
        claim = objects.claim(
            f"claim-{number}", namespace=space,
            allocated=objects.allocation(*(_result(choose, place) for place in taken), node=node),
        )  # fmt: skip
        claim["status"]["reservedFor"] = [
            _consumer(choose, pods, space, node, claim["metadata"]["name"])
            for _n in range(choose.randrange(0, 4))
        ]
        # A list of one key: the same Pod reserves once.
        unique = {entry["uid"]: entry for entry in claim["status"]["reservedFor"]}
        claim["status"]["reservedFor"] = list(unique.values())
        claims.append(claim)
    selector = _selector(choose, devices)
    taint = {"key": choose.choice(KEYS), "effect": "NoExecute"}
    if value := choose.choice(VALUES):
        taint["value"] = value
    return RandomFleet(slices, claims, list(pods.values()), selector, taint)


def _slices(choose: random.Random) -> tuple[list[Json], list[tuple[str, str, str, str]]]:
    """Slices, and (node, driver, pool, device) of each device; pools of some drivers have equal names."""
    slices, devices = [], []
    for number in range(choose.randrange(1, 4)):
        node = f"node-{number}"
        for driver in choose.sample(DRIVERS, k=choose.randrange(1, 3)):
            names = [f"dev-{index}" for index in range(choose.randrange(1, 4))]
            body = [{"name": name} for name in names]
            slices.append(objects.resource_slice(f"{node}-{driver}", body, node=node, driver=driver))
            devices += [(node, driver, node, name) for name in names]
    return slices, devices


def _result(choose: random.Random, place: tuple[str, str, str, str]) -> Json:
    _node, driver, pool, device = place
    result: Json = {"request": "gpu", "driver": driver, "pool": pool, "device": device}
    tolerations = [_toleration(choose) for _n in range(choose.choice((0, 0, 1, 1, 2, 3)))]
    return result | ({"tolerations": tolerations} if tolerations else {})


def _toleration(choose: random.Random) -> Json:
    toleration: Json = {"operator": choose.choice(("Exists", "Equal"))}
    if choose.random() < 0.8 or toleration["operator"] == "Equal":
        toleration["key"] = choose.choice(KEYS)
    if toleration["operator"] == "Equal" and (value := choose.choice(VALUES)):
        toleration["value"] = value
    if effect := choose.choice(("NoExecute", "NoExecute", "NoExecute", "NoSchedule", "")):
        toleration["effect"] = effect
    if choose.random() < 0.6:
        toleration["tolerationSeconds"] = choose.choice((-5, 0, 30, 60, 3600))
    return toleration


def _consumer(
    choose: random.Random, pods: dict[tuple[str, str], Json], space: str, node: str, claim: str
) -> Json:
    """A Pod that reserves the claim: new, or one that has another claim already; some are gone, not placed,
    or about to go; and once in a while it is no Pod at all."""
    if choose.random() < 0.1:
        group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups"}
        return {**group, "name": "ring", "uid": f"ring-{claim}"}
    name = f"pod-{choose.randrange(6)}"
    known = pods.get((space, name))
    if known is None:
        placed = "" if choose.random() < 0.15 else node
        known = objects.pod(name, namespace=space, on=placed, phase="Running" if placed else "Pending")
        known["spec"]["resourceClaims"] = []
        if placed and choose.random() < 0.15:
            known["metadata"]["deletionTimestamp"] = "2026-03-01T11:59:00Z"
            known["metadata"]["deletionGracePeriodSeconds"] = 30
        pods[space, name] = known
    known["spec"]["resourceClaims"].append({"name": claim, "resourceClaimName": claim})
    uid = known["metadata"]["uid"] if choose.random() > 0.1 else "another"
    return {"resource": "pods", "name": name, "uid": uid}


def _selector(choose: random.Random, devices: list[tuple[str, str, str, str]]) -> dict[str, str]:
    _node, driver, pool, device = choose.choice(devices)
    found = {"driver": driver, "pool": pool, "device": device}
    return {name: value for name, value in found.items() if choose.random() < 0.45}
