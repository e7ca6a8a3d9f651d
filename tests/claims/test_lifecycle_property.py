"""Any life of any requests: people, Pods, controllers, meddlers and outages in any order; deliveries that are
repeated, overtaken by each other, and cut off between any two steps. At the end nothing is stuck, nothing is
left behind, nothing was made twice, and the desk shows what the cluster has."""

import copy
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied
from django.db import transaction
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from claims.asks.values import UnableToSubmit
from claims.models import FINAL_STATES, Flavor, Placement, Request
from claims.requests import actions as requests
from claims.requests import advance, approvals, pursuit
from claims.requests.actions import UnableToChange
from claims.requests.approvals import UnableToDecide
from claims.requests.manifests import hold_name
from claims.requests.states import LIVE
from inventory.models import Cluster, NamespaceBinding
from portal.kube import errors
from tests.claims.conftest import IMAGE, NOW, Cast
from tests.claims.living import CLAIMS, FINISHED, PODS, TEMPLATES, Crash, LivingCluster, Moments

State = Request.State
Shape = Request.Shape

# How far into a worker's way something happens: most ways have fewer moments than that.
MOMENTS = st.integers(0, 12)
PICK = st.integers(0, 3)


class Lives(RuleBasedStateMachine):
    """Up to three requests of one project, on a cluster with two devices."""

    cast: Cast
    cluster: Cluster
    values: dict[str, Any]

    def __init__(self) -> None:
        super().__init__()
        self.database = transaction.atomic()
        self.database.__enter__()
        self.moments = Moments()
        self.fake = LivingCluster("h100", "a100", devices=2, moments=self.moments)
        self.now: datetime = NOW
        self.fake.now = NOW
        self.keys: list[str] = []
        self.pods = 0

    def teardown(self) -> None:
        try:
            self.settle()
        finally:
            transaction.set_rollback(True)
            self.database.__exit__(None, None, None)

    # --- people ---------------------------------------------------------------------------------

    @initialize(
        shape=st.sampled_from([Shape.CLAIM, Shape.CLAIM, Shape.TEMPLATE]),
        ends_pods=st.booleans(),
        steps_aside=st.booleans(),
    )
    def first(self, shape: str, ends_pods: bool, steps_aside: bool) -> None:
        self.submit(shape, approved=False)
        Request.objects.update(ends_pods=ends_pods, hold_steps_aside=steps_aside)

    @precondition(lambda self: len(self.keys) < 3)
    @rule(shape=st.sampled_from([Shape.CLAIM, Shape.TEMPLATE]), approved=st.booleans())
    def submit(self, shape: str, approved: bool) -> None:
        """`approved`: somebody has to approve it."""
        key = f"0000000{len(self.keys)}-0000-4000-8000-000000000000"
        device_class = "a100" if approved else "h100"
        asked = self.values | {"shape": shape, "device_class": device_class, "min_memory": "", "key": key}
        for _twice in range(2):
            with suppress(UnableToSubmit):
                requests.submit(
                    user=self.cast.owner,
                    values=asked,
                    key=key,
                    now=self.now,
                    connect=lambda _cluster: self.fake,
                )
        if Request.objects.filter(key=key).exists():
            self.keys.append(key)

    @rule(pick=PICK, what=st.sampled_from(["hold", "hold", "release", "cancel", "retry"]))
    def person(self, pick: int, what: str) -> None:
        with suppress(UnableToChange):
            getattr(requests, what)(request=self.request(pick), user=self.cast.owner, now=self.now)

    @rule(pick=PICK, verdict=st.sampled_from(["approved", "approved", "rejected"]))
    def decide(self, pick: int, verdict: str) -> None:
        with suppress(UnableToDecide, PermissionDenied):
            approvals.decide(
                request=self.request(pick), user=self.cast.lead, verdict=verdict, comment="so", now=self.now
            )

    @rule()
    def bind_or_unbind(self) -> None:
        """The project loses its namespace, or gets it back."""
        rows = NamespaceBinding.objects.filter(cluster=self.cluster, namespace="protein-folding")
        if rows.filter(valid_until=None).exists():
            rows.update(valid_until=self.now)
        else:
            rows.update(valid_until=None)

    # --- the cluster ------------------------------------------------------------------------------

    @rule(times=st.integers(1, 3))
    def live(self, times: int) -> None:
        for _ in range(times):
            self.fake.step()

    @rule(pick=PICK)
    def pod_comes(self, pick: int) -> None:
        request = self.request(pick)
        self.pods += 1
        source = "resourceClaimTemplateName" if request.shape == Shape.TEMPLATE else "resourceClaimName"
        self.fake.add_pod(request.namespace, f"work-{self.pods}", {source: request.object_name})

    @rule(pick=PICK, phase=st.sampled_from(["Succeeded", "Failed", ""]))
    def pod_ends(self, pick: int, phase: str) -> None:
        """Any Pod, also a hold that is evicted or deleted."""
        if names := sorted(self.fake.of(PODS)):
            self.fake.end_pod(names[pick % len(names)], phase)

    @rule(pick=PICK, kind=st.sampled_from([CLAIMS, TEMPLATES, PODS]))
    def meddle(self, pick: int, kind: str) -> None:
        if names := sorted(self.fake.of(kind)):
            self.fake.meddle(kind, names[pick % len(names)])

    @rule(pick=PICK)
    def relabel(self, pick: int) -> None:
        """Somebody takes the labels off an object that the desk knows by its uid."""
        known = {request.object_uid for request in self.requests()}
        known |= {request.hold_pod_uid for request in self.requests()}
        ours = [body for body in self.fake.objects.values() if body["metadata"].get("uid") in known - {""}]
        if ours:
            ours[pick % len(ours)]["metadata"]["labels"] = {}

    @rule(verbs=st.sampled_from([("create",), ("get",), ("delete",), ("create", "get", "delete")]))
    def outage(self, verbs: tuple[str, ...]) -> None:
        self.fake.fail = {verb: errors.Unreachable("no answer") for verb in verbs}

    @rule()
    def refuse(self) -> None:
        """Admission refuses whatever is made, also what is there already: a quota, a policy."""
        self.fake.fail = {"create": errors.Forbidden("exceeded quota", status=403)}

    @rule()
    def heal(self) -> None:
        self.fake.fail = {}

    @rule(minutes=st.sampled_from([0.1, 6, 24 * 60, 3 * 24 * 60]))
    def wait(self, minutes: float) -> None:
        self.now += timedelta(minutes=minutes)
        self.fake.now = self.now

    # --- the desk ---------------------------------------------------------------------------------

    @rule(pick=PICK)
    def deliver(self, pick: int) -> None:
        """A task arrives, due or not, for the first or the fifth time."""
        self.pursue(self.request(pick))

    @rule(pick=PICK, after=MOMENTS)
    def deliver_and_die(self, pick: int, after: int) -> None:
        self.disturbed(lambda: self.pursue(self.request(pick)), _die, after)

    @rule(pick=PICK, after=MOMENTS, other=PICK)
    def deliver_twice_at_once(self, pick: int, after: int, other: int) -> None:
        """A second worker does its whole work between two steps of the first."""
        self.disturbed(
            lambda: self.pursue(self.request(pick)), lambda: self.pursue(self.request(other)), after
        )

    @rule(
        pick=PICK,
        after=MOMENTS,
        what=st.sampled_from(["release", "cancel", "cancel", "hold", "retry"]),
        slow=st.booleans(),
    )
    def person_comes_between(self, pick: int, after: int, what: str, slow: bool) -> None:
        """`slow`: what the person wants is done wholly before the first worker goes on."""

        def between() -> None:
            self.person(pick, what)
            for _ in range(2 if slow else 0):
                self.pursue(self.request(pick))
                self.fake.step()
                self.relist()

        self.disturbed(lambda: self.pursue(self.request(pick)), between, after)

    @rule(pick=PICK, after=MOMENTS, what=st.sampled_from(["release", "cancel", "hold", "retry"]))
    def person_and_the_server_dies(self, pick: int, after: int, what: str) -> None:
        self.disturbed(lambda: self.person(pick, what), _die, after)

    @rule(kinds=st.sets(st.sampled_from([CLAIMS, TEMPLATES, PODS])))
    def observe(self, kinds: set[str]) -> None:
        """The mirror of some kinds catches up, of others it lags, and requests follow."""
        for kind in sorted(kinds):
            self.fake.show(self.cluster, kind)
        self.advance()

    @rule(after=MOMENTS)
    def observe_and_die(self, after: int) -> None:
        self.fake.relist(self.cluster)
        self.disturbed(self.advance, _die, after)

    @rule(after=MOMENTS, pick=PICK)
    def observe_while_a_worker_is_at_it(self, after: int, pick: int) -> None:
        self.disturbed(lambda: self.pursue(self.request(pick)), self.advance, after)

    @rule()
    def relist(self) -> None:
        self.fake.relist(self.cluster)
        self.advance()

    # --- at the end -------------------------------------------------------------------------------

    def settle(self) -> None:
        """Nothing disturbs any more; after a while everything is in order. Then everybody goes."""
        self.heal()
        NamespaceBinding.objects.filter(cluster=self.cluster).update(valid_until=None)
        self.quiesce()
        for request in self.requests():
            self.check(request)
        for request in self.requests():
            for what in ("release", "cancel"):
                with suppress(UnableToChange):
                    getattr(requests, what)(request=request, user=self.cast.admin, now=self.now)
            if request.state == State.WAITING_FOR_APPROVAL:
                self.decide(self.keys.index(str(request.key)), "rejected")
        for name, pod in self.fake.of(PODS).items():
            if not self.is_hold(pod):
                self.fake.end_pod(name, "")
        self.quiesce()
        for request in self.requests():
            assert request.state in FINAL_STATES, f"{request.state}: never ends"
            assert request.due_at is None
        assert [name for plural, _ns, name in self.fake.objects if plural != "deviceclasses"] == []

    def check(self, request: Request) -> None:
        """What is shown of a request is what its cluster has; nothing is there twice or for nobody."""
        names = (request.object_name, hold_name(request.object_name))
        ours = [body for body in self.fake.objects.values() if body["metadata"]["name"] in names]
        labelled = self.fake.labelled(str(request.key))
        assert all(body in ours or body["metadata"].get("owner") for body in labelled)
        pods = [body for body in ours if body["kind"] == "Pod"]
        own = [body for body in ours if body["kind"] != "Pod"]
        if request.state in FINAL_STATES:
            assert request.due_at is None, f"work is due for a request that is {request.state}"
            assert ours == [], f"left behind by a request that is {request.state}"
            return
        if request.state == State.WAITING_FOR_APPROVAL:
            assert ours == []
            return
        assert request.state in (*LIVE, State.ENDING), f"stuck: {request.state}"
        users, waiting = self.pods_of(request)
        if request.state == State.ENDING:
            assert users, "nobody uses it, and it does not end"
            assert not request.ends_pods, "its flavor says that its Pods end with it"
            assert not pods, "the hold stays"
            return
        assert request.due_at is None, f"stuck with due work: {request.state} {request.message}"
        assert [body["metadata"]["uid"] for body in own] == [request.object_uid]
        assert bool(pods) == request.hold_wanted
        assert not (pods and users and request.hold_steps_aside), "the hold does not step aside"
        allocated = [claim for claim in self.claims_of(request) if claim["status"].get("allocation")]
        expected = State.WAITING_FOR_POD
        if allocated:
            expected = State.IN_USE if users else State.ALLOCATED
        elif waiting or pods:
            expected = State.WAITING_FOR_DEVICE
        assert request.state == expected

    def claims_of(self, request: Request) -> list[dict[str, Any]]:
        if request.shape == Shape.CLAIM:
            return [claim for name, claim in self.fake.of(CLAIMS).items() if name == request.object_name]
        made = self.fake.labelled(str(request.key))
        return [
            claim
            for claim in self.fake.of(CLAIMS).values()
            if claim["metadata"].get("owner") and claim in made
        ]

    def is_hold(self, pod: dict[str, Any]) -> bool:
        return pod["metadata"]["name"] in {hold_name(request.object_name) for request in self.requests()}

    def pods_of(self, request: Request) -> tuple[list[str], list[str]]:
        """Pods of people that use it, and those that wait for it."""
        names = {claim["metadata"]["name"] for claim in self.claims_of(request)}
        alive = [
            (name, pod)
            for name, pod in self.fake.of(PODS).items()
            if not self.is_hold(pod)
            and pod["status"]["phase"] not in FINISHED
            and self.fake.claim_name(pod) in names
        ]
        placed = [name for name, pod in alive if pod["spec"].get("nodeName")]
        return placed, [name for name, pod in alive if name not in placed]

    def quiesce(self) -> None:
        seen: list[object] = []
        while seen[-3:-2] != seen[-1:] or len(seen) < 3:
            assert len(seen) < 20, "it never comes to rest"
            self.now += timedelta(minutes=6)
            self.fake.now = self.now
            self.fake.step()
            self.fake.relist(self.cluster)
            self.advance()
            for request in self.requests():
                if request.due_at is not None and request.due_at <= self.now:
                    self.pursue(request)
            rows = Request.objects.order_by("pk").values_list("state", "reason", "hold_wanted", "object_uid")
            seen.append((list(rows), copy.deepcopy(self.fake.objects)))

    # --- how --------------------------------------------------------------------------------------

    def prepare(self, way: str) -> None:
        """What a person does before a worker goes that way."""
        if way != "create":
            self.person(0, {"hold": "hold", "end": "release"}[way])

    def happen(self, what: str) -> None:
        if what == "death":
            raise Crash
        if what == "refusal":
            self.refuse()
        elif what != "delivery":
            self.person(0, what)
        for _ in range(2):
            self.pursue(self.request(0))
            self.fake.step()
            self.relist()

    def request(self, pick: int) -> Request:
        return Request.objects.select_related("cluster", "project").get(key=self.keys[pick % len(self.keys)])

    def requests(self) -> list[Request]:
        return list(Request.objects.select_related("cluster", "project").order_by("pk"))

    def pursue(self, request: Request) -> None:
        pursuit.pursue(
            request_id=request.pk, now=self.now, hold_image=IMAGE, connect=lambda _cluster: self.fake
        )

    def advance(self) -> None:
        advance.advance(cluster=self.cluster, now=self.now)

    def disturbed(self, way: Callable[[], None], happens: Callable[[], None], after: int) -> None:
        with self.moments.watched(), self.moments.armed(happens, after), suppress(Crash):
            way()


def _die() -> None:
    raise Crash


ORDINARY = settings(
    max_examples=30,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, Phase.shrink],
)


@pytest.fixture
def lives(cast: Cast, cluster: Cluster, values: dict[str, Any]) -> type[Lives]:
    flavor = Flavor.objects.create(
        slug="a100", name="A100", approval=Flavor.Approval.LEAD, created_at=NOW, changed_at=NOW,
        min_duration=timedelta(hours=1), default_duration=timedelta(days=1), max_duration=timedelta(days=30),
    )  # fmt: skip
    Placement.objects.create(flavor=flavor, cluster=cluster, device_class="a100")
    context = {"cast": cast, "cluster": cluster, "values": values}
    return type("Lives", (Lives,), context)


def test_no_life_gets_stuck_leaves_anything_behind_or_is_shown_otherwise(lives: type[Lives]) -> None:
    run_state_machine_as_test(lives, settings=ORDINARY)


HAPPENINGS = ("death", "delivery", "release", "cancel", "refusal")


@pytest.mark.parametrize("happens", HAPPENINGS)
@pytest.mark.parametrize("way", ["create", "hold", "end"])
def test_every_way_may_be_cut_off_or_overtaken_at_every_moment(
    lives: type[Lives], way: str, happens: str
) -> None:
    for after in range(20):
        life = lives()
        reached = False

        def at_that_moment(life: Lives = life) -> None:
            nonlocal reached
            reached = True
            life.happen(happens)

        try:
            life.submit(Shape.CLAIM, approved=False)
            for step in ("create", "hold", "end")[: ("create", "hold", "end").index(way)]:
                life.prepare(step)
                life.pursue(life.request(0))
                life.fake.step()
                life.relist()
            life.prepare(way)
            life.disturbed(lambda life=life: life.pursue(life.request(0)), at_that_moment, after)  # type: ignore[misc]  # mypy infers no lambda with a default
        finally:
            life.teardown()
        if not reached:
            return
    raise AssertionError("a way of more moments than were looked at")


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_same_for_many_more_lives(lives: type[Lives]) -> None:
    more = settings(ORDINARY, max_examples=2000, stateful_step_count=50, derandomize=False, print_blob=True)
    run_state_machine_as_test(lives, settings=more)
