"""What somebody asks for: which version, which months, whose charges."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, tzinfo

from django.utils.translation import gettext as _

from claims.focus.columns import LATEST, VERSIONS
from claims.history.intervals import MAX_TEXT
from claims.money.months import Month, NoMonth

# Ten years at once.
MOST_MONTHS = 120


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """`project` is a short name, `unattributed`, or "" for all that may be seen."""

    version: str
    months: tuple[Month, ...]
    project: str = ""
    errors: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def parse(cls, values: Mapping[str, str], *, now: datetime, zone: tzinfo) -> "Wanted":
        """From a query string: `version`, `period`, `through`, `project`. Without a period it is last month.
        What cannot be read is named in `errors`."""
        errors: dict[str, str] = {}
        version = _text(values.get("version")) or LATEST
        if version not in VERSIONS:
            errors["version"] = _("Choose one of: %(choices)s.") % {"choices": ", ".join(VERSIONS)}
        first = _month(values, "period", errors) or Month.of(now, zone).previous()
        last = _month(values, "through", errors) or first
        months = _between(first, last)
        if "through" not in errors and not months:
            errors["through"] = _("This is before the first month, or more than ten years after it.")
        return cls(
            version=version, months=months or (first,), project=_text(values.get("project")), errors=errors
        )

    @property
    def name(self) -> str:
        """Of a file with it, before its ending."""
        months = [str(month) for month in self.months]
        period = months[0] if len(months) == 1 else f"{months[0]}-to-{months[-1]}"
        of = f"-{self.project}" if self.project else ""
        return f"focus-{self.version}-{period}{of}"


def _month(values: Mapping[str, str], name: str, errors: dict[str, str]) -> Month | None:
    text = _text(values.get(name))
    try:
        return Month.parse(text) if text else None
    except NoMonth as error:
        errors[name] = str(error)
        return None


def _between(first: Month, last: Month) -> tuple[Month, ...]:
    """() where it is the wrong way round, or too many."""
    count = 12 * (last.year - first.year) + last.number - first.number + 1
    if not 1 <= count <= MOST_MONTHS:
        return ()
    found = [first]
    while len(found) < count:
        found.append(found[-1].next())
    return tuple(found)


def _text(value: str | None) -> str:
    return str(value or "").replace("\x00", "").strip()[:MAX_TEXT]
