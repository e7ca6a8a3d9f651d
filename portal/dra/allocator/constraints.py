"""Constraints across the devices of one claim: matchAttribute and distinctAttribute (KEP-4381, 5075, 5491).

Constraints are monotonic: where a device cannot be added, adding others first would not help.
"""

from portal.dra import features as gates
from portal.dra.errors import ClaimError
from portal.dra.features import Features
from portal.dra.model import Device, DeviceAttribute, ResourceClaim
from portal.dra.model.slices import Scalar

Values = tuple[str, frozenset[Scalar]]
"""Type and values of an attribute; a scalar is a set of one."""

_UNKNOWN: Values = ("", frozenset())


def lookup(driver: str, device: Device, attribute: str) -> DeviceAttribute | None:
    """The attribute by its qualified name; a driver may publish those of its own domain without it."""
    found = device.attributes.get(attribute)
    if found is None:
        domain, slash, name = attribute.partition("/")
        if slash and domain == driver:
            found = device.attributes.get(name)
    return found


class Constraint:
    """What was added so far, and whether one more device may join."""

    def __init__(self, attribute: str, requests: tuple[str, ...], *, lists: bool) -> None:
        self.attribute = attribute
        self.requests = frozenset(requests)
        self._lists = lists
        self._added: list[Values] = []

    def concerns(self, parent: str, full_name: str) -> bool:
        """Whether it speaks of a request, named by its main request or as `main/sub`."""
        return not self.requests or parent in self.requests or full_name in self.requests

    def values(self, driver: str, device: Device) -> Values | None:
        """The attribute as type and set of values; None without it.

        While lists are off, one is like an attribute of unknown type: kube-scheduler picks such a device as
        the first one, and never after another.
        """
        found = lookup(driver, device, self.attribute)
        if found is None:
            return None
        value = found.value
        if self._lists:
            if value is None:
                return None
            return found.kind, frozenset(value if isinstance(value, tuple) else (value,))
        return _UNKNOWN if value is None or isinstance(value, tuple) else (found.kind, frozenset((value,)))

    def add(self, driver: str, device: Device) -> bool:
        values = self.values(driver, device)
        if values is None or (values is _UNKNOWN and self._added):
            return False
        agreed = self.agree(values)
        if agreed is None:
            return False
        self._added.append(agreed)
        return True

    def remove(self) -> None:
        """Take back the last device added."""
        self._added.pop()

    def agree(self, values: Values) -> Values | None:
        """What to remember of a device that may join; None if it may not."""
        raise NotImplementedError


class MatchAttribute(Constraint):
    """All devices have the attribute, of one type, with a value in common."""

    def agree(self, values: Values) -> Values | None:
        if not self._added:
            return values
        kind, common = self._added[-1]
        shared = common & values[1]
        return (kind, shared) if kind == values[0] and shared else None


class DistinctAttribute(Constraint):
    """All devices have the attribute, and no two share a value of the same type."""

    def agree(self, values: Values) -> Values | None:
        kind, members = values
        taken = any(kind == other and members & others for other, others in self._added)
        return None if taken else values


def constraints_of(claim: ResourceClaim, features: Features) -> list[Constraint]:
    """The claim's constraints, without any device yet; raises ClaimError for a kind that is not supported."""
    lists = features.enabled(gates.LIST_TYPE_ATTRIBUTES)
    found: list[Constraint] = []
    for index, item in enumerate(claim.spec.devices.constraints):
        if item.match_attribute is not None:
            found.append(MatchAttribute(item.match_attribute, item.requests, lists=lists))
        elif item.distinct_attribute is not None and features.enabled(gates.CONSUMABLE_CAPACITY):
            found.append(DistinctAttribute(item.distinct_attribute, item.requests, lists=lists))
        else:
            raise ClaimError("unsupported-constraint", index=index)
    return found
