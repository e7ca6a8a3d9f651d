"""When a booking's time comes: one request with the hold, or a reason; whatever crashes, however often."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.utils import timezone

from claims import tasks
from claims.bookings import news as bookings_news
from claims.bookings import start as bookings_start
from claims.bookings.approvals import decide
from claims.bookings.booking import book, cancel, change
from claims.bookings.start import due, start
from claims.models import Booking, Flavor, Request
from claims.requests import actions as requests
from inventory.models import Cluster, ResourceSlice
from portal.accounts.models import AuditEntry, Membership, Notification
from tests.claims import catalogue
from tests.claims.conftest import NOW, Cast
from tests.claims.fakes import FakeCluster

HOUR = timedelta(hours=1)
START = NOW + timedelta(days=1)
END = START + 4 * HOUR


@pytest.fixture(autouse=True)
def nothing_cached() -> None:
    cache.clear()


@pytest.fixture
def flavor(cast: Cast, cluster: Cluster) -> Flavor:
    """Two H100 on one node."""
    made = catalogue.flavor()
    catalogue.placement(made, cluster)
    return made


def booked(cast: Cast, **values: Any) -> Booking:
    typed = {
        "project": "protein-folding", "flavor": "h100", "count": "1", "start": START.isoformat(),
        "duration": "4", "purpose": "Folding of the April set",
    }  # fmt: skip
    return book(user=cast.owner, values=typed | values, now=NOW)


def begin(booking: Booking, fake: FakeCluster, *, after: timedelta = timedelta()) -> Booking:
    now = START + after
    in_step(booking.cluster, now)
    start(booking_id=booking.pk, now=now, connect=lambda _cluster: fake)
    return Booking.objects.get(pk=booking.pk)


def in_step(cluster: Cluster, now: Any) -> None:
    Cluster.objects.update(contacted_at=now)
    cluster.streams.update(heard_at=now)


def test_the_request_is_made_with_the_hold_and_ends_when_it_was_booked_to_end(
    cast: Cast, flavor: Flavor, fake: FakeCluster
) -> None:
    found = begin(booked(cast), fake, after=HOUR / 2)

    assert found.state == "started"
    request = found.request
    assert request is not None
    assert (request.key, request.state, request.hold_wanted) == (found.request_key, "submitted", True)
    assert (request.requester, request.project, request.count) == (cast.owner, found.project, 1)
    assert (request.expires_at, request.ends_by, request.duration) == (END, END, 4 * HOUR)
    assert list(AuditEntry.objects.filter(action="booking.start").values_list("actor", flat=True)) == [None]
    assert "has started" in str(Notification.objects.get(person=cast.owner).subject)


def test_it_is_not_due_before_its_time(cast: Cast, flavor: Flavor, fake: FakeCluster) -> None:
    made = booked(cast)

    assert due(START - timedelta(microseconds=1)) == []
    assert due(START) == [made.pk]
    assert begin(made, fake, after=-HOUR).state == "booked"
    assert not Request.objects.exists()


def test_started_twice_it_is_one_request(cast: Cast, flavor: Flavor, fake: FakeCluster) -> None:
    made = booked(cast)
    begin(made, fake)
    begin(made, fake)

    assert Request.objects.count() == 1
    assert due(START) == []


def test_two_workers_at_once_make_one_request(
    cast: Cast, flavor: Flavor, fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, submit = booked(cast), requests.submit

    def slow(**values: Any) -> Request:
        monkeypatch.setattr(bookings_start, "submit", submit)
        begin(made, fake)
        return submit(**values)

    monkeypatch.setattr(bookings_start, "submit", slow)
    assert begin(made, fake).state == "started"
    assert Request.objects.count() == 1
    assert AuditEntry.objects.filter(action="booking.start").count() == 1


def test_a_crash_before_the_commit_leaves_nothing_and_the_next_try_starts_it(
    cast: Cast, flavor: Flavor, fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = booked(cast)
    with monkeypatch.context() as patch:
        patch.setattr(bookings_news, "started", lambda *_args, **_values: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            begin(made, fake)
    assert (Request.objects.count(), Booking.objects.get().state) == (0, "booked")

    assert begin(made, fake).state == "started"
    assert Request.objects.count() == 1


def test_cancelled_while_it_starts_there_is_no_request(
    cast: Cast, flavor: Flavor, fake: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, submit = booked(cast), requests.submit

    def cancelled_meanwhile(**values: Any) -> Request:
        cancel(booking=Booking.objects.get(), user=cast.owner, now=START)
        return submit(**values)

    monkeypatch.setattr(bookings_start, "submit", cancelled_meanwhile)
    assert begin(made, fake).state == "cancelled"
    assert not Request.objects.exists()


def test_without_a_free_device_it_says_so_and_tries_until_the_grace_is_over(
    cast: Cast, flavor: Flavor, fake: FakeCluster
) -> None:
    made = booked(cast)
    # All that the engine needs to find none.
    for piece in ResourceSlice.objects.all():
        piece.manifest["spec"]["devices"] = []
        piece.save()

    found = begin(made, fake)
    assert (found.state, found.reason, found.tried_at) == ("booked", "no-device", START)
    assert due(START + HOUR) == [made.pk]
    found = begin(made, fake, after=2 * HOUR)
    assert (found.state, found.reason) == ("missed", "no-device")
    assert due(START + 2 * HOUR) == []
    told = Notification.objects.get(person=cast.owner)
    assert "was missed" in str(told.subject)
    assert begin(made, fake, after=3 * HOUR).state == "missed"


def test_what_is_checked_is_checked_again(cast: Cast, flavor: Flavor, fake: FakeCluster) -> None:
    made = booked(cast)
    Membership.objects.filter(user=cast.owner).delete()

    found = begin(made, fake)
    assert (found.state, found.reason) == ("booked", "not-accepted")
    assert "not a member" in found.message
    Membership.objects.create(user=cast.owner, project=made.project)
    assert begin(made, fake, after=HOUR).state == "started"


def test_out_of_step_nothing_is_asked_for(cast: Cast, flavor: Flavor, fake: FakeCluster) -> None:
    made = booked(cast)
    start(booking_id=made.pk, now=START, connect=lambda _cluster: fake)

    assert Booking.objects.get().reason == "out-of-step"
    assert not Request.objects.exists()


def test_a_desk_that_was_away_tries_once_and_not_after_the_end(
    cast: Cast, flavor: Flavor, fake: FakeCluster
) -> None:
    late = booked(cast)
    assert begin(late, fake, after=3 * HOUR).state == "started"
    gone = booked(cast, start=(START + 5 * HOUR).isoformat())

    found = begin(gone, fake, after=9 * HOUR)
    assert (found.state, found.reason) == ("missed", "desk-away")


def test_what_nobody_decided_is_missed(cast: Cast, flavor: Flavor, fake: FakeCluster) -> None:
    Flavor.objects.update(approval="lead")

    found = begin(booked(cast), fake)
    assert (found.state, found.reason) == ("missed", "not-decided")


def test_what_was_approved_ahead_needs_no_second_approval(
    cast: Cast, flavor: Flavor, fake: FakeCluster
) -> None:
    Flavor.objects.update(approval="lead")
    made = booked(cast)
    decide(booking=made, user=cast.lead, verdict="approved", comment="fine", now=NOW)

    request = begin(made, fake).request
    assert request is not None
    assert (request.state, request.due_at) == ("approved", START)
    assert [(made.person, made.comment) for made in request.decisions.all()] == [(cast.lead, "fine")]


def test_a_rule_that_became_stricter_asks_again(cast: Cast, flavor: Flavor, fake: FakeCluster) -> None:
    made = booked(cast)
    Flavor.objects.update(approval="administrator")

    request = begin(made, fake).request
    assert request is not None
    assert request.state == "waiting-for-approval"


def test_its_own_booking_is_not_in_the_way_of_the_request(
    cast: Cast, flavor: Flavor, fake: FakeCluster
) -> None:
    Flavor.objects.update(bookings_kept=True)
    made = booked(cast, count="2")

    assert begin(made, fake).state == "started"


def test_a_desk_that_only_looks_starts_nothing(
    cast: Cast, flavor: Flavor, fake: FakeCluster, settings: Any
) -> None:
    made = booked(cast)
    settings.READ_ONLY = True

    assert begin(made, fake).state == "booked"


def test_the_beat_starts_each_in_a_task_of_its_own(
    cast: Cast, flavor: Flavor, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = booked(cast)
    change(made, to="booked", expected="booked", now=NOW, action="booking.test", starts_at=NOW - HOUR)
    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(
        tasks.start_booking, "apply_async", lambda *, kwargs, expires: calls.append(kwargs | {"e": expires})
    )
    monkeypatch.setattr(timezone, "now", lambda: NOW)
    tasks.start_bookings()

    assert calls == [{"booking_id": made.pk, "e": tasks.EXPIRES}]
