"""Time zones as people choose them: by the name of a place, in their language."""

import zoneinfo
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from babel import Locale
from babel.core import get_global
from django.utils.translation import get_language, gettext, to_locale

# Abbreviations and Etc/GMT+3 mislead; the others are old copies of places.
NO_PLACES = ("Etc/", "SystemV/", "US/", "posix/", "right/")


def choices(chosen: str = "") -> list[tuple[str, str]]:
    """[(name, label)] for a select, by the offset from UTC that a place has now; with the one that is chosen
    already, whatever it is."""
    places = _places(get_language() or "en", datetime.now(UTC).date().isoformat())
    known = {"", "UTC", *(name for name, _label in places)}
    return [
        ("", gettext("As the browser says")),
        ("UTC", "UTC"),
        *([] if chosen in known else [(chosen, chosen)]),
        *places,
    ]


@lru_cache(maxsize=4)
def _places(language: str, day: str) -> list[tuple[str, str]]:
    locale, english = Locale.parse(to_locale(language)), Locale.parse("en")
    now = datetime.fromisoformat(day).replace(tzinfo=UTC)
    # A place may have several names (Asia/Calcutta, Asia/Kolkata): the one that says how it is called wins.
    names = [
        name for name in zoneinfo.available_timezones() if "/" in name and not name.startswith(NO_PLACES)
    ]
    names.sort(key=lambda name: (name.endswith(_city(english, name).replace(" ", "_")), name))
    found: dict[str, tuple[timedelta, str]] = {}
    for name in names:
        offset = now.astimezone(zoneinfo.ZoneInfo(name)).utcoffset() or timedelta()
        found[f"{_city(locale, name)} (UTC{_signed(offset)})"] = (offset, name)
    return [(name, label) for label, (_offset, name) in sorted(found.items(), key=lambda item: item[1])]


def _city(locale: Locale, name: str) -> str:
    # CLDR knows some places by an older name of the zone.
    known = get_global("zone_aliases").get(name, name)
    said = locale.time_zones.get(name) or locale.time_zones.get(known) or {}
    return str(said.get("city") or name.partition("/")[2].replace("_", " ").replace("/", ", "))


def _signed(offset: timedelta) -> str:
    minutes = int(offset.total_seconds() // 60)
    hours, rest = divmod(abs(minutes), 60)
    return f"{'−' if minutes < 0 else '+'}{hours:02d}:{rest:02d}"
