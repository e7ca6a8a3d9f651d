"""What counts as the desk's hold: the Pods that the desk made, by their uids, whatever others are called."""

import copy
import importlib
from collections.abc import Mapping
from datetime import UTC, timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.apps import apps
from django.core.cache import cache

from claims.ledger import storage
from claims.models import Charge, Consumer, HoldPod, LedgerTouch, Price, PriceBook, PriceRule, Request
from claims.money import tasks
from claims.money.months import Month
from claims.money.rated import rate_month
from claims.requests import actions as requests
from claims.requests import ending, holding, pursuit
from claims.requests.manifests import REQUEST_LABEL, hold_name
from inventory.models import Cluster, Observation, Pod
from portal.kube import errors
from portal.kube.resources import Resource
from tests.claims.conftest import IMAGE, NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.mirror import mirror_pod, observe
from tests.claims.test_ledger import live

__all__ = ["live"]
Kind = Observation.Kind
THIS = Month.of(NOW, UTC)
HOUR = 60


@pytest.fixture(autouse=True)
def prices(db: None, settings: Any) -> None:
    settings.ORGANISATION_ZONE = "UTC"
    cache.clear()
    book = PriceBook.objects.create(name="2026", currency="EUR", valid_from=NOW - timedelta(days=999))
    Price.objects.create(book=book, per_hour=Decimal(3))
    PriceRule.objects.create(book=book, position=0, use="unused", per_hour=Decimal(1))


def pursue(request: Request, fake: FakeCluster, minutes: float = 0) -> Request:
    Request.objects.filter(pk=request.pk).update(due_at=NOW)
    now = NOW + timedelta(minutes=minutes)
    pursuit.pursue(request_id=request.pk, now=now, hold_image=IMAGE, connect=lambda _cluster: fake)
    request.refresh_from_db()
    return request


def key_of(request: Request) -> tuple[str, str, str]:
    return "pods", request.namespace, hold_name(request.object_name)


def made_for(request: Request) -> dict[str, bool]:
    return dict(HoldPod.objects.filter(request=request).values_list("pod_uid", "made"))


@pytest.fixture
def held(live: Request, cast: Cast, fake: FakeCluster) -> Request:
    requests.hold(request=live, user=cast.owner, now=NOW)
    return pursue(live, fake)


@pytest.fixture
def forged(live: Request, cast: Cast, fake: FakeCluster) -> Request:
    """Somebody's Pod has the name and the label before the desk makes its own."""
    pod = holding.hold_pod_of(live, image="example.org/train:1", terms=holding.HoldTerms())
    pod["metadata"]["uid"] = "a-tenants"
    fake.objects[key_of(live)] = pod
    requests.hold(request=live, user=cast.owner, now=NOW)
    return pursue(live, fake)


def join(request: Request, uid: str, first: float, last: float | None = None, *, name: str = "") -> None:
    """A Pod of the hold's name (or another) reserves the claim."""
    named = name or hold_name(request.object_name)
    pod = {"resource": "pods", "api_group": "", "name": named, "uid": uid}
    observe(request, Kind.CONSUMER_JOINED, first, consumer=pod)
    if last is not None:
        observe(request, Kind.CONSUMER_LEFT, last, consumer=pod)


def fold(request: Request, hours: float) -> None:
    """The claim was allocated for so long."""
    observe(request, Kind.CLAIM_ALLOCATED, 0)
    observe(request, Kind.CLAIM_RELEASED, hours * HOUR)
    storage.apply(cluster=request.cluster)


def used() -> list[tuple[str, float]]:
    """Uses as charged, with their hours in order of time."""
    rate_month(month=THIS, zone=UTC)
    rows = Charge.objects.order_by("started_us").values_list("use", "started_us", "ended_us")
    return [(use, (end - start) / 3_600e6) for use, start, end in rows]


# --- what is charged ------------------------------------------------------------------------------


def test_time_that_only_the_desks_pod_has_it_is_unused(held: Request) -> None:
    join(held, held.hold_pod_uid, 0, 2 * HOUR)
    fold(held, 2)
    assert made_for(held) == {held.hold_pod_uid: True}
    assert used() == [("unused", 2)]


def test_a_pod_that_is_only_called_like_the_hold_uses_it(live: Request) -> None:
    join(live, "a-tenants", 0, 2 * HOUR)
    fold(live, 2)
    assert used() == [("held", 2)]


def test_a_pod_that_takes_the_name_after_the_desks_uses_it(held: Request) -> None:
    join(held, held.hold_pod_uid, 0, HOUR)
    join(held, "a-tenants", HOUR, 3 * HOUR)
    fold(held, 4)
    assert used() == [("unused", 1), ("held", 2), ("unused", 1)]


def test_a_hold_that_was_made_again_is_the_desks_as_the_first(held: Request, fake: FakeCluster) -> None:
    first = held.hold_pod_uid
    fake.objects[key_of(held)]["status"] = {"phase": "Failed", "reason": "Evicted"}
    pursue(held, fake, minutes=1)
    pursue(held, fake, minutes=2)
    assert made_for(held) == {first: True, held.hold_pod_uid: True}
    assert first != held.hold_pod_uid
    join(held, first, 0, HOUR)
    join(held, held.hold_pod_uid, HOUR, 2 * HOUR)
    fold(held, 2)
    assert used() == [("unused", 2)]


def test_a_rebuilt_ledger_is_rated_the_same_when_the_request_is_over(
    held: Request, cast: Cast, fake: FakeCluster
) -> None:
    join(held, held.hold_pod_uid, 0, 3 * HOUR)
    join(held, "a-tenants", HOUR, 2 * HOUR)
    fold(held, 3)
    assert used() == [("unused", 1), ("held", 1), ("unused", 1)]
    before = list(Charge.objects.order_by("pk").values())
    stays = list(Consumer.objects.order_by("pk").values())
    requests.release(request=held, user=cast.owner, now=NOW)
    pursue(held, fake)
    Request.objects.update(hold_pod_uid="")
    storage.rebuild(cluster=held.cluster)
    assert list(Consumer.objects.order_by("pk").values()) == stays
    assert rate_month(month=THIS, zone=UTC).nothing
    Consumer.objects.all().delete()
    storage.rebuild(cluster=held.cluster)
    assert rate_month(month=THIS, zone=UTC).nothing
    assert list(Charge.objects.order_by("pk").values()) == before


# --- what was found under the name ----------------------------------------------------------------


def test_a_pod_with_the_label_that_runs_something_else_is_no_hold(forged: Request) -> None:
    assert forged.hold_pod_uid == "a-tenants"
    assert made_for(forged) == {"a-tenants": False}
    join(forged, "a-tenants", 0, 2 * HOUR)
    fold(forged, 2)
    assert used() == [("held", 2)]


@pytest.mark.parametrize(
    "spec",
    [
        {"initContainers": [{"name": "a", "image": "example.org/train:1"}]},
        {"ephemeralContainers": [{"name": "a", "image": "example.org/train:1"}]},
        {"containers": [{"name": "hold", "image": IMAGE}, {"name": "a", "image": IMAGE}]},
        {"containers": [{"name": "hold", "image": IMAGE, "command": ["train"]}]},
        {"containers": [{"name": "hold", "image": IMAGE, "livenessProbe": {"exec": {"command": ["train"]}}}]},
        {"containers": []},
    ],
)
def test_whatever_else_runs_in_it_is_seen(
    live: Request, cast: Cast, fake: FakeCluster, spec: Mapping[str, Any]
) -> None:
    pod = holding.hold_pod_of(live, image=IMAGE, terms=holding.HoldTerms())
    pod["metadata"]["uid"] = "a-tenants"
    fake.objects[key_of(live)] = {**pod, "spec": {**pod["spec"], **spec}}
    requests.hold(request=live, user=cast.owner, now=NOW)
    pursue(live, fake)
    assert made_for(live) == {"a-tenants": False}


class Unheard(FakeCluster):
    """It creates Pods, and its answer does not come."""

    def create(
        self, resource: Resource, body: Mapping[str, Any], *, namespace: str = "", dry_run: bool = False
    ) -> dict[str, Any]:
        made = super().create(resource, body, namespace=namespace, dry_run=dry_run)
        if resource.plural == "pods":
            raise errors.Unreachable("timed out")
        return made


def test_a_hold_whose_making_nobody_heard_of_is_the_desks_and_rated_anew(
    live: Request, cast: Cast, fake: FakeCluster
) -> None:
    requests.hold(request=live, user=cast.owner, now=NOW)
    mute = Unheard()
    pursue(live, mute)
    uid = mute.objects[key_of(live)]["metadata"]["uid"]
    assert made_for(live) == {}
    # Meanwhile it reserves the claim, and that is rated.
    join(live, uid, 0, 2 * HOUR)
    fold(live, 2)
    tasks.rate_changed(now=NOW + timedelta(hours=4))
    assert Charge.objects.get().use == "held"
    fake.objects[key_of(live)] = copy.deepcopy(mute.objects[key_of(live)])
    pursue(live, fake, minutes=1)
    assert made_for(live) == {uid: True}
    assert LedgerTouch.objects.filter(claim_uid=live.object_uid).exists()
    tasks.rate_changed(now=NOW + timedelta(hours=4))
    assert Charge.objects.get().use == "unused"
    pursue(live, fake, minutes=2)
    assert not LedgerTouch.objects.exists(), "known already"


def test_what_one_worker_found_another_has_made(held: Request, fake: FakeCluster) -> None:
    HoldPod.objects.update(made=False)
    pod = fake.objects[key_of(held)]
    holding._remember(held, pod, made=False)
    assert made_for(held) == {held.hold_pod_uid: False}
    holding._remember(held, pod, made=True)
    holding._remember(held, pod, made=False)
    assert made_for(held) == {held.hold_pod_uid: True}


# --- holds from before ----------------------------------------------------------------------------


def test_a_hold_of_a_process_of_the_release_before_is_known_and_kept(
    held: Request, fake: FakeCluster
) -> None:
    HoldPod.objects.all().delete()
    first = held.hold_pod_uid
    join(held, first, 0, 2 * HOUR)
    fold(held, 2)
    assert used() == [("unused", 2)]
    del fake.objects[key_of(held)]
    pursue(held, fake, minutes=1)
    assert made_for(held) == {first: True, held.hold_pod_uid: True}
    assert rate_month(month=THIS, zone=UTC).nothing


def test_one_that_steps_aside_is_kept_too(held: Request, fake: FakeCluster) -> None:
    HoldPod.objects.all().delete()
    first = held.hold_pod_uid
    Request.objects.update(hold_wanted=False)
    pursue(held, fake)
    assert pursue(held, fake).hold_pod_uid == ""
    assert made_for(held) == {first: True}


@pytest.mark.parametrize("asked", [True, False])
def test_an_upgrade_decides_about_all_that_has_joined_before(
    live: Request, cast: Cast, *, asked: bool
) -> None:
    if asked:
        requests.hold(request=live, user=cast.owner, now=NOW)
        pursue(live, FakeCluster())
    last = live.hold_pod_uid
    HoldPod.objects.all().delete()
    join(live, "the-first", 0, HOUR)
    join(live, "work", 0, HOUR, name="work")
    observe(live, Kind.CLAIM_ALLOCATED, 0, uid="foreign")
    other = {"resource": "pods", "api_group": "", "name": hold_name(live.object_name), "uid": "elsewhere"}
    observe(live, Kind.CONSUMER_JOINED, 0, uid="foreign", consumer=other)
    fold(live, 1)
    assert Consumer.objects.count() == 3
    migration: Any = importlib.import_module("claims.migrations.0026_hold_pods")
    for _again in range(2):
        migration.remember(apps, None)
        # Where the desk never made one, the name alone says nothing.
        assert made_for(live) == ({"the-first": True, last: True} if asked else {})


# --- what else goes by the name -------------------------------------------------------------------


def test_a_pod_called_like_the_hold_ends_with_the_request_as_all_others(
    live: Request, cluster: Cluster
) -> None:
    pod = mirror_pod(live, "hold", node="node-h100", uid="a-tenants")
    assert ending.users_of(live) == [pod]
    # With the label it is removed as the hold, whoever made it.
    Pod.objects.filter(pk=pod.pk).update(labels={REQUEST_LABEL: str(live.key)})
    assert ending.users_of(live) == []
    live.hold_pod_uid = "a-tenants"
    Pod.objects.filter(pk=pod.pk).update(labels={})
    assert ending.users_of(live) == []
