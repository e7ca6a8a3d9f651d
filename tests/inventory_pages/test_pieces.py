"""What is asked of alike pieces together is what asking each of them says."""

import random
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from inventory import expressions, pieces
from inventory.coverage import coverage_of_all
from inventory.expressions import Meaning, meaning_of
from inventory.mirror import matching
from inventory.models import Cluster, Device
from portal.dra.cel import CelEvaluationError, compile_selector
from tests.inventory_pages.factories import make_cluster, make_fleet, make_profile

pytestmark = pytest.mark.django_db

DRIVER = "gpu-0.example.com"
EXPRESSIONS = (
    f'device.attributes["{DRIVER}"].uuid == "A"',
    f'device.attributes["{DRIVER}"].?uuid.orValue("none") in ["A", "none"]',
    f'has(device.attributes["{DRIVER}"].serial) && device.attributes["{DRIVER}"].serial < 2',
    f'"{DRIVER}" in device.attributes && device.attributes["other.example.org"].uuid.startsWith("B")',
    '"other.example.org" in device.attributes',
    f'device.attributes["{DRIVER}"].exists(name, name == "serial")',
    f'device.attributes["{DRIVER}"].uuid == "A" || device.attributes["{DRIVER}"].serial == 1',
    'device.driver == "gpu-1.example.com" && device.attributes["gpu-1.example.com"].index > 2',
)


def make_odd_fleet(chance: random.Random) -> None:
    """Devices that share what should tell them apart, lack it, or have it of another type or domain."""
    make_fleet(make_cluster("berlin"), nodes=6, per_node=4, kinds=3)
    make_fleet(make_cluster("oslo"), nodes=3, per_node=4, kinds=2)
    make_profile("Of nobody", driver=DRIVER)
    values: list[dict[str, Any]] = [
        {"string": "A"}, {"string": "B" * 200}, {"string": "B\n\"'"}, {"int": 1}, {"bool": True},
    ]  # fmt: skip
    names = [
        f"{DRIVER}/uuid",
        f"{DRIVER}/serial",
        "gpu-1.example.com/index",
        "other.example.org/uuid",
        "plain",
    ]
    for device in Device.objects.all():
        some = chance.sample(names, chance.randint(0, 4))
        device.identity = {name: chance.choice(values) for name in some}
        device.save(update_fields=["identity"])


def meaning(expression: str) -> Meaning:
    return meaning_of(expression, coverage=coverage_of_all(now=timezone.now()))


def by_asking_each(expression: str) -> set[int]:
    selector = compile_selector(expression)
    found = set()
    for device in Device.objects.select_related("profile"):
        try:
            if selector.evaluate(matching.view(device.profile, identity=device.identity)):
                found.add(device.pk)
        except CelEvaluationError:
            pass
    return found


@pytest.mark.parametrize("seed", range(3))
def test_pieces_are_asked_together_and_answer_for_themselves(seed: int) -> None:
    make_odd_fleet(random.Random(seed))
    Cluster.objects.update(fleet_version=1)
    for expression in EXPRESSIONS:
        told = meaning(expression)
        assert not told.problem, told.problem
        whole = Device.objects.filter(profile__in={pk for kinds in told.kinds.values() for pk in kinds})
        assert told.devices | set(whole.values_list("pk", flat=True)) == by_asking_each(expression), (
            expression
        )


def queries_of(expression: str) -> int:
    expressions._cached.clear()
    coverage = coverage_of_all(now=timezone.now())
    with CaptureQueriesContext(connection) as captured:
        meaning_of(expression, coverage=coverage)
    return sum('FROM "inventory_device"' in query["sql"] for query in captured)


def test_pieces_are_read_once_per_fleet_and_reads() -> None:
    make_fleet(make_cluster("berlin"), nodes=3, kinds=3)
    Cluster.objects.update(fleet_version=1)
    typed = f'device.attributes["{DRIVER}"].uuid == "'
    assert [queries_of(f'{typed}{text}"') for text in ("", "G", "GP")] == [1, 0, 0]
    assert queries_of(f'{typed}" || device.attributes["{DRIVER}"].serial == 1') == 1
    Cluster.objects.update(fleet_version=2)
    assert queries_of(f'{typed}"') == 1
    # Of a cluster that was never mirrored nothing is kept, nor of an expression that may read everything.
    Cluster.objects.update(fleet_version=0)
    assert [queries_of(f'{typed}"') for _again in range(2)] == [1, 1]
    Cluster.objects.update(fleet_version=3)
    everything = f'device.attributes["{DRIVER}"].size() == 3'
    assert [queries_of(everything) for _again in range(2)] == [1, 1]


def test_few_fleets_and_reads_are_kept() -> None:
    make_fleet(make_cluster("berlin"), nodes=1, kinds=1)
    for version in range(1, 2 * pieces.MAX_CACHED):
        Cluster.objects.update(fleet_version=version)
        queries_of(f'device.attributes["{DRIVER}"].uuid == ""')
    assert len(pieces._cached) == pieces.MAX_CACHED
