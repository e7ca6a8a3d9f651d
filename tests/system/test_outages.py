"""The API server, or the broker, is away for a while."""

import re
from datetime import datetime

import pytest

from portal.management.people import PASSWORD
from portal.management.sample import CLUSTER
from tests.system.desk import Desk, until
from tests.visitor import Visitor

pytestmark = [pytest.mark.xdist_group("system"), pytest.mark.timeout(300), pytest.mark.nodatabase]

PAGES = (
    *("/", "/devices/", "/clusters/", f"/clusters/{CLUSTER}/", "/classes/", "/nodes/", "/requests/"),
    *("/requests/new/", "/history/", "/cost/", "/projects/", "/tokens/", "/profile/", "/search/?q=gpu"),
)


def test_a_cluster_that_is_away_is_called_unreachable_and_nothing_is_told_as_present(desk: Desk) -> None:
    kept, kept_claim = desk.held()
    page = desk.researcher.get("/devices/")
    assert "held" in page.states

    desk.kill("cluster")
    until(lambda: desk.cluster_told()["state"] == "unreachable", "the desk notices")
    told = desk.cluster_told()
    assert told["in_step"] is False
    assert told["as_of"]
    page = desk.researcher.get("/devices/")
    assert page.states, page.text[:500]
    assert set(page.states) <= {"unknown", "unreachable"}, page.states
    assert "cannot be reached" in page.text
    assert {row["state"] for row in desk.all_of("devices/")} == {"unknown"}
    for address in PAGES:
        page = desk.researcher.get(address)
        assert page.status == 200, f"{address}: {page.status}"
    page = desk.researcher.get(kept)
    assert "cannot be reached" in page.text, page.text[:800]
    assert desk.api(f"requests{kept.removeprefix('/requests')}")["in_step"] is False
    (row,) = desk.history_of(kept_claim)
    assert row["ended_at"] is None

    # What is asked meanwhile is refused, next to the cluster, and stays typed.
    page = desk.ask(purpose="asked in vain")
    assert page.status == 422
    assert page.form(having="purpose").fields["purpose"] == "asked in vain"
    assert "Nothing was submitted" in page.text

    desk.restart("cluster")
    desk.until_in_step()
    desk.until_state(kept, "allocated")
    (row,) = desk.history_of(kept_claim)
    assert row["ended_at"] is None
    assert desk.faults() == []


def test_a_claim_released_while_nobody_looked_ends_with_a_bracket(desk: Desk) -> None:
    path, claim = desk.held()
    # The desk is blind, not the cluster: that goes on living. Then it forgets the changes that watches could
    # have told later, so that only a list says what is gone.
    desk.kill("follower", "worker")
    released = desk.delete_at_once(claim)
    desk.kill("cluster")
    desk.restart("cluster", "worker", "follower")
    desk.until_state(path, "ended")
    page = desk.researcher.get(path)
    assert "deleted on the cluster, not by the desk" in page.text, page.text[:800]
    (row,) = until(lambda: [r for r in desk.history_of(claim) if r["ended_at"]], "an end in the history")
    earliest = datetime.fromisoformat(row["ended_at"])
    latest = earliest.timestamp() + row["end_uncertainty_us"] / 1e6
    assert row["end_uncertainty_us"] > 0
    assert earliest.timestamp() - 1 <= released <= latest + 1
    assert desk.faults() == []


def test_without_the_broker_nothing_is_lost_and_afterwards_everything_goes_on(desk: Desk) -> None:
    path, claim = desk.held()
    desk.kill("valkey")

    for address in PAGES:
        page = desk.researcher.get(address)
        assert page.status == 200, f"{address}: {page.status}"
    assert desk.release(path).status == 200
    page = desk.ask(purpose="asked without a broker")
    assert re.fullmatch(r"/requests/[0-9a-f-]{36}/", page.path), f"{page.status} {page.text[:500]}"
    late = page.path
    assert Visitor(desk.stack.url).sign_in("leo", PASSWORD).path == "/"

    desk.restart("valkey")
    desk.until_state(late, "waiting-for-pod")
    desk.until_state(path, "ended")
    assert claim not in [c["metadata"]["name"] for c in desk.claims()]
    assert [c for c in desk.claims() if c["metadata"]["name"] == desk.claim_of(late)]
    desk.press(late, "/hold/")
    desk.until_state(late, "allocated")
    for part in desk.stack.parts:
        assert part.exit_code is None, f"{part.name} {part.last_lines()}"
    assert desk.faults() == []
