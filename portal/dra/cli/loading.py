"""From files and scenarios to objects; what cannot be read is reported, and the rest is used."""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from portal.dra.features import LATEST, Features
from portal.dra.fleet import Fleet
from portal.dra.model import (
    DeviceClass,
    DeviceTaintRule,
    Malformed,
    Node,
    Object,
    ResourceClaim,
    ResourceSlice,
    UnknownKind,
    decode_object,
    walk_list,
)


class UnreadableError(ValueError):
    """A file or scenario that holds no objects at all; the message says where and why."""


class Inventory:
    """The objects of one question, by kind; `complaints` names those that could not be read."""

    def __init__(self) -> None:
        self.slices: list[ResourceSlice] = []
        self.classes: list[DeviceClass] = []
        self.nodes: list[Node] = []
        self.rules: list[DeviceTaintRule] = []
        self.claims: dict[tuple[str, str], ResourceClaim] = {}
        self.complaints: list[str] = []

    def add_all(self, data: Any, source: str = "") -> None:
        """Add an object, a List, or a sequence of both."""
        documents = data if isinstance(data, list) else [data]
        for index, document in enumerate(documents):
            where = f"{source}[{index}]" if source and isinstance(data, list) else source
            if document is None:
                continue
            if not isinstance(document, dict):
                self.complaints.append(
                    f"{where or 'object'}: expected an object, got {type(document).__name__}"
                )
                continue
            try:
                for item in walk_list(document):
                    self._add_raw(item, where)
            except (Malformed, RecursionError) as error:
                self.complaints.append(f"{where + ': ' if where else ''}{error}")

    def _add_raw(self, item: dict[str, Any], source: str) -> None:
        try:
            self.add(decode_object(item, source=source))
        except UnknownKind as error:
            if not item.get("kind") or not item.get("apiVersion"):
                self.complaints.append(str(error))
        except Malformed as error:
            self.complaints.append(str(error))

    def add(self, item: Object) -> None:
        """Add one decoded object; kinds without a part in allocation are passed over."""
        match item:
            case ResourceSlice():
                self.slices.append(item)
            case DeviceClass():
                self.classes.append(item)
            case Node():
                self.nodes.append(item)
            case DeviceTaintRule():
                self.rules.append(item)
            case ResourceClaim():
                self.claims[item.key] = item

    def fleet(self, features: Features) -> Fleet:
        """All of it as a fleet; claims that carry an allocation hold their devices."""
        return Fleet.build(
            slices=self.slices,
            classes=self.classes,
            nodes=self.nodes,
            claims=self.claims.values(),
            taint_rules=self.rules,
            features=features,
        )

    def claim(self, name: str) -> ResourceClaim:
        """A claim by `namespace/name`, or by its name where that is unique; raises UnreadableError."""
        namespace, slash, bare = name.partition("/")
        if slash:
            spaces = (namespace, "") if namespace == "default" else (namespace,)
            found = [self.claims[space, bare] for space in spaces if (space, bare) in self.claims][:1]
        else:
            found = [claim for key, claim in self.claims.items() if key[1] == name]
        if len(found) == 1:
            return found[0]
        raise UnreadableError(
            f"claim {name}: {'there are several; name the namespace too' if found else 'no such claim'}"
        )


def features_of(*, kubernetes: str | None, gates: Iterable[str] | None) -> Features:
    """The gates named, or the defaults of a version, else of the latest; raises UnknownFeature."""
    preset = Features.for_version(kubernetes or LATEST)
    return preset if gates is None else Features(Features.parse(",".join(gates)).gates, preset.version)


def load(paths: Iterable[str]) -> Inventory:
    """Read manifests: YAML documents, JSON, Lists; `-` is standard input. Raises UnreadableError."""
    inventory = Inventory()
    for path in paths:
        try:
            text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise UnreadableError(f"{path}: {error}") from None
        for document in _documents(text, path):
            inventory.add_all(document, path)
    return inventory


def _documents(text: str, path: str) -> Iterator[Any]:
    if text.lstrip().startswith(("{", "[")):
        try:
            yield msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            pass  # YAML's flow style begins like JSON
        else:
            return
    import yaml

    try:
        yield from yaml.load_all(text, Loader=_loader())
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise UnreadableError(f"{path}: {' '.join(str(error).split())}") from None


def _loader() -> Any:
    """A safe loader that leaves dates alone: the API's timestamps are strings."""
    import yaml

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[valid-type,misc]  # chosen at run time: libyaml may be missing
        """Without implicit timestamps."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in base.yaml_implicit_resolvers.items()
    }
    return Loader
