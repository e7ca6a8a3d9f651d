"""Conditions that both databases answer alike."""

import pytest
from django.utils import timezone

from portal.accounts.models import Project
from portal.sql import among, begins_with

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
