"""What people are told of requests: changes of state, decisions that wait for them, the end, idleness."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.cache import cache

from claims.models import Flavor, HolderMessage, Idleness, Request, Watch
from claims.requests import approvals, idle, reminders
from claims.requests.actions import release
from claims.requests.transitions import transition
from claims.waiting import holders, watches
from inventory import snapshot
from inventory.models import Cluster, Device, Stream
from portal.accounts.models import Delivery, Membership, Notification, User
from portal.accounts.notifications.kinds import Kind
from tests.claims import catalogue
from tests.claims.conftest import NOW, Cast

State = Request.State
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def told(person: User, kind: str) -> list[str]:
    return [
        str(row) for row in Notification.objects.of(person).filter(kind=kind).order_by("created_at", "pk")
    ]


def move(request: Request, to: str, **columns: Any) -> None:
    assert transition(request, to=to, expected=request.state, now=NOW, action="request.test", **columns)


# --- changes of state -----------------------------------------------------------------------------


def test_the_requester_hears_what_becomes_of_it_once(cast: Cast, request_: Request) -> None:
    move(request_, State.CREATING)
    move(request_, State.WAITING_FOR_POD)
    move(request_, State.ALLOCATED)
    move(request_, State.IN_USE)
    name = f"1 × h100 ({request_.short_key})"
    assert told(cast.owner, Kind.REQUEST) == [
        f"{name} is on the cluster and waits for a Pod.",
        f"{name} has its devices.",
    ]
    assert not told(cast.lead, Kind.REQUEST)


def test_why_it_failed_is_said_in_the_clusters_words(cast: Cast, request_: Request) -> None:
    move(request_, State.FAILED, reason=Request.Reason.REFUSED, message="quota exceeded: 100%")
    body = Notification.objects.of(cast.owner).get(kind=Kind.REQUEST).body_text
    assert body.splitlines() == ["the cluster refused it", "quota exceeded: 100%"]


def test_what_one_does_oneself_is_told_to_nobody_but_programs(cast: Cast, request_: Request) -> None:
    move(request_, State.ALLOCATED)
    release(request=request_, user=cast.owner, now=NOW)
    assert not any("ending" in text for text in told(cast.owner, Kind.REQUEST))
    Request.objects.filter(pk=request_.pk).update(state=State.ALLOCATED)
    request_.refresh_from_db()
    release(request=request_, user=cast.lead, now=NOW + HOUR)
    assert any("ending" in text for text in told(cast.owner, Kind.REQUEST))


@pytest.mark.parametrize(
    ("approval", "own", "expected"),
    [
        ("lead", False, {"leo"}),
        ("administrator", False, {"ada"}),
        ("both", False, {"leo", "ada"}),
    ],
)
def test_who_may_decide_is_told_of_what_waits(
    cast: Cast, request_: Request, approval: str, own: bool, expected: set[str]
) -> None:
    from claims.requests import news

    Request.objects.filter(pk=request_.pk).update(
        state=State.WAITING_FOR_APPROVAL, approval=approval, own_approval=own
    )
    request_.refresh_from_db()
    news.tell_approvers(request_, now=NOW)
    rows = Notification.objects.filter(kind=Kind.APPROVAL).select_related("person")
    assert {row.person.username for row in rows} == expected
    for row in rows:
        assert approvals.may_decide(row.person, request_, [])


def test_nobody_is_asked_to_decide_about_their_own_and_administrators_stand_in(
    cast: Cast, request_: Request
) -> None:
    from claims.requests import news

    request_.approval, request_.requester = Flavor.Approval.LEAD, cast.lead
    assert news.approvers_of(request_) == [cast.admin]


# --- the end --------------------------------------------------------------------------------------


def ending(request: Request, at: datetime, **columns: object) -> Request:
    Request.objects.filter(pk=request.pk).update(
        state=State.ALLOCATED, allocated_at=NOW - 30 * DAY, expires_at=at, **columns
    )
    request.refresh_from_db()
    return request


def test_reminders_come_three_days_one_day_and_one_hour_before_each_once(
    cast: Cast, request_: Request
) -> None:
    end = NOW + 4 * DAY
    ending(request_, end)
    looks = (4 * DAY, 3 * DAY, 2 * DAY, DAY, DAY - HOUR, HOUR, HOUR / 2, timedelta(minutes=1))
    assert [before for before in looks if reminders.remind(now=end - before)] == [3 * DAY, DAY, HOUR]
    assert [text.split(" in ")[1].split(",")[0] for text in told(cast.owner, Kind.EXPIRY)] == [
        "3 d", "1 d", "1 h",
    ]  # fmt: skip


def test_after_a_pause_of_the_desk_only_the_nearest_is_sent(cast: Cast, request_: Request) -> None:
    ending(request_, NOW + 40 * timedelta(minutes=1))
    assert reminders.remind(now=NOW) == 1
    assert reminders.remind(now=NOW) == 0
    assert "40 min" in told(cast.owner, Kind.EXPIRY)[0]


def test_another_end_arms_them_anew(cast: Cast, request_: Request) -> None:
    ending(request_, NOW + HOUR)
    reminders.remind(now=NOW)
    ending(request_, NOW + 10 * DAY)
    assert reminders.remind(now=NOW) == 0
    assert reminders.remind(now=NOW + 9 * DAY) == 1


def test_nobody_is_reminded_of_an_end_that_they_have_just_chosen(cast: Cast, request_: Request) -> None:
    ending(request_, NOW + 2 * HOUR)
    Request.objects.update(allocated_at=NOW)
    assert reminders.remind(now=NOW) == 0
    assert reminders.remind(now=NOW + HOUR) == 1


@pytest.mark.parametrize("left", ["the house", "the project"])
def test_leads_hear_of_it_when_the_requester_has_left(cast: Cast, request_: Request, left: str) -> None:
    ending(request_, NOW + HOUR)
    if left == "the house":
        User.objects.filter(pk=cast.owner.pk).update(is_active=False)
    else:
        Membership.objects.filter(user=cast.owner).delete()
    reminders.remind(now=NOW)
    assert told(cast.lead, Kind.EXPIRY)
    assert not told(cast.owner, Kind.EXPIRY)


def test_who_has_left_the_project_hears_no_more_of_their_request_nor_of_its_thread(
    cast: Cast, request_: Request
) -> None:
    thread = HolderMessage.objects.create(
        request=request_, sender=cast.stranger, device="gpu-0", text="When will it be free?", created_at=NOW
    )
    assert holders.thread_for(cast.owner, thread.key) == thread
    Membership.objects.filter(user=cast.owner).delete()
    move(request_, State.FAILED, reason=Request.Reason.REFUSED, message="quota exceeded")
    holders.answer(thread=thread, sender=cast.stranger, text="And now?", now=NOW)
    assert not Notification.objects.of(cast.owner).exists()
    assert told(cast.lead, Kind.MESSAGE)
    assert holders.thread_for(cast.owner, thread.key) is None
    # Whose request it is, and reads everything, still hears of it.
    assert list(reminders.people_of(request_)) == [cast.lead]
    User.objects.filter(pk=cast.owner.pk).update(is_auditor=True)
    assert list(reminders.people_of(Request.objects.get(pk=request_.pk))) == [cast.owner]


def test_reminders_of_one_run_wait_to_go_into_one_mail(
    cast: Cast, request_: Request, settings: object
) -> None:
    settings.MAIL_OFFERED = True  # type: ignore[attr-defined] # pytest-django's settings
    ending(request_, NOW + HOUR)
    Request.objects.create(
        project=request_.project, requester=cast.owner, cluster=request_.cluster, namespace="x",
        device_class="a100", count=1, shape="claim", duration=HOUR, purpose="x", state=State.IN_USE,
        object_name="other", created_at=NOW - 9 * DAY, changed_at=NOW, expires_at=NOW + DAY,
    )  # fmt: skip
    assert reminders.remind(now=NOW) == 2
    assert set(Delivery.objects.values_list("due_at", flat=True)) == {NOW + timedelta(minutes=2)}


# --- idleness -------------------------------------------------------------------------------------


@pytest.fixture
def held(cast: Cast, request_: Request) -> Request:
    """A hold of a flavor that calls three hours idle and then gives back."""
    flavor = catalogue.flavor(idle_hours=3, idle_release=True)
    Request.objects.filter(pk=request_.pk).update(
        state=State.ALLOCATED, hold_wanted=True, flavor=flavor, changed_at=NOW, allocated_at=NOW
    )
    request_.refresh_from_db()
    return request_


def look(start: datetime, end: datetime, *, in_step: bool = True) -> None:
    """The beat looks every four minutes."""
    while start <= end:
        heard = start if in_step else NOW - DAY
        Stream.objects.update(heard_at=heard, listed_at=NOW - 2 * DAY)
        Cluster.objects.update(contacted_at=heard)
        idle.look(now=start)
        start += timedelta(minutes=4)


def test_an_idle_hold_is_reminded_once_and_an_hour_later_given_back(cast: Cast, held: Request) -> None:
    look(NOW, NOW + 3 * HOUR - timedelta(minutes=4))
    assert not told(cast.owner, Kind.IDLE)
    look(NOW + 3 * HOUR, NOW + 3 * HOUR + timedelta(minutes=52))
    assert len(told(cast.owner, Kind.IDLE)) == 1
    held.refresh_from_db()
    assert held.state == State.ALLOCATED
    look(NOW + 3 * HOUR + timedelta(minutes=56), NOW + 4 * HOUR + timedelta(minutes=8))
    held.refresh_from_db()
    assert (held.state, held.end_reason) == (State.ENDING, Request.Reason.IDLE)
    assert not held.hold_wanted


def test_without_the_rule_it_is_only_reminded(cast: Cast, held: Request) -> None:
    Flavor.objects.update(idle_release=False)
    look(NOW, NOW + 6 * HOUR)
    held.refresh_from_db()
    assert held.state == State.ALLOCATED
    assert len(told(cast.owner, Kind.IDLE)) == 1


def test_time_that_nobody_saw_is_not_idle_time(held: Request) -> None:
    look(NOW, NOW + HOUR)
    known = Idleness.objects.get().idle_for
    look(NOW + HOUR, NOW + 5 * HOUR, in_step=False)
    # Nor is a time in which nobody counted.
    look(NOW + 5 * HOUR, NOW + 5 * HOUR)
    assert Idleness.objects.get().idle_for == known
    look(NOW + 5 * HOUR + timedelta(minutes=4), NOW + 6 * HOUR)
    assert known < Idleness.objects.get().idle_for <= 2 * HOUR


def test_whoever_uses_it_begins_the_count_anew(held: Request) -> None:
    look(NOW, NOW + 2 * HOUR)
    # A Pod that came and went between two looks.
    Request.objects.update(changed_at=NOW + 2 * HOUR + timedelta(minutes=2))
    look(NOW + 2 * HOUR + timedelta(minutes=4), NOW + 2 * HOUR + timedelta(minutes=4))
    assert Idleness.objects.get().idle_for == timedelta()
    Request.objects.update(state=State.IN_USE)
    look(NOW + 3 * HOUR, NOW + 3 * HOUR)
    assert not Idleness.objects.exists()


def test_who_joins_at_the_last_moment_keeps_it(held: Request) -> None:
    look(NOW, NOW + 4 * HOUR)
    Request.objects.update(state=State.IN_USE)
    held.refresh_from_db()
    from claims.requests.desk_acts import give_back_idle

    assert not give_back_idle(request=held, now=NOW + 5 * HOUR)


# --- what people wait for -------------------------------------------------------------------------


@pytest.fixture
def taken(cluster: Cluster) -> Cluster:
    cache.clear()
    snapshot._cached.clear()
    Device.objects.update(state=Device.State.HELD)
    return cluster


def free(cluster: Cluster, node: str, count: int) -> None:
    pks = Device.objects.filter(node_name=node).order_by("pk").values_list("pk", flat=True)[:count]
    Device.objects.filter(pk__in=list(pks)).update(state=Device.State.FREE)
    cluster.mirror_version += 1
    cluster.save()


def test_who_waits_for_a_flavor_is_told_once_when_so_many_are_free(cast: Cast, taken: Cluster) -> None:
    flavor = catalogue.flavor()
    catalogue.placement(flavor, taken)
    watches.watch(person=cast.owner, count=2, days=3, now=NOW, flavor=flavor)
    assert watches.look(now=NOW) == 0
    free(taken, "node-h100", 1)
    assert watches.look(now=NOW) == 0
    free(taken, "node-h100", 2)
    assert watches.look(now=NOW) == 1
    assert watches.look(now=NOW) == 0
    assert told(cast.owner, Kind.FREE) == ["Free now: 2 of H100."]


def test_who_waits_for_a_class_is_told_only_by_a_cluster_in_step(cast: Cast, taken: Cluster) -> None:
    watches.watch(person=cast.owner, count=1, days=3, now=NOW, cluster=taken, device_class="h100")
    free(taken, "node-h100", 1)
    Stream.objects.update(heard_at=NOW - HOUR)
    assert watches.look(now=NOW) == 0
    Stream.objects.update(heard_at=NOW)
    assert watches.look(now=NOW) == 1
    assert told(cast.owner, Kind.FREE) == ["Free now: 1 of h100 (main)."]


def test_nobody_is_told_after_their_time_or_of_what_is_no_longer_theirs(cast: Cast, taken: Cluster) -> None:
    flavor = catalogue.flavor()
    catalogue.placement(flavor, taken)
    watches.watch(person=cast.owner, count=1, days=3, now=NOW - 4 * DAY, flavor=flavor)
    free(taken, "node-h100", 2)
    assert watches.look(now=NOW) == 0
    watches.watch(person=cast.teammate, count=1, days=3, now=NOW, flavor=flavor)
    Flavor.objects.update(visibility=Flavor.Visibility.ADMINISTRATORS)
    assert watches.look(now=NOW) == 0


def test_the_same_wish_again_changes_it_and_there_are_only_so_many(cast: Cast, taken: Cluster) -> None:
    first = watches.watch(person=cast.owner, count=1, days=3, now=NOW, cluster=taken, device_class="h100")
    again = watches.watch(person=cast.owner, count=2, days=3, now=NOW, cluster=taken, device_class="h100")
    assert (first.pk, again.count, Watch.objects.count()) == (again.pk, 2, 1)
    for number in range(watches.MOST - 1):
        watches.watch(person=cast.owner, count=1, days=3, now=NOW, cluster=taken, device_class=f"c{number}")
    with pytest.raises(watches.UnableToWatch, match="cancel one first"):
        watches.watch(person=cast.owner, count=1, days=3, now=NOW, cluster=taken, device_class="one-more")
