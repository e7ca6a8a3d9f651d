"""A node with a token, Pods that the mirror has on it, and reports as the collector makes them."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from inventory.models import Cluster, Pod, PodDeviceNode, PodDeviceToken
from inventory.podresources import tokens
from tests.inventory_pages.conftest import cast, cluster, project

__all__ = ["cast", "cluster", "project"]

GPU = "GPU-8a10b6f7-6e0c-4b53-9d3a-0d1f6f7f8a11"
OTHER_GPU = "GPU-5b1f0c9e-1f5b-4c3e-8d2b-7a6c5d4e3f21"


def pod_devices(
    pod: str, *ids: str, namespace: str = "team", resource: str = "nvidia.com/gpu", **more: Any
) -> Any:
    """A Pod of a report whose container "main" has these devices."""
    devices = [{"resource": resource, "ids": list(ids), "numa": [0]}]
    made = {"namespace": namespace, "name": pod, "containers": [{"name": "main", "devices": devices}]}
    return made | more


def report(*pods: Any, node: str = "gpu-01", sent_at: datetime | None = None, **more: Any) -> bytes:
    """The body of a report."""
    made = {
        "format": 1,
        "cluster": "berlin",
        "node": node,
        "sent_at": (sent_at or timezone.now()).isoformat(),
        "interval_seconds": 300,
        "collector": "test",
        "pods": list(pods),
    }
    return json.dumps(made | more).encode()


def mirror_pod(cluster: Cluster, name: str, uid: str, *, created_at: datetime, **fields: Any) -> Pod:
    """A Pod with a GPU of a Device Plugin, as the mirror has it."""
    defaults = {
        "namespace": "team",
        "resource_version": "1",
        "phase": "Running",
        "node_name": "gpu-01",
        "extended_resources": {"nvidia.com/gpu": 1},
    }
    return Pod.objects.create(
        cluster=cluster, name=name, uid=uid, created_at=created_at, **(defaults | fields)
    )


Issue = Callable[..., tuple[PodDeviceToken, str]]


@pytest.fixture
def issue(cluster: Cluster) -> Issue:
    """Issues a token: ``issue("gpu-01")``."""

    def make(name: str = "gpu-01", **fields: Any) -> tuple[PodDeviceToken, str]:
        return tokens.issue(cluster=cluster, node_name=name, actor=None, **({"now": timezone.now()} | fields))

    return make


@pytest.fixture
def token(issue: Issue) -> PodDeviceToken:
    return issue()[0]


def fresh(token: PodDeviceToken) -> PodDeviceNode:
    """The token's node as it is in the database now."""
    return PodDeviceNode.objects.get(pk=token.node_id)


def seconds(number: float) -> timedelta:
    return timedelta(seconds=number)
