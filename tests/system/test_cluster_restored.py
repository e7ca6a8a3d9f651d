"""A cluster's control plane is restored from an older backup: what it forgot, and what it remembers again."""

import shutil
from pathlib import Path

import pytest

from tests.system.desk import Desk, until

pytestmark = [
    pytest.mark.xdist_group("system"),
    pytest.mark.timeout(600),
    pytest.mark.nodatabase,
    pytest.mark.long,
]

# What ended two minutes ago is looked at for what it left behind, once a minute.
SWEPT_SECONDS = 300.0


def store(desk: Desk) -> Path:
    return desk.stack.cluster_kubeconfig.parent


def test_the_desk_believes_the_restored_cluster_and_says_what_it_does_not_know(
    desk: Desk, tmp_path: Path
) -> None:
    kept, kept_claim = desk.held()
    going, going_claim = desk.held()
    until(lambda: desk.history_of(kept_claim) and desk.history_of(going_claim), "both in the history")
    # As etcd is backed up: while the server is not writing.
    desk.kill("cluster")
    backup = tmp_path / "backup"
    shutil.copytree(store(desk), backup)
    desk.restart("cluster")
    desk.until_in_step()

    # What the backup does not know of: one is given back, another one is taken.
    desk.release(going)
    desk.until_state(going, "ended")
    (row,) = until(lambda: [r for r in desk.history_of(going_claim) if r["ended_at"]], "its end")
    ended_at = row["ended_at"]
    later, later_claim = desk.held()
    until(lambda: desk.history_of(later_claim), "the later one in the history")
    before = desk.history_of(kept_claim)

    desk.kill("cluster")
    shutil.rmtree(store(desk))
    shutil.copytree(backup, store(desk))
    desk.restart("cluster")
    desk.until_in_step()

    # What was there all the time is untouched.
    assert desk.state_of(kept) == "allocated"
    (row,) = desk.history_of(kept_claim)
    assert row == before[0]

    # What the cluster forgot has ended, with the time that nobody saw marked.
    (row,) = until(
        lambda: [r for r in desk.history_of(later_claim) if r["ended_at"]], "the forgotten one's end"
    )
    assert row["end_uncertainty_us"] > 0
    until(lambda: desk.state_of(later) != "allocated", "the page of the forgotten one says so")
    page = desk.researcher.get(later)
    assert "deleted on the cluster, not by the desk" in page.text, page.text[:800]

    # What it remembers though it was given back is removed again, and the end that was seen stays.
    until(
        lambda: going_claim not in [c["metadata"]["name"] for c in desk.claims()],
        "the claim is removed again",
        seconds=SWEPT_SECONDS,
    )
    first = min(desk.history_of(going_claim), key=lambda r: str(r["started_at"]))
    assert first["ended_at"] == ended_at
    until(lambda: all(r["ended_at"] for r in desk.history_of(going_claim)), "nothing of it is still going on")
    assert desk.faults() == []
