"""Reading an ask: from what a person typed (form) or a program sent (REST) to values that make sense.

Both come as raw values and get the same messages, each under the name of its field; all fields are judged
before anything is refused.
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db.models import Q
from django.utils.translation import gettext as _

from claims.models import Request
from inventory.models import Cluster, DeviceClass, DeviceProfile, NamespaceBinding
from portal import access
from portal.accounts.models import Project, User
from portal.dra.quantity import InvalidQuantity, Quantity

T = TypeVar("T")

MAX_COUNT = 32
MAX_PURPOSE = 1_000
MIN_DURATION = timedelta(hours=1)
MAX_DURATION = timedelta(days=90)
UNITS = {"hours": timedelta(hours=1), "days": timedelta(days=1)}
# Errors that belong to no field alone.
WHOLE = "__all__"

FIELDS = (
    "project",
    "cluster",
    "namespace",
    "device_class",
    "count",
    "min_memory",
    "shape",
    "duration",
    "duration_unit",
    "purpose",
)


class UnableToSubmit(Exception):
    """The ask cannot be accepted. `errors` maps field names (or WHOLE) to messages for people."""

    def __init__(self, errors: Mapping[str, list[str]]) -> None:
        super().__init__("; ".join(f"{name}: {' '.join(said)}" for name, said in errors.items()))
        self.errors = dict(errors)


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A complete ask that makes sense as far as the desk can tell without the cluster."""

    user: User
    project: Project
    cluster: Cluster
    namespace: str
    device_class: str
    count: int
    min_memory: str
    memory_domains: tuple[str, ...]
    shape: str
    duration: timedelta
    purpose: str


@dataclass(kw_only=True)
class Reading:
    """What of an ask could be read so far, and what is wrong with it. A live preview uses the parts."""

    project: Project | None = None
    cluster: Cluster | None = None
    namespace: str = ""
    device_class: DeviceClass | None = None
    profiles: list[DeviceProfile] = field(default_factory=list)
    count: int | None = None
    min_memory: str = ""
    shape: str = ""
    duration: timedelta | None = None
    purpose: str = ""
    errors: dict[str, list[str]] = field(default_factory=dict)

    @property
    def memory_domains(self) -> tuple[str, ...]:
        """Domains under which the class's devices publish a capacity ``memory``."""
        names = {name for profile in self.profiles for name in profile.capacity}
        parts = (name.rpartition("/") for name in names)
        return tuple(sorted(domain for domain, _slash, name in parts if domain and name == "memory"))


class _Wrong(Exception):
    """One field is wrong; the message is for people."""


def parse(values: Mapping[str, object], *, user: User, now: datetime) -> Ask:
    """The ask in `values` (keys as in FIELDS). Raises UnableToSubmit with every error at once."""
    seen = read(values, user=user, now=now)
    if (
        seen.errors
        or seen.project is None
        or seen.cluster is None
        or seen.device_class is None
        or seen.count is None
        or seen.duration is None
    ):
        raise UnableToSubmit(seen.errors)
    return Ask(
        user=user,
        project=seen.project,
        cluster=seen.cluster,
        namespace=seen.namespace,
        device_class=seen.device_class.name,
        count=seen.count,
        min_memory=seen.min_memory,
        memory_domains=seen.memory_domains,
        shape=seen.shape,
        duration=seen.duration,
        purpose=seen.purpose,
    )


def read(values: Mapping[str, object], *, user: User, now: datetime) -> Reading:
    """Everything in `values` that makes sense, and a message for each field that does not."""
    seen = Reading()

    def attempt(name: str, reader: Callable[[], T]) -> T | None:
        try:
            return reader()
        except _Wrong as error:
            seen.errors.setdefault(name, []).append(str(error))
            return None

    seen.project = attempt("project", lambda: _project(values, user))
    seen.cluster = attempt("cluster", lambda: _cluster(values))
    if seen.project is not None and seen.cluster is not None:
        project, cluster = seen.project, seen.cluster
        seen.namespace = attempt("namespace", lambda: _namespace(values, project, cluster, now)) or ""
    if seen.cluster is not None:
        cluster = seen.cluster
        seen.device_class = attempt("device_class", lambda: _device_class(values, cluster))
    if seen.device_class is not None:
        device_class = seen.device_class
        seen.profiles = attempt("device_class", lambda: _profiles(device_class)) or []
    seen.count = attempt("count", lambda: _count(values))
    seen.min_memory = attempt("min_memory", lambda: _memory(values, seen.profiles)) or ""
    seen.shape = attempt("shape", lambda: _choice(values, "shape", Request.Shape.values)) or ""
    seen.duration = attempt("duration", lambda: _duration(values))
    seen.purpose = attempt("purpose", lambda: _purpose(values)) or ""
    return seen


def parse_key(value: object) -> uuid.UUID | None:
    """The key that a client chose so that a repeated submission is one request; None when it chose none.
    Raises UnableToSubmit."""
    if value in (None, ""):
        return None
    try:
        return uuid.UUID(str(value))
    except ValueError:
        raise UnableToSubmit({"key": [_("The key must be a UUID.")]}) from None


def projects_for(user: User) -> list[Project]:
    """Projects for which the user may ask."""
    return list(Project.objects.all().workable_by(user).order_by("name"))


def namespaces_of(project: Project, cluster: Cluster, *, now: datetime) -> list[str]:
    """Namespaces of the cluster that belong to the project now."""
    bindings = NamespaceBinding.objects.filter(project=project, cluster=cluster, valid_from__lte=now)
    bindings = bindings.filter(Q(valid_until=None) | Q(valid_until__gt=now))
    return list(bindings.order_by("namespace").values_list("namespace", flat=True))


# --- one reader per field --------------------------------------------------------------------------


def _project(values: Mapping[str, object], user: User) -> Project:
    slug = _text(values, "project")
    if not slug:
        raise _Wrong(_("Choose the project that pays for it."))
    project = Project.objects.all().visible_to(user).filter(slug=slug).first()
    # The same words for a project that is not there: a stranger learns nothing.
    if project is None or (project.archived_at is None and not access.may_work_in(user, project)):
        raise _Wrong(_("You are not a member of a project of that name."))
    if project.archived_at is not None:
        raise _Wrong(_("This project is archived."))
    return project


def _cluster(values: Mapping[str, object]) -> Cluster:
    name = _text(values, "cluster")
    if not name:
        raise _Wrong(_("Choose a cluster."))
    cluster = Cluster.objects.filter(name=name).first()
    if cluster is None:
        raise _Wrong(_("There is no cluster “%(name)s”.") % {"name": name[:63]})
    if not cluster.enabled:
        raise _Wrong(_("This cluster is switched off at the desk."))
    return cluster


def _namespace(values: Mapping[str, object], project: Project, cluster: Cluster, now: datetime) -> str:
    bound = namespaces_of(project, cluster, now=now)
    if not bound:
        raise _Wrong(
            _("%(project)s has no namespace on %(cluster)s. An administrator can bind one.")
            % {"project": project, "cluster": cluster}
        )
    name = _text(values, "namespace")
    if not name:
        if len(bound) > 1:
            raise _Wrong(_("The project has several namespaces there: choose one."))
        return bound[0]
    if name not in bound:
        raise _Wrong(
            _("“%(name)s” is no namespace of this project. It has: %(bound)s.")
            % {"name": name[:63], "bound": ", ".join(bound)}
        )
    return name


def _device_class(values: Mapping[str, object], cluster: Cluster) -> DeviceClass:
    name = _text(values, "device_class")
    if not name:
        raise _Wrong(_("Choose a class of devices."))
    found = DeviceClass.objects.filter(cluster=cluster, name=name).first()
    if found is None:
        raise _Wrong(
            _("%(cluster)s has no DeviceClass “%(name)s” (any more).")
            % {"cluster": cluster, "name": name[:253]}
        )
    if found.problem:
        raise _Wrong(_("This class cannot be used: %(problem)s") % {"problem": found.problem})
    return found


def _profiles(device_class: DeviceClass) -> list[DeviceProfile]:
    profiles = list(DeviceProfile.objects.filter(classes__device_class=device_class).distinct())
    if not profiles:
        raise _Wrong(_("No device of the cluster belongs to this class at present."))
    return profiles


def _count(values: Mapping[str, object]) -> int:
    count = _integer(values, "count")
    if count is None:
        raise _Wrong(_("Say how many devices you need."))
    if count < 1:
        raise _Wrong(_("At least 1 device."))
    if count > MAX_COUNT:
        # The API's own limit: AllocationResultsMaxSize.
        raise _Wrong(_("At most %(limit)s devices in one request.") % {"limit": MAX_COUNT})
    return count


def _memory(values: Mapping[str, object], profiles: list[DeviceProfile]) -> str:
    typed = _text(values, "min_memory")
    if not typed:
        return ""
    example = _("Write a number with a unit, such as 40Gi.")
    if len(typed) > 32:
        raise _Wrong(_("“%(typed)s…” is not an amount of memory.") % {"typed": typed[:20]} + " " + example)
    try:
        wanted = Quantity.parse(typed)
    except InvalidQuantity:
        raise _Wrong(
            _("“%(typed)s” is not an amount of memory.") % {"typed": typed} + " " + example
        ) from None
    if wanted <= Quantity.parse("0"):
        raise _Wrong(_("The memory must be more than nothing; leave the field empty for any."))
    known = [profile.memory_bytes for profile in profiles if profile.memory_bytes is not None]
    if profiles and not known:
        raise _Wrong(_("The devices of this class do not say how much memory they have; leave it empty."))
    if known and Quantity.parse(str(max(known))) < wanted:
        gib = f"{max(known) / 2**30:g}Gi"
        raise _Wrong(
            _("No device of this class has %(wanted)s; the largest has %(largest)s.")
            % {"wanted": typed, "largest": gib}
        )
    return typed


def _duration(values: Mapping[str, object]) -> timedelta:
    unit = _text(values, "duration_unit") or "hours"
    if unit not in UNITS:
        raise _Wrong(_("The unit of the duration is hours or days."))
    number = _integer(values, "duration")
    if number is None:
        raise _Wrong(_("Say for how long you need it."))
    if number < 1:
        raise _Wrong(_("At least one hour."))
    # Bounded before it is multiplied: timedelta has a limit of its own.
    if number > MAX_DURATION // UNITS[unit]:
        raise _Wrong(_("At most %(days)s days; ask again when they are over.") % {"days": MAX_DURATION.days})
    return number * UNITS[unit]


def _purpose(values: Mapping[str, object]) -> str:
    purpose = _text(values, "purpose")
    if not purpose:
        raise _Wrong(_("Say in a few words what it is for."))
    if len(purpose) > MAX_PURPOSE:
        raise _Wrong(
            _("At most %(limit)s characters; this has %(length)s.")
            % {"limit": MAX_PURPOSE, "length": len(purpose)}
        )
    return purpose


def _choice(values: Mapping[str, object], name: str, choices: list[Any]) -> str:
    value = _text(values, name)
    if value not in choices:
        raise _Wrong(_("Choose one of: %(choices)s.") % {"choices": ", ".join(map(str, choices))})
    return value


def _text(values: Mapping[str, object], name: str) -> str:
    value = values.get(name)
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise _Wrong(_("This must be a text."))
    text = str(value).replace("\r\n", "\n").strip()
    if any(ord(c) < 32 and c not in "\n\t" for c in text):
        raise _Wrong(_("This contains a control character."))
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _Wrong(_("This contains half a character.")) from None
    return text


def _integer(values: Mapping[str, object], name: str) -> int | None:
    if isinstance(typed := values.get(name), float):
        raise _Wrong(_("“%(typed)s” is not a whole number.") % {"typed": str(typed)[:20]})
    text = _text(values, name)
    if not text:
        return None
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        raise _Wrong(_("“%(typed)s” is not a whole number.") % {"typed": text[:20]})
    # Nine digits are beyond every bound; Python refuses to read thousands of them.
    number = int(digits[:9])
    return -number if text.startswith("-") else number
