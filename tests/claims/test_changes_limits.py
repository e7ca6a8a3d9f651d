"""Changes beside quotas and bookings: what is given back counts against what is taken, at every step."""

from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache

from claims.asks import judging as asks
from claims.asks.again import values_of
from claims.asks.values import UnableToSubmit
from claims.bookings.booking import book
from claims.changes import applying
from claims.changes import decisions as change_decisions
from claims.models import Allocation, Flavor, Quota, Request, RequestChange
from claims.money.pricing import price_list
from claims.preview.changing import Changing
from claims.preview.panel import Preview, preview
from claims.quotas import guard
from claims.quotas.facts import gather
from claims.quotas.watch import watch
from claims.requests import actions as requests
from claims.requests.advance import advance
from claims.requests.approvals import UnableToDecide, Verdict, decide
from inventory.models import Claim, Cluster, Device
from portal.dra.fleet import Fleet
from tests.claims import catalogue
from tests.claims.conftest import NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.mirror import mirror_claim
from tests.claims.quotas import held as holds
from tests.claims.quotas import quota
from tests.claims.test_changes import DAY, ask, pursue, refused, serve
from tests.claims.test_preview import build

State = RequestChange.State


@pytest.fixture(autouse=True)
def nothing_cached() -> None:
    cache.clear()


@pytest.fixture
def flavor(cluster: Cluster) -> Flavor:
    made = catalogue.flavor(max_duration=timedelta(days=30))
    catalogue.placement(made, cluster)
    return made


@pytest.fixture
def pair(cast: Cast, values: dict[str, Any], fake: FakeCluster, cluster: Cluster) -> Request:
    """A request that holds both H100 for three days, by a class that it described."""
    made = requests.submit(
        user=cast.owner, values=values | {"count": "2"}, now=NOW, connect=lambda _cluster: fake
    )
    serve(made, fake)
    for device in ("gpu-0", "gpu-1"):
        holds(made.project, cluster, device, request=made)
    return made


def taken(of: Quota) -> tuple[Any, Any]:
    found = gather([of], now=NOW).standing(of)
    return found.used, found.asked


def reach(request: Request, fake: FakeCluster) -> None:
    """The request has its device."""
    pursue(request, fake)
    mirror_claim(request, consumers=("w",), allocated_at=NOW, uid=request.object_uid)
    advance(cluster=request.cluster, now=NOW + DAY)


# --- quotas ---------------------------------------------------------------------------------------


def test_fewer_devices_are_never_over_a_full_quota_and_nothing_counts_twice_on_the_way(
    pair: Request, cast: Cast, fake: FakeCluster, cluster: Cluster, values: dict[str, Any]
) -> None:
    full = quota(pair.project, limit="2", action=Quota.Action.RELEASE)
    assert taken(full) == (2, 0)

    change = ask(pair, cast, fake, count="1")

    follower = change.successor
    assert follower is not None
    assert taken(full) == (2, 0), "it waits for what is given back"
    with pytest.raises(UnableToSubmit, match="2 devices in use, 0 devices asked for"):
        requests.submit(user=cast.teammate, values=values, now=NOW, connect=lambda _cluster: fake)

    reach(follower, fake)
    holds(pair.project, cluster, "gpu-9", request=follower)
    assert taken(full) == (2, 0), "both are held until the desk has given the first one back"
    assert watch(now=NOW) == 0, "a quota that releases ends neither"
    assert applying.release_replaced(cluster=cluster, now=NOW) == 1
    full.refresh_from_db()
    assert (taken(full), full.over_since) == ((2, 0), None)

    Allocation.objects.filter(request=pair).update(ended_at=NOW)
    Request.objects.filter(pk=pair.pk).update(state=Request.State.ENDED, ended_at=NOW)
    assert taken(full) == (1, 0)


def test_more_devices_take_only_what_is_more(pair: Request, cast: Cast, fake: FakeCluster) -> None:
    limit = quota(pair.project, limit="3")
    assert "this takes 2" in refused(pair, cast, fake, count="4")["count"][0]
    assert ask(pair, cast, fake, count="3").state == State.APPLIED
    assert taken(limit) == (2, 1)


def test_two_that_take_the_same_place_count_both(pair: Request, cast: Cast, fake: FakeCluster) -> None:
    limit = quota(pair.project, limit="3")
    ask(pair, cast, fake, count="1")
    ask(pair, cast, fake, count="1", min_memory="")
    assert taken(limit) == (2, 0)
    ask(pair, cast, fake, count="1")
    assert taken(limit) == (2, 1)
    assert "Over the quota" in refused(pair, cast, fake, count="1")["count"][0]


def test_what_is_kept_until_a_person_releases_it_counts_besides_and_the_way_out_is_told(
    pair: Request, cast: Cast, fake: FakeCluster
) -> None:
    quota(pair.project, limit="2")
    said = refused(pair, cast, fake, count="1", release="by-hand")["count"]
    assert "Over the quota" in said[0]
    assert "as soon as the new one has its own" in said[1]
    assert len(refused(pair, cast, fake, count="3", release="by-hand")["count"]) == 1, "no way out is none"


def test_pods_that_keep_what_was_replaced_count(
    pair: Request, cast: Cast, fake: FakeCluster, cluster: Cluster
) -> None:
    limit = quota(pair.project, limit="2")
    follower = ask(pair, cast, fake, count="1").successor
    assert follower is not None
    reach(follower, fake)
    holds(pair.project, cluster, "gpu-9", request=follower)
    Request.objects.filter(pk=pair.pk).update(
        state=Request.State.ENDING, reason=Request.Reason.STILL_USED, end_reason=Request.Reason.REPLACED
    )
    assert taken(limit) == (3, 0)


def test_who_approves_counts_the_same_way(
    pair: Request, cast: Cast, fake: FakeCluster, flavor: Flavor
) -> None:
    Flavor.objects.update(approval="lead")
    Request.objects.filter(pk=pair.pk).update(flavor=flavor, device_class="h100", min_memory="")
    pair.refresh_from_db()
    change = ask(pair, cast, fake, count="1")
    assert change.state == State.WAITING
    quota(pair.project, limit="1")

    change_decisions.decide(change=change, user=cast.lead, verdict=Verdict.APPROVED, comment="", now=NOW)

    assert (change.state, change.message) == (State.APPLIED, "")


def test_a_condition_of_fewer_counts_instead_of_what_was_asked_for(
    cast: Cast, fake: FakeCluster, values: dict[str, Any], flavor: Flavor
) -> None:
    Flavor.objects.update(approval="lead")
    asked = values | {"flavor": "h100", "device_class": "", "min_memory": "", "count": "2"}
    waiting = requests.submit(user=cast.owner, values=asked, now=NOW, connect=lambda _cluster: fake)
    quota(waiting.project, limit="2")
    change = change_decisions.offer(
        request=waiting, user=cast.lead, comment="", now=NOW, condition={"count": "1"}
    )
    change_decisions.accept(change=change, user=cast.owner, now=NOW, connect=lambda _cluster: fake)
    waiting.refresh_from_db()
    assert (waiting.state, waiting.count) == (Request.State.APPROVED, 1)


def test_a_follower_that_failed_is_tried_again_in_its_place(
    pair: Request, cast: Cast, fake: FakeCluster
) -> None:
    quota(pair.project, limit="2")
    follower = ask(pair, cast, fake, count="1").successor
    assert follower is not None
    Request.objects.filter(pk=follower.pk).update(state=Request.State.FAILED)
    guard.admit_again(follower, now=NOW)


# --- the panel ------------------------------------------------------------------------------------


def panel(request: Request, cast: Cast, fleet: Fleet, release: str = "when-served", **typed: Any) -> Preview:
    reading = asks.read({**values_of(request), **typed, "key": ""}, user=cast.owner, now=NOW)
    return preview(
        reading, prices=price_list(), now=NOW, viewer=cast.owner, fleet_of=lambda _cluster: fleet,
        clock=lambda: 0.0, changing=Changing(request=request, release=release),
    )  # fmt: skip


def test_more_time_needs_no_other_place(pair: Request, cast: Cast) -> None:
    told = panel(pair, cast, build(held=2), duration="5", duration_unit="days")
    assert (told.keeps, told.held, told.reasons, told.feasible) == (True, (), (), None)


def test_its_own_devices_are_told_apart_and_so_is_the_way_out(
    pair: Request, cast: Cast, cluster: Cluster
) -> None:
    claim = pair.claims.get()
    Claim.objects.filter(uid=claim.claim_uid).update(namespace="ns", name="holder-0")
    told = panel(pair, cast, build(held=2), count="1")
    assert sorted((one.own, one.devices, one.device is None) for one in told.held) == [
        (False, 1, True), (True, 1, True),
    ]  # fmt: skip
    assert "release the present one yourself" in told.way_out


def test_the_panel_tells_the_net_effect_on_quotas(pair: Request, cast: Cast) -> None:
    quota(pair.project, limit="2")
    assert panel(pair, cast, build(), count="1").quotas == []
    assert [one.over for one in panel(pair, cast, build(), release="by-hand", count="1").quotas] == [True]
    assert [one.over for one in panel(pair, cast, build(), count="3").quotas] == [True]
    assert panel(pair, cast, build(), duration="5", duration_unit="days").quotas == []


# --- bookings -------------------------------------------------------------------------------------


@pytest.fixture
def booked(cast: Cast, flavor: Flavor, pair: Request) -> Request:
    """Both H100 are booked for the fifth day by somebody else; the pair has them until the third."""
    values = {
        "project": "weather-models", "flavor": "h100", "count": "2", "duration": "4",
        "duration_unit": "hours", "start": (NOW + 5 * DAY).isoformat(), "purpose": "Storms",
    }  # fmt: skip
    Device.objects.filter(node_name="node-h100").update(state=Device.State.HELD)
    book(user=cast.stranger, values=values, now=NOW)
    return pair


def test_more_time_that_runs_into_what_is_booked_is_told_and_where_it_is_kept_refused(
    booked: Request, cast: Cast, fake: FakeCluster
) -> None:
    told = panel(booked, cast, build(held=2), duration="6", duration_unit="days")
    assert "2 of these devices are booked" in told.booked
    assert panel(booked, cast, build(held=2), duration="4", duration_unit="days").booked == ""

    Flavor.objects.update(bookings_kept=True)
    said = refused(booked, cast, fake, duration="6", duration_unit="days")["duration"][0]
    assert "bookings of this flavor are kept" in said
    assert ask(booked, cast, fake, duration="4", duration_unit="days").state == State.APPLIED


def test_what_has_not_begun_is_judged_like_a_new_request(
    booked: Request, cast: Cast, fake: FakeCluster
) -> None:
    Flavor.objects.update(bookings_kept=True)
    Request.objects.update(allocated_at=None, state=Request.State.WAITING_FOR_DEVICE, asked_at=NOW)
    booked.refresh_from_db()
    said = refused(booked, cast, fake, duration="6", duration_unit="days")["duration"][0]
    assert "bookings of this flavor are kept" in said


def test_what_takes_the_place_runs_into_what_is_booked_though_the_first_one_holds_it_now(
    booked: Request, cast: Cast, fake: FakeCluster
) -> None:
    Flavor.objects.update(bookings_kept=True)
    said = refused(booked, cast, fake, count="1", duration="6", duration_unit="days")["duration"][0]
    assert "bookings of this flavor are kept" in said
    told = panel(booked, cast, build(), count="1", duration="6", duration_unit="days")
    assert "booked" in told.booked


def test_a_booking_that_came_while_others_decided_is_seen(
    booked: Request, cast: Cast, fake: FakeCluster, flavor: Flavor
) -> None:
    Flavor.objects.update(approval="lead")
    Request.objects.filter(pk=booked.pk).update(flavor=flavor, min_memory="")
    booked.refresh_from_db()
    change = ask(booked, cast, fake, duration="6", duration_unit="days")
    Flavor.objects.update(bookings_kept=True)
    change_decisions.decide(change=change, user=cast.lead, verdict=Verdict.APPROVED, comment="", now=NOW)
    assert change.state == State.FAILED
    assert "kept" in change.message


def test_what_was_booked_while_a_request_waited_for_approval_refuses_it(
    cast: Cast, fake: FakeCluster, values: dict[str, Any], flavor: Flavor
) -> None:
    Flavor.objects.update(approval="lead", bookings_kept=True)
    asked = values | {"flavor": "h100", "device_class": "", "min_memory": "", "count": "2"}
    waiting = requests.submit(user=cast.owner, values=asked, now=NOW, connect=lambda _cluster: fake)
    booking = {
        "project": "weather-models", "flavor": "h100", "count": "2", "duration": "4",
        "duration_unit": "hours", "start": (NOW + DAY).isoformat(), "purpose": "Storms",
    }  # fmt: skip
    book(user=cast.stranger, values=booking, now=NOW)
    with pytest.raises(UnableToDecide, match="bookings of this flavor are kept"):
        decide(request=waiting, user=cast.lead, verdict=Verdict.APPROVED, comment="", now=NOW)
    waiting.refresh_from_db()
    assert waiting.state == Request.State.WAITING_FOR_APPROVAL
    assert not waiting.decisions.exists()
