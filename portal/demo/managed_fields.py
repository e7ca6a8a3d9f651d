"""``metadata.managedFields``: who last wrote which field and when, and server-side apply, which rests on it.

Fields are sets of paths. A path is a tuple of steps in the notation of ``FieldsV1``: ``f:name`` for a field,
``k:{"name":"x"}`` for an item of a keyed list, ``v:"x"`` for a member of a set, ``.`` for the thing itself.
"""

import json
from dataclasses import dataclass
from typing import Any

import msgspec

from portal.demo import errors
from portal.demo.keyed_lists import SETS, key_of, keys_of

Path = tuple[str, ...]
_UNMANAGED = frozenset(
    {
        "name", "namespace", "uid", "resourceVersion", "generation", "creationTimestamp", "selfLink",
        "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Applied:
    """A server-side apply: what ``manager`` wants to be true."""

    intent: dict[str, Any]
    manager: str
    force: bool


def record_update(
    old: dict[str, Any] | None,
    new: dict[str, Any],
    *,
    manager: str,
    api_version: str,
    subresource: str,
    time: str,
    applied: Applied | None = None,
) -> None:
    """Write into ``new`` that ``manager`` set the fields in which it differs from ``old``.

    A change takes the field from every other manager. An update with ``managedFields: []`` wipes them.
    """
    before, after = _leaves(old) if old is not None else {}, _leaves(new)
    changed = {path for path, value in after.items() if path not in before or before[path] != value}
    taken = changed | (before.keys() - after.keys())
    wiped = old is not None and new["metadata"].get("managedFields") in ([], [{}])
    entries = [] if wiped else list((old or {}).get("metadata", {}).get("managedFields", ()))
    if applied is None and not taken:
        _set_entries(new, entries)
        return
    operation = "Update" if applied is None else "Apply"
    owned = changed if applied is None else set(_leaves(applied.intent))
    kept: list[dict[str, Any]] = []
    for entry in entries:
        had = _read(entry.get("fieldsV1", {}))
        if _identity(entry) != (operation, manager, subresource):
            if left := _minus(had, taken):
                kept.append({**entry, "fieldsV1": _write(left)})
        elif applied is None:
            owned = _minus(had, taken) | owned
        elif had == owned and not taken:
            time = entry.get("time", time)
    if owned:
        entry = {
            "manager": manager, "operation": operation, "apiVersion": api_version, "time": time,
            "fieldsType": "FieldsV1", "fieldsV1": _write(owned),
        }  # fmt: skip
        kept.append({**entry, "subresource": subresource} if subresource else entry)
    _set_entries(new, kept)


def _identity(entry: dict[str, Any]) -> tuple[str, str, str]:
    return entry.get("operation", ""), entry.get("manager", ""), entry.get("subresource", "")


def merge_intent(old: dict[str, Any], applied: Applied) -> dict[str, Any]:
    """``old`` with the applied intent, and without what this manager applied before but no longer wants.

    409 with one cause for each field that another manager holds with another value, unless forced.
    """
    wanted, present = _leaves(applied.intent), _leaves(old) if old else {}
    entries = old.get("metadata", {}).get("managedFields", ()) if old else ()
    mine: set[Path] = set()
    others: set[Path] = set()
    causes = []
    for entry in entries:
        owned = _read(entry.get("fieldsV1", {}))
        if entry.get("operation") == "Apply" and entry.get("manager") == applied.manager:
            mine |= owned
            continue
        others |= owned
        causes += [
            _conflict(entry, path)
            for path in sorted(owned & wanted.keys())
            if path in present and present[path] != wanted[path]
        ]
    if causes and not applied.force:
        texts = [f"{cause['message']}: {cause['field']}" for cause in causes]
        noun = "conflict" if len(texts) == 1 else "conflicts"
        raise errors.ApiError(
            409, "Conflict", f"Apply failed with {len(texts)} {noun}: {'; '.join(texts)}", {"causes": causes}
        )
    merged: dict[str, Any] = _merge(old, applied.intent, "")
    for path in sorted(mine - wanted.keys() - others, key=len, reverse=True):
        _remove(merged, path)
    return merged


def _conflict(entry: dict[str, Any], path: Path) -> dict[str, str]:
    holder = entry.get("manager", "")
    if entry.get("subresource"):
        holder = f'{holder}" with subresource "{entry["subresource"]}'
    using = f" using {entry.get('apiVersion')}" if entry.get("operation") == "Update" else ""
    return {
        "reason": "FieldManagerConflict",
        "message": f'conflict with "{holder}"{using}',
        "field": "".join(_readable(step) for step in path),
    }


def _readable(step: str) -> str:
    if step.startswith("f:"):
        return f".{step[2:]}"
    if step.startswith("k:"):
        keys = ",".join(f"{name}={json.dumps(value)}" for name, value in json.loads(step[2:]).items())
        return f"[{keys}]"
    return f"[={step[2:]}]" if step.startswith("v:") else ""


def _set_entries(new: dict[str, Any], entries: list[dict[str, Any]]) -> None:
    if entries:
        new["metadata"]["managedFields"] = entries
    else:
        new["metadata"].pop("managedFields", None)


def _leaves(obj: dict[str, Any]) -> dict[Path, Any]:
    """All managed paths of an object with their values; ``.`` stands for a container itself."""
    found: dict[Path, Any] = {}
    for name, value in obj.items():
        if name == "metadata":
            for inner, content in value.items():
                if inner not in _UNMANAGED:
                    _collect(content, inner, ("f:metadata", f"f:{inner}"), found)
        elif name not in ("apiVersion", "kind"):
            _collect(value, name, (f"f:{name}",), found)
    return found


def _collect(value: Any, field_name: str, path: Path, found: dict[Path, Any]) -> None:
    if isinstance(value, dict):
        if not value:
            found[path] = value
            return
        if field_name in ("labels", "annotations"):
            found[(*path, ".")] = True
        for name, content in value.items():
            _collect(content, name, (*path, f"f:{name}"), found)
        return
    if field_name in SETS and isinstance(value, list):
        found[(*path, ".")] = True
        for item in value:
            found[(*path, f"v:{json.dumps(item)}")] = item
        return
    keys = keys_of(field_name, value)
    if keys is None:
        found[path] = value
        return
    found[(*path, ".")] = True
    for item in value:
        step = _key_step(item, keys)
        found[(*path, step, ".")] = True
        for name, content in item.items():
            _collect(content, name, (*path, step, f"f:{name}"), found)


def _key_step(item: dict[str, Any], keys: tuple[str, ...]) -> str:
    values = dict(zip(keys, key_of(item, keys), strict=True))
    present = {name: value for name, value in values.items() if value is not None}
    return "k:" + msgspec.json.encode(present, order="sorted").decode()


def _minus(owned: set[Path], taken: set[Path]) -> set[Path]:
    """``owned`` without ``taken`` and without containers in which nothing is left."""
    left = owned - taken
    return {path for path in left if path[-1] != "." or any(_inside(other, path) for other in left)}


def _inside(path: Path, container: Path) -> bool:
    depth = len(container) - 1
    return path != container and path[:depth] == container[:depth]


def _read(tree: dict[str, Any], prefix: Path = ()) -> set[Path]:
    paths: set[Path] = set()
    for step, below in tree.items():
        if below:
            paths |= _read(below, (*prefix, step))
        else:
            paths.add((*prefix, step))
    return paths


def _write(paths: set[Path]) -> dict[str, Any]:
    tree: dict[str, Any] = {}
    for path in sorted(paths):
        node = tree
        for step in path:
            node = node.setdefault(step, {})
    return tree


def _merge(current: Any, intent: Any, field_name: str) -> Any:
    if isinstance(intent, dict):
        result = dict(current) if isinstance(current, dict) else {}
        for name, value in intent.items():
            result[name] = _merge(result.get(name), value, name)
        return result
    if not isinstance(intent, list):
        return intent
    present = current if isinstance(current, list) else []
    if field_name in SETS:
        return [*present, *(item for item in intent if item not in present)]
    keys = keys_of(field_name, intent)
    if keys is None:
        return intent
    result_list = list(present)
    for item in intent:
        at = next((i for i, old in enumerate(result_list) if key_of(old, keys) == key_of(item, keys)), None)
        if at is None:
            result_list.append(item)
        else:
            result_list[at] = _merge(result_list[at], item, "")
    return result_list


def _remove(container: Any, path: Path) -> None:
    """Take one path out of an object, if it is there."""
    for depth, step in enumerate(path):
        last = depth == len(path) - 1
        if step.startswith("f:") and isinstance(container, dict):
            if last:
                container.pop(step[2:], None)
                return
            container = container.get(step[2:])
        elif step.startswith("k:") and isinstance(container, list):
            wanted = json.loads(step[2:])
            item = next((i for i in container if all(i.get(k) == v for k, v in wanted.items())), None)
            if item is None:
                return
            if path[depth + 1 :] == (".",):
                container.remove(item)
                return
            container = item
        elif step.startswith("v:") and isinstance(container, list):
            value = json.loads(step[2:])
            if value in container:
                container.remove(value)
            return
        else:
            return
