"""Pages of the history are the same from either end."""

from datetime import timedelta
from itertools import product

import pytest
from django.core.paginator import Paginator
from django.test import Client
from django.urls import reverse

from claims.history.intervals import HistoryFilter, allocations
from claims.history.spans import each, newest_first
from claims.models import Allocation
from claims.models.ledger import DAYS, MONTHS
from claims.views import history
from inventory.models import Cluster
from portal import paging
from portal.paging import has_more, paged
from tests.cast import make_cast
from tests.claims.conftest import NOW

pytestmark = pytest.mark.django_db


def hold(cluster: Cluster, number: int, **values: str) -> Allocation:
    named = {"device_name": f"g{number}", "hardware_id": f"GPU-{number}"} | values
    # Some begin at once: then the later one comes first.
    return Allocation.objects.create(
        cluster=cluster, claim_uid=f"u{number}", epoch=1, ended_at=NOW, namespace="n",
        started_at=NOW - timedelta(hours=1 + number // 3), **named,
    )  # fmt: skip


@pytest.mark.parametrize(("shallow", "many"), [(0, 1000), (6, 1000), (500, 0), (500, 1000)])
def test_every_page_is_the_one_of_plain_slices(
    monkeypatch: pytest.MonkeyPatch, shallow: int, many: int
) -> None:
    monkeypatch.setattr(paging, "SHALLOW", shallow)
    monkeypatch.setattr(paging, "MANY", many)
    cluster = Cluster.objects.create(name="c1", created_at=NOW)
    for number in range(23):
        hold(cluster, number)
    rows = allocations(HistoryFilter(), viewer=make_cast().auditor)
    plain, nearer = Paginator(rows, 4), paged(rows, size=4)
    assert nearer.count == 23
    for number in range(1, 7):
        assert list(nearer.page(number)) == list(plain.page(number)), number
    assert list(paged(rows.filter(claim_uid="nobody"), size=4).get_page(9)) == []


@pytest.mark.parametrize(("shallow", "many"), [(0, 1000), (6, 1000), (500, 1000)])
def test_no_more_rows_are_counted_than_asked_for(
    monkeypatch: pytest.MonkeyPatch, shallow: int, many: int
) -> None:
    monkeypatch.setattr(paging, "SHALLOW", shallow)
    monkeypatch.setattr(paging, "MANY", many)
    cluster = Cluster.objects.create(name="c1", created_at=NOW)
    for number in range(12):
        hold(cluster, number)
    rows = allocations(HistoryFilter(), viewer=make_cast().auditor)
    plain = list(rows)
    for at_most, more in ((8, True), (11, True), (12, False), (13, False), (100, False)):
        nearer = paged(rows, size=4, at_most=at_most)
        assert nearer.count == min(at_most, 12)
        found = [row for number in nearer.page_range for row in nearer.page(number)]
        assert found == plain[:at_most]
        assert has_more(nearer.page(1)) == more
        assert list(nearer.get_page(99)) == found[(nearer.num_pages - 1) * 4 :]
    assert not has_more(Paginator(rows, 4).page(1))


def test_what_is_not_counted_is_told_as_more_and_reached_from_the_other_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(history, "MOST_COUNTED", 6)
    monkeypatch.setattr(history, "PAGE_SIZE", 3)
    cluster = Cluster.objects.create(name="c1", created_at=NOW)
    for number in range(7):
        hold(cluster, number)
    client = Client()
    client.force_login(make_cast().auditor)

    def page(**query: str) -> str:
        return " ".join(client.get(reverse("history"), query).content.decode().split())

    first, last = page(), page(page="3")
    assert "1–3 of more than 6 entries" in first
    assert "No further pages" not in first
    assert "4–6 of more than 6 entries" in last
    assert "No further pages" in last
    assert "device=g6" not in first + last
    assert "device=g6" in page(sort="from")
    Allocation.objects.filter(device_name="g6").delete()
    assert "1–3 of 6 entries" in page()


def test_a_device_is_found_by_its_name_and_by_its_hardware_id() -> None:
    cluster = Cluster.objects.create(name="c1", created_at=NOW)
    one, two = hold(cluster, 1), hold(cluster, 2, device_name="GPU-1")
    auditor = make_cast().auditor

    def found(device: str) -> list[Allocation]:
        return list(allocations(HistoryFilter(device=device), viewer=auditor))

    assert found("g1") == [one]
    assert found("GPU-2") == [two]
    assert found("GPU-1") == [two, one]
    assert found("g") == []


def test_what_touches_a_period_comes_in_parts_that_are_the_whole() -> None:
    """However long it lasted, and on the edges of the parts."""
    cluster = Cluster.objects.create(name="c1", created_at=NOW)
    ages = [timedelta(hours=1), DAYS, DAYS + timedelta(seconds=1), MONTHS, MONTHS + timedelta(days=300)]
    ends = [None, NOW, NOW + timedelta(seconds=1), NOW + timedelta(days=40)]
    for number, (age, end) in enumerate(product(ages, ends)):
        Allocation.objects.create(
            cluster=cluster, claim_uid=f"u{number}", epoch=1, device_name=f"g{number}", namespace="n",
            started_at=NOW - age, ended_at=end,
        )  # fmt: skip
    # Of the period's own time, and after it.
    hold(cluster, 50)
    later = Allocation.objects.create(
        cluster=cluster, claim_uid="late", epoch=1, device_name="late", namespace="n",
        started_at=NOW + timedelta(hours=1),
    )  # fmt: skip
    Allocation.objects.create(
        cluster=cluster, claim_uid="after", epoch=1, device_name="after", namespace="n",
        started_at=NOW + timedelta(hours=3),
    )  # fmt: skip
    wanted = HistoryFilter(start=NOW, end=NOW + timedelta(hours=2))
    rows = allocations(wanted, viewer=make_cast().auditor)
    whole = list(rows)
    assert (len(whole), whole[0]) == (len(ages) * 3 + 1, later)
    parts = newest_first(rows, start=NOW)
    assert [len(part) for part in parts] == [4, 6, 6]
    assert list(each(parts, chunk_size=2)) == whole
    assert newest_first(rows, start=None) == [rows]
    for at_most in (None, 3, 4, 5, 13, 15, 16, 17):
        nearer = paged(parts, size=3, at_most=at_most)
        found = [row for number in nearer.page_range for row in nearer.page(number)]
        assert found == whole[:at_most]
        assert nearer.count == len(found)
        assert has_more(nearer.page(1)) == (at_most is not None and at_most < 16)


def test_the_order_turned_round_turns_the_parts_round() -> None:
    cluster = Cluster.objects.create(name="c1", created_at=NOW)
    for number, days in enumerate((1, 5, 90)):
        Allocation.objects.create(
            cluster=cluster, claim_uid=f"u{number}", epoch=1, device_name=f"g{number}", namespace="n",
            started_at=NOW - timedelta(days=days),
        )  # fmt: skip
    client = Client()
    client.force_login(make_cast().auditor)
    for sort, expected in (("-from", ["g0", "g1", "g2"]), ("from", ["g2", "g1", "g0"])):
        response = client.get(reverse("history"), {"sort": sort, "from": f"{NOW:%Y-%m-%dT%H:%M}Z"})
        assert [row.allocation.device_name for row in response.context["rows"]] == expected
