"""The device page: what a device is, who holds it, who held it."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from claims.models import Allocation, Consumer, Request
from inventory.models import Cluster, Device, Pod, ResourceSlice
from portal.accounts.models import Project
from tests.inventory_pages.conftest import INSIDERS, OUTSIDERS, Cast, Fleet
from tests.inventory_pages.factories import hold, make_device, make_pool, make_profile


def page(client: Client, device: Device) -> str:
    response = client.get(f"/devices/{device.pk}/")
    assert response.status_code == 200
    return response.content.decode()


def make_past(device: Device, project: Project | None, *, days: int = 2, **fields: Any) -> Allocation:
    now = timezone.now()
    defaults: dict[str, Any] = {
        "namespace": "protein-folding",
        "claim_name": "older-claim",
        "claim_uid": f"uid-{days}",
        "epoch": 1,
        "driver": device.pool.driver,
        "pool_name": device.pool.name,
        "device_name": device.name,
        "request_name": "gpu",
        "hardware_id": device.hardware_id,
        "started_at": now - timedelta(days=days),
        "start_source": "observed",
        "ended_at": now - timedelta(days=days, hours=-5),
        "project": project,
    }
    return Allocation.objects.create(cluster=device.cluster, **(defaults | fields))


def test_identity_attributes_and_capacity_are_told(cast: Cast, fleet: Fleet) -> None:
    html = page(cast.client("stranger"), fleet.free)
    for text in ("gpu-1", fleet.free.hardware_id, "80 GiB", "80Gi", "productName", "string", "gpu-01"):
        assert text in html
    assert "Nobody holds it" in html


def test_a_tainted_device_says_why_it_is_not_handed_out(cast: Cast, fleet: Fleet) -> None:
    html = page(cast.client("stranger"), fleet.tainted)
    assert "gpu.nvidia.com/xid=43" in html
    assert "it is tainted" in html


def test_classes_that_match_lead_to_a_request_for_one_like_it(cast: Cast, fleet: Fleet) -> None:
    html = page(cast.client("owner"), fleet.free)
    assert "cluster=berlin&amp;device_class=gpu.nvidia.com" in html
    assert "/classes/berlin/gpu.nvidia.com/" in html


@pytest.mark.parametrize("role", INSIDERS)
def test_insiders_see_claim_pod_and_person(role: str, cast: Cast, fleet: Fleet, project: Project) -> None:
    claim = fleet.held.holds.get().claim
    request = Request.objects.create(
        project=project, requester=cast.owner, cluster=fleet.cluster, namespace=claim.namespace,
        device_class="gpu.nvidia.com", count=1, shape="claim", duration=timedelta(hours=1), purpose="x",
        created_at=timezone.now(), changed_at=timezone.now(), object_name="secret-request",
    )  # fmt: skip
    make_past(fleet.held, project, claim_uid=claim.uid, claim_name=claim.name, ended_at=None, request=request)
    html = page(cast.client(role), fleet.held)
    for text in ("Protein folding", "secret-claim", "secret-pod", "secret-request", "rhea"):
        assert text in html


@pytest.mark.parametrize("role", OUTSIDERS)
def test_outsiders_see_the_project_and_since_when_only(
    role: str, cast: Cast, fleet: Fleet, project: Project
) -> None:
    make_past(fleet.held, project, claim_name="secret-older-claim")
    Consumer.objects.create(
        cluster=fleet.cluster, claim_uid="uid-2", epoch=1, resource="pods", name="secret-older-pod",
        uid="p", joined_at=timezone.now(),
    )  # fmt: skip
    html = page(cast.client(role), fleet.held)
    assert "Protein folding" in html
    assert f"{fleet.held_since:%Y-%m-%d %H:%M}" in html
    assert "secret" not in html


def test_past_holders_are_told_newest_first(cast: Cast, fleet: Fleet, project: Project) -> None:
    make_past(fleet.free, project, days=9, claim_name="claim-nine")
    make_past(fleet.free, project, days=3, claim_name="claim-three")
    make_past(fleet.free, None, days=5, claim_name="claim-five")
    html = page(cast.client("auditor"), fleet.free)
    assert html.index("claim-three") < html.index("claim-five") < html.index("claim-nine")


def test_history_follows_the_hardware_across_names(cast: Cast, fleet: Fleet, project: Project) -> None:
    make_past(fleet.free, project, days=4, device_name="gpu-7", claim_name="under-another-name")
    make_past(fleet.free, project, days=6, hardware_id="GPU-gone", claim_name="another-piece")
    html = page(cast.client("owner"), fleet.free)
    assert "it was called gpu-7 then" in html
    assert "another piece of hardware had this name then" in html


def test_a_device_without_hardware_id_shows_the_history_of_its_name_alone(
    cast: Cast, cluster: Cluster, project: Project
) -> None:
    device = make_device(cluster, "gpu-0", hardware_id="", identity={})
    make_past(device, project, device_name="gpu-9", claim_name="of-another")
    html = page(cast.client("administrator"), device)
    assert "of-another" not in html
    assert "the driver publishes none" in html


def test_partitions_show_their_holders_and_what_counters_are_left(
    cast: Cast, cluster: Cluster, project: Project
) -> None:
    def uses(memory: str) -> list[dict[str, Any]]:
        return [{"counterSet": "gpu-0-set", "counters": {"memory": {"value": memory}}}]

    pool = make_pool(cluster, "mig-01")
    full = make_device(
        cluster, "gpu-0", node="mig-01", pool=pool, state="unavailable", reason="counters-used",
        published={"name": "gpu-0", "consumesCounters": uses("80Gi")},
    )  # fmt: skip
    mig = make_profile("NVIDIA H100 MIG 1g.10gb", kind="partition", memory="10Gi")
    parts = [
        make_device(
            cluster, f"gpu-0-mig-{i}", node="mig-01", pool=pool, profile=mig,
            published={"name": f"gpu-0-mig-{i}", "consumesCounters": uses("9984Mi")},
        )
        for i in range(3)
    ]  # fmt: skip
    unrelated = make_device(cluster, "nic-0", node="mig-01", pool=pool)
    part = ResourceSlice.objects.get(pool=pool)
    part.manifest["spec"]["sharedCounters"] = [
        {"name": "gpu-0-set", "counters": {"memory": {"value": "80Gi"}}}
    ]
    part.save()
    hold(parts[1], namespace="protein-folding", claim="notebook", pod="notebook-pod")
    html = page(cast.client("administrator"), full)
    assert "a partition of the same device is held" in html
    for device in parts:
        assert f"/devices/{device.pk}/" in html
    assert f"/devices/{unrelated.pk}/" not in html
    assert "9.75 GiB" in html  # in use
    assert "70.25 GiB" in html  # left


def test_shared_capacity_shows_what_holders_leave(cast: Cast, cluster: Cluster) -> None:
    shared = make_profile("Shared GPU", allow_multiple_allocations=True)
    device = make_device(cluster, "gpu-0", profile=shared)
    hold(device, namespace="a", consumed_capacity={"gpu.nvidia.com/memory": "10Gi"})
    hold(device, namespace="b", claim="two", consumed_capacity={"gpu.nvidia.com/memory": "20Gi"})
    html = page(cast.client("stranger"), device)
    assert "30 GiB in use, 50 GiB left" in html


def test_out_of_step_the_page_speaks_of_the_past(cast: Cast, fleet: Fleet) -> None:
    Cluster.objects.update(state=Cluster.State.REFUSED)
    html = page(cast.client("owner"), fleet.free)
    assert "What it is now is unknown" in html
    assert "Nobody holds it" not in html


HOSTILE = {
    "gpu.nvidia.com/a": {"string": "<img src=x onerror=alert(1)>"},
    "gpu.nvidia.com/b": {"weird": [1, {"x": None}]},
    "gpu.nvidia.com/c": {"bools": [True, False]},
    "gpu.nvidia.com/d": {"int": 10**30},
    "gpu.nvidia.com/e": "plain",
    "gpu.nvidia.com/f": {"version": "1.0.0"},
    "<script>alert(2)</script>/g": {"string": ""},
}


def test_hostile_and_misshapen_publications_are_shown_as_text(cast: Cast, cluster: Cluster) -> None:
    device = make_device(
        cluster, "gpu-0",
        profile=make_profile("</title><script>alert(3)</script>", attributes=HOSTILE),
        published={"name": "gpu-0", "attributes": HOSTILE, "x": "</pre><script>alert(4)</script>"},
        taints=[{"key": "<script>alert(5)</script>", "effect": "NoSchedule", "timeAdded": "<b>"}],
    )  # fmt: skip
    device.profile.capacity = {"gpu.nvidia.com/x": {"value": "not a quantity"}, "gpu.nvidia.com/y": "7"}
    device.profile.save()
    html = page(cast.client("owner"), device)
    assert "<script>alert" not in html
    assert "<img" not in html
    assert "true, false" in html
    assert "not a quantity" in html


@pytest.mark.parametrize(
    "manifest", [{}, {"spec": None}, {"spec": {"devices": None}}, {"spec": {"devices": [1]}}, []]
)
def test_a_slice_without_shape_does_not_break_the_page(manifest: Any, cast: Cast, fleet: Fleet) -> None:
    ResourceSlice.objects.update(manifest=manifest)
    assert "gpu-1" in page(cast.client("owner"), fleet.free)


@pytest.mark.parametrize("path", ["/devices/0/", "/devices/99999999/", f"/devices/{2**70}/"])
def test_an_unknown_device_is_not_found(path: str, cast: Cast) -> None:
    assert cast.client("owner").get(path).status_code == 404


def test_the_number_of_queries_does_not_grow(cast: Cast, fleet: Fleet, project: Project) -> None:
    client = cast.client("owner")

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            page(client, fleet.held)
        return len(captured)

    make_past(fleet.held, project)
    small = queries()
    for days in range(3, 12):
        make_past(fleet.held, project, days=days)
    for claim in range(5):
        hold(fleet.held, namespace="protein-folding", claim=f"shared-{claim}", pod=f"pod-{claim}")
    assert queries() <= small
    assert small <= 23


# --- what driver and kubelet say of it -------------------------------------------------------------


@pytest.fixture
def ailing(fleet: Fleet) -> Fleet:
    """The held device: its driver has a condition on it, the kubelet of its Pod calls it unhealthy."""
    fleet.held.holds.update(
        conditions=[{"type": "Ready", "status": "False", "reason": "EccErrors", "message": "row remap"}]
    )
    name = f"{fleet.held.pool.driver}/{fleet.held.pool.name}/{fleet.held.name}"
    said = {
        "container": "main",
        "resource": "claim:gpu",
        "device": name,
        "health": "Unhealthy",
        "message": "XID 79",
    }
    other = {**said, "device": "gpu.nvidia.com/gpu-01/gpu-9", "message": "another one"}
    Pod.objects.filter(name="secret-pod").update(device_health=[said, other])
    return fleet


@pytest.mark.parametrize("role", INSIDERS)
def test_insiders_see_what_driver_and_kubelet_say(role: str, cast: Cast, ailing: Fleet) -> None:
    html = page(cast.client(role), ailing.held)
    for text in (
        *("Ready: False", "EccErrors", "row remap", "Unhealthy", "XID 79"),
        *("/claims/berlin/protein-folding/secret-claim/", "/pods/berlin/protein-folding/secret-pod/"),
        "/namespaces/berlin/protein-folding/",
    ):
        assert text in html
    assert "another one" not in html


@pytest.mark.parametrize("role", OUTSIDERS)
def test_outsiders_do_not(role: str, cast: Cast, ailing: Fleet) -> None:
    html = page(cast.client(role), ailing.held)
    for text in ("EccErrors", "row remap", "XID 79", "secret", "/namespaces/"):
        assert text not in html
