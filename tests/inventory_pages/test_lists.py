"""What the lists of nodes, classes and clusters have in common: facets, order, columns, CSV."""

import csv
import io

import pytest
from django.test import Client

from inventory.models import DeviceClass, Node
from tests.inventory_pages.conftest import Cast, Fleet
from tests.inventory_pages.factories import (
    hold,
    make_class,
    make_cluster,
    make_device,
    make_node,
    make_profile,
)

LISTS = ("/nodes/", "/classes/", "/clusters/", "/pools/")


def page(client: Client, path: str) -> str:
    response = client.get(path)
    assert response.status_code == 200, path
    return response.content.decode()


def rows(client: Client, path: str) -> list[dict[str, str]]:
    response = client.get(path)
    assert response["Content-Type"] == "text/csv; charset=utf-8"
    text = b"".join(response.streaming_content).decode("utf-8-sig")  # type: ignore[attr-defined] # it streams
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize(
    "query", ["q=%00", "sort=nonsense", "page=9999", "page=x", "columns=%00", "cluster=oslo", "q=%25"]
)
def test_odd_addresses_are_answered(query: str, path: str, cast: Cast, fleet: Fleet) -> None:
    assert "<html" in page(cast.client("stranger"), f"{path}?{query}")


@pytest.mark.parametrize("path", LISTS)
def test_every_order_and_every_column_works_both_ways(path: str, cast: Cast, fleet: Fleet) -> None:
    client = cast.client("stranger")
    make_cluster("oslo")
    listing = client.get(path).context["list"].listing
    every = ",".join(column.name for column in listing.columns)
    html = page(client, f"{path}?columns={every}")
    for column in listing.columns:
        assert f"{column.label}" in html
    for column in listing.columns:
        for sort in (column.name, f"-{column.name}") if column.order else ():
            assert 'aria-sort="' in page(client, f"{path}?columns={every}&sort={sort}")


@pytest.mark.parametrize("path", LISTS)
def test_columns_are_remembered_for_this_list_alone(path: str, cast: Cast, fleet: Fleet) -> None:
    client = cast.client("stranger")
    before = page(client, path)
    assert 'class="cd-usage"' in before
    answer = client.get(f"{path}?columns=name&remember=1")
    assert answer.status_code == 303
    assert 'class="cd-usage"' not in page(client, path)
    assert 'class="cd-usage"' in page(client, next(other for other in LISTS if other != path))


def test_conditions_of_nodes_are_counted_and_chosen(cast: Cast, fleet: Fleet) -> None:
    make_node(fleet.cluster, "gpu-03", ready=False, taints=[{"key": "a", "effect": "NoSchedule"}])
    client = cast.client("stranger")
    response = client.get("/nodes/?condition=not-ready&condition=cordoned")
    condition = next(facet for facet in response.context["facets"] if facet.name == "condition")
    counts = {value.value: value.count for value in condition.values}
    assert counts == {"ready": 1, "cordoned": 1, "not-ready": 1, "tainted": 1}
    assert [row.node.name for row in response.context["rows"]] == ["gpu-02", "gpu-03"]


def test_classes_that_match_nothing_are_found(cast: Cast, fleet: Fleet) -> None:
    make_class(fleet.cluster, "idle")
    DeviceClass.objects.filter(name="gpu.amd.com").update(problem="no such field")
    client = cast.client("stranger")
    for kind, name in (("unmatched", "idle"), ("problem", "gpu.amd.com"), ("extended", "gpu.nvidia.com")):
        found = client.get(f"/classes/?kind={kind}").context["rows"]
        assert [row.device_class.name for row in found] == [name]


def test_csv_has_what_is_narrowed_in_its_order(cast: Cast, fleet: Fleet) -> None:
    Node.objects.filter(name="gpu-01").update(os_image="=cmd()")
    client = cast.client("stranger")
    first, second = rows(client, "/nodes/?sort=-name&format=csv")
    assert (first["node"], first["cordoned"], first["unavailable"]) == ("gpu-02", "True", "2")
    assert (second["held"], second["os"]) == ("1", "'=cmd()")
    (found,) = rows(client, "/classes/?q=nvidia&format=csv")
    assert (found["extended_resource"], found["matched"], found["free"]) == ("nvidia.com/gpu", "3", "1")
    assert 'device.driver == "gpu.nvidia.com"' in found["selectors"]
    (cluster,) = rows(client, "/clusters/?state=synced&format=csv")
    assert (cluster["cluster"], cluster["held"], cluster["nodes"]) == ("berlin", "1", "2")
    assert rows(client, "/clusters/?state=refused&format=csv") == []


def test_a_cluster_list_asks_again_for_what_it_shows(cast: Cast, fleet: Fleet) -> None:
    html = page(cast.client("owner"), "/clusters/?q=ber&sort=-version&page=1")
    assert 'hx-get="/clusters/?q=ber&amp;sort=-version&amp;page=1"' in html
    again = cast.client("owner").get("/clusters/?q=ber", headers={"HX-Request": "true"})
    assert "HX-Push-Url" not in again, "nobody has chosen anything"


def test_partitions_that_nobody_holds_do_not_bury_the_node(cast: Cast, fleet: Fleet) -> None:
    mig = make_profile("NVIDIA H100 MIG 1g.10gb", kind="partition", memory="10Gi")
    parts = [make_device(fleet.cluster, f"mig-{number}", profile=mig) for number in range(12)]
    hold(parts[11], namespace="protein-folding", claim="other")
    for path in ("/nodes/berlin/gpu-01/", "/pools/berlin/gpu.nvidia.com/gpu-01/"):
        html = page(cast.client("stranger"), path)
        listed, folded = html.split("11 partitions that nobody holds")
        assert f"/devices/{parts[11].pk}/" in listed
        assert f"/devices/{fleet.free.pk}/" in listed
        assert f"/devices/{parts[0].pk}/" in folded
