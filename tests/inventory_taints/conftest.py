"""The fixtures of the mirror, and a small town: two nodes, one of them with somebody on it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from claims.models import Request, RequestClaim
from inventory import clusters
from inventory.models import Claim, Cluster, Device, ResourceSlice, Stream
from tests.cast import Cast, cast, cheap_passwords
from tests.inventory.conftest import cluster, mirror
from tests.inventory_pages.factories import bind, hold, make_class, make_cluster, make_device, make_node
from tests.inventory_taints.fakes import RuleCluster

__all__ = ["cast", "cheap_passwords", "cluster", "mirror"]


@dataclass
class Town:
    """What is there, and the cluster behind it."""

    cast: Cast
    cluster: Cluster
    fake: RuleCluster
    claim: Claim
    request: Request
    now: datetime

    def client(self, role: str) -> Client:
        client = Client()
        client.force_login(getattr(self.cast, role))
        return client

    def vacate(self) -> None:
        """The claim holds nothing any more."""
        self.claim.devices.all().delete()
        Claim.objects.filter(pk=self.claim.pk).update(allocated=False, status={}, node_name="")
        Device.objects.filter(cluster=self.cluster).update(state=Device.State.FREE)

    def silence(self) -> None:
        """Nothing has been heard of the cluster for long."""
        long_ago = self.now.replace(year=self.now.year - 1)
        Stream.objects.filter(cluster=self.cluster).update(heard_at=long_ago, listed_at=long_ago)


@pytest.fixture
def town(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> Town:
    """Berlin serves rules; tides holds gpu-0 of gpu-01 by a request of its member."""
    fake = RuleCluster()
    monkeypatch.setattr(clusters, "client_for", lambda _cluster: fake)
    berlin = make_cluster(
        served={"devicetaintrules": "resource.k8s.io/v1beta2", "resourceslices": "resource.k8s.io/v1"}
    )
    now = timezone.now()
    Stream.objects.create(
        cluster=berlin, resource="devicetaintrules", state="watching", listed_at=now, heard_at=now
    )
    make_node(berlin, "gpu-01")
    make_node(berlin, "gpu-02")
    devices = [make_device(berlin, f"gpu-{number}") for number in range(2)]
    make_device(berlin, "gpu-0", node="gpu-02")
    for part in ResourceSlice.objects.select_related("pool"):
        part.manifest["spec"]["pool"] = {"name": part.pool.name, "generation": 1, "resourceSliceCount": 1}
        part.save()
    make_class(berlin, profiles=(devices[0].profile,))
    bind(berlin, "tides", cast.project)
    claim = hold(devices[0], namespace="tides", claim="harmonics", pod="work")
    request = Request.objects.create(
        project=cast.project, requester=cast.member, cluster=berlin, namespace="tides", state="in-use",
        device_class="gpu.nvidia.com", count=1, shape="claim", duration=timedelta(hours=8),
        purpose="harmonic analysis", created_at=now, changed_at=now, object_name="harmonics",
        object_uid=claim.uid, expires_at=now + timedelta(hours=3),
    )  # fmt: skip
    RequestClaim.objects.create(
        cluster=berlin, claim_uid=claim.uid, claim_name=claim.name, request=request, seen_at=now
    )
    return Town(cast, berlin, fake, claim, request, now)
