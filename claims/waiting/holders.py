"""“Ask the holder”: a message through the desk to those who hold a device, and their answers.

Who asks learns no name and no address, only the project; who is asked learns no more of a stranger. The desk
carries few messages of one person, and nobody gets any of somebody whom they have muted.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from claims.models import Allocation, HolderMessage, Mute, Request
from claims.requests import reminders
from inventory.models import Device
from portal import access, texts
from portal.accounts import audit
from portal.accounts.models import Membership, User
from portal.accounts.notifications.kinds import Kind
from portal.accounts.notifications.telling import tell
from portal.accounts.notifications.texts import Text, as_written

MAX_TEXT = 1000
MOST_PER_HOUR = 5
MOST_PER_DAY = 20
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


class UnableToSend(ValueError):
    """`field` is "text", or "" for the whole."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field, self.message = field, message


def holding(device: Device) -> list[Request]:
    """The requests that hold the device now, as far as they were made at this desk."""
    open_ones = Allocation.objects.filter(
        cluster=device.cluster_id,
        driver=device.pool.driver,
        pool_name=device.pool.name,
        device_name=device.name,
        ended_at=None,
        admin_access=False,
        request__isnull=False,
    )
    keys = open_ones.values("request")
    return list(Request.objects.filter(pk__in=keys).select_related("project", "requester").order_by("pk"))


def ask(
    *, device: Device, sender: User, text: str, now: datetime, source_ip: str | None = None
) -> list[HolderMessage]:
    """Ask everybody who holds the device. Raises UnableToSend."""
    said = _checked(text)
    requests = holding(device)
    if not requests:
        raise UnableToSend("", _("Nobody holds it any more whom the desk could ask."))
    with transaction.atomic():
        _spend(sender, now=now)
        return [
            _send(
                HolderMessage(
                    request=request, sender=sender, device=f"{device.name} ({device.node_name})"[:253],
                    text=said, created_at=now,
                ),
                to=people_of(request),
                now=now,
                ip=source_ip,
            )
            for request in requests
        ]  # fmt: skip


def answer(
    *, thread: HolderMessage, sender: User, text: str, now: datetime, source_ip: str | None = None
) -> HolderMessage:
    """Go on in a thread that `sender` takes part in. Raises UnableToSend."""
    said = _checked(text)
    to = people_of(thread.request) if sender.pk == thread.sender_id else [thread.sender]
    with transaction.atomic():
        _spend(sender, now=now)
        return _send(
            HolderMessage(
                request=thread.request, thread=thread, sender=sender, device=thread.device, text=said,
                created_at=now,
            ),
            to=to,
            now=now,
            ip=source_ip,
        )  # fmt: skip


def people_of(request: Request) -> list[User]:
    """Who is asked: the requester, unless they have left the project, and its leads."""
    leads = Membership.objects.filter(project=request.project, role=Membership.Role.LEAD)
    found = {person.pk: person for person in reminders.people_of(request)}
    found |= {row.user_id: row.user for row in leads.select_related("user")}
    return list(found.values())


def thread_for(person: User, key: UUID) -> HolderMessage | None:
    """The thread (by the key of any message in it), if `person` takes part in it or reads everything."""
    row = HolderMessage.objects.filter(key=key).first()
    first = HolderMessage.objects.filter(pk=row.thread_id or row.pk).select_related(
        "request__project", "request__requester", "request__flavor", "sender"
    ).first() if row else None  # fmt: skip
    if first is None:
        return None
    taking_part = first.sender_id == person.pk or person in people_of(first.request)
    return first if taking_part or access.may_read_everything(person) else None


def may_answer(person: User, thread: HolderMessage) -> bool:
    """Auditors and administrators read along; only who takes part writes."""
    return thread.sender_id == person.pk or person in people_of(thread.request)


def messages_of(thread: HolderMessage) -> list[HolderMessage]:
    """The whole thread, oldest first."""
    rows = HolderMessage.objects.filter(Q(pk=thread.pk) | Q(thread=thread)).select_related("sender")
    return list(rows.order_by("created_at", "pk"))


def called(people: Iterable[User], *, reader: User) -> dict[int, Text]:
    """How each is called before `reader`: by name to whom shares a project with them, else by project."""
    known = {person.pk: person for person in people}
    rows = Membership.objects.filter(user__in=known).select_related("project").order_by("project__name")
    projects: dict[int, list[tuple[int, str]]] = {}
    for row in rows:
        projects.setdefault(row.user_id, []).append((row.project_id, row.project.name))
    own = set(Membership.objects.filter(user=reader).values_list("project", flat=True))
    names = {}
    for pk, person in known.items():
        shared = any(project in own for project, _name in projects.get(pk, ()))
        if pk == reader.pk or shared or access.may_read_everything(reader):
            names[pk] = as_written(str(person))
        else:
            names[pk] = _stranger([name for _pk, name in projects.get(pk, ())])
    return names


def mute(*, person: User, muted: User, now: datetime, source_ip: str | None = None) -> None:
    """`person` gets no more messages of `muted`."""
    with transaction.atomic():
        _row, made = Mute.objects.get_or_create(person=person, muted=muted, defaults={"created_at": now})
        if made:
            audit.record(now=now, actor=person, action="person.mute", target=person, source_ip=source_ip)


def unmute(*, row: Mute, now: datetime, source_ip: str | None = None) -> None:
    """They may write again."""
    with transaction.atomic():
        audit.record(
            now=now, actor=row.person, action="person.unmute", target=row.person, source_ip=source_ip
        )
        row.delete()


# --- inside ---------------------------------------------------------------------------------------


def _stranger(projects: list[str]) -> Text:
    if not projects:
        return Text(gettext_noop("Somebody"))
    return Text(gettext_noop("Somebody of %(project)s"), project=as_written(projects[0]))


def _checked(text: str) -> str:
    try:
        said = texts.plain(text)
    except texts.UncleanText as unclean:
        raise UnableToSend("text", unclean.message) from None
    if not said:
        raise UnableToSend("text", _("Say what you want to ask."))
    if len(said) > MAX_TEXT:
        raise UnableToSend("text", _("At most %(limit)s characters.") % {"limit": MAX_TEXT})
    return said


def _spend(sender: User, *, now: datetime) -> None:
    """Of two that are sent at once, the second counts the first."""
    User.objects.select_for_update().get(pk=sender.pk)
    # A question to several holders of one device is one.
    sent = HolderMessage.objects.filter(sender=sender).values("created_at").distinct()
    if (
        sent.filter(created_at__gt=now - HOUR).count() >= MOST_PER_HOUR
        or sent.filter(created_at__gt=now - DAY).count() >= MOST_PER_DAY
    ):
        raise UnableToSend("", _("You have sent many messages lately; please try again in an hour."))


def _send(message: HolderMessage, *, to: list[User], now: datetime, ip: str | None) -> HolderMessage:
    message.save(force_insert=True)
    audit.record(
        now=now,
        actor=message.sender,
        action="message.send",
        target=message,
        target_id=str(message.key),
        target_name=message.device,
        project=message.request.project,
        source_ip=ip,
    )
    deaf = set(Mute.objects.filter(person__in=to, muted=message.sender).values_list("person", flat=True))
    asks = message.thread_id is None
    for person in to:
        if person.pk in deaf or person.pk == message.sender_id:
            continue
        name = called([message.sender], reader=person)[message.sender_id]
        tell(
            people=[person],
            kind=Kind.MESSAGE,
            subject=Text(
                gettext_noop("%(who)s asks about %(device)s.")
                if asks
                else gettext_noop("%(who)s answers about %(device)s."),
                who=name,
                device=as_written(message.device),
            ),
            body=as_written(message.text),
            url=reverse("message-thread", args=[message.key]),
            key=f"message:{message.key}",
            thread=f"message-{message.thread_id or message.pk}",
            now=now,
        )
    return message
