"""Flavors and placements for the tests of the catalogue, made the way administrators make them."""

from datetime import timedelta
from typing import Any

from claims.models import Flavor, Placement, Request
from inventory.models import Cluster, CountedUnits
from portal.accounts.models import User
from tests.claims.conftest import GIB, NOW

HOUR = timedelta(hours=1)


def flavor(slug: str = "h100", **columns: Any) -> Flavor:
    """A flavor for everybody: 1 to 4 devices, an hour to a week."""
    values: dict[str, Any] = {
        "name": slug.upper(),
        "min_duration": HOUR,
        "default_duration": 24 * HOUR,
        "max_duration": 7 * 24 * HOUR,
        "max_count": 4,
        "created_at": NOW,
        "changed_at": NOW,
    }
    return Flavor.objects.create(slug=slug, **values | columns)


def placement(flavor: Flavor, cluster: Cluster, **columns: Any) -> Placement:
    """By the class of the flavor's slug, unless `columns` say otherwise."""
    values: dict[str, Any] = {"device_class": flavor.slug}
    return Placement.objects.create(flavor=flavor, cluster=cluster, **values | columns)


def units(cluster: Cluster, node: str = "node-h100", *, used: int | None = 1, **columns: Any) -> CountedUnits:
    """Four units of nvidia.com/gpu on a node."""
    values: dict[str, Any] = {
        "resource": "nvidia.com/gpu",
        "vendor": "NVIDIA",
        "product": "H100",
        "kind": "gpu",
        "memory_bytes": 80 * GIB,
        "capacity": 4,
        "allocatable": 4,
        "used": used,
        "free": 4 - (used or 0),
    }
    return CountedUnits.objects.create(cluster=cluster, node_name=node, **values | columns)


def waited(flavor: Flavor, user: User, cluster: Cluster, *minutes: float) -> None:
    """Requests of the flavor that waited so long for their device, and have it."""
    project = user.memberships.get().project
    for number, wait in enumerate(minutes):
        Request.objects.create(
            project=project, requester=user, cluster=cluster, namespace=project.slug, device_class="h100",
            flavor=flavor, count=1, shape="claim", duration=HOUR, purpose="x", state=Request.State.ENDED,
            object_name=f"waited-{flavor.slug}-{number}", created_at=NOW, changed_at=NOW,
            asked_at=NOW - timedelta(days=1), allocated_at=NOW - timedelta(days=1) + timedelta(minutes=wait),
        )  # fmt: skip
