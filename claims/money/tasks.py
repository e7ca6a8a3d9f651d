"""Celery tasks of money: rating what changed, and watching budgets. And what follows a project's form."""

import hashlib
from collections.abc import Collection
from datetime import datetime, tzinfo
from typing import Any

from celery import shared_task
from django.conf import settings
from django.core.cache import cache
from django.db.models import Count, Max, Min
from django.utils import timezone

from claims.models import Allocation, ChargeMonth, CostCentre, PriceBook, Statement
from claims.money import announcing, budgets, centres, rollup, touched
from claims.money.correcting import closed_from
from claims.money.idle_cost import rate_idle
from claims.money.months import Month, months, zone_named
from claims.money.rated import Rated, rate_claims, rate_month
from inventory.models import NamespaceBinding
from portal.accounts.models import Project
from portal.sole import sole

# The present month, and those in which much may still turn out to be otherwise.
MONTHS = 3
IDLE_EVERY = 3_600
LATE_EVERY = 86_400


@shared_task(name="claims.money.tasks.rate", ignore_result=True)
def rate() -> None:
    """Rate the last months where anything that prices them has changed, and tell of budgets."""
    with sole("claims:rating") as ours:
        if ours:
            now = timezone.now()
            rate_changed(now=now)
            budgets.watch(zone=zone_named(settings.ORGANISATION_ZONE), now=now)


def rate_changed(*, now: datetime) -> list[Month]:
    """The months that were rated."""
    zone = zone_named(settings.ORGANISATION_ZONE)
    centres.settle(now=now)
    # Before anything is read of the ledger: what is written meanwhile is of the next time.
    written = touched.changes()
    month, done = Month.of(now, zone), []
    for _number in range(MONTHS):
        # Once a day everything is rated in any case: it mends what nobody could tell.
        if _rate(month, (_fingerprint(), f"{now:%Y-%m-%d}"), written, zone=zone, now=now) is not None:
            done.append(month)
        # Idle time grows with every moment: now and then is enough before the month is reviewed, and what is
        # learnt of a closed one is corrected once a day.
        every = LATE_EVERY if (None, str(month)) in closed_from(month) else IDLE_EVERY
        if cache.get(f"claims:idle:{month}") is None:
            rate_idle(month=month, zone=zone, now=now)
            # Afterwards: what failed is tried in the next round.
            cache.set(f"claims:idle:{month}", 1, timeout=every)
        month = month.previous()
    # Earlier months change seldom: by what comes late, or by a binding that is entered for long ago. What was
    # used then was not idle.
    for earlier in _earlier(before=month.next(), zone=zone):
        if not cache.add(f"claims:late:{earlier}", 1, timeout=LATE_EVERY):
            continue
        told = _rate(earlier, (_fingerprint(), ""), written, zone=zone, now=now)
        if told is not None:
            done.append(earlier)
        if told is not None and not told.nothing:
            rate_idle(month=earlier, zone=zone, now=now)
    _forget(written, now=now, zone=zone)
    rollup.refresh(zone=zone)
    return done


def _rate(
    month: Month, otherwise: tuple[str, str], written: dict[int, int], *, zone: tzinfo, now: datetime
) -> Rated | None:
    """Rate the month if anything that prices it has changed since it was rated last (else None): all of it,
    unless only the ledger is another, and it is known where."""
    key, state = _key(month), (otherwise, written)
    known = cache.get(key)
    if known == state:
        return None
    found = None
    if isinstance(known, tuple) and known[0] == otherwise:
        found = touched.since(known[1], written)
    if found is None:
        told = rate_month(month=month, zone=zone)
    else:
        told = rate_claims(month=month, zone=zone, claims=found.claims, gone=found.gone)
    announcing.corrections(month=month, now=now)
    cache.set(key, state, timeout=None)
    return told


def _forget(written: dict[int, int], *, now: datetime, zone: tzinfo) -> None:
    """What every month has seen of the ledger need not be kept in mind; earlier ones see it once a day."""
    seen = dict(written)
    earlier = _earlier(before=Month.of(now, zone), zone=zone)
    for state in cache.get_many([_key(month) for month in earlier]).values():
        if isinstance(state, tuple):
            seen = {cluster: min(number, state[1].get(cluster, 0)) for cluster, number in seen.items()}
    touched.forget(seen)


def _key(month: Month) -> str:
    return f"claims:rated:{month}"


def _earlier(*, before: Month, zone: tzinfo) -> list[Month]:
    """Months before that one that have charges, and all since something was held that had a price: what a
    cluster has held when it is added was allocated long ago. The latest first."""
    charged = ChargeMonth.objects.filter(month__lt=str(before)).values_list("month", flat=True)
    found = {Month.parse(month) for month in charged}
    held = Allocation.objects.order_by("started_at").values_list("started_at", flat=True).first()
    priced = PriceBook.objects.aggregate(first=Min("valid_from"))["first"]
    if held is not None and priced is not None:
        found.update(months(max(held, priced), before.start(zone), zone))
    return sorted(found, reverse=True)


def _fingerprint() -> str:
    """Another one whenever charges may have become others without the ledger."""
    books = PriceBook.objects.aggregate(Max("pk"))
    moved = CostCentre.objects.aggregate(Max("pk"), Max("recorded_at"), Count("pk"))
    bound = NamespaceBinding.objects.aggregate(Max("pk"), Max("valid_until"), Count("valid_until"))
    codes = Project.objects.values_list("pk", "cost_centre").order_by("pk")
    closed = Statement.objects.filter(state=Statement.State.CLOSED).count()
    said = (settings.ORGANISATION_ZONE, books, moved, bound, list(codes), closed)
    return hashlib.sha256(repr(said).encode()).hexdigest()


def on_project_saving(
    *, instance: Project, update_fields: Collection[str] | None = None, **_kwargs: Any
) -> None:
    """What a project's cost centre was until now is known until it is overwritten."""
    if instance.pk is not None and (update_fields is None or "cost_centre" in update_fields):
        centres.remember(project=instance, now=timezone.now())


def on_project_saved(
    *, instance: Project, created: bool, update_fields: Collection[str] | None = None, **_kwargs: Any
) -> None:
    """A project's cost centre was changed by its form or an import: from now on it belongs there. (Not where
    something else was changed while a move that was planned is not shown yet.)"""
    if not created and (update_fields is None or "cost_centre" in update_fields):
        centres.follow(project=instance, now=timezone.now())
