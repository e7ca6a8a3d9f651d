"""What a selector's expression may name: depends on the feature gates."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

from portal.dra.cel import types
from portal.dra.cel.library import FUNCTIONS, Overload
from portal.dra.cel.library.includes import INCLUDES
from portal.dra.cel.types import Type

CONSUMABLE_CAPACITY: Final = "DRAConsumableCapacity"
LIST_ATTRIBUTES: Final = "DRAListTypeAttributes"

TYPE_NAMES: Final[dict[str, Type]] = {
    "bool": types.BOOL,
    "bytes": types.BYTES,
    "double": types.DOUBLE,
    "int": types.INT,
    "string": types.STRING,
    "uint": types.UINT,
    "null_type": types.NULL,
    "list": types.list_of(types.DYN),
    "map": types.map_of(types.DYN, types.DYN),
    "type": Type("type"),
    "google.protobuf.Duration": types.DURATION,
    "google.protobuf.Timestamp": types.TIMESTAMP,
    "optional_type": types.optional_of(types.DYN),
    "net.IP": types.IP,
    "net.CIDR": types.CIDR,
}


@dataclass(frozen=True, slots=True)
class Environment:
    """The device's fields and their types, the functions, and the result that a selector may have."""

    device_fields: dict[str, Type]
    list_attributes: bool
    includes: bool

    @classmethod
    def of(cls, features: Container[str], *, new: bool) -> Environment:
        """The environment of `new` objects, where gates decide what may be named, or of stored ones.

        The scheduler knows all names whatever the gates say, so that it understands what was stored before.
        """
        list_attributes = LIST_ATTRIBUTES in features
        attribute = types.DYN if list_attributes else types.ANY
        fields = {
            "driver": types.STRING,
            "attributes": types.map_of(types.STRING, types.map_of(types.STRING, attribute)),
            "capacity": types.map_of(types.STRING, types.map_of(types.STRING, types.QUANTITY)),
        }
        if CONSUMABLE_CAPACITY in features or not new:
            fields["allowMultipleAllocations"] = types.BOOL
        return cls(fields, list_attributes, includes=list_attributes or not new)

    def function(self, name: str) -> list[Overload] | None:
        if name == "includes":
            return INCLUDES if self.includes else None
        return FUNCTIONS.get(name)

    def may_return(self, result: Type) -> bool:
        """Whether a selector's result may have this type; "dyn" only where attributes are of that type."""
        return result.kind in ("bool", "any") or (result.kind == "dyn" and self.list_attributes)
