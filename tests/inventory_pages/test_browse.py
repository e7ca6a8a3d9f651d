"""Counts, pages and orders of a search equal what looking at every device one by one gives."""

from collections import Counter
from collections.abc import Callable
from itertools import chain
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from inventory import browse, browse_rows
from inventory.browse import STATE_ORDER, UNKNOWN, DeviceSearch, FleetFacts, product_name
from inventory.browse_racks import MIN_HARDWARE_TEXT
from inventory.filters import SORTS, DeviceFilter
from inventory.mirror import matching
from inventory.mirror.writer import features_of
from inventory.models import ClassProfile, Cluster, Device, DeviceProfile
from portal.dra.cel import CelCompileError, CelEvaluationError, compile_selector
from tests.inventory_pages.factories import (
    make_class,
    make_cluster,
    make_device,
    make_fleet,
    make_pool,
    make_profile,
)

pytestmark = pytest.mark.django_db

EXPRESSIONS = [
    'device.driver == "gpu-1.example.com"',
    # Of single pieces, decided by what identifies them …
    'device.attributes["gpu-0.example.com"].uuid.endsWith("-1")',
    'device.driver == "gpu-0.example.com" && device.attributes["gpu-0.example.com"].uuid.endsWith("-2")',
    'device.driver == "gpu-1.example.com" || device.attributes["gpu-0.example.com"].uuid.endsWith("-3")',
    # … and by whether there is such a thing at all.
    'has(device.attributes["gpu-0.example.com"].uuid)',
    '!("uuid" in device.attributes["gpu-2.example.com"])',
    '"gpu-0.example.com" in device.attributes',
    'device.attributes["gpu-0.example.com"].size() == 3',
    'device.attributes["gpu-0.example.com"].exists(name, name == "uuid")',
    # Not all devices have it: that is an error, not a match.
    'device.capacity["gpu-0.example.com"].memory.compareTo(quantity("40Gi")) > 0',
    "true",
    "false",
    "this is no CEL",
    "1 + 1",
]
SEARCHES = [
    "",
    "state=free",
    "state=unknown",
    "state=free&state=held&vendor=Vendor+1",
    "vendor=Vendor+0&vendor=Vendor+2&state=unavailable",
    "product=Accelerator+01",
    "product=gone",
    "driver=gpu-1.example.com&cluster=berlin",
    "cluster=oslo",
    "class=gpu-0.example.com",
    "class=two-cards",
    "class=two-cards&class=gpu-1.example.com&state=free",
    "node=node-00001&node=node-00004",
    "node=node-00001&vendor=Vendor+1&node=nowhere",
    "q=accelerator+02",
    "q=NODE-00003",
    "q=gpu-1",
    "q=vendor+1&state=held",
    "q=fabric",
    "q=oslo+gpu-2",
    "q=%25",
    "q=_",
    "q=no-such-thing",
    "health=tainted",
    "health=tainted&health=unhealthy&state=held&state=free",
    "health=unknown&vendor=Vendor+0",
    "health=good&state=free&class=gpu-0.example.com",
    "memory=85899345920",
    "memory=42949672960&memory=abc&state=held",
    "pool=gpu-0.example.com/fabric-a",
    "pool=gpu-0.example.com/fabric-a&pool=gpu-1.example.com/node-00001&state=free",
    "pool=nonsense&pool=gpu-1.example.com/none",
    *(f"cel={quote(expression)}" for expression in EXPRESSIONS),
    f"cel={quote(EXPRESSIONS[0])}&state=free&vendor=Vendor+1",
    f"cel={quote(EXPRESSIONS[1])}&state=held&node=node-00003&health=good",
]


@pytest.fixture
def two_clusters(db: None) -> None:
    make_fleet(make_cluster("berlin"), nodes=7, per_node=4, kinds=5)
    make_fleet(make_cluster("oslo", state=Cluster.State.UNREACHABLE), nodes=3, per_node=4, kinds=2)
    berlin = Cluster.objects.get(name="berlin")
    # Devices that no node has, in a pool found by its own name.
    fabric = make_pool(berlin, "fabric-a", driver="gpu-0.example.com")
    for port in range(3):
        make_device(
            berlin, f"port-{port}", node="", pool=fabric,
            profile=make_profile("", driver="gpu-0.example.com", vendor="", kind="nic", memory=""),
        )  # fmt: skip
    Device.objects.filter(name="gpu-2").update(health=Device.Health.TAINTED)
    Device.objects.filter(name="gpu-3", state="held").update(health=Device.Health.UNHEALTHY)
    DeviceProfile.objects.filter(product="Accelerator 02").update(memory_bytes=40 * 2**30)
    first, last = Device.objects.order_by("pk")[:1][0], Device.objects.filter(name="port-2")[0]
    make_class(berlin, "two-cards", devices=(first, last))


def search(query: str) -> DeviceSearch:
    return DeviceSearch(DeviceFilter.parse(QueryDict(query)), facts=FleetFacts.load(now=timezone.now()))


def facts_of(device: Device) -> dict[str, set[str]]:
    """The facets of one device, looked up the slow way."""
    in_step = device.cluster.name == "berlin"
    matches = ClassProfile.objects.filter(profile=device.profile, device_class__cluster=device.cluster)
    classes = {m.device_class.name for m in matches if m.device_id in (None, device.pk)}
    return {
        "state": {device.state if in_step else UNKNOWN},
        "cluster": {device.cluster.name},
        "vendor": {device.profile.vendor},
        "product": {product_name(device.profile)},
        "kind": {device.profile.kind},
        "driver": {device.profile.driver},
        "class": classes,
        "node": {device.node_name},
        "memory": set() if device.profile.memory_bytes is None else {str(device.profile.memory_bytes)},
        "health": {device.health if in_step else UNKNOWN},
        "pool": {f"{device.pool.driver}/{device.pool.name}"},
    }


def is_meant(device: Device, expression: str) -> bool:
    """Whether an expression admits a device, asked of this one device."""
    if not expression:
        return True
    features = features_of(device.cluster.server_version, served=device.cluster.served)
    try:
        selector = compile_selector(expression, features=features.gates, enforce_estimate=True)
        return selector.evaluate(matching.view(device.profile, identity=device.identity))
    except (CelCompileError, CelEvaluationError):
        return False


def mentions(device: Device, term: str) -> bool:
    profile = device.profile
    places = [device.name, device.node_name, device.pool.name, device.cluster.name]
    kinds = [product_name(profile), profile.driver, profile.vendor, profile.kind]
    if len(term) >= MIN_HARDWARE_TEXT:
        places.append(device.hardware_id)
    return any(term.casefold() in text.casefold() for text in (*places, *kinds))


def look_at_all() -> list[tuple[Device, dict[str, set[str]]]]:
    devices = Device.objects.select_related("cluster", "profile", "pool")
    return [(device, facts_of(device)) for device in devices]


def passing(
    fleet: list[tuple[Device, dict[str, set[str]]]], wanted: DeviceFilter, *, but: str = ""
) -> list[tuple[Device, dict[str, set[str]]]]:
    """Matching devices by looking at each; `but` names a facet whose choice is ignored."""
    return [
        (device, facts)
        for device, facts in fleet
        if all(mentions(device, term) for term in wanted.terms)
        and is_meant(device, wanted.expression)
        and all(facts[facet] & set(values) for facet, values in wanted.chosen.items() if facet != but)
    ]


@pytest.mark.usefixtures("two_clusters")
@pytest.mark.parametrize("few", [0, 1000], ids=["many hits", "few hits"])
@pytest.mark.parametrize("query", SEARCHES)
def test_results_and_facets_equal_a_recount(query: str, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browse, "FEW", few)
    monkeypatch.setattr(browse_rows, "SMALL_GROUP", few)
    fleet, found = look_at_all(), search(query)
    expected = passing(fleet, found.wanted)
    assert found.total == len(expected)
    assert {device.pk for device in found.rows()} == {device.pk for device, _facts in expected}
    for facet in found.facets():
        others = passing(fleet, found.wanted, but=facet.name)
        recount = Counter(chain.from_iterable(facts[facet.name] for _device, facts in others))
        del recount[""]
        shown = {value.value: value.count for value in facet.values if value.count}
        if facet.name == "pool":
            # Those of the nodes that are listed.
            assert shown.items() <= recount.items()
            assert facet.more or shown == recount
            continue
        assert shown == (dict(sorted(recount.items())[:8]) if facet.more else dict(recount)), facet.name
        assert {v.value for v in facet.values if v.chosen} == set(found.wanted.values(facet.name))


@pytest.mark.usefixtures("two_clusters")
@pytest.mark.parametrize("limit", [1, 4, 50])
@pytest.mark.parametrize("sort", [*SORTS, *(f"-{sort}" for sort in SORTS)])
def test_pages_show_every_match_once_and_in_order(sort: str, limit: int) -> None:
    found = search(f"sort={sort}&state=free&state=held&state=unknown")
    pages = [
        device for start in range(0, found.total, limit) for device in found.page(offset=start, limit=limit)
    ]
    expected = [device.pk for device, _facts in passing(look_at_all(), found.wanted)]
    assert sorted(device.pk for device in pages) == sorted(expected)
    keys: dict[str, Callable[[Device], Any]] = {
        "node": lambda d: (d.node_name, d.name),
        "product": lambda d: product_name(d.profile).casefold(),
        "driver": lambda d: d.profile.driver,
        "memory": lambda d: -1 if d.profile.memory_bytes is None else d.profile.memory_bytes,
        "state": lambda d: STATE_ORDER.index(UNKNOWN if d.cluster.name == "oslo" else d.state),
        "cluster": lambda d: d.cluster.name,
    }
    order = [keys[sort.removeprefix("-")](device) for device in pages]
    assert order == sorted(order, reverse=sort.startswith("-"))


@pytest.mark.usefixtures("two_clusters")
@pytest.mark.parametrize("limit", [1, 4, 50])
@pytest.mark.parametrize("sort", ["node", "-node"])
def test_deep_pages_of_the_whole_fleet_are_those_of_the_database(
    sort: str, limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pages() -> list[list[int]]:
        found = search(f"sort={sort}")
        starts = range(0, found.total + limit, limit)
        return [[device.pk for device in found.page(offset=start, limit=limit)] for start in starts]

    monkeypatch.setattr(browse, "DEEP", 10**9)
    walked = pages()
    monkeypatch.setattr(browse, "DEEP", 0)
    assert pages() == walked
    assert len(set(chain.from_iterable(walked))) == Device.objects.count()


@pytest.mark.usefixtures("two_clusters")
def test_beyond_the_last_page_there_is_nothing() -> None:
    assert search("").page(offset=10_000, limit=50) == []


def test_an_empty_fleet_can_be_searched() -> None:
    found = search("q=x&state=free&class=y")
    assert (found.total, list(found.rows()), found.page(offset=0, limit=50)) == (0, [], [])
    assert [facet.name for facet in found.facets()] == ["state", "class", "node", "pool"]


@pytest.mark.parametrize("query", ["", "sort=-product&state=free", "q=node-00", "class=gpu-1.example.com"])
def test_the_number_of_queries_does_not_grow_with_the_fleet(query: str) -> None:
    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            found = search(query)
            found.facets()
            found.page(offset=0, limit=50)
        return len(captured)

    make_fleet(make_cluster("berlin"), nodes=24, per_node=2, kinds=12)
    small = queries()
    make_fleet(make_cluster("oslo"), nodes=60, per_node=8, kinds=24)
    assert queries() <= small
    assert small <= 16
