"""What the statements of some months say, each by itself or put together: amounts are those of their lines,
so that any sum of them is what is billed, to the last cent.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, tzinfo
from fractions import Fraction
from typing import Any

from django.db.models import Q
from django.http import Http404
from django.utils.translation import gettext as _

from claims.models import Charge, Statement, StatementLine
from claims.money.costs import Period
from claims.money.months import Month, NoMonth, months
from claims.money.statements import Line, Overview, lines_by_payer, overview, stored_lines, visible
from claims.money.usage import NOBODY, Key, Row
from portal import access
from portal.accounts.models import Project, User

# What rows can be put together by: all that a line of a statement tells.
DIMENSIONS = ("month", "project", "state", "cost_centre", "kind", "product", "class")
MAX_TEXT = 253


@dataclass(frozen=True, kw_only=True)
class Asked:
    """Which statements: of which months, of which project and in which state ("" = any)."""

    months: Sequence[Month]
    project: str = ""
    state: str = ""
    group_by: Sequence[str] = ()
    errors: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, values: Mapping[str, str], *, now: datetime, zone: tzinfo) -> "Asked":
        """From a query string; what cannot be read is named in `errors`. The month before this one unless it
        says otherwise; of a period every month that it touches."""
        typed = {
            name: str(values.get(name) or "").replace("\x00", "").strip()[:MAX_TEXT]
            for name in ("month", "from", "to", "project", "state", "group_by")
        }
        errors: dict[str, str] = {}
        found = [Month.of(now, zone).previous()]
        try:
            found = [Month.parse(typed["month"])] if typed["month"] else found
        except NoMonth as error:
            errors["month"] = str(error)
        if typed["from"] or typed["to"]:
            period = Period.parse(values, now=now, zone=zone)
            errors |= period.errors
            if typed["month"]:
                errors["month"] = _("Say either a month, or from when to when.")
            found = months(period.start, period.end, zone)
        if typed["state"] and typed["state"] not in Statement.State.values:
            errors["state"] = _("Choose one of: %(choices)s.") % {
                "choices": ", ".join(Statement.State.values)
            }
        names = [name.strip() for name in typed["group_by"].split(",") if name.strip()]
        if any(name not in DIMENSIONS for name in names):
            errors["group_by"] = _("Choose one of: %(choices)s.") % {"choices": ", ".join(DIMENSIONS)}
        return cls(
            months=found,
            project=typed["project"],
            state=typed["state"],
            group_by=tuple(dict.fromkeys(names)),
            errors=errors,
        )


def statements_of(asked: Asked, *, viewer: User, zone: tzinfo, now: datetime) -> list[tuple[Month, Overview]]:
    """The statements that the reader may see, by month and project, nobody's last. Raises Http404 for a
    project that is none of theirs."""
    found = []
    for month, payers in _payers(asked, viewer):
        rows = overview(
            month=month,
            projects=[payer for payer in payers if payer],
            unattributed=None in payers,
            zone=zone,
            now=now,
        )
        found += [(month, row) for row in rows if asked.state in ("", row.state)]
    return sorted(found, key=key_of)


def key_of(row: tuple[Month, Overview]) -> list[str]:
    """Where a statement stands among others."""
    month, told = row
    if told.project is None:
        return [str(month), "1", "", ""]
    return [str(month), "0", told.project.name, told.project.slug]


def put_together(asked: Asked, *, viewer: User, zone: tzinfo, now: datetime) -> list[Row]:
    """Their lines by `asked.group_by`, in order of their keys. Raises Http404 as above."""
    told: dict[Key, list[Any]] = {}
    for month, payer, state, line in _lines(asked, viewer, zone, now):
        said = {
            "month": str(month),
            "project": payer.slug if payer else "",
            "state": state,
            "cost_centre": line.key.cost_centre,
            "kind": line.key.kind,
            "product": line.key.product,
            "class": line.key.device_class,
        }
        groups = tuple(said[name] for name in asked.group_by)
        currency = line.key.currency if line.exact is not None else ""
        found = told.setdefault(Key(groups, line.key.unit, line.key.per, currency), [Fraction(0), None, None])
        found[0] += line.time
        if line.exact is not None:
            found[1], found[2] = (found[1] or 0) + line.exact, (found[2] or 0) + (line.minor or 0)
    return [Row(key=key, time=told[key][0], exact=told[key][1], minor=told[key][2]) for key in sorted(told)]


def _payers(asked: Asked, viewer: User) -> Iterator[tuple[Month, list[Project | None]]]:
    sees_all = access.may_see_costs_of_all(viewer)
    nobody = asked.project == NOBODY and sees_all
    if asked.project and not nobody and not Project.objects.visible_to(viewer).filter(slug=asked.project):
        raise Http404
    for month in asked.months:
        payers: list[Project | None] = []
        if not nobody:
            payers += [p for p in visible(viewer, month=month) if asked.project in ("", p.slug)]
        if nobody or (sees_all and not asked.project):
            payers.append(None)
        yield month, payers


def _lines(
    asked: Asked, viewer: User, zone: tzinfo, now: datetime
) -> Iterator[tuple[Month, Project | None, str, Line]]:
    for month, payers in _payers(asked, viewer):
        rows = {row.project_id: row for row in Statement.objects.filter(month=str(month))}
        wanted = []
        for payer in payers:
            row = rows.get(payer.pk if payer else None)
            state = row.state if row else Statement.State.OPEN
            if asked.state in ("", state):
                wanted.append((payer, row, str(state)))
        closed = [row for _payer, row, state in wanted if row and state == Statement.State.CLOSED]
        stored: dict[int, list[StatementLine]] = {row.pk: [] for row in closed}
        for kept in StatementLine.objects.filter(statement__in=closed).order_by("statement", "position"):
            stored[kept.statement_id].append(kept)
        growing = [payer for payer, _row, state in wanted if state != Statement.State.CLOSED]
        charged = Q(project__in=[payer for payer in growing if payer])
        if None in growing:
            charged |= Q(project=None)
        charges = Charge.objects.filter(charged, month=str(month))
        fresh = lines_by_payer(charges, now=min(now, month.bounds(zone)[1])) if growing else {}
        for payer, row, state in wanted:
            kept_lines = stored.get(row.pk) if row else None
            lines = (
                fresh.get(payer.pk if payer else None, []) if kept_lines is None else stored_lines(kept_lines)
            )
            for line in lines:
                yield month, payer, state, line
