"""What people may set about themselves, and how they come into being."""

from datetime import datetime

from django.db import transaction

from portal.accounts.audit import changes, record
from portal.accounts.models import User


def change_profile(
    *,
    user: User,
    first_name: str,
    last_name: str,
    language: str,
    time_zone: str,
    now: datetime,
    source_ip: str | None = None,
) -> None:
    """Sets name, language and time zone ("" = as the browser says, UTC) and records what differs."""
    fields = ("first_name", "last_name", "language", "time_zone")
    before = {name: getattr(user, name) for name in fields}
    after = dict(zip(fields, (first_name, last_name, language, time_zone), strict=True))
    old, new = changes(before, after)
    if old is None:
        return
    for name, value in after.items():
        setattr(user, name, value)
    with transaction.atomic():
        user.save(update_fields=list(after))
        record(
            now=now,
            actor=user,
            action="person.change",
            target=user,
            before=old,
            after=new,
            source_ip=source_ip,
        )
