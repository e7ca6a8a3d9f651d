"""The one way to tell people something."""

import hashlib
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q
from django.utils import translation

from portal.accounts.models import Delivery, Notification, Project, User, Webhook
from portal.accounts.notifications import addresses
from portal.accounts.notifications.channels import channels_of, mail_offered
from portal.accounts.notifications.insiders import insiders
from portal.accounts.notifications.kinds import COLLECTED, FOR_PROJECTS, Channel, Kind
from portal.accounts.notifications.signals import deliveries_due
from portal.accounts.notifications.texts import SOURCE_LANGUAGE, Text

# Reminders wait this long for others to share the mail with.
COLLECT_FOR = timedelta(minutes=2)


def tell(
    *,
    people: Iterable[User],
    kind: Kind,
    subject: Text,
    url: str,
    now: datetime,
    project: Project | None = None,
    key: str = "",
    body: Text | None = None,
    thread: str = "",
    facts: Mapping[str, Any] | None = None,
    only: Collection[Channel] = tuple(Channel),
) -> None:
    """Tell these people (who are active; each once) something. Call it inside the transaction of what it is
    about: nothing is told that did not happen, and deliveries begin after the commit. What is of a `project`
    is told only to who may see its details now: who has left it hears no more of it.

    `subject` is one sentence and `body` what else there is to say, as `Text` so that each person reads it in
    their own language. `url` is a path of the portal (`reverse(…)`). `key` (up to 160 characters) names what
    is told: the same key is told to a person once, however often this is called; without one it is made from
    kind, subject, address and `now`. With `project`, the project's webhooks hear it too. Mails with the same
    `thread` (such as the key of a request) form a thread. `facts` are values for programs (JSON): webhooks
    carry them beside the text. `only` leaves out channels, such as the one that has just failed.
    """
    told = {person.pk: person for person in people if person.is_active}
    if project is not None:
        told = insiders(told, project)
    key = key or _key(kind, subject, url, now)
    with transaction.atomic():
        channels = {pk: chosen & set(only) for pk, chosen in channels_of(told.values(), kind).items()}
        new = _notify(
            told, channels, kind=kind, subject=subject, body=body, url=url, key=key, project=project,
            thread=thread, now=now,
        )  # fmt: skip
        deliveries = [
            *_mails(new, channels, kind=kind, now=now),
            *_calls(
                new, channels, kind=kind, key=key, project=project, now=now, subject=subject, body=body,
                url=url, facts=facts or {}, only=only,
            ),
        ]  # fmt: skip
        if deliveries:
            Delivery.objects.bulk_create(deliveries, ignore_conflicts=True)
            transaction.on_commit(lambda: deliveries_due.send(Delivery))


# --- inside ---------------------------------------------------------------------------------------


def _key(kind: Kind, subject: Text, url: str, now: datetime) -> str:
    return hashlib.sha256(f"{kind} {subject!r} {url} {now.isoformat()}".encode()).hexdigest()[:40]


def _notify(
    told: Mapping[int, User],
    channels: Mapping[int, Collection[Channel]],
    *,
    key: str,
    subject: Text,
    body: Text | None,
    now: datetime,
    **columns: Any,
) -> list[Notification]:
    """Rows for those who have not been told yet."""
    have = set(
        Notification.objects.filter(person__in=told, key=key).values_list("person_id", flat=True)
        if told
        else []
    )
    missing = [pk for pk in told if pk not in have]
    if not missing:
        return []
    Notification.objects.bulk_create(
        [
            Notification(
                person_id=pk,
                key=key,
                subject=subject.as_json(),
                body=body.as_json() if body else None,
                created_at=now,
                in_portal=Channel.PORTAL in channels[pk],
                **columns,
            )
            for pk in missing
        ],
        # Told twice at the same moment: the other one's row stands, and its deliveries too.
        ignore_conflicts=True,
    )
    return list(Notification.objects.filter(person__in=missing, key=key).select_related("person"))


def _mails(
    new: Iterable[Notification], channels: Mapping[int, Collection[Channel]], *, kind: Kind, now: datetime
) -> list[Delivery]:
    if not mail_offered():
        return []
    due = now + COLLECT_FOR if kind in COLLECTED else now
    return [
        Delivery(
            channel=Channel.MAIL,
            notification=row,
            person_id=row.person_id,
            kind=kind,
            key=row.key,
            due_at=due,
            created_at=now,
        )
        for row in new
        if Channel.MAIL in channels[row.person_id] and row.person.email
    ]


def _calls(
    new: Collection[Notification],
    channels: Mapping[int, Collection[Channel]],
    *,
    kind: Kind,
    key: str,
    project: Project | None,
    now: datetime,
    only: Collection[Channel],
    **content: Any,
) -> list[Delivery]:
    rows = {row.person_id: row for row in new}
    wanting = [pk for pk in rows if Channel.WEBHOOK in channels[pk]]
    whose = Q(person__in=wanting)
    if project is not None and kind in FOR_PROJECTS and Channel.WEBHOOK in only:
        whose |= Q(project=project)
    elif not wanting:
        return []
    hooks = Webhook.objects.filter(whose, disabled_at=None).select_related("person", "created_by")
    return [
        Delivery(
            channel=Channel.WEBHOOK,
            webhook=hook,
            notification=rows.get(hook.person_id) if hook.person_id else None,
            kind=kind,
            key=key,
            payload=payload(
                kind=kind,
                project=project,
                now=now,
                language=(hook.person or hook.created_by).language,
                **content,
            ),
            due_at=now,
            created_at=now,
        )
        for hook in hooks
    ]


def payload(
    *,
    kind: str,
    subject: Text,
    body: Text | None,
    url: str,
    project: Project | None,
    facts: Mapping[str, Any],
    now: datetime,
    language: str,
) -> dict[str, Any]:
    """What a webhook is sent, as Standard Webhooks has it: type, timestamp, data."""
    with translation.override(language or SOURCE_LANGUAGE):
        return {
            "type": f"notification.{kind}",
            "timestamp": now.isoformat(),
            "data": {
                "subject": str(subject),
                "body": str(body) if body else "",
                "url": addresses.absolute(url),
                "project": project.slug if project else None,
                **({"facts": dict(facts)} if facts else {}),
            },
        }
