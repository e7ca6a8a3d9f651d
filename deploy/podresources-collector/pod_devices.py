#!/usr/bin/env python3
"""Reports to Claimdesk which Pods of a node have which devices of Device Plugins, as its kubelet says.

One file. It asks the kubelet's PodResources socket (gRPC, ``v1.PodResourcesLister/List``), which needs the
packages grpcio and protobuf, and sends a report when something changed and at least every ``--interval``
seconds. Nothing is written, and the Kubernetes API is not called. While the kubelet does not answer, nothing
is sent: the desk then says that it does not know.

    pod_devices.py --portal https://desk.example.org --cluster berlin --node gpu-01 --token-file /token --once

Every option may come from the environment (``PODDEVICES_PORTAL`` for ``--portal``). Exit status: 0 sent, 1
not sent (with ``--once``), 2 wrong options.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import random
import signal
import ssl
import sys
import time
import urllib.error
import urllib.request
from datetime import datetime, timezone
from importlib import import_module
from typing import Any, NoReturn
from urllib.parse import urlsplit

VERSION = "1"
FORMAT = 1
SOCKET = "/var/lib/kubelet/pod-resources/kubelet.sock"
METHOD = "/v1.PodResourcesLister/List"
PATH = "/api/v1/pod-devices/reports/"
# What the portal takes in.
MAX_REPORT_BYTES = 1024 * 1024
# Thousands of Pods with memory and CPU lists stay far below.
MAX_ANSWER_BYTES = 16 * 1024 * 1024
TIMEOUT = 20
FIRST_WAIT, LONGEST_WAIT = 1.0, 300.0

# The part of the kubelet's api.proto that is read: message → field → (number, type, whether repeated).
# Fields that are not here (memory, CPUs, devices of claims) are skipped by the decoder.
MESSAGES: dict[str, dict[str, tuple[int, str, bool]]] = {
    "ListPodResourcesRequest": {},
    "ListPodResourcesResponse": {"pod_resources": (1, "PodResources", True)},
    "PodResources": {
        "name": (1, "string", False),
        "namespace": (2, "string", False),
        "containers": (3, "ContainerResources", True),
    },
    "ContainerResources": {"name": (1, "string", False), "devices": (2, "ContainerDevices", True)},
    "ContainerDevices": {
        "resource_name": (1, "string", False),
        "device_ids": (2, "string", True),
        "topology": (3, "TopologyInfo", False),
    },
    "TopologyInfo": {"nodes": (1, "NUMANode", True)},
    "NUMANode": {"ID": (1, "int64", False)},
}

log = logging.getLogger("podresources-collector")


# --- the kubelet ---------------------------------------------------------------------------------------


class NotRead(Exception):
    """The kubelet did not say what its Pods have."""


def message_classes() -> dict[str, Any]:
    """The classes of `MESSAGES`, made by the protobuf library."""
    pb = import_module("google.protobuf.descriptor_pb2")
    described = import_module("google.protobuf.descriptor_pool").DescriptorPool()
    field = pb.FieldDescriptorProto
    file = pb.FileDescriptorProto(name="podresources.proto", package="v1", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, (number, kind, repeated) in fields.items():
            made = message.field.add(name=field_name, number=number)
            made.label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            if kind in MESSAGES:
                made.type, made.type_name = field.TYPE_MESSAGE, f".v1.{kind}"
            else:
                made.type = field.TYPE_STRING if kind == "string" else field.TYPE_INT64
    described.Add(file)
    make = import_module("google.protobuf.message_factory").GetMessageClass
    return {name: make(described.FindMessageTypeByName(f"v1.{name}")) for name in MESSAGES}


def ask(socket: str) -> list[dict[str, Any]]:
    """The Pods that have devices, as a report has them. Raises NotRead."""
    grpc, messages = import_module("grpc"), message_classes()
    options = (
        ("grpc.max_receive_message_length", MAX_ANSWER_BYTES),
        # Nothing of the environment leads elsewhere; and Go's server wants a host's name, not a path.
        ("grpc.enable_http_proxy", 0),
        ("grpc.default_authority", "localhost"),
    )
    try:
        with grpc.insecure_channel(f"unix://{os.path.abspath(socket)}", options=options) as channel:
            call = channel.unary_unary(
                METHOD,
                request_serializer=messages["ListPodResourcesRequest"].SerializeToString,
                response_deserializer=messages["ListPodResourcesResponse"].FromString,
            )
            return tell(call(messages["ListPodResourcesRequest"](), timeout=TIMEOUT))
    except grpc.RpcError as error:
        raise NotRead(f"{socket}: {error.code().name}: {error.details()}") from None


def tell(answer: Any) -> list[dict[str, Any]]:
    """The kubelet's answer in one fixed form: only what has devices, everything sorted, nothing twice."""
    found: dict[tuple[str, str], dict[str, dict[tuple[str, str], set[int]]]] = {}
    for pod in answer.pod_resources:
        for container in pod.containers:
            for devices in container.devices:
                numa = {node.ID for node in devices.topology.nodes if node.ID >= 0}
                for device in devices.device_ids:
                    known = found.setdefault((pod.namespace, pod.name), {}).setdefault(container.name, {})
                    known.setdefault((devices.resource_name, device), set()).update(numa)
    return [
        {
            "namespace": namespace,
            "name": name,
            "containers": [
                {"name": container, "devices": grouped(had)} for container, had in sorted(containers.items())
            ],
        }
        for (namespace, name), containers in sorted(found.items())
    ]


def grouped(had: dict[tuple[str, str], set[int]]) -> list[dict[str, Any]]:
    """Devices of one resource near to the same NUMA nodes stand together."""
    groups: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for (resource, device), numa in sorted(had.items()):
        groups.setdefault((resource, tuple(sorted(numa))), []).append(device)
    return [
        {"resource": resource, "ids": ids, "numa": list(numa)}
        for (resource, numa), ids in sorted(groups.items())
    ]


# --- the report ----------------------------------------------------------------------------------------


class Said:
    """What the desk was told last, and until when that was seen to be so still."""

    def __init__(self, pods: list[dict[str, Any]], at: float) -> None:
        self.pods, self.at, self.until = pods, at, at
        # Whether every look since then found the same. What was different once, and is as before again,
        # was not the same all the time.
        self.held = True

    def look(self, pods: list[dict[str, Any]], at: float) -> bool:
        """Whether the desk knows what is seen now."""
        self.held = self.held and pods == self.pods and at >= self.until
        if self.held:
            self.until = at
        return self.held


def pack(options: argparse.Namespace, pods: list[dict[str, Any]], at: float, said: Said | None) -> bytes:
    """The body to send. Raises NotSent for one that is larger than the portal takes: a report that is cut
    would end what it leaves out."""
    same = None
    if said is not None and said.at <= said.until <= at:
        same = {"sent_at": moment(said.at), "until": moment(said.until)}
    report = {
        "format": FORMAT,
        "collector": VERSION,
        "cluster": options.cluster,
        "node": options.node,
        "sent_at": moment(at),
        "interval_seconds": options.interval,
        "same": same,
        "pods": pods,
    }
    body = json.dumps(report, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
    if len(body) > MAX_REPORT_BYTES:
        raise NotSent(f"the report has {len(body)} bytes; the portal takes {MAX_REPORT_BYTES}")
    return body


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat()  # noqa: UP017 - Python 3.9


# --- sending -------------------------------------------------------------------------------------------


class NotSent(Exception):
    """The portal did not take the report. `wait` is what it asks for, in seconds."""

    def __init__(self, message: str, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """A token goes to the portal that was named and nowhere else."""

    def redirect_request(self, *_arguments: Any) -> None:
        """None: the answer is an error like any other."""


def send(options: argparse.Namespace, body: bytes) -> None:
    """Raises NotSent with what the portal, or the way to it, said."""
    try:
        with open(options.token_file, encoding="ascii") as opened:
            token = opened.read(1000).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise NotSent(f"the token {options.token_file} cannot be read: {error}") from None
    request = urllib.request.Request(  # noqa: S310 - `parse` lets only https through, and http on loopback
        options.portal.rstrip("/") + PATH,
        data=body,
        headers={
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "User-Agent": f"claimdesk-podresources-collector/{VERSION}",
        },
    )
    context = ssl.create_default_context(cafile=options.ca_file or None)
    opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context), NoRedirect)
    try:
        with opener.open(request, timeout=TIMEOUT):
            return
    except urllib.error.HTTPError as error:
        with error:
            said, stated = error.read(10_000), error.headers.get("Retry-After", "")
        wait = min(float(stated), LONGEST_WAIT) if stated.isdigit() else None
        raise NotSent(f"{error.code}: {detail(said) or error.reason}", wait) from None
    except (OSError, ValueError) as error:
        raise NotSent(str(getattr(error, "reason", error))) from None


def detail(problem: bytes) -> str:
    try:
        return str(json.loads(problem).get("detail") or "")
    except (ValueError, AttributeError):
        return ""


def run_once(options: argparse.Namespace) -> int:
    """One report, tried a few times; each time the kubelet is asked anew."""
    wait = FIRST_WAIT
    for attempt in range(1, options.attempts + 1):
        try:
            at = time.time()
            send(options, pack(options, ask(options.socket), at, None))
        except (NotRead, NotSent) as failed:
            log.error("Not sent: %s", failed)  # noqa: TRY400 - a sentence, no traceback
            if attempt < options.attempts:
                time.sleep(getattr(failed, "wait", None) or wait)
                wait = min(2 * wait, LONGEST_WAIT)
        else:
            log.info("Sent.")
            return 0
    return 1


def run(options: argparse.Namespace) -> NoReturn:
    """For ever: send what changed at once, and the same before it is overdue."""
    said: Said | None = None
    sent_at, wait = 0.0, FIRST_WAIT
    # All nodes of a cluster start at once; their reports need not.
    time.sleep(random.uniform(0, options.poll))  # noqa: S311 - it only spreads attempts
    while True:
        pause = float(options.poll)
        try:
            at = time.time()
            pods = ask(options.socket)
            known = said is not None and said.look(pods, at)
            # A second is kept back so that looks which are a little late do not double the interval.
            if not known or time.monotonic() - sent_at >= options.interval - 1:
                send(options, pack(options, pods, at, said))
                said, sent_at, wait = Said(pods, at), time.monotonic(), FIRST_WAIT
                log.info("Sent: %s Pods with devices.", len(pods))
        except NotRead as failed:
            # Nobody looked: what is seen next is not "the same all the time".
            if said is not None:
                said.held = False
            log.error("The kubelet does not answer: %s", failed)  # noqa: TRY400 - a sentence, no traceback
        except NotSent as refused:
            pause = refused.wait or wait * random.uniform(0.5, 1.5)  # noqa: S311 - as above
            wait = min(2 * wait, LONGEST_WAIT)
            log.error("Not sent: %s; next attempt in %.0f s", refused, pause)  # noqa: TRY400 - as above
        time.sleep(pause)


# --- options -------------------------------------------------------------------------------------------


def parse(arguments: list[str] | None) -> argparse.Namespace:
    def env(name: str, default: str | None = None) -> str | None:
        return os.environ.get(f"PODDEVICES_{name}", default)

    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--portal", default=env("PORTAL"), help="address of the portal (https://…)")
    parser.add_argument("--cluster", default=env("CLUSTER"), help="the cluster's name in the portal")
    parser.add_argument("--node", default=env("NODE"), help="this node's name")
    parser.add_argument("--token-file", default=env("TOKEN_FILE"), help="file with the node's token")
    parser.add_argument("--ca-file", default=env("CA_FILE"), help="certificates to trust")
    parser.add_argument("--socket", default=env("SOCKET", SOCKET), help="the kubelet's PodResources socket")
    parser.add_argument("--interval", type=int, default=env("INTERVAL", "300"), help="seconds")
    parser.add_argument("--poll", type=int, default=env("POLL", "10"), help="seconds")
    parser.add_argument("--once", action="store_true", help="send one report and leave")
    parser.add_argument("--attempts", type=int, default=3, help="with --once")
    parser.add_argument("--print", action="store_true", help="print the report instead of sending it")
    options = parser.parse_args(arguments)
    for name in ("cluster", "node", *(() if options.print else ("portal", "token_file"))):
        if not getattr(options, name):
            parser.error(f"--{name.replace('_', '-')} is missing")
    if not 10 <= options.interval <= 86_400 or not 1 <= options.poll <= options.interval:
        parser.error("--interval is between 10 and 86400, --poll between 1 and the interval")
    if not options.print:
        try:
            where = urlsplit(options.portal)
            host = where.hostname
        except ValueError:
            parser.error("--portal is no address")
        # In clear text the token would be everybody's on the way.
        on_loopback = where.scheme == "http" and host in {"127.0.0.1", "::1", "localhost"}
        if where.scheme != "https" and not on_loopback:
            parser.error("--portal begins with https://")
    return options


def main(arguments: list[str] | None = None) -> int:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    options = parse(arguments)
    if options.print:
        try:
            body = pack(options, ask(options.socket), time.time(), None)
        except (NotRead, NotSent) as failed:
            log.error("%s", failed)  # noqa: TRY400 - a sentence, no traceback
            return 1
        sys.stdout.buffer.write(body + b"\n")
        return 0
    return run_once(options) if options.once else run(options)


if __name__ == "__main__":
    sys.exit(main())
