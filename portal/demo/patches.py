"""Patches of an object: JSON merge (RFC 7386), JSON patch (RFC 6902) and strategic merge."""

import copy
from typing import Any, Literal

from portal.demo import errors
from portal.demo.keyed_lists import SETS, key_of, keys_of

PatchKind = Literal["merge", "json", "strategic", "apply"]
_MAX_OPERATIONS = 10_000


class _Unfit(Exception):
    """An operation of a JSON patch that the object does not admit."""


def changed(current: dict[str, Any], patch: Any, *, kind: PatchKind) -> dict[str, Any]:
    """``current`` (which may be changed on the way) after the patch.

    400 when the patch cannot be read, 422 when it cannot be carried out on this object.
    """
    if kind == "json":
        return _json_patch(current, patch)
    if not isinstance(patch, dict):
        raise errors.bad_request("error decoding patch: json: cannot unmarshal into a map of fields")
    merged = merge(current, patch) if kind == "merge" else strategic(current, patch)
    assert isinstance(merged, dict)
    return merged


def merge(current: Any, patch: Any) -> Any:
    """RFC 7386: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    result = dict(current) if isinstance(current, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge(result.get(name), value)
    return result


def strategic(current: Any, patch: dict[str, Any]) -> Any:
    """Strategic merge: as :func:`merge`, but keyed lists merge by key, and ``$patch`` is obeyed."""
    directive = patch.get("$patch")
    if directive == "replace":
        return {name: value for name, value in patch.items() if name != "$patch"}
    if directive == "delete":
        return {}
    result = dict(current) if isinstance(current, dict) else {}
    for name, value in patch.items():
        if name == "$retainKeys":
            result = {key: kept for key, kept in result.items() if key in value}
        elif name.startswith("$deleteFromPrimitiveList/"):
            field_name = name.partition("/")[2]
            result[field_name] = [item for item in result.get(field_name, []) if item not in value]
        elif name.startswith("$"):
            continue  # orders of items: these lists are read by key
        elif value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = strategic(result.get(name), value)
        elif isinstance(value, list):
            result[name] = _strategic_list(name, result.get(name), value)
        else:
            result[name] = value
    return result


def _strategic_list(name: str, current: Any, patch: list[Any]) -> list[Any]:
    present = current if isinstance(current, list) else []
    if name in SETS:
        return [*present, *(item for item in patch if item not in present)]
    keys = keys_of(name, patch)
    # Claims' devices are keyed for server-side apply only.
    if keys is None or name == "devices":
        return patch
    if name == "ports":
        keys = ("containerPort",)
    if any(item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if item.get("$patch") != "replace"]
    result = list(present)
    for item in patch:
        if any(key not in item for key in keys):
            raise errors.bad_request(f"map: does not contain declared merge key: {', '.join(keys)}")
        at = next((i for i, old in enumerate(result) if key_of(old, keys) == key_of(item, keys)), None)
        if item.get("$patch") == "delete":
            if at is not None:
                del result[at]
        elif at is None:
            result.append(strategic({}, item))
        else:
            result[at] = strategic(result[at], item)
    return result


def _json_patch(document: Any, operations: Any) -> dict[str, Any]:
    if not isinstance(operations, list) or not all(isinstance(item, dict) for item in operations):
        raise errors.bad_request("error decoding patch: a JSON patch is a list of operations")
    if len(operations) > _MAX_OPERATIONS:
        raise errors.ApiError(
            413,
            "RequestEntityTooLarge",
            f"The allowed maximum operations in a JSON patch is {_MAX_OPERATIONS}, got {len(operations)}",
        )
    for operation in operations:
        try:
            document = _operate(document, operation)
        except _Unfit as error:
            raise errors.ApiError(422, "Invalid", f"the server rejected our request: {error}") from None
    if not isinstance(document, dict):
        raise errors.bad_request("a patch has to give an object")
    return document


def _operate(document: Any, operation: dict[str, Any]) -> Any:
    name, path = operation.get("op"), _pointer(operation.get("path"))
    if name in ("add", "replace", "test"):
        if "value" not in operation:
            raise errors.bad_request(f"error decoding patch: operation {name} needs a value")
        value = operation["value"]
        if name == "test":
            if _lookup(document, path) != value:
                raise _Unfit(f"testing value {operation['path']} failed")
            return document
        return _put(document, path, value, replace=name == "replace")
    if name == "remove":
        return _remove(document, path)
    if name in ("move", "copy"):
        source = _pointer(operation.get("from"))
        value = copy.deepcopy(_lookup(document, source))
        if name == "move":
            document = _remove(document, source)
        return _put(document, path, value, replace=False)
    raise errors.bad_request(f"error decoding patch: unexpected kind of operation: {name}")


def _pointer(text: Any) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise errors.bad_request(f"error decoding patch: {text!r} is not a JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _index(container: list[Any], step: str, *, end: bool) -> int:
    if end and step == "-":
        return len(container)
    if not step.isdecimal() or int(step) >= len(container) + end:
        raise _Unfit(f"invalid index: {step}")
    return int(step)


def _lookup(document: Any, path: list[str]) -> Any:
    for step in path:
        if isinstance(document, dict) and step in document:
            document = document[step]
        elif isinstance(document, list):
            document = document[_index(document, step, end=False)]
        else:
            raise _Unfit(f"unable to find path: /{'/'.join(path)}")
    return document


def _put(document: Any, path: list[str], value: Any, *, replace: bool) -> Any:
    if not path:
        return value
    parent, step = _lookup(document, path[:-1]), path[-1]
    if isinstance(parent, dict):
        if replace and step not in parent:
            raise _Unfit(f"replace operation does not apply: doc is missing key: /{'/'.join(path)}")
        parent[step] = value
    elif isinstance(parent, list):
        at = _index(parent, step, end=not replace)
        if replace:
            parent[at] = value
        else:
            parent.insert(at, value)
    else:
        raise _Unfit(f"unable to find path: /{'/'.join(path)}")
    return document


def _remove(document: Any, path: list[str]) -> Any:
    if not path:
        raise _Unfit("the whole object cannot be removed")
    parent, step = _lookup(document, path[:-1]), path[-1]
    if isinstance(parent, list):
        del parent[_index(parent, step, end=False)]
    elif isinstance(parent, dict) and step in parent:
        del parent[step]
    else:
        raise _Unfit(f"remove operation does not apply: doc is missing path: /{'/'.join(path)}")
    return document
