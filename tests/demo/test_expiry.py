"""Events go after an hour."""

from datetime import UTC, datetime, timedelta

from portal.demo.expiry import remove_old_events
from portal.demo.namespaces import found_first
from portal.demo.store import Store


def test_an_event_is_kept_for_an_hour_after_it_last_happened() -> None:
    clock = [datetime(2026, 3, 1, 12, tzinfo=UTC)]
    store = Store(clock=lambda: clock[0])
    found_first(store)
    about = {"kind": "Pod", "name": "p", "namespace": "default"}
    for name, last in (("old", "2026-03-01T11:30:00Z"), ("new", "2026-03-01T12:30:00Z")):
        body = {"metadata": {"name": name}, "involvedObject": about, "lastTimestamp": last}
        store.create("events", body, namespace="default")
    store.create("events", {"metadata": {"name": "timeless"}, "involvedObject": about}, namespace="default")
    clock[0] += timedelta(minutes=45)
    assert remove_old_events(store) == 1
    assert [event["metadata"]["name"] for event in store.list("events")] == ["new", "timeless"]
    clock[0] += timedelta(hours=2)
    assert remove_old_events(store) == 2
