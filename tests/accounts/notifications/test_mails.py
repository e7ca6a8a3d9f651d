"""Mails: in the reader's language, threaded, reminders in one, and in doubt once more with the same id."""

import email
import email.policy
from collections.abc import Iterator
from datetime import timedelta
from email.message import EmailMessage
from typing import Any

import pytest
from django.core import mail
from django.core.mail.backends.smtp import EmailBackend
from django.utils.translation import gettext_noop

from portal.accounts.models import Delivery, Membership, Notification, User
from portal.accounts.notifications import mails, outbox
from portal.accounts.notifications.kinds import Kind
from portal.accounts.notifications.telling import COLLECT_FOR, tell
from portal.accounts.notifications.texts import Text, as_written
from tests.accounts.notifications.smtp import MailServer, serving
from tests.cast import NOW, Cast


@pytest.fixture(autouse=True)
def mail_offered(settings: Any) -> None:
    settings.MAIL_OFFERED = True
    settings.PUBLIC_URL = "https://desk.example.org"
    settings.DEFAULT_FROM_EMAIL = "Claimdesk <desk@example.org>"
    settings.ORGANISATION = "Observatory"


@pytest.fixture
def server() -> Iterator[MailServer]:
    with serving() as found:
        yield found


def say(person: User, *, kind: Kind = Kind.APPROVAL, key: str = "k", text: Text | None = None) -> Delivery:
    subject = text or Text(gettext_noop("%(request)s is approved."), request="a <b>1</b> & co")
    tell(people=[person], kind=kind, subject=subject, url="/requests/a1/", now=NOW, key=key, thread="a1")
    return Delivery.objects.get(key=key)


def send(delivery: Delivery, server: MailServer | None = None, **when: Any) -> Delivery:
    now = when.get("now", NOW)
    taken = outbox.take(delivery.pk, now=now)
    assert taken is not None, "it is not due"
    backend = EmailBackend(host="127.0.0.1", port=server.port, timeout=30) if server else None
    mails.deliver(taken, now=now, connection=backend)
    return Delivery.objects.get(pk=delivery.pk)


def received(server: MailServer) -> list[EmailMessage]:
    policy = email.policy.default
    return [email.message_from_bytes(raw, policy=policy) for raw in server.mails]


def test_a_mail_goes_through_a_real_server_with_text_html_and_ids(cast: Cast, server: MailServer) -> None:
    done = send(say(cast.member), server)
    (message,) = received(server)
    assert message["To"] == cast.member.email
    assert message["Subject"] == "[Observatory] a <b>1</b> & co is approved."
    assert message["Message-ID"] == f"<{done.message_id}@example.org>"
    assert message["References"] == message["In-Reply-To"] == "<thread-a1@example.org>"
    assert message["Auto-Submitted"] == "auto-generated"
    plain, page = message.get_body(["plain"]), message.get_body(["html"])
    assert plain is not None
    assert page is not None
    assert "a <b>1</b> & co is approved." in plain.get_content()
    assert "https://desk.example.org/requests/a1/" in plain.get_content()
    assert "a &lt;b&gt;1&lt;/b&gt; &amp; co" in page.get_content()
    assert (done.state, done.attempts) == ("sent", 1)


def test_everybody_reads_their_own_language_and_zone(cast: Cast) -> None:
    cast.member.language, cast.member.time_zone = "zh-hans", "Asia/Shanghai"
    cast.member.save()
    send(say(cast.member, text=Text("until %(at)s", at=NOW)))
    body = str(mail.outbox[0].body)
    assert "2026-03-10 17:30" in body
    assert "Hello" not in body


def test_reminders_for_one_person_go_into_one_mail(cast: Cast) -> None:
    first = say(cast.member, kind=Kind.EXPIRY, key="1", text=as_written("first"))
    say(cast.member, kind=Kind.IDLE, key="2", text=as_written("second"))
    say(cast.lead, kind=Kind.EXPIRY, key="3")
    say(cast.member, kind=Kind.APPROVAL, key="4")
    assert outbox.take(first.pk, now=NOW) is None
    send(first, now=NOW + COLLECT_FOR)
    (message,) = mail.outbox
    assert "2 reminders, the first: first" in message.subject
    assert "first" in str(message.body)
    assert "second" in str(message.body)
    states = dict(Delivery.objects.values_list("key", "state"))
    assert states == {"1": "sent", "2": "sent", "3": "pending", "4": "pending"}


def test_a_mail_of_which_nobody_knows_whether_it_went_is_sent_again_as_the_same(
    cast: Cast, server: MailServer
) -> None:
    first = say(cast.member, kind=Kind.EXPIRY, key="1")
    say(cast.member, kind=Kind.EXPIRY, key="2")
    server.breaks_off = True
    now = NOW + COLLECT_FOR
    failed = send(first, server, now=now)
    assert failed.state == "pending"
    # Another reminder that came up meanwhile is none of this mail.
    say(cast.member, kind=Kind.EXPIRY, key="3")
    server.breaks_off = False
    send(first, server, now=now + outbox.PAUSES[0])
    before, after = received(server)
    assert before["Message-ID"] == after["Message-ID"]
    assert dict(Delivery.objects.values_list("key", "state")) == {"1": "sent", "2": "sent", "3": "pending"}


def test_a_worker_that_died_with_a_digest_leaves_all_of_it_to_the_next(cast: Cast) -> None:
    first = say(cast.member, kind=Kind.EXPIRY, key="1")
    second = say(cast.member, kind=Kind.EXPIRY, key="2")
    now = NOW + COLLECT_FOR
    taken = outbox.take(first.pk, now=now)
    assert taken is not None
    assert len(outbox.take_with_others(taken, now=now)) == 2
    assert outbox.due(now=now) == []
    # The lease is over; whichever comes first takes both along.
    send(second, now=now + outbox.LEASE)
    assert set(Delivery.objects.values_list("state", flat=True)) == {"sent"}
    assert len(mail.outbox) == 1


def test_what_the_server_does_not_take_now_is_tried_again(cast: Cast, server: MailServer) -> None:
    server.refusal = b"451 try later"
    failed = send(say(cast.member), server)
    assert (failed.state, failed.due_at) == ("pending", NOW + outbox.PAUSES[0])
    assert "451 try later" in failed.error_text


def test_an_address_that_there_is_not_is_given_up_at_once_and_said_in_the_portal(
    cast: Cast, server: MailServer
) -> None:
    server.refusal = b"550 no such mailbox"
    assert send(say(cast.member), server).state == "dead"
    told = Notification.objects.of(cast.member).get(kind=Kind.DESK)
    assert "550 no such mailbox" in str(told)
    # By no mail: it would go the same way.
    assert Delivery.objects.filter(kind=Kind.DESK).count() == 0


def test_without_a_server_it_waits_and_says_so_after_the_last_attempt(cast: Cast) -> None:
    with serving() as gone:
        pass
    delivery, now = say(cast.member), NOW
    for pause in (*outbox.PAUSES, timedelta()):
        delivery = send(delivery, gone, now=now)
        now += pause
    assert (delivery.state, delivery.attempts) == ("dead", outbox.ATTEMPTS)
    assert Notification.objects.of(cast.member).filter(kind=Kind.DESK).exists()


def test_who_has_left_is_written_nothing(cast: Cast) -> None:
    delivery = say(cast.member)
    User.objects.filter(pk=cast.member.pk).update(is_active=False)
    assert send(delivery).state == "skipped"
    assert mail.outbox == []


def test_a_subject_is_one_line(cast: Cast) -> None:
    send(say(cast.member, text=as_written("one\r\nBcc: everybody@example.org")))
    assert mail.outbox[0].subject == "[Observatory] one Bcc: everybody@example.org"
    assert mail.outbox[0].recipients() == [cast.member.email]


def test_a_mail_that_waits_for_another_attempt_is_not_sent_to_who_has_left_meanwhile(
    cast: Cast, server: MailServer
) -> None:
    for key in ("theirs", "own"):
        tell(
            people=[cast.member], kind=Kind.EXPIRY, subject=as_written(key), url="/requests/a1/", now=NOW,
            key=key, project=cast.project if key == "theirs" else None,
        )  # fmt: skip
    Membership.objects.filter(user=cast.member).delete()
    send(Delivery.objects.get(key="theirs"), server, now=NOW + COLLECT_FOR)
    (message,) = received(server)
    assert "own" in str(message["Subject"])
    assert "theirs" not in message.as_string()
    states = dict(Delivery.objects.values_list("key", "state"))
    assert states == {"theirs": Delivery.State.SKIPPED, "own": Delivery.State.SENT}
