"""From the outbox to the wire through the task queue."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core import mail
from django.utils import timezone

from portal.accounts import tasks
from portal.accounts.models import Delivery, Notification
from portal.accounts.notifications import inbox, webhooks
from portal.accounts.notifications.kinds import Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import as_written
from portal.celery import app
from tests.accounts.notifications.receiver import Receiver, listening
from tests.cast import Cast


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with listening() as found:
        yield found


def test_every_task_that_beat_asks_for_is_there() -> None:
    app.loader.import_default_modules()
    asked = {entry["task"] for entry in app.conf.beat_schedule.values()}
    assert asked - set(app.tasks) == set()
    assert "accounts.tasks.deliver_due" in asked


def test_what_is_due_goes_out_by_mail_and_webhook(
    cast: Cast, receiver: Receiver, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MAIL_OFFERED, settings.WEBHOOK_HOSTS = True, ["127.0.0.1"]
    webhooks.add_webhook(url=receiver.url, actor=cast.member, now=timezone.now(), permitted=["127.0.0.1"])
    tell(
        people=[cast.member], kind=Kind.APPROVAL, subject=as_written("decide"), url="/", now=timezone.now()
    )  # fmt: skip
    queued: list[int] = []
    monkeypatch.setattr(
        tasks.deliver, "apply_async", lambda *, kwargs, **_: queued.append(kwargs["delivery_id"])
    )
    tasks.deliver_due()
    assert len(queued) == 2
    for pk in [*queued, *queued]:
        # A message that comes twice from the queue goes out once.
        tasks.deliver(pk)
    assert set(Delivery.objects.values_list("state", flat=True)) == {"sent"}
    assert (len(mail.outbox), len(receiver.requests)) == (1, 1)


def test_a_queue_that_cannot_be_reached_stops_nobody(
    cast: Cast, caplog: pytest.LogCaptureFixture, django_capture_on_commit_callbacks: Any
) -> None:
    webhooks.add_webhook(url="https://a.example.org/", actor=cast.member, now=timezone.now(), permitted=())
    with pytest.MonkeyPatch.context() as patch, django_capture_on_commit_callbacks(execute=True):
        patch.setattr(tasks.deliver_due, "apply_async", _unreachable)
        tell(people=[cast.member], kind=Kind.QUOTA, subject=as_written("x"), url="/", now=timezone.now())
    assert Delivery.objects.get().state == "pending"
    assert "queue unreachable" in caplog.text


def test_old_ones_are_dropped(cast: Cast) -> None:
    old = timezone.now() - 2 * inbox.KEPT_FOR
    tell(people=[cast.member], kind=Kind.QUOTA, subject=as_written("x"), url="/", now=old)
    tasks.prune_notifications()
    assert not Notification.objects.exists()


def _unreachable(**_kwargs: Any) -> None:
    raise OSError("connection refused")
