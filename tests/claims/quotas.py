"""Quotas and what they count, for tests."""

from datetime import timedelta
from typing import Any

from claims.models import Allocation, Flavor, Quota, Request
from inventory.models import Cluster
from portal.accounts.models import Project
from tests.claims.conftest import NOW


def quota(project: Project, limit: str = "2", **columns: Any) -> Quota:
    """At most so many devices at once, of everything; more is refused."""
    values: dict[str, Any] = {
        "kind": Quota.Kind.DEVICES,
        "action": Quota.Action.BLOCK,
        "valid_from": NOW - timedelta(days=60),
        "created_at": NOW,
        "changed_at": NOW,
    }
    return Quota.objects.create(project=project, limit=limit, **values | columns)


def held(
    project: Project, cluster: Cluster, device: str = "gpu-0", request: Request | None = None, **columns: Any
) -> Allocation:
    """An H100 that the project has had for two hours, and has still."""
    values: dict[str, Any] = {
        "namespace": project.slug,
        "claim_name": "c",
        "claim_uid": f"claim-{device}",
        "epoch": 1,
        "driver": "gpu.nvidia.com",
        "pool_name": "node-h100",
        "device_name": device,
        "request_name": "accelerator",
        "device_class": "h100",
        "product": "H100",
        "capacity": {"gpu.nvidia.com/memory": {"value": "80Gi"}},
        "started_at": NOW - timedelta(hours=2),
        "start_source": "observed",
    }
    return Allocation.objects.create(cluster=cluster, project=project, request=request, **values | columns)


def asked(
    project: Project, cluster: Cluster, *, count: int = 1, flavor: Flavor | None = None, **columns: Any
) -> Request:
    """An active request, as stored."""
    number = Request.objects.count()
    values: dict[str, Any] = {
        "namespace": project.slug,
        "device_class": "h100",
        "shape": Request.Shape.CLAIM,
        "duration": timedelta(hours=24),
        "purpose": "x",
        "state": Request.State.WAITING_FOR_POD,
        "object_name": f"{project.slug}-{number}",
        "created_at": NOW + timedelta(minutes=number),
        "changed_at": NOW,
    }
    requester = columns.pop("requester", None) or project.memberships.order_by("pk")[0].user
    return Request.objects.create(
        project=project, cluster=cluster, count=count, flavor=flavor, requester=requester, **values | columns
    )
