"""Parts of the device page: instances and their holders, containers, taints, history, one like it."""

from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client
from django.utils import timezone

from inventory.browse import DeviceSearch, FleetFacts
from inventory.filters import DeviceFilter
from inventory.likeness import expression_for
from inventory.mirror.turn import digest
from inventory.models import Cluster, Device, DeviceProfile, Node, Observation, Pod
from portal.accounts.models import Project
from tests.inventory_pages.conftest import Cast, Fleet
from tests.inventory_pages.factories import bind, hold, make_class, make_device, make_pool, make_profile


def page(client: Client, device: Device) -> str:
    response = client.get(f"/devices/{device.pk}/")
    assert response.status_code == 200
    return response.content.decode()


# --- instances --------------------------------------------------------------------------------------


def test_many_instances_that_nobody_holds_are_folded_and_counted_by_kind(
    cast: Cast, cluster: Cluster, project: Project
) -> None:
    uses = [{"counterSet": "set-0", "counters": {"memory": {"value": "1Gi"}}}]
    pool = make_pool(cluster, "mig-01")
    mig = make_profile("NVIDIA H100 MIG 1g.10gb", kind="partition", memory="10Gi")
    parts = [
        make_device(
            cluster, f"mig-{i}", node="mig-01", pool=pool, profile=mig,
            state="free" if i % 2 else "unavailable", reason="" if i % 2 else "counters-used",
            published={"name": f"mig-{i}", "consumesCounters": uses},
        )
        for i in range(12)
    ]  # fmt: skip
    hold(parts[0], namespace="protein-folding", pod="secret-pod")
    bind(cluster, "protein-folding", project)
    html = page(cast.client("stranger"), parts[3])
    assert "11 instances that nobody holds" in html
    assert "6 of 11 free" in html
    assert html.index("Protein folding") < html.index("11 instances that nobody holds")
    assert "secret-pod" not in html
    assert "secret-pod" in page(cast.client("owner"), parts[3])


# --- containers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("request_name", "told"),
    [("", "containers train, log"), ("gpu", "containers train, log"), ("nic", "container log")],
)
def test_insiders_see_which_containers_get_the_device(
    request_name: str, told: str, cast: Cast, fleet: Fleet
) -> None:
    uses = [
        {"container": "train", "claim": "gpu", "request": request_name},
        {"container": "log", "claim": "gpu", "request": ""},
        {"container": "idle", "claim": "other", "request": ""},
    ]
    assert Pod.objects.filter(name="secret-pod").update(claim_uses=uses) == 1
    html = page(cast.client("owner"), fleet.held)
    assert f"{told}<" in html
    assert ">idle" not in html
    assert "train" not in page(cast.client("stranger"), fleet.held)


# --- taints and history -----------------------------------------------------------------------------


def test_taints_are_told_with_their_age_and_who_put_them_there(cast: Cast, fleet: Fleet) -> None:
    added = timezone.now() - timedelta(hours=3)
    taint = {"key": "gpu.nvidia.com/xid", "effect": "NoExecute", "timeAdded": added.isoformat()}
    Device.objects.filter(pk=fleet.tainted.pk).update(taints=[taint], health=Device.Health.TAINTED)
    Node.objects.filter(name="gpu-01").update(taints=[{"key": "maintenance", "effect": "NoSchedule"}])
    html = page(cast.client("stranger"), fleet.tainted)
    assert f"{added:%Y-%m-%d %H:%M}" in html
    assert "3 h ago" in html
    assert "of its node" in html


def observe(device: Device, kind: str, *, hours: int, **facts: Any) -> None:
    at = timezone.now() - timedelta(hours=hours)
    named = digest(device.pool.driver, device.pool.name, device.name)
    Observation.objects.create(
        cluster=device.cluster, kind=kind, at=at, observed_at=at, source="observed", name=device.name,
        key=f"device/{named}/{kind}/{hours}", facts={"hardware_id": device.hardware_id, **facts},
    )  # fmt: skip


def test_what_became_of_a_device_is_told_newest_first(cast: Cast, fleet: Fleet) -> None:
    observe(fleet.free, "device-appeared", hours=9, hardware_id="GPU-before")
    taint = {"key": "gpu.nvidia.com/xid", "value": "79", "effect": "NoSchedule"}
    observe(fleet.free, "device-tainted", hours=5, taint=taint, rule="quarantine")
    observe(fleet.free, "device-unavailable", hours=4, reason="node-cordoned")
    observe(fleet.free, "device-available", hours=2)
    observe(fleet.held, "device-gone", hours=1)
    html = page(cast.client("stranger"), fleet.free)
    table = html[html.index('id="h-changes"') : html.index('id="h-attributes"')]
    words = ["available again", "its node is cordoned", "gpu.nvidia.com/xid=79 NoSchedule", ">published<"]
    assert [table.index(word) for word in words] == sorted(table.index(word) for word in words)
    assert "by the rule quarantine" in table
    assert table.count("another piece of hardware had this name then") == 1
    assert "no longer published" not in table


# --- one like it ------------------------------------------------------------------------------------


def test_devices_like_it_are_found_by_its_expression(cast: Cast, fleet: Fleet) -> None:
    expression = expression_for(fleet.free.profile)
    found = DeviceSearch(DeviceFilter(expression=expression), facts=FleetFacts.load(now=timezone.now()))
    assert found.meaning is not None
    assert (found.meaning.problem, found.meaning.evaluation_error) == ("", "")
    assert {device.pk for device in found.rows()} == {fleet.free.pk, fleet.held.pk, fleet.tainted.pk}
    assert f"?cel={quote(expression, safe='/')}" in page(cast.client("owner"), fleet.free)


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"gpu.nvidia.com/productName": {"string": 'a "quoted" \\ name\n'}, "type": {"string": "gpu"}},
        {"gpu.nvidia.com/productName": {"int": 3}, "gpu.nvidia.com/type": {"bool": True}},
        {"other.example.com/model": {"string": "研究"}},
    ],
)
def test_whatever_a_driver_publishes_its_expression_admits_the_device(
    attributes: dict[str, Any], cluster: Cluster
) -> None:
    profile = make_profile("x", attributes=attributes)
    device = make_device(cluster, "gpu-0", profile=profile)
    wanted = DeviceFilter(expression=expression_for(profile))
    found = DeviceSearch(wanted, facts=FleetFacts.load(now=timezone.now()))
    assert [d.pk for d in found.rows()] == [device.pk]
    assert found.meaning is not None
    assert found.meaning.problem == ""


def test_one_like_it_is_asked_for_with_the_narrowest_class(cast: Cast, fleet: Fleet) -> None:
    every = tuple(DeviceProfile.objects.all())
    make_class(fleet.cluster, "a-class-for-everything", profiles=every, expression="true")
    assert "device_class=gpu.nvidia.com" in page(cast.client("owner"), fleet.free)
