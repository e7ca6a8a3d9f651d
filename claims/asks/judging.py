"""Reading an ask: from what a person typed (form) or a program sent (REST) to values that make sense.

Both come as raw values and get the same messages, each under the name of its field; all fields are judged
before anything is refused.
"""

import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeVar

from django.db.models import Q
from django.utils.translation import gettext as _

from claims.asks.options import NAMES as OPTIONS
from claims.asks.options import Ground, chosen, read_options
from claims.asks.queueing import read_queue, refusals
from claims.asks.reading import WrongValue, read_choice, read_integer, read_quantity, read_text
from claims.asks.values import Ask, Reading, UnableToSubmit
from claims.catalogue.flavored import (
    default_cluster,
    duration_within,
    memory_within,
    placements_of,
    profiles_of,
    read_count,
    read_flavor,
    read_memory_of_units,
    read_placement,
    read_shape,
)
from claims.catalogue.growth import domains_declared, nothing_there
from claims.catalogue.places import choices_of
from claims.models import Flavor, Request
from claims.money.budget_guard import refuse_spent
from claims.quotas.guard import refuse_early
from inventory.models import Cluster, DeviceClass, DeviceProfile, NamespaceBinding
from portal import access
from portal.accounts.models import Project, User
from portal.dra.quantity import Quantity

T = TypeVar("T")

MAX_COUNT = 32
MAX_PURPOSE = 1_000
MIN_DURATION = timedelta(hours=1)
MAX_DURATION = timedelta(days=90)
UNITS = {"hours": timedelta(hours=1), "days": timedelta(days=1)}
FIELDS = (
    "project",
    "flavor",
    "cluster",
    "pool",
    "namespace",
    "device_class",
    "count",
    "min_memory",
    *OPTIONS,
    "queue",
    "shape",
    "duration",
    "duration_unit",
    "purpose",
)


def parse(values: Mapping[str, object], *, user: User, now: datetime) -> Ask:
    """The ask in `values` (keys as in FIELDS), if quotas and the budget leave room for it besides all that
    there is. Raises UnableToSubmit with every error at once."""
    ask = understand(values, user=user, now=now)
    refuse_early(ask, now=now)
    refuse_spent(ask.project, now=now)
    return ask


def understand(values: Mapping[str, object], *, user: User, now: datetime) -> Ask:
    """The same, whatever quotas and the budget say. Raises UnableToSubmit with every error at once."""
    seen = read(values, user=user, now=now)
    if (
        seen.errors
        or seen.project is None
        or seen.cluster is None
        or not seen.complete
        or seen.count is None
        or seen.duration is None
    ):
        raise UnableToSubmit(seen.errors)
    return Ask(
        user=user,
        project=seen.project,
        flavor=seen.flavor,
        placement=seen.placement,
        backend=seen.backend,
        cluster=seen.cluster,
        namespace=seen.namespace,
        device_class=seen.device_class.name if seen.device_class else "",
        count=seen.count,
        min_memory=seen.min_memory,
        memory_domains=seen.memory_domains,
        shape=seen.shape,
        options=seen.options,
        duration=seen.duration,
        purpose=seen.purpose,
    )


def read(values: Mapping[str, object], *, user: User, now: datetime) -> Reading:
    """Everything in `values` that makes sense, and a message for each field that does not."""
    seen = Reading(requester=user.get_username(), key=_key(values))

    def attempt(name: str, reader: Callable[[], T]) -> T | None:
        try:
            return reader()
        except WrongValue as error:
            seen.errors.setdefault(name, []).append(str(error))
            return None

    def hangs(name: str) -> bool:
        """Whether a value that is missing is one that the flavor would have given, had it been readable."""
        return values.get(name) in (None, "") and (
            "flavor" in seen.errors or (seen.flavor is not None and seen.choice is None)
        )

    seen.project = attempt("project", lambda: _project(values, user))
    seen.flavor = attempt("flavor", lambda: read_flavor(values, user=user, project=seen.project))
    if not ("flavor" in seen.errors and hangs("cluster")):
        seen.cluster = attempt("cluster", lambda: _cluster(values, seen, now))
    if seen.project is not None and seen.cluster is not None:
        project, cluster = seen.project, seen.cluster
        seen.namespace = attempt("namespace", lambda: _namespace(values, project, cluster, now)) or ""
    if seen.cluster is not None and "flavor" not in seen.errors:
        _what(values, seen, attempt)
    if not hangs("count"):
        seen.count = attempt("count", lambda: _count(values, seen.flavor))
    seen.min_memory = attempt("min_memory", lambda: _memory(values, seen)) or ""
    if not hangs("shape"):
        seen.shape = attempt("shape", lambda: _shape(values, seen)) or ""
    if seen.cluster is not None and seen.choice_made and chosen(values):
        _beyond(values, seen, user)
    _through_queue(values, seen, attempt)
    if not hangs("duration"):
        seen.duration = attempt("duration", lambda: _duration(values, seen.flavor))
    seen.purpose = attempt("purpose", lambda: _purpose(values)) or ""
    return seen


def _what(values: Mapping[str, object], seen: Reading, attempt: Callable[..., Any]) -> None:
    """What of the cluster is asked for: by the flavor's placement there, or by a class."""
    cluster, flavor = seen.cluster, seen.flavor
    assert cluster is not None  # the caller looked
    if flavor is None:
        seen.device_class = attempt("device_class", lambda: _device_class(values, cluster))
    else:
        seen.placement = attempt(
            "cluster",
            lambda: read_placement(values, flavor=flavor, cluster=cluster, placements=seen.placements),
        )
        if (placement := seen.placement) is None:
            return
        seen.choice = choices_of([placement])[placement.pk]
        if seen.choice.backend == Request.Backend.PLUGIN:
            attempt("device_class", lambda: _no_class_beside(values, ""))
            return
        attempt("device_class", lambda: _no_class_beside(values, placement.device_class))
        seen.device_class = attempt("flavor", lambda: find_class(placement.device_class, cluster))
    if (device_class := seen.device_class) is not None:
        profiles = _profiles(device_class)
        if not profiles:
            seen.warnings["flavor" if flavor else "device_class"] = [nothing_there(cluster)]
            seen.declared_domains = domains_declared(cluster=cluster, device_class=device_class.name)
        seen.profiles = profiles_of(seen.placement, profiles) if seen.placement else profiles


def _beyond(values: Mapping[str, object], seen: Reading, user: User) -> None:
    """What is chosen beyond the ordinary."""
    assert seen.cluster is not None  # the caller looked

    def wrong(name: str, message: str) -> None:
        seen.errors.setdefault(name, []).append(message)

    if seen.backend == Request.Backend.PLUGIN:
        for name in OPTIONS:
            if values.get(name):
                wrong(name, _("A Device Plugin cannot do this; leave it empty."))
        return
    ground = Ground(
        user=user,
        project=seen.project,
        cluster=seen.cluster,
        placement=seen.placement,
        profiles=seen.profiles,
        count=seen.count or 1,
    )
    seen.options = read_options(values, ground, wrong=wrong)


def _through_queue(values: Mapping[str, object], seen: Reading, attempt: Callable[..., Any]) -> None:
    """The queue of Kueue, and what it does not admit."""
    queue = attempt("queue", lambda: read_queue(values, cluster=seen.cluster, namespace=seen.namespace))
    if not queue:
        return
    seen.options = replace(seen.options, queue=queue)
    for name, message in refusals(seen):
        seen.errors.setdefault(name, []).append(message)


def _no_class_beside(values: Mapping[str, object], device_class: str) -> None:
    if read_text(values, "device_class") not in ("", device_class):
        raise WrongValue(_("Choose a flavor or a class of devices, not both."))


def parse_key(value: object) -> uuid.UUID | None:
    """The key that a client chose so that a repeated submission is one request; None when it chose none.
    Raises UnableToSubmit."""
    if value in (None, ""):
        return None
    try:
        return uuid.UUID(str(value))
    except ValueError:
        raise UnableToSubmit({"key": [_("The key must be a UUID.")]}) from None


def _key(values: Mapping[str, object]) -> str:
    try:
        return str(parse_key(values.get("key")) or "")
    except UnableToSubmit:
        return ""


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
    slug = read_text(values, "project")
    if not slug:
        raise WrongValue(_("Choose the project that pays for it."))
    project = Project.objects.all().visible_to(user).filter(slug=slug).first()
    # The same words for a project that is not there: a stranger learns nothing.
    if project is None or (project.archived_at is None and not access.may_work_in(user, project)):
        raise WrongValue(_("You are not a member of a project of that name."))
    if project.archived_at is not None:
        raise WrongValue(_("This project is archived; a platform administrator can restore it."))
    return project


def _cluster(values: Mapping[str, object], seen: Reading, now: datetime) -> Cluster:
    name = read_text(values, "cluster")
    if seen.flavor is not None:
        seen.placements = placements_of(seen.flavor)
        default = default_cluster(seen.placements, seen.project, now=now)
        if not name and default is not None:
            return default
    if not name:
        raise WrongValue(_("Choose a cluster."))
    cluster = Cluster.objects.filter(name=name).first()
    if cluster is None:
        raise WrongValue(_("There is no cluster “%(name)s”.") % {"name": name[:63]})
    if not cluster.enabled:
        raise WrongValue(_("This cluster is switched off at the desk."))
    return cluster


def _namespace(values: Mapping[str, object], project: Project, cluster: Cluster, now: datetime) -> str:
    bound = namespaces_of(project, cluster, now=now)
    if not bound:
        raise WrongValue(
            _("%(project)s has no namespace on %(cluster)s. An administrator can bind one.")
            % {"project": project, "cluster": cluster}
        )
    name = read_text(values, "namespace")
    if not name:
        if len(bound) > 1:
            raise WrongValue(_("The project has several namespaces there: choose one."))
        return bound[0]
    if name not in bound:
        raise WrongValue(
            _("“%(name)s” is no namespace of this project. It has: %(bound)s.")
            % {"name": name[:63], "bound": ", ".join(bound)}
        )
    return name


def _device_class(values: Mapping[str, object], cluster: Cluster) -> DeviceClass:
    name = read_text(values, "device_class")
    if not name:
        raise WrongValue(_("Choose a class of devices."))
    return find_class(name, cluster)


def find_class(name: str, cluster: Cluster) -> DeviceClass:
    """The class on the cluster; WrongValue when it is not there or cannot be used."""
    found = DeviceClass.objects.filter(cluster=cluster, name=name).first()
    if found is None:
        raise WrongValue(
            _("%(cluster)s has no DeviceClass “%(name)s” (any more).")
            % {"cluster": cluster, "name": name[:253]}
        )
    if found.problem:
        raise WrongValue(_("This class cannot be used: %(problem)s") % {"problem": found.problem})
    return found


def _profiles(device_class: DeviceClass) -> list[DeviceProfile]:
    return list(DeviceProfile.objects.filter(classes__device_class=device_class).distinct())


def _count(values: Mapping[str, object], flavor: Flavor | None) -> int:
    if flavor is not None:
        return read_count(values, flavor)
    count = read_integer(values, "count")
    if count is None:
        raise WrongValue(_("Say how many devices you need."))
    if count < 1:
        raise WrongValue(_("At least 1 device."))
    if count > MAX_COUNT:
        # The API's own limit: AllocationResultsMaxSize.
        raise WrongValue(_("At most %(limit)s devices in one request.") % {"limit": MAX_COUNT})
    return count


def _memory(values: Mapping[str, object], seen: Reading) -> str:
    if seen.placement is not None and seen.backend == Request.Backend.PLUGIN:
        return read_memory_of_units(values, seen.placement)
    typed = read_quantity(values, "min_memory")
    if seen.flavor is not None:
        typed = memory_within(seen.flavor, typed, said=values.get("min_memory") is not None)
    if not typed:
        return ""
    wanted, profiles = Quantity.parse(typed), seen.profiles
    known = [profile.memory_bytes for profile in profiles if profile.memory_bytes is not None]
    if profiles and not known:
        raise WrongValue(_("The devices of this class do not say how much memory they have; leave it empty."))
    if known and Quantity.parse(str(max(known))) < wanted:
        gib = f"{max(known) / 2**30:g}Gi"
        raise WrongValue(
            _("No device of this class has %(wanted)s; the largest has %(largest)s.")
            % {"wanted": typed, "largest": gib}
        )
    return typed


def _shape(values: Mapping[str, object], seen: Reading) -> str:
    offered = [Request.Shape.CLAIM.value, Request.Shape.TEMPLATE.value]
    if seen.choice is not None:
        shape = read_shape(values, backend=seen.backend)
        if shape == Request.Shape.ENTITLEMENT and seen.backend == Request.Backend.PLUGIN:
            return shape
        return read_choice({"shape": shape}, "shape", offered)
    return read_choice(values, "shape", offered)


def _duration(values: Mapping[str, object], flavor: Flavor | None) -> timedelta:
    unit = read_text(values, "duration_unit") or "hours"
    if unit not in UNITS:
        raise WrongValue(_("The unit of the duration is hours or days."))
    number = read_integer(values, "duration")
    if number is None and flavor is not None and values.get("duration") is None:
        return flavor.default_duration
    if number is None:
        raise WrongValue(_("Say for how long you need it."))
    if number < 1:
        raise WrongValue(_("At least one hour."))
    # Bounded before it is multiplied: timedelta has a limit of its own.
    if number > MAX_DURATION // UNITS[unit]:
        raise WrongValue(
            _("At most %(days)s days; ask again when they are over.") % {"days": MAX_DURATION.days}
        )
    duration = number * UNITS[unit]
    return duration if flavor is None else duration_within(flavor, duration)


def _purpose(values: Mapping[str, object]) -> str:
    purpose = read_text(values, "purpose", limit=MAX_PURPOSE)
    if not purpose:
        raise WrongValue(_("Say in a few words what it is for."))
    return purpose
