"""From the API's JSON to structs and back; older API versions become `resource.k8s.io/v1` on the way."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from portal.dra.model.claims import DeviceClass, ResourceClaim, ResourceClaimTemplate
from portal.dra.model.nodes import Node, Pod
from portal.dra.model.slices import DeviceTaintRule, ResourceSlice

Object = ResourceSlice | DeviceTaintRule | DeviceClass | ResourceClaim | ResourceClaimTemplate | Node | Pod

_GROUP = "resource.k8s.io"
_OLDER = {"DeviceTaintRule": "v1alpha3"}
_TYPES: dict[str, type[Object]] = {
    "ResourceSlice": ResourceSlice,
    "DeviceTaintRule": DeviceTaintRule,
    "DeviceClass": DeviceClass,
    "ResourceClaim": ResourceClaim,
    "ResourceClaimTemplate": ResourceClaimTemplate,
    "Node": Node,
    "Pod": Pod,
}
_CORE = ("Node", "Pod")
_VERSIONS: dict[str, tuple[str, ...]] = {
    kind: ("v1",)
    if kind in _CORE
    else tuple(f"{_GROUP}/{version}" for version in ("v1", "v1beta2", _OLDER.get(kind, "v1beta1")))
    for kind in _TYPES
}


class Malformed(ValueError):
    """An object that the API server would not have accepted; names the object and the field at fault."""

    def __init__(self, kind: str, name: str, path: str, reason: str) -> None:
        self.kind, self.name, self.path, self.reason = kind, name, path, reason
        where = f" {name}" if name else ""
        super().__init__(f"{kind or 'object'}{where}: {path + ': ' if path else ''}{reason}")


class UnknownKind(Malformed):
    """A well-formed object of a kind or version that plays no part here."""


class _Header(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""


class _Meta(msgspec.Struct):
    name: str = ""
    namespace: str = ""


class _Named(msgspec.Struct):
    metadata: _Meta = msgspec.field(default_factory=_Meta)


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _List(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[msgspec.Raw] | None = None


_DECODERS = {kind: msgspec.json.Decoder(struct) for kind, struct in _TYPES.items()}
_header = msgspec.json.Decoder(_Header)
_list = msgspec.json.Decoder(_List)


class Page(msgspec.Struct, frozen=True):
    """One page of a list: what could be read, and what could not, side by side."""

    items: tuple[Object, ...]
    malformed: tuple[Malformed, ...]
    resource_version: str
    continue_token: str


def decode_object(raw: bytes | str | dict[str, Any], *, source: str = "") -> Object:
    """Decode one object by its kind and apiVersion, normalised to `resource.k8s.io/v1` or core/v1.

    `source` (a file and document, say) leads the name in error messages. Raises Malformed with the path of
    the field at fault, or UnknownKind.
    """
    try:
        header = msgspec.convert(raw, _Header) if isinstance(raw, dict) else _header.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        path, reason = _split(error)
        raise Malformed("", source, path, reason) from None
    return _decode(raw, kind=header.kind, api_version=header.api_version, source=source)


def decode_page(raw: bytes) -> Page:
    """Decode a page of a typed list (`ResourceSliceList`, `NodeList`, …); a bad item does not take its
    neighbours down.

    Raises Malformed when the page itself is not a list.
    """
    try:
        page = _list.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        path, reason = _split(error)
        raise Malformed("List", "", path, reason) from None
    kind = page.kind.removesuffix("List")
    items, malformed = [], []
    for item in page.items or ():
        try:
            items.append(_decode(bytes(item), kind=kind, api_version=page.api_version, source=""))
        except Malformed as error:
            malformed.append(error)
    return Page(
        items=tuple(items),
        malformed=tuple(malformed),
        resource_version=page.metadata.resource_version,
        continue_token=page.metadata.continue_,
    )


def encode(struct: msgspec.Struct) -> dict[str, Any]:
    """The API's JSON form as plain dicts and lists; whole objects get their kind and v1 apiVersion."""
    data: dict[str, Any] = msgspec.json.decode(encode_json(struct))
    return data


def encode_json(struct: msgspec.Struct) -> bytes:
    """The same as JSON text."""
    body = msgspec.json.encode(struct)
    kind = type(struct).__name__
    if kind not in _TYPES:
        return body
    header = msgspec.json.encode({"apiVersion": _VERSIONS[kind][0], "kind": kind})
    return header if body == b"{}" else header[:-1] + b"," + body[1:]


def _decode(raw: bytes | str | dict[str, Any], *, kind: str, api_version: str, source: str) -> Object:
    if kind not in _TYPES or api_version not in _VERSIONS[kind]:
        raise UnknownKind(
            kind, _name_of(raw, source), "", f"no known kind of object in {api_version or '(no apiVersion)'}"
        )
    try:
        if api_version.endswith("v1beta1"):
            return msgspec.convert(_from_beta1(kind, _builtins(raw)), _TYPES[kind])
        return msgspec.convert(raw, _TYPES[kind]) if isinstance(raw, dict) else _DECODERS[kind].decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        first: Exception = error
    # Go reads null as "not set" everywhere; worth a second look only where the strict reading failed.
    try:
        return msgspec.convert(_without_nulls(_from_beta1(kind, _builtins(raw), api_version)), _TYPES[kind])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        path, reason = _split(first)
        raise Malformed(kind, _name_of(raw, source), path, reason) from None


def _builtins(raw: bytes | str | dict[str, Any]) -> dict[str, Any]:
    if isinstance(raw, dict):
        return raw
    data = msgspec.json.decode(raw)
    if not isinstance(data, dict):
        raise msgspec.ValidationError(f"Expected `object`, got `{type(data).__name__}`")
    return data


def _without_nulls(value: Any) -> Any:
    """Drop nulls from objects, except from a driver's own parameters, where null may mean something."""
    if isinstance(value, dict):
        return {
            key: item if key == "parameters" else _without_nulls(item)
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _from_beta1(kind: str, data: dict[str, Any], api_version: str = f"{_GROUP}/v1beta1") -> dict[str, Any]:
    """v1beta1 nests a device's content under `basic` and has an exact request's fields in the request
    itself.
    """
    if not api_version.endswith("v1beta1"):
        return data
    changed: dict[str, Any] = data
    if kind == "ResourceSlice":
        changed = _with(data, ("spec", "devices"), _flatten_device)
    elif kind == "ResourceClaim":
        changed = _with(data, ("spec", "devices", "requests"), _nest_request)
    elif kind == "ResourceClaimTemplate":
        changed = _with(data, ("spec", "spec", "devices", "requests"), _nest_request)
    return changed


def _with(data: Any, path: tuple[str, ...], change: Any) -> Any:
    """A copy of nested dicts in which `change` was applied to every member of the list at `path`."""
    if not path:
        return [change(item) for item in data] if isinstance(data, list) else data
    if not isinstance(data, dict) or path[0] not in data:
        return data
    return {**data, path[0]: _with(data[path[0]], path[1:], change)}


def _flatten_device(device: Any) -> Any:
    if isinstance(device, dict) and isinstance(device.get("basic"), dict):
        return {"name": device.get("name"), **device["basic"]}
    return device


def _nest_request(request: Any) -> Any:
    if not isinstance(request, dict):
        return request
    content = {key: value for key, value in request.items() if key not in ("name", "firstAvailable")}
    if request.get("firstAvailable") or "exactly" in request:
        return request
    return {"name": request.get("name"), "exactly": content}


def _name_of(raw: bytes | str | dict[str, Any], source: str) -> str:
    try:
        meta = (
            msgspec.convert(raw, _Named) if isinstance(raw, dict) else msgspec.json.decode(raw, type=_Named)
        ).metadata
        name = f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name
    except (msgspec.DecodeError, UnicodeDecodeError):
        name = ""
    return ": ".join(filter(None, (source, name)))


_AT = re.compile(r" - at `(?:key in )?\$\.?(.*)`$", re.DOTALL)


def _split(error: BaseException) -> tuple[str, str]:
    """msgspec's message as (path, reason)."""
    text = str(error)
    found = _AT.search(text)
    if found is None:
        return "", text
    return found.group(1), text[: found.start()]


def walk_list(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The objects of a manifest: Lists and typed lists are taken apart; all else stands for itself."""
    kind = data.get("kind")
    items = data.get("items")
    if isinstance(kind, str) and kind.endswith("List") and (isinstance(items, list) or items is None):
        for item in items or ():
            if not isinstance(item, dict):
                raise Malformed(kind, "", "items", f"expected objects, got {type(item).__name__}")
            if "kind" not in item and kind != "List":
                header = {"apiVersion": data.get("apiVersion"), "kind": kind.removesuffix("List")}
                yield from walk_list({**header, **item})
            else:
                yield from walk_list(item)
    else:
        yield data
