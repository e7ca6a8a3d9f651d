"""What every Kubernetes object in this package is made of: metadata, node selectors, quantities as text.

Structs are frozen and decoded straight from JSON; field names are Kubernetes' own in snake_case.
Fields that we do not know are ignored, so that a newer API server does no harm.
"""

from functools import lru_cache
from typing import Any

import msgspec
from msgspec import field


class Base(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True, gc=False):
    """Parent of all structs: immutable, keyword-only, camelCase on the wire, unset fields left out.

    They are trees without cycles and there are millions of them in a large fleet, so the garbage collector
    may pass them by.
    """


class OwnerReference(Base, frozen=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class ObjectMeta(Base, frozen=True, kw_only=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    generate_name: str = ""
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)
    owner_references: tuple[OwnerReference, ...] = ()
    finalizers: tuple[str, ...] = ()


class NodeSelectorRequirement(Base, frozen=True, kw_only=True):
    """One `key operator values` clause; operators: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(Base, frozen=True, kw_only=True):
    """All requirements of a term must hold; a term without any requirement matches no node."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(Base, frozen=True, kw_only=True):
    """Terms are alternatives."""

    node_selector_terms: tuple[NodeSelectorTerm, ...]


@lru_cache(maxsize=65536)
def quantity_text(value: str | int | float) -> str:
    """The text of a quantity as it stands in an object; numbers become text as in the API.

    Raises InvalidQuantity (a ValueError), which the decoder reports with the path of the field.
    """
    from portal.dra.quantity import Quantity

    text = value if isinstance(value, str) else str(value)
    Quantity.parse(text)
    return text


def settle_quantity(struct: msgspec.Struct, *names: str) -> None:
    """Check the named quantity fields of a struct under construction and turn numbers into text."""
    for name in names:
        value = getattr(struct, name)
        if value is None:
            continue
        text = quantity_text(value)
        if text is not value:
            msgspec.structs.force_setattr(struct, name, text)


def settle_quantities(struct: msgspec.Struct, name: str) -> None:
    """The same for a field that maps names to quantities."""
    values: dict[str, Any] = getattr(struct, name)
    if values:
        msgspec.structs.force_setattr(struct, name, {key: quantity_text(v) for key, v in values.items()})
