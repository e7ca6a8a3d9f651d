"""Tables, as ``kubectl get`` asks for them."""

from datetime import UTC, datetime, timedelta

import pytest

from portal.demo.printing import as_table
from portal.demo.resources import PODS as POD_RESOURCE
from portal.demo.store import Store
from tests.demo.api import CLAIMS, PODS, Api, claim, pod

TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}


def test_a_list_comes_as_a_table(api: Api) -> None:
    api.ok("POST", PODS, pod("a"))
    api.ok("POST", PODS, pod("b"))
    table = api.ok("GET", f"{PODS}?limit=1", headers=TABLE)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    titles = [column["name"] for column in table["columnDefinitions"]]
    assert titles == ["Name", "Ready", "Status", "Node", "Age"]
    (row,) = table["rows"]
    assert row["cells"][:4] == ["a", "0/1", "Pending", "<none>"]
    assert row["object"]["metadata"]["namespace"] == "lab"
    assert table["metadata"]["continue"]


def test_one_object_comes_as_a_table(api: Api) -> None:
    api.ok("POST", CLAIMS, claim())
    table = api.ok("GET", f"{CLAIMS}/one", headers=TABLE)
    assert table["rows"][0]["cells"][:2] == ["one", "pending"]


def test_other_clients_get_objects(api: Api) -> None:
    accept = {"Accept": "application/json, application/json;as=Table;v=v1;g=meta.k8s.io"}
    assert api.ok("GET", PODS, headers=accept)["kind"] == "PodList"


@pytest.mark.parametrize(
    ("seconds", "age"), [(0, "0s"), (119, "119s"), (120, "2m"), (7_200, "2h"), (200_000, "2d")]
)
def test_ages_are_in_the_largest_unit_that_fits(seconds: int, age: str) -> None:
    start = datetime(2026, 3, 1, tzinfo=UTC)
    store = Store(clock=lambda: start)
    store.create("namespaces", {"metadata": {"name": "lab"}})
    store.create("pods", pod(), namespace="lab")
    record = store.record("pods", "one", namespace="lab")
    table = as_table(POD_RESOURCE, [record], {}, now=start + timedelta(seconds=seconds))
    assert f'"{age}"]'.encode() in table
