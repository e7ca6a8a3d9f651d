"""Whether a CDI spec is one that a container runtime takes. Pure.

The rules are those of the CDI specification and its reference library up to version 1.1.0: known versions,
names, required fields, and the version from which each field may be used. A field that no version knows is a
warning: the reference library refuses such files, other readers ignore the field.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from inventory.cdi import documents

VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0", "1.1.0")
MAX_PROBLEMS = 50
# What is kept of one device's edits, for people.
MAX_KEPT = 20

ERROR, WARNING = "error", "warning"

_WORD = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?")
_DEVICE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_HOOKS = {"prestart", "createRuntime", "createContainer", "startContainer", "poststart", "poststop"}
_NODE_TYPES = {"", "b", "c", "u", "p"}
_MAX_CLOS = 4096


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, where (a path such as "devices[0].containerEdits.hooks[1]"), how badly."""

    code: str
    path: str = ""
    level: str = ERROR
    params: Mapping[str, str | int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        return {"code": self.code, "path": self.path, "level": self.level, "params": dict(self.params)}


@dataclass(frozen=True)
class DeviceReading:
    """A device that a spec names, with what it would do to a container: names and paths, no values of
    environment variables, which may be secret."""

    name: str
    edits: Mapping[str, list[str]]


@dataclass(frozen=True)
class SpecReading:
    """What a spec file says. `kind` and `version` are "" where it does not say them."""

    version: str = ""
    kind: str = ""
    devices: tuple[DeviceReading, ...] = ()
    # Edits for every container that gets any of the devices.
    edits: Mapping[str, list[str]] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    @property
    def vendor(self) -> str:
        return self.kind.partition("/")[0]

    @property
    def device_class(self) -> str:
        return self.kind.partition("/")[2]

    @property
    def valid(self) -> bool:
        """Whether a runtime takes the file: warnings do not count."""
        return all(problem.level != ERROR for problem in self.problems)


def read_spec(text: str) -> SpecReading:
    """Reads and validates the text of a spec file. Never raises: whatever is wrong is among `problems`."""
    try:
        document = documents.read(text)
    except documents.Unreadable as error:
        # Names and tags of the text may be among them.
        params = {
            name: clip(value) if isinstance(value, str) else value for name, value in error.params.items()
        }
        return SpecReading(problems=(Problem(error.code, params=params),))
    if not isinstance(document, dict):
        return SpecReading(problems=(Problem("not-an-object"),))
    return _Reader(document).reading()


# --- the fields, and since when ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Field:
    """`type` is string, int, bool, strings, ints, map, or object/objects of the named `shape`."""

    type: str
    shape: str = ""
    since: str = ""
    before: str = ""
    required: bool = False


_SHAPES: Mapping[str, Mapping[str, _Field]] = {
    "spec": {
        "cdiVersion": _Field("string", required=True),
        "kind": _Field("string", required=True),
        "annotations": _Field("map", since="0.6.0"),
        "devices": _Field("objects", "device", required=True),
        "containerEdits": _Field("object", "edits"),
    },
    "device": {
        "name": _Field("string", required=True),
        "annotations": _Field("map", since="0.6.0"),
        "containerEdits": _Field("object", "edits", required=True),
    },
    "edits": {
        "env": _Field("strings"),
        "deviceNodes": _Field("objects", "node"),
        "netDevices": _Field("objects", "net", since="1.1.0"),
        "mounts": _Field("objects", "mount"),
        "hooks": _Field("objects", "hook"),
        "additionalGids": _Field("ints", since="0.7.0"),
        "intelRdt": _Field("object", "rdt", since="0.7.0"),
    },
    "node": {
        "path": _Field("string", required=True),
        "hostPath": _Field("string", since="0.5.0"),
        "type": _Field("string"),
        "major": _Field("int"),
        "minor": _Field("int"),
        "fileMode": _Field("int"),
        "permissions": _Field("string"),
        "uid": _Field("int"),
        "gid": _Field("int"),
    },
    "net": {
        "hostInterfaceName": _Field("string", required=True),
        "name": _Field("string", required=True),
    },
    "mount": {
        "hostPath": _Field("string", required=True),
        "containerPath": _Field("string", required=True),
        "options": _Field("strings"),
        "type": _Field("string", since="0.4.0"),
    },
    "hook": {
        "hookName": _Field("string", required=True),
        "path": _Field("string", required=True),
        "args": _Field("strings"),
        "env": _Field("strings"),
        "timeout": _Field("int"),
    },
    "rdt": {
        "closID": _Field("string"),
        "l3CacheSchema": _Field("string"),
        "memBwSchema": _Field("string"),
        "schemata": _Field("strings", since="1.1.0"),
        "enableMonitoring": _Field("bool", since="1.1.0"),
        "enableCMT": _Field("bool", before="1.1.0"),
        "enableMBM": _Field("bool", before="1.1.0"),
    },
}
_LEAVES: Mapping[str, Callable[[Any], bool]] = {
    # The runtimes' parser turns a bare number into a string where a string is meant ("name: 0").
    "string": lambda v: isinstance(v, (str, int, float)) and not isinstance(v, bool),
    "int": lambda v: isinstance(v, int) and not isinstance(v, bool),
    "bool": lambda v: isinstance(v, bool),
    "strings": lambda v: isinstance(v, list) and all(isinstance(item, str) for item in v),
    "ints": lambda v: isinstance(v, list) and all(type(item) is int and item >= 0 for item in v),
    "map": lambda v: isinstance(v, dict) and all(isinstance(item, str) for item in v.values()),
    "object": lambda v: isinstance(v, dict),
    "objects": lambda v: isinstance(v, list) and all(isinstance(item, dict) for item in v),
}


class _Reader:
    """One pass over a document: the shape first, then what the shape cannot say."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        self.problems: list[Problem] = []
        # As a position in VERSIONS; a version that we do not know is judged as the newest.
        self.version = clip(document.get("cdiVersion", ""))
        self.rank = VERSIONS.index(self.version) if self.version in VERSIONS else len(VERSIONS) - 1
        # The number of problems may be as large as the file; only so many are told.
        self.left_out = 0

    def reading(self) -> SpecReading:
        document = self.document
        self._shape("spec", document, "")
        if self.version and self.version not in VERSIONS:
            self._add("version", "cdiVersion", version=self.version)
        kind = clip(document.get("kind", ""))
        if kind:
            self._kind(kind)
        self._edits(document.get("containerEdits"), "containerEdits")
        devices = self._devices(document.get("devices"))
        if self.left_out:
            self.problems.append(Problem("more-problems", level=WARNING, params={"count": self.left_out}))
        return SpecReading(
            version=self.version,
            kind=kind,
            devices=devices,
            edits=_summary(document.get("containerEdits")),
            problems=tuple(self.problems),
        )

    def _add(self, code: str, path: str, level: str = ERROR, **params: str | int) -> None:
        if len(self.problems) >= MAX_PROBLEMS:
            self.left_out += 1
            return
        self.problems.append(Problem(code, path[:200], level, params))

    def _shape(self, shape: str, value: dict[str, Any], path: str) -> None:
        known = _SHAPES[shape]
        for name, item in value.items():
            here = f"{path}.{clip(name)}" if path else clip(name)
            if (wanted := known.get(name)) is None:
                self._add("unknown-field", here, WARNING)
                continue
            if item is None:
                continue  # as if it were not there
            if not _LEAVES[wanted.type](item):
                self._add("type", here, expected=wanted.type)
                continue
            self._since(wanted, here, used=bool(item))
            if wanted.type == "object":
                self._shape(wanted.shape, item, here)
            elif wanted.type == "objects":
                for index, inner in enumerate(item):
                    self._shape(wanted.shape, inner, f"{here}[{index}]")
        for name, wanted in known.items():
            if wanted.required and value.get(name) in (None, ""):
                self._add("missing", f"{path}.{name}" if path else name)

    def _since(self, wanted: _Field, path: str, *, used: bool) -> None:
        if not used or self.version not in VERSIONS:
            return
        if wanted.since and self.rank < VERSIONS.index(wanted.since):
            self._add("needs-version", path, version=wanted.since, stated=self.version)
        if wanted.before and self.rank >= VERSIONS.index(wanted.before):
            self._add("field-removed", path, version=wanted.before)

    def _needs(self, version: str, path: str) -> None:
        if self.rank < VERSIONS.index(version):
            self._add("needs-version", path, version=version, stated=self.version)

    def _kind(self, kind: str) -> None:
        vendor, slash, device_class = kind.partition("/")
        if not (slash and _WORD.fullmatch(vendor) and _WORD.fullmatch(device_class)):
            self._add("kind", "kind", kind=kind)
        elif "." in device_class:
            self._needs("0.6.0", "kind")

    def _devices(self, devices: Any) -> tuple[DeviceReading, ...]:
        if not isinstance(devices, list):
            return ()
        if not devices:
            self._add("no-devices", "devices")
        found: dict[str, DeviceReading] = {}
        for index, device in enumerate(devices):
            if not isinstance(device, dict):
                continue
            path, name = f"devices[{index}]", clip(device.get("name", ""))
            if name and not _DEVICE.fullmatch(name):
                self._add("device-name", f"{path}.name", name=name)
            elif name[:1].isdigit():
                self._needs("0.5.0", f"{path}.name")
            if name in found:
                self._add("device-twice", f"{path}.name", name=name)
            edits = device.get("containerEdits")
            self._edits(edits, f"{path}.containerEdits")
            if isinstance(edits, dict) and not any(edits.values()):
                self._add("empty-edits", f"{path}.containerEdits")
            if name:
                found.setdefault(name, DeviceReading(name, _summary(edits)))
        return tuple(found.values())

    # --- container edits ---

    def _edits(self, edits: Any, path: str) -> None:
        if not isinstance(edits, dict):
            return
        self._env(edits.get("env"), f"{path}.env")
        for index, node in _objects(edits, "deviceNodes"):
            self._node(node, f"{path}.deviceNodes[{index}]")
        for index, hook in _objects(edits, "hooks"):
            here = f"{path}.hooks[{index}]"
            name = clip(hook.get("hookName", ""))
            if name and name not in _HOOKS:
                self._add("hook-name", f"{here}.hookName", name=name)
            self._env(hook.get("env"), f"{here}.env")
        rdt = edits.get("intelRdt")
        if isinstance(rdt, dict) and isinstance(clos := rdt.get("closID", ""), str) and _bad_clos(clos):
            self._add("clos", f"{path}.intelRdt.closID")
        for name in ("hostInterfaceName", "name"):
            given = [clip(net.get(name, "")) for _index, net in _objects(edits, "netDevices")]
            if len(set(given)) < len(given):
                self._add("net-device-twice", f"{path}.netDevices")

    def _env(self, env: Any, path: str) -> None:
        for index, entry in enumerate(env if isinstance(env, list) else ()):
            if isinstance(entry, str) and entry.find("=") <= 0:
                # The entry itself stays out of the message: it may be a secret without its name.
                self._add("env", f"{path}[{index}]")

    def _node(self, node: dict[str, Any], path: str) -> None:
        if clip(node.get("type", "")) not in _NODE_TYPES:
            self._add("node-type", f"{path}.type", type=clip(node.get("type")))
        for name in ("major", "minor", "uid", "gid", "fileMode"):
            if isinstance(number := node.get(name), int) and number < 0:
                self._add("negative", f"{path}.{name}")
        permissions = clip(node.get("permissions", ""))
        if permissions != "none" and permissions.strip("rwm"):
            self._add("permissions", f"{path}.permissions", permissions=permissions)


# --- helpers -----------------------------------------------------------------------------------------


def clip(value: Any, limit: int = 253) -> str:
    """A value as text that every database stores: no NUL, no half characters, not endless; "" for None."""
    if value is None or isinstance(value, (dict, list)):
        return ""
    try:
        text = value[: limit + 1] if isinstance(value, str) else str(value)
    except ValueError:  # a number of thousands of digits
        text = "…"
    text = text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _objects(edits: dict[str, Any], name: str) -> list[tuple[int, dict[str, Any]]]:
    given = edits.get(name)
    return [(i, v) for i, v in enumerate(given if isinstance(given, list) else ()) if isinstance(v, dict)]


def _bad_clos(name: str) -> bool:
    """It becomes a directory of resctrl; "/" is that file system's root group."""
    return name != "/" and (len(name) >= _MAX_CLOS or name in {".", ".."} or "/" in name or "\n" in name)


def _summary(edits: Any) -> dict[str, list[str]]:
    """What the edits would do, as names and paths."""
    if not isinstance(edits, dict):
        return {}
    env = edits.get("env")
    # An entry without a name may be nothing but a value.
    names = [clip(e.partition("=")[0], 80) if "=" in e else "?" for e in _list(env) if isinstance(e, str)]
    kept = {
        "env": names,
        "device_nodes": [clip(node.get("path")) for _i, node in _objects(edits, "deviceNodes")],
        "mounts": [clip(mount.get("containerPath")) for _i, mount in _objects(edits, "mounts")],
        "hooks": [
            f"{clip(h.get('hookName'), 20)} {clip(h.get('path'))}" for _i, h in _objects(edits, "hooks")
        ],
        "net_devices": [clip(net.get("name")) for _i, net in _objects(edits, "netDevices")],
        "additional_gids": [clip(gid) for gid in _list(edits.get("additionalGids"))],
        "intel_rdt": [clip(edits["intelRdt"].get("closID")) or "–"]
        if isinstance(edits.get("intelRdt"), dict)
        else [],
    }
    return {
        name: [*values[:MAX_KEPT], "…"] if len(values) > MAX_KEPT else values
        for name, values in kept.items()
        if values
    }


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
