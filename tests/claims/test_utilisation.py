"""How busy what people hold is: only what was measured counts, and who hardly uses a device is told so."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from claims.models import Allocation, AllocationUse, Request, UseCursor
from claims.utilisation import devices, folding, hints, told
from inventory.models import MetricQuery, MetricSource
from portal.accounts.models import Membership, Notification, User
from portal.accounts.notifications.texts import Text
from tests.inventory_telemetry.conftest import UUIDS, Lab, cast, cheap_passwords, lab
from tests.inventory_telemetry.rows import make_use

__all__ = ["cast", "cheap_passwords", "lab"]

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
HOUR, MINUTE = timedelta(hours=1), timedelta(minutes=1)


def read_until(lab: Lab, at: datetime, *, since: datetime = NOON - 12 * HOUR, **fields: Any) -> MetricSource:
    """A source that has been read so far."""
    source = MetricSource.objects.filter(cluster=lab.cluster).first() or lab.source(
        "http://prom:9090", **fields
    )
    MetricSource.objects.filter(pk=source.pk).update(since=since)
    MetricQuery.objects.filter(source=source, kind="use", enabled=True).update(read_until=at)
    return source


def hold(lab: Lab, *, start: datetime, end: datetime | None = None, **fields: Any) -> Allocation:
    values = {
        "cluster": lab.cluster, "namespace": "tides", "claim_name": "harmonics", "claim_uid": "uid-1",
        "epoch": 1, "driver": "gpu.nvidia.com", "pool_name": "gpu-01", "device_name": "gpu-0",
        "request_name": "gpu",
        "hardware_id": UUIDS[0], "node_name": "gpu-01", "started_at": start, "ended_at": end,
        "start_source": "observed", "project": lab.cast.project,
    }  # fmt: skip
    return Allocation.objects.create(**values | fields)


def busy(lab: Lab, percent: float, *spans: tuple[datetime, datetime]) -> None:
    for start, end in spans:
        make_use(lab.cluster, UUIDS[0], start=start, end=end, percent=percent)


def use(allocation: Allocation, now: datetime) -> told.Told | None:
    return told.use_of(Allocation.objects.select_related("use").get(pk=allocation.pk), now=now)


def test_use_is_told_with_how_much_of_the_time_was_measured(lab: Lab) -> None:
    allocation = hold(lab, start=NOON, end=NOON + 8 * HOUR)
    busy(lab, 40, (NOON - HOUR, NOON + 2 * HOUR), (NOON + 5 * HOUR, NOON + 7 * HOUR))
    busy(lab, 100, (NOON + 7 * HOUR, NOON + 7 * HOUR + 20 * MINUTE))
    read_until(lab, NOON + 9 * HOUR)
    folding.fold(cluster=lab.cluster)
    found = use(allocation, NOON + 9 * HOUR)
    assert found is not None
    assert (found.measured, found.whole) == (4 * HOUR + 20 * MINUTE, 8 * HOUR)
    assert (round(found.mean, 2), found.highest) == (round((240 * 40 + 20 * 100) / 260, 2), 100.0)
    assert AllocationUse.objects.get().final


def test_what_the_holder_before_did_is_not_counted(lab: Lab) -> None:
    allocation = hold(lab, start=NOON + 2 * MINUTE, end=NOON + 13 * MINUTE)
    busy(lab, 90, (NOON, NOON + HOUR))
    read_until(lab, NOON + HOUR)
    folding.fold(cluster=lab.cluster)
    found = use(allocation, NOON + HOUR)
    # From 12:05 to 12:10 it alone had the device.
    assert found is not None
    assert found.measured == 5 * MINUTE


def test_what_was_never_measured_has_no_use(lab: Lab) -> None:
    allocation = hold(lab, start=NOON)
    read_until(lab, NOON + HOUR)
    folding.fold(cluster=lab.cluster)
    assert use(allocation, NOON + HOUR) is None


def test_folding_goes_on_where_it_stopped_and_again_changes_nothing(lab: Lab) -> None:
    allocation = hold(lab, start=NOON)
    busy(lab, 20, (NOON, NOON + HOUR))
    read_until(lab, NOON + 30 * MINUTE)
    for _again in range(2):
        folding.fold(cluster=lab.cluster)
        assert AllocationUse.objects.get().minutes == 30
    read_until(lab, NOON + HOUR)
    folding.fold(cluster=lab.cluster)
    row = AllocationUse.objects.get()
    assert (row.minutes, row.total, row.final) == (60, 1200.0, False)
    assert UseCursor.objects.get().until == NOON + HOUR
    # It ended meanwhile: what lies after is another's.
    Allocation.objects.update(ended_at=NOON + 50 * MINUTE)
    busy(lab, 80, (NOON + HOUR, NOON + 2 * HOUR))
    read_until(lab, NOON + 2 * HOUR)
    folding.fold(cluster=lab.cluster)
    row.refresh_from_db()
    assert (row.minutes, row.final) == (60, True)
    assert use(allocation, NOON + 2 * HOUR) is not None


def test_where_the_ledger_learns_another_beginning_it_is_counted_anew(lab: Lab) -> None:
    hold(lab, start=NOON)
    busy(lab, 20, (NOON - HOUR, NOON + HOUR))
    read_until(lab, NOON + HOUR)
    folding.fold(cluster=lab.cluster)
    Allocation.objects.update(started_at=NOON - 30 * MINUTE)
    folding.fold(cluster=lab.cluster)
    assert AllocationUse.objects.get().minutes == 90


def test_a_short_hold_that_came_and_went_between_two_readings_is_counted(lab: Lab) -> None:
    read_until(lab, NOON)
    folding.fold(cluster=lab.cluster)
    hold(lab, start=NOON + 5 * MINUTE, end=NOON + 20 * MINUTE)
    busy(lab, 20, (NOON, NOON + HOUR))
    read_until(lab, NOON + HOUR)
    folding.fold(cluster=lab.cluster)
    row = AllocationUse.objects.get()
    assert (row.minutes, row.final) == (15, True)


def test_without_a_source_nothing_is_written(lab: Lab) -> None:
    hold(lab, start=NOON)
    folding.fold(cluster=lab.cluster)
    assert not AllocationUse.objects.exists()
    assert not UseCursor.objects.exists()


def test_the_number_of_queries_does_not_grow_with_what_is_held(
    lab: Lab, django_assert_max_num_queries: Any
) -> None:
    for number in range(30):
        hold(lab, start=NOON, claim_uid=f"uid-{number}", share_id=str(number))
    busy(lab, 20, (NOON, NOON + HOUR))
    read_until(lab, NOON + HOUR)
    with django_assert_max_num_queries(16):
        folding.fold(cluster=lab.cluster)
    assert AllocationUse.objects.filter(minutes=60).count() == 30


# --- hints ------------------------------------------------------------------------------------------


@pytest.fixture
def held(lab: Lab) -> Allocation:
    """The member holds gpu-0 by a request since noon."""
    request = Request.objects.create(
        project=lab.cast.project, requester=lab.cast.member, cluster=lab.cluster, namespace="tides",
        state="in-use", device_class="gpu.nvidia.com", count=1, shape="claim", duration=timedelta(hours=8),
        purpose="harmonic analysis", created_at=NOON, changed_at=NOON, object_name="harmonics",
    )  # fmt: skip
    return hold(lab, start=NOON, request=request)


def looked(lab: Lab, at: datetime, *, idle_hours: int = 3) -> list[str]:
    """Reads up to then, and gives what people have been told in all."""
    read_until(lab, at, idle_hours=idle_hours, idle_percent=5)
    folding.fold(cluster=lab.cluster)
    hints.look(cluster=lab.cluster, now=at + MINUTE)
    return [str(told) for told in Notification.objects.order_by("pk")]


def test_who_hardly_uses_a_device_is_told_once_with_what_was_measured(lab: Lab, held: Allocation) -> None:
    busy(lab, 2, (NOON, NOON + 5 * HOUR))
    assert looked(lab, NOON + 2 * HOUR) == []
    assert len(looked(lab, NOON + 3 * HOUR)) == 1
    assert len(looked(lab, NOON + 4 * HOUR)) == 1
    note = Notification.objects.get()
    assert note.person == lab.cast.member
    said = str(Text.read(note.subject))
    assert "hardly uses gpu-0: 2 % on average over 3 h measured" in said
    found = use(held, NOON + 4 * HOUR)
    assert found is not None
    assert found.low == told.Low(since=NOON, measured=4 * HOUR, mean=2.0)


def test_use_in_between_begins_it_anew(lab: Lab, held: Allocation) -> None:
    busy(lab, 2, (NOON, NOON + 2 * HOUR), (NOON + 2 * HOUR + 5 * MINUTE, NOON + 9 * HOUR))
    busy(lab, 50, (NOON + 2 * HOUR, NOON + 2 * HOUR + 5 * MINUTE))
    assert looked(lab, NOON + 5 * HOUR) == []
    assert len(looked(lab, NOON + 5 * HOUR + 5 * MINUTE)) == 1


def test_time_that_was_not_measured_is_never_idle(lab: Lab, held: Allocation) -> None:
    # Two hours, a long pause, two hours: nobody knows what happened in between.
    busy(lab, 2, (NOON, NOON + 2 * HOUR), (NOON + 5 * HOUR, NOON + 7 * HOUR))
    assert looked(lab, NOON + 7 * HOUR) == []
    # A short pause adds nothing, and takes nothing away.
    busy(lab, 2, (NOON + 7 * HOUR + 30 * MINUTE, NOON + 8 * HOUR + 30 * MINUTE))
    assert looked(lab, NOON + 8 * HOUR + 25 * MINUTE) == []
    assert len(looked(lab, NOON + 8 * HOUR + 30 * MINUTE)) == 1


def test_without_a_rule_nobody_is_told(lab: Lab, held: Allocation) -> None:
    busy(lab, 2, (NOON, NOON + 9 * HOUR))
    assert looked(lab, NOON + 9 * HOUR, idle_hours=0) == []


def test_a_device_that_was_given_back_is_nobodys_concern(lab: Lab, held: Allocation) -> None:
    busy(lab, 2, (NOON, NOON + 9 * HOUR))
    Allocation.objects.update(ended_at=NOON + 8 * HOUR)
    assert looked(lab, NOON + 9 * HOUR) == []


def test_of_a_claim_that_nobody_asked_the_desk_for_the_leads_are_told(lab: Lab, held: Allocation) -> None:
    Allocation.objects.update(request=None)
    busy(lab, 2, (NOON, NOON + 4 * HOUR))
    looked(lab, NOON + 4 * HOUR)
    assert [note.person for note in Notification.objects.all()] == [lab.cast.lead]


def idle(lab: Lab, count: int, **fields: Any) -> None:
    """So many devices that have now been idle for five hours, each of a claim of its own."""
    first = Allocation.objects.count()
    made = Allocation.objects.bulk_create(
        [
            Allocation(
                cluster=lab.cluster, namespace="tides", claim_name=f"claim-{number}", epoch=1,
                claim_uid=f"uid-{number}", driver="gpu.nvidia.com", pool_name="gpu-01",
                device_name=f"gpu-{number:05}", request_name="gpu", node_name="gpu-01", started_at=NOON,
                start_source="observed", product=("L4", "H100", "H100")[number % 3],
                **{"project": lab.cast.project, **fields},
            )
            for number in range(first, first + count)
        ]
    )  # fmt: skip
    AllocationUse.objects.bulk_create(
        [
            AllocationUse(
                allocation=one, started_at=NOON, counted_to=NOON + 5 * HOUR, minutes=300, total=600.0,
                low_percent=5, low_minutes=300, low_total=600.0, low_since=NOON, low_until=NOON + 5 * HOUR,
            )
            for one in made
        ]
    )  # fmt: skip


def request_of(lab: Lab, number: int) -> Request:
    return Request.objects.create(
        project=lab.cast.project, requester=lab.cast.member, cluster=lab.cluster, namespace="tides",
        state="in-use", device_class="gpu.nvidia.com", count=1, shape="claim", duration=timedelta(hours=8),
        purpose="harmonic analysis", created_at=NOON, changed_at=NOON, object_name=f"harmonics-{number}",
    )  # fmt: skip


def subjects() -> list[str]:
    return [str(Text.read(note.subject)) for note in Notification.objects.order_by("pk")]


def test_many_devices_of_a_request_are_one_hint(lab: Lab) -> None:
    read_until(lab, NOON + 5 * HOUR, idle_hours=3, idle_percent=5)
    idle(lab, 30, request=request_of(lab, 0))
    assert hints.look(cluster=lab.cluster, now=NOON + 5 * HOUR) == 30
    (note,) = Notification.objects.all()
    assert note.person == lab.cast.member
    (said,) = subjects()
    assert "hardly uses 30 of its devices: 2 % on average over 150 device-hours measured" in said
    assert note.body is not None
    assert str(Text.read(note.body)).startswith("20 × H100, 10 × L4. ")
    assert hints.look(cluster=lab.cluster, now=NOON + 5 * HOUR + MINUTE) == 0
    # What follows within hours waits, and is one hint as well.
    idle(lab, 4, request=Request.objects.get())
    assert hints.look(cluster=lab.cluster, now=NOON + 6 * HOUR) == 0
    AllocationUse.objects.update(low_until=NOON + 11 * HOUR)
    assert hints.look(cluster=lab.cluster, now=NOON + 11 * HOUR + MINUTE) == 4
    assert len(subjects()) == 2


def test_many_requests_of_a_person_are_one_hint_and_few_are_one_each(lab: Lab) -> None:
    read_until(lab, NOON + 5 * HOUR, idle_hours=3, idle_percent=5)
    for number in range(hints.MOST_APART):
        idle(lab, 2, request=request_of(lab, number))
    hints.look(cluster=lab.cluster, now=NOON + 5 * HOUR)
    assert len(subjects()) == hints.MOST_APART
    AllocationUse.objects.update(told_at=None)
    Notification.objects.all().delete()
    idle(lab, 2, request=request_of(lab, 99))
    assert hints.look(cluster=lab.cluster, now=NOON + 5 * HOUR + MINUTE) == 12
    assert subjects() == [
        "6 requests in Tidal models hardly use 12 devices: 2 % on average over 60 device-hours measured."
    ]


def many_idle(lab: Lab) -> list[Request]:
    """Idle requests of the member, so many that they are told of together."""
    read_until(lab, NOON + 5 * HOUR, idle_hours=3, idle_percent=5)
    requests = [request_of(lab, number) for number in range(hints.MOST_APART + 1)]
    for request in requests:
        idle(lab, 1, request=request)
    return requests


def listed(user: User, url: str) -> set[str]:
    """The requests that are behind a link, for its reader."""
    client = Client()
    client.force_login(user)
    response = client.get(url)
    assert response.status_code == 200
    return {request.object_name for request in response.context["page"]}


def test_the_link_of_a_hint_shows_whoever_is_told_all_that_it_tells_of(lab: Lab) -> None:
    names = {request.object_name for request in many_idle(lab)}
    hints.look(cluster=lab.cluster, now=NOON + 5 * HOUR)
    (note,) = Notification.objects.all()
    assert note.person == lab.cast.member
    assert note.url.endswith("?project=tides&mine=1&state=active")
    assert listed(lab.cast.member, note.url) == names


@pytest.mark.parametrize("left", ["the house", "the project"])
def test_a_lead_who_is_told_instead_of_who_has_left_sees_the_requests(lab: Lab, left: str) -> None:
    names = {request.object_name for request in many_idle(lab)}
    if left == "the house":
        User.objects.filter(pk=lab.cast.member.pk).update(is_active=False)
    else:
        Membership.objects.filter(user=lab.cast.member).delete()
    hints.look(cluster=lab.cluster, now=NOON + 5 * HOUR)
    (note,) = Notification.objects.all()
    assert note.person == lab.cast.lead
    assert listed(lab.cast.lead, note.url) == names


def test_who_has_left_the_project_is_not_told_of_a_single_request_either(lab: Lab) -> None:
    read_until(lab, NOON + 5 * HOUR, idle_hours=3, idle_percent=5)
    idle(lab, 1, request=request_of(lab, 0))
    Membership.objects.filter(user=lab.cast.member).delete()
    hints.look(cluster=lab.cluster, now=NOON + 5 * HOUR)
    assert [note.person for note in Notification.objects.all()] == [lab.cast.lead]


def test_requests_that_become_idle_one_after_the_other_do_not_make_a_hint_each(lab: Lab) -> None:
    """Whatever the pace: at most MOST_APART of them within six hours, and then one for all that waited."""
    read_until(lab, NOON + 5 * HOUR, idle_hours=3, idle_percent=5)
    now = NOON + 5 * HOUR
    for number in range(12):
        idle(lab, 1, request=request_of(lab, number))
        hints.look(cluster=lab.cluster, now=now + number * 5 * MINUTE)
    assert len(subjects()) == hints.MOST_APART
    later = now + hints.AGAIN_AFTER + HOUR
    AllocationUse.objects.update(low_until=later)
    assert hints.look(cluster=lab.cluster, now=later) == 12 - hints.MOST_APART
    assert subjects()[-1].startswith("7 requests in Tidal models hardly use 7 devices")
    # After a hint that told of many, a few more wait as well.
    idle(lab, 1, request=request_of(lab, 99))
    AllocationUse.objects.update(low_until=later)
    assert hints.look(cluster=lab.cluster, now=later + 5 * MINUTE) == 0


def test_a_request_that_is_over_and_still_holds_is_behind_the_link_too(lab: Lab) -> None:
    requests = many_idle(lab)
    Request.objects.filter(pk=requests[0].pk).update(state=Request.State.ENDED)
    hints.look(cluster=lab.cluster, now=NOON + 5 * HOUR)
    (note,) = Notification.objects.all()
    assert listed(lab.cast.member, note.url) == {request.object_name for request in requests}


def test_a_fleet_that_is_idle_is_one_hint_and_takes_no_more_queries_than_one_device(lab: Lab) -> None:
    read_until(lab, NOON + 5 * HOUR, idle_hours=3, idle_percent=5)

    def queries(count: int) -> int:
        Allocation.objects.all().delete()
        Notification.objects.all().delete()
        idle(lab, count)
        with CaptureQueriesContext(connection) as asked:
            assert hints.look(cluster=lab.cluster, now=NOON + 5 * HOUR) == count
        return len(asked)

    few = queries(2)
    assert queries(1_500) <= few
    assert subjects()[-1] == (
        "1500 claims in Tidal models hardly use 1500 devices: 2 % on average over 7500 device-hours measured."
    )
    assert {note.person for note in Notification.objects.all()} == {lab.cast.lead}


# --- who sees what ----------------------------------------------------------------------------------


def test_of_a_device_one_sees_the_time_in_which_ones_own_project_held_it(lab: Lab) -> None:
    hold(lab, start=NOON + HOUR, end=NOON + 2 * HOUR)
    hold(lab, start=NOON + 2 * HOUR, end=NOON + 3 * HOUR, project=lab.cast.other, claim_uid="uid-2")
    busy(lab, 30, (NOON, NOON + 4 * HOUR))

    def measured(role: str) -> timedelta | None:
        viewer = getattr(lab.cast, role)
        found = devices.history_of(lab.devices[0], viewer=viewer, start=NOON, end=NOON + 4 * HOUR)
        assert len(found.hours) == 4
        return found.whole.measured if found.whole else None

    assert measured("auditor") == 4 * HOUR
    assert measured("administrator") == 4 * HOUR
    assert measured("member") == HOUR
    assert measured("stranger") == HOUR
    assert measured("finance") is None
