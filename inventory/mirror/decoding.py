"""From raw JSON to what a kind reads of it, with failures named by their path."""

import re
from typing import TypeVar

import msgspec

from inventory.mirror.batches import Item, Unreadable
from inventory.mirror.kind import Unusable
from portal.dra import model as dra
from portal.kube.resources import Resource

T = TypeVar("T")
S = TypeVar("S", bound=dra.Object)

_AT = re.compile(r" - at `\$\.?(.*)`$", re.DOTALL)


class _Metadata(msgspec.Struct, rename="camel"):
    name: str
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None


class _Head(msgspec.Struct):
    metadata: _Metadata


_head = msgspec.json.Decoder(_Head)


def item_of(raw: bytes, *, resource: Resource, deleted: bool = False) -> Item | Unreadable:
    """Name an object without reading the rest of it. Items of a list do not say what they are, so it is
    added."""
    try:
        metadata = _head.decode(raw).metadata
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        return Unreadable(str(error)[:500])
    if not metadata.name or len(metadata.name) > 253 or len(metadata.namespace or "") > 63:
        return Unreadable("metadata.name is missing or too long")
    told = (metadata.name, metadata.namespace, metadata.uid, metadata.resource_version)
    # No text of a database has one: under such a name not even the problem could be noted.
    if any("\0" in text for text in told if text):
        return Unreadable("metadata has a NUL in a name")
    return Item(
        namespace=(metadata.namespace or "") if resource.namespaced else "",
        name=metadata.name,
        uid=(metadata.uid or "")[:64],
        resource_version=(metadata.resource_version or "")[:63],
        raw=_with_type(raw, resource),
        deleted=deleted,
    )


def _with_type(raw: bytes, resource: Resource) -> bytes:
    head = msgspec.json.encode({"apiVersion": resource.api_version, "kind": resource.kind})
    # Where the object says it too, JSON readers take the later value.
    return head[:-1] + b"," + raw.lstrip()[1:]


def decode_core(item: Item, kind: type[T]) -> T:
    """Read an object into a struct of ours. Raises Unusable with the path at fault."""
    try:
        decoded: T = msgspec.json.decode(item.raw, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        text = str(error)
        found = _AT.search(text)
        raise Unusable(found[1] if found else "", text[: found.start()] if found else text) from None
    return decoded


def decode_dra(item: Item, kind: type[S]) -> S:
    """Read an object of `resource.k8s.io`, normalised to v1. Raises Unusable."""
    try:
        decoded = dra.decode_object(item.raw)
    except dra.Malformed as error:
        raise Unusable(error.path, error.reason) from None
    if not isinstance(decoded, kind):
        raise Unusable("kind", f"expected a {kind.__name__}, got a {type(decoded).__name__}")
    return decoded
