"""The process ``python -m portal.demo``: its sign that it is ready, its kubeconfig, and how it says no."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import urllib3

from portal.stack import free_port
from tests.embedded import EmbeddedCluster

BARE = ("--no-controllers",)


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "portal.demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)


def test_it_says_why_it_cannot_start(tmp_path: Path) -> None:
    cluster = EmbeddedCluster(tmp_path, options=BARE).start()
    try:
        taken = run("--port", str(cluster.port), "--no-controllers")
        shared = run("--data", str(tmp_path / "data"), "--no-controllers")
    finally:
        cluster.stop()
    assert taken.returncode == shared.returncode == 1
    assert "the embedded cluster cannot start" in taken.stderr
    assert "address already in use" in taken.stderr
    assert "another embedded cluster is using" in shared.stderr
    assert "Traceback" not in taken.stderr + shared.stderr


def test_a_fleet_that_is_not_understood_is_an_error_of_usage() -> None:
    refused = run("--fleet", "huge")
    assert refused.returncode == 2
    assert "--fleet" in refused.stderr


def test_parts_and_versions_that_are_not_known_are_errors_of_usage() -> None:
    for option, value in (
        ("--without", "volcano"),
        ("--kubernetes", "1.12"),
        ("--device-class-mapping", "x"),
    ):
        refused = run(option, value)
        assert refused.returncode == 2
        assert option in refused.stderr


def test_a_site_brings_its_own_version(tmp_path: Path) -> None:
    cluster = EmbeddedCluster(tmp_path, fleet="edge", options=(*BARE, "--without", "kueue")).start()
    try:
        config = json.loads(cluster.kubeconfig.read_text())
        headers = {"Authorization": f"Bearer {config['users'][0]['user']['token']}"}
        with urllib3.PoolManager(retries=False, timeout=10, headers=headers) as pool:
            version = json.loads(pool.request("GET", f"{cluster.url}/version").data)
            groups = json.loads(pool.request("GET", f"{cluster.url}/apis").data)["groups"]
    finally:
        cluster.stop()
    assert version["gitVersion"].startswith("v1.34.")
    served = {item["name"]: [entry["version"] for entry in item["versions"]] for item in groups}
    assert served["resource.k8s.io"] == ["v1"]
    assert "kueue.x-k8s.io" not in served


def test_it_serves_https_with_a_certificate_that_the_kubeconfig_trusts(tmp_path: Path) -> None:
    cluster = EmbeddedCluster(tmp_path, options=(*BARE, "--tls", "--port", str(free_port()))).start()
    try:
        config = json.loads(cluster.kubeconfig.read_text())
        assert stat.S_IMODE(cluster.kubeconfig.stat().st_mode) == 0o600
        server = config["clusters"][0]["cluster"]["server"]
        assert server.startswith("https://")
        trusted = tmp_path / "data" / "server.crt"
        with urllib3.PoolManager(ca_certs=str(trusted), retries=False, timeout=10) as pool:
            answer = pool.request("GET", f"{server}/version")
        assert json.loads(answer.data)["gitVersion"].startswith("v1.36")
    finally:
        cluster.stop()
