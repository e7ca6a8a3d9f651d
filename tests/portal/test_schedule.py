"""What beat asks for, there is: one wrong entry, and beat does not start at all."""

from celery.beat import ScheduleEntry

from portal.celery import app


def test_every_entry_can_be_read_and_names_a_task_that_workers_know() -> None:
    app.loader.import_default_modules()
    entries = [ScheduleEntry(name=name, app=app, **entry) for name, entry in app.conf.beat_schedule.items()]
    assert len(entries) > 5
    assert [entry.name for entry in entries if entry.task not in app.tasks] == []
