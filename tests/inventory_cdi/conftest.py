"""A node with a token, and reports as the collector makes them."""

import hashlib
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from inventory.cdi import tokens
from inventory.models import CdiNode, CdiToken, Cluster
from tests.inventory_pages.conftest import cast, cluster

__all__ = ["cast", "cluster"]

CLAIM = "0f5c2f3e-5a0b-4f7e-9c55-2c5f0d6f9b11"
OTHER_CLAIM = "7b0d9a52-9d55-4e0a-8f3e-6b6d6f0a1c22"


def spec(
    *devices: str, kind: str = "k8s.gpu.nvidia.com/device", version: str = "0.6.0", **more: Any
) -> dict[str, Any]:
    """A valid spec that names these devices."""
    return {
        "cdiVersion": version,
        "kind": kind,
        "devices": [
            {"name": name, "containerEdits": {"deviceNodes": [{"path": f"/dev/{name}"}]}} for name in devices
        ],
        **more,
    }


def spec_file(name: str, content: Any, **fields: Any) -> dict[str, Any]:
    """A file of a report; `content` is text, a spec, or None for a file that was not read."""
    text = json.dumps(content) if isinstance(content, dict) else content
    raw = (text or "").encode("utf-8", "surrogatepass")
    made = {
        "directory": "/var/run/cdi",
        "name": name,
        "uid": 0,
        "gid": 0,
        "mode": 0o644,
        "size": len(raw),
        "modified_at": (timezone.now() - timedelta(hours=1)).isoformat(),
        "sha256": hashlib.sha256(raw).hexdigest() if text is not None else "",
        "content": text,
    }
    return made | fields


def report(
    *files: dict[str, Any], node: str = "gpu-01", sent_at: datetime | None = None, **more: Any
) -> bytes:
    """The body of a report of a node whose containerd reads CDI specs."""
    made = {
        "format": 1,
        "cluster": "berlin",
        "node": node,
        "sent_at": (sent_at or timezone.now()).isoformat(),
        "interval_seconds": 600,
        "collector": "test",
        "directories": [
            {"path": "/etc/cdi", "state": "read", "uid": 0, "gid": 0, "mode": 0o755},
            {"path": "/var/run/cdi", "state": "read", "uid": 0, "gid": 0, "mode": 0o755},
        ],
        "files": list(files),
        "runtime": {"name": "containerd", "version": "2.1.4", "sources": ["/etc/containerd/config.toml"]},
    }
    return json.dumps(made | more).encode()


Issue = Callable[..., tuple[CdiToken, str]]


@pytest.fixture
def issue(cluster: Cluster) -> Issue:
    """Issues a token: ``issue("gpu-01")``."""

    def make(name: str = "gpu-01", **fields: Any) -> tuple[CdiToken, str]:
        return tokens.issue(cluster=cluster, node_name=name, actor=None, **({"now": timezone.now()} | fields))

    return make


@pytest.fixture
def token(issue: Issue) -> CdiToken:
    return issue()[0]


def fresh(token: CdiToken) -> CdiNode:
    """The token's node as it is in the database now."""
    return CdiNode.objects.get(pk=token.node_id)
