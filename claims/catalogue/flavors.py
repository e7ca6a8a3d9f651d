"""Flavors for administrators: what they say, checked; making, changing, ordering and archiving them.

Every change names the version that it was made from. Who changes an older one is told of the conflict and
loses nothing: not what the other did, and not what they typed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.contrib.auth.models import Group
from django.core.validators import validate_slug
from django.db import IntegrityError, models, transaction
from django.forms import ValidationError
from django.utils.translation import gettext as _

from claims.asks.reading import (
    WHOLE,
    WrongValue,
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
from portal.accounts import audit
from portal.accounts.models import Project, User
from portal.dra.quantity import Quantity

T = TypeVar("T")

MAX_COUNT = 32
HOUR = timedelta(hours=1)
MAX_HOURS = 90 * 24
MAX_BOOKABLE_DAYS = 365
MAX_IDLE_HOURS = 30 * 24


class UnableToChangeFlavor(Exception):
    """`errors` maps field names (or WHOLE) to messages; `conflict` = somebody else was faster."""

    def __init__(self, errors: Mapping[str, list[str]], *, conflict: bool = False) -> None:
        super().__init__("; ".join(f"{name}: {' '.join(said)}" for name, said in errors.items()))
        self.errors = dict(errors)
        self.conflict = conflict


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


# --- changing ---------------------------------------------------------------------------------------


def create(*, terms: Terms, user: User, now: datetime, source_ip: str | None = None) -> Flavor:
    """Make a flavor, last in the catalogue. Raises UnableToChangeFlavor."""
    with transaction.atomic():
        _refuse_taken(terms, other=None)
        last = Flavor.objects.aggregate(last=models.Max("position"))["last"] or 0
        flavor = Flavor(position=last + 1, created_at=now, changed_at=now, changed_by=user, **_columns(terms))
        try:
            with transaction.atomic():
                flavor.save(force_insert=True)
        except IntegrityError:
            raise _taken("slug") from None
        _set_audience(flavor, terms)
        audit.record(
            now=now, actor=user, action="flavor.create", target=flavor, after=terms.as_dict(),
            source_ip=source_ip,
        )  # fmt: skip
    return flavor


def update(
    *,
    flavor: Flavor,
    terms: Terms,
    seen_version: int,
    user: User,
    now: datetime,
    source_ip: str | None = None,
) -> None:
    """Make these the flavor's terms, if it still is at `seen_version`. Raises UnableToChangeFlavor; nothing
    is changed then."""
    with transaction.atomic():
        _refuse_taken(terms, other=flavor)
        claim_version(flavor, seen_version=seen_version, user=user, now=now)
        before, after = audit.changes(terms_of(flavor).as_dict(), terms.as_dict())
        if after is None:
            return
        Flavor.objects.filter(pk=flavor.pk).update(**_columns(terms))
        _set_audience(flavor, terms)
        flavor.refresh_from_db()
        audit.record(
            now=now, actor=user, action="flavor.change", target=flavor, before=before, after=after,
            source_ip=source_ip,
        )  # fmt: skip


def archive(
    *, flavor: Flavor, archived: bool, user: User, now: datetime, source_ip: str | None = None
) -> None:
    """Take the flavor out of the catalogue, or put it back. Requests that were made of it go on. Harmless
    when it is so already."""
    with transaction.atomic():
        changed = Flavor.objects.filter(pk=flavor.pk, archived_at__isnull=archived).update(
            archived_at=now if archived else None, version=models.F("version") + 1, changed_at=now,
            changed_by=user,
        )  # fmt: skip
        flavor.refresh_from_db()
        if changed:
            audit.record(
                now=now, actor=user, action="flavor.archive" if archived else "flavor.restore",
                target=flavor, after={"archived": archived}, source_ip=source_ip,
            )  # fmt: skip


def move(*, flavor: Flavor, up: bool, user: User, now: datetime, source_ip: str | None = None) -> None:
    """One place up or down in the catalogue; nothing happens at its ends."""
    with transaction.atomic():
        # Locked, so that two who move at once do not both start from the same order.
        rows = list(Flavor.objects.select_for_update().order_by("position", "name", "pk"))
        keys = [row.pk for row in rows]
        index = keys.index(flavor.pk)
        other = index + (-1 if up else 1)
        if not 0 <= other < len(keys):
            return
        keys[index], keys[other] = keys[other], keys[index]
        positions = {row.pk: row.position for row in rows}
        for position, pk in enumerate(keys, 1):
            if positions[pk] != position:
                Flavor.objects.filter(pk=pk).update(position=position)
        audit.record(
            now=now, actor=user, action="flavor.move", target=flavor, before={"position": index + 1},
            after={"position": other + 1}, source_ip=source_ip,
        )  # fmt: skip


def claim_version(flavor: Flavor, *, seen_version: int, user: User, now: datetime) -> None:
    """Compare-and-set of the version, inside the transaction of the change. Raises UnableToChangeFlavor with
    `conflict` when the flavor is no longer at `seen_version`."""
    changed = Flavor.objects.filter(pk=flavor.pk, version=seen_version).update(
        version=seen_version + 1, changed_at=now, changed_by=user
    )
    if changed:
        return
    current = Flavor.objects.select_related("changed_by").filter(pk=flavor.pk).first()
    if current is None:
        raise UnableToChangeFlavor({WHOLE: [_("It was deleted meanwhile.")]}, conflict=True)
    raise UnableToChangeFlavor(
        {
            WHOLE: [
                _(
                    "%(who)s changed it meanwhile. Nothing was saved; what you typed is still here. Compare "
                    "it with what holds now, and save again."
                )
                % {"who": current.changed_by or _("Somebody")}
            ]
        },
        conflict=True,
    )


def _refuse_taken(terms: Terms, *, other: Flavor | None) -> None:
    rows = Flavor.objects.exclude(pk=other.pk) if other else Flavor.objects.all()
    for name in ("slug", "name"):
        if rows.filter(**{name: getattr(terms, name)}).exists():
            raise _taken(name)


def _taken(name: str) -> UnableToChangeFlavor:
    return UnableToChangeFlavor({name: [_("Another flavor (perhaps an archived one) has it already.")]})


def _set_audience(flavor: Flavor, terms: Terms) -> None:
    flavor.projects.set(Project.objects.filter(slug__in=terms.projects))
    flavor.groups.set(Group.objects.filter(name__in=terms.groups))


def _columns(terms: Terms) -> dict[str, Any]:
    columns = terms.as_dict()
    for name in ("projects", "groups"):
        del columns[name]
    for bound in ("min", "default", "max"):
        columns[f"{bound}_duration"] = columns.pop(f"{bound}_hours") * HOUR
    return columns
