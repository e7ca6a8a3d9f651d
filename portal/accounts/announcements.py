"""What administrators tell everybody on the first page."""

from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils.translation import gettext as _

from portal.accounts.audit import changes, record
from portal.accounts.models import Announcement, AnnouncementDismissal, User

FIELDS = ("level", "text", "text_zh_hans", "starts_at", "ends_at", "dismissible")


class UnableToAnnounce(ValueError):
    """Why an announcement stays as it was; `field` names the input."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field, self.message = field, message


def announce(
    *, values: dict[str, Any], actor: User, now: datetime, source_ip: str | None = None
) -> Announcement:
    """A new announcement; `values` has FIELDS (without `starts_at` it begins now).
    Raises UnableToAnnounce."""
    values = values | {"starts_at": values.get("starts_at") or now}
    _check(values)
    with transaction.atomic():
        announcement = Announcement.objects.create(created_by=actor, **values)
        record(
            now=now,
            actor=actor,
            action="announcement.create",
            target=announcement,
            after={name: values[name] for name in FIELDS if name in values},
            source_ip=source_ip,
        )
    return announcement


def change_announcement(
    *,
    announcement: Announcement,
    values: dict[str, Any],
    actor: User,
    now: datetime,
    source_ip: str | None = None,
) -> None:
    """Tell it otherwise. Who put it away sees it again when its words change. Raises UnableToAnnounce."""
    values = values | {"starts_at": values.get("starts_at") or announcement.starts_at}
    _check(values)
    old, new = changes({name: getattr(announcement, name) for name in FIELDS}, values)
    if new is None:
        return
    with transaction.atomic():
        Announcement.objects.filter(pk=announcement.pk).update(**new)
        if new.keys() & {"text", "text_zh_hans", "level"}:
            AnnouncementDismissal.objects.filter(announcement=announcement).delete()
        record(
            now=now,
            actor=actor,
            action="announcement.change",
            target=announcement,
            before=old,
            after=new,
            source_ip=source_ip,
        )


def end_announcement(
    *, announcement: Announcement, actor: User, now: datetime, source_ip: str | None = None
) -> None:
    """Show it no more. One that has not begun yet goes; one that has ended stays as it is."""
    with transaction.atomic():
        row = Announcement.objects.select_for_update().filter(pk=announcement.pk).first()
        if row is None or (row.ends_at is not None and row.ends_at <= now):
            return
        record(
            now=now,
            actor=actor,
            action="announcement.end",
            target=row,
            before={"ends_at": row.ends_at},
            after={"ends_at": now},
            source_ip=source_ip,
        )
        if row.starts_at >= now:
            row.delete()
        else:
            Announcement.objects.filter(pk=row.pk).update(ends_at=now)


def dismiss(*, announcement: Announcement, user: User) -> None:
    """`user` wants to see it no more; nothing happens to one that cannot be put away."""
    if announcement.dismissible:
        AnnouncementDismissal.objects.get_or_create(announcement=announcement, user=user)


def _check(values: dict[str, Any]) -> None:
    if values.get("ends_at") is not None and values["ends_at"] <= values["starts_at"]:
        raise UnableToAnnounce("ends_at", _("The end must be later than the beginning."))
