"""The follower's life: its lease, its end, and a database that goes away."""

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError

from inventory import clusters
from inventory.follow import lease
from inventory.follow.follower import Follower, Outcome
from inventory.mirror.writer import Writer
from inventory.models import Cluster, DeviceClass, Node, Observation, Stream
from tests.inventory.conftest import NOW
from tests.inventory.follow.conftest import Followed, action
from tests.inventory.objects import device_class, node
from tests.kube.scripted import Reply

LEASE = timedelta(seconds=20)


def test_a_lease_is_had_by_one(cluster: Cluster) -> None:
    Cluster.objects.update(lease_holder="")
    assert lease.acquire(cluster_id=cluster.pk, holder="a", now=NOW, duration=LEASE)
    assert not lease.acquire(cluster_id=cluster.pk, holder="b", now=NOW, duration=LEASE)
    assert lease.renew(cluster_id=cluster.pk, holder="a", now=NOW, duration=LEASE)
    assert not lease.renew(cluster_id=cluster.pk, holder="b", now=NOW, duration=LEASE)


def test_a_lease_that_ran_out_is_taken_over_and_the_former_holder_notices(cluster: Cluster) -> None:
    Cluster.objects.update(lease_holder="")
    lease.acquire(cluster_id=cluster.pk, holder="a", now=NOW, duration=LEASE)
    assert lease.without_follower(now=NOW) == []
    assert lease.without_follower(now=NOW + LEASE) == [cluster.pk]
    assert lease.acquire(cluster_id=cluster.pk, holder="b", now=NOW + LEASE, duration=LEASE)
    assert not lease.renew(cluster_id=cluster.pk, holder="a", now=NOW + LEASE, duration=LEASE)
    lease.release(cluster_id=cluster.pk, holder="a")
    assert Cluster.objects.get().lease_holder == "b"


def test_a_cluster_that_is_disabled_is_not_followed(cluster: Cluster) -> None:
    Cluster.objects.update(lease_holder="", enabled=False)
    assert not lease.acquire(cluster_id=cluster.pk, holder="a", now=NOW, duration=LEASE)
    assert lease.without_follower(now=NOW) == []


def test_a_second_follower_finds_the_lease_taken(followed: Followed) -> None:
    outcomes: list[Outcome] = []
    followed.until(
        followed.synced,
        action(lambda: outcomes.append(followed.follower().run(should_stop=lambda: True))),
    )
    assert outcomes == [Outcome.NOT_FREE]


def test_a_follower_that_was_overtaken_ends_and_leaves_the_lease_alone(followed: Followed) -> None:
    def overtake() -> None:
        expires = datetime.now(UTC) + LEASE
        Cluster.objects.update(lease_holder="another", lease_expires_at=expires)
        followed.mini.put(node("n1"))

    deadline = time.monotonic() + 10
    overtaken: list[bool] = []

    def stop() -> bool:
        if followed.synced() and not overtaken:
            overtaken.append(True)
            overtake()
        return time.monotonic() > deadline

    assert followed.follower().run(should_stop=stop) is Outcome.LEASE_LOST
    assert Cluster.objects.get().lease_holder == "another"
    assert Node.objects.count() == 0


def test_a_cluster_that_is_disabled_meanwhile_is_left(followed: Followed) -> None:
    stop_at = time.monotonic() + 10

    def disable() -> bool:
        if followed.synced():
            clusters.set_enabled(cluster=followed.cluster, enabled=False, now=NOW)
        return time.monotonic() > stop_at

    assert followed.follower().run(should_stop=disable) is Outcome.LEASE_LOST
    assert Cluster.objects.get().state == Cluster.State.DISABLED


def test_a_shift_ends_by_itself_and_the_next_goes_on(followed: Followed) -> None:
    shift = timedelta(seconds=1)
    assert followed.follower().run(should_stop=lambda: False, shift=shift) is Outcome.SHIFT_OVER
    assert Cluster.objects.get().lease_holder == ""
    followed.mini.put(node("n1"))
    followed.until(lambda: Node.objects.count() == 1)


def test_it_leaves_quickly_out_of_quiet_watches(followed: Followed) -> None:
    told_at: list[float] = []

    def stop() -> bool:
        if not followed.synced():
            return False
        told_at.append(time.monotonic())
        return True

    followed.follower().run(should_stop=stop)
    left = [thread.name for thread in threading.enumerate() if thread.name.startswith("follow-")]
    assert left == []
    assert time.monotonic() - told_at[0] < 5


def test_it_leaves_quickly_out_of_a_server_that_does_not_answer(followed: Followed) -> None:
    release = threading.Event()

    def mute(_request: object) -> Reply:
        release.wait(10)
        return Reply(body={})

    followed.until(followed.synced)
    followed.server.script = mute
    started = time.monotonic()
    text = followed.server.kubeconfig()
    from portal.kube.client import Client
    from portal.kube.config import Credentials

    follower = Follower(
        cluster_id=followed.cluster.pk,
        lease_duration=LEASE,
        full_list_interval=LEASE,
        client_for=lambda _cluster: Client(Credentials.from_text(text), timeout=0.5),
    )
    follower.run(should_stop=lambda: time.monotonic() - started > 1)
    assert time.monotonic() - started < 8
    release.set()


def test_a_database_that_is_gone_for_a_while_loses_nothing(
    followed: Followed, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = [3]
    usual = Writer.apply

    def failing(self: Writer, batches: Any) -> int:
        if failures[0] and any(item.name == "n1" for batch in batches for item in batch.items):
            failures[0] -= 1
            raise OperationalError("the database is gone")
        return usual(self, batches)

    monkeypatch.setattr(Writer, "apply", failing)
    followed.until(
        followed.synced,
        action(lambda: followed.mini.put(node("n1"))),
        lambda: Node.objects.count() == 1,
    )
    assert failures == [0]
    assert Observation.objects.filter(kind="node-up").count() == 1


def test_bookmarks_are_saved_so_that_a_quiet_stream_need_not_go_far_back(followed: Followed) -> None:
    mark = b'{"type": "BOOKMARK", "object": {"kind": "Node", "metadata": {"resourceVersion": "4711"}}}\n'
    followed.mini.watches["nodes"] = [Reply(stream=[mark])]
    followed.mini.version = 4000
    followed.until(
        followed.synced,
        lambda: Stream.objects.get(resource="nodes").resource_version == "4711",
    )
    assert Stream.objects.get(resource="nodes").resource_version == "4711"


def test_a_cluster_whose_credentials_cannot_be_read_says_so(followed: Followed) -> None:
    Cluster.objects.update(credentials=Cluster.Credentials.KUBECONFIG, kubeconfig_path="/nowhere/at-all")
    follower = Follower(cluster_id=followed.cluster.pk, lease_duration=LEASE, full_list_interval=LEASE)
    deadline = time.monotonic() + 5
    follower.run(
        should_stop=lambda: (
            Cluster.objects.get().state == Cluster.State.MISCONFIGURED or time.monotonic() > deadline
        )
    )
    assert "/nowhere/at-all" in Cluster.objects.get().message


def test_classes_that_a_follower_of_an_older_release_took_are_taken_again(followed: Followed) -> None:
    followed.mini.put(device_class("gpu"))
    followed.until(followed.synced)
    DeviceClass.objects.update(managers=None)
    version = DeviceClass.objects.get().resource_version
    followed.until(lambda: DeviceClass.objects.get().managers is not None)
    assert DeviceClass.objects.get().resource_version == version
