"""Every finding leads to a page about what is wrong, and that page opens."""

import pytest
from django.test import Client
from django.utils.html import escape

from inventory.findings.links import links
from inventory.models import Claim, Cluster, Device, Finding, Pod
from tests.inventory_findings.conftest import look, shown
from tests.inventory_findings.test_rules import CASES, LATER, Case, pod
from tests.inventory_pages.factories import make_user

pytestmark = pytest.mark.django_db

# The node is gone, and so is its page.
WITHOUT = {"node-gone"}
# A ResourceQuota that was deleted has no page either.
KINDS_WITHOUT = {"object-changed"}


def url_of(finding: Finding) -> str:
    return links([finding]).get(finding.pk, "")


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}-{case.name}".strip("-"))
def test_a_finding_leads_to_its_page(case: Case, healthy: Cluster) -> None:
    case.ail(healthy)
    look(healthy)
    look(healthy, after=LATER)
    (finding,) = shown(case.kind)
    url = url_of(finding)
    assert bool(url) is (case.name not in WITHOUT and case.kind not in KINDS_WITHOUT)
    client = Client()
    client.force_login(make_user("otto", is_auditor=True))
    assert f'href="{escape(url)}"' in client.get(f"/findings/{finding.pk}/").content.decode() or not url
    if url:
        response = client.get(url)
        assert response.status_code == 200
        assert finding.name in response.content.decode()


def test_what_is_gone_has_no_page(healthy: Cluster) -> None:
    look(healthy)
    for model, kind, name in ((Claim, "claim", "warm"), (Pod, "pod", "train-0"), (Device, "device", "gpu-9")):
        assert not model._default_manager.filter(name=name).exists()
        finding = Finding(
            pk=1,
            cluster=healthy,
            kind="x",
            subject=f"a/b/{name}",
            object_kind=kind,
            namespace="tides",
            name=name,
        )
        assert url_of(finding) == ""


def test_a_device_that_a_kubelet_names_is_found_by_its_name(healthy: Cluster) -> None:
    device = Device.objects.get(node_name="gpu-01")
    name = f"{device.pool.driver}/{device.pool.name}/{device.name}"
    finding = Finding(pk=1, cluster=healthy, kind="x", subject=name, object_kind="device", name=device.name)
    assert url_of(finding) == f"/devices/{device.pk}/"


def test_work_with_slashes_in_its_name_has_a_page(healthy: Cluster) -> None:
    pod(healthy, pod_group="plan/workers")
    look(healthy, after=LATER)
    (finding,) = shown("long-pending")
    url = url_of(finding)
    assert url == "/workloads/berlin/tides/PodGroup/plan/workers/"
    client = Client()
    client.force_login(make_user("otto", is_auditor=True))
    assert client.get(url).status_code == 200
