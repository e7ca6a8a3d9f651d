"""Whether charges are still what they were, without looking at each of them: for answers that are sent again
only where they are others.

Whoever writes charges of a month bumps its `ChargeMonth`; closing is told by statements. Looked at one by one
are only amounts that no time makes, which are few, and months that nobody has bumped yet.
"""

import hashlib
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from django.db.models import QuerySet

from claims.history.curves import us
from claims.history.intervals import names
from claims.models import Charge, ChargeMonth, Statement
from claims.money.rollup import months_within
from claims.money.usage import Wanted, permitted
from portal import access
from portal.accounts.models import Project, User

FETCH = 5_000


def version(wanted: Wanted, *, viewer: User, now: datetime) -> Sequence[object]:
    """What changes whenever something does that `viewer` is answered to this question, whatever it is put
    together by. Raises Http404 for a project that is none of theirs."""
    start, end = us(wanted.period.start), wanted.end_us(now)
    rows = permitted(Charge.objects.all(), wanted, viewer)
    near = months_within(start, end, wanted.zone, billed=wanted.billed)
    runs = False
    if end < us(wanted.period.end):
        # What goes on is counted up to now: the answer is another with every moment.
        running = rows.filter(fixed=None, started_us__lt=end, ended_us__gt=end)
        runs = (running if near is None else running.filter(month__in=near)).exists()
    return [
        *(viewer.pk, start, us(wanted.period.end), runs and end, str(wanted.zone), names(), *seen_by(viewer)),
        *version_of(rows, months=near, start_us=start, end_us=end),
    ]


def seen_by(viewer: User) -> Sequence[object]:
    """Whose charges a reader may see, and of whose the persons."""
    projects = Project.objects.order_by("pk")
    return [
        "all"
        if access.may_see_costs_of_all(viewer)
        else list(projects.visible_to(viewer).values_list("pk", flat=True)),
        "all"
        if access.may_read_everything(viewer)
        else list(projects.detailed_to(viewer).values_list("pk", flat=True)),
    ]


def version_of(
    rows: QuerySet[Charge],
    *,
    months: Collection[str] | None,
    start_us: int | None = None,
    end_us: int | None = None,
) -> Sequence[object]:
    """What changes whenever some of these charges do: those of some months (None = any), and amounts that no
    time makes within [start, end), in microseconds since 1970."""
    known, statements = ChargeMonth.objects.order_by("month"), Statement.objects.order_by("pk")
    timed = rows.filter(fixed=None)
    if months is not None:
        known, statements = known.filter(month__in=months), statements.filter(month__in=months)
    versions = list(known.values_list("month", "version"))
    bumped = {month for month, _version in versions}
    if months is None:
        timed = timed.exclude(month__in=bumped)
    else:
        timed = timed.filter(month__in=set(months) - bumped)
    fixed = rows.filter(fixed__isnull=False)
    if start_us is not None:
        fixed = fixed.filter(started_us__gte=start_us)
    if end_us is not None:
        fixed = fixed.filter(started_us__lt=end_us)
    states = list(statements.values_list("pk", "state", "zone"))
    return [versions, states, _digest(timed), _digest(fixed)]


def _digest(rows: QuerySet[Any]) -> str:
    """Of charges one by one."""
    told = hashlib.sha256()
    values = rows.order_by("pk").values_list("pk", "content", "closed", "project_id", "cluster_id")
    for row in values.iterator(chunk_size=FETCH):
        told.update(repr(row).encode())
    return told.hexdigest()
