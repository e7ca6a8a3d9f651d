"""The collector as it runs on nodes: a process between a kubelet's socket and a portal on a real socket."""

import importlib.util
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from django.utils import timezone

from inventory.models import PodDevice
from inventory.podresources import intake, tokens
from inventory.podresources.reports import MAX_DEVICES, decode, sightings_of
from tests.inventory_podresources.conftest import GPU, OTHER_GPU, Issue

grpc: Any = pytest.importorskip("grpc", reason="the collector's image has it")

DEPLOY = Path(__file__).parents[2] / "deploy" / "podresources-collector"
# -I: nothing of this project's environment is there, as on a node.
COMMAND = [sys.executable, "-I", "-B", str(DEPLOY / "pod_devices.py")]


# --- a kubelet, whose messages are written here by hand: the wire format, not the collector's own classes ---


def part(number: int, content: bytes | str) -> bytes:
    """A field with a length: a text or an inner message."""
    raw = content.encode() if isinstance(content, str) else content
    length, size = len(raw), b""
    while length > 0x7F:
        size, length = size + bytes([length & 0x7F | 0x80]), length >> 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + raw


def numa(*nodes: int) -> bytes:
    return part(3, b"".join(part(1, bytes([8, node])) if node else part(1, b"") for node in nodes))


def device(resource: str, *ids: str, near: bytes = b"") -> bytes:
    return part(2, part(1, resource) + b"".join(part(2, one) for one in ids) + near)


def pod(namespace: str, name: str, **containers: bytes) -> bytes:
    # CPUs (3), memory (4) and devices of claims (5) stand beside the devices of plugins and are skipped.
    beside = bytes([3 << 3, 7]) + part(4, part(1, "memory")) + part(5, part(2, "claim"))
    inner = (part(3, part(1, found) + had + beside) for found, had in containers.items())
    return part(1, part(1, name) + part(2, namespace) + b"".join(inner))


ANSWER = (
    pod("kube-system", "dns", main=b"")
    + pod(
        "team", "train-0",
        main=device("nvidia.com/gpu", OTHER_GPU, near=numa(1)) + device("nvidia.com/gpu", GPU, near=numa(0)),
        sidecar=device("example.com/nic", "0000:0b:00.0"),
    )
)  # fmt: skip


class Kubelet:
    """Answers List with what `answer` is at the time."""

    def __init__(self, socket: Path) -> None:
        self.socket, self.answer, self.asked = socket, ANSWER, list[bytes]()
        handler = grpc.unary_unary_rpc_method_handler(self._list)
        service = grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": handler})
        self.server = grpc.server(ThreadPoolExecutor(2))
        self.server.add_generic_rpc_handlers((service,))
        self.server.add_insecure_port(f"unix://{socket}")

    def _list(self, request: bytes, _context: Any) -> bytes:
        self.asked.append(request)
        return self.answer


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    made = Kubelet(tmp_path / "kubelet.sock")
    made.server.start()
    yield made
    made.server.stop(grace=None).wait()


def run(socket: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
    named = ["--cluster", "berlin", "--node", "gpu-01", "--socket", str(socket)]
    return subprocess.run([*COMMAND, *named, *options], capture_output=True, timeout=60, check=False, env={})


# --- what it reads -----------------------------------------------------------------------------------


@pytest.mark.nodatabase
def test_devices_of_plugins_are_told_and_nothing_else(kubelet: Kubelet) -> None:
    printed = run(kubelet.socket, "--print")
    assert printed.returncode == 0, printed.stderr
    told = json.loads(printed.stdout)
    assert told["pods"] == [
        {
            "namespace": "team",
            "name": "train-0",
            "containers": [
                {
                    "name": "main",
                    "devices": [
                        {"resource": "nvidia.com/gpu", "ids": [GPU], "numa": [0]},
                        {"resource": "nvidia.com/gpu", "ids": [OTHER_GPU], "numa": [1]},
                    ],
                },
                {
                    "name": "sidecar",
                    "devices": [{"resource": "example.com/nic", "ids": ["0000:0b:00.0"], "numa": []}],
                },
            ],
        }
    ]
    # The request has no fields; what the portal takes in is what the collector makes.
    assert kubelet.asked == [b""]
    assert len(sightings_of(decode(printed.stdout))) == 3


@pytest.mark.nodatabase
def test_a_device_near_to_several_numa_nodes_and_pods_told_twice_are_one(kubelet: Kubelet) -> None:
    once = pod("team", "a", main=device("r.org/x", "d", near=numa(0)) + device("r.org/x", "d", near=numa(1)))
    kubelet.answer = once + once
    (found,) = json.loads(run(kubelet.socket, "--print").stdout)["pods"]
    assert found["containers"][0]["devices"] == [{"resource": "r.org/x", "ids": ["d"], "numa": [0, 1]}]


@pytest.mark.nodatabase
def test_a_kubelet_that_does_not_answer_gives_no_report(tmp_path: Path) -> None:
    printed = run(tmp_path / "none.sock", "--print")
    assert (printed.returncode, printed.stdout) == (1, b"")
    assert b"none.sock: UNAVAILABLE" in printed.stderr


@pytest.mark.nodatabase
def test_an_answer_that_is_none_gives_no_report(kubelet: Kubelet) -> None:
    kubelet.answer = b"\xff\xff\xff"
    printed = run(kubelet.socket, "--print")
    assert (printed.returncode, printed.stdout) == (1, b"")


# --- how it is delivered -----------------------------------------------------------------------------

Take = Callable[[str, bytes], int]


@contextmanager
def portal(take: Take) -> Iterator[str]:
    """Takes bodies with their tokens; the test's thread is the only one that touches the database."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(take(self.headers["Authorization"], body))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_arguments: Any) -> None:
            """Nothing: the test's output is its own."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join(30)
        server.server_close()


def test_from_the_kubelet_to_the_desk(kubelet: Kubelet, issue: Issue, tmp_path: Path) -> None:
    _token, plain = issue()
    (tmp_path / "token").write_text(f"{plain}\n")
    got: list[tuple[str, bytes]] = []

    def take(authorization: str, body: bytes) -> int:
        got.append((authorization, body))
        return 200

    with portal(take) as address:
        sent = run(kubelet.socket, "--portal", address, "--token-file", str(tmp_path / "token"), "--once")
    assert sent.returncode == 0, sent.stderr
    assert plain.encode() not in sent.stderr
    ((authorization, body),) = got
    token = tokens.find(authorization.removeprefix("Bearer "), now=timezone.now())
    assert token is not None
    intake.accept(token=token, body=body, now=timezone.now())
    assert set(PodDevice.objects.values_list("hardware_id", flat=True)) == {
        GPU, OTHER_GPU, "gpu-01/0000:0b:00.0",
    }  # fmt: skip


@pytest.mark.nodatabase
def test_a_refusal_is_told_and_ends_with_1(kubelet: Kubelet, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("pdnode_x")
    with portal(lambda _authorization, _body: 409) as address:
        options = ("--portal", address, "--token-file", str(tmp_path / "token"), "--once", "--attempts", "1")
        sent = run(kubelet.socket, *options)
    assert sent.returncode == 1
    assert b"Not sent: 409" in sent.stderr


@pytest.mark.nodatabase
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--portal", "http://desk.example.org", "--token-file", "t"], b"begins with https://"),
        (["--portal", "https://desk.example.org"], b"--token-file is missing"),
        (["--print", "--interval", "5"], b"--interval is between 10 and 86400"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: list[str], said: bytes) -> None:
    tried = run(tmp_path / "s", *options)
    assert tried.returncode == 2
    assert said in tried.stderr


@pytest.fixture(scope="module")
def collector() -> ModuleType:
    spec = importlib.util.spec_from_file_location("podresources_collect", DEPLOY / "pod_devices.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.nodatabase
def test_what_was_different_once_was_not_the_same_all_the_time(collector: ModuleType) -> None:
    said = collector.Said([{"name": "a"}], 100.0)
    assert said.look([{"name": "a"}], 110.0)
    assert not said.look([], 120.0)
    assert not said.look([{"name": "a"}], 130.0)
    assert said.until == 110.0
    # A clock that was put back proves nothing.
    assert not collector.Said([], 100.0).look([], 90.0)


@pytest.mark.nodatabase
def test_a_report_that_is_too_large_is_not_cut(collector: ModuleType) -> None:
    options = collector.parse(["--cluster", "berlin", "--node", "gpu-01", "--print"])
    devices = [
        {"resource": "nvidia.com/gpu", "ids": [f"{GPU}::{n}" for n in range(3 * MAX_DEVICES)], "numa": []}
    ]
    pods = [{"namespace": "a", "name": "b", "containers": [{"name": "c", "devices": devices}]}]
    with pytest.raises(collector.NotSent, match="the portal takes"):
        collector.pack(options, pods, 1.0, None)


# --- how it is deployed ------------------------------------------------------------------------------


@pytest.mark.nodatabase
def test_the_manifest_gives_it_the_socket_and_nothing_else() -> None:
    *_others, daemon = yaml.safe_load_all((DEPLOY / "daemonset.yaml").read_text())
    pod_spec = daemon["spec"]["template"]["spec"]
    assert [v["hostPath"]["path"] for v in pod_spec["volumes"] if "hostPath" in v] == [
        "/var/lib/kubelet/pod-resources"
    ]
    (container,) = pod_spec["containers"]
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert pod_spec["automountServiceAccountToken"] is False
    assert "hostNetwork" not in pod_spec
    told = {variable["name"].removeprefix("PODDEVICES_") for variable in container["env"]}
    assert told == {"PORTAL", "CLUSTER", "NODE", "TOKEN_FILE", "INTERVAL"}


@pytest.mark.nodatabase
def test_the_kustomization_names_what_is_there() -> None:
    told = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())
    objects = [o for name in told["resources"] for o in yaml.safe_load_all((DEPLOY / name).read_text())]
    named = {o["metadata"]["name"] for o in objects if o["kind"] == "Namespace"}
    assert named == {told["namespace"]}
    assert {o["metadata"].get("namespace", told["namespace"]) for o in objects} == named
    (daemon,) = [o for o in objects if o["kind"] == "DaemonSet"]
    template = daemon["spec"]["template"]
    (policy,) = [o for o in objects if o["kind"] == "NetworkPolicy"]
    assert policy["spec"]["podSelector"]["matchLabels"].items() <= template["metadata"]["labels"].items()
    (script,) = [v["configMap"]["name"] for v in template["spec"]["volumes"] if "configMap" in v]
    assert [script] == [entry["name"] for entry in told["configMapGenerator"]]
    assert all((DEPLOY / file).is_file() for entry in told["configMapGenerator"] for file in entry["files"])
    assert [c["image"] for c in template["spec"]["containers"]] == [image["name"] for image in told["images"]]


@pytest.mark.nodatabase
def test_what_the_image_has_is_what_is_tried_here() -> None:
    pins = [
        line.split()[0]
        for line in (DEPLOY / "requirements.txt").read_text().splitlines()
        if line[:1].isalpha()
    ]
    assert [pin.partition("==")[0] for pin in pins] == ["grpcio", "protobuf", "typing-extensions"]
    assert "--require-hashes" in (DEPLOY / "Dockerfile").read_text()
