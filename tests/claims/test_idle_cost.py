"""Idle time costs the operator by its own price, and can be passed on without a cent being lost."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from claims.ledger import storage
from claims.ledger.conservation import Piece, Span, Use, add_up, idle
from claims.models import Charge, Price, PriceBook, PriceRule, Statement
from claims.money import idle_cost
from claims.money.idle_cost import UnableToPassOn, _in_proportion, pass_on, rate_idle
from claims.money.months import Month
from claims.money.rating import content_of
from claims.money.statements import told_of
from inventory.models import Cluster, Device, Stream
from portal.accounts.models import Project, User
from tests.claims.test_idle_late import close
from tests.claims.test_shares import new_mirror
from tests.inventory.objects import allocation, claim, gpu, node, resource_slice, result

MARCH = Month(2026, 3)
T0 = datetime(2026, 3, 1, tzinfo=UTC)
APRIL = datetime(2026, 4, 2, tzinfo=UTC)
HOUR_US = 3_600_000_000
START = int(T0.timestamp()) * 1_000_000


def piece() -> Piece:
    """Ten hours: held as a whole for two, half of it for one, barred for one, unseen for one."""

    def at(hours: int) -> int:
        return START + hours * HOUR_US

    return Piece(
        "d/p/g",
        uses=[Use(at(1), at(3), {"": 1}), Use(at(4), at(5), {"": Fraction(1, 2)})],
        published=[Span(at(0), at(10))],
        barred=[Span(at(6), at(7))],
    )


BLANKS = [(START + 8 * HOUR_US, START + 9 * HOUR_US)]


def test_idle_stretches_sum_to_what_the_audit_finds_idle() -> None:
    stretches = list(idle(piece(), BLANKS))
    hours = [((start - START) // HOUR_US, (end - START) // HOUR_US, share) for start, end, share in stretches]
    assert hours == [(0, 1, 1), (3, 4, 1), (4, 5, Fraction(1, 2)), (5, 6, 1), (7, 8, 1), (9, 10, 1)]
    sums, excess = add_up(piece(), BLANKS)
    assert excess is None
    assert sum((end - start) * share for start, end, share in stretches) == sums.idle
    assert sums.conserved


@pytest.fixture
def priced(db: None, monkeypatch: pytest.MonkeyPatch) -> PriceBook:
    Cluster.objects.create(name="c1", created_at=T0)
    monkeypatch.setattr(idle_cost, "pieces", lambda *_args, **_more: [(piece(), [("d", "p", "g")], BLANKS)])
    book = PriceBook.objects.create(name="2026", currency="EUR", valid_from=T0 - timedelta(days=9))
    Price.objects.create(book=book, per_hour=Decimal(3))
    PriceRule.objects.create(book=book, position=0, use="idle", per_hour=Decimal("0.5"))
    return book


def use(project: Project, amount: int) -> None:
    charge = Charge(
        source=f"s{project.pk}", month="2026-03", started_us=START, ended_us=START + HOUR_US, currency="EUR",
        project=project, quantity=Fraction(1), list_micros=amount * 1_000_000,  # type: ignore[misc] # fractions
    )  # fmt: skip
    charge.content = content_of(charge)
    charge.save()


def told(project: Project | None) -> Any:
    return told_of(project=project, month=MARCH, bounds=MARCH.bounds(UTC), now=APRIL).totals


def test_idle_time_is_the_operators_and_rated_again_the_same(priced: PriceBook) -> None:
    assert rate_idle(month=MARCH, zone=UTC, now=APRIL) == 6
    before = list(Charge.objects.order_by("pk").values())
    assert rate_idle(month=MARCH, zone=UTC, now=APRIL) == 6
    assert list(Charge.objects.order_by("pk").values()) == before
    assert told(None) == {"EUR": Decimal("2.75")}


def test_what_is_passed_on_is_marked_and_comes_to_the_same(priced: PriceBook) -> None:
    projects = [Project.objects.create(slug=s, name=s, created_at=T0) for s in ("tides", "dunes", "ice")]
    for project, amount in zip(projects, (1, 1, 0), strict=True):
        use(project, amount)
    rate_idle(month=MARCH, zone=UTC, now=APRIL)
    finn = User.objects.create(username="finn", is_finance=True)
    for _again in range(2):
        assert pass_on(month=MARCH, zone=UTC, actor=finn, now=APRIL) == 2
    shared = Charge.objects.filter(kind=Charge.Kind.SHARED)
    assert sum((charge.fixed or 0 for charge in shared), start=Fraction(0)) == 0
    assert told(None) == {"EUR": 0}
    assert told(projects[0]) == {"EUR": Decimal("2.38")}
    Statement.objects.create(
        project=projects[0], month="2026-03", zone="UTC", starts_at=T0, ends_at=APRIL, state="closed",
        closed_at=APRIL, digest="x",
    )  # fmt: skip
    with pytest.raises(UnableToPassOn, match="closed"):
        pass_on(month=MARCH, zone=UTC, actor=finn, now=APRIL)


def test_what_is_passed_on_sums_exactly_however_odd_the_shares_are() -> None:
    primes = (12_287, 284_208, 81_559, 46_068, 196_592, 40_960, 15_360, 99_991)
    weights = [Fraction(n * 10**9 + 7, p * 3_600_000_000) for n, p in enumerate(primes, 1)]
    cost = sum((Fraction(10**9 + p, 7 * p) for p in primes), start=Fraction(0))
    parts = _in_proportion(cost, weights)
    assert sum(parts) == cost
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part - cost * weight / sum(weights)) < Fraction(1, 10**11)
    assert all(len(str(part)) < 120 for part in parts[:-1]), "more than a column holds"


T1 = datetime(2026, 3, 1, 10, tzinfo=UTC)


def partitioned() -> tuple[list[Any], list[Any]]:
    """A GPU that can be had as a whole, or as two halves of another product."""
    counters = [{"name": "set", "counters": {"slices": {"value": "2"}}}]

    def uses(slices: str) -> list[Any]:
        return [{"counterSet": "set", "counters": {"slices": {"value": slices}}}]

    half = {"type": {"string": "mig"}, "productName": {"string": "NVIDIA A100-SXM4-40GB"},
            "profile": {"string": "3g.20gb"}, "parentUUID": {"string": "GPU-n1-0"}}  # fmt: skip
    return [
        # Partitions come first, as some drivers publish them.
        *({"name": f"a-half-{n}", "attributes": half, "consumesCounters": uses("1")} for n in (0, 1)),
        gpu(0, consumesCounters=uses("2")),
    ], counters


def test_idle_partitions_are_one_piece_at_the_price_of_the_whole_also_when_they_are_gone(db: None) -> None:
    mirror = new_mirror()
    devices, counters = partitioned()
    mirror.see(node())
    shared = resource_slice("counters", [], sharedCounters=counters, count=2)
    published = resource_slice("devices", devices, count=2)
    mirror.see(shared, published)
    whole = Device.objects.select_related("profile").get(name="gpu-0")
    book = PriceBook.objects.create(name="2026", currency="EUR", valid_from=T0 - timedelta(days=9))
    PriceRule.objects.create(book=book, position=0, use="idle", profile=whole.profile.digest, per_hour=7)
    PriceRule.objects.create(book=book, position=1, use="idle", per_hour=1)
    # One half was held for a while.
    held = claim("half", allocated=allocation(result("a-half-0"), timestamp="2026-03-01T10:00:02Z"))
    mirror.see(held)
    mirror.see(held, deleted=True)
    storage.apply(cluster=mirror.cluster)
    Stream.objects.filter(cluster=mirror.cluster).update(state="watching", listed_at=T1, heard_at=APRIL)
    mirror.cluster.contacted_at, mirror.cluster.state = APRIL, "synced"
    mirror.cluster.save()

    def idle_charges() -> list[Any]:
        rate_idle(month=MARCH, zone=UTC, now=mirror.now + timedelta(seconds=1))
        rows = Charge.objects.filter(kind="idle").order_by("started_us")
        return list(rows.values_list("device_name", "started_us", "list_micros", "quantity", "content"))

    before = idle_charges()
    assert {(name, price) for name, _start, price, *_ in before} == {("gpu.nvidia.com/n1/set", 7_000_000)}
    assert Fraction(1, 2) in {row[3] for row in before}
    mirror.see(shared, deleted=True)
    mirror.see(published, deleted=True)
    assert not Device.objects.exists()
    after = idle_charges()
    # What was idle is idle still: for the same hardware, once, at the same price.
    assert [row[:4] for row in after[: len(before) - 1]] == [row[:4] for row in before[:-1]]
    assert {(name, price) for name, _start, price, *_ in after} == {("gpu.nvidia.com/n1/set", 7_000_000)}


def test_what_lay_idle_costs_by_what_it_was_not_by_what_came_after_it_under_its_name(
    db: None,
) -> None:
    mirror = new_mirror()
    mirror.see(node())
    mirror.see(resource_slice("devices", [gpu(0)]))
    mirror.now = datetime(2026, 3, 20, tzinfo=UTC)
    other = {"uuid": {"string": "GPU-other"}, "productName": {"string": "NVIDIA H100"}}
    mirror.see(resource_slice("devices", [gpu(0, attributes=other)], generation=2))
    Stream.objects.filter(cluster=mirror.cluster).update(state="watching", listed_at=T1, heard_at=APRIL)
    mirror.cluster.contacted_at, mirror.cluster.state = APRIL, "synced"
    mirror.cluster.save()
    book = PriceBook.objects.create(name="2026", currency="EUR", valid_from=T0 - timedelta(days=9))
    PriceRule.objects.create(book=book, position=0, use="idle", product="NVIDIA H100", per_hour=7)
    PriceRule.objects.create(book=book, position=1, use="idle", per_hour=1)

    def idle_charges() -> list[Any]:
        rate_idle(month=MARCH, zone=UTC, now=APRIL)
        rows = Charge.objects.filter(kind="idle").order_by("started_us")
        return [(row.product, row.hardware_id, row.list_micros) for row in rows]

    both = [("NVIDIA A100-SXM4-40GB", "GPU-n1-0", 1_000_000), ("NVIDIA H100", "GPU-other", 7_000_000)]
    assert idle_charges() == both
    # Once closed it stays so, and nothing is corrected.
    close(MARCH, User.objects.create(username="finn", is_finance=True), APRIL)
    assert idle_charges() == both
    assert not Charge.objects.filter(kind="correction").exists()
