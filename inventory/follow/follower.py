"""The follower of one cluster: holds the lease, runs a thread per resource, and is the one writer.

It runs in the caller's thread (a Celery task, or a command) until it is told to stop, its shift ends, or
the lease is lost; it leaves within two seconds, also out of a watch. Everything it knows is in the
database, so the next one goes on where it stopped.
"""

import enum
import logging
import queue
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from django.db import InterfaceError, OperationalError, connection

from inventory import clusters
from inventory.follow import lease
from inventory.follow.backoff import Backoff
from inventory.follow.discovery import Discovery
from inventory.follow.health import PLAIN, ClusterHealth
from inventory.follow.streams import Plan, Report, Start, StreamThread
from inventory.mirror.batches import Batch, merged
from inventory.mirror.events import FIELD_SELECTOR
from inventory.mirror.jobs import pods_use_devices
from inventory.mirror.pods import uses_devices
from inventory.mirror.writer import LeaseLost, Writer, features_of
from inventory.models import Cluster, DeviceClass, Stream
from portal.kube.client import Client
from portal.kube.errors import ClusterError
from portal.kube.resources import Resource

log = logging.getLogger(__name__)

# Batches that may wait for the writer: bounds memory, and slows the readers down to what the database takes.
QUEUE_SIZE = 12
# How many objects one transaction takes at most, roughly.
TRANSACTION_SIZE = 2000
TICK_SECONDS = 0.25
JOIN_SECONDS = 1.5


class Outcome(enum.Enum):
    """Why a follower ended."""

    NOT_FREE = "another follower has the lease, or the cluster is not followed"
    STOPPED = "it was told to stop"
    SHIFT_OVER = "its shift was over"
    FAILED = "a defect of the follower; the cluster shows it"
    LEASE_LOST = "the lease went to another, or the cluster was disabled"


class Follower:
    """Follows one cluster, once."""

    def __init__(
        self,
        *,
        cluster_id: int,
        lease_duration: timedelta,
        full_list_interval: timedelta,
        client_for: Callable[[Cluster], Client] | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self.cluster_id = cluster_id
        self.holder = lease.new_holder()
        self._lease_duration = lease_duration
        self._interval = full_list_interval
        self._client_for = client_for or clusters.client_for
        self._now = now
        self._messages: queue.Queue[Batch | Report] = queue.Queue(QUEUE_SIZE)
        # Taken from the queue and not stored yet.
        self._pending: list[Batch] = []
        self._checkpoints: dict[str, Batch] = {}
        self._threads: list[StreamThread] = []
        self._renewed_at = float("-inf")
        self._looked_at = float("-inf")
        self._relisted_at: datetime | None = None

    def run(self, *, should_stop: Callable[[], bool], shift: timedelta | None = None) -> Outcome:
        """Follow until `should_stop`, or for `shift` at most. Blocks."""
        if not lease.acquire(
            cluster_id=self.cluster_id, holder=self.holder, now=self._now(), duration=self._lease_duration
        ):
            return Outcome.NOT_FREE
        self._renewed_at = time.monotonic()
        ends_at = time.monotonic() + shift.total_seconds() if shift else float("inf")
        client: Client | None = None

        def over() -> bool:
            return should_stop() or time.monotonic() >= ends_at

        try:
            client = self._connect(over)
            if client is not None:
                self._follow(client, over)
        except LeaseLost:
            return Outcome.LEASE_LOST
        except Exception as error:
            # A defect of ours: say so where people look, and let the next attempt come.
            log.exception("following cluster %s failed", self.cluster_id)
            clusters.note_defect(cluster_id=self.cluster_id, error=error)
            return Outcome.FAILED
        finally:
            self._leave(client)
        return Outcome.STOPPED if should_stop() else Outcome.SHIFT_OVER

    # --- beginning and end ----------------------------------------------------------------------------

    def _connect(self, over: Callable[[], bool]) -> Client | None:
        """A client of the cluster, after it has answered; None if that did not happen before the end."""
        backoff = Backoff()
        while not over():
            client: Client | None = None
            try:
                cluster = Cluster.objects.get(pk=self.cluster_id)
                client = self._client_for(cluster)
                clusters.connect(cluster=cluster, client=client, now=self._now())
            except ClusterError as error:
                if client is not None:
                    client.close()
                clusters.note_failure(cluster_id=self.cluster_id, error=error)
                self._wait(backoff.next(retry_after=error.retry_after), over)
            except (OperationalError, InterfaceError):
                self._database_gone(over)
            except Cluster.DoesNotExist:
                raise LeaseLost from None
            else:
                return client
        return None

    def _leave(self, client: Client | None) -> None:
        for thread in self._threads:
            thread.stop()
        deadline = time.monotonic() + JOIN_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))
        if client is not None:
            client.close()
        try:
            lease.release(cluster_id=self.cluster_id, holder=self.holder)
        except (OperationalError, InterfaceError):
            # It expires by itself.
            log.warning("the lease of cluster %s could not be given back", self.cluster_id)

    # --- following ------------------------------------------------------------------------------------

    def _follow(self, client: Client, over: Callable[[], bool]) -> None:
        cluster = Cluster.objects.get(pk=self.cluster_id)
        writer = Writer(
            cluster_id=self.cluster_id,
            holder=self.holder,
            features=features_of(cluster.server_version, served=cluster.served),
        )
        health = ClusterHealth(cluster_id=self.cluster_id, holder=self.holder, resources=writer.resources)
        self._start_threads(client, cluster, writer)
        while not over():
            try:
                self._turn(writer, health)
                self._look_after(writer)
            except (OperationalError, InterfaceError):
                self._database_gone(over)

    def _start_threads(self, client: Client, cluster: Cluster, writer: Writer) -> None:
        discovery = Discovery(client)
        starts = self._starts(cluster, writer)
        self._relisted_at = cluster.relist_requested_at
        by_plural: dict[str, StreamThread] = {}

        # Facts about devices are taken when a claim is seen; so devices come first, and Pods after claims.
        for plural, needed in _ORDER.items():
            thread = StreamThread(
                Plan(
                    plural=plural,
                    resource=_finder(discovery, plural),
                    field_selector=FIELD_SELECTOR if plural == "events" else "",
                    relevant=_RELEVANT.get(plural),
                    after=[by_plural[name].settled for name in needed],
                ),
                client=client,
                out=self._messages,
                start=starts[plural],
                full_list_interval=self._interval,
                now=self._now,
            )
            by_plural[plural] = thread
        self._threads = list(by_plural.values())
        for thread in self._threads:
            thread.start()

    def _starts(self, cluster: Cluster, writer: Writer) -> dict[str, Start]:
        Stream.objects.bulk_create(
            [Stream(cluster=cluster, resource=plural) for plural in writer.resources], ignore_conflicts=True
        )
        asked = cluster.relist_requested_at
        starts: dict[str, Start] = {}
        for stream in Stream.objects.filter(cluster=cluster):
            listed_at = stream.listed_at
            if asked is not None and listed_at is not None and listed_at < asked:
                listed_at = None
            starts[stream.resource] = Start(
                resource_version=stream.resource_version, listed_at=listed_at, heard_at=stream.heard_at
            )
        # A follower of an older release reads less of them: taken again, whatever version it has stored.
        if DeviceClass.objects.filter(cluster=cluster, managers__isnull=True).update(resource_version="0"):
            starts["deviceclasses"] = replace(starts["deviceclasses"], resource_version="")
        return starts

    def _turn(self, writer: Writer, health: ClusterHealth) -> None:
        """Take what has come and store it in one transaction."""
        batches = self._pending or self._gather(health)
        # Kept until it is stored: the database may be gone for a while.
        self._pending = batches
        skews = [thread.date_skew for thread in self._threads if thread.date_skew is not None]
        if skews:
            writer.skew = min(skews, key=abs)
        if batches:
            writer.apply(batches)
        self._pending = []
        health.save(now=self._now(), skew=writer.skew if skews else None)

    def _gather(self, health: ClusterHealth) -> list[Batch]:
        """Everything that waits, up to a transaction's size; a moment's rest when nothing does."""
        batches: list[Batch] = []
        size = 0
        timeout = TICK_SECONDS
        while size < TRANSACTION_SIZE:
            try:
                message = self._messages.get(timeout=timeout) if timeout else self._messages.get_nowait()
            except queue.Empty:
                break
            timeout = 0.0
            if isinstance(message, Report):
                health.note(message)
            elif message.only_checkpoint:
                # Saved with the next renewal, when everything before it is stored.
                self._checkpoints[message.resource.stream] = message
            else:
                if message.checkpoint:
                    self._checkpoints.pop(message.resource.stream, None)
                batches.append(message)
                size += len(message.items) + 1
        return merged(batches)

    def _look_after(self, writer: Writer) -> None:
        """Renew the lease, save how far the streams have come, and look for what people asked for."""
        if time.monotonic() - self._looked_at < 1.0:
            return
        self._looked_at = time.monotonic()
        writer.settle(now=self._now())
        if time.monotonic() - self._renewed_at >= self._lease_duration.total_seconds() / 4:
            if not lease.renew(
                cluster_id=self.cluster_id,
                holder=self.holder,
                now=self._now(),
                duration=self._lease_duration,
            ):
                raise LeaseLost
            self._renewed_at = time.monotonic()
            writer.save_checkpoints(self._checkpoints.values())
            self._checkpoints.clear()
        mine = Cluster.objects.filter(pk=self.cluster_id, enabled=True, lease_holder=self.holder)
        found = mine.values_list("relist_requested_at").first()
        if found is None:
            raise LeaseLost
        asked = found[0]
        if asked is not None and asked != self._relisted_at:
            self._relisted_at = asked
            for thread in self._threads:
                thread.request_list()

    # --- waiting --------------------------------------------------------------------------------------

    def _wait(self, seconds: float, over: Callable[[], bool]) -> None:
        """Wait without losing the lease."""
        until = time.monotonic() + seconds
        while time.monotonic() < until and not over():
            time.sleep(min(TICK_SECONDS, max(0.0, until - time.monotonic())))
            if time.monotonic() - self._renewed_at >= self._lease_duration.total_seconds() / 4:
                if not lease.renew(
                    cluster_id=self.cluster_id,
                    holder=self.holder,
                    now=self._now(),
                    duration=self._lease_duration,
                ):
                    raise LeaseLost
                self._renewed_at = time.monotonic()

    def _database_gone(self, over: Callable[[], bool]) -> None:
        """Drop the broken connection and give the database a moment. Whether we still have the lease shows
        in the next transaction."""
        log.warning("the database does not answer", exc_info=True)
        if not connection.in_atomic_block:
            connection.close()
        until = time.monotonic() + 1.0
        while time.monotonic() < until and not over():
            time.sleep(0.1)


_RELEVANT = {"pods": uses_devices, "jobs": pods_use_devices}
_ORDER: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(PLAIN, ()),
    "nodes": (),
    # What a node says decides about its devices.
    "resourceslices": ("nodes",),
    "devicetaintrules": ("resourceslices",),
    "deviceclasses": (),
    "resourceclaimtemplates": (),
    "resourceclaims": ("nodes", "resourceslices"),
    "pods": ("resourceclaims",),
    "events": ("pods",),
}


def _finder(discovery: Discovery, plural: str) -> Callable[[], Resource | None]:
    return lambda: discovery.find(plural)
