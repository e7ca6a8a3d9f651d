"""Events of the scheduler: series, as the newer API has them."""

from datetime import UTC, datetime, timedelta

from portal.demo.controllers.series import ENDS_AFTER, REFRESHED_EVERY, SeriesRecorder
from portal.demo.controllers.world import World
from portal.demo.fleet import build
from portal.demo.namespaces import found_first
from portal.demo.store import Object, Store

SPACE = "default"


class Scheduler:
    """A recorder under a clock that tests move."""

    def __init__(self) -> None:
        self.now = datetime(2026, 3, 1, 9, tzinfo=UTC)
        self.store = Store(clock=lambda: self.now)
        found_first(self.store)
        self.events = SeriesRecorder(World(self.store), "default-scheduler")
        self.pod = self.store.create("pods", build.pod("waiting", SPACE, build.pod_spec()))

    def fails(self, message: str, *, after: timedelta = timedelta()) -> list[Object]:
        self.now += after
        self.events.record(
            self.pod,
            kind="Pod",
            reason="FailedScheduling",
            action="Scheduling",
            message=message,
            warning=True,
        )
        return self.store.list("events")


def test_the_first_event_of_a_series_has_a_time_and_no_count() -> None:
    (event,) = Scheduler().fails("no devices")
    assert event["eventTime"] == "2026-03-01T09:00:00.000000Z"
    assert not {"firstTimestamp", "lastTimestamp", "count", "series"} & set(event)


def test_a_series_keeps_the_words_that_it_began_with() -> None:
    scheduler = Scheduler()
    scheduler.fails("no devices")
    (event,) = scheduler.fails("another reason", after=timedelta(seconds=2))
    assert event["message"] == "no devices"
    assert event["series"] == {"count": 2, "lastObservedTime": "2026-03-01T09:00:02.000000Z"}


def test_a_long_series_is_written_again_after_half_an_hour() -> None:
    scheduler = Scheduler()
    scheduler.fails("no devices")
    scheduler.fails("no devices")
    (event,) = scheduler.fails("no devices", after=timedelta(minutes=1))
    assert event["series"]["count"] == 2
    for _ in range(REFRESHED_EVERY // timedelta(minutes=5)):
        (event,) = scheduler.fails("no devices", after=timedelta(minutes=5))
    assert event["series"]["count"] == 9


def test_after_a_rest_a_new_series_begins() -> None:
    scheduler = Scheduler()
    scheduler.fails("no devices")
    events = scheduler.fails("another reason", after=ENDS_AFTER)
    assert {event["message"] for event in events} == {"no devices", "another reason"}


def test_a_series_whose_event_is_gone_begins_anew() -> None:
    scheduler = Scheduler()
    (event,) = scheduler.fails("no devices")
    scheduler.store.delete("events", event["metadata"]["name"], namespace=SPACE)
    (event,) = scheduler.fails("another reason")
    assert event["message"] == "another reason"
