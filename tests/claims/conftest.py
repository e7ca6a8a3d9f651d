"""The cast and the fleet of these tests: a project with people, a stranger, one cluster with two products."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from claims.models import Price, PriceBook, Request
from claims.requests.actions import submit
from inventory.models import (
    ClassProfile,
    Cluster,
    Device,
    DeviceClass,
    DeviceProfile,
    NamespaceBinding,
    Node,
    Pool,
    ResourceSlice,
    Stream,
)
from portal.accounts.models import Membership, Project, User
from tests.cast import cheap_passwords
from tests.claims.fakes import FakeCluster

# Of those whose cast is everybody's.
__all__ = ["cheap_passwords"]

NOW = datetime(2026, 11, 10, 12, tzinfo=UTC)
GIB = 2**30
IMAGE = "example.org/pause:1"


@dataclass(frozen=True)
class Cast:
    """Who is who in the tests of views."""

    owner: User
    teammate: User
    lead: User
    stranger: User
    admin: User
    finance: User
    auditor: User


def person(name: str, **flags: bool) -> User:
    # Without a password: nobody signs in by typing one here.
    return User.objects.create(username=name, email=f"{name}@example.org", **flags)


@pytest.fixture
def now() -> datetime:
    return NOW


@pytest.fixture
def project(db: None) -> Project:
    return Project.objects.create(
        slug="protein-folding",
        name="Protein folding",
        cost_centre="4711",
        created_at=NOW - timedelta(days=90),
    )


@pytest.fixture
def other_project(db: None) -> Project:
    return Project.objects.create(
        slug="weather-models", name="Weather models", created_at=NOW - timedelta(days=90)
    )


@pytest.fixture
def cast(project: Project, other_project: Project) -> Cast:
    cast = Cast(
        owner=person("rhea"),
        teammate=person("theo"),
        lead=person("leo"),
        stranger=person("stan"),
        admin=person("ada", is_administrator=True),
        finance=person("finn", is_finance=True),
        auditor=person("audrey", is_auditor=True),
    )
    for user in (cast.owner, cast.teammate):
        Membership.objects.create(user=user, project=project)
    Membership.objects.create(user=cast.lead, project=project, role=Membership.Role.LEAD)
    Membership.objects.create(user=cast.stranger, project=other_project)
    return cast


@pytest.fixture
def cluster(project: Project, other_project: Project) -> Cluster:
    """A cluster in step with one H100 node and one A100 node, and a class for each and for both."""
    cluster = Cluster.objects.create(
        name="main",
        credentials=Cluster.Credentials.KUBECONFIG,
        state=Cluster.State.SYNCED,
        created_at=NOW - timedelta(days=60),
        contacted_at=NOW,
    )
    for resource in ("resourceslices", "resourceclaims", "resourceclaimtemplates", "nodes", "pods"):
        Stream.objects.create(
            cluster=cluster,
            resource=resource,
            state=Stream.State.WATCHING,
            listed_at=NOW - timedelta(days=1),
            heard_at=NOW,
        )
    for owner in (project, other_project):
        NamespaceBinding.objects.create(
            cluster=cluster, namespace=owner.slug, project=owner, valid_from=NOW - timedelta(days=60)
        )
    products = {"H100": 80 * GIB, "A100": 40 * GIB}
    profiles = {name: add_node(cluster, name, memory) for name, memory in products.items()}
    for name, matched in {"h100": ["H100"], "a100": ["A100"], "gpu": ["H100", "A100"], "none": []}.items():
        row = DeviceClass.objects.create(
            cluster=cluster, name=name, uid=f"class-{name}", resource_version="1", spec={}
        )
        for product in matched:
            ClassProfile.objects.create(device_class=row, profile=profiles[product])
    return cluster


def add_node(cluster: Cluster, product: str, memory: int, devices: int = 2) -> DeviceProfile:
    node = f"node-{product.lower()}"
    Node.objects.create(
        cluster=cluster, name=node, uid=node, resource_version="1", ready=True, unschedulable=False
    )
    profile = DeviceProfile.objects.create(
        digest=f"digest-{product}",
        driver="gpu.nvidia.com",
        attributes={"gpu.nvidia.com/productName": {"string": product}},
        capacity={"gpu.nvidia.com/memory": {"value": f"{memory // GIB}Gi"}},
        product=product,
        vendor="NVIDIA",
        memory_bytes=memory,
    )
    pool = Pool.objects.create(
        cluster=cluster, driver="gpu.nvidia.com", name=node, generation=1, slices_expected=1, slices_seen=1,
        complete=True,
    )  # fmt: skip
    piece = ResourceSlice.objects.create(
        cluster=cluster, name=f"{node}-slice", uid=f"slice-{node}", resource_version="1", pool=pool,
        generation=1, node_name=node, manifest={
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-slice", "uid": f"slice-{node}"},
            "spec": {
                "driver": "gpu.nvidia.com",
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": f"gpu-{position}"} for position in range(devices)],
            },
        },
    )  # fmt: skip
    for position in range(devices):
        Device.objects.create(
            cluster=cluster, pool=pool, slice=piece, profile=profile, name=f"gpu-{position}",
            position=position, node_name=node, state=Device.State.FREE, first_seen_at=NOW,
            hardware_id=f"GPU-{product}-{position}",
        )  # fmt: skip
    return profile


@pytest.fixture
def prices(db: None) -> PriceBook:
    book = PriceBook.objects.create(name="2026", currency="EUR", valid_from=NOW - timedelta(days=300))
    Price.objects.create(book=book, product="H100", per_hour="2.5")
    return book


@pytest.fixture
def fake() -> FakeCluster:
    return FakeCluster("h100", "a100", "gpu", "none")


@pytest.fixture
def values(cluster: Cluster) -> dict[str, Any]:
    """A complete ask as a form sends it."""
    return {
        "project": "protein-folding",
        "cluster": "main",
        "namespace": "",
        "device_class": "h100",
        "count": "1",
        "min_memory": "40Gi",
        "shape": "claim",
        "duration": "3",
        "duration_unit": "days",
        "purpose": "Folding of the March set",
    }


@pytest.fixture
def request_(cast: Cast, values: dict[str, Any], fake: FakeCluster) -> Request:
    """A request as just submitted."""
    return submit(user=cast.owner, values=values, now=NOW, connect=lambda _cluster: fake)
