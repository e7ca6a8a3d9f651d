"""What flavors say, for administrators: their terms, read with every error at once."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar

from django.contrib.auth.models import Group
from django.core.validators import validate_slug
from django.db import models
from django.forms import ValidationError
from django.utils.translation import gettext as _

from claims.asks.reading import (
    WrongValue,
    WrongValues,
    read_choice,
    read_flag,
    read_integer,
    read_many,
    read_quantity,
    read_text,
)
from claims.catalogue.hold_terms import read_hold
from claims.catalogue.icons import ICONS
from claims.models import Flavor
from portal.accounts.models import Project
from portal.dra.quantity import Quantity

T = TypeVar("T")

MAX_COUNT = 32
HOUR = timedelta(hours=1)
MAX_HOURS = 90 * 24
MAX_BOOKABLE_DAYS = 365
MAX_IDLE_HOURS = 30 * 24


class UnableToChangeFlavor(WrongValues):
    """`errors` maps field names (or WHOLE) to messages; `conflict` = somebody else was faster."""


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What a flavor says. Durations are whole hours, memory Kubernetes quantities ("" = no bound)."""

    slug: str
    name: str
    description: str = ""
    offers: str = ""
    icon: str = "cpu"
    min_count: int = 1
    default_count: int = 1
    max_count: int = 8
    min_memory: str = ""
    default_memory: str = ""
    max_memory: str = ""
    min_hours: int = 1
    default_hours: int = 24
    max_hours: int = 7 * 24
    visibility: str = Flavor.Visibility.ALL
    projects: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    approval: str = Flavor.Approval.NONE
    own_approval: bool = False
    ends_pods: bool = False
    hold_steps_aside: bool = False
    hold_image: str = ""
    hold_pull_secret: str = ""
    hold_priority_class: str = ""
    hold_tolerations: tuple[Mapping[str, str], ...] = ()
    idle_hours: int = 0
    idle_release: bool = False
    bookable_days: int = 28
    bookings_kept: bool = False

    def as_dict(self) -> dict[str, Any]:
        """For audit entries, forms and REST."""
        return {name: _plain(value) for name, value in vars(self).items()}


TERMS = tuple(Terms.__dataclass_fields__)


def _plain(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def terms_of(flavor: Flavor) -> Terms:
    """The terms of a stored flavor; two queries for projects and groups."""
    return Terms(
        slug=flavor.slug,
        name=flavor.name,
        description=flavor.description,
        offers=flavor.offers,
        icon=flavor.icon,
        min_count=flavor.min_count,
        default_count=flavor.default_count,
        max_count=flavor.max_count,
        min_memory=flavor.min_memory,
        default_memory=flavor.default_memory,
        max_memory=flavor.max_memory,
        min_hours=flavor.min_duration // HOUR,
        default_hours=flavor.default_duration // HOUR,
        max_hours=flavor.max_duration // HOUR,
        visibility=flavor.visibility,
        projects=tuple(sorted(project.slug for project in flavor.projects.all())),
        groups=tuple(sorted(group.name for group in flavor.groups.all())),
        approval=flavor.approval,
        own_approval=flavor.own_approval,
        ends_pods=flavor.ends_pods,
        hold_steps_aside=flavor.hold_steps_aside,
        hold_image=flavor.hold_image,
        hold_pull_secret=flavor.hold_pull_secret,
        hold_priority_class=flavor.hold_priority_class,
        hold_tolerations=tuple(flavor.hold_tolerations),
        idle_hours=flavor.idle_hours,
        idle_release=flavor.idle_release,
        bookable_days=flavor.bookable_days,
        bookings_kept=flavor.bookings_kept,
    )


# --- reading ----------------------------------------------------------------------------------------


@dataclass
class _Reading:
    values: Mapping[str, object]
    errors: dict[str, list[str]] = field(default_factory=dict)

    def attempt(self, name: str, read: Callable[[], T], default: T) -> T:
        try:
            return read()
        except WrongValue as error:
            self.wrong(name, str(error))
            return default

    def wrong(self, name: str, message: str) -> None:
        self.errors.setdefault(name, []).append(message)

    def text(self, name: str, limit: int) -> str:
        return self.attempt(name, lambda: read_text(self.values, name, limit=limit), "")

    def number(self, name: str, default: int, most: int, *, least: int = 1) -> int:
        def read() -> int:
            number = read_integer(self.values, name)
            if number is None:
                return default
            if not least <= number <= most:
                raise WrongValue(_("A number from %(least)s to %(most)s.") % {"least": least, "most": most})
            return number

        return self.attempt(name, read, default)


def read_terms(values: Mapping[str, object]) -> Terms:
    """The terms in `values` (keys as in TERMS). Raises UnableToChangeFlavor with every error at once."""
    seen = _Reading(values)
    plain = Terms(slug="", name="")
    terms = Terms(
        slug=seen.attempt("slug", lambda: _slug(values), ""),
        name=seen.text("name", 120),
        description=seen.text("description", 1000),
        offers=seen.text("offers", 1000),
        icon=seen.attempt(
            "icon", lambda: _or(read_choice, values, "icon", list(ICONS), plain.icon), plain.icon
        ),
        min_count=seen.number("min_count", plain.min_count, MAX_COUNT),
        default_count=seen.number("default_count", plain.default_count, MAX_COUNT),
        max_count=seen.number("max_count", plain.max_count, MAX_COUNT),
        min_memory=seen.attempt("min_memory", lambda: read_quantity(values, "min_memory"), ""),
        default_memory=seen.attempt("default_memory", lambda: read_quantity(values, "default_memory"), ""),
        max_memory=seen.attempt("max_memory", lambda: read_quantity(values, "max_memory"), ""),
        min_hours=seen.number("min_hours", plain.min_hours, MAX_HOURS),
        default_hours=seen.number("default_hours", plain.default_hours, MAX_HOURS),
        max_hours=seen.number("max_hours", plain.max_hours, MAX_HOURS),
        visibility=seen.attempt(
            "visibility",
            lambda: _or(read_choice, values, "visibility", Flavor.Visibility.values, plain.visibility),
            plain.visibility,
        ),
        projects=seen.attempt("projects", lambda: _known(values, "projects", Project, "slug"), ()),
        groups=seen.attempt("groups", lambda: _known(values, "groups", Group, "name"), ()),
        approval=seen.attempt(
            "approval",
            lambda: _or(read_choice, values, "approval", Flavor.Approval.values, plain.approval),
            plain.approval,
        ),
        own_approval=read_flag(values, "own_approval"),
        ends_pods=read_flag(values, "ends_pods"),
        hold_steps_aside=read_flag(values, "hold_steps_aside"),
        **read_hold(values, seen.wrong),
        idle_hours=seen.number("idle_hours", plain.idle_hours, MAX_IDLE_HOURS, least=0),
        idle_release=read_flag(values, "idle_release"),
        bookable_days=seen.number("bookable_days", plain.bookable_days, MAX_BOOKABLE_DAYS, least=0),
        bookings_kept=read_flag(values, "bookings_kept"),
    )
    if not terms.name and "name" not in seen.errors:
        seen.wrong("name", _("Give it a name that researchers understand."))
    _in_order(seen, terms)
    if terms.visibility == Flavor.Visibility.PROJECTS and not terms.projects:
        seen.errors.setdefault("projects", [_("Choose at least one project; else nobody sees it.")])
    if terms.visibility == Flavor.Visibility.GROUPS and not terms.groups:
        seen.errors.setdefault("groups", [_("Choose at least one group; else nobody sees it.")])
    if seen.errors:
        raise UnableToChangeFlavor(seen.errors)
    return terms


def _or(
    read: Callable[[Mapping[str, object], str, Sequence[Any]], str],
    values: Mapping[str, object],
    name: str,
    choices: Sequence[Any],
    default: str,
) -> str:
    return read(values, name, choices) if values.get(name) not in (None, "") else default


def _slug(values: Mapping[str, object]) -> str:
    slug = read_text(values, "slug", limit=63)
    try:
        validate_slug(slug)
    except ValidationError:
        slug = ""
    if not slug or slug != slug.lower():
        raise WrongValue(_("Lower-case letters, digits, hyphens and underscores, such as h100-80g."))
    return slug


def _known(
    values: Mapping[str, object], name: str, model: type[models.Model], column: str
) -> tuple[str, ...]:
    wanted = sorted(set(read_many(values, name)))
    rows = model._default_manager.filter(**{f"{column}__in": wanted})
    missing = set(wanted) - set(rows.values_list(column, flat=True))
    if missing:
        raise WrongValue(_("There is no “%(name)s” (any more).") % {"name": sorted(missing)[0][:63]})
    return tuple(wanted)


def _in_order(seen: _Reading, terms: Terms) -> None:
    """Least, usual and most must be in that order; the error stands at the larger one."""
    for kind in ("count", "hours"):
        least, usual, most = (getattr(terms, f"{bound}_{kind}") for bound in ("min", "default", "max"))
        if usual < least:
            seen.wrong(f"default_{kind}", _("Less than the least, %(least)s.") % {"least": least})
        if most < usual:
            seen.wrong(f"max_{kind}", _("Less than the usual, %(usual)s.") % {"usual": usual})
    if any(name in seen.errors for name in ("min_memory", "default_memory", "max_memory")):
        return
    least, usual, most = terms.min_memory, terms.default_memory, terms.max_memory
    if least and usual and Quantity.parse(usual) < Quantity.parse(least):
        seen.wrong("default_memory", _("Less than the least, %(least)s.") % {"least": least})
    lower = usual or least
    if lower and most and Quantity.parse(most) < Quantity.parse(lower):
        seen.wrong("max_memory", _("Less than the usual, %(usual)s.") % {"usual": lower})
