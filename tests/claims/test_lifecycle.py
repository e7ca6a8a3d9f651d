"""Random lives of requests: people, crashes, outages and meddlers in any order. None gets stuck, none leaves
anything behind, none is made twice."""

from contextlib import suppress
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest

from claims import advance, pursuit, requests
from claims.manifests import hold_name
from claims.models import FINAL_STATES, Request
from claims.requests import UnableToChange
from inventory.models import Claim, ClaimTemplate, Pod, Stream
from portal.kube import errors
from tests.claims.conftest import IMAGE, NOW, Cast
from tests.claims.fakes import FakeCluster
from tests.claims.mirror import mirror_claim, mirror_pod, mirror_template

State = Request.State
STEPS = 30


class Crash(Exception):
    """The worker dies between the cluster's answer and the next line of code."""


class World:
    """One request, its cluster, the mirror that lags behind, and a clock."""

    def __init__(self, request: Request, fake: FakeCluster, random: Random) -> None:
        self.request, self.fake, self.random = request, fake, random
        self.now: datetime = NOW

    def tick(self) -> None:
        self.now += timedelta(seconds=self.random.choice([1, 30, 600]))

    def pursue(self) -> None:
        pursuit.pursue(
            request_id=self.request.pk, now=self.now, hold_image=IMAGE, connect=lambda _cluster: self.fake
        )

    def crash(self) -> None:
        """Pursue, and die after the n-th answer of the cluster."""
        left = self.random.randrange(1, 4)
        call = self.fake.create, self.fake.delete

        def dying(method: Any) -> Any:
            def wrapped(*args: Any, **kwargs: Any) -> Any:
                nonlocal left
                answer = method(*args, **kwargs)
                left -= 1
                if left <= 0:
                    raise Crash
                return answer

            return wrapped

        self.fake.create, self.fake.delete = dying(call[0]), dying(call[1])  # type: ignore[method-assign]
        try:
            with suppress(Crash):
                self.pursue()
        finally:
            self.fake.create, self.fake.delete = call  # type: ignore[method-assign]

    def outage(self) -> None:
        self.fake.fail = {"create": errors.Unreachable("no answer"), "get": errors.Unreachable("no answer")}

    def heal(self) -> None:
        self.fake.fail = {}

    def observe(self) -> None:
        """The mirror catches up with the cluster, and the request with the mirror."""
        request = self.fresh()
        hold = hold_name(request.object_name)
        objects = {(kind, name): body for (kind, _ns, name), body in self.fake.objects.items()}
        claim = objects.get(("resourceclaims", request.object_name))
        template = objects.get(("resourceclaimtemplates", request.object_name))
        Claim.objects.all().delete()
        ClaimTemplate.objects.all().delete()
        Pod.objects.all().delete()
        held = ("pods", hold) in objects
        if held:
            pod = mirror_pod(request, "hold", node="node-h100" if claim else "")
        if claim and claim["metadata"]["uid"] == request.object_uid:
            mirror_claim(request, consumers=(pod.uid,) if held else ())
        if template and template["metadata"]["uid"] == request.object_uid:
            mirror_template(request)
        Stream.objects.update(listed_at=self.now)
        advance.advance(cluster=request.cluster, now=self.now)

    def meddle(self) -> None:
        """Somebody with kubectl deletes one of the request's objects."""
        ours = [key for key in self.fake.objects if key[0] != "deviceclasses"]
        if ours:
            del self.fake.objects[self.random.choice(sorted(ours))]

    def person(self, cast: Cast) -> None:
        change = self.random.choice([requests.hold, requests.release, requests.cancel, requests.retry])
        with suppress(UnableToChange):
            change(request=self.fresh(), user=cast.owner, now=self.now)

    def settle(self) -> Request:
        self.heal()
        for _ in range(12):
            self.now += timedelta(minutes=6)
            if (due := self.fresh().due_at) is not None and due <= self.now:
                self.pursue()
            self.observe()
        return self.fresh()

    def fresh(self) -> Request:
        return Request.objects.select_related("cluster").get(pk=self.request.pk)

    def left_behind(self) -> list[str]:
        return sorted(name for kind, _namespace, name in self.fake.objects if kind != "deviceclasses")


@pytest.mark.parametrize("shape", ["claim", "template"])
@pytest.mark.parametrize("seed", range(25))
def test_no_life_gets_stuck_or_leaves_anything_behind(
    cast: Cast, values: dict[str, Any], fake: FakeCluster, seed: int, shape: str
) -> None:
    random = Random(seed)
    request = requests.submit(
        user=cast.owner, values=values | {"shape": shape}, now=NOW, connect=lambda _cluster: fake
    )
    world = World(request, fake, random)
    for _ in range(STEPS):
        world.tick()
        step = random.choices(
            [world.pursue, world.crash, world.observe, world.outage, world.heal, world.meddle, None],
            weights=[6, 3, 6, 1, 2, 1, 3],
        )[0]
        if step is None:
            world.person(cast)
        else:
            step()
    settled = world.settle()
    assert settled.state not in (State.SUBMITTED, State.CREATING, State.ENDING)
    assert settled.due_at is None
    if settled.state in FINAL_STATES:
        assert world.left_behind() == []
    else:
        held = settled.state == State.ALLOCATED
        expected = [settled.object_name, *([hold_name(settled.object_name)] if held else [])]
        assert world.left_behind() == sorted(expected)
        requests.release(request=settled, user=cast.owner, now=world.now)
        assert world.settle().state == State.ENDED
        assert world.left_behind() == []
