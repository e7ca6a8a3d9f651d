"""Periods of cost and who may see whose."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo

from django.utils.translation import gettext as _

from claims.history.intervals import MAX_TEXT, parse_bound
from claims.money.months import Month
from portal.accounts.models import Project, User

# Rating a period is work; nobody needs more at once.
LONGEST = timedelta(days=3 * 366)


@dataclass(frozen=True, kw_only=True)
class Period:
    """[start, end) as asked for. What could not be read is named in `errors`; the present month stands in."""

    start: datetime
    end: datetime
    typed: Mapping[str, str] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, values: Mapping[str, str], *, now: datetime, zone: tzinfo = UTC) -> "Period":
        """From ``from`` and ``to``: dates, which begin in `zone`, or ISO 8601 times (UTC unless they say
        otherwise)."""
        typed = {n: str(values.get(n) or "").replace("\x00", "").strip()[:MAX_TEXT] for n in ("from", "to")}
        errors: dict[str, str] = {}
        bounds: dict[str, datetime | None] = {"from": None, "to": None}
        for name in bounds:
            try:
                bounds[name] = parse_bound(typed[name], zone, end=name == "to")
            except ValueError as error:
                errors[name] = str(error)
        start = bounds["from"] or month_start(
            bounds["to"] - timedelta(microseconds=1) if bounds["to"] else now, zone
        )
        end = bounds["to"] or next_month(start, zone)
        if not errors and start >= end:
            errors["to"] = _("The end must be later than the beginning.")
        elif not errors and end - start > LONGEST:
            errors["to"] = _("At most three years at once.")
        if errors:
            start = month_start(now, zone)
            end = next_month(start, zone)
        return cls(start=start, end=end, typed=typed, errors=errors)


def month_start(moment: datetime, zone: tzinfo = UTC) -> datetime:
    """The first instant of the month, as it is in `zone`."""
    return Month.of(moment, zone).start(zone)


def next_month(moment: datetime, zone: tzinfo = UTC) -> datetime:
    """The first instant of the month after that of `moment`."""
    return Month.of(moment, zone).next().start(zone)


def visible_projects(user: User) -> list[Project]:
    """Projects whose cost `user` may see, by name."""
    return list(Project.objects.all().visible_to(user).order_by("name"))
