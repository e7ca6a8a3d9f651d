"""Whatever the fleet and whatever is asked for: what the panel answers is what the scheduler then does.

The preview goes the portal's whole way (mirror, snapshot, engine); the answer is compared with what becomes
of the request's own claim and Pod on the embedded cluster.
"""

from collections import Counter
from contextlib import closing

import pytest
from django.db import transaction
from hypothesis import HealthCheck, assume, given, settings

from claims.asks.values import UnableToSubmit
from tests.claims.random_fleets import World, worlds
from tests.claims.whole_desk import ControlPlane, WholeDesk

# The same worlds on every run: derived from the test itself.
FIXED = settings(
    derandomize=True,
    database=None,
    deadline=None,
    max_examples=200,
    # What is asked for may make no sense for the fleet that was drawn: such worlds are left out.
    suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    print_blob=False,
)
# A world that fails is made as small as possible before it is shown, which takes its time.
pytestmark = pytest.mark.timeout(1_200)


@pytest.fixture
def tally() -> Counter[str]:
    return Counter()


def compare(world: World, tally: Counter[str]) -> None:
    """Asks on both sides, and leaves nothing behind."""
    with closing(ControlPlane(world)) as cluster, transaction.atomic():
        try:
            _compare(world, cluster, tally)
        finally:
            transaction.set_rollback(True)


def _compare(world: World, cluster: ControlPlane, tally: Counter[str]) -> None:
    desk = WholeDesk(cluster, world)
    reading = desk.read()
    # What the desk refuses is never created; what it says of that has tests of its own.
    assume(not reading.errors)
    told = desk.preview(reading)
    assert told.in_step, told.why
    try:
        request = desk.submitted()
    except UnableToSubmit as refused:
        pytest.fail(f"the panel had no remark, and the cluster refuses: {refused}\n{world}")
    node, said = desk.started(request)
    tally["placed" if node else "not placed"] += 1
    tally[f"{request.backend}/{request.shape}"] += 1
    panel = told.nodes, told.problem, told.reasons
    answer = f"panel: {panel}\nscheduler: {node or said}\nasked: {desk.values}\n{world}"
    assert bool(told.feasible) == bool(node), answer
    if node:
        assert told.nodes is not None
        assert node in told.nodes, answer
    elif told.feasible is None:
        assert told.problem, answer


def representative(tally: Counter[str]) -> bool:
    total = tally["placed"] + tally["not placed"]
    ways = ("dra/claim", "dra/template", "device-plugin/entitlement")
    return min(tally["placed"], tally["not placed"]) * 5 > total and all(
        tally[way] * 20 > total for way in ways
    )


def test_what_the_panel_answers_is_what_the_scheduler_does(db: None, tally: Counter[str]) -> None:
    @given(worlds())
    @FIXED
    def check(world: World) -> None:
        compare(world, tally)

    check()
    assert representative(tally), tally


@pytest.mark.long
def test_the_same_of_thousands_of_fleets(db: None, tally: Counter[str]) -> None:
    @given(worlds())
    @settings(FIXED, max_examples=3_000)
    def check(world: World) -> None:
        compare(world, tally)

    check()
    assert representative(tally), tally
