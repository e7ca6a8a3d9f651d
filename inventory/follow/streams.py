"""One resource of one cluster, listed and then watched in a thread of its own that feeds the writer.

The thread touches no database: it starts from what it is given and hands batches to a bounded queue.
Whatever goes wrong is told to the follower as a `Report` and tried again after a while; the thread ends
only when it is stopped.
"""

import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from inventory.follow import catching_up
from inventory.follow.backoff import Backoff
from inventory.mirror.batches import Batch, Gap, Item, Key, Unreadable
from inventory.mirror.decoding import item_of
from inventory.models import Stream
from portal.kube import errors
from portal.kube.client import Client
from portal.kube.resources import Resource
from portal.kube.watch import Bookmark, Event, Watch

# A time without a watch that is shorter than this is not worth a word: reconnecting takes a moment.
NEGLIGIBLE_GAP = timedelta(seconds=5)
WATCH_SECONDS = 240
# A watch that gave nothing for this long is opened anew (bookmarks come about every minute).
IDLE_SECONDS = 90.0
GRACE_SECONDS = 10.0
# How many objects one batch has at most, which bounds memory and the length of a transaction.
BATCH_SIZE = 500
# How often a stream of changes that are of no interest tells how far it has come.
CHECKPOINT_SECONDS = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Report:
    """How a stream fares: a state of `Stream.State`, the error behind it, and when."""

    plural: str
    state: str
    error: errors.ClusterError | None = None
    api_version: str = ""


@dataclass(frozen=True)
class Start:
    """Where a stream goes on: the saved resourceVersion ("" = list first), when it was last listed and
    last heard."""

    resource_version: str = ""
    listed_at: datetime | None = None
    heard_at: datetime | None = None


@dataclass(frozen=True)
class Plan:
    """How one resource is followed. `relevant` drops objects that are not mirrored before they cost
    anything."""

    plural: str
    resource: Callable[[], Resource | None]
    field_selector: str = ""
    relevant: Callable[[bytes], bool] | None = None
    # Set once the resources that this one refers to have been listed (or cannot be).
    after: Sequence[threading.Event] = ()


class StreamThread(threading.Thread):
    """Follows one resource until `stop`."""

    def __init__(
        self,
        plan: Plan,
        *,
        client: Client,
        out: "queue.Queue[Batch | Report]",
        start: Start,
        full_list_interval: timedelta,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(name=f"follow-{plan.plural}", daemon=True)
        self._plan = plan
        self._client = client
        self._out = out
        self._interval = full_list_interval
        self._now = now
        self._stop_requested = threading.Event()
        self._list_requested = threading.Event()
        self._wake = threading.Event()
        self._watch: Watch | None = None
        self._version = start.resource_version
        self._listed_at = start.listed_at
        # Up to when the mirror of this resource is known to have been covered.
        self._covered_until = start.heard_at
        self._lost = False
        # Whether there was a time without any connection (at the start: since the last follower), as
        # opposed to a watch that is opened anew at once.
        self._away = start.heard_at is not None
        # Whether to make sure that the server has not gone back in time before trusting our version, and
        # whether it has: then equal versions do not mean equal objects.
        self._doubt = bool(start.resource_version)
        self._went_back = False
        # The server's version when it was asked last: what is not beyond it happened before.
        self._behind: int | None = None
        self._checkpoint_at = 0.0
        self._gone_at = float("-inf")
        # Listed once, or known to be impossible: those who wait for it may go on.
        self.settled = threading.Event()
        # The server's clock minus ours, from the last Date header.
        self.date_skew: timedelta | None = None

    def stop(self) -> None:
        """Ask the thread to end; it does within moments, also out of a watch or a full queue."""
        self._stop_requested.set()
        self._interrupt()

    def request_list(self) -> None:
        """List everything again soon ("sync now")."""
        self._list_requested.set()
        self._interrupt()

    def _interrupt(self) -> None:
        self._wake.set()
        watch = self._watch
        if watch is not None:
            watch.close()

    # --- the loop -------------------------------------------------------------------------------------

    def run(self) -> None:
        try:
            for needed in self._plan.after:
                while not needed.wait(0.2):
                    if self._stop_requested.is_set():
                        return
            backoff = Backoff()
            while not self._stop_requested.is_set():
                self._try(backoff)
        except _Stopped:
            return
        finally:
            self.settled.set()

    def _try(self, backoff: Backoff) -> None:
        try:
            self._follow(backoff)
        except errors.Gone:
            # History was compacted away under us: what happened meanwhile is only known by its result.
            self._version, self._lost = "", True
            # A server that says so again and again is not to be hammered with lists.
            self._sleep(backoff.next() if self._gone_again() else 0.0)
        except errors.ClusterError as error:
            self._doubt = self._away = True
            self._pause(error, backoff)
        except _Stopped:
            raise
        except Exception as error:  # a defect in one stream must not silence it for good
            log.exception("following %s failed", self._plan.plural)
            self._doubt = self._away = True
            self._pause(errors.ProtocolError(f"{type(error).__name__}: {error}"), backoff)

    def _gone_again(self) -> bool:
        again = time.monotonic() - self._gone_at < 60
        self._gone_at = time.monotonic()
        return again

    def _follow(self, backoff: Backoff) -> None:
        resource = self._plan.resource()
        if resource is None:
            self._tell(Stream.State.NOT_SERVED)
            self.settled.set()
            self._sleep(60.0)
            return
        if self._doubt and self._version:
            self._check_version(resource)
        self._doubt = False
        if not self._version or self._list_due():
            self._tell(Stream.State.LISTING, api_version=resource.api_version)
            self._list(resource)
        self.settled.set()
        self._watch_once(resource)
        backoff.reset()

    def _check_version(self, resource: Resource) -> None:
        """A server that was restored from a backup counts again from an earlier version; a watch from our
        later one would be silent until it has caught up."""
        page = next(
            iter(self._client.list_pages(resource, field_selector=self._plan.field_selector, limit=1))
        )
        theirs, ours = page.resource_version, self._version
        self._behind = int(theirs) if theirs.isdecimal() else None
        if theirs.isdecimal() and ours.isdecimal() and int(theirs) < int(ours):
            self._version, self._lost, self._went_back = "", True, True

    def _pause(self, error: errors.ClusterError, backoff: Backoff) -> None:
        denied = isinstance(error, errors.Forbidden)
        missing = isinstance(error, errors.NotFound)
        if denied:
            self._tell(Stream.State.NOT_PERMITTED, error)
        elif missing:
            self._tell(Stream.State.NOT_SERVED, error)
        else:
            self._tell(Stream.State.FAILED, error)
        if denied or missing:
            # Rights change seldom; others need not wait for what cannot come.
            self.settled.set()
            self._sleep(30.0)
            return
        self._sleep(backoff.next(retry_after=error.retry_after))

    def _list_due(self) -> bool:
        if self._list_requested.is_set() or self._listed_at is None:
            return True
        return self._now() - self._listed_at >= self._interval

    # --- list -----------------------------------------------------------------------------------------

    def _list(self, resource: Resource) -> None:
        self._list_requested.clear()
        began = self._now()
        since = self._covered_until
        present: dict[Key, str] = {}
        unreadable = False
        for page in self._client.list_pages(resource, field_selector=self._plan.field_selector):
            if page.first:
                present, unreadable = {}, False
            self._note_date(page.date)
            items, bad = self._items([(bytes(raw), False) for raw in page.items], resource=resource)
            present |= {item.key: item.uid for item in items}
            unreadable = unreadable or bool(bad)
            now = self._now()
            self._put(
                Batch(
                    resource=resource,
                    received_at=now,
                    items=items,
                    unreadable=bad,
                    since=since,
                    checkpoint=page.resource_version if page.last else "",
                    present=present if page.last else None,
                    gap=self._gap(now) if page.last else None,
                    force=self._went_back,
                )
            )
            if page.last:
                self._version = page.resource_version
        self._listed_at, self._went_back = began, False
        self._covered_until = self._now()

    def _items(
        self, raws: Sequence[tuple[bytes, bool]], *, resource: Resource
    ) -> tuple[list[Item], list[Unreadable]]:
        items: list[Item] = []
        bad: list[Unreadable] = []
        for raw, deleted in raws:
            if self._plan.relevant is not None and not self._plan.relevant(raw):
                continue
            named = item_of(raw, resource=resource, deleted=deleted)
            if isinstance(named, Unreadable):
                bad.append(named)
            else:
                items.append(named)
        return items, bad

    def _gap(self, now: datetime) -> Gap | None:
        """The time that no live watch covered, if it is worth a word; asked once per (re)connection."""
        since, lost, away = self._covered_until, self._lost, self._away
        self._lost, self._away = False, False
        if since is None or not (lost or (away and now - since >= NEGLIGIBLE_GAP)):
            return None
        return Gap(since=since, lost=lost)

    # --- watch ----------------------------------------------------------------------------------------

    def _watch_once(self, resource: Resource) -> None:
        seconds = self._watch_seconds()
        connected = self._now()
        ends_at = time.monotonic() + seconds + GRACE_SECONDS
        watch = self._client.watch(
            resource,
            resource_version=self._version,
            field_selector=self._plan.field_selector,
            timeout_seconds=seconds,
            # Also where a server does not end the watch by itself.
            idle_seconds=min(IDLE_SECONDS, seconds + GRACE_SECONDS),
        )
        with watch:
            self._watch = watch
            # Whoever asked before the watch was there could not close it.
            if self._stop_requested.is_set() or self._list_requested.is_set():
                watch.close()
            self._note_date(watch.date)
            covered = self._covered_until
            away_since = (
                covered if covered is not None and connected - covered > catching_up.BRACKETED else None
            )
            gap = self._gap(connected)
            self._tell(Stream.State.WATCHING, api_version=resource.api_version)
            if gap is not None:
                self._put(Batch(resource=resource, received_at=connected, since=gap.since, gap=gap))
            opened_at = self._now()
            if away_since is None:
                self._covered_until = opened_at
            # What happened while we were away comes first.
            behind, self._behind = self._behind, None
            caught_up_at = time.monotonic() + catching_up.SECONDS
            try:
                for events in watch:
                    if away_since is not None and catching_up.is_news(events, behind=behind, by=caught_up_at):
                        away_since = None
                    self._take(resource, events, since=away_since)
                    if time.monotonic() > ends_at:
                        watch.close()
            except errors.Gone:
                if self._covered_until == opened_at:
                    # It was opened only to say that it cannot tell: nothing since before was covered.
                    self._covered_until = covered
                raise
            finally:
                self._watch = None
        if not self._stop_requested.is_set():
            self._connected_until(watch)

    def _connected_until(self, watch: Watch) -> None:
        """A watch that ended in good order has covered the time up to now."""
        if watch.ended_well:
            self._covered_until = self._now()

    def _take(
        self, resource: Resource, events: Sequence[Event | Bookmark], *, since: datetime | None
    ) -> None:
        now = self._now()
        changes = [(bytes(e.object), e.type == "DELETED") for e in events if isinstance(e, Event)]
        for start in range(0, len(changes), BATCH_SIZE):
            some = changes[start : start + BATCH_SIZE]
            items, bad = self._items(some, resource=resource)
            self._version = catching_up.version_of(some[-1][0]) or self._version
            if items or bad:
                self._put(
                    Batch(
                        resource=resource,
                        received_at=now,
                        items=items,
                        unreadable=bad,
                        since=since,
                        checkpoint=self._version,
                    )
                )
        marks = [event.resource_version for event in events if isinstance(event, Bookmark)]
        if marks and isinstance(events[-1], Bookmark):
            self._version = marks[-1]
        # Also for changes that are of no interest: the way past them need not be gone again.
        if marks or time.monotonic() - self._checkpoint_at > CHECKPOINT_SECONDS:
            self._checkpoint_at = time.monotonic()
            self._put(Batch(resource=resource, received_at=now, checkpoint=self._version))
        self._covered_until = now

    def _watch_seconds(self) -> int:
        """How long this watch may last: until the next full list is due, and not the same for all."""
        jitter = random.uniform(0.8, 1.2)  # noqa: S311 - not a secret
        due = self._interval
        if self._listed_at is not None:
            due = self._interval - (self._now() - self._listed_at)
        return max(1, round(min(WATCH_SECONDS * jitter, due.total_seconds())))

    # --- small things ---------------------------------------------------------------------------------

    def _note_date(self, date: datetime | None) -> None:
        if date is not None:
            # The header has whole seconds, which are half a second old on average.
            self.date_skew = date + timedelta(seconds=0.5) - self._now()

    def _tell(self, state: str, error: errors.ClusterError | None = None, *, api_version: str = "") -> None:
        self._put(Report(plural=self._plan.plural, state=state, error=error, api_version=api_version))

    def _put(self, message: Batch | Report) -> None:
        while True:
            if self._stop_requested.is_set():
                raise _Stopped
            try:
                self._out.put(message, timeout=0.2)
            except queue.Full:
                continue
            return

    def _sleep(self, seconds: float) -> None:
        self._wake.clear()
        if self._stop_requested.is_set():
            raise _Stopped
        self._wake.wait(seconds)
        if self._stop_requested.is_set():
            raise _Stopped


class _Stopped(Exception):
    """The thread was asked to end."""
