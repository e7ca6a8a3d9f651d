"""The named cast, and a small fleet that they look at."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest
from django.test import Client
from django.utils import timezone

from inventory.models import Cluster, Device
from portal.accounts.models import Project, User
from tests.inventory_pages.factories import (
    bind,
    hold,
    make_class,
    make_cluster,
    make_device,
    make_node,
    make_profile,
    make_project,
    make_user,
)


@dataclass(frozen=True)
class Cast:
    owner: User
    teammate: User
    lead: User
    stranger: User
    finance: User
    administrator: User
    auditor: User

    def client(self, role: str) -> Client:
        """A browser in which that person has signed in; "anonymous" has not."""
        client = Client()
        if role != "anonymous":
            client.force_login(getattr(self, role))
        return client


INSIDERS = ("owner", "teammate", "lead", "administrator", "auditor")
OUTSIDERS = ("stranger", "finance")


@pytest.fixture
def cast(db: None) -> Cast:
    return Cast(
        owner=make_user("rhea"),
        teammate=make_user("tomas"),
        lead=make_user("leo"),
        stranger=make_user("sven"),
        finance=make_user("finn", is_finance=True),
        administrator=make_user("ada", is_administrator=True),
        auditor=make_user("otto", is_auditor=True),
    )


@pytest.fixture
def project(cast: Cast) -> Project:
    return make_project("protein-folding", member=cast.owner, member2=cast.teammate, lead=cast.lead)


@pytest.fixture
def cluster(db: None) -> Cluster:
    return make_cluster()


@dataclass(frozen=True)
class Fleet:
    """gpu-01: a held, a free and a tainted H100; gpu-02 (cordoned): two MI300X."""

    cluster: Cluster
    held: Device
    free: Device
    tainted: Device
    cordoned: Device
    held_since: datetime


@pytest.fixture
def fleet(cluster: Cluster, project: Project) -> Fleet:
    since = timezone.now() - timedelta(hours=5)
    bind(cluster, "protein-folding", project)
    h100 = make_profile()
    mi300x = make_profile("AMD Instinct MI300X OAM", driver="gpu.amd.com", vendor="AMD", memory="192Gi")
    make_node(cluster, "gpu-01")
    make_node(cluster, "gpu-02", unschedulable=True)
    held = make_device(cluster, "gpu-0", profile=h100)
    free = make_device(cluster, "gpu-1", profile=h100)
    taint = {"key": "gpu.nvidia.com/xid", "value": "43", "effect": "NoSchedule"}
    tainted = make_device(
        cluster, "gpu-2", profile=h100, state="unavailable", reason="device-tainted", taints=[taint]
    )
    cordoned = [
        make_device(
            cluster, f"gpu-{i}", node="gpu-02", profile=mi300x, state="unavailable", reason="node-cordoned"
        )
        for i in range(2)
    ]
    hold(held, namespace="protein-folding", claim="secret-claim", pod="secret-pod", at=since)
    make_class(cluster, "gpu.nvidia.com", profiles=(h100,), extended_resource_name="nvidia.com/gpu")
    make_class(cluster, "gpu.amd.com", profiles=(mi300x,), expression='device.driver == "gpu.amd.com"')
    return Fleet(cluster, held, free, tainted, cordoned[0], since)
