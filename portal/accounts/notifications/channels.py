"""Which way to whom: what each person chose, or else the defaults."""

from collections.abc import Collection, Mapping

from django.conf import settings

from portal.accounts.models import NotificationChoice, User
from portal.accounts.notifications.kinds import (
    ALWAYS_IN_PORTAL,
    DEFAULTS,
    FOR_ADMINISTRATORS,
    Channel,
    Kind,
)


def mail_offered() -> bool:
    """Whether the desk can send mail at all."""
    return bool(settings.MAIL_OFFERED)


def channels_of(people: Collection[User], kind: str) -> Mapping[int, frozenset[Channel]]:
    """By person's pk the channels of this kind; one query."""
    chosen: dict[int, set[Channel]] = {person.pk: set(DEFAULTS[kind]) for person in people}
    for choice in NotificationChoice.objects.filter(person__in=people, kind=kind):
        if choice.channel in Channel.values:
            change = chosen[choice.person_id].add if choice.wanted else chosen[choice.person_id].discard
            change(Channel(choice.channel))
    if kind in ALWAYS_IN_PORTAL:
        for channels in chosen.values():
            channels.add(Channel.PORTAL)
    return {pk: frozenset(channels) for pk, channels in chosen.items()}


def offered_kinds(person: User) -> list[Kind]:
    """What the person may choose about."""
    return [kind for kind in Kind if kind not in FOR_ADMINISTRATORS or person.is_administrator]


def offered_channels() -> list[Channel]:
    return [channel for channel in Channel if channel != Channel.MAIL or mail_offered()]
