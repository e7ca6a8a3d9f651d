"""What can be chosen beyond the ordinary, by DRA: alternatives in order, same or different attributes,
further parts, a share of a device, tolerations, a CEL expression of one's own. Read alike from lines and from
JSON."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from claims.asks.reading import WrongValue, read_text
from claims.catalogue.flavored import count_within, placements_of, profiles_of
from claims.catalogue.offers import may_ask_for
from claims.catalogue.places import choices_of
from claims.catalogue.stock import wish_of
from claims.catalogue.tolerations import read_tolerations
from claims.models import Flavor, Placement, Request
from claims.requests import manifests
from inventory.classes import MAX_EXPRESSION, check_expression
from inventory.models import Cluster, Device, DeviceClass, DeviceProfile
from portal.accounts.models import Project, User
from portal.dra.quantity import InvalidQuantity, Quantity

# Limits of resource.k8s.io/v1: FirstAvailableDeviceRequestMaxSize, AllocationResultsMaxSize.
MAX_ALTERNATIVES = 7
MAX_PARTS = 8
MAX_DEVICES = 32
NAMES = ("alternatives", "same", "different", "parts", "share", "tolerations", "expression")

_LINE = re.compile(r"(?:(\d{1,4})\s*[x×]?\s+)?(\S{1,253})", re.ASCII)
_ATTRIBUTE = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


@dataclass(frozen=True, kw_only=True)
class Piece:
    """So many devices of a flavor (an alternative) or of a class (a further part)."""

    name: str
    count: int
    wish: manifests.Wish
    flavor: Flavor | None = None
    profiles: tuple[DeviceProfile, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Options:
    alternatives: tuple[Piece, ...] = ()
    # Qualified attributes that all devices share, or in which all differ; "" = no matter.
    same: str = ""
    different: str = ""
    parts: tuple[Piece, ...] = ()
    # How much of a shared device: capacity → quantity.
    share: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Mapping[str, str], ...] = ()
    expression: str = ""
    # The LocalQueue of Kueue that its workloads go through; "" = none. Of every backend, so not in NAMES.
    queue: str = ""

    def __bool__(self) -> bool:
        return any(getattr(self, name) for name in NAMES)

    def as_dict(self) -> dict[str, Any]:
        """As a request keeps it; what was not chosen is absent."""
        found: dict[str, Any] = {
            "alternatives": [{"flavor": piece.name, "count": piece.count} for piece in self.alternatives],
            "same": self.same,
            "different": self.different,
            "parts": [{"device_class": piece.name, "count": piece.count} for piece in self.parts],
            "share": dict(self.share),
            "tolerations": [dict(entry) for entry in self.tolerations],
            "expression": self.expression,
            "queue": self.queue,
        }
        return {name: value for name, value in found.items() if value}


@dataclass(frozen=True, kw_only=True)
class Ground:
    """What options are read against."""

    user: User
    project: Project | None
    cluster: Cluster
    placement: Placement | None
    profiles: Sequence[DeviceProfile]
    count: int


def chosen(values: Mapping[str, object]) -> bool:
    """Whether anything beyond the ordinary was sent."""
    return any(values.get(name) not in (None, "", [], {}) for name in NAMES)


def read_options(
    values: Mapping[str, object], ground: Ground, *, wrong: Callable[[str, str], None]
) -> Options:
    """The options in `values`; `wrong` is told a field and a message for each that makes no sense."""
    readers: Mapping[str, Callable[[], Any]] = {
        "alternatives": lambda: _alternatives(values, ground),
        "same": lambda: _attribute(values, "same", ground),
        "different": lambda: _attribute(values, "different", ground),
        "parts": lambda: _parts(values, ground),
        "share": lambda: _share(values, ground),
        "tolerations": lambda: tuple(read_tolerations(values, "tolerations")),
        "expression": lambda: _expression(values, ground),
    }
    found: dict[str, Any] = {}
    for name, read in readers.items():
        try:
            found[name] = read()
        except WrongValue as error:
            wrong(name, str(error))
    options = Options(**found)
    if ground.count + sum(piece.count for piece in options.parts) > MAX_DEVICES:
        wrong(
            "parts",
            _("At most %(limit)s devices in one request, all parts together.") % {"limit": MAX_DEVICES},
        )
    if options.same and options.same == options.different:
        wrong("different", _("It cannot be the same and different."))
    return options


def _pieces(values: Mapping[str, object], name: str, key: str, *, most: int) -> list[tuple[str, int | None]]:
    """(name, count) of each line ("2 × a100-40g") or of each object ({key: …, "count": …})."""
    typed = values.get(name)
    found: list[tuple[str, int | None]] = []
    if isinstance(typed, list):
        for entry in typed:
            text = entry.get(key) if isinstance(entry, Mapping) else None
            count = entry.get("count") if isinstance(entry, Mapping) else None
            if not isinstance(text, str) or type(count) not in (int, type(None)):
                raise WrongValue(_("Each entry is an object with “%(key)s” and “count”.") % {"key": key})
            found.append((text, count))
    else:
        for line in filter(None, map(str.strip, read_text(values, name).splitlines())):
            match = _LINE.fullmatch(line)
            if match is None:
                raise WrongValue(
                    _("“%(line)s”: write a number and a name, such as 2 × name.") % {"line": line[:60]}
                )
            found.append((match.group(2), int(match.group(1)) if match.group(1) else None))
    if len(found) > most:
        raise WrongValue(_("At most %(limit)s.") % {"limit": most})
    return found


def _alternatives(values: Mapping[str, object], ground: Ground) -> tuple[Piece, ...]:
    return tuple(
        _alternative(slug, count, ground)
        for slug, count in _pieces(values, "alternatives", "flavor", most=MAX_ALTERNATIVES)
    )


def _alternative(slug: str, count: int | None, ground: Ground) -> Piece:
    flavor = Flavor.objects.all().visible_to(ground.user).offered().filter(slug=slug).first()
    project = ground.project
    if flavor is None or (
        project is not None and not may_ask_for(user=ground.user, flavor=flavor, project=project)
    ):
        raise WrongValue(
            _("The catalogue has no flavor “%(name)s” for you (any more).") % {"name": slug[:63]}
        )
    selector = ground.placement.node_selector if ground.placement else {}
    # A Pod goes to one node pool: alternatives have to be found there, too.
    here = [
        placement
        for placement in placements_of(flavor)
        if placement.cluster_id == ground.cluster.pk and placement.node_selector == selector
    ]
    ways = choices_of(here)
    placement = next((p for p in here if ways[p.pk].backend == Request.Backend.DRA), None)
    if placement is None:
        raise WrongValue(_("%(flavor)s is not served by DRA on the same nodes.") % {"flavor": flavor})
    number = count_within(flavor, count)
    profiles = _profiles(placement.device_class, ground.cluster)
    return Piece(
        name=slug,
        count=number,
        wish=wish_of(placement, count=number),
        flavor=flavor,
        profiles=tuple(profiles_of(placement, profiles)),
    )


def _parts(values: Mapping[str, object], ground: Ground) -> tuple[Piece, ...]:
    found = []
    for name, count in _pieces(values, "parts", "device_class", most=MAX_PARTS):
        row = DeviceClass.objects.filter(cluster=ground.cluster, name=name).first()
        if row is None or row.problem:
            raise WrongValue(
                _("%(cluster)s has no usable DeviceClass “%(name)s”.")
                % {"cluster": ground.cluster, "name": name[:253]}
            )
        number = 1 if count is None else count
        if not 1 <= number <= MAX_DEVICES:
            raise WrongValue(_("A number from 1 to %(most)s.") % {"most": MAX_DEVICES})
        found.append(
            Piece(
                name=name,
                count=number,
                wish=manifests.Wish(device_class=name, count=number),
                profiles=tuple(_profiles(name, ground.cluster)),
            )
        )
    return tuple(found)


def _profiles(device_class: str, cluster: Cluster) -> list[DeviceProfile]:
    rows = DeviceProfile.objects.filter(
        classes__device_class__name=device_class, classes__device_class__cluster=cluster
    )
    return list(rows.distinct())


def _attribute(values: Mapping[str, object], name: str, ground: Ground) -> str:
    attribute = read_text(values, name, limit=317)
    if not attribute:
        return ""
    if not _ATTRIBUTE.fullmatch(attribute):
        raise WrongValue(_("An attribute is written domain/name, such as resource.kubernetes.io/pcieRoot."))
    # Of devices that are not there yet, nobody knows what they tell.
    if ground.profiles and attribute not in attributes_of(ground.profiles, ground.cluster):
        raise WrongValue(_("No device that is asked for tells “%(name)s”.") % {"name": attribute})
    return attribute


def attributes_of(profiles: Sequence[DeviceProfile], cluster: Cluster) -> list[str]:
    """Qualified names of what these kinds of device tell, the single device's own included."""
    found = {name for profile in profiles for name in profile.attributes}
    for profile in profiles:
        # One device of a kind stands for all: a driver tells the same of each.
        device = Device.objects.filter(cluster=cluster, profile=profile).only("identity").first()
        if device is not None:
            found |= set(device.identity)
    return sorted(found)


def _share(values: Mapping[str, object], ground: Ground) -> dict[str, str]:
    typed = values.get("share")
    if isinstance(typed, Mapping):
        pairs = [(str(name), str(amount)) for name, amount in typed.items()]
    else:
        lines = filter(None, map(str.strip, read_text(values, "share").splitlines()))
        parts = [line.partition("=") for line in lines]
        if any(not equals for _name, equals, _amount in parts):
            raise WrongValue(_("Write one capacity a line, as name=amount, such as memory=10Gi."))
        pairs = [(name.strip(), amount.strip()) for name, _equals, amount in parts]
    shared = [profile for profile in ground.profiles if profile.allow_multiple_allocations]
    if pairs and ground.profiles and not shared:
        raise WrongValue(_("None of these devices can be shared: each is given away as a whole."))
    for name, amount in pairs:
        most = [
            Quantity.parse(str(value.get("value", "0")))
            for profile in shared
            for full, value in profile.capacity.items()
            if name in (full, full.rpartition("/")[2])
        ]
        if ground.profiles and not most:
            raise WrongValue(_("These devices have no capacity “%(name)s”.") % {"name": name[:80]})
        try:
            wanted = Quantity.parse(amount)
        except InvalidQuantity:
            raise WrongValue(_("“%(typed)s” is not an amount.") % {"typed": amount[:32]}) from None
        if wanted <= Quantity.parse("0"):
            raise WrongValue(_("%(name)s: more than nothing.") % {"name": name[:80]})
        if most and all(wanted > whole for whole in most):
            raise WrongValue(
                _("%(name)s: more than nothing, and at most %(most)s.") % {"name": name, "most": max(most)}
            )
    return dict(pairs)


def _expression(values: Mapping[str, object], ground: Ground) -> str:
    expression = read_text(values, "expression")
    if not expression:
        return ""
    if len(expression.encode()) > MAX_EXPRESSION:
        raise WrongValue(_("An expression has at most 10 KiB."))
    check = check_expression(cluster=ground.cluster, expression=expression)
    if check.problem:
        raise WrongValue(
            _("Line %(line)d, column %(column)d: %(problem)s")
            % {"line": check.line, "column": check.column, "problem": check.problem}
        )
    if check.evaluation_error:
        raise WrongValue(
            _("It fails for a device of the cluster, and the scheduler would give up on it: %(problem)s")
            % {"problem": check.evaluation_error}
        )
    return expression
