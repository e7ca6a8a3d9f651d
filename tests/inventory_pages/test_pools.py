"""Pools: whether the scheduler would use one, and what is in it."""

import csv
import io
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from inventory.models import Pool, ResourceSlice
from tests.inventory_pages.conftest import INSIDERS, OUTSIDERS, Cast, Fleet
from tests.inventory_pages.factories import (
    NVIDIA,
    hold,
    make_cluster,
    make_device,
    make_fleet,
    make_node,
    make_pool,
    make_profile,
)

ONE = f"/pools/berlin/{NVIDIA}/gpu-01/"


def page(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, path
    return response.content.decode()


def change(**fields: Any) -> None:
    assert Pool.objects.filter(driver=NVIDIA, name="gpu-01").update(**fields) == 1


@pytest.mark.parametrize("role", [*INSIDERS, *OUTSIDERS])
def test_a_pool_tells_everybody_its_devices_and_projects_and_nobody_a_claim(
    role: str, cast: Cast, fleet: Fleet
) -> None:
    html = page(cast.client(role), ONE)
    for text in ("gpu-0", "gpu-1", "Protein folding", "all announced slices are there", "nothing wrong"):
        assert text in html
    assert "secret" not in html


@pytest.mark.parametrize(
    ("fields", "state", "said"),
    [
        (
            {"complete": False, "slices_expected": 3, "generation": 7},
            "incomplete",
            "1 of the 3 slices that its driver announces for generation 7 can be seen",
        ),
        ({"problem": "device gpu-0 is there twice"}, "invalid", "refuses all of its devices: device gpu-0"),
        ({"missing_gate": "DRAPartitionableDevices"}, "needs a feature", "It needs DRAPartitionableDevices"),
    ],
)
def test_a_pool_that_the_scheduler_would_not_use_says_why(
    fields: dict[str, Any], state: str, said: str, cast: Cast, fleet: Fleet
) -> None:
    change(**fields)
    html = page(cast.client("stranger"), ONE)
    assert state in html
    assert said in html
    name = {"incomplete": "incomplete", "invalid": "invalid", "needs a feature": "gated"}[state]
    listed = page(cast.client("stranger"), f"/pools/?state={name}")
    assert ONE in listed
    assert "/pools/berlin/gpu.amd.com/gpu-02/" not in listed


def test_slices_of_an_older_generation_are_told_apart(cast: Cast, fleet: Fleet) -> None:
    pool = Pool.objects.get(driver=NVIDIA)
    ResourceSlice.objects.create(
        cluster=fleet.cluster, name="old-slice", uid="old", resource_version="1", pool=pool, generation=0,
        node_name="gpu-01", manifest={"spec": {"allNodes": True, "devices": [{"name": "x"}, "junk"]}},
    )  # fmt: skip
    html = page(cast.client("stranger"), ONE)
    assert "superseded by a newer generation" in html
    assert "on every node" in html
    assert "on gpu-01" in html


def test_what_is_left_of_shared_counters_is_told(cast: Cast, fleet: Fleet) -> None:
    pool = make_pool(fleet.cluster, "mig/h100", has_counters=True)
    mig = make_profile("NVIDIA H100 MIG 1g.10gb", kind="partition", memory="10Gi")
    uses = [{"counterSet": "set-0", "counters": {"memory": {"value": "10Gi"}}}]
    for number in range(2):
        part = make_device(
            fleet.cluster, f"mig-{number}", node="", pool=pool, profile=mig,
            published={"name": f"mig-{number}", "consumesCounters": uses},
        )  # fmt: skip
    hold(part, namespace="protein-folding")
    published = ResourceSlice.objects.get(pool=pool)
    published.manifest["spec"]["sharedCounters"] = [
        {"name": "set-0", "counters": {"memory": {"value": "80Gi"}}}
    ]
    published.save()
    html = page(cast.client("stranger"), f"/pools/berlin/{NVIDIA}/mig/h100/")
    assert "70 GiB of 80 GiB left" in html
    assert 'value="12"' in html
    assert "and 2 partitions" in html
    assert "not bound to one node" in html


def test_a_node_that_does_not_exist_is_named(cast: Cast, fleet: Fleet) -> None:
    make_device(fleet.cluster, "far", node="lost", pool=make_pool(fleet.cluster, "gpu-01"))
    assert "does not exist" in page(cast.client("stranger"), ONE)


@pytest.mark.parametrize(
    "path", ["/pools/berlin/x/gpu-01/", f"/pools/oslo/{NVIDIA}/gpu-01/", f"/pools/berlin/{NVIDIA}/gpu-9/"]
)
def test_what_is_not_there_is_not_found(path: str, cast: Cast, fleet: Fleet) -> None:
    assert cast.client("owner").get(path).status_code == 404


def test_the_list_narrows_orders_and_shows_what_is_chosen(cast: Cast, fleet: Fleet) -> None:
    client = cast.client("stranger")
    html = page(client, "/pools/?q=GPU-0&driver=gpu.amd.com&sort=-generation&columns=generation")
    assert "/pools/berlin/gpu.amd.com/gpu-02/" in html
    assert ONE not in html
    assert 'aria-sort="descending"' in html
    assert ">1 of 1<" not in html
    assert "No pool matches" in page(client, "/pools/?q=none")


def test_htmx_gets_rows_facets_and_a_clean_address(cast: Cast, fleet: Fleet) -> None:
    headers = {"HX-Request": "true", "HX-Trigger": "list-form"}
    response = cast.client("owner").get("/pools/?q=&driver=gpu.amd.com&sort=name", headers=headers)
    html = response.content.decode()
    assert html.lstrip().startswith('<div id="list"')
    assert 'id="facet-driver" hx-swap-oob="true"' in html
    assert response["HX-Push-Url"] == "/pools/?driver=gpu.amd.com"


def test_the_export_has_all_pools_that_match(cast: Cast, fleet: Fleet) -> None:
    change(problem="=1+1")
    response = cast.client("stranger").get("/pools/?state=invalid&format=csv")
    text = b"".join(response.streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined] # it streams
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["pool"], row["state"], row["held"], row["free"]) == ("gpu-01", "invalid", "1", "1")
    assert row["why"].endswith("=1+1")


def test_the_number_of_queries_does_not_grow(cast: Cast, fleet: Fleet) -> None:
    client = cast.client("owner")

    def queries(path: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            page(client, path)
        return len(captured)

    small = [queries("/pools/"), queries(ONE)]
    make_fleet(make_cluster("oslo"), nodes=60, kinds=6)
    pool = Pool.objects.get(cluster=fleet.cluster, driver=NVIDIA)
    for number in range(20):
        make_node(fleet.cluster, f"more-{number}")
        device = make_device(fleet.cluster, f"more-{number}", node=f"more-{number}", pool=pool)
        hold(device, namespace="a", claim=f"claim-{number}")
    assert [queries("/pools/"), queries(ONE)] == small
