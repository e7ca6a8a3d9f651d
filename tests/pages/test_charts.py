"""Charts: what they show of whom, the table that they are drawn from, and addresses that cannot be read."""

import json
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from claims.history.timeline import Bar, Lane, held_time, together
from claims.models import Allocation, Price, PriceBook
from inventory.models import Claim, Device, Observation
from portal.accounts.models import User
from tests.cast import Cast
from tests.pages.fleet import cluster, devices

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def page(user: User, path: str, **query: str) -> str:
    response = signed_in(user).get(path, query)
    assert response.status_code == 200
    return response.content.decode()


def hold(cast: Cast, device: Device, start: float, end: float | None, **values: Any) -> Allocation:
    """The device was held by the project for so many hours ago until so many hours ago."""
    now = timezone.now()
    number = Allocation.objects.count()
    return Allocation.objects.create(**{
        "cluster": device.cluster, "namespace": "tides", "claim_name": f"secret-claim-{number}",
        "claim_uid": f"u{number}", "epoch": 1, "driver": device.pool.driver,
        "pool_name": device.pool.name, "device_name": device.name, "node_name": device.node_name,
        "request_name": "r", "start_source": "observed", "started_at": now - start * HOUR,
        "ended_at": None if end is None else now - end * HOUR, "product": "Beam 9",
        "device_class": "beam", "project": cast.project, **values,
    })  # fmt: skip


def observe(device: Device, kind: str, hours_ago: float, **facts: Any) -> None:
    at = timezone.now() - hours_ago * HOUR
    Observation.objects.create(
        cluster=device.cluster, kind=kind, at=at, observed_at=at, source="observed", name="x",
        uid=facts.pop("uid", ""), facts=facts, key=str(Observation.objects.count()),
    )  # fmt: skip


@pytest.fixture
def held(cast: Cast) -> Device:
    """A device that is there for 50 hours and held for the last two."""
    (device,) = devices(cluster(), held=1)
    observe(device, "device-appeared", 50, profile="d", unavailable="")
    hold(cast, device, 2, None)
    return device


# --- occupancy --------------------------------------------------------------------------------------


def test_occupancy_is_a_table_that_the_chart_is_drawn_from(cast: Cast, held: Device) -> None:
    told = signed_in(cast.stranger).get("/charts/", {"range": "day"})
    figure = told.context["figure"]

    assert [series.tone for series in figure.series] == ["held", "free", "unavailable", "unknown"]
    assert len(figure.rows) == 96
    assert [value.number for value in figure.rows[0].values] == [0, 1, 0, 0]
    assert [value.number for value in figure.rows[-1].values] == [1, 0, 0, 0]
    assert told.content.decode().count('<tr data-tick="') == 96


def test_what_nobody_observed_is_an_empty_cell(cast: Cast, held: Device) -> None:
    figure = signed_in(cast.member).get("/charts/", {"range": "week"}).context["figure"]
    first, last = figure.rows[0].values, figure.rows[-1].values
    assert [(value.number, value.shown) for value in first] == [(None, "–")] * 4
    assert last[0].number == 1
    assert '<td class="cd-number" data-v="">–</td>' in page(cast.member, "/charts/", range="week")


def test_occupancy_is_narrowed_by_its_address(cast: Cast, held: Device) -> None:
    assert "Nothing is known of this time" in page(cast.member, "/charts/", product="No such thing")
    assert "Nothing is known of this time" in page(cast.member, "/charts/", cluster="elsewhere")
    assert "Nothing is known" not in page(cast.member, "/charts/", product="Beam 9", cluster="harbour")


@pytest.mark.parametrize("wrong", [{"range": "eternity"}, {"product": "\x00"}, {"cluster": "x" * 5000}])
def test_an_address_that_cannot_be_read_is_a_page_all_the_same(cast: Cast, wrong: dict[str, str]) -> None:
    page(cast.member, "/charts/", **wrong)


def test_an_empty_desk_says_so_on_every_chart(cast: Cast) -> None:
    assert "Nothing is known of this time" in page(cast.member, "/charts/")
    assert "No claims in this time" in page(cast.member, "/charts/waiting/")
    assert "Nothing has cost anything yet" in page(cast.member, "/charts/cost/")


def test_only_the_chart_is_sent_to_htmx(cast: Cast, held: Device) -> None:
    response = signed_in(cast.member).get("/charts/", headers={"HX-Request": "true"})
    assert response.content.decode().lstrip().startswith('<div id="chart"')


# --- waiting times ----------------------------------------------------------------------------------


def test_waits_are_told_by_class_with_those_who_still_wait(cast: Cast, held: Device) -> None:
    observe(held, "claim-created", 2.5, uid="u0")
    observe(held, "claim-created", 1, uid="waits")
    Claim.objects.create(
        cluster=held.cluster, name="w", uid="waits", resource_version="1", namespace="tides",
        spec={"devices": {"requests": [{"exactly": {"deviceClassName": "beam"}}]}},
        created_at=timezone.now() - HOUR,
    )  # fmt: skip
    context = signed_in(cast.stranger).get("/charts/waiting/").context

    (group,) = context["groups"]
    assert (group["name"], group["count"], group["waiting"]) == ("beam", 2, 1)
    rows = {row.label: [value.number for value in row.values] for row in context["figure"].rows}
    assert rows["15 min – 1 h"] == [1, 0, 0]
    assert rows["1 h – 4 h"] == [0, 1, 0]
    assert signed_in(cast.stranger).get("/charts/waiting/", {"by": "product", "of": "x"}).status_code == 200


# --- cost by month ----------------------------------------------------------------------------------


@pytest.fixture
def priced(cast: Cast, held: Device) -> Device:
    long_ago = timezone.now() - timedelta(days=900)
    book = PriceBook.objects.create(name="b", currency="EUR", valid_from=long_ago)
    Price.objects.create(book=book, per_hour=Decimal("2.5"))
    hold(cast, held, 1, None, project=cast.other, device_name="another")
    hold(cast, held, 1, None, project=None, device_name="third")
    return held


@pytest.mark.parametrize(
    ("who", "payers"),
    [
        ("member", ["Tidal models"]),
        ("stranger", ["Glacier flow"]),
        ("finance", ["Tidal models", "Glacier flow", "unattributed"]),
        ("administrator", ["Tidal models", "Glacier flow", "unattributed"]),
    ],
)
def test_cost_is_of_the_projects_that_one_may_see(
    cast: Cast, priced: Device, who: str, payers: list[str]
) -> None:
    (figure,) = signed_in(getattr(cast, who)).get("/charts/cost/").context["figures"]
    assert [series.name for series in figure.series] == payers


def test_months_before_anything_was_observed_are_gaps_and_idle_ones_zero(cast: Cast, priced: Device) -> None:
    Allocation.objects.update(started_at=timezone.now() - timedelta(minutes=1))
    observe(priced, "device-appeared", 24 * 70, profile="d", unavailable="")
    Observation.objects.exclude(pk=Observation.objects.latest("pk").pk).delete()
    (figure,) = signed_in(cast.member).get("/charts/cost/", {"months": "12"}).context["figures"]
    numbers = [row.values[0].number for row in figure.rows]
    assert len(numbers) == 12
    assert numbers[:8] == [None] * 8
    assert 0 in numbers
    assert (numbers[-1] or 0) > 0


def test_beyond_what_can_be_told_apart_projects_are_one_bar(cast: Cast, priced: Device) -> None:
    from portal.accounts.models import Project

    for number in range(12):
        project = Project.objects.create(slug=f"p{number}", name=f"P{number}", created_at=timezone.now())
        hold(cast, priced, 1, None, project=project, device_name=f"of-{number}")
    (figure,) = signed_in(cast.finance).get("/charts/cost/").context["figures"]
    assert [series.name for series in figure.series][-1] == "7 more projects"
    assert len(figure.series) == 9


# --- the timeline -----------------------------------------------------------------------------------


def bars(user: User, **query: str) -> dict[str, Any]:
    response = signed_in(user).get("/charts/timeline.json", query)
    assert response.status_code == 200
    told: dict[str, Any] = json.loads(response.content)
    return told


def test_a_stranger_sees_that_a_device_was_held_and_by_which_project(cast: Cast, held: Device) -> None:
    told = bars(cast.stranger)
    assert [lane["name"] for lane in told["lanes"]] == [held.name]
    assert told["projects"] == ["Tidal models"]
    assert told["bars"]["claim"] == [""]
    assert "secret" not in json.dumps(told)


@pytest.mark.parametrize("who", ["member", "auditor", "administrator"])
def test_who_may_know_sees_the_claim(cast: Cast, held: Device, who: str) -> None:
    assert bars(getattr(cast, who))["bars"]["claim"] == ["tides/secret-claim-0"]


def test_a_window_has_what_reaches_into_it(cast: Cast, held: Device) -> None:
    hold(cast, held, 30, 20)
    hold(cast, held, 300, 290)
    now = timezone.now()

    def count(start: float, end: float) -> int:
        window = {"start": (now - start * HOUR).isoformat(), "end": (now - end * HOUR).isoformat()}
        return len(bars(cast.member, **window)["bars"]["lane"])

    assert [count(25, 22), count(40, 25), count(19, 3), count(301, 289), count(25, 1)] == [1, 1, 0, 1, 2]


def test_lanes_are_devices_nodes_or_projects(cast: Cast, held: Device) -> None:
    other = devices(cluster(), held=12)[10]
    hold(cast, other, 5, 1, project=cast.other)
    hold(cast, other, 9, 8)
    names = {
        by: [lane["name"] for lane in bars(cast.member, by=by)["lanes"]]
        for by in ("device", "node", "project", "nonsense")
    }
    assert names == {
        "device": ["gpu-0", "gpu-10"],
        "node": [held.node_name, other.node_name],
        "project": ["Glacier flow", "Tidal models"],
        "nonsense": ["gpu-0", "gpu-10"],
    }


def test_what_nobody_saw_is_blank(cast: Cast, held: Device) -> None:
    since = (timezone.now() - 20 * HOUR).isoformat()
    observe(held, "gap", 15, resource="resourceclaims", lost=True, **{"from": since})
    (lane,) = bars(cast.member)["lanes"]
    lengths = [round((end - start) / 3_600_000) for start, end in lane["blanks"]]
    # The week before the cluster was followed, and the gap.
    assert lengths == [7 * 24 - 50, 5]


def test_between_many_gaps_something_was_seen(cast: Cast, held: Device) -> None:
    for hour in range(45, 5, -1):
        since = (timezone.now() - (hour + 0.5) * HOUR).isoformat()
        observe(held, "gap", hour, resource="resourceclaims", lost=True, **{"from": since})
    (lane,) = bars(cast.member)["lanes"]
    assert len(lane["blanks"]) == 1 + 40


def test_admin_access_is_no_hold(cast: Cast, held: Device) -> None:
    Allocation.objects.update(admin_access=True)
    assert bars(cast.member)["lanes"] == []


@pytest.mark.parametrize(
    "window",
    [
        {"start": "yesterday"}, {"end": "x"}, {"start": "2026-03-02", "end": "2026-03-01T00:00Z"},
        {"start": "1999-01-01", "end": "2020-01-01"}, {"start": "9999-12-31"},
    ],
)  # fmt: skip
def test_a_window_that_cannot_be_read_is_refused_with_a_reason(cast: Cast, window: dict[str, str]) -> None:
    response = signed_in(cast.member).get("/charts/timeline.json", window)
    assert response.status_code == 400
    assert json.loads(response.content)["error"]


def test_lanes_beyond_the_most_are_counted(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("claims.history.timeline.MOST_LANES", 2)
    for device in devices(cluster(), held=5):
        hold(cast, device, 2, None)
    told = bars(cast.member)
    assert (len(told["lanes"]), told["note"]) == (2, "3 more rows are left out: narrow it.")


def test_a_window_with_too_much_says_from_when_it_is_whole(
    cast: Cast, held: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("claims.history.timeline.MOST_INTERVALS", 3)
    for number in range(6):
        hold(cast, held, 10 + number, 9.5 + number)
    assert bars(cast.member)["note"].startswith("Too much at once: only what began since ")


def bar(start: int, end: int | None, project: int | None = 1, many: int = 1) -> Bar:
    return Bar(start, end, project, many=many)


@pytest.mark.parametrize(
    ("given", "drawn"),
    [
        ([bar(0, 5), bar(6, 9)], [bar(0, 9, many=2)]),
        ([bar(0, 5), bar(6, 9, 2)], [bar(0, 9, None, many=2)]),
        ([bar(0, 5), bar(16, 19)], [bar(0, 5), bar(16, 19)]),
        ([bar(0, 50), bar(51, 52)], [bar(0, 50), bar(51, 52)]),
        ([bar(6, 9), bar(0, 5), bar(9, 12), bar(13, 14)], [bar(0, 12, many=3), bar(13, 14)]),
        # What is held now is told as such.
        ([bar(90, 92), bar(94, None)], [bar(90, 92), bar(94, None)]),
        ([], []),
    ],
)
def test_bars_too_short_to_be_seen_are_drawn_together(given: list[Bar], drawn: list[Bar]) -> None:
    assert list(together(given, resolution=10, now=100)) == drawn


def test_nothing_is_lost_by_drawing_together() -> None:
    given = [bar(7 * n, 7 * n + 3) for n in range(1000)]
    drawn = list(together(given, resolution=50, now=10**6))
    assert sum(one.many for one in drawn) == 1000
    assert len(drawn) < 200
    assert all(one.end is not None and one.end <= two.start for one, two in pairwise(drawn))


def test_time_held_counts_once_where_bars_overlap() -> None:
    lane = Lane("k", "n", "", "", "", bars=[bar(0, 10), bar(5, 20), bar(30, None), bar(90, 95)])
    assert held_time(lane, start=2, end=50, now=40) == 18 + 10


def test_queries_of_charts_do_not_grow(cast: Cast, held: Device) -> None:
    client = signed_in(cast.member)
    paths = ("/charts/", "/charts/waiting/", "/charts/cost/", "/charts/timeline.json")

    def queries() -> list[int]:
        counts = []
        for path in paths:
            with CaptureQueriesContext(connection) as seen:
                client.get(path)
            counts.append(len(seen))
        return counts

    queries()
    few = queries()
    for device in devices(cluster(), held=6):
        hold(cast, device, 3, 1)
        observe(device, "claim-created", 3.1, uid=f"u{Allocation.objects.count() - 1}")
    assert queries() == few
    assert max(few) <= 45


def test_the_timeline_of_the_history_keeps_its_filter(cast: Cast, held: Device) -> None:
    html = page(cast.member, "/history/", node=held.node_name, by="node")
    assert f"/charts/timeline.json?by=node&amp;node={held.node_name}" in html
