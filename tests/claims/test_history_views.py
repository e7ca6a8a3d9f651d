"""History and cost: who may see what of it, and numbers that tie."""

import csv
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from claims.history.intervals import HistoryFilter, parse_moment
from claims.history.unseen import unseen
from claims.ledger import storage
from claims.models import Allocation, PriceBook, Request
from claims.requests import pursuit
from inventory.models import Cluster, NamespaceBinding, Observation
from portal.accounts.models import User
from tests.claims.conftest import IMAGE, NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.mirror import observe
from tests.claims.test_ledger_units import scheduled

Kind = Observation.Kind
PERIOD = {"from": "2026-11-01", "to": "2026-11-30"}


@pytest.fixture
def held(request_: Request, fake: FakeCluster, cluster: Cluster, prices: PriceBook) -> Request:
    """One H100 held for two hours, then an A100 (without a price) for one, then one hour by nobody known."""
    pursuit.pursue(request_id=request_.pk, now=NOW, hold_image=IMAGE, connect=lambda _cluster: fake)
    request_.refresh_from_db()
    observe(request_, Kind.CLAIM_ALLOCATED, 0)
    observe(
        request_, Kind.CONSUMER_JOINED, 1, consumer={"resource": "pods", "name": "=secret-pod", "uid": "w"}
    )
    observe(request_, Kind.CLAIM_RELEASED, 120)
    a100 = {
        "driver": "gpu.nvidia.com", "pool": "node-a100", "device": "gpu-0", "request": "accelerator",
        "product": "A100", "device_class": "a100", "node": "node-a100", "hardware_id": "GPU-A100-0",
    }  # fmt: skip
    observe(request_, Kind.CLAIM_ALLOCATED, 200, epoch=2, devices=[a100], node="")
    observe(request_, Kind.CLAIM_RELEASED, 260, epoch=2)
    observe(request_, Kind.CLAIM_ALLOCATED, 300, uid="foreign")
    NamespaceBinding.objects.filter(namespace="protein-folding").update(valid_until=NOW)
    observe(request_, Kind.CLAIM_DELETED, 360, uid="foreign")
    storage.apply(cluster=cluster)
    return request_


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def page(user: User, url: str, data: dict[str, Any] | None = None) -> str:
    response = signed_in(user).get(url, data)
    assert response.status_code == 200
    return response.content.decode()


def table(user: User, name: str, data: dict[str, Any] | None = None) -> list[dict[str, str]]:
    response = signed_in(user).get(reverse(name), data)
    assert response.status_code == 200
    assert response["Content-Type"].startswith("text/csv")
    body = b"".join(response.streaming_content) if response.streaming else response.content  # type: ignore[attr-defined]  # both kinds
    return list(csv.DictReader(StringIO(body.decode("utf-8-sig"))))


# --- history --------------------------------------------------------------------------------------


def test_members_see_claim_pods_and_person(cast: Cast, held: Request) -> None:
    html = page(cast.teammate, reverse("history"))
    assert held.object_name in html
    assert "secret-pod" in html
    assert "rhea" in html
    assert "unattributed" in html


@pytest.mark.parametrize("who", ["stranger", "finance"])
def test_strangers_see_device_and_project_only(cast: Cast, held: Request, who: str) -> None:
    user = getattr(cast, who)
    html = page(user, reverse("history"))
    assert "Protein folding" in html
    assert "H100" in html
    for secret in (held.object_name, "secret-pod", "rhea", str(held.key)):
        assert secret not in html
    for row in table(user, "history-export"):
        assert (row["claim"], row["pods"], row["person"], row["request"], row["namespace"]) == ("",) * 5


def test_the_export_has_every_row_and_no_formulas(cast: Cast, held: Request) -> None:
    rows = table(cast.owner, "history-export")
    assert [row["product"] for row in rows] == ["H100", "A100", "H100"]
    first = rows[-1]
    assert first["pods"] == "'=secret-pod"
    assert (first["seconds"], first["project"], first["request"]) == (
        "7200.000000", "protein-folding", str(held.key),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ({"product": "A100"}, 1), ({"product": "B200"}, 0), ({"project": "protein-folding"}, 2),
        ({"project": "weather-models"}, 0), ({"node": "node-a100"}, 1), ({"device": "GPU-H100-0"}, 2),
        ({"pool": "node-a100", "driver": "gpu.nvidia.com", "device": "gpu-0"}, 1), ({"driver": "x"}, 0),
        ({"device": "gpu-0"}, 3), ({"cluster": "main"}, 3), ({"cluster": "x"}, 0), ({"running": "1"}, 0),
        ({"from": "2026-11-11"}, 0), ({"to": "2026-11-09"}, 0), ({"from": "2026-11-10T15:00Z"}, 2),
        ({"running": "0"}, 3), ({"device": "\x00"}, 3),
    ],
)  # fmt: skip
def test_history_is_narrowed_by_its_address(
    cast: Cast, held: Request, query: dict[str, str], count: int
) -> None:
    assert len(table(cast.admin, "history-export", query)) == count


@pytest.mark.parametrize(
    ("name", "value"), [("from", "yesterday"), ("to", "2026-13-45"), ("kind", "pods"), ("running", "maybe")]
)
def test_no_file_of_everything_is_made_of_what_cannot_be_read(
    cast: Cast, held: Request, name: str, value: str
) -> None:
    client = signed_in(cast.owner)
    response = client.get(reverse("history-export"), {name: value, "project": "protein-folding"})
    assert response.status_code == 303
    html = client.get(response["Location"]).content.decode()
    assert "Write a date such as" in html or "Choose one of" in html
    # What is read of the rest is kept.
    assert '<option value="protein-folding" selected>' in html


def test_a_date_that_cannot_be_read_is_named_and_stays(cast: Cast, held: Request) -> None:
    html = page(cast.owner, reverse("history"), {"from": "yesterday"})
    assert "Write a date such as" in html
    assert 'value="yesterday"' in html


@pytest.mark.parametrize(
    ("text", "end", "moment"),
    [
        ("2026-03-01", False, "2026-03-01T00:00:00+00:00"),
        ("2026-03-01", True, "2026-03-02T00:00:00+00:00"),
        ("2026-03-01T12:30", True, "2026-03-01T12:30:00+00:00"),
        ("2026-03-01T12:30 02:00", False, "2026-03-01T12:30:00+02:00"),
    ],
)
def test_moments_are_read(text: str, end: bool, moment: str) -> None:
    assert parse_moment(text, end=end) == datetime.fromisoformat(moment)


@pytest.mark.parametrize(
    "text",
    [
        *("x", "2026", "9999-12-31", "2026-02-30", "T", "2026-03-01T99:00"),
        # The ends of the calendar, which no arithmetic and no time zone gets past.
        *("0001-01-01", "9999-12-01", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+14:00"),
    ],
)
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Write a date"):
        parse_moment(text, end=True)


def test_a_period_that_runs_backwards_is_named() -> None:
    wanted = HistoryFilter.parse({"from": "2026-03-02", "to": "2026-03-01T00:00Z"})
    assert set(wanted.errors) == {"to"}


def test_queries_of_history_do_not_grow(cast: Cast, held: Request, cluster: Cluster) -> None:
    client = signed_in(cast.teammate)

    def queries() -> int:
        client.get(reverse("history"))
        with CaptureQueriesContext(connection) as seen:
            client.get(reverse("history"))
        return len(seen)

    few = queries()
    for number in range(30):
        observe(held, Kind.CLAIM_ALLOCATED, 400 + number, uid=f"more-{number}")
    storage.apply(cluster=cluster)
    assert queries() == few
    assert few <= 15


# --- cost -----------------------------------------------------------------------------------------


def test_a_project_sees_its_cost_with_the_arithmetic(cast: Cast, held: Request) -> None:
    text = " ".join(page(cast.owner, reverse("cost"), PERIOD).split())
    assert "× 2.50 EUR" in text
    assert "= €5.00" in text
    assert "no price" in text
    assert "Unattributed" not in text


@pytest.mark.parametrize("who", ["finance", "admin", "auditor"])
def test_those_who_see_all_costs_see_what_nobody_pays_for(cast: Cast, held: Request, who: str) -> None:
    html = page(getattr(cast, who), reverse("cost"), PERIOD)
    assert "Unattributed" in html
    assert "€7.50" in html


def test_a_strangers_project_has_no_cost_page(cast: Cast, held: Request) -> None:
    client = signed_in(cast.stranger)
    for name in ("cost", "cost-export"):
        assert client.get(reverse(name), {"project": "protein-folding"}).status_code == 404
        assert "5.00" not in client.get(reverse(name), PERIOD).content.decode() if name == "cost" else True


def test_the_exported_lines_tie_with_the_page(cast: Cast, held: Request) -> None:
    rows = table(cast.finance, "cost-export", PERIOD)
    priced = {row["project"]: row["amount"] for row in rows if row["amount"]}
    assert priced == {"protein-folding": "5.00", "unattributed": "2.50"}
    (unpriced,) = [row for row in rows if not row["amount"]]
    assert (unpriced["product"], unpriced["device_hours"], unpriced["price_per_device_hour"]) == (
        "A100", "1.000000", "",
    )  # fmt: skip


def test_what_still_runs_is_marked(cast: Cast, held: Request) -> None:
    Allocation.objects.filter(epoch=2).update(ended_at=None)
    html = page(cast.owner, reverse("cost"), {"from": "2026-11-01", "to": "2099-01-01"})
    assert "At most three years" in html
    Allocation.objects.filter(epoch=2).update(started_at=datetime.now(tz=NOW.tzinfo) - timedelta(minutes=1))
    html = page(cast.owner, reverse("cost"))
    assert "1 still running" in html


def test_admin_access_is_shown_and_never_billed(cast: Cast, held: Request) -> None:
    Allocation.objects.update(admin_access=True)
    assert "admin access, not billed" in page(cast.owner, reverse("history"))
    assert "Nothing was held in this period" in page(cast.owner, reverse("cost"), PERIOD)


# --- who had it, what did it have, and what nobody knows ------------------------------------------


def test_a_pod_leads_to_what_it_had_and_a_device_to_who_had_it(cast: Cast, held: Request) -> None:
    html = page(cast.owner, reverse("history"), {"pod": "=secret-pod"})
    assert html.count("gpu-0</a>") == 1
    assert "?pod=w" in html
    # Of no other device that is called so: also where none is on a node.
    assert "cluster=main&amp;driver=gpu.nvidia.com&amp;pool=node-h100&amp;device=gpu-0" in html
    assert table(cast.owner, "history-export", {"pod": "w"})[0]["pods"] == "'=secret-pod"
    assert table(cast.stranger, "history-export", {"pod": "w"}) == []
    assert table(cast.stranger, "history-export", {"person": "rhea"}) == []


def test_a_pod_that_had_it_for_a_part_of_the_time_says_which(
    cast: Cast, held: Request, cluster: Cluster
) -> None:
    late = {"resource": "pods", "name": "late", "uid": "l", "containers": [["main", ""], ["log", ""]]}
    observe(held, Kind.CONSUMER_JOINED, 30, consumer=late)
    observe(held, Kind.CONSUMER_LEFT, 90, consumer=late)
    storage.apply(cluster=cluster)
    html = " ".join(page(cast.owner, reverse("history"), {"pod": "l"}).split())
    # Only of who came later or left earlier; seconds after an allocation its Pod was there all the time.
    assert html.count('<span class="cd-nowrap">(') == 1
    (row,) = table(cast.owner, "history-export", {"pod": "l"})
    assert "late</a>: main, log" in html
    assert row["pods"] == "'=secret-pod; late"
    assert row["pod_containers"] == "; main, log"
    assert row["pod_stays"] == (
        "2026-11-10T12:01:00+00:00/2026-11-10T14:00:00+00:00; "
        "2026-11-10T12:30:00+00:00/2026-11-10T13:30:00+00:00"
    )
    assert {row["pod_stays"] for row in table(cast.stranger, "history-export")} == {""}


def test_units_say_how_many_and_what_part_of_a_piece(cast: Cast, held: Request, cluster: Cluster) -> None:
    scheduled(cluster)
    storage.apply(cluster=cluster)
    NamespaceBinding.objects.filter(namespace="protein-folding").update(valid_until=None)
    html = " ".join(page(cast.admin, reverse("history"), {"kind": "units"}).split())
    assert "2 × nvidia.com/gpu" in html
    assert "1/4 of a piece each" in html
    (row,) = table(cast.admin, "history-export", {"kind": "units"})
    assert (row["units"], row["replicas"], row["extended_resource"]) == ("2", "4", "nvidia.com/gpu")


def test_a_kind_that_there_is_not_is_named(cast: Cast, held: Request) -> None:
    assert "Choose one of" in page(cast.owner, reverse("history"), {"kind": "pods"})


def test_times_of_which_nothing_is_known_are_shown(cast: Cast, held: Request, cluster: Cluster) -> None:
    start = NOW + timedelta(hours=1)
    Observation.objects.create(
        cluster=cluster, kind=Kind.GAP, at=start + timedelta(hours=2), source="observed",
        observed_at=start + timedelta(hours=2), name="resourceclaims", uid="", key="gap",
        facts={"resource": "resourceclaims", "from": start.isoformat(), "lost": True},
    )  # fmt: skip
    html = page(cast.stranger, reverse("history"), {"from": "2026-11-10T12:00Z", "to": "2026-11-10"})
    assert "not observed is not idle" in html
    assert "2 h" in html
    late = NOW + timedelta(hours=5)
    cluster.streams.update(heard_at=late)
    Cluster.objects.update(contacted_at=late)
    told = unseen(start=None, end=None, cluster="main", now=late)
    assert [(gap.start, gap.end, gap.before) for gap in told] == [(start, start + timedelta(hours=2), False)]
    (first, *_rest) = reversed(unseen(start=NOW - timedelta(hours=1), end=None, cluster="", now=late))
    assert (first.before, first.end) == (True, NOW)
    assert unseen(start=None, end=None, cluster="other", now=NOW) == []


def test_the_ledgers_second_holder_and_billed_bound_are_told(cast: Cast, held: Request) -> None:
    Allocation.objects.filter(epoch=2).update(
        contested=True, bound="operator", end_uncertainty_us=90_000_000, start_uncertainty_us=60_000_000
    )
    html = " ".join(page(cast.owner, reverse("history")).split())
    assert "a second holder" in html
    assert "or earlier, at most 1 min 30 s" in html
    assert "or later, at most 1 min" in html
