"""The collector as it runs on nodes: a process over a tree of files, against a portal on a real socket."""

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from inventory.cdi import intake, tokens
from inventory.cdi.facts import judge_nodes
from inventory.models import CdiNode, CdiToken
from tests.inventory_cdi.conftest import CLAIM, Issue, spec

DEPLOY = Path(__file__).parents[2] / "deploy" / "cdi-collector"
# -I: nothing of this project's environment is there, as on a node.
COMMAND = [sys.executable, "-I", "-B", str(DEPLOY / "collect.py")]
BASE = spec("gpu-0", "gpu-1")
CLAIM_FILE = f"k8s.gpu.nvidia.com-claim_{CLAIM}.yaml"


class Host:
    """A node's files below a root directory."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, content: str | bytes | dict[str, Any], mode: int = 0o644) -> Path:
        here = self.root / path.lstrip("/")
        here.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, dict):
            content = json.dumps(content)
        here.write_bytes(content.encode() if isinstance(content, str) else content)
        here.chmod(mode)
        return here

    def run(self, *options: str, node: str = "gpu-01") -> subprocess.CompletedProcess[bytes]:
        command = [*COMMAND, "--cluster", "berlin", "--node", node, "--root", str(self.root), *options]
        return subprocess.run(command, capture_output=True, timeout=50, check=False, env={})

    def report(self, *options: str) -> dict[str, Any]:
        """What it would send."""
        run = self.run("--print", *options)
        assert run.returncode == 0, run.stderr
        assert len(run.stdout) <= intake.MAX_REPORT_BYTES + 1
        # What the portal takes in is what the collector makes.
        intake.decode(run.stdout)
        found: dict[str, Any] = json.loads(run.stdout)
        return found

    def files(self, *options: str) -> dict[str, dict[str, Any]]:
        return {file["name"]: file for file in self.report(*options)["files"]}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    made = Host(tmp_path / "host")
    made.root.mkdir()
    return made


# --- what it reads -----------------------------------------------------------------------------------


@pytest.mark.nodatabase
def test_files_with_owner_mode_size_and_checksum(host: Host) -> None:
    path = host.write("/etc/cdi/vendor.json", BASE, mode=0o640)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    found = host.report()
    text = path.read_text()
    assert found["files"] == [
        {
            "directory": "/etc/cdi",
            "name": "vendor.json",
            "uid": os.getuid(),
            "gid": os.getgid(),
            "mode": 0o640,
            "size": len(text),
            "modified_at": "2023-11-14T22:13:20+00:00",
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
            "content": text,
            "unread": "",
        }
    ]
    assert [(d["path"], d["state"]) for d in found["directories"]] == [
        ("/etc/cdi", "read"),
        ("/var/run/cdi", "missing"),
    ]


@pytest.mark.nodatabase
def test_only_spec_files_are_reported(host: Host) -> None:
    for name in ("a.json", "b.yaml", "c.yml", "d.txt", ".swp", "readme"):
        host.write(f"/etc/cdi/{name}", "x")
    (host.root / "etc/cdi/sub").mkdir()
    host.write("/etc/cdi/sub/e.json", "x")
    assert list(host.files()) == ["a.json", "b.yaml", "c.yml"]


@pytest.mark.nodatabase
def test_no_link_leads_out_of_the_directory(host: Host, tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text("secret")
    host.write("/etc/shadow.json", "secret")
    host.write("/etc/cdi/real.json", BASE)
    here = host.root / "etc/cdi"
    (here / "absolute.json").symlink_to(tmp_path / "secret.json")
    (here / "upwards.json").symlink_to("../shadow.json")
    (here / "beside.json").symlink_to("real.json")
    (here / "chain.json").symlink_to("upwards.json")
    (here / "loop.json").symlink_to("loop.json")
    (here / "dangling.json").symlink_to("nothing.json")
    found = host.files()
    assert "secret" not in json.dumps([file["content"] for file in found.values()])
    assert {name: file["unread"] for name, file in found.items()} == {
        "absolute.json": "symlink",
        "beside.json": "",
        "chain.json": "symlink",
        "dangling.json": "vanished",
        "loop.json": "symlink",
        "real.json": "",
        "upwards.json": "symlink",
    }


@pytest.mark.nodatabase
def test_no_directory_leads_out_of_the_root(host: Host, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "a.json").write_text("secret")
    (host.root / "etc").mkdir()
    (host.root / "etc/cdi").symlink_to(outside)
    found = host.report()
    assert found["directories"][0]["state"] == "unreadable"
    assert found["files"] == []


@pytest.mark.nodatabase
def test_what_is_no_text_or_no_file_is_reported_unread(host: Host) -> None:
    host.write("/etc/cdi/binary.json", b"\x7fELF\xff\xfe")
    host.write("/etc/cdi/nul.json", b"{}\0")
    host.write("/etc/cdi/large.json", b"x" * (256 * 1024 + 1))
    os.mkfifo(host.root / "etc/cdi/pipe.json")
    (host.root / "etc/cdi/folder.json").mkdir()
    assert {name: file["unread"] for name, file in host.files().items()} == {
        "binary.json": "binary",
        "folder.json": "not-a-file",
        "large.json": "too-large",
        "nul.json": "binary",
        "pipe.json": "not-a-file",
    }


@pytest.mark.nodatabase
def test_names_that_are_no_text_are_reported_apart(host: Host) -> None:
    host.write("/etc/cdi/plain.json", BASE)
    for raw in (b"\xff.json", b"\xfe.json"):
        (host.root / "etc/cdi" / os.fsdecode(raw)).write_text("{}")
    assert sorted(host.files()) == ["\\xfe.json", "\\xff.json", "plain.json"]


@pytest.mark.nodatabase
def test_a_report_is_never_larger_than_the_portal_takes(host: Host) -> None:
    for number in range(8):
        # Quotation marks double in JSON.
        host.write(f"/etc/cdi/{number}.json", '"' * 200_000)
    host.write("/etc/cdi/small.json", BASE)
    found = host.files()
    assert found["small.json"]["content"]
    assert {file["unread"] for file in found.values()} == {"", "not-sent"}


@pytest.mark.nodatabase
def test_files_beyond_a_thousand_are_counted(host: Host) -> None:
    for number in range(1_100):
        host.write(f"/etc/cdi/{number:04d}.json", "{}")
    found = host.report()
    assert (len(found["files"]), found["files_left_out"]) == (1_000, 100)


# --- the container runtime ---------------------------------------------------------------------------

V2 = """version = 2
[plugins."io.containerd.grpc.v1.cri"]
  enable_cdi = true # since 1.7
  cdi_spec_dirs = ["/etc/cdi", "/run/cdi"]
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.nvidia.options]
    BinaryName = "/usr/bin/nvidia-container-runtime"
"""
V3 = """version = 3
imports = ["conf.d/*.toml", "/etc/shadow"]
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
"""


def runtime(host: Host, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = host.report(*options)["runtime"]
    return found


@pytest.mark.nodatabase
def test_containerds_setting(host: Host) -> None:
    host.write("/etc/containerd/config.toml", V2)
    assert runtime(host) == {
        "name": "containerd",
        "version": "",
        "config_version": 2,
        "enable_cdi": True,
        "spec_dirs": ["/etc/cdi", "/run/cdi"],
        "handlers": ["nvidia", "runc"],
        "sources": ["/etc/containerd/config.toml"],
    }


@pytest.mark.nodatabase
def test_imported_files_have_the_last_word(host: Host) -> None:
    host.write("/etc/containerd/config.toml", V3)
    host.write(
        "/etc/containerd/conf.d/99-cdi.toml", "[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\n"
    )
    found = runtime(host)
    assert (found["config_version"], found["enable_cdi"]) == (3, False)
    assert found["sources"] == ["/etc/containerd/config.toml", "/etc/containerd/conf.d/99-cdi.toml"]


@pytest.mark.nodatabase
@pytest.mark.parametrize("broken", ["this is = = no TOML\n" + V2, V2 + "[[[\n", V2 + "a = {{ template }}\n"])
def test_a_setting_is_found_in_files_that_are_no_valid_toml(host: Host, broken: str) -> None:
    host.write("/etc/containerd/config.toml", broken)
    found = runtime(host)
    assert (found["enable_cdi"], found["spec_dirs"]) == (True, ["/etc/cdi", "/run/cdi"])
    assert "runc" in found["handlers"]


# A file of each distribution, and the variant of the manifest that mounts it.
LAYOUTS = {
    "k3s": "/var/lib/rancher/k3s/agent/etc/containerd/config.toml",
    "rke2": "/var/lib/rancher/rke2/agent/etc/containerd/config.toml",
    "microk8s": "/var/snap/microk8s/current/args/containerd.toml",
    "k0s": "/etc/k0s/containerd.toml",
    "talos": "/etc/cri/containerd.toml",
}


@pytest.mark.nodatabase
@pytest.mark.parametrize("layout", LAYOUTS)
def test_distributions_have_their_configuration_in_places_of_their_own(host: Host, layout: str) -> None:
    host.write(LAYOUTS[layout], V2)
    # Docker's containerd beside it says nothing about Pods.
    host.write("/etc/containerd/config.toml", "version = 3\ndisabled_plugins = ['cri']\nenable_cdi = false\n")
    found = runtime(host)
    assert (found["name"], found["config_version"], found["enable_cdi"]) == ("containerd", 2, True)
    assert found["sources"] == [LAYOUTS[layout]]


@pytest.mark.nodatabase
def test_k3s_has_pieces_in_a_directory_that_its_configuration_imports(host: Host) -> None:
    there = "/var/lib/rancher/k3s/agent/etc/containerd"
    host.write(f"{there}/config.toml", f'version = 3\nimports = ["{there}/config-v3.toml.d/*.toml"]\n')
    host.write(
        f"{there}/config-v3.toml.d/10-cdi.toml",
        "[plugins.'io.containerd.cri.v1.runtime']\nenable_cdi = false\ncdi_spec_dirs = ['/var/lib/cdi']\n",
    )
    host.write("/var/lib/cdi/vendor.json", BASE)
    found = host.report()
    assert found["runtime"]["enable_cdi"] is False
    assert found["runtime"]["sources"] == [f"{there}/config.toml", f"{there}/config-v3.toml.d/10-cdi.toml"]
    # What the runtime looks at is looked at.
    assert [(d["path"], d["state"]) for d in found["directories"]][-1] == ("/var/lib/cdi", "read")
    assert [file["name"] for file in found["files"]] == ["vendor.json"]


@pytest.mark.nodatabase
def test_microk8s_points_to_its_present_revision(host: Host) -> None:
    host.write("/var/snap/microk8s/7394/args/containerd.toml", V2)
    (host.root / "var/snap/microk8s/current").symlink_to("7394")
    assert runtime(host)["sources"] == [LAYOUTS["microk8s"]]


@pytest.mark.nodatabase
def test_a_place_that_is_named_is_the_only_one(host: Host) -> None:
    host.write(LAYOUTS["k3s"], V2)
    host.write("/opt/containerd.toml", "version = 3\n")
    assert runtime(host, "--containerd-config", "/opt/*.toml")["sources"] == ["/opt/containerd.toml"]


@pytest.mark.nodatabase
def test_one_directory_under_two_names_is_reported_once(host: Host) -> None:
    host.write("/etc/containerd/config.toml", V2)
    host.write("/var/run/cdi/a.json", BASE)
    assert [d["path"] for d in host.report()["directories"]] == ["/etc/cdi", "/var/run/cdi"]
    named = host.report("--spec-dir", "/run/cdi")["directories"]
    assert [d["path"] for d in named] == ["/run/cdi"]


@pytest.mark.nodatabase
def test_crios_setting(host: Host) -> None:
    host.write("/etc/crio/crio.conf.d/10-cdi.conf", '[crio.runtime]\ncdi_spec_dirs = ["/opt/cdi"]\n')
    found = runtime(host)
    assert (found["name"], found["spec_dirs"], found["enable_cdi"]) == ("cri-o", ["/opt/cdi"], None)


@pytest.mark.nodatabase
def test_of_two_configured_runtimes_neither_is_guessed(host: Host) -> None:
    host.write("/etc/containerd/config.toml", V2)
    host.write("/etc/crio/crio.conf", "")
    assert runtime(host)["name"] == ""
    assert runtime(host, "--runtime", "containerd")["enable_cdi"] is True


@pytest.mark.nodatabase
@pytest.mark.parametrize(
    ("script", "version"),
    [
        ("echo containerd github.com/containerd/containerd/v2 v2.1.4 abc", "2.1.4"),
        ("exit 1", ""),
        ("echo nothing", ""),
    ],
)
def test_the_version_is_asked_where_it_can_be(host: Host, script: str, version: str) -> None:
    host.write("/etc/containerd/config.toml", V2)
    host.write("/usr/bin/containerd", f"#!/bin/sh\n{script}\n", mode=0o755)
    assert runtime(host)["version"] == version


# --- sending -----------------------------------------------------------------------------------------

Send = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def send(host: Host, live_server: Any, tmp_path: Path) -> Send:
    """Runs the collector once against the portal: ``send("the token", "--attempts", "1")``."""

    def run(token: str, *options: str, node: str = "gpu-01") -> subprocess.CompletedProcess[bytes]:
        path = tmp_path / "token"
        path.write_text(token + "\n")
        where = ["--portal", live_server.url, "--token-file", str(path), "--once"]
        return host.run(*where, *options, node=node)

    return run


@pytest.mark.django_db(transaction=True)
def test_a_node_reports_and_is_judged(host: Host, send: Send, issue: Issue) -> None:
    host.write("/etc/cdi/base.yaml", BASE)
    host.write(f"/var/run/cdi/{CLAIM_FILE}", spec(f"{CLAIM}-gpu-0", kind="k8s.gpu.nvidia.com/claim"), 0o666)
    host.write("/var/run/cdi/broken.yaml", "a: &a\n- *a\n")
    host.write("/etc/containerd/config.toml", V2.replace("true", "false"))
    token, plain = issue()
    run = send(plain, "--runtime-version", "1.7.22")
    assert run.returncode == 0, run.stderr
    node = CdiNode.objects.get()
    assert node.received_at is not None
    assert sorted(node.files.values_list("name", "valid", "claim_uid")) == [
        ("base.yaml", True, ""),
        ("broken.yaml", False, ""),
        (CLAIM_FILE, True, CLAIM),
    ]
    found = {f.code for f in judge_nodes([node], now=node.received_at)[0].verdict.findings}
    assert {"runtime-off", "writable", "invalid-spec"} <= found
    assert CdiToken.objects.get(pk=token.pk).last_used_at is not None


@pytest.mark.django_db(transaction=True)
def test_a_change_is_reported(host: Host, send: Send, issue: Issue) -> None:
    _token, plain = issue()
    path = host.write("/etc/cdi/base.yaml", BASE)
    assert send(plain).returncode == 0
    path.unlink()
    # The portal asks for a moment between two reports; the collector waits for it.
    assert send(plain).returncode == 0
    assert not CdiNode.objects.get().files.exists()


@pytest.mark.django_db(transaction=True)
def test_the_token_of_another_node_is_refused(host: Host, send: Send, issue: Issue) -> None:
    _token, plain = issue("gpu-02")
    run = send(plain, "--attempts", "1")
    assert run.returncode == 1
    assert b"403: This token is of another node" in run.stderr
    assert plain.encode() not in run.stderr
    assert CdiNode.objects.get().received_at is None


@pytest.mark.django_db(transaction=True)
def test_a_revoked_token_is_refused(send: Send, issue: Issue) -> None:
    token, plain = issue()
    tokens.revoke(token=token, actor=None, now=token.created_at)
    run = send(plain, "--attempts", "1")
    assert (run.returncode, b"401" in run.stderr) == (1, True)


@contextmanager
def portal(answers: list[tuple[int, dict[str, str]]]) -> Iterator[tuple[str, list[bytes]]]:
    """A server that answers as told, and the Authorization headers that it was sent."""
    heard: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            heard.append(self.headers.get("Authorization", "").encode())
            status, headers = answers.pop(0)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST  # noqa: N815 - the name that http.server looks for

        def log_message(self, *_arguments: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def once(host: Host, url: str, *options: str) -> subprocess.CompletedProcess[bytes]:
    path = host.write("/token", "cdnode_x")
    return host.run("--portal", url, "--token-file", str(path), "--once", *options)


@pytest.mark.nodatabase
def test_it_tries_again(host: Host) -> None:
    with portal([(503, {"Retry-After": "1"}), (200, {})]) as (url, heard):
        assert once(host, url).returncode == 0
    assert heard == [b"Bearer cdnode_x"] * 2


@pytest.mark.nodatabase
def test_the_token_follows_no_redirect(host: Host) -> None:
    with portal([]) as (elsewhere, stolen), portal([(302, {"Location": elsewhere})]) as (url, heard):
        assert once(host, url, "--attempts", "1").returncode == 1
    assert (len(heard), stolen) == (1, [])


@pytest.mark.nodatabase
def test_the_token_never_travels_in_clear_text(host: Host) -> None:
    run = once(host, "http://desk.example.org")
    assert (run.returncode, b"https://" in run.stderr) == (2, True)


@pytest.mark.nodatabase
def test_it_reports_changes_for_ever_and_leaves_when_told(host: Host) -> None:
    path = host.write("/token", "cdnode_x")
    with portal([(200, {})] * 2) as (url, heard):
        options = ["--cluster", "a", "--node", "b", "--root", str(host.root), "--portal", url, "--poll", "1"]
        command = [*COMMAND, *options, "--token-file", str(path)]
        with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
            assert process.stderr is not None
            assert process.stderr.readline() == b"Sent: 0 files.\n"
            host.write("/etc/cdi/base.yaml", BASE)
            assert process.stderr.readline() == b"Sent: 1 files.\n"
            process.terminate()
            assert process.wait(10) == 0
    assert len(heard) == 2


# --- the manifest ------------------------------------------------------------------------------------


@pytest.mark.nodatabase
def test_the_manifest_gives_the_collector_no_more_than_it_needs() -> None:
    objects = list(yaml.safe_load_all((DEPLOY / "daemonset.yaml").read_text()))
    by_kind = {found["kind"]: found for found in objects}
    assert set(by_kind) == {"Namespace", "ServiceAccount", "DaemonSet"}
    pod = by_kind["DaemonSet"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    assert pod["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert all(mount["readOnly"] is True for mount in container["volumeMounts"])
    assert container["resources"]["limits"]
    secret = next(v["secret"] for v in pod["volumes"] if "secret" in v)
    assert secret == {"secretName": "cdi-tokens", "defaultMode": 0o400}
    # Every option that the manifest sets is one that the collector reads.
    script = (DEPLOY / "collect.py").read_text()
    assert all(f'"{variable["name"]}"' in script for variable in container["env"])


@pytest.mark.nodatabase
def test_nothing_comes_in_and_only_names_and_reports_go_out() -> None:
    told = yaml.safe_load((DEPLOY / "kustomization.yaml").read_text())
    objects = [o for name in told["resources"] for o in yaml.safe_load_all((DEPLOY / name).read_text())]
    (daemon,) = (o for o in objects if o["kind"] == "DaemonSet")
    (policy,) = (o["spec"] for o in objects if o["kind"] == "NetworkPolicy")
    labels = daemon["spec"]["template"]["metadata"]["labels"]
    assert policy["podSelector"]["matchLabels"].items() <= labels.items()
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in policy
    assert {port["port"] for rule in policy["egress"] for port in rule["ports"]} == {53, 443}


@pytest.mark.nodatabase
@pytest.mark.parametrize("variant", LAYOUTS)
def test_a_variant_mounts_what_its_distribution_has(variant: str) -> None:
    found = yaml.safe_load(
        (DEPLOY.with_name("cdi-collector-variants") / variant / "kustomization.yaml").read_text()
    )
    assert found["resources"] == ["../../cdi-collector"]
    (patch,) = found["patches"]
    made = yaml.safe_load(patch["patch"])
    assert (made["kind"], made["metadata"]["name"]) == ("DaemonSet", "cdi-collector")
    pod = made["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod["volumes"]}
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    assert mounts.keys() == paths.keys()
    for name, mount in mounts.items():
        assert mount == {"name": name, "mountPath": f"/host{paths[name]}", "readOnly": True}
    assert any(f"{LAYOUTS[variant]}/".startswith(f"{path}/") for path in paths.values())
    for variable in container.get("env", []):
        named = set(variable["value"].split(":"))
        base = yaml.safe_load_all((DEPLOY / "daemonset.yaml").read_text())
        pods = [o["spec"]["template"]["spec"] for o in base if o["kind"] == "DaemonSet"]
        mounted = {v["hostPath"]["path"] for p in pods for v in p["volumes"] if "hostPath" in v}
        assert named <= mounted | set(paths.values())
