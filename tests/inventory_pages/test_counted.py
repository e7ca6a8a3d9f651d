"""Units of Device Plugins in the device list: counted, marked, and counted once."""

from typing import Any

import pytest
from django.http import QueryDict
from django.utils import timezone

from inventory.browse import DeviceSearch, FleetFacts
from inventory.filters import DeviceFilter
from inventory.models import Cluster, CountedUnits
from tests.inventory_pages.conftest import Cast, Fleet


def units(cluster: Cluster, node: str = "old-01", **more: Any) -> CountedUnits:
    """Four T4 in a node: one used, two left, one nobody can have."""
    values: dict[str, Any] = {
        "resource": "nvidia.com/gpu", "vendor": "NVIDIA", "product": "Tesla T4", "kind": "gpu",
        "capacity": 4, "allocatable": 3, "used": 1, "free": 2, "unavailable": 1,
    }  # fmt: skip
    return CountedUnits.objects.create(cluster=cluster, node_name=node, **(values | more))


def search(query: str = "") -> DeviceSearch:
    return DeviceSearch(DeviceFilter.parse(QueryDict(query)), facts=FleetFacts.load(now=timezone.now()))


def facet(name: str, query: str = "") -> dict[str, int]:
    found = next((f for f in search(query).facets() if f.name == name), None)
    return {value.value: value.count for value in found.values} if found else {}


def test_units_count_in_the_facets_of_devices(fleet: Fleet) -> None:
    before = facet("state")
    units(fleet.cluster)
    after = facet("state")
    assert {state: after[state] - before.get(state, 0) for state in after} == {
        **dict.fromkeys(after, 0),
        "free": 2,
        "held": 1,
        "unavailable": 1,
    }
    assert facet("product")["Tesla T4"] == 4
    assert facet("driver")["nvidia.com/gpu"] == 4
    assert facet("backend") == {"dra": search().total, "plugin": 4}


def test_without_plugins_there_is_no_choice_of_backend(fleet: Fleet) -> None:
    assert facet("backend") == {}


def test_one_can_look_at_one_backend(fleet: Fleet) -> None:
    units(fleet.cluster)
    assert (search("backend=plugin").total, search("backend=plugin").counted.entries) == (0, 1)
    assert search("backend=dra").counted.entries == 0
    assert search("backend=dra").total == search().total > 0


@pytest.mark.parametrize(
    ("query", "entries"),
    [
        ("q=tesla", 1), ("q=old-01", 1), ("q=nvidia.com", 1), ("q=nowhere", 0), ("state=free", 1),
        ("state=partly", 0), ("state=held", 1), ("node=old-01", 1), ("node=gpu-01", 0), ("vendor=AMD", 0),
        ("vendor=NVIDIA&product=Tesla+T4", 1), ("class=gpu", 0), ("cluster=berlin", 1), ("cluster=oslo", 0),
    ],
)  # fmt: skip
def test_units_answer_to_the_filters_of_devices(fleet: Fleet, query: str, entries: int) -> None:
    units(fleet.cluster)
    assert search(query).counted.entries == entries


def test_units_that_are_devices_too_are_listed_and_not_counted(fleet: Fleet, cast: Cast) -> None:
    units(fleet.cluster, "gpu-01", both_ways=True, counts=False)
    assert facet("backend") == {}
    assert search().counted.entries == 1
    html = cast.client("stranger").get("/devices/").content.decode()
    assert "published as devices, too: not counted again" in html


def test_the_list_marks_units_and_says_how_many_are_left(fleet: Fleet, cast: Cast) -> None:
    units(fleet.cluster, sharing="time-slicing", replicas=4)
    html = cast.client("stranger").get("/devices/").content.decode()
    for text in ("Tesla T4", "counted", "2 of 4 free", "time-slicing, 4 per device", "1 used by Pods"):
        assert text in html
    assert "and 4 counted units" in html


def test_units_follow_the_devices_page_by_page(fleet: Fleet, cast: Cast) -> None:
    for number in range(60):
        units(fleet.cluster, f"old-{number:02}")
    client = cast.client("stranger")
    pages = [client.get(f"/devices/?page={page}").content.decode() for page in (1, 2)]
    shown = [html.count("2 of 4 free") for html in pages]
    assert shown == [50 - search().total, 10 + search().total]


def test_where_pods_are_not_seen_use_is_unknown(fleet: Fleet, cast: Cast) -> None:
    units(fleet.cluster, used=None, free=0, unavailable=4)
    html = cast.client("stranger").get("/devices/?backend=plugin").content.decode()
    assert "the Pods of this cluster are not seen" in html


def test_rest_lists_units_by_the_same_filters(fleet: Fleet, cast: Cast) -> None:
    units(fleet.cluster)
    client = cast.client("stranger")
    (found,) = client.get("/api/v1/counted-units/?vendor=NVIDIA").json()["results"]
    assert (found["cluster"], found["free"], found["both_ways"]) == ("berlin", 2, False)
    assert client.get("/api/v1/counted-units/?backend=dra").json()["results"] == []
