"""Words find in memory what looking at every row finds, in the same order and with the same counts, and what
is remembered of a fleet lasts for as long as the fleet does."""

import random
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import msgspec
import pytest
from django.db import connection
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from inventory import browse, browse_racks
from inventory.browse import DeviceSearch, FleetFacts
from inventory.browse_rows import mentions
from inventory.filters import SORTS, DeviceFilter
from inventory.models import Cluster, Device, Pool, ResourceSlice
from portal.sql import KeyList, TextList
from tests.inventory_pages.factories import (
    LONG_AGO,
    make_class,
    make_cluster,
    make_device,
    make_fleet,
    make_profile,
)

pytestmark = pytest.mark.django_db

WORDS = ("gpu", "nic", "a-", "b0", "rack", "gpu-0", "slice", "x9")


def make_world(chance: random.Random) -> None:
    """Clusters with nodes of several pools, pools of several nodes and of none, kinds among each other."""
    profiles = [
        make_profile(
            f"Card {kind}", driver=f"{chance.choice(WORDS)}.example.com", vendor=f"Vendor {kind % 2}"
        )
        for kind in range(4)
    ]
    for cluster in (make_cluster("berlin"), make_cluster("gpu-oslo", state=Cluster.State.UNREACHABLE)):
        nodes = [f"{chance.choice(WORDS)}{number}" for number in range(6)]
        pools = [
            Pool(
                cluster=cluster, driver=chance.choice(profiles).driver,
                name=f"{chance.choice([*nodes, 'fabric'])}-{number}",
                generation=1, slices_expected=1, slices_seen=1, complete=True,
            )
            for number in range(8)
        ]  # fmt: skip
        for pool in Pool.objects.bulk_create(pools):
            part = ResourceSlice.objects.create(
                cluster=cluster, name=pool.name, uid=pool.name, resource_version="1",
                pool=pool, generation=1, manifest={},
            )  # fmt: skip
            Device.objects.bulk_create(
                Device(
                    cluster=cluster, pool=pool, slice=part, profile=chance.choice(profiles),
                    name=f"{chance.choice(WORDS)}-{number}", position=number, first_seen_at=LONG_AGO,
                    node_name=chance.choice([*nodes, ""]), state=chance.choice(Device.State.values),
                    health=chance.choice(Device.Health.values),
                    hardware_id=chance.choice(["", f"GPU-{chance.randrange(16**4):04x}", "A\nb 0001"]),
                )
                for number in range(6)
            )  # fmt: skip
    make_class(Cluster.objects.get(name="berlin"), "two", devices=tuple(Device.objects.order_by("pk")[:2]))


def searches(chance: random.Random) -> Iterator[str]:
    """Parts of what there is, one word or two, with and without other choices."""
    texts = [
        text
        for row in Device.objects.values_list("name", "node_name", "pool__name", "hardware_id")
        for text in row
        if text
    ]
    others: list[dict[str, Any]] = [
        {}, {}, {"state": "free"}, {"class": "two"}, {"cel": 'device.driver.startsWith("gpu")'},
        {"node": Device.objects.exclude(node_name="").values_list("node_name", flat=True)[:3]},
        {"pool": [f"{pool.driver}/{pool.name}" for pool in Pool.objects.all()[:4]]},
    ]  # fmt: skip
    for _number in range(24):
        words = []
        for _word in range(chance.choice((1, 1, 2))):
            text = chance.choice(texts).split()[0]
            start = chance.randrange(len(text))
            words.append(text[start : start + chance.randint(1, 5)])
        sort = chance.choice(("", "-")) + chance.choice(SORTS)
        yield urlencode({"q": " ".join(words), "sort": sort, **chance.choice(others)}, doseq=True)


def search(query: str) -> DeviceSearch:
    return DeviceSearch(DeviceFilter.parse(QueryDict(query)), facts=FleetFacts.load(now=timezone.now()))


def told(found: DeviceSearch) -> dict[str, Any]:
    """All that a search answers."""
    facets = {
        facet.name: ([(v.value, v.count, v.chosen) for v in facet.values], facet.more)
        for facet in found.facets()
    }
    pages = [device.pk for start in range(0, found.total, 7) for device in found.page(offset=start, limit=7)]
    return {
        "total": found.total,
        "states": found.states,
        "facets": facets,
        "pages": pages,
        "rows": set(found.rows().values_list("pk", flat=True)),
        "places": found.places(0, found.total),
    }


def by_looking(found: DeviceSearch) -> set[int]:
    """What the words find, by the database alone."""
    rows = Device.objects.all()
    for term in found.wanted.terms:
        rows = rows.filter(mentions(term, facts=found.facts))
    return set(rows.values_list("pk", flat=True))


@pytest.mark.parametrize("seed", [0, 500])
def test_memory_and_database_answer_alike(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(seed)
    make_world(chance)
    many = 0
    for query in searches(chance):
        monkeypatch.setattr(browse, "FEW", 10_000)
        by_keys = told(search(query))
        monkeypatch.setattr(browse, "FEW", 0)
        found = search(query)
        # Hardware ids one by one, or all of them.
        monkeypatch.setattr(browse_racks, "FEW_HITS", (0, 1, 10_000)[many % 3])
        in_memory = told(found)
        assert in_memory == by_keys, query
        assert len(in_memory["pages"]) == len(set(in_memory["pages"])) == found.total
        assert set(in_memory["pages"]) == in_memory["rows"] <= by_looking(found), query
        if not set(found.wanted.chosen) and not found.wanted.expression:
            assert in_memory["rows"] == by_looking(found), query
        many += found.total > 1
    assert many > 10


@pytest.mark.parametrize("few", [0, 10_000])
@pytest.mark.parametrize("word", ["gpu-1", "node-0000", "accelerator 01"])
def test_a_change_of_the_mirror_is_told_at_once(few: int, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browse, "FEW", few)
    cluster = make_cluster("berlin")
    make_fleet(cluster, nodes=4, kinds=2)
    Cluster.objects.update(mirror_version=1, fleet_version=1)
    query = urlencode({"q": word})
    before = search(query)
    device = before.page(offset=0, limit=1)[0]
    assert before.states[Device.State.PARTLY] == 0

    Device.objects.filter(pk=device.pk).update(state=Device.State.PARTLY)
    Cluster.objects.update(mirror_version=2)
    assert search(query).states[Device.State.PARTLY] == 1
    assert search(query).total == before.total

    added = make_device(cluster, "gpu-1b", node="node-0000-b", profile=device.profile)
    Device.objects.filter(pk=device.pk).delete()
    Cluster.objects.update(mirror_version=3, fleet_version=2)
    after = search(query)
    keys = {found.pk for found in after.page(offset=0, limit=50)}
    assert keys == set(after.rows().values_list("pk", flat=True))
    assert (added.pk in keys, device.pk in keys) == (True, False)
    assert after.total == before.total


def test_what_is_known_of_a_version_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browse, "FEW", 0)
    make_fleet(make_cluster("berlin"), nodes=4, kinds=2)

    def queries() -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            found = search("q=node-00001")
            assert (found.total, len(found.page(offset=0, limit=3))) == (8, 3)
        return [query["sql"] for query in captured if 'FROM "inventory_device"' in query["sql"]]

    # Racks, hardware ids, states and the page.
    assert len(queries()) == len(queries()) == 4
    Cluster.objects.update(mirror_version=1, fleet_version=1)
    assert len(queries()) == 4
    assert len(queries()) == 1
    Cluster.objects.update(mirror_version=2)
    assert len(queries()) == 2
    Cluster.objects.update(mirror_version=3, fleet_version=2)
    assert len(queries()) == 4


def test_without_words_no_racks_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    make_fleet(make_cluster("berlin"), nodes=2, kinds=2)
    monkeypatch.delattr(FleetFacts, "racks")
    assert len(search("state=free&node=node-00001&sort=product").page(offset=0, limit=50)) == 2
    # All kinds have it.
    assert search("q=accelerator").total == 16


def test_a_device_that_went_since_the_racks_were_made_is_in_no_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browse, "FEW", 0)
    make_fleet(make_cluster("berlin"), nodes=2, kinds=2)
    Cluster.objects.update(mirror_version=1, fleet_version=1)
    assert search("q=node-00001").total == 8
    Device.objects.filter(node_name="node-00001", name="gpu-3").delete()
    Cluster.objects.update(mirror_version=2)
    found = search("q=node-00001")
    assert (found.total, len(found.page(offset=0, limit=50))) == (7, 7)


def test_lists_of_keys_and_texts_go_side_by_side() -> None:
    cluster = make_cluster("berlin")
    odd = ['"', "\\", "a\nb", "显卡", "\x1f,["]
    for number, text in enumerate(odd):
        make_device(cluster, f"gpu-{number}", hardware_id=text)
    told = Device.objects.aggregate(keys=KeyList("pk"), texts=TextList("hardware_id"))
    pairs = dict(zip(msgspec.json.decode(told["keys"]), msgspec.json.decode(told["texts"]), strict=True))
    assert pairs == dict(Device.objects.values_list("pk", "hardware_id"))
