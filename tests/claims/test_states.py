"""Which state follows from what the mirror shows."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from claims.models import Request
from claims.requests.states import ClaimFacts, PodFacts, Situation, Verdict, expired, next_state

State, Reason, Shape = Request.State, Request.Reason, Request.Shape

CLAIM = ClaimFacts(uid="c", name="claim")
HELD = ClaimFacts(uid="c", name="claim", allocated=True, consumers=("h",))
JOINED = ClaimFacts(uid="c", name="claim", allocated=True, consumers=("h", "w"))
HOLD = PodFacts(uid="h", name="claim-hold", phase="Running", node="n1", hold=True)
WORK = PodFacts(uid="w", name="work", phase="Running", node="n1")
STUCK = PodFacts(uid="s", name="stuck", why="0/4 nodes are available: cannot allocate all claims")


def seen(state: str = State.WAITING_FOR_POD, **facts: object) -> Situation:
    base = Situation(shape=Shape.CLAIM, state=state, object_exists=True, claims=(CLAIM,))
    return replace(base, **facts)  # type: ignore[arg-type]  # a table of facts


@pytest.mark.parametrize(
    ("situation", "state", "reason"),
    [
        pytest.param(seen(), State.WAITING_FOR_POD, "", id="nobody names the claim"),
        pytest.param(
            seen(pods=(replace(WORK, phase="Succeeded"),)),
            State.WAITING_FOR_POD,
            "",
            id="only a finished Pod",
        ),
        pytest.param(
            seen(pods=(replace(STUCK, why=""),)),
            State.WAITING_FOR_DEVICE,
            "",
            id="a Pod nobody looked at yet",
        ),
        pytest.param(
            seen(pods=(STUCK,)), State.WAITING_FOR_DEVICE, Reason.NOT_SCHEDULED, id="a Pod without a place"
        ),
        pytest.param(seen(claims=(HELD,), pods=(HOLD,)), State.ALLOCATED, "", id="only the hold has it"),
        pytest.param(seen(claims=(JOINED,), pods=(HOLD, WORK)), State.IN_USE, "", id="a workload joined"),
        pytest.param(
            seen(claims=(HELD,), pods=(HOLD, STUCK)), State.ALLOCATED, Reason.PARTLY, id="a second Pod waits"
        ),
        pytest.param(
            seen(State.IN_USE, claims=(CLAIM,)), State.WAITING_FOR_POD, "", id="the last consumer has left"
        ),
        pytest.param(
            seen(claims=(), object_exists=False), State.FAILED, Reason.DELETED_ELSEWHERE, id="deleted unused"
        ),
        pytest.param(
            seen(State.IN_USE, claims=(), object_exists=False, was_allocated=True),
            State.ENDED,
            Reason.DELETED_ELSEWHERE,
            id="deleted after use",
        ),
        pytest.param(
            seen(claims=(), object_exists=False, pods=(replace(HOLD, node=""),)),
            State.ENDING,
            Reason.DELETED_ELSEWHERE,
            id="deleted, and the hold is left over",
        ),
        pytest.param(
            seen(claims=(replace(JOINED, deleting=True),), pods=(WORK,)),
            State.ENDING,
            Reason.DELETED_ELSEWHERE,
            id="somebody else deletes it while it is used",
        ),
        pytest.param(
            seen(State.ENDING, claims=(JOINED,), pods=(WORK,)),
            State.ENDING,
            Reason.STILL_USED,
            id="still used",
        ),
        pytest.param(
            seen(State.ENDING, claims=(replace(HELD, users=("work",)),)),
            State.ENDING,
            Reason.STILL_USED,
            id="used by a Pod that is not mirrored yet",
        ),
        pytest.param(
            seen(State.ENDING, claims=(HELD,), pods=(HOLD,)),
            State.ENDING,
            Reason.WINDING_UP,
            id="only the hold",
        ),
        pytest.param(seen(State.ENDING), State.ENDING, Reason.WINDING_UP, id="not removed yet"),
        pytest.param(seen(State.ENDING, claims=(), object_exists=False), State.ENDED, "", id="all is gone"),
    ],
)
def test_a_shared_claim_is_in_the_state_that_the_cluster_shows(
    situation: Situation, state: str, reason: str
) -> None:
    verdict = next_state(situation)
    assert verdict is not None
    assert (verdict.state, verdict.reason) == (state, reason)


def template(state: str = State.WAITING_FOR_POD, **facts: object) -> Situation:
    return seen(state, **{"shape": Shape.TEMPLATE, "claims": (), **facts})


@pytest.mark.parametrize(
    ("situation", "state", "reason"),
    [
        pytest.param(template(), State.WAITING_FOR_POD, "", id="no Pod yet"),
        pytest.param(
            template(claims=(CLAIM,), pods=(STUCK,)),
            State.WAITING_FOR_DEVICE,
            Reason.NOT_SCHEDULED,
            id="0 of 1",
        ),
        pytest.param(
            template(claims=(JOINED, replace(CLAIM, uid="d")), pods=(WORK, STUCK)),
            State.IN_USE,
            Reason.PARTLY,
            id="1 of 2",
        ),
        pytest.param(template(claims=(JOINED,), pods=(WORK,)), State.IN_USE, "", id="1 of 1"),
        pytest.param(
            template(claims=(JOINED,), pods=(WORK,), object_exists=False),
            State.ENDING,
            Reason.DELETED_ELSEWHERE,
            id="the template is deleted under a running Pod",
        ),
        pytest.param(
            template(State.ENDING, claims=(JOINED,), pods=(WORK,), object_exists=False),
            State.ENDING,
            Reason.STILL_USED,
            id="ended while Pods run on",
        ),
        pytest.param(template(State.ENDING, object_exists=False), State.ENDED, "", id="ended"),
    ],
)
def test_a_template_follows_the_claims_made_from_it(situation: Situation, state: str, reason: str) -> None:
    verdict = next_state(situation)
    assert verdict is not None
    assert (verdict.state, verdict.reason) == (state, reason)


@pytest.mark.parametrize(
    "state", [State.SUBMITTED, State.CREATING, State.FAILED, State.CANCELLED, State.ENDED]
)
def test_states_of_the_desk_are_not_the_mirrors_business(state: str) -> None:
    assert next_state(seen(state, claims=(JOINED,), pods=(WORK,))) is None


def test_what_the_mirror_cannot_tell_changes_nothing() -> None:
    assert next_state(seen(State.WAITING_FOR_POD, claims=(), object_exists=None)) is None
    assert next_state(seen(State.ENDING, claims=(), object_exists=None)) is None


def test_the_scheduler_is_quoted_once_and_the_holders_are_named() -> None:
    twice = (STUCK, replace(STUCK, uid="t", name="stuck-2"))
    verdict = next_state(seen(pods=twice))
    assert verdict == Verdict(state=State.WAITING_FOR_DEVICE, reason=Reason.NOT_SCHEDULED, message=STUCK.why)
    verdict = next_state(seen(State.ENDING, claims=(JOINED,), pods=(WORK, HOLD)))
    assert verdict is not None
    assert verdict.message == "work"


def test_only_requests_with_something_on_the_cluster_expire() -> None:
    now = datetime(2026, 11, 1, tzinfo=UTC)
    assert expired(state=State.IN_USE, expires_at=now, now=now)
    assert not expired(state=State.IN_USE, expires_at=now + timedelta(seconds=1), now=now)
    assert not expired(state=State.IN_USE, expires_at=None, now=now)
    assert not expired(state=State.ENDING, expires_at=now, now=now)
    assert not expired(state=State.FAILED, expires_at=now, now=now)
