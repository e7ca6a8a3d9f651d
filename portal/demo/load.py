"""Fleets of any size, and a way to keep them moving: what benchmarks are measured on.

The same size and seed give the same objects to the last byte. Nodes carry ``demo.claimdesk.example/kubelet:
stopped``, so that the embedded kubelet does not spend the time on 5,000 leases that is to be measured
elsewhere.
"""

import argparse
import asyncio
import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from portal.demo.fleet import UnknownFleet
from portal.demo.fleet.build import (
    KUBELET_ANNOTATION,
    SAMPLE_BIRTH,
    Object,
    claim_spec,
    device_class,
    exact_request,
    identity,
    namespace,
    node,
    node_name,
    pod,
    pod_spec,
    resource_claim,
    resource_slices,
    timestamp,
)
from portal.demo.fleet.nvidia import A100, DRIVER, H100, gpu
from portal.demo.store import Store

NAMESPACES = 40
CLASS = "gpu.nvidia.com"
MAX_DEVICES = 128
LONGEST_STALL = 0.25


@dataclass(frozen=True, kw_only=True)
class FleetSize:
    """How large a generated fleet is. ``used`` is the share of Pods that hold an allocated claim each."""

    nodes: int
    devices: int = 8
    pods: int = 0
    used: float = 0.1
    seed: int = 1

    @classmethod
    def parse(cls, text: str) -> "FleetSize":
        """From ``nodes=5000,devices=8,pods=50000,used=0.1,seed=1`` (all but nodes optional); raises
        UnknownFleet."""
        values: dict[str, int | float] = {}
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, _, value = part.partition("=")
            if name not in cls.__dataclass_fields__:
                raise UnknownFleet(
                    f"{part!r}: a fleet is none, sample, or nodes=N,devices=M,pods=P,used=0.1,seed=S"
                )
            try:
                values[name] = float(value) if name == "used" else int(value)
            except ValueError:
                raise UnknownFleet(f"{part!r}: {name} is a number") from None
        if values.get("nodes", 0) < 1:
            raise UnknownFleet(f"{text!r}: a fleet has at least one node")
        if not 0 <= values.get("devices", 0) <= MAX_DEVICES:
            raise UnknownFleet(f"a slice holds at most {MAX_DEVICES} devices")
        if not 0 <= values.get("used", 0) <= 1 or values.get("pods", 0) < 0:
            raise UnknownFleet("used is a share between 0 and 1, pods is not negative")
        return cls(**values)  # type: ignore[arg-type]  # ints where ints are due: see the loop above

    @property
    def claims(self) -> int:
        """How many Pods hold a claim; never more than there are devices."""
        return min(round(self.pods * self.used), self.nodes * self.devices)


def generate(size: FleetSize) -> Iterator[Object]:
    """All objects of a fleet, for :meth:`Store.load`: running Pods, allocated and reserved claims and all."""
    yield device_class(CLASS, f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].type == 'gpu'")
    yield from (namespace(f"group-{number:02}") for number in range(NAMESPACES))
    for number in range(size.nodes):
        yield from _machine(number, devices=size.devices)
    chance = random.Random(size.seed)  # noqa: S311 - reproducible, not secret
    held = chance.sample(range(size.nodes * size.devices), size.claims)
    for number in range(size.pods):
        space = f"group-{number % NAMESPACES:02}"
        if number < len(held):
            machine, index = divmod(held[number], size.devices)
            yield from _pod_with_claim(number, space=space, machine=machine, index=index)
        else:
            yield _running(pod(f"pod-{number:06}", space, pod_spec()), on=number % size.nodes)


def machine_name(number: int) -> str:
    """The node of that number."""
    return node_name(f"gpu-{number:05}")


def _machine(number: int, *, devices: int) -> Iterator[Object]:
    name = machine_name(number)
    model = H100 if number % 4 == 0 else A100
    machine = node(f"gpu-{number:05}", zone=f"hall-{number % 8}", cpu=128, memory="1000Gi")
    machine["metadata"]["annotations"] = {KUBELET_ANNOTATION: "stopped"}
    yield machine
    if devices:
        gpus = [
            gpu(
                model,
                node=name,
                index=index,
                bus=f"{0x10 + index // 2 * 16:02x}:{index % 2:02x}",
                numa=index * 2 // devices,
            )
            for index in range(devices)
        ]
        yield from resource_slices(driver=DRIVER, node=name, contents=[{"devices": gpus}])


def _running(workload: Object, *, on: int) -> Object:
    """The Pod as it is some while after its start."""
    metadata, born = workload["metadata"], timestamp(SAMPLE_BIRTH + timedelta(minutes=on % 1440))
    metadata["uid"] = str(identity("Pod", metadata["namespace"], metadata["name"]))
    metadata["creationTimestamp"] = born
    workload["spec"] |= {
        "nodeName": machine_name(on),
        "serviceAccountName": "default",
        "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30,
        "tolerations": [
            {
                "key": f"node.kubernetes.io/{taint}",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 300,
            }
            for taint in ("not-ready", "unreachable")
        ],
    }
    workload["status"] = {
        "phase": "Running",
        "startTime": born,
        "qosClass": "Burstable",
        "conditions": [
            {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": born}
            for kind in ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        ],
        "containerStatuses": [
            {
                "name": "main",
                "ready": True,
                "restartCount": 0,
                "image": workload["spec"]["containers"][0]["image"],
                "imageID": "",
                "state": {"running": {"startedAt": born}},
            }
        ],
    }
    return workload


def _pod_with_claim(number: int, *, space: str, machine: int, index: int) -> Iterator[Object]:
    name = f"pod-{number:06}"
    consumer = _running(pod(name, space, pod_spec(claims={"gpu": name})), on=machine)
    claim = resource_claim(name, space, claim_spec([exact_request("gpu", CLASS)]))
    claim["metadata"] |= {
        "uid": str(identity("ResourceClaim", space, name)),
        "creationTimestamp": consumer["metadata"]["creationTimestamp"],
        "finalizers": ["resource.kubernetes.io/delete-protection"],
    }
    claim["status"] = claim_status(
        machine, index, since=consumer["status"]["startTime"], pod=(name, consumer["metadata"]["uid"])
    )
    yield claim
    yield consumer


def claim_status(machine: int, index: int, *, since: str, pod: tuple[str, str]) -> Object:
    """The status of a claim that holds device ``index`` of a machine, reserved for the Pod (name, uid)."""
    name = machine_name(machine)
    return {
        "allocation": {
            "devices": {
                "results": [{"request": "gpu", "driver": DRIVER, "pool": name, "device": f"gpu-{index}"}],
            },
            "nodeSelector": {
                "nodeSelectorTerms": [
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
                ]
            },
            "allocationTimestamp": since,
        },
        "reservedFor": [{"resource": "pods", "name": pod[0], "uid": pod[1]}],
    }


def check_churn(text: str) -> str:
    """Return ``text`` if :meth:`Churn.parse` understands it: an argparse type."""
    try:
        Churn.parse(text, store=Store(), size=FleetSize(nodes=1))
    except UnknownFleet as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


@dataclass
class Churn:
    """Keeps a generated fleet moving at a steady rate, in the cluster's own process.

    ``claims`` changes of claims a second: claims of the fleet are given up and taken again in turn (each
    write is one change). ``pods`` updates a second of Pods that have nothing to do with devices.
    """

    store: Store
    size: FleetSize
    claims: float = 200.0
    pods: float = 100.0
    written: int = field(default=0, init=False)

    @classmethod
    def parse(cls, text: str, *, store: Store, size: FleetSize) -> "Churn":
        """From ``claims=200,pods=100``; raises UnknownFleet."""
        rates: dict[str, float] = {}
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, _, value = part.partition("=")
            try:
                rates[name] = float(value)
            except ValueError:
                raise UnknownFleet(f"{part!r}: {name} is a number of changes a second") from None
        if unknown := rates.keys() - {"claims", "pods"}:
            raise UnknownFleet(f"{', '.join(sorted(unknown))}: churn is claims=N,pods=M (changes a second)")
        return cls(store=store, size=size, claims=rates.get("claims", 0.0), pods=rates.get("pods", 0.0))

    async def run(self, *, seconds: float | None = None) -> None:
        """Write at the wanted rate until cancelled, or for so many seconds."""
        loop = asyncio.get_running_loop()
        start = beat = loop.time()
        ends_at = None if seconds is None else start + seconds
        claim_turns, pod_turns = itertools.count(), itertools.count(self.size.claims)
        claims_due = pods_due = 0
        while ends_at is None or loop.time() < ends_at:
            # After a stall of the process go on at the wanted rate, instead of making up for it at once.
            start += max(0.0, loop.time() - beat - LONGEST_STALL)
            beat = loop.time()
            elapsed = beat - start
            while claims_due < elapsed * self.claims and self.size.claims:
                self._change_claim(next(claim_turns))
                claims_due += 1
            while pods_due < elapsed * self.pods and self.size.pods > self.size.claims:
                self._touch_pod(next(pod_turns))
                pods_due += 1
            await asyncio.sleep(0.005)

    def _change_claim(self, turn: int) -> None:
        """On even rounds the claim gives its device up, on odd ones it gets it back."""
        number, name = turn % self.size.claims, f"pod-{turn % self.size.claims:06}"
        space = f"group-{number % NAMESPACES:02}"
        claim = self.store.get("resourceclaims", name, namespace=space)
        if claim.get("status"):
            self._given_up[number] = claim["status"]
            claim["status"] = {}
        elif number in self._given_up:
            claim["status"] = self._given_up.pop(number)
        self.store.update_status("resourceclaims", claim, manager="load")
        self.written += 1

    _given_up: dict[int, Object] = field(default_factory=dict, init=False)

    def _touch_pod(self, turn: int) -> None:
        bystanders = self.size.pods - self.size.claims
        number = self.size.claims + turn % bystanders
        name, space = f"pod-{number:06}", f"group-{number % NAMESPACES:02}"
        workload = self.store.get("pods", name, namespace=space)
        status = workload["status"]["containerStatuses"][0]
        status["restartCount"] += 1
        self.store.update_status("pods", workload, manager="load")
        self.written += 1
