"""What a person finds in the portal: read, put away, and gone after a while."""

from datetime import datetime, timedelta

from django.db.models import F

from portal.accounts.models import Delivery, Notification, User
from portal.accounts.notifications.models import NotificationQuerySet

# Read or not, nothing older is kept.
KEPT_FOR = timedelta(days=90)
BATCH = 1000
# The bell counts no further.
MOST_COUNTED = 99


def unread_count(person: User) -> int:
    """How many the person has not read, up to MOST_COUNTED + 1; one query."""
    rows = Notification.objects.of(person).unread().values("pk")[: MOST_COUNTED + 1]
    return rows.count()


def inbox(person: User, *, kind: str = "") -> NotificationQuerySet:
    """What the person is shown, unread first, then the newest."""
    rows = Notification.objects.of(person).select_related("project")
    if kind:
        rows = rows.filter(kind=kind)
    return rows.order_by(F("read_at").asc(nulls_first=True), "-created_at", "-pk")


def newest(person: User, *, kind: str = "") -> NotificationQuerySet:
    """The same in the order of time, which does not change while somebody reads on."""
    return inbox(person, kind=kind).order_by("-created_at", "-pk")


def read(*, person: User, now: datetime, pk: int | None = None, kind: str = "") -> int:
    """The person has read one, all of a kind, or all. Returns how many were unread; another's stay."""
    rows = Notification.objects.of(person).unread()
    if pk is not None:
        rows = rows.filter(pk=pk)
    if kind:
        rows = rows.filter(kind=kind)
    return rows.update(read_at=now)


def prune(*, now: datetime) -> int:
    """Delete what is older than KEPT_FOR, and what was finished in the outbox then; how many went."""
    before, gone = now - KEPT_FOR, 0
    for rows in (
        Notification.objects.filter(created_at__lt=before),
        Delivery.objects.filter(created_at__lt=before).exclude(state=Delivery.State.PENDING),
    ):
        while pks := list(rows.order_by("created_at").values_list("pk", flat=True)[:BATCH]):
            rows.model.objects.filter(pk__in=pks).delete()
            gone += len(pks)
    return gone
