"""What the effect of a change of a class is told as. Totals are whole; what is listed beside them are the
first `MOST`."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

# Nobody reads more, and proposals keep it.
MOST = 50


@dataclass(frozen=True)
class KindCount:
    """Devices of one product of one driver."""

    product: str
    driver: str
    count: int


@dataclass(frozen=True)
class DeviceName:
    driver: str
    pool: str
    name: str
    node: str
    key: int


@dataclass(frozen=True)
class Devices:
    """So many devices: by product, most first, and the first of them by name."""

    count: int = 0
    kinds: Sequence[KindCount] = ()
    first: Sequence[DeviceName] = ()


@dataclass(frozen=True)
class Failing:
    """Devices for which an expression has no answer, which makes the scheduler give up on a claim. `missing`
    are the attributes and capacities that it reads and that these devices lack ("domain/name")."""

    product: str
    driver: str
    count: int
    selector: int
    message: str
    missing: Sequence[str] = ()


@dataclass(frozen=True)
class ObjectName:
    """A claim or template. `already`: it is so without the change, too."""

    namespace: str
    name: str
    already: bool = False


@dataclass(frozen=True)
class Objects:
    """So many objects, and the first of them by namespace and name."""

    count: int = 0
    first: Sequence[ObjectName] = ()


@dataclass(frozen=True)
class Overlap:
    """Another class of the cluster and the devices that both match, before and after."""

    name: str
    before: int
    after: int


@dataclass(frozen=True)
class Conflict:
    """What else goes by the class's extended resource name. `kind`: "class" = another class has it, and
    `winner` serves the Pods; "plugin" = a Device Plugin has it on so many `nodes` with so many `units`, of
    which `shared` nodes have devices of the class, too; "dropped" = the class had it before, and so many
    unfinished `pods` ask for it."""

    kind: str
    resource: str
    other: str = ""
    winner: str = ""
    nodes: int = 0
    units: int = 0
    shared: int = 0
    pods: int = 0


@dataclass(frozen=True)
class Waiting:
    """Claims that name the class and hold nothing: how many were asked, and which begin or cease to fit on
    some node as it is now. `unasked` are claims of which that is not known: of further forms than the engine
    is asked about, or ones that take too long; `left` are those for which there was no time yet. `known` is
    false where it was not asked at all."""

    asked: int = 0
    unasked: int = 0
    left: int = 0
    starting: Objects = Objects()
    stopping: Objects = Objects()
    known: bool = True


@dataclass(frozen=True)
class ClassEffect:
    """What another spec of a class would change on one cluster, from the mirror and the engine.

    `problem` says why the new selectors cannot be read; then nothing matches. `keeping` claims hold a device
    that would match no longer, and keep it. `templates` and `flavors` are those for which no device of the
    cluster would match, whoever holds it.
    """

    cluster: str
    name: str
    before: int
    after: int
    problem: str = ""
    gained: Devices = field(default_factory=Devices)
    lost: Devices = field(default_factory=Devices)
    failing: Sequence[Failing] = ()
    keeping: Objects = field(default_factory=Objects)
    waiting: Waiting = field(default_factory=Waiting)
    templates: Objects = field(default_factory=Objects)
    flavors: Sequence[str] = ()
    overlaps: Sequence[Overlap] = ()
    conflicts: Sequence[Conflict] = ()

    @property
    def failing_count(self) -> int:
        """Devices for which an expression has no answer."""
        return sum(part.count for part in self.failing)


def as_json(effect: ClassEffect) -> dict[str, Any]:
    """The effect in the form in which it is stored and told to programs: plain values, names as above."""
    told = asdict(effect)
    told["failing_count"] = effect.failing_count
    return told
