"""What a share of a device costs, from the objects of the cluster as they are on the wire to the charge.

Drivers name capacities with or without their domain, and an allocation tells what it consumes by the names of
the slice; prices and profiles have full names.
"""

from datetime import timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from claims.ledger import storage
from claims.ledger.audit import audit
from claims.models import Allocation
from claims.money.books import CAPACITY, COUNTERS, Book, Kind, PriceList, Rule, share
from inventory.identity import qualified_amounts
from inventory.mirror.writer import Writer
from inventory.models import ClaimDevice, Cluster, Observation, Stream
from inventory.profiles import split
from portal.dra import model as dra
from portal.dra.features import Features
from tests.claims.test_rating import all_charges, rater
from tests.inventory.conftest import NOW, Mirror
from tests.inventory.objects import Json, allocation, claim, gpu, node, resource_slice, result

HOUR = timedelta(hours=1)
PRICES = PriceList(
    books=(Book(name="b", currency="EUR", valid_from=NOW - 99 * HOUR, prices={("", ""): Decimal(8)}),)
)
DRIVER = "gpu.nvidia.com"


def new_mirror() -> Mirror:
    cluster = Cluster.objects.create(
        name="alpha", credentials=Cluster.Credentials.KUBECONFIG, created_at=NOW, lease_holder="me",
        server_version="v1.36.2",
    )  # fmt: skip
    writer = Writer(cluster_id=cluster.pk, holder="me", features=Features.for_version("1.36"))
    Stream.objects.bulk_create(Stream(cluster=cluster, resource=plural) for plural in writer.resources)
    return Mirror(cluster, writer)


@pytest.fixture
def mirror(db: None) -> Mirror:
    return new_mirror()


def share_of(number: int, consumed: Json, device: str = "gpu-0", **more: Any) -> Json:
    taken = result(device, shareID=f"00000000-0000-4000-8000-{number:012}", consumedCapacity=consumed, **more)
    return claim(f"claim-{number}", allocated=allocation(taken, timestamp="2026-03-01T10:00:00Z"))


def rates(mirror: Mirror, prices: PriceList = PRICES) -> dict[str, Fraction]:
    """What an hour of each claim costs, by the whole way from what was observed."""
    storage.apply(cluster=mirror.cluster)
    found: dict[str, Fraction] = {}
    for held in Allocation.objects.filter(admin_access=False).values():
        row: dict[str, Any] = {**held, "ended_at": held["started_at"] + HOUR, "request__requester_id": None}
        name = row["claim_name"]
        found[name] = found.get(name, Fraction(0)) + sum(
            (charge.amount() or Fraction(0) for charge in all_charges(rater(prices), row)), Fraction(0)
        )
    return found


@pytest.mark.parametrize("name", ["memory", "gpu.nvidia.com/memory", "hardware.example.org/memory"])
def test_a_share_is_billed_as_a_share_however_its_driver_names_what_it_has(mirror: Mirror, name: str) -> None:
    mirror.see(node())
    capacity = {name: {"value": "40Gi"}, "cores": {"value": "100"}}
    mirror.see(resource_slice("s1", [gpu(0, allowMultipleAllocations=True, capacity=capacity)]))
    mirror.see(share_of(1, {name: "10Gi", "cores": "10"}), share_of(2, {name: "5Gi", "cores": "50"}))
    assert rates(mirror) == {"claim-1": 2, "claim-2": 4}
    by_memory = Rule(per_hour=Decimal(1), unit=CAPACITY, per="1Gi", capacity=name)
    book = Book(name="m", currency="EUR", valid_from=NOW - HOUR, prices={}, rules=(by_memory,))
    assert rates(mirror, PriceList(books=(book,))) == {"claim-1": 10, "claim-2": 5}
    full = name if "/" in name else f"{DRIVER}/{name}"
    assert {full, f"{DRIVER}/cores"} == set(ClaimDevice.objects.get(claim__name="claim-1").consumed_capacity)


def test_what_was_observed_by_the_names_of_the_slice_is_billed_as_a_share_too(mirror: Mirror) -> None:
    mirror.see(node())
    mirror.see(resource_slice("s1", [gpu(0, allowMultipleAllocations=True)]))
    mirror.see(share_of(1, {"memory": "10Gi"}))
    earlier = Observation.objects.get(kind="claim-allocated")
    earlier.pk, earlier.key, earlier.uid, earlier.name = None, "claim/earlier", "earlier", "earlier"
    earlier.facts["devices"][0] |= {"consumed_capacity": {"memory": "20Gi"}, "share_id": "b"}
    earlier.save(force_insert=True)
    assert rates(mirror) == {"claim-1": 2, "earlier": 4}


def test_shares_beyond_the_capacity_are_named_by_the_audit(mirror: Mirror) -> None:
    mirror.see(node())
    mirror.see(resource_slice("s1", [gpu(0, allowMultipleAllocations=True)]))
    mirror.see(share_of(1, {"memory": "30Gi"}), share_of(2, {"memory": "20Gi"}))
    storage.apply(cluster=mirror.cluster)
    (violation,) = audit(cluster=mirror.cluster, now=mirror.now + HOUR).violations
    assert violation.code == "over-capacity"
    assert "125% of gpu.nvidia.com/memory" in violation.detail


def test_a_share_of_which_nothing_was_asked_takes_what_the_scheduler_says(mirror: Mirror) -> None:
    """Without a policy and without an amount it is all of it: then nobody else can have a share."""
    mirror.see(node())
    mirror.see(resource_slice("s1", [gpu(0, allowMultipleAllocations=True)]))
    mirror.see(share_of(1, {"memory": "40Gi"}))
    assert rates(mirror) == {"claim-1": 8}


def test_each_result_of_a_request_counts_and_looking_never_does(mirror: Mirror) -> None:
    mirror.see(node())
    mirror.see(resource_slice("s1", [gpu(0, allowMultipleAllocations=True), gpu(1), gpu(2)]))
    several = claim(
        "several",
        allocated=allocation(
            result("gpu-0", shareID="a", consumedCapacity={"memory": "10Gi"}),
            result("gpu-0", shareID="b", consumedCapacity={"memory": "20Gi"}),
            result("gpu-1", bindingConditions=["attached"], bindingFailureConditions=["broken"]),
            result("gpu-2", adminAccess=True),
            timestamp="2026-03-01T10:00:00Z",
        ),
    )
    mirror.see(several)
    # A quarter, a half, and one that is held while it is being attached.
    assert rates(mirror) == {"several": 2 + 4 + 8}


def test_the_class_of_a_chosen_alternative_is_what_counts(mirror: Mirror) -> None:
    mirror.see(node())
    mirror.see(resource_slice("s1", [gpu(0), gpu(1)]))
    either = claim("either", allocated=allocation(result("gpu-1", request="gpu/small")))
    choices = [{"name": name, "deviceClassName": f"{name}.example.org"} for name in ("large", "small")]
    either["spec"] = {"devices": {"requests": [{"name": "gpu", "firstAvailable": choices}]}}
    mirror.see(either)
    book = Book(
        name="b", currency="EUR", valid_from=NOW - HOUR,
        prices={("small.example.org", ""): Decimal(3), ("large.example.org", ""): Decimal(9)},
    )  # fmt: skip
    assert rates(mirror, PriceList(books=(book,))) == {"either": 3}


def test_a_partition_that_several_share_is_paid_for_once(mirror: Mirror) -> None:
    counters = [{"name": "set", "counters": {"slices": {"value": "8"}}}]
    draws = [{"counterSet": "set", "counters": {"slices": {"value": "6"}}}]
    mirror.see(node())
    mirror.see(
        resource_slice("counters", [], sharedCounters=counters, count=2),
        resource_slice("s1", [gpu(0, allowMultipleAllocations=True, consumesCounters=draws)], count=2),
    )
    mirror.see(share_of(1, {"memory": "30Gi"}), share_of(2, {"memory": "10Gi"}))
    by_counters = Rule(per_hour=Decimal(8), unit=COUNTERS)
    book = Book(name="c", currency="EUR", valid_from=NOW - HOUR, prices={}, rules=(by_counters,))
    # Three quarters of the hardware for 8: three quarters and one quarter of that.
    assert rates(mirror, PriceList(books=(book,))) == {"claim-1": Fraction(9, 2), "claim-2": Fraction(3, 2)}
    found = audit(cluster=mirror.cluster, now=mirror.now + HOUR)
    assert found.violations == []
    assert Fraction(found.sums.allocated, found.sums.existence) == Fraction(3, 4)
    mirror.see(share_of(3, {"memory": "1Gi"}))
    storage.apply(cluster=mirror.cluster)
    (violation,) = audit(cluster=mirror.cluster, now=mirror.now + HOUR).violations
    assert (violation.code, violation.where) == ("over-capacity", f"{DRIVER}/n1/gpu-0")


def test_rows_that_were_kept_by_the_names_of_the_slice_are_shares_still() -> None:
    capacity = {f"{DRIVER}/memory": {"value": "40Gi"}, "a.example.org/x": {"value": "4"}}
    assert share({"memory": "10Gi"}, capacity) == Fraction(1, 4)
    # Of whose domain it is nobody can say: it is not told apart from the whole.
    ambiguous = capacity | {"b.example.org/x": {"value": "8"}}
    assert share({"x": "1"}, ambiguous) == 1


names = st.sampled_from(["memory", "cores", f"{DRIVER}/memory", "other.example.org/memory", "cores.x"])
amounts = st.dictionaries(names, st.tuples(st.integers(1, 10**6), st.fractions(0, 1)), min_size=1).filter(
    lambda told: not {"memory", f"{DRIVER}/memory"} <= told.keys()
)


@settings(deadline=None)
@given(amounts)
def test_a_share_is_the_largest_part_whatever_the_names(told: dict[str, tuple[int, Fraction]]) -> None:
    raw: dict[str, Any] = {
        "name": "d",
        "allowMultipleAllocations": True,
        "capacity": {name: {"value": f"{total}M"} for name, (total, _part) in told.items()},
    }
    profile = split(msgspec.convert(raw, dra.Device), driver=DRIVER)
    used = {name: int(total * part * 1000) for name, (total, part) in told.items()}
    consumed = qualified_amounts({name: f"{amount}k" for name, amount in used.items()}, driver=DRIVER)
    assert consumed.keys() == profile.capacity.keys()
    assert share(consumed, profile.capacity) == max(
        Fraction(used[name], told[name][0] * 1000) for name in told
    )
    assert qualified_amounts(consumed, driver=DRIVER) == consumed
    kind = Kind(consumed=consumed, capacity=profile.capacity)
    for name in told:
        full = name if "/" in name else f"{DRIVER}/{name}"
        rule = Rule(per_hour=Decimal(1), unit=CAPACITY, per="1k", capacity=full)
        assert rule.quantity(kind) == used[name]


def test_less_than_nothing_is_no_amount_and_makes_nothing_idle(mirror: Mirror) -> None:
    mirror.see(node())
    mirror.see(resource_slice("s1", [gpu(0, allowMultipleAllocations=True)]))
    mirror.see(share_of(1, {"memory": "-5Gi"}))
    storage.apply(cluster=mirror.cluster)
    sums = audit(cluster=mirror.cluster, now=mirror.now + HOUR).sums
    assert (sums.idle, sums.conserved) == (0, True)
