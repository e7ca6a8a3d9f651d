"""Conditions that both databases answer alike."""

import pytest
from django.utils import timezone

from inventory.models import Node
from portal.accounts.models import Project
from portal.sql import among, begins_with, has_items
from tests.inventory_pages.factories import make_cluster

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def projects() -> None:
    names = ("a/1", "a/2", "a0", "A/1", "b%", "b_")
    Project.objects.bulk_create([Project(slug=n, name=n, created_at=timezone.now()) for n in names])


@pytest.mark.parametrize("more", [0, 40_000])
def test_any_number_of_keys_is_one_condition(more: int) -> None:
    wanted = set(Project.objects.filter(slug__in=["a/1", "b_"]).values_list("pk", flat=True))
    most = max(Project.objects.values_list("pk", flat=True))
    keys = wanted | set(range(most + 1, most + 1 + more))
    assert set(Project.objects.filter(among("pk", keys)).values_list("pk", flat=True)) == wanted
    assert not Project.objects.filter(among("pk", set())).exists()


@pytest.mark.parametrize(
    ("prefix", "found"), [("a/", ["a/1", "a/2"]), ("a", ["a/1", "a/2", "a0"]), ("b%", ["b%"]), ("b_", ["b_"])]
)
def test_a_prefix_is_taken_as_it_stands(prefix: str, found: list[str]) -> None:
    rows = Project.objects.filter(begins_with("slug", prefix))
    assert sorted(rows.values_list("slug", flat=True)) == found


@pytest.mark.parametrize(
    ("items", "found"),
    [
        ({}, ["a", "b", "c"]),
        ({"pool": "burst"}, ["a", "b"]),
        ({"pool": "burst", "cloud.example.com/zone-1": "x"}, ["b"]),
        ({"1": "one"}, ["c"]),
        ({"pool": ""}, ["c"]),
        ({"missing": ""}, []),
        ({'po"ol': "burst"}, []),
        ({"cloud": "x"}, []),
    ],
)
def test_all_items_of_an_object_have_to_be_there(items: dict[str, str], found: list[str]) -> None:
    labels = {
        "a": {"pool": "burst", "cloud.example.com/zone-1": "y"},
        "b": {"pool": "burst", "cloud.example.com/zone-1": "x"},
        "c": {"pool": "", "1": "one"},
    }
    cluster = make_cluster()
    for name, known in labels.items():
        Node.objects.create(
            cluster=cluster, name=name, uid=name, resource_version="1", ready=True, unschedulable=False,
            labels=known,
        )  # fmt: skip
    assert sorted(Node.objects.filter(has_items("labels", items)).values_list("name", flat=True)) == found
