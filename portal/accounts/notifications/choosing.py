"""What a person wants to hear of, and by which channel."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from portal.accounts.audit import changes, record
from portal.accounts.models import NotificationChoice, User
from portal.accounts.notifications.channels import offered_channels, offered_kinds
from portal.accounts.notifications.kinds import ALWAYS_IN_PORTAL, DEFAULTS, Channel, Kind

# By kind and channel.
Choices = Mapping[tuple[Kind, Channel], bool]


@dataclass(frozen=True)
class Cell:
    """One box of the table: `fixed` ones cannot be changed."""

    kind: Kind
    channel: Channel
    wanted: bool
    fixed: bool

    @property
    def name(self) -> str:
        return f"{self.kind}-{self.channel}"


def cells(person: User) -> list[list[Cell]]:
    """What the person has now, a row per kind and a cell per channel; one query."""
    chosen = {
        (choice.kind, choice.channel): choice.wanted
        for choice in NotificationChoice.objects.filter(person=person)
    }
    return [
        [
            Cell(
                kind=kind,
                channel=channel,
                wanted=_fixed(kind, channel) or chosen.get((kind, channel), channel in DEFAULTS[kind]),
                fixed=_fixed(kind, channel),
            )
            for channel in offered_channels()
        ]
        for kind in offered_kinds(person)
    ]


def choose(*, person: User, choices: Choices, now: datetime, source_ip: str | None = None) -> None:
    """Keep these choices; what they do not name stays. What the person is not offered, and what is told in
    any case, is left alone."""
    table = {(cell.kind, cell.channel): cell for row in cells(person) for cell in row if not cell.fixed}
    wanted = {key: value for key, value in choices.items() if key in table}
    before, after = changes(
        {table[key].name: table[key].wanted for key in wanted},
        {table[key].name: value for key, value in wanted.items()},
    )
    if after is None:
        return
    with transaction.atomic():
        for (kind, channel), value in wanted.items():
            if table[kind, channel].name in after:
                NotificationChoice.objects.update_or_create(
                    person=person, kind=kind, channel=channel, defaults={"wanted": value}
                )
        record(
            now=now,
            actor=person,
            action="person.notifications",
            target=person,
            before=before,
            after=after,
            source_ip=source_ip,
        )


def _fixed(kind: Kind, channel: Channel) -> bool:
    return channel == Channel.PORTAL and kind in ALWAYS_IN_PORTAL
