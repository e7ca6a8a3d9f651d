"""Clusters of other ages: what older servers publish in older versions stands in the mirror as v1."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from inventory.follow.discovery import preferred
from inventory.models import Claim, ClaimTemplate, Cluster, Device, DeviceClass, ResourceSlice
from portal.dra import model as dra
from portal.kube.client import Client
from portal.kube.resources import Resource
from tests.embedded import EmbeddedCluster
from tests.inventory.compare import history_faults
from tests.inventory.follow import mixed_cluster
from tests.inventory.follow.test_embedded import added, administrator, equal, follow
from tests.inventory.follow.test_kinds import do

pytestmark = pytest.mark.django_db(transaction=True)

SERVED = {
    "1.32": dict.fromkeys(mixed_cluster.VERSIONS, "v1beta1"),
    "1.33": dict.fromkeys(mixed_cluster.VERSIONS, "v1beta2"),
    "1.37": dict.fromkeys(mixed_cluster.VERSIONS, "v1"),
    "mixed": {plural: versions[0] for plural, versions in mixed_cluster.VERSIONS.items()},
}
NEW_CLAIM = {
    "v1beta1": {"requests": [{"name": "gpu", "deviceClassName": "gpu.nvidia.com"}]},
    "v1beta2": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]},
    "v1": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]},
}


@pytest.fixture(params=["1.32", "1.33", pytest.param("1.37", marks=pytest.mark.long), "mixed"])
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def embedded(release: str, tmp_path: Path) -> Iterator[EmbeddedCluster]:
    where = tmp_path / "cluster"
    if release == "mixed":
        cluster = EmbeddedCluster(where, fleet="sample", module="tests.inventory.follow.mixed_cluster")
    else:
        cluster = EmbeddedCluster(where, fleet="sample", options=("--kubernetes", release))
    yield cluster.start()
    cluster.stop()


def _version(resource: Resource) -> str:
    return resource.api_version.rpartition("/")[2]


def versions(client: Client) -> dict[str, str]:
    found = {plural: _version(resource) for plural, resource in preferred(client).items()}
    return {plural: found[plural] for plural in mixed_cluster.VERSIONS}


def test_the_mirror_is_what_the_server_holds_in_whatever_version(
    release: str, embedded: EmbeddedCluster
) -> None:
    cluster = added(embedded)
    with administrator(embedded.kubeconfig) as client:
        assert versions(client) == SERVED[release]
        claims = preferred(client)["resourceclaims"]
        claim = {
            "apiVersion": claims.api_version,
            "kind": "ResourceClaim",
            "metadata": {"name": "from-outside", "namespace": "default"},
            "spec": {"devices": NEW_CLAIM[_version(claims)]},
        }
        follow(
            cluster,
            lambda: Cluster.objects.get().state == Cluster.State.SYNCED,
            lambda: equal(cluster, client),
            # By a watch, too, not only by the first list.
            do(lambda: client.create(claims, claim, namespace="default")),
            Claim.objects.filter(name="from-outside").exists,
            lambda: equal(cluster, client),
            do(lambda: client.delete(claims, "from-outside", namespace="default")),
            lambda: not Claim.objects.filter(name="from-outside").exists(),
            lambda: equal(cluster, client),
        )
        cluster.refresh_from_db()
        told = {plural: f"resource.k8s.io/{version}" for plural, version in SERVED[release].items()}
        assert {plural: cluster.served[plural] for plural in told} == told
        assert dict(cluster.streams.filter(resource__in=told).values_list("resource", "api_version")) == told
        assert cluster.problems.count() == 0
        assert history_faults(cluster) == []
        assert Device.objects.filter(state="held").exists()
        assert_normalised(client)


def assert_normalised(client: Client) -> None:
    """Rows are, field by field, what the engine's model makes of the server's own objects."""
    resources = preferred(client)
    for plural, model, kind, part in (
        ("resourceslices", ResourceSlice, dra.ResourceSlice, "manifest"),
        ("deviceclasses", DeviceClass, dra.DeviceClass, "spec"),
        ("resourceclaims", Claim, dra.ResourceClaim, "spec"),
        ("resourceclaimtemplates", ClaimTemplate, dra.ResourceClaimTemplate, "spec"),
    ):
        raw: dict[tuple[str, str], Any] = {}
        for obj in client.list_all(resources[plural]):
            # Items of a list carry no kind.
            obj |= {"kind": kind.__name__, "apiVersion": resources[plural].api_version}
            decoded = dra.decode_object(obj)
            raw[obj["metadata"].get("namespace", ""), obj["metadata"]["name"]] = dra.encode(decoded)
        rows = {(getattr(row, "namespace", ""), row.name): getattr(row, part) for row in model.objects.all()}
        assert rows.keys() == raw.keys()
        assert rows, plural
        for key, row in rows.items():
            assert _spec(plural, row) == _spec(plural, raw[key]), (plural, key)
            text = json.dumps(row)
            assert '"basic":' not in text
            assert "v1beta" not in text


def _spec(plural: str, told: Any) -> Any:
    spec = told.get("spec", told)
    return spec.get("spec", spec) if plural == "resourceclaimtemplates" else spec
