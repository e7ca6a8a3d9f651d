"""Pages and REST of bookings: calendar, form with its check, list, one booking, iCalendar."""

import json
import uuid
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from claims.bookings import ics as bookings_ics
from claims.bookings.booking import book
from claims.bookings.calendar import calendar
from claims.models import Booking, Flavor, Placement
from inventory.models import Cluster
from portal.accounts.models import User
from tests.claims import catalogue
from tests.claims.conftest import NOW, Cast

HOUR = timedelta(hours=1)


@pytest.fixture(autouse=True)
def nothing_cached() -> None:
    cache.clear()


@pytest.fixture
def flavor(cast: Cast, cluster: Cluster) -> Flavor:
    """Two H100 on one node."""
    made = catalogue.flavor()
    catalogue.placement(made, cluster)
    return made


@pytest.fixture
def soon() -> datetime:
    """Tomorrow at noon, by the clock that views read."""
    return (timezone.now() + timedelta(days=1)).replace(hour=12, minute=0, second=0, microsecond=0)


def typed(at: datetime, **values: Any) -> dict[str, Any]:
    return {
        "project": "protein-folding",
        "flavor": "h100",
        "count": "1",
        "start": at.isoformat(),
        "duration": "4",
        "duration_unit": "hours",
        "purpose": "Folding of the April set",
    } | values


def booked(cast: Cast, at: datetime, **values: Any) -> Booking:
    return book(user=cast.owner, values=typed(at, **values), now=timezone.now())


def browser(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


# --- pages ------------------------------------------------------------------------------------------


def test_the_form_books_and_says_what_it_means(cast: Cast, flavor: Flavor, soon: datetime) -> None:
    client = browser(cast.owner)
    form = client.get(reverse("booking-create"), {"flavor": "h100", "start": "2026-12-01T10:00"})
    assert 'value="2026-12-01T10:00"' in form.content.decode()

    sent = typed(soon, start=soon.strftime("%Y-%m-%dT%H:%M"), key=str(uuid.uuid4()))
    answer = client.post(reverse("booking-create"), sent)
    made = Booking.objects.get()
    assert answer["Location"] == reverse("booking-detail", args=[made.key])
    assert made.starts_at == soon
    page = client.get(answer["Location"]).content.decode()
    assert "if one is free then" in page
    # Sent again by an impatient finger, it is the same one.
    again = client.post(reverse("booking-create"), sent)
    assert Booking.objects.count() == 1
    assert "This form was sent before" in client.get(again["Location"]).content.decode()


def test_a_start_on_the_last_day_of_all_is_refused_at_its_field(cast: Cast, flavor: Flavor) -> None:
    client, late = browser(cast.owner), typed(NOW, start="9999-12-31T23:59")
    answer = client.post(reverse("booking-create"), late)
    assert answer.status_code == 422
    assert "days ahead" in answer.content.decode()
    assert client.get(reverse("booking-check"), late).status_code == 200


def test_what_is_wrong_stands_at_its_field_and_nothing_typed_is_lost(
    cast: Cast, flavor: Flavor, soon: datetime
) -> None:
    booked(cast, soon, count="2")
    answer = browser(cast.owner).post(reverse("booking-create"), typed(soon, purpose="<b>keep</b> me"))

    page = answer.content.decode()
    assert answer.status_code == 422
    assert "Only 0 of 2 are left throughout that time." in page
    assert "&lt;b&gt;keep&lt;/b&gt; me" in page


def test_the_check_answers_while_one_types(cast: Cast, flavor: Flavor, soon: datetime) -> None:
    client = browser(cast.owner)
    check = reverse("booking-check")
    assert "Choose a flavor" in client.get(check).content.decode()
    assert "Planned; the device is held from" in client.get(check, typed(soon)).content.decode()
    booked(cast, soon, count="2")

    page = client.get(check, typed(soon)).content.decode()
    assert "Only 0 of 2 are left" in page
    assert "It would fit from" in page
    assert "has passed" in client.get(check, typed(soon, start="2020-01-01T00:00")).content.decode()


def test_strangers_see_that_it_is_booked_by_which_project_and_no_more(
    cast: Cast, flavor: Flavor, soon: datetime
) -> None:
    made = booked(cast, soon)
    query = {"day": soon.date().isoformat(), "view": "month"}
    path = reverse("booking-calendar", args=["h100"])
    own = browser(cast.teammate).get(path, query).content.decode()
    others = browser(cast.stranger).get(path, query).content.decode()

    assert str(made.key) in own
    assert "Folding of the April set" in own
    assert "Protein folding" in others
    assert str(made.key) not in others
    assert "Folding of the April set" not in others
    assert "rhea" not in others


def test_an_auditor_is_offered_nothing_to_book(cast: Cast, flavor: Flavor) -> None:
    page = browser(cast.auditor).get(reverse("booking-calendar", args=["h100"])).content.decode()

    assert reverse("booking-create") not in page


def test_a_flavor_that_one_may_not_see_has_no_calendar(cast: Cast, flavor: Flavor) -> None:
    Flavor.objects.update(visibility="administrators")

    assert browser(cast.owner).get(reverse("booking-calendar", args=["h100"])).status_code == 404


@pytest.mark.parametrize(
    "query", ["view=decade", "day=0001-01-01", "day=9999-12-31", "day=x&cluster=nowhere"]
)
def test_a_calendar_makes_something_of_any_address(cast: Cast, flavor: Flavor, query: str) -> None:
    answer = browser(cast.owner).get(reverse("booking-calendar", args=["h100"]) + f"?{query}")

    assert answer.status_code == 200


def test_the_list_narrows_and_exports(cast: Cast, flavor: Flavor, soon: datetime) -> None:
    made = booked(cast, soon)
    client = browser(cast.teammate)
    path = reverse("booking-list")

    assert str(made.key) in client.get(path, {"state": "planned"}).content.decode()
    assert "No booking matches" in client.get(path, {"mine": "1"}).content.decode()
    lines = b"".join(client.get(path, {"format": "csv"}).streaming_content).decode().splitlines()  # type: ignore[attr-defined] # a streaming answer
    assert len(lines) == 2
    assert lines[1].startswith(f"{made.key},booked,,protein-folding,rhea,h100,main,")
    assert str(made.key) not in browser(cast.stranger).get(path).content.decode()


def test_cancelling_asks_first_and_is_a_post(cast: Cast, flavor: Flavor, soon: datetime) -> None:
    made = booked(cast, soon)
    client, path = browser(cast.teammate), reverse("booking-cancel", args=[made.key])
    assert "Others can book the time at once." in client.get(path).content.decode()
    assert Booking.objects.get().state == "booked"
    client.post(path)

    assert Booking.objects.get().state == "cancelled"


def test_a_lead_decides_on_the_page(cast: Cast, flavor: Flavor, soon: datetime) -> None:
    Flavor.objects.update(approval="lead")
    made = booked(cast, soon)
    client = browser(cast.lead)
    assert "1 booking waits for a decision" in client.get(reverse("booking-list")).content.decode()
    refused = client.post(reverse("booking-reject", args=[made.key]), {"comment": ""})
    assert refused.status_code == 422
    assert "Say why" in refused.content.decode()
    assert browser(cast.owner).post(reverse("booking-approve", args=[made.key])).status_code == 403
    client.post(reverse("booking-approve", args=[made.key]), {"comment": ""})

    assert Booking.objects.get().state == "booked"


# --- the calendar's days ----------------------------------------------------------------------------


def test_a_day_has_as_many_hours_as_its_clocks_show(cast: Cast, flavor: Flavor) -> None:
    berlin = ZoneInfo("Europe/Berlin")
    told = calendar(
        placement=Placement.objects.get(), user=cast.owner, view="week",
        day=datetime(2026, 10, 25, tzinfo=berlin).date(), zone=berlin, now=datetime(2026, 10, 20, tzinfo=UTC),
    )  # fmt: skip
    sunday = told.lines[6].cells

    assert [cell.end - cell.start for cell in sunday] == [4 * HOUR, *[3 * HOUR] * 7]
    assert sunday[0].start == datetime(2026, 10, 24, 22, tzinfo=UTC)
    assert all(a.end == b.start for a, b in pairwise(sunday))


def test_a_cell_tells_the_least_that_is_left_in_it(cast: Cast, flavor: Flavor) -> None:
    start = NOW + timedelta(days=1)
    book(user=cast.owner, values=typed(start, duration="1"), now=NOW)
    told = calendar(
        placement=Placement.objects.get(), user=cast.owner, view="week", day=NOW.date(), zone=UTC, now=NOW
    )
    wednesday = {cell.at.hour: cell for cell in told.lines[2].cells}

    assert (wednesday[9].room, wednesday[12].room, wednesday[15].room) == (2, 1, 2)
    assert (wednesday[12].booked, wednesday[15].booked) == (1, 0)
    # What is over tells nothing, and is booked by nobody.
    assert (told.lines[0].cells[0].room, told.lines[0].cells[0].from_) == (None, None)


# --- REST -------------------------------------------------------------------------------------------


def test_rest_books_tells_and_cancels(cast: Cast, flavor: Flavor, soon: datetime) -> None:
    client = browser(cast.owner)
    path = reverse("api-booking-list")
    made = client.post(path, json.dumps(typed(soon, count=2, duration=4)), "application/json")
    assert made.status_code == 201
    key = made.json()["key"]
    full = client.post(path, json.dumps(typed(soon)), "application/json")
    assert full.status_code == 400
    assert full.json()["errors"][0]["field"] == "start"
    room = client.get(reverse("api-booking-room", args=["h100"]), {"from": soon.isoformat()}).json()
    assert room["usable"] == 2
    assert [span["left"] for span in room["spans"]] == [0, 2]
    assert client.get(path, {"state": "planned"}).json()["results"][0]["key"] == key
    gone = client.post(reverse("api-booking-cancel", args=[key])).json()
    assert gone["state"] == "cancelled"
    assert client.get(reverse("api-booking-detail", args=[key])).json()["decisions"] == []


@pytest.mark.parametrize("body", ["[]", "1", '{"start": [1]}', '{"start": {"a": 1}, "flavor": 5}', "{}"])
def test_rest_refuses_what_is_no_booking(cast: Cast, flavor: Flavor, body: str) -> None:
    answer = browser(cast.owner).post(reverse("api-booking-list"), body, "application/json")

    assert answer.status_code == 400


def test_rest_of_what_is_left_has_a_bound(cast: Cast, flavor: Flavor) -> None:
    client, path = browser(cast.owner), reverse("api-booking-room", args=["h100"])

    assert client.get(path, {"from": "2026-01-01T00:00", "to": "2030-01-01T00:00"}).status_code == 400
    assert client.get(path, {"from": "never"}).status_code == 400
    assert client.get(path, {"cluster": "nowhere"}).status_code == 404


def test_the_feed_has_ones_own_bookings(cast: Cast, flavor: Flavor, soon: datetime) -> None:
    made = booked(cast, soon, purpose="Fold; and, again\nand again")
    feed = browser(cast.owner).get(reverse("api-booking-feed"))

    text = feed.content.decode()
    assert feed["Content-Type"] == "text/calendar; charset=utf-8"
    assert f"UID:{made.key}@testserver\r\n" in text
    assert f"DTSTART:{soon:%Y%m%dT%H%M%SZ}\r\n" in text
    assert "Fold\\; and\\, again\\nand again" in text.replace("\r\n ", "")
    assert "VEVENT" not in browser(cast.teammate).get(reverse("api-booking-feed")).content.decode()


def test_long_lines_of_the_feed_are_folded_between_characters(
    cast: Cast, flavor: Flavor, soon: datetime
) -> None:
    made = booked(cast, soon, purpose="蛋白质折叠" * 40)
    lines = bookings_ics.calendar([made], host="desk").encode().split(b"\r\n")

    assert max(map(len, lines)) <= 75
    assert "蛋白质折叠" * 40 in b"\r\n".join(lines).replace(b"\r\n ", b"").decode()
