"""Pages of the history are the same from either end."""

from datetime import timedelta

import pytest
from django.core.paginator import Paginator

from claims.history.intervals import HistoryFilter, allocations
from claims.models import Allocation
from inventory.models import Cluster
from portal import paging
from portal.paging import paged
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
