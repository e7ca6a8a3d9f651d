"""What the database adds up is what rating one interval after the other comes to."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from claims.models import Allocation
from claims.money.charges import charges, usages
from claims.money.pricing import Book, PriceList, statement
from inventory.models import Cluster
from portal.accounts.models import Project

T0 = datetime(2026, 3, 1, tzinfo=UTC)
pytestmark = pytest.mark.django_db

moments = st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=5)).map(lambda delta: T0 + delta)
# Whole seconds too: the databases write them without a fraction.
times = st.one_of(moments, moments.map(lambda moment: moment.replace(microsecond=0)))
amounts = st.sampled_from([{}, {"memory": "10Gi"}, {"memory": "20Gi"}, {"memory": "7"}])
prices_of_book = st.dictionaries(
    st.tuples(st.sampled_from(["", "gpu"]), st.sampled_from(["", "H100"])),
    st.decimals(min_value=0, max_value=99, places=6).map(abs),
)


@st.composite
def rows(draw: st.DrawFn) -> dict[str, Any]:
    start, end = sorted((draw(times), draw(times)))
    shared, device_class = draw(st.booleans()), draw(st.sampled_from(["", "gpu"]))
    # Units of Device Plugins are of no class.
    several = not shared and not device_class
    return {
        "device_class": device_class,
        "product": draw(st.sampled_from(["H100", "A100"])),
        "share_id": draw(st.sampled_from(["one", "two"])) if shared else "",
        "consumed_capacity": draw(amounts),
        "capacity": draw(st.sampled_from([{"memory": {"value": "40Gi"}}, {"memory": {"value": "3Gi"}}, {}])),
        "units": draw(st.integers(1, 3)) if several else 1,
        "replicas": draw(st.integers(1, 2)) if several else 1,
        "admin_access": draw(st.booleans()),
        "started_at": start,
        "ended_at": draw(st.sampled_from([None, start, end, end])),
        "project": draw(st.integers(-1, 1)),
    }


@st.composite
def price_lists(draw: st.DrawFn) -> PriceList:
    books = [
        Book(
            name=str(number),
            currency=draw(st.sampled_from(["EUR", "JPY"])),
            valid_from=at,
            prices=draw(prices_of_book),
        )
        for number, at in enumerate(sorted(draw(st.sets(times, max_size=3))))
    ]
    return PriceList(books=tuple(books))


@pytest.fixture
def cluster() -> Cluster:
    return Cluster.objects.create(name="c1", created_at=T0)


@pytest.fixture
def projects() -> list[Project]:
    return [Project.objects.create(slug=name, name=name, created_at=T0) for name in ("one", "two")]


def store(cluster: Cluster, projects: list[Project], told: list[dict[str, Any]]) -> None:
    Allocation.objects.all().delete()
    Allocation.objects.bulk_create(
        Allocation(
            cluster=cluster,
            claim_uid=str(number),
            device_name=str(number),
            epoch=1,
            **(row | {"project": projects[row["project"]] if row["project"] >= 0 else None}),
        )
        for number, row in enumerate(told)
    )


# The fixtures hold nothing that an example changes.
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    told=st.lists(rows(), max_size=12),
    prices=price_lists(),
    at=st.tuples(times, times, times, st.integers(1, 4)),
)
def test_any_ledger_comes_to_the_same_as_rated_row_by_row(
    cluster: Cluster,
    projects: list[Project],
    told: list[dict[str, Any]],
    prices: PriceList,
    at: tuple[datetime, datetime, datetime, int],
) -> None:
    store(cluster, projects, told)
    (start, end), now, at_once = sorted(at[:2]), at[2], at[3]
    row_by_row = statement(usages(Allocation.objects.all()), prices, start=start, end=end, now=now)
    with patch("claims.money.charges.AT_ONCE", at_once):
        assert charges(start=start, end=end, now=now, prices=prices) == row_by_row
    of_one = Allocation.objects.filter(project=projects[0])
    assert charges(start=start, end=end, now=now, prices=prices, projects=[projects[0].pk]) == statement(
        usages(of_one), prices, start=start, end=end, now=now
    )


def test_no_microsecond_is_lost_in_a_thousand_years(cluster: Cluster, projects: list[Project]) -> None:
    start, end = datetime(1970, 1, 1, 0, 0, 0, 1, UTC), datetime(2999, 12, 31, 23, 59, 59, 999_999, UTC)
    row = {"started_at": start, "ended_at": end, "project": 0, "product": "H100"}
    store(cluster, projects, [row] * 3)
    told = charges(start=start, end=end, now=end, prices=PriceList(books=()))
    assert [line.device_microseconds for line in told.lines] == [
        Fraction(3 * ((end - start) // timedelta(microseconds=1)))
    ]


def test_what_is_paid_follows_from_the_time(cluster: Cluster, projects: list[Project]) -> None:
    row = {"started_at": T0, "ended_at": T0 + timedelta(minutes=90), "project": 0, "product": "H100"}
    store(cluster, projects, [row])
    book = Book(name="b", currency="EUR", valid_from=T0, prices={("", ""): Decimal("2.5")})
    told = charges(
        start=T0, end=T0 + timedelta(days=1), now=T0 + timedelta(days=2), prices=PriceList(books=(book,))
    )
    assert told.totals == {"EUR": Decimal("3.75")}
