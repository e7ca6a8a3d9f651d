"""An ask as values: what of it could be read so far, and the complete one."""

from dataclasses import dataclass, field, replace
from datetime import timedelta

from claims.asks.options import Options
from claims.asks.reading import WrongValues
from claims.catalogue.backends import Choice
from claims.catalogue.stock import wish_of
from claims.models import Flavor, Placement, Request
from claims.requests import manifests
from inventory.models import Cluster, DeviceClass, DeviceProfile
from portal.accounts.models import Project, User


class UnableToSubmit(WrongValues):
    """The ask cannot be accepted. `errors` maps field names (or WHOLE) to messages for people."""


@dataclass(frozen=True, kw_only=True)
class Ask:
    """A complete ask that makes sense as far as the desk can tell without the cluster."""

    user: User
    project: Project
    # None = described by the person; then there is no placement either.
    flavor: Flavor | None
    placement: Placement | None
    backend: str
    cluster: Cluster
    namespace: str
    # "" with a Device Plugin.
    device_class: str
    count: int
    min_memory: str
    memory_domains: tuple[str, ...]
    shape: str
    options: Options
    duration: timedelta
    purpose: str

    @property
    def spec(self) -> manifests.Manifest:
        """The claim's spec, for DRA."""
        wish = _wish(self.placement, self.device_class, self.count, self.min_memory, self.memory_domains)
        return _spec(wish, self.options)


@dataclass(kw_only=True)
class Reading:
    """What of an ask could be read so far, and what is wrong with it. A live preview uses the parts."""

    project: Project | None = None
    flavor: Flavor | None = None
    # Where the flavor is served; the one that was chosen, and by which way it serves.
    placements: list[Placement] = field(default_factory=list)
    placement: Placement | None = None
    choice: Choice | None = None
    cluster: Cluster | None = None
    namespace: str = ""
    device_class: DeviceClass | None = None
    profiles: list[DeviceProfile] = field(default_factory=list)
    count: int | None = None
    min_memory: str = ""
    shape: str = ""
    options: Options = field(default_factory=Options)
    duration: timedelta | None = None
    purpose: str = ""
    # Who asks, and the key of the submission ("" = none chosen): what manifests say of their owner.
    requester: str = ""
    key: str = ""
    errors: dict[str, list[str]] = field(default_factory=dict)
    # What may be wrong, by field, and stops nobody.
    warnings: dict[str, list[str]] = field(default_factory=dict)
    # Domains of the class's devices by what administrators say of pools; asked where there is no device.
    declared_domains: tuple[str, ...] = ()

    @property
    def backend(self) -> str:
        return self.choice.backend if self.choice else Request.Backend.DRA

    @property
    def choice_made(self) -> bool:
        """Whether it is known what serves it."""
        return self.device_class is not None or self.choice is not None

    @property
    def complete(self) -> bool:
        """Whether it names everything that the engine and the cluster have to know."""
        served = self.device_class is not None or self.backend == Request.Backend.PLUGIN
        return served and self.cluster is not None and self.count is not None

    @property
    def spec(self) -> manifests.Manifest | None:
        """The claim's spec, for DRA; None while it is not complete."""
        if self.device_class is None or self.count is None:
            return None
        wish = _wish(self.placement, self.device_class.name, self.count, self.min_memory, self.memory_domains)
        return _spec(wish, self.options)

    @property
    def memory_domains(self) -> tuple[str, ...]:
        """Domains under which the class's devices publish a capacity ``memory``."""
        names = {name for profile in self.profiles for name in profile.capacity}
        parts = (name.rpartition("/") for name in names)
        told = tuple(sorted(domain for domain, _slash, name in parts if domain and name == "memory"))
        return told or self.declared_domains


def _wish(
    placement: Placement | None, device_class: str, count: int, memory: str, domains: tuple[str, ...]
) -> manifests.Wish:
    if placement is not None:
        return wish_of(placement, count=count, min_memory=memory, memory_domains=domains)
    return manifests.Wish(device_class=device_class, count=count, min_memory=memory, memory_domains=domains)


def _spec(wish: manifests.Wish, options: Options) -> manifests.Manifest:
    own = replace(
        wish,
        selectors=(*wish.selectors, *([options.expression] if options.expression else [])),
        tolerations=(*wish.tolerations, *map(dict, options.tolerations)),
        capacity=tuple(sorted(options.share.items())),
    )
    return manifests.claim_spec(
        own,
        alternatives=[piece.wish for piece in options.alternatives],
        parts=[piece.wish for piece in options.parts],
        same=options.same,
        different=options.different,
    )
