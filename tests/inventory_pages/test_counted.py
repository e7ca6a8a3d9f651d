"""Units of Device Plugins in the device list: counted, marked, and counted once."""

import csv
import io
from typing import Any

import pytest
from django.db import connection
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from inventory import browse_entries
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


def test_units_are_listed_page_by_page(fleet: Fleet, cast: Cast) -> None:
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


# --- among devices --------------------------------------------------------------------------------


def listed(query: str = "", **window: int) -> list[str]:
    """Entries in their order: "node/name" of devices, "node:resource" of units."""
    found = browse_entries.page(search(query), **({"offset": 0, "limit": 1000} | window))
    return [
        f"{e.node_name}:{e.resource}" if isinstance(e, CountedUnits) else f"{e.node_name}/{e.name}"
        for e in found
    ]


@pytest.fixture
def mixed(fleet: Fleet) -> Fleet:
    """Units before, on, between and behind the nodes gpu-01 and gpu-02."""
    units(fleet.cluster, "a-01", memory_bytes=2**40)
    units(fleet.cluster, "gpu-01", both_ways=True, counts=False, used=4, free=0, unavailable=0)
    units(fleet.cluster, "gpu-01", resource="example.com/fpga", product="AAA", vendor="")
    units(fleet.cluster, "gpu-015", used=None, free=0, unavailable=4)
    units(fleet.cluster, "z-01", resource="zzz.example.com/asic", product="nvidia zoo")
    return fleet


def test_units_stand_in_the_racks_among_devices(mixed: Fleet) -> None:
    assert listed() == [
        "a-01:nvidia.com/gpu",
        *("gpu-01/gpu-0", "gpu-01/gpu-1", "gpu-01/gpu-2", "gpu-01:example.com/fpga", "gpu-01:nvidia.com/gpu"),
        "gpu-015:nvidia.com/gpu",
        *("gpu-02/gpu-0", "gpu-02/gpu-1"),
        "z-01:zzz.example.com/asic",
    ]
    assert listed("sort=-node") == listed()[::-1]


@pytest.mark.parametrize("sort", ["node", "product", "driver", "memory", "state", "cluster"])
@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("window", [1, 3])
def test_pages_of_any_size_and_order_make_up_the_whole(
    mixed: Fleet, sort: str, sign: str, window: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(browse_entries, "WINDOW", window)
    query = f"sort={sign}{sort}"
    whole = listed(query)
    assert sorted(whole) == sorted(listed())
    for limit in (1, 2, 3, 7):
        pages = [listed(query, offset=offset, limit=limit) for offset in range(0, len(whole) + 3, limit)]
        assert [entry for page in pages for entry in page] == whole


def test_units_are_sorted_by_what_devices_are_sorted_by(mixed: Fleet) -> None:
    assert listed("sort=product")[0] == "gpu-01:example.com/fpga"
    # Whatever the case: after "NVIDIA H100", before "Tesla".
    after = listed("sort=product").index("gpu-01/gpu-2") + 1
    assert listed("sort=product")[after] == "z-01:zzz.example.com/asic"
    assert listed("sort=-memory")[0] == "a-01:nvidia.com/gpu"
    assert listed("sort=driver")[-1] == "z-01:zzz.example.com/asic"
    # The best state that one of its units is in; where Pods are not seen, nobody knows it.
    assert listed("sort=-state")[0] == "gpu-015:nvidia.com/gpu"
    assert listed("sort=state&state=held&backend=plugin")[-1] == "gpu-01:nvidia.com/gpu"


def test_units_that_nobody_can_judge_are_unknown_everywhere(mixed: Fleet) -> None:
    assert facet("state")["unknown"] == 4
    assert listed("state=unknown") == ["gpu-015:nvidia.com/gpu"]


def test_the_facet_of_nodes_counts_units(mixed: Fleet) -> None:
    assert facet("node") == {"a-01": 4, "gpu-01": 3 + 4, "gpu-015": 4, "gpu-02": 2, "z-01": 4}
    assert facet("node", "backend=plugin&node=gpu-02") == {
        "a-01": 4,
        "gpu-01": 4,
        "gpu-015": 4,
        "gpu-02": 0,
        "z-01": 4,
    }
    assert facet("node", "node=nowhere")["nowhere"] == 0


def test_many_nodes_of_units_are_found_by_typing(fleet: Fleet) -> None:
    for number in range(12):
        units(fleet.cluster, f"a-{number:02}")
    found = next(f for f in search().facets() if f.name == "node")
    assert ([v.value for v in found.values], found.more) == ([f"a-{n:02}" for n in range(8)], True)


def test_the_csv_has_units_and_says_how_they_are_offered(mixed: Fleet, cast: Cast) -> None:
    response = cast.client("stranger").get("/devices/export.csv?state=free&state=unknown")
    text = b"".join(response.streaming_content).decode().removeprefix("\ufeff")  # type: ignore[attr-defined]  # of streamed responses
    lines = list(csv.DictReader(io.StringIO(text)))
    told = {
        (line["node"], line["driver"]): [
            line[f"units{part}"] for part in ("", "_free", "_used", "_unavailable")
        ]
        for line in lines
        if line["offered_as"] == "plugin"
    }
    assert told == {
        ("a-01", "nvidia.com/gpu"): ["4", "2", "1", "1"],
        ("gpu-01", "example.com/fpga"): ["4", "2", "1", "1"],
        ("gpu-015", "nvidia.com/gpu"): ["4", "", "", ""],
        ("z-01", "zzz.example.com/asic"): ["4", "2", "1", "1"],
    }
    assert [line["device"] for line in lines if line["offered_as"] == "dra"] == ["gpu-1"]


def test_a_page_takes_as_many_queries_with_more_units(fleet: Fleet) -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            listed("", offset=3, limit=50)
            listed("sort=product", offset=3, limit=50)
        return len(captured)

    units(fleet.cluster)
    few = queries()
    for number in range(80):
        units(fleet.cluster, f"gpu-0{number:02}", product=f"T{number % 7}")
    assert queries() <= few + 1
