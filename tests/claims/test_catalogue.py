"""The catalogue: what is free by the engine, what is unknown, waits from history, prices, who sees what."""

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext

from claims.catalogue import places
from claims.catalogue.offers import entries, may_ask_for
from claims.models import Flavor, Placement, PriceBook, Request
from claims.money.pricing import price_list
from claims.waiting.typical import FEWEST, typical
from inventory import snapshot
from inventory.models import Cluster, CountedUnits, Device, Node, Stream
from portal.accounts.models import Project
from portal.dra.fleet import Fleet
from tests.claims import catalogue
from tests.claims.catalogue import HOUR
from tests.claims.conftest import NOW, Cast


@pytest.fixture(autouse=True)
def fresh_caches() -> None:
    cache.clear()
    snapshot._cached.clear()


def test_free_and_total_are_told_by_the_engine(cast: Cast, cluster: Cluster) -> None:
    catalogue.placement(catalogue.flavor(), cluster)
    (found,) = entries(user=cast.owner, prices=price_list(), now=NOW)
    assert (found.free, found.total, found.products, found.clusters) == (2, 2, ["H100"], ["main"])
    # Cordoned nodes have their devices still, and give none.
    Node.objects.update(unschedulable=True)
    Device.objects.update(state=Device.State.UNAVAILABLE)
    Cluster.objects.update(mirror_version=1, fleet_version=1)
    (found,) = entries(user=cast.owner, prices=price_list(), now=NOW)
    assert (found.free, found.total) == (0, 2)


def test_the_states_of_devices_and_the_engine_say_the_same(cast: Cast, cluster: Cluster) -> None:
    Node.objects.filter(name="node-a100").update(unschedulable=True)
    Device.objects.filter(node_name="node-a100").update(state=Device.State.UNAVAILABLE)
    catalogue.placement(catalogue.flavor("all"), cluster, device_class="gpu")
    engine = [{"key": "nobody.example.org/has-it", "operator": "Exists"}]
    catalogue.placement(catalogue.flavor("asked"), cluster, device_class="gpu", tolerations=engine)
    found = entries(user=cast.owner, prices=price_list(), now=NOW)
    assert [(e.free, e.total) for e in found] == [(2, 4), (2, 4)]


def test_selectors_and_node_pools_narrow_what_counts(cast: Cast, cluster: Cluster) -> None:
    Node.objects.filter(name="node-a100").update(labels={"pool": "a"})
    by_cel = catalogue.flavor("cel")
    # The profiles of the cast carry it; the pieces of the engine's fleet do not, so only the total is told.
    expression = 'device.attributes["gpu.nvidia.com"].productName == "A100"'
    catalogue.placement(by_cel, cluster, device_class="gpu", selectors=[expression])
    by_pool = catalogue.flavor("pool")
    catalogue.placement(by_pool, cluster, device_class="gpu", pool="a", node_selector={"pool": "a"})
    found = {e.flavor.slug: e for e in entries(user=cast.owner, prices=price_list(), now=NOW)}
    assert (found["pool"].free, found["pool"].total, found["pool"].products) == (2, 2, ["A100"])
    assert (found["cel"].total, found["cel"].products) == (2, ["A100"])


@pytest.mark.parametrize("broken", ["silent", "unreachable"])
def test_what_is_not_observed_is_unknown_and_never_zero(cast: Cast, cluster: Cluster, broken: str) -> None:
    catalogue.placement(catalogue.flavor(), cluster)
    if broken == "silent":
        Stream.objects.update(heard_at=NOW - HOUR, listed_at=NOW - HOUR)
    else:
        Cluster.objects.update(state=Cluster.State.UNREACHABLE)
    (found,) = entries(user=cast.owner, prices=price_list(), now=NOW)
    assert (found.free, found.total, len(found.unknown)) == (None, 2, 1)


def test_a_class_that_is_gone_leaves_it_unknown_with_the_reason(cast: Cast, cluster: Cluster) -> None:
    catalogue.placement(catalogue.flavor(), cluster, device_class="h200")
    (found,) = entries(user=cast.owner, prices=price_list(), now=NOW)
    assert (found.free, found.total) == (None, 0)
    assert "h200" in found.places[0].stock.problem


def test_units_of_a_device_plugin_are_counted_where_pods_may_go(cast: Cast, cluster: Cluster) -> None:
    made = catalogue.flavor()
    row = catalogue.placement(made, cluster, device_class="", extended_resource="nvidia.com/gpu")
    catalogue.units(cluster, used=1)
    catalogue.units(cluster, "node-a100", used=0)
    Node.objects.filter(name="node-a100").update(taints=[{"key": "gpu", "value": "", "effect": "NoSchedule"}])
    CountedUnits.objects.filter(node_name="node-a100").update(free=0, unavailable=4)
    (found,) = entries(user=cast.owner, prices=price_list(), now=NOW)
    assert (found.free, found.total, found.backends) == (3, 8, ["device-plugin"])
    row.tolerations = [{"key": "gpu", "operator": "Exists"}]
    row.save()
    Flavor.objects.update(version=2)
    (found,) = entries(user=cast.owner, prices=price_list(), now=NOW)
    assert found.free == 7


def test_units_are_unknown_where_the_desk_sees_no_pods(cast: Cast, cluster: Cluster) -> None:
    catalogue.placement(catalogue.flavor(), cluster, device_class="", extended_resource="nvidia.com/gpu")
    catalogue.units(cluster, used=None)
    (found,) = entries(user=cast.owner, prices=price_list(), now=NOW)
    assert (found.free, found.total) == (None, 4)


def test_the_way_follows_what_the_nodes_of_the_pool_run(cast: Cast, cluster: Cluster) -> None:
    for name, runtime in (("a100", "containerd://1.7.27"), ("h100", "containerd://2.1.4")):
        Node.objects.filter(name=f"node-{name}").update(labels={"pool": name}, container_runtime=runtime)
    made = catalogue.flavor()
    rows = [
        catalogue.placement(
            made, cluster, device_class="gpu", extended_resource="nvidia.com/gpu", pool=pool,
            node_selector={"pool": pool} if pool else {}, runtime="containerd >=2.0",
        )
        for pool in ("a100", "h100", "")
    ]  # fmt: skip
    found = places.choices_of(list(Placement.objects.select_related("cluster", "flavor")))
    assert [found[row.pk].backend for row in rows] == ["device-plugin", "dra", "device-plugin"]
    assert found[rows[2].pk].clauses[0].observed == ("containerd 1.7.27", "containerd 2.1.4")


def test_as_long_as_the_mirror_does_not_change_the_engine_is_not_asked_again(
    cast: Cast, cluster: Cluster
) -> None:
    # What tolerates more than others is a question for the engine.
    catalogue.placement(catalogue.flavor(), cluster, tolerations=[{"key": "gpu", "operator": "Exists"}])
    asked = []

    def fleet_of(of: Cluster) -> Fleet:
        asked.append(of.name)
        return snapshot.fleet(of)

    for version in (0, 0, 7):
        Cluster.objects.update(mirror_version=version)
        (found,) = entries(user=cast.owner, prices=price_list(), now=NOW, fleet_of=fleet_of)
        assert found.free == 2
    assert asked == ["main", "main"]


def test_queries_grow_neither_with_flavors_nor_with_places(cast: Cast, cluster: Cluster) -> None:
    counts = []
    for number in range(6):
        made = catalogue.flavor(f"f{number}")
        catalogue.placement(made, cluster, device_class="gpu", extended_resource="nvidia.com/gpu")
        cache.clear()
        with CaptureQueriesContext(
            connection,
        ) as asked:
            assert len(entries(user=cast.owner, prices=price_list(), now=NOW)) == number + 1
        with CaptureQueriesContext(connection) as again:
            entries(user=cast.owner, prices=price_list(), now=NOW)
        counts.append((len(asked), len(again)))
    assert len(set(counts[1:])) == 1, counts
    assert counts[-1][1] <= 12, counts


# --- waits ------------------------------------------------------------------------------------------


def test_a_typical_wait_needs_a_few_cases() -> None:
    few = [timedelta(minutes=n) for n in range(FEWEST - 1)]
    assert typical(few).typical is None
    assert typical([*few, 10 * HOUR]).typical == timedelta(minutes=2)


def test_the_wait_is_that_of_the_flavors_own_latest_cases(cast: Cast, cluster: Cluster) -> None:
    quick, slow, new = (catalogue.flavor(slug) for slug in ("quick", "slow", "new"))
    catalogue.waited(quick, cast.owner, cluster, 1, 2, 3, 4, 5)
    catalogue.waited(slow, cast.owner, cluster, 60, 60, 90, 90, 90, 600)
    catalogue.waited(new, cast.owner, cluster, 5)
    Request.objects.filter(object_name="waited-slow-5").update(allocated_at=NOW - timedelta(days=100))
    found = {e.flavor.slug: e.wait for e in entries(user=cast.owner, prices=price_list(), now=NOW)}
    assert (found["quick"].typical, found["quick"].cases) == (timedelta(minutes=3), 5)
    assert (found["slow"].typical, found["slow"].cases) == (timedelta(minutes=90), 5)
    assert (found["new"].typical, found["new"].cases) == (None, 1)


# --- prices and audience ----------------------------------------------------------------------------


def test_the_price_is_that_of_the_book_and_a_range_where_there_are_several(
    cast: Cast, cluster: Cluster, prices: PriceBook
) -> None:
    for slug in ("h100", "a100", "gpu"):
        catalogue.placement(catalogue.flavor(slug), cluster)
    found = {e.flavor.slug: e for e in entries(user=cast.owner, prices=price_list(), now=NOW)}
    assert (found["h100"].price, found["h100"].currency) == ("2.50", "EUR")
    assert (found["a100"].price, found["a100"].partly_priced) == ("", False)
    assert (found["gpu"].price, found["gpu"].partly_priced) == ("2.50", True)
    prices.prices.create(product="A100", per_hour="1.125")
    found = {e.flavor.slug: e for e in entries(user=cast.owner, prices=price_list(), now=NOW)}
    assert found["gpu"].price == "1.125 – 2.50"


@pytest.mark.parametrize(
    ("visibility", "who", "may"),
    [
        ("all", "owner", True), ("projects", "owner", True), ("projects", "stranger", False),
        ("leads", "lead", True), ("leads", "owner", False), ("groups", "owner", False),
        ("administrators", "lead", False), ("administrators", "admin", True),
    ],
)  # fmt: skip
def test_who_may_ask_for_a_flavor(cast: Cast, project: Project, visibility: str, who: str, may: bool) -> None:
    made = catalogue.flavor(visibility=visibility)
    made.projects.add(project)
    asked_for = cast.stranger.memberships.get().project if who == "stranger" else project
    assert may_ask_for(user=getattr(cast, who), flavor=made, project=asked_for) is may
    made.archived_at = NOW
    assert not may_ask_for(user=cast.admin, flavor=made, project=project)
