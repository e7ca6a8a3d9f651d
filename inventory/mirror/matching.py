"""Which classes match which kinds of device: kept per profile, and per device only for a class whose
selectors read attributes that identify the single piece."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from inventory.identity import is_identity
from inventory.mirror.turn import Turn
from inventory.models import ClassProfile, Device, DeviceClass, DeviceProfile
from portal.dra.cel import (
    EVERYTHING,
    CelCompileError,
    CelEvaluationError,
    DeviceView,
    Selector,
    UnusableAttribute,
    attribute_value,
    compile_selector,
)
from portal.dra.features import Features
from portal.dra.quantity import InvalidQuantity, Quantity
from portal.sql import chunks

_FIELDS = {
    "string": "string",
    "int": "int_",
    "bool": "bool_",
    "version": "version",
    "strings": "strings",
    "ints": "ints",
    "bools": "bools",
    "versions": "versions",
}


@dataclass(frozen=True)
class Expressions:
    """The compiled selectors of a class; all of them must hold. `problem` says why there are none to
    evaluate."""

    selectors: Sequence[Selector] = ()
    problem: str = ""

    @property
    def reads_identity(self) -> bool:
        """Whether devices of one profile may differ."""
        return any(reads_identity(selector) for selector in self.selectors)


def compile_all(expressions: Iterable[str], *, features: Features) -> Expressions:
    """Compile the CEL of a class."""
    selectors = []
    for expression in expressions:
        try:
            selectors.append(compile_selector(expression, features=features.gates))
        except CelCompileError as error:
            return Expressions(problem=str(error)[:1000] or "?")
    return Expressions(selectors=tuple(selectors))


def expressions_of(spec: Mapping[str, Any]) -> list[str]:
    """The CEL expressions of a DeviceClass spec (or of a request)."""
    return [
        str((selector.get("cel") or {}).get("expression", "")) for selector in spec.get("selectors") or ()
    ]


def reads_identity(selector: Selector) -> bool:
    """Whether a selector reads (or may read) what the profile leaves out."""
    if selector.reads == EVERYTHING:
        return True
    for read in selector.reads:
        match read:
            case ("attribute", domain, name) if is_identity(name, driver=domain):
                return True
            # The whole map of a domain: its size or its keys differ with the identity attributes in it.
            case ("attribute?", *_):
                return True
    return False


def view(profile: DeviceProfile, *, identity: Mapping[str, Any] | None = None) -> DeviceView:
    """A profile as CEL sees it, with `identity` one single device of it."""
    attributes: dict[str, Any] = {}
    unusable = None
    for name, value in {**profile.attributes, **(identity or {})}.items():
        try:
            attributes[name] = attribute_value(**{_FIELDS[key]: item for key, item in value.items()})
        except UnusableAttribute as error:
            unusable = f"attribute {name}: {error}"
    capacities: dict[str, Quantity] = {}
    for name, value in profile.capacity.items():
        try:
            capacities[name] = Quantity.parse(str(value.get("value", "0")))
        except InvalidQuantity as error:
            unusable = f"capacity {name}: {error}"
    return DeviceView(
        driver=profile.driver,
        attributes=attributes,
        capacities=capacities,
        allow_multiple_allocations=profile.allow_multiple_allocations,
        unusable=unusable,
    )


@dataclass
class Matches:
    """What a set of selectors says about a fleet: matching profiles, matching single devices (pk → profile
    pk), and the first error that an evaluation gave."""

    profiles: set[int] = field(default_factory=set)
    devices: dict[int, int] = field(default_factory=dict)
    error: str = ""

    def ask(self, expressions: Expressions, seen: DeviceView) -> bool:
        try:
            return all(selector.evaluate(seen) for selector in expressions.selectors)
        except CelEvaluationError as error:
            self.error = self.error or str(error)[:1000]
            return False


def match(
    expressions: Expressions,
    profiles: Iterable[DeviceProfile],
    *,
    cluster_id: int,
    devices: Iterable[int] | None = None,
) -> Matches:
    """Evaluate over profiles, or over their devices in the cluster where identity is read (only `devices`,
    if given)."""
    found = Matches()
    if expressions.problem:
        return found
    if not expressions.reads_identity:
        found.profiles = {p.pk for p in profiles if found.ask(expressions, view(p))}
        return found
    by_pk = {profile.pk: profile for profile in profiles}
    rows = Device.objects.filter(cluster_id=cluster_id, profile_id__in=by_pk)
    parts: Iterable[Any] = [rows] if devices is None else (rows.filter(pk__in=ids) for ids in chunks(devices))
    for part in parts:
        for pk, profile_id, identity in part.values_list("pk", "profile_id", "identity").iterator():
            if found.ask(expressions, view(by_pk[profile_id], identity=identity)):
                found.devices[pk] = profile_id
    return found


def profiles_in(cluster_id: int) -> list[DeviceProfile]:
    """The kinds of device that a cluster has."""
    here = Device.objects.filter(cluster_id=cluster_id).values("profile_id").distinct()
    return list(DeviceProfile.objects.filter(pk__in=here))


def match_classes(turn: Turn, classes: Sequence[DeviceClass]) -> None:
    """Settle anew what these classes match in the cluster."""
    if not classes:
        return
    ClassProfile.objects.filter(device_class__in=classes).delete()
    _store(turn, classes, profiles_in(turn.cluster_id), devices=None)


def match_new(turn: Turn) -> None:
    """Add matches for profiles and devices that came new to the cluster in this transaction."""
    if not turn.new_profiles and not turn.new_devices:
        return
    classes = list(DeviceClass.objects.filter(cluster_id=turn.cluster_id))
    if classes:
        # A device that changed may match no longer.
        singly = ClassProfile.objects.filter(device_class__in=classes).exclude(device=None).exists()
        for ids in chunks(turn.new_devices) if singly else ():
            ClassProfile.objects.filter(device_id__in=ids).delete()
        profiles = [p for ids in chunks(turn.new_profiles) for p in DeviceProfile.objects.filter(pk__in=ids)]
        _store(turn, classes, profiles, devices=turn.new_devices)


def _store(
    turn: Turn,
    classes: Sequence[DeviceClass],
    profiles: Sequence[DeviceProfile],
    *,
    devices: Iterable[int] | None,
) -> None:
    rows: list[ClassProfile] = []
    troubled: list[DeviceClass] = []
    for device_class in classes:
        expressions = compile_all(expressions_of(device_class.spec), features=turn.features)
        found = match(expressions, profiles, cluster_id=turn.cluster_id, devices=devices)
        rows += [ClassProfile(device_class=device_class, profile_id=pk) for pk in found.profiles]
        rows += [
            ClassProfile(device_class=device_class, profile_id=profile_id, device_id=pk)
            for pk, profile_id in found.devices.items()
        ]
        problem = expressions.problem or found.error
        # An error found on earlier devices stays until the class is judged anew.
        if (devices is None or problem) and device_class.problem != problem:
            device_class.problem = problem
            troubled.append(device_class)
    ClassProfile.objects.bulk_create(rows, batch_size=500, ignore_conflicts=True)
    if troubled:
        DeviceClass.objects.bulk_update(troubled, ["problem"], batch_size=100)
