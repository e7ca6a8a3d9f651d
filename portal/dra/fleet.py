"""One immutable picture of everything that an allocation looks at."""

from collections.abc import Iterable

from portal.dra.features import Features
from portal.dra.model import DeviceClass, DeviceTaintRule, Node, ResourceClaim, ResourceSlice


class Fleet:
    """Slices, classes, nodes, held devices and taint rules of one cluster at one moment."""

    @classmethod
    def build(
        cls,
        *,
        slices: Iterable[ResourceSlice],
        classes: Iterable[DeviceClass],
        nodes: Iterable[Node] = (),
        claims: Iterable[ResourceClaim] = (),
        taint_rules: Iterable[DeviceTaintRule] = (),
        features: Features,
    ) -> "Fleet":
        """Claims that carry an allocation hold their devices."""
        raise NotImplementedError
