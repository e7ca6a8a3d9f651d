"""Mails: plain text and simple HTML in the person's language, with ids by which mail programs keep together
what belongs together and know what comes twice."""

import smtplib
import zoneinfo
from collections.abc import Sequence
from datetime import datetime
from email.utils import parseaddr

from django.conf import settings
from django.core.mail import EmailMultiAlternatives
from django.core.mail.backends.base import BaseEmailBackend
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils import timezone, translation
from django.utils.translation import gettext, gettext_noop

from portal.accounts.models import Delivery, Notification, User
from portal.accounts.notifications import addresses, outbox
from portal.accounts.notifications.channels import mail_offered
from portal.accounts.notifications.insiders import may_still_hear
from portal.accounts.notifications.kinds import Channel, Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import Text, as_written


def deliver(first: Delivery, *, now: datetime, connection: BaseEmailBackend | None = None) -> None:
    """Send a mail that was taken from the outbox, with the reminders that go along with it."""
    rows = outbox.take_with_others(first, now=now)
    if strange := [row for row in rows if not may_still_hear(row)]:
        outbox.skipped(strange, now=now, why=outbox.gone())
        rows = [row for row in rows if row not in strange]
    notes = [row.notification for row in rows if row.notification is not None]
    if not notes:
        return
    person = notes[0].person
    if not (mail_offered() and person.is_active and person.email):
        outbox.skipped(rows, now=now, why=outbox.gone())
        return
    mail = compose(notes, message_id=str(rows[0].batch or rows[0].message_id))
    mail.connection = connection
    try:
        mail.send()
    except (OSError, smtplib.SMTPException) as error:
        _not_sent(rows, person, error, now=now)
    else:
        outbox.succeeded(rows, now=now)


def compose(notes: Sequence[Notification], *, message_id: str) -> EmailMultiAlternatives:
    """The mail that tells one person these (at least one)."""
    person = notes[0].person
    with translation.override(person.language or settings.LANGUAGE_CODE), timezone.override(_zone(person)):
        context = {
            "person": person,
            "notes": [
                {
                    "subject": str(note),
                    "body": note.body_text,
                    "url": addresses.absolute(note.url),
                    "project": note.project,
                    "created_at": note.created_at,
                }
                for note in notes
            ],
            "organisation": settings.ORGANISATION,
            "choices_url": addresses.absolute(reverse("notification-choices")),
            "language": translation.get_language(),
        }
        subject = (
            str(notes[0])
            if len(notes) == 1
            else gettext("%(count)s reminders, the first: %(first)s")
            % {"count": len(notes), "first": str(notes[0])}
        )
        text = render_to_string("notifications/mail.txt", context)
        page = render_to_string("notifications/mail.html", context)
    mail = EmailMultiAlternatives(
        # A subject is one line, however long what it tells is.
        subject=" ".join(f"[{settings.ORGANISATION}] {subject}".split())[:200],
        body=text,
        to=[person.email],
        headers={
            "Message-ID": _id(message_id),
            # No answering machine answers, and no list passes it on.
            "Auto-Submitted": "auto-generated",
            "X-Auto-Response-Suppress": "All",
            **_thread(notes),
        },
    )
    mail.attach_alternative(page, "text/html")
    return mail


def _thread(notes: Sequence[Notification]) -> dict[str, str]:
    threads = list(dict.fromkeys(note.thread for note in notes if note.thread))
    if len(threads) != 1:
        return {}
    # Nothing was ever sent under this id: mail programs put together what refers to the same.
    root = _id(f"thread-{threads[0]}")
    return {"In-Reply-To": root, "References": root}


def _id(left: str) -> str:
    domain = parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2] or "localhost"
    return f"<{left}@{domain}>"


def _zone(person: User) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(person.time_zone or settings.TIME_ZONE)
    except (ValueError, OSError, zoneinfo.ZoneInfoNotFoundError):
        return zoneinfo.ZoneInfo("UTC")


def _not_sent(rows: Sequence[Delivery], person: User, error: Exception, *, now: datetime) -> None:
    said = _said(error)
    refused = isinstance(error, smtplib.SMTPRecipientsRefused) and all(
        code >= 500 for code, _words in error.recipients.values()
    )
    why = Text(gettext_noop("The mail server did not take it: %(error)s"), error=said)
    if outbox.failed(rows, now=now, why=why, final=refused):
        tell(
            people=[person],
            kind=Kind.DESK,
            subject=Text(
                gettext_noop("Mail to %(address)s does not arrive: %(error)s"),
                address=as_written(person.email),
                error=said,
            ),
            url=reverse("notification-choices"),
            # Once a day, however many are given up.
            key=f"mail-dead:{now.date()}",
            now=now,
            only=[Channel.PORTAL],
        )


def _said(error: Exception) -> str:
    """In the server's words, as one short line."""
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        told = "; ".join(
            f"{code} {words.decode(errors='replace')}" for code, words in error.recipients.values()
        )
    elif isinstance(error, smtplib.SMTPResponseException):
        words = error.smtp_error
        told = f"{error.smtp_code} {words.decode(errors='replace') if isinstance(words, bytes) else words}"
    else:
        told = str(error) or type(error).__name__
    return " ".join("".join(c if c.isprintable() else " " for c in told).split())[:300]
