"""A follower that runs in the test's own thread until something has come true."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest

from inventory.follow import backoff, catching_up, streams
from inventory.follow.follower import Follower, Outcome
from inventory.models import Cluster
from portal.kube.client import Client
from portal.kube.config import Credentials
from tests.inventory.mini import Mini, mini_cluster
from tests.kube.scripted import ScriptedServer

DEADLINE = 15.0


@dataclass
class Followed:
    """A cluster of dictionaries, and followers of it, one after the other."""

    mini: Mini
    server: ScriptedServer
    cluster: Cluster
    interval: timedelta = timedelta(hours=1)
    steps: list[Callable[[], None]] = field(default_factory=list)

    def follower(self) -> Follower:
        text = self.server.kubeconfig()
        return Follower(
            cluster_id=self.cluster.pk,
            lease_duration=timedelta(seconds=20),
            full_list_interval=self.interval,
            client_for=lambda _cluster: Client(Credentials.from_text(text), timeout=5.0),
        )

    def until(self, *conditions: Callable[[], bool]) -> Outcome:
        """Run a new follower until the conditions have come true, one after the other."""
        left = list(conditions)
        deadline = time.monotonic() + DEADLINE

        def done() -> bool:
            while left and left[0]():
                left.pop(0)
            return not left or time.monotonic() > deadline

        outcome = self.follower().run(should_stop=done)
        assert not left, f"{len(left)} of {len(conditions)} conditions did not come true"
        return outcome

    def synced(self) -> bool:
        return Cluster.objects.get(pk=self.cluster.pk).state == Cluster.State.SYNCED


@pytest.fixture
def followed(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Followed]:
    monkeypatch.setattr(backoff, "FIRST", 0.05)
    monkeypatch.setattr(streams, "NEGLIGIBLE_GAP", timedelta(0))
    monkeypatch.setattr(catching_up, "BRACKETED", timedelta(0))
    with mini_cluster() as (mini, server):
        cluster = Cluster.objects.create(
            name="alpha", credentials=Cluster.Credentials.STORED, created_at=datetime.now(UTC)
        )
        yield Followed(mini, server, cluster)


def action(do: Callable[[], object]) -> Callable[[], bool]:
    """A step of `Followed.until` that does something and is true at once."""

    def act() -> bool:
        do()
        return True

    return act
