"""Whose turn it is: many messages for an address that does not answer keep neither workers nor others
waiting.

An address that failed rests, longer each time; after a rest it is tried by one message alone, the oldest, so
that after the last attempt at that one it is known to be gone. Where nothing answers at all, everything at
the same host rests with it. What answers slowly has a few calls at once and no more.
"""

from collections import Counter
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from django.db.models import F, Q, QuerySet, Window
from django.db.models.functions import RowNumber

from portal.accounts.models import Delivery, Webhook
from portal.accounts.notifications.kinds import Channel

# Calls at one host at once, and calls at hosts that failed last time, wherever they are.
AT_ONE_HOST = 2
TRIED_AT_ONCE = 2


def rest(hook: Webhook, *, now: datetime, pause: timedelta, answered: bool) -> None:
    """Leave the address alone for a while; unless it `answered`, whatever else is at its host, too."""
    rows = Webhook.objects.filter(pk=hook.pk)
    if not answered:
        origin = origin_of(hook.url)
        at_host = Q(url=origin) | Q(url__startswith=f"{origin}/") | Q(url__startswith=f"{origin}?")
        rows = Webhook.objects.filter(Q(pk=hook.pk) | at_host)
    rows.update(rests_until=now + pause)


def resting(delivery: int, *, now: datetime) -> bool:
    """Whether the address of the delivery (by primary key) is left alone now. A test is for who waits for
    it."""
    return _of_resting(Delivery.objects.filter(pk=delivery), now).exists()


def in_turn(rows: "QuerySet[Delivery]", *, now: datetime, limit: int) -> list[int]:
    """Of these deliveries, those that somebody should take now (by primary key): mails the oldest first, and
    of each address as many as it may have. The number of queries does not depend on theirs."""
    mails = rows.filter(channel=Channel.MAIL).order_by("due_at", "pk").values_list("pk", flat=True)
    calls = rows.filter(channel=Channel.WEBHOOK).exclude(pk__in=_of_resting(rows, now).values("pk"))
    place = Window(RowNumber(), partition_by=F("webhook"), order_by=["created_at", "pk"])
    first = calls.annotate(place=place).filter(place__lte=AT_ONE_HOST).order_by("due_at", "pk")
    going = Delivery.objects.filter(
        channel=Channel.WEBHOOK, state=Delivery.State.PENDING, leased_until__gt=now
    )
    at_host: Counter[str] = Counter()
    tried = 0
    for url, failures in going.values_list("webhook__url", "webhook__failures"):
        at_host[origin_of(url)] += 1
        tried += bool(failures)
    found = list(mails[:limit])
    columns = ("pk", "place", "kind", "webhook__url", "webhook__failures")
    for pk, turn, kind, url, failures in first.values_list(*columns)[:limit]:
        origin, failed = origin_of(url), bool(failures) and kind != "test"
        if failed and (turn > 1 or at_host[origin] or tried >= TRIED_AT_ONCE):
            continue
        if at_host[origin] >= AT_ONE_HOST:
            continue
        at_host[origin] += 1
        tried += failed
        found.append(pk)
    return found


def origin_of(url: str) -> str:
    """Scheme, host and port of an address."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def _of_resting(rows: "QuerySet[Delivery]", now: datetime) -> "QuerySet[Delivery]":
    return rows.filter(webhook__rests_until__gt=now, webhook__disabled_at=None).exclude(kind="test")
