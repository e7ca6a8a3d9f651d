"""Booking ahead: never more than there is, within the flavor's limits, by those who may; and given up."""

import contextlib
import threading
import time
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.core.cache import cache
from django.core.exceptions import PermissionDenied
from django.db import OperationalError, connection
from django.http import Http404

from claims.asks.values import UnableToSubmit
from claims.bookings import booking as bookings
from claims.bookings.approvals import decide
from claims.bookings.booking import UnableToBook, UnableToCancel, book, cancel, get_booking_or_404
from claims.bookings.conflicts import conflicts, keep_clear
from claims.models import Booking, Flavor, Placement, Request
from claims.requests.approvals import UnableToDecide
from inventory.models import Cluster, Device, Node
from portal.accounts.models import AuditEntry, Membership, Notification
from portal.dra.fleet import Fleet
from tests.claims import catalogue
from tests.claims.conftest import NOW, Cast
from tests.claims.mirror import mirror_claim

HOUR = timedelta(hours=1)
START = NOW + timedelta(days=1)


def no_fleet(_cluster: Cluster) -> Fleet:
    raise AssertionError("whole devices are counted without the engine")


@pytest.fixture
def flavor(cast: Cast, cluster: Cluster) -> Flavor:
    """Two H100 on one node."""
    made = catalogue.flavor()
    catalogue.placement(made, cluster)
    return made


@pytest.fixture(autouse=True)
def nothing_cached() -> None:
    """What these tests change, no follower counts."""
    cache.clear()


def typed(at: datetime = START, **values: Any) -> dict[str, Any]:
    return {
        "project": "protein-folding",
        "flavor": "h100",
        "count": "1",
        "start": at.isoformat(),
        "duration": "4",
        "duration_unit": "hours",
        "purpose": "Folding of the April set",
    } | values


def booked(cast: Cast, at: datetime = START, **values: Any) -> Booking:
    return book(user=cast.owner, values=typed(at, **values), now=NOW, fleet_of=no_fleet)


def errors(cast: Cast, at: datetime = START, **values: Any) -> dict[str, list[str]]:
    before = Booking.objects.count()
    with pytest.raises(UnableToBook) as refused:
        booked(cast, at, **values)
    assert Booking.objects.count() == before
    return refused.value.errors


# --- what fits --------------------------------------------------------------------------------------


def test_a_booking_keeps_what_was_asked_for_and_is_recorded(cast: Cast, flavor: Flavor) -> None:
    made = booked(cast, count="2", min_memory="40Gi")

    assert (made.state, made.count, made.min_memory) == ("booked", 2, "40Gi")
    assert (made.starts_at, made.ends_at) == (START, START + 4 * HOUR)
    assert (made.cluster.name, made.namespace) == ("main", "protein-folding")
    entry = AuditEntry.objects.get(action="booking.make")
    assert (entry.actor, entry.project) == (cast.owner, made.project)
    assert entry.after is not None
    assert entry.after["flavor"] == "h100"


def test_what_is_booked_is_not_booked_again_and_touching_is_no_overlap(cast: Cast, flavor: Flavor) -> None:
    booked(cast, count="2")

    said = errors(cast, START + 3 * HOUR)
    assert said["start"][0].startswith("Only 0 of 2 are left throughout that time. It would fit from")
    assert booked(cast, START + 4 * HOUR, count="2").starts_at == START + 4 * HOUR
    assert booked(cast, START - 4 * HOUR, count="2").ends_at == START


def test_one_of_two_devices_is_left_for_somebody_else(cast: Cast, flavor: Flavor) -> None:
    booked(cast)
    booked(cast, START + 2 * HOUR)

    assert "Only 0 of 2" in errors(cast, START + 3 * HOUR)["start"][0]


def test_flavors_that_are_made_of_the_same_devices_are_not_booked_twice(
    cast: Cast, flavor: Flavor, cluster: Cluster
) -> None:
    catalogue.placement(catalogue.flavor("any", max_count=4), cluster, device_class="gpu")
    booked(cast, flavor="any", count="2")
    booked(cast, flavor="any", count="1")

    # Three of the two H100 and two A100: one H100 is left at most.
    assert "Only 1 of 2" in errors(cast, count="2")["start"][0]
    booked(cast, count="1")
    assert "Only 0 of 4" in errors(cast, flavor="any")["start"][0]


def test_a_device_that_nobody_could_get_now_is_not_booked(cast: Cast, flavor: Flavor) -> None:
    Device.objects.filter(name="gpu-0", node_name="node-h100").update(state=Device.State.UNAVAILABLE)
    assert errors(cast, count="2") == {"count": ["No node has so many: the most that one has is 1."]}

    booked(cast)
    assert "Only 0 of 1" in errors(cast)["start"][0]


def test_devices_of_a_cordoned_node_do_not_count_though_they_are_held(cast: Cast, flavor: Flavor) -> None:
    Device.objects.filter(node_name="node-h100").update(state=Device.State.HELD)
    Node.objects.filter(name="node-h100").update(unschedulable=True)

    assert "No node has so many" in errors(cast)["count"][0]


def test_a_request_that_runs_counts_until_its_end(cast: Cast, flavor: Flavor, request_: Request) -> None:
    end = START + 2 * HOUR
    Request.objects.filter(pk=request_.pk).update(
        object_uid="claim-1", state="in-use", allocated_at=NOW, expires_at=end
    )
    request_.refresh_from_db()
    mirror_claim(request_, consumers=("pod-x",))
    request_.claims.create(cluster=request_.cluster, claim_uid="claim-1", claim_name="c", seen_at=NOW)
    Device.objects.filter(pk=Device.objects.order_by("pk")[0].pk).update(state=Device.State.HELD)

    assert "Only 1 of 2" in errors(cast, count="2")["start"][0]
    assert booked(cast, end, count="2").starts_at == end


def test_a_request_that_waits_for_the_flavor_counts_from_now_on(
    cast: Cast, flavor: Flavor, request_: Request
) -> None:
    Request.objects.filter(pk=request_.pk).update(
        flavor=flavor, state="waiting-for-device", duration=30 * HOUR
    )

    assert "Only 1 of 2" in errors(cast, NOW + HOUR, count="2")["start"][0]
    assert booked(cast, NOW + 30 * HOUR, count="2").count == 2


def test_memory_that_only_some_devices_have_is_booked_among_those(
    cast: Cast, flavor: Flavor, cluster: Cluster
) -> None:
    catalogue.placement(catalogue.flavor("any", max_count=4), cluster, device_class="gpu")

    booked(cast, flavor="any", count="2", min_memory="80Gi")
    assert "Only 0 of 2" in errors(cast, flavor="any", min_memory="80Gi")["start"][0]
    booked(cast, flavor="any", count="2", min_memory="40Gi")


@pytest.mark.django_db(transaction=True)
def test_of_two_who_book_the_last_device_at_the_same_moment_one_gets_it(cast: Cast, flavor: Flavor) -> None:
    booked(cast)
    # Both have looked and seen one left when they come to the lock.
    together = threading.Barrier(2, timeout=90)
    made, refused, look = [], [], bookings.take_book

    def take_book(cluster: Cluster) -> None:
        with contextlib.suppress(threading.BrokenBarrierError):
            together.wait()
        look(cluster)

    def ask() -> None:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            try:
                made.append(booked(cast))
            except UnableToBook as error:
                refused.append(error)
            except OperationalError:
                # SQLite in memory, where the other one holds the table: asked again.
                continue
            finally:
                connection.close()
            return

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bookings, "take_book", take_book)
        # SQLite hands the lock of a transaction to one writer: the other would wait for it at the barrier.
        if connection.vendor == "sqlite":
            together.abort()
        threads = [threading.Thread(target=ask) for _number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=120)

    assert (len(made), len(refused)) == (1, 1)
    assert "Only 0 of 2" in refused[0].errors["start"][0]
    assert Booking.objects.count() == 2


# --- limits and rights ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("start", "", "Say from when on"),
        ("start", "soon", "A date and a time, such as"),
        ("start", "2026-11-11", "A date and a time, such as"),
        ("start", "0001-01-01T00:00+14:00", "A date and a time, such as"),
        ("start", "2026-11-10T11:59+00:00", "This has passed"),
        ("start", "2026-12-31T09:00+00:00", "At most 28 days ahead"),
        ("start", "2026-11-11T09:00\x00", "control character"),
        ("duration", "200", "for 1 to 168 hours"),
        ("count", "5", "1 to 4 devices"),
        ("count", "0", "1 to 4 devices"),
        ("flavor", "", "Choose a flavor"),
        ("flavor", "huge", "no flavor “huge”"),
        ("project", "weather-models", "not a member"),
        ("namespace", "weather-models", "is no namespace of this project"),
        ("purpose", "", "what it is for"),
        ("cluster", "paris", "There is no cluster"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(
    cast: Cast, flavor: Flavor, field: str, value: str, said: str
) -> None:
    values: dict[str, Any] = {field: value}
    assert said in errors(cast, **values)[field][0]


def test_a_flavor_may_not_be_bookable(cast: Cast, flavor: Flavor) -> None:
    Flavor.objects.update(bookable_days=0)

    assert "cannot be booked ahead" in errors(cast)["flavor"][0]


def test_what_a_device_plugin_gives_cannot_be_booked(cast: Cast, cluster: Cluster) -> None:
    catalogue.placement(catalogue.flavor(), cluster, device_class="", extended_resource="nvidia.com/gpu")
    catalogue.units(cluster)

    assert "nobody can hold its units" in errors(cast)["flavor"][0]


def test_times_without_an_offset_are_in_the_persons_zone(cast: Cast, flavor: Flavor) -> None:
    values = typed(START) | {"start": "2026-11-12T09:00"}
    made = book(user=cast.owner, values=values, now=NOW, zone=ZoneInfo("Asia/Shanghai"), fleet_of=no_fleet)

    assert made.starts_at == datetime(2026, 11, 12, 1, tzinfo=UTC)


def test_clocks_that_change_are_told(cast: Cast, flavor: Flavor) -> None:
    berlin, spring = ZoneInfo("Europe/Berlin"), datetime(2026, 3, 20, tzinfo=UTC)
    missing = typed() | {"start": "2026-03-29T02:30"}
    with pytest.raises(UnableToBook) as refused:
        book(user=cast.owner, values=missing, now=spring, zone=berlin, fleet_of=no_fleet)
    assert "that time does not exist" in refused.value.errors["start"][0]

    twice = typed() | {"start": "2026-10-25T02:30"}
    made = book(
        user=cast.owner, values=twice, now=datetime(2026, 10, 20, tzinfo=UTC), zone=berlin, fleet_of=no_fleet
    )
    assert made.starts_at == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    assert made.ends_at - made.starts_at == 4 * HOUR


def test_one_person_does_not_fill_the_calendar(cast: Cast, flavor: Flavor) -> None:
    for number in range(20):
        booked(cast, NOW + (1 + 4 * number) * HOUR)

    assert "20 bookings that have not begun" in errors(cast, NOW + 200 * HOUR)["__all__"][0]


def test_the_same_key_is_the_same_booking(cast: Cast, flavor: Flavor) -> None:
    key = str(uuid.uuid4())
    first = book(user=cast.owner, values=typed(), now=NOW, key=key, fleet_of=no_fleet)
    again = book(user=cast.owner, values=typed(count="2"), now=NOW, key=key, fleet_of=no_fleet)

    assert (again.pk, again.count, Booking.objects.count()) == (first.pk, 1, 1)
    with pytest.raises(UnableToBook, match="taken"):
        book(user=cast.teammate, values=typed(), now=NOW, key=key, fleet_of=no_fleet)
    with pytest.raises(UnableToBook, match="UUID"):
        book(user=cast.owner, values=typed(), now=NOW, key="x", fleet_of=no_fleet)


def test_a_desk_that_only_looks_books_nothing(cast: Cast, flavor: Flavor, settings: Any) -> None:
    settings.READ_ONLY = True

    assert "only looks" in errors(cast)["__all__"][0]


def test_strangers_do_not_know_of_a_booking(cast: Cast, flavor: Flavor) -> None:
    made = booked(cast)

    assert get_booking_or_404(cast.teammate, made.key, to_end=True) == made
    with pytest.raises(Http404):
        get_booking_or_404(cast.stranger, made.key)
    with pytest.raises(PermissionDenied):
        get_booking_or_404(cast.finance, made.key)
    with pytest.raises(PermissionDenied):
        get_booking_or_404(cast.auditor, made.key, to_end=True)


# --- cancelling and deciding ------------------------------------------------------------------------


def test_a_cancelled_booking_frees_its_time_at_once(cast: Cast, flavor: Flavor) -> None:
    made = booked(cast, count="2")
    cancel(booking=made, user=cast.teammate, now=NOW)
    cancel(booking=made, user=cast.teammate, now=NOW)

    assert made.state == "cancelled"
    assert AuditEntry.objects.filter(action="booking.cancel").count() == 1
    booked(cast, count="2")


def test_what_is_over_cannot_be_cancelled(cast: Cast, flavor: Flavor) -> None:
    made = booked(cast)
    Booking.objects.update(state="missed")
    made.refresh_from_db()

    with pytest.raises(UnableToCancel, match="missed"):
        cancel(booking=made, user=cast.owner, now=NOW)


def test_a_booking_that_needs_it_is_approved_ahead_by_both(cast: Cast, flavor: Flavor) -> None:
    Flavor.objects.update(approval="both")
    made = booked(cast, count="2")
    assert made.state == "waiting-for-approval"
    # Nobody takes its time while it waits.
    assert "Only 0" in errors(cast)["start"][0]
    assert set(Notification.objects.values_list("person__username", flat=True)) == {"leo", "ada"}

    with pytest.raises(PermissionDenied):
        decide(booking=made, user=cast.owner, verdict="approved", comment="", now=NOW)
    decide(booking=made, user=cast.lead, verdict="approved", comment="", now=NOW)
    assert made.state == "waiting-for-approval"
    with pytest.raises(PermissionDenied):
        decide(booking=made, user=cast.lead, verdict="approved", comment="", now=NOW)
    decide(booking=made, user=cast.admin, verdict="approved", comment="fine", now=NOW)

    assert made.state == "booked"
    assert [decision.role for decision in made.decisions.order_by("at", "pk")] == ["lead", "administrator"]
    with pytest.raises(UnableToDecide, match="no longer waits"):
        decide(booking=made, user=cast.admin, verdict="approved", comment="", now=NOW)


def test_a_refused_booking_says_why_and_frees_its_time(cast: Cast, flavor: Flavor) -> None:
    Flavor.objects.update(approval="lead")
    made = booked(cast, count="2")
    with pytest.raises(UnableToDecide, match="Say why"):
        decide(booking=made, user=cast.lead, verdict="rejected", comment=" ", now=NOW)
    decide(booking=made, user=cast.lead, verdict="rejected", comment="Use the A100", now=NOW)

    assert (made.state, made.message) == ("refused", "Use the A100")
    assert Notification.objects.filter(person=cast.owner).count() == 1
    assert booked(cast, count="2").state == "waiting-for-approval"


# --- requests that run into bookings ----------------------------------------------------------------


def ask(request_: Request, flavor: Flavor | None, **columns: Any) -> Request:
    request_.flavor, request_.duration = flavor, 48 * HOUR
    for name, value in columns.items():
        setattr(request_, name, value)
    return request_


def test_a_request_that_would_run_into_a_booking_is_told(cast: Cast, flavor: Flavor) -> None:
    placement = Placement.objects.get()
    booked(cast, count="2")

    found = conflicts(placement=placement, count=1, start=NOW, end=NOW + 48 * HOUR, now=NOW)
    assert found is not None
    assert (found.at, found.missing, found.kept) == (START, 1, False)
    assert conflicts(placement=placement, count=1, start=NOW, end=START, now=NOW) is None


def test_a_request_beside_the_booking_is_in_nobodys_way(cast: Cast, flavor: Flavor) -> None:
    booked(cast)

    placement = Placement.objects.get()
    assert conflicts(placement=placement, count=1, start=NOW, end=NOW + 48 * HOUR, now=NOW) is None


def test_kept_bookings_refuse_the_request(cast: Cast, flavor: Flavor, request_: Request) -> None:
    booked(cast, count="2")
    keep_clear(request=ask(request_, flavor), now=NOW)
    Flavor.objects.update(bookings_kept=True)

    with pytest.raises(UnableToSubmit, match="bookings of this flavor are kept"):
        keep_clear(request=ask(request_, flavor), now=NOW)
    # Asking past the catalogue is no way around.
    with pytest.raises(UnableToSubmit, match="kept"):
        keep_clear(request=ask(request_, None, device_class="h100"), now=NOW)
    keep_clear(request=ask(request_, None, device_class="a100"), now=NOW)
    keep_clear(request=ask(request_, flavor, duration=24 * HOUR), now=NOW)


def test_the_request_of_the_booking_itself_passes(cast: Cast, flavor: Flavor, request_: Request) -> None:
    Flavor.objects.update(bookings_kept=True)
    made = booked(cast, count="2")

    keep_clear(request=ask(request_, flavor, key=made.request_key), now=START)


def test_a_lead_who_left_may_no_longer_decide(cast: Cast, flavor: Flavor) -> None:
    Flavor.objects.update(approval="lead")
    made = booked(cast)
    Membership.objects.filter(user=cast.lead).delete()

    with pytest.raises(PermissionDenied):
        decide(booking=made, user=cast.lead, verdict="approved", comment="", now=NOW)
