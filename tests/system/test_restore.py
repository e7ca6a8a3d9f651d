"""The database is restored from a backup, and the desk catches up with a cluster that went on meanwhile.

What must not happen: a release that never was, a device that is told to be free though it is held, time that
nobody saw without a mark, or somebody who pays for it.
"""

import shutil
import sqlite3
from datetime import datetime
from pathlib import Path

import pytest

from tests.system.desk import Desk, until

pytestmark = [
    pytest.mark.xdist_group("system"),
    pytest.mark.timeout(300),
    pytest.mark.nodatabase,
    pytest.mark.long,
]

PROCESSES = ("web", "worker", "follower", "beat")


def database(desk: Desk) -> Path:
    return desk.stack.data_dir / "claimdesk.sqlite3"


def back_up(desk: Desk, to: Path) -> None:
    """As docs/operations.md says: while the desk runs."""
    with sqlite3.connect(database(desk)) as live:
        live.execute("VACUUM INTO ?", (str(to),))
    live.close()


def restore(desk: Desk, backup: Path) -> None:
    """As docs/operations.md says: while nothing of the desk runs."""
    for leftover in ("-wal", "-shm"):
        database(desk).with_name(database(desk).name + leftover).unlink(missing_ok=True)
    shutil.copy(backup, database(desk))


def test_after_a_restore_nothing_is_released_falsely_and_what_nobody_saw_is_marked(
    desk: Desk, tmp_path: Path
) -> None:
    kept, kept_claim = desk.held()
    going, going_claim = desk.held()
    desk.until_in_step()
    until(lambda: len(desk.history_of(going_claim)) == 1, "both in the history")
    backup = tmp_path / "backup.sqlite3"
    back_up(desk, backup)

    # What the backup does not know of.
    desk.kill("worker", "follower")
    released = desk.delete_at_once(going_claim)
    desk.restart("worker", "follower")
    desk.until_state(going, "ended")
    later, later_claim = desk.held()
    until(lambda: desk.history_of(later_claim), "the later one in the history")

    desk.stop(*PROCESSES)
    # So that watches cannot tell afterwards what they would have told.
    desk.kill("cluster")
    restore(desk, backup)
    desk.restart("cluster", *PROCESSES)
    desk.stack.wait_for_web()
    desk.until_in_step()

    assert desk.state_of(kept) == "allocated"
    (row,) = desk.history_of(kept_claim)
    assert row["ended_at"] is None

    desk.until_state(going, "ended")
    (row,) = until(lambda: [r for r in desk.history_of(going_claim) if r["ended_at"]], "its end")
    earliest = datetime.fromisoformat(row["ended_at"]).timestamp()
    assert row["end_uncertainty_us"] > 0
    assert earliest - 1 <= released <= earliest + row["end_uncertainty_us"] / 1e6 + 1

    # The request is lost with the newer database, its device is not: the project's namespace pays for it.
    assert desk.researcher.get(later).status == 404
    (row,) = until(lambda: desk.history_of(later_claim), "the later one in the history again")
    assert row["project"] == kept_project(desk, kept_claim)
    assert desk.faults() == []


def kept_project(desk: Desk, claim: str) -> str:
    (row,) = desk.history_of(claim)
    project: str = row["project"]
    return project
