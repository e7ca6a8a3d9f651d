"""Telling people: once each, in their language, by the ways they chose, and with what it is about."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction
from django.utils import timezone, translation
from django.utils.translation import gettext_lazy, gettext_noop

from claims.models import Request
from portal.accounts.models import (
    Delivery,
    Membership,
    Notification,
    NotificationChoice,
    Project,
    User,
    Webhook,
)
from portal.accounts.notifications.kinds import Channel, Kind
from portal.accounts.notifications.signals import deliveries_due
from portal.accounts.notifications.telling import COLLECT_FOR, tell
from portal.accounts.notifications.texts import Text
from tests.cast import NOW, Cast

ENDED = Text(gettext_noop("Request %(request)s: %(state)s"), request="a1", state=Request.State.ENDED.label)


def say(*people: User, kind: Kind = Kind.REQUEST, key: str = "k", project: Project | None = None) -> None:
    tell(
        people=people, kind=kind, subject=ENDED, url="/requests/a1/", now=NOW, key=key, project=project,
        facts={"state": "ended"},
    )  # fmt: skip


def hook(*, by: User, project: Project | None = None) -> Webhook:
    """A webhook of a person, or one of a project that the person made."""
    return Webhook.objects.create(
        url="https://a.test/",
        secret=b"",
        created_by=by,
        created_at=NOW,
        person=None if project else by,
        project=project,
    )


def test_everybody_is_told_once_however_often_it_is_told(cast: Cast) -> None:
    say(cast.member, cast.lead, cast.member)
    say(cast.lead, cast.stranger)
    assert sorted(Notification.objects.values_list("person__username", flat=True)) == ["lena", "mina", "stig"]


def test_without_a_key_the_same_at_another_time_is_something_else(cast: Cast) -> None:
    for now in (NOW, NOW, NOW + timedelta(hours=1)):
        tell(people=[cast.member], kind=Kind.QUOTA, subject=ENDED, url="/", now=now)
    assert Notification.objects.count() == 2


def test_nobody_is_told_who_may_no_longer_sign_in(cast: Cast) -> None:
    cast.member.is_active = False
    say(cast.member)
    assert not Notification.objects.exists()


def test_what_is_of_a_project_is_told_to_nobody_who_has_left_it(cast: Cast) -> None:
    own = hook(by=cast.member)
    Membership.objects.filter(user=cast.member).delete()
    say(cast.member, cast.stranger, cast.lead, cast.administrator, cast.auditor, project=cast.project)
    told = set(Notification.objects.values_list("person__username", flat=True))
    assert told == {person.username for person in (cast.lead, cast.administrator, cast.auditor)}
    assert not Delivery.objects.filter(webhook=own).exists()
    assert not Delivery.objects.filter(person=cast.member).exists()


def test_what_did_not_happen_is_not_told(cast: Cast) -> None:
    with transaction.atomic():
        say(cast.member)
        transaction.set_rollback(True)
    assert not Notification.objects.exists()


def test_everybody_reads_it_in_their_language(cast: Cast) -> None:
    say(cast.member)
    row = Notification.objects.get()
    assert str(row) == "Request a1: released"
    with translation.override("zh-hans"):
        assert str(row) == f"{gettext_lazy('Request %(request)s: %(state)s')}" % {
            "request": "a1",
            "state": Request.State.ENDED.label,
        }


def test_times_are_told_in_the_readers_zone() -> None:
    text = Text("until %(at)s", at=datetime(2026, 3, 10, 23, 30, tzinfo=UTC))
    assert Text.read(text.as_json()) == text
    with timezone.override("Asia/Shanghai"):
        assert str(text) == "until 2026-03-11 07:30"


def test_a_text_that_lacks_a_value_is_a_defect_at_once() -> None:
    with pytest.raises(ValueError, match="does not go with"):
        Text("%(who)s left", whom="Ada")


def test_what_people_write_is_not_taken_for_placeholders() -> None:
    assert str(Text("%(said)s", said="100% of %(who)s")) == "100% of %(who)s"


def test_mail_is_written_only_where_there_is_mail_and_it_is_wanted(cast: Cast, settings: object) -> None:
    say(cast.member, kind=Kind.APPROVAL, key="1")
    assert not Delivery.objects.exists()
    settings.MAIL_OFFERED = True  # type: ignore[attr-defined] # pytest-django's settings
    say(cast.member, kind=Kind.REQUEST, key="2")
    assert not Delivery.objects.exists()
    NotificationChoice.objects.create(
        person=cast.lead, kind=Kind.APPROVAL, channel=Channel.MAIL, wanted=False
    )
    say(cast.member, cast.lead, kind=Kind.APPROVAL, key="3")
    assert Delivery.objects.get().person == cast.member


def test_reminders_wait_a_little_for_each_other(cast: Cast, settings: object) -> None:
    settings.MAIL_OFFERED = True  # type: ignore[attr-defined] # pytest-django's settings
    say(cast.member, kind=Kind.EXPIRY)
    assert Delivery.objects.get().due_at == NOW + COLLECT_FOR


def test_who_does_not_want_it_in_the_portal_is_not_shown_it(cast: Cast) -> None:
    NotificationChoice.objects.create(
        person=cast.member, kind=Kind.REQUEST, channel=Channel.PORTAL, wanted=False
    )
    NotificationChoice.objects.create(
        person=cast.member, kind=Kind.DESK, channel=Channel.PORTAL, wanted=False
    )
    say(cast.member, key="1")
    say(cast.member, kind=Kind.DESK, key="2")
    assert [row.kind for row in Notification.objects.of(cast.member)] == [Kind.DESK]


def test_webhooks_of_the_person_and_of_the_project_are_called_once(cast: Cast) -> None:
    own, theirs = hook(by=cast.member), hook(project=cast.project, by=cast.lead)
    hook(by=cast.stranger)
    hook(project=cast.other, by=cast.stranger)
    for _ in range(2):
        say(cast.member, cast.teammate, project=cast.project)
    assert set(Delivery.objects.values_list("webhook", flat=True)) == {own.pk, theirs.pk}
    payload = Delivery.objects.get(webhook=theirs).payload
    assert payload is not None
    assert payload["type"] == "notification.request"
    assert payload["data"]["facts"] == {"state": "ended"}
    assert payload["data"]["project"] == "tides"


def test_messages_of_people_are_none_of_a_projects_webhook(cast: Cast) -> None:
    hook(project=cast.project, by=cast.lead)
    say(cast.member, kind=Kind.MESSAGE, project=cast.project)
    assert not Delivery.objects.exists()


def test_the_outbox_is_announced_after_the_commit(
    cast: Cast, django_capture_on_commit_callbacks: object, announced: list[str]
) -> None:
    hook(by=cast.member)
    with django_capture_on_commit_callbacks(execute=True):  # type: ignore[operator] # pytest-django's fixture
        say(cast.member)
        assert announced == []
    assert announced == ["due"]


@pytest.fixture
def announced() -> Iterator[list[str]]:
    heard: list[str] = []

    def listener(**_kwargs: object) -> None:
        heard.append("due")

    deliveries_due.connect(listener)
    yield heard
    deliveries_due.disconnect(listener)
