"""Two web servers, two workers and two followers over PostgreSQL and Valkey: any one of them is killed while
people work, and nothing is lost, nothing done twice."""

import json
import threading
import time
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import requests

from portal.management.sample import CLUSTER
from tests.system.database import Database
from tests.system.desk import NAMESPACE, Desk, running, until

pytestmark = [
    pytest.mark.xdist_group("system"),
    pytest.mark.timeout(900),
    pytest.mark.nodatabase,
    pytest.mark.long,
]

PURPOSE = "work under load"
ASK = {
    "project": NAMESPACE,
    "cluster": CLUSTER,
    "device_class": "gpu.nvidia.com",
    "count": 1,
    "shape": "claim",
    "duration": 3,
    "duration_unit": "hours",
    "purpose": PURPOSE,
}
# How people fare while a process is gone: they try again, at the other web server.
PATIENCE = 120.0
# What is done between two kills.
STEPS_BETWEEN = 8


@dataclass
class Person:
    """Asks for devices, holds them and gives them back, one after the other, until told to stop."""

    urls: Sequence[str]
    token: str
    holds: bool
    stop: threading.Event
    # Keys of requests that were accepted; of those, the ones that were given back; names of their claims.
    accepted: list[str] = field(default_factory=list)
    released: dict[str, str] = field(default_factory=dict)
    retries: int = 0
    steps: int = 0
    trouble: str = ""

    def work(self) -> None:
        try:
            while not self.stop.is_set():
                self._once()
        except Exception as error:  # noqa: BLE001 - the test says what it was
            self.trouble = f"{type(error).__name__}: {error}"

    def _once(self) -> None:
        made = self._call("POST", "", json=ASK)
        self.accepted.append(made["key"])
        if not self.holds:
            return
        self._until(made["key"], "waiting-for-pod")
        self._call("POST", f"{made['key']}/hold/")
        self._until(made["key"], "allocated")
        self._call("POST", f"{made['key']}/release/")
        self._until(made["key"], "ended")
        self.released[made["key"]] = made["name"]

    def _until(self, key: str, state: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while (told := self._call("GET", f"{key}/"))["state"] != state:
            assert time.monotonic() < deadline, f"{key} is {told['state']}, not {state}"
            time.sleep(0.1)

    def _call(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        """One call, made again at the next web server with the same Idempotency-Key until it is answered."""
        headers = {"Authorization": f"Bearer {self.token}", "Idempotency-Key": str(uuid.uuid4())}
        deadline, said = time.monotonic() + PATIENCE, ""
        while time.monotonic() < deadline:
            url = self.urls[(self.retries + self.steps) % len(self.urls)]
            try:
                answer = requests.request(
                    method, f"{url}/api/v1/requests/{path}", headers=headers, timeout=15, **options
                )
            except requests.RequestException as error:
                said = str(error)
            else:
                if answer.ok:
                    self.steps += 1
                    found: dict[str, Any] = answer.json()
                    return found
                said = f"{answer.status_code} {answer.text[:300]}"
                assert answer.status_code in (409, 502, 503), said
            self.retries += 1
            time.sleep(0.2)
        raise AssertionError(f"{method} {path}: {said}")


def test_any_process_killed_while_people_work_loses_nothing_and_does_nothing_twice(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", database.url)
    with running(tmp_path) as desk:
        urls = [desk.stack.url, *(desk.second(name) for name in ("web", "worker", "follower"))][:2]
        desk.until_in_step()
        until(lambda: is_ready(urls[1]), "the second web server")
        stop = threading.Event()
        people = [Person(urls, desk.token, holds=number < 3, stop=stop) for number in range(4)]
        threads = [threading.Thread(target=person.work, daemon=True) for person in people]
        for thread in threads:
            thread.start()
        try:
            for name in kills(desk):
                until_worked(people)
                desk.kill(name)
                until_worked(people)
                desk.restart(name)
                # An attempt that died with its process is given up after five minutes: here they pass now.
                give_up(desk)
            until(lambda: all(map(is_ready, urls)), "both web servers again")
            until_worked(people)
        finally:
            stop.set()
            give_up(desk)
            for thread in threads:
                thread.join(PATIENCE)
        assert [person.trouble for person in people if person.trouble] == [], desk.logs()
        judge(desk, people)


def kills(desk: Desk) -> Sequence[str]:
    """Every process once, and the follower that leads at that time last."""
    first = ["web", "worker", "follower", "web-2", "worker-2", "follower-2"]
    leading = [name for name in ("follower", "follower-2") if desk.pid_of(name) == desk.leader()]
    return [*first, *leading]


def is_ready(url: str) -> bool:
    try:
        return requests.get(f"{url}/readyz", timeout=5).status_code == 200
    except requests.RequestException:
        return False


def until_worked(people: Sequence[Person]) -> None:
    """Until so much has been done since, whoever did it."""
    before = sum(person.steps for person in people)

    def look() -> bool:
        troubles = [person.trouble for person in people if person.trouble]
        assert not troubles, troubles
        return sum(person.steps for person in people) >= before + STEPS_BETWEEN

    until(look, "people get on with their work", seconds=PATIENCE)


def give_up(desk: Desk) -> None:
    desk.run(
        "-c",
        "import django; django.setup()\n"
        "from django.db.models import F\n"
        "from portal.idempotency.keeping import GIVEN_UP_AFTER\n"
        "from portal.idempotency.models import KeptAnswer\n"
        "KeptAnswer.objects.filter(status=None).update(started_at=F('started_at') - GIVEN_UP_AFTER)",
    )


def judge(desk: Desk, people: Sequence[Person]) -> None:
    """What was accepted is there once, what was given back is over once, and nobody was told twice."""
    accepted = [key for person in people for key in person.accepted]
    released = {key: name for person in people for key, name in person.released.items()}
    assert len(accepted) == len(set(accepted))
    assert len(released) >= 3

    def settled() -> bool:
        rows = known(desk)
        return {key for key, row in rows.items() if row["state"] == "ended"} >= released.keys() and all(
            row["state"] in ("waiting-for-pod", "allocated", "ended") for row in rows.values()
        )

    until(settled, "every request has come to rest", seconds=PATIENCE)
    rows = known(desk)
    # Every answer was one request, and there is none that nobody was told of.
    assert rows.keys() == set(accepted)
    living = sorted(row["name"] for row in rows.values() if row["state"] != "ended")
    until(
        lambda: sorted(claim["metadata"]["name"] for claim in desk.claims()) == living,
        "on the cluster is what is still asked for, once each",
    )
    history = Counter(row["claim"] for row in desk.all_of("allocations/"))
    ended = {row["claim"] for row in desk.all_of("allocations/") if row["ended_at"]}
    for name in released.values():
        assert history[name] == 1, name
        assert name in ended
    assert told_twice(desk) == []
    assert desk.faults() == []


def known(desk: Desk) -> dict[str, dict[str, Any]]:
    return {row["key"]: row for row in desk.all_of("requests/") if row["purpose"] == PURPOSE}


def told_twice(desk: Desk) -> list[Any]:
    """Notifications about one state of one request of which a person has more than one."""
    return list(
        json.loads(
            desk.run(
                "-c",
                "import django; django.setup()\n"
                "import collections, json\n"
                "from portal.accounts.models import Notification\n"
                "rows = Notification.objects.filter(kind='request').order_by('pk')\n"
                "told = collections.Counter((row.person_id, row.thread, str(row)) for row in rows)\n"
                "assert told\n"
                "print(json.dumps([what for what, times in told.items() if times > 1]))",
            )
        )
    )
