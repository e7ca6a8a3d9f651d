"""The database goes away under the running desk, in the middle of everything, and comes back."""

from datetime import datetime
from pathlib import Path

import pytest
import requests

from tests.system.database import Database
from tests.system.desk import Desk, running, until

pytestmark = [
    pytest.mark.xdist_group("system"),
    pytest.mark.timeout(600),
    pytest.mark.nodatabase,
    pytest.mark.long,
]


def status(desk: Desk, path: str) -> int:
    return requests.get(f"{desk.stack.url}{path}", timeout=20, allow_redirects=False).status_code


def test_people_are_told_and_afterwards_nothing_is_missing(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database.url)
    with running(tmp_path) as desk:
        desk.until_in_step()
        kept, kept_claim = desk.held()
        going, going_claim = desk.held()
        until(lambda: desk.history_of(going_claim) and desk.history_of(kept_claim), "both in the history")

        database.end()
        page = desk.researcher.get(kept)
        assert page.status == 503
        assert "does not answer" in page.text
        assert page.response.headers["Retry-After"]
        answer = requests.get(
            f"{desk.stack.url}/api/v1/requests/",
            headers={"Authorization": f"Bearer {desk.token}"},
            timeout=20,
        )
        assert (answer.status_code, answer.json()["code"]) == (503, "database_unavailable")
        assert status(desk, "/healthz") == 200
        assert status(desk, "/readyz") == 503
        # The clusters go on meanwhile.
        released = desk.delete_at_once(going_claim)
        for part in desk.stack.parts:
            assert part.exit_code is None, f"{part.name} {part.last_lines()}"

        database.begin()
        until(lambda: status(desk, "/readyz") == 200, "the desk is ready again")
        desk.until_in_step()
        desk.until_state(going, "ended")
        assert desk.state_of(kept) == "allocated"
        (row,) = desk.history_of(kept_claim)
        assert row["ended_at"] is None
        (row,) = until(lambda: [r for r in desk.history_of(going_claim) if r["ended_at"]], "its end")
        earliest = datetime.fromisoformat(row["ended_at"]).timestamp()
        assert earliest - 1 <= released <= earliest + row["end_uncertainty_us"] / 1e6 + 1
        later = desk.asked()
        desk.until_state(later, "waiting-for-pod")
        assert desk.faults() == []
