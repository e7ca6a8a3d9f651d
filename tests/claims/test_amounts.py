"""What an approval costs is what was asked for: by its spec, for whatever kind of device it may be given."""

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from claims.catalogue.candidates import candidates_of, candidates_of_units, drawn_on
from claims.catalogue.kinds import Kinds, Sought
from claims.models import Price, PriceBook, Request
from claims.money.books import CAPACITY, COUNTERS, Book, PriceList, Rule
from claims.money.expected import together
from claims.money.pricing import price_list
from claims.requests.amounts import costs_of_all
from inventory.models import (
    ClassProfile,
    Cluster,
    CountedUnits,
    Device,
    DeviceClass,
    DeviceProfile,
    Node,
    Pool,
    ResourceSlice,
)
from tests.claims.conftest import GIB, NOW, Cast, add_node
from tests.claims.test_rating import KnownCentres

MEMORY = "gpu.nvidia.com/memory"
LARGE = 'device.capacity["gpu.nvidia.com"].memory.compareTo(quantity("60Gi")) >= 0'


@pytest.fixture
def prices(db: None) -> PriceBook:
    book = PriceBook.objects.create(name="2026", currency="EUR", valid_from=NOW - timedelta(days=300))
    Price.objects.create(book=book, product="H100", per_hour="2.5")
    Price.objects.create(book=book, product="A100", per_hour="1")
    return book


def ask(device_class: str = "gpu", count: int = 1, *, where: str = "", **more: Any) -> dict[str, Any]:
    selectors = {"selectors": [{"cel": {"expression": where}}]} if where else {}
    return (
        {"deviceClassName": device_class, "allocationMode": "ExactCount", "count": count} | selectors | more
    )


def exactly(*asks: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"name": f"r{number}", "exactly": one} for number, one in enumerate(asks)]


def cost(cast: Cast, cluster: Cluster, requests: list[dict[str, Any]], **columns: Any) -> tuple[Any, ...]:
    """From, to, and what has no price, for ten hours."""
    values: dict[str, Any] = {
        "project": cast.owner.memberships.get().project, "requester": cast.owner, "cluster": cluster,
        "device_class": "gpu", "count": 1, "duration": timedelta(hours=10),
        "spec": {"devices": {"requests": requests}} if requests else {},
    }  # fmt: skip
    ((*parts,),) = costs_of_all([(Request(pk=1, **values | columns), ())], price_list(), now=NOW)
    told = together(parts)
    return (*((told.amount.low, told.amount.high) if told.amount else (None, None)), tuple(told.unpriced))


def test_every_kind_that_the_class_has_may_be_given(cast: Cast, cluster: Cluster, prices: PriceBook) -> None:
    assert cost(cast, cluster, exactly(ask(count=2))) == (20, 50, ())


def test_what_the_request_chooses_by_itself_decides(cast: Cast, cluster: Cluster, prices: PriceBook) -> None:
    assert cost(cast, cluster, exactly(ask(count=2, where=LARGE))) == (50, 50, ())


def test_only_nodes_that_its_pods_can_go_to_count(cast: Cast, cluster: Cluster, prices: PriceBook) -> None:
    Node.objects.filter(name="node-a100").update(labels={"pool": "small"})
    assert cost(cast, cluster, exactly(ask()), node_selector={"pool": "small"}) == (10, 10, ())


def test_parts_add_up_and_alternatives_are_a_range(cast: Cast, cluster: Cluster, prices: PriceBook) -> None:
    choice = {"name": "either", "firstAvailable": [ask("h100", 2, name="a"), ask("a100", 3, name="b")]}
    assert cost(cast, cluster, [choice]) == (30, 50, ())
    assert cost(cast, cluster, [choice, *exactly(ask("h100"))]) == (55, 75, ())


def test_what_has_no_price_is_named_beside_what_has_one(
    cast: Cast, cluster: Cluster, prices: PriceBook
) -> None:
    newer = PriceBook.objects.create(name="2027", currency="EUR", valid_from=NOW - timedelta(days=1))
    Price.objects.create(book=newer, product="H100", per_hour="2.5")
    assert cost(cast, cluster, exactly(ask("h100"), ask("a100"))) == (25, 25, ("A100",))
    assert cost(cast, cluster, exactly(ask("none"))) == (None, None, ("none",))


def test_a_share_counts_as_what_the_request_draws(cast: Cast, cluster: Cluster, prices: PriceBook) -> None:
    DeviceProfile.objects.filter(product="H100").update(allow_multiple_allocations=True)
    asked = ask("h100", capacity={"requests": {"memory": "20Gi"}})
    assert cost(cast, cluster, exactly(asked)) == (Fraction(25, 4), Fraction(25, 4), ())
    # As much as no device has: nothing is known to serve it but the class.
    more = ask("h100", capacity={"requests": {"memory": "100Gi"}})
    assert cost(cast, cluster, exactly(more)) == (None, None, ("h100",))


def test_without_a_spec_it_is_what_the_place_serves(cast: Cast, cluster: Cluster, prices: PriceBook) -> None:
    assert cost(cast, cluster, [], count=3)[2] == ("gpu",)


# --- which kinds something may turn out to be ---------------------------------------------------------


def profile(policy: dict[str, Any] | None = None, **columns: Any) -> DeviceProfile:
    amounts: dict[str, Any] = {MEMORY: {"value": "80Gi"}, "gpu.nvidia.com/cores": {"value": "100"}}
    if policy:
        amounts[MEMORY]["requestPolicy"] = policy
    values = {"allow_multiple_allocations": True, "capacity": amounts, "product": "H100", "digest": "d"}
    return DeviceProfile(driver="gpu.nvidia.com", **values | columns)


@pytest.mark.parametrize(
    ("policy", "requested", "share"),
    [
        # Nothing asked for and no policy: all of it.
        (None, {}, Fraction(1)),
        # What is not asked for is all of that, too: the whole device.
        (None, {"memory": "20Gi"}, Fraction(1)),
        (None, {"memory": "20Gi", "cores": "10"}, Fraction(1, 4)),
        (None, {"memory": "20Gi", "gpu.nvidia.com/cores": "50"}, Fraction(1, 2)),
        # Rounded up as the policy says.
        ({"validRange": {"min": "10Gi", "step": "10Gi"}}, {"memory": "11Gi", "cores": "1"}, Fraction(1, 4)),
        ({"default": "8Gi", "validValues": ["8Gi", "40Gi"]}, {"cores": "1"}, Fraction(1, 10)),
        ({"default": "8Gi", "validValues": ["8Gi", "40Gi"]}, {"memory": "9Gi", "cores": "1"}, Fraction(1, 2)),
    ],
)
def test_a_share_is_what_the_scheduler_will_settle_on(
    cluster: Cluster, policy: dict[str, Any] | None, requested: dict[str, str], share: Fraction
) -> None:
    (one,) = candidates_of([profile(policy)], device_class="gpu", cluster=cluster, requested=requested)
    assert one.kind.share == share
    assert set(one.kind.consumed) == set(one.kind.capacity)
    by_memory = Rule(per_hour=Decimal(1), unit=CAPACITY, capacity=MEMORY, per="1Gi")
    assert by_memory.quantity(one.kind) is not None


def test_what_cannot_give_so_much_is_no_candidate(cluster: Cluster) -> None:
    kinds = [profile(), profile(allow_multiple_allocations=False), profile(capacity={})]
    asked = {"memory": "81Gi"}
    assert candidates_of(kinds, device_class="gpu", cluster=cluster, requested=asked) == ()
    (_shared, whole) = candidates_of(
        kinds, device_class="gpu", cluster=cluster, requested={"memory": "80Gi", "cores": "1"}
    )
    assert whole.kind.share == 1
    assert not whole.kind.consumed


def test_units_are_parts_of_what_several_share() -> None:
    rows = [CountedUnits(resource="nvidia.com/gpu", product="H100", replicas=n) for n in (1, 4)]
    assert [one.kind.share for one in candidates_of_units(rows)] == [1, Fraction(1, 4)]
    assert {one.kind.resource for one in candidates_of_units(rows)} == {"nvidia.com/gpu"}


def test_partitions_are_told_apart_by_what_they_draw_on(cluster: Cluster) -> None:
    kind = add_node(cluster, "MIG", 10 * GIB, devices=3)
    Pool.objects.filter(name="node-mig").update(has_counters=True)
    piece = ResourceSlice.objects.get(name="node-mig-slice")
    piece.manifest["spec"]["sharedCounters"] = [{"name": "gpu", "counters": {"slices": {"value": "7"}}}]
    for device, used in zip(piece.manifest["spec"]["devices"], "112", strict=True):
        device["consumesCounters"] = [{"counterSet": "gpu", "counters": {"slices": {"value": used}}}]
    piece.save()
    row = DeviceClass.objects.create(cluster=cluster, name="mig", uid="m", resource_version="1", spec={})
    ClassProfile.objects.create(device_class=row, profile=kind)
    assert Device.objects.filter(profile=kind).count() == 3
    by_counters = Rule(per_hour=Decimal(7), unit=COUNTERS)
    (wanted,) = Kinds.load(
        [sought := Sought(cluster=cluster, spec={"devices": {"requests": exactly(ask("mig"))}})]
    ).of(sought)[0]
    for rules, parts in ((), [None]), ((by_counters,), [Fraction(1, 7), Fraction(2, 7)]):
        book = Book(name="b", currency="EUR", valid_from=NOW, prices={}, rules=rules)
        listed = PriceList(books=(book,), centres=KnownCentres({}))
        found = drawn_on(wanted.candidates, cluster=cluster, prices=listed)
        assert [by_counters.quantity(one.kind) for one in found] == parts
