"""DeviceClasses as YAML: written for people, and read with every mistake at its line.

What older versions of the API and `kubectl get -o yaml` say besides is left out and told of, so that nobody
wonders; what Kubernetes does not know is refused.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from django.utils.translation import gettext as _

from inventory import describe
from inventory.classes import TOOLS, Wanted
from portal import texts
from portal.dra import model as dra

GROUP, VERSION = "resource.k8s.io", "v1"
OLDER = ("v1beta2", "v1beta1", "v1alpha3")
MAX_TEXT = 256 * 1024
MAX_DOCUMENTS = 100
MAX_DEPTH = 32
FIELDS = ("selectors", "config", "extendedResourceName")
# What the API server keeps for itself.
SERVERS = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink"),
    *("ownerReferences", "finalizers", "deletionTimestamp"),
)


class UnreadableText(ValueError):
    """What is wrong with a text, and where: `line` and `column` from 1, 0 = nowhere in particular."""

    def __init__(self, message: str, *, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column

    @property
    def told(self) -> str:
        if not self.line:
            return self.message
        place = {"line": self.line, "column": self.column, "message": self.message}
        return _("Line %(line)d, column %(column)d: %(message)s") % place


@dataclass(frozen=True)
class ClassText:
    """One class as it was read. `notes` say what was left out or taken for something else."""

    name: str
    wanted: Wanted
    notes: Sequence[str] = ()
    # Where its document begins.
    line: int = 1


def written(name: str, wanted: Wanted) -> str:
    """A class as one would write it into a file."""
    metadata: dict[str, Any] = {"name": name}
    if wanted.labels:
        metadata["labels"] = dict(wanted.labels)
    if wanted.annotations:
        metadata["annotations"] = dict(wanted.annotations)
    body = {
        "apiVersion": f"{GROUP}/{VERSION}",
        "kind": "DeviceClass",
        "metadata": metadata,
        "spec": wanted.spec(),
    }
    return describe.as_yaml(body)


def read_one(text: str) -> ClassText:
    """The one class of a text. Raises UnreadableText."""
    found = read_all(text)
    if len(found) > 1:
        raise UnreadableText(
            _("There are several documents; one class is edited at a time."), line=found[1].line, column=1
        )
    return found[0]


def read_all(text: str) -> Sequence[ClassText]:
    """The classes of a text of one or several documents (or a List of them), at least one. Raises
    UnreadableText."""
    if len(text) > MAX_TEXT:
        raise UnreadableText(_("This is too long for a class."))
    try:
        plain = texts.plain(text)
    except texts.UncleanText as unclean:
        raise UnreadableText(unclean.message) from None
    offset = text.replace("\r\n", "\n")[: len(text) - len(text.lstrip())].count("\n")
    documents = _composed(plain, offset)
    found: list[ClassText] = []
    for node, value in documents:
        if isinstance(value, dict) and value.get("kind") in ("List", "DeviceClassList"):
            items = _child(node, "items")
            for place, item in zip(items.value if items else (), value.get("items") or (), strict=False):
                found.append(_Reader(place, offset).read(item))
        else:
            found.append(_Reader(node, offset).read(value))
        if len(found) > MAX_DOCUMENTS:
            raise UnreadableText(_("These are more than %(n)d classes.") % {"n": MAX_DOCUMENTS})
    if not found:
        raise UnreadableText(_("There is no class in it."), line=1, column=1)
    return found


def _composed(text: str, offset: int) -> list[tuple[Any, Any]]:
    """Each document as nodes, which know their places, and as plain values."""
    found = []
    loader = Loader(text)
    try:
        while loader.check_node():
            node = loader.get_node()
            value = loader.construct_document(node)
            json.dumps(value, allow_nan=False)
            if value is not None:
                found.append((node, value))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = {"line": mark.line + 1 + offset, "column": mark.column + 1} if mark else {}
        said = ", ".join(part for part in (error.context, error.problem) if part)
        raise UnreadableText(_("This is not YAML: %(reason)s") % {"reason": said}, **place) from None
    except yaml.YAMLError as error:
        raise UnreadableText(_("This is not YAML: %(reason)s") % {"reason": error}) from None
    except (TypeError, ValueError, RecursionError):
        raise UnreadableText(_("This YAML holds something that JSON cannot say.")) from None
    finally:
        loader.dispose()
    return found


class Loader(yaml.SafeLoader):
    """YAML without aliases: a few lines of them can stand for gigabytes; and without keys given twice, of
    which one would be lost without a word."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]  # the stubs leave it out
            raise yaml.MarkedYAMLError(problem=_("aliases are not supported here"), problem_mark=mark)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise yaml.YAMLError(_("it is nested too deeply"))
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002 - PyYAML's signature
        seen: set[str] = set()
        for key, _value in node.value:
            if key.value in seen:
                problem = _("“%(key)s” is given twice") % {"key": str(key.value)[:100]}
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            seen.add(key.value) if isinstance(key.value, str) else None
        return super().construct_mapping(node, deep)


class _Reader:
    """One document: its values, with the places of what is wrong."""

    def __init__(self, node: Any, offset: int) -> None:
        self.node = node
        self.offset = offset
        self.notes: list[str] = []

    def read(self, body: Any) -> ClassText:
        if not isinstance(body, dict):
            raise self._error(_("This is not an object: it begins with apiVersion and kind."))
        if body.get("kind") != "DeviceClass":
            said = _("This is not a DeviceClass but “%(kind)s”.") % {"kind": str(body.get("kind", ""))[:100]}
            raise self._error(said, "kind")
        self._version(str(body.get("apiVersion", "")))
        self._known(body, ("apiVersion", "kind", "metadata", "spec"), drop=("status",))
        metadata = body.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            raise self._error(_("metadata.name is missing."), "metadata")
        self._known(metadata, ("name", "labels", "annotations"), "metadata", drop=SERVERS)
        spec = body.get("spec")
        if spec is None:
            spec = {}
        if not isinstance(spec, dict):
            raise self._error(_("spec is not an object."), "spec")
        self._known(spec, FIELDS, "spec", drop=("suitableNodes",))
        spec = {key: value for key, value in spec.items() if key in FIELDS and value is not None}
        labels = self._texts(metadata.get("labels"), "labels")
        annotations = self._texts(metadata.get("annotations"), "annotations")
        tools = [key for key in sorted(TOOLS) if annotations.pop(key, None) is not None]
        self.notes += [_("%(key)s is left out: a tool keeps it for itself.") % {"key": key} for key in tools]
        self._decode(spec)
        return ClassText(
            name=metadata["name"],
            wanted=Wanted.of_spec(spec, labels=labels, annotations=annotations),
            notes=tuple(self.notes),
            line=self.node.start_mark.line + 1 + self.offset,
        )

    def _version(self, said: str) -> None:
        group, _slash, version = said.rpartition("/")
        if group != GROUP or version not in (VERSION, *OLDER):
            raise self._error(
                _("apiVersion is not %(group)s/%(version)s.") % {"group": GROUP, "version": VERSION},
                "apiVersion",
            )
        if version != VERSION:
            told = {"old": said, "new": f"{GROUP}/{VERSION}"}
            self.notes.append(_("%(old)s is read as %(new)s; a class says the same in both.") % told)

    def _known(
        self, body: Mapping[str, Any], known: Sequence[str], *path: str, drop: Sequence[str] = ()
    ) -> None:
        for key in body:
            name = ".".join((*path, str(key)))
            if key in drop:
                self.notes.append(_("%(field)s is left out.") % {"field": name})
            elif key not in known:
                said = _("A class has no field “%(field)s”.") % {"field": name[:100]}
                raise self._error(said, *path, str(key), key_itself=True)

    def _texts(self, value: Any, what: str) -> dict[str, str]:
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self._error(_("This is not an object of texts."), "metadata", what)
        for key, text in value.items():
            if not isinstance(key, str) or not isinstance(text, str):
                said = _("“%(key)s” is not a text: write it in quotes.") % {"key": str(key)[:100]}
                raise self._error(said, "metadata", what, str(key), key_itself=True)
        return dict(value)

    def _decode(self, spec: Mapping[str, Any]) -> None:
        body = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "DeviceClass",
            "metadata": {"name": "x"},
            "spec": dict(spec),
        }
        try:
            dra.decode_object(body)
        except dra.Malformed as malformed:
            path = malformed.path.replace("[", ".").replace("]", "").split(".")
            said = f"{malformed.path}: {malformed.reason}" if malformed.path else malformed.reason
            raise self._error(said, *path) from None

    def _error(self, message: str, *path: str, key_itself: bool = False) -> UnreadableText:
        """A mistake at a path, or as near to it as the text goes."""
        node, mark = self.node, self.node.start_mark
        for step in path:
            if isinstance(node, yaml.SequenceNode) and step.isdigit() and int(step) < len(node.value):
                node = node.value[int(step)]
                mark = node.start_mark
                continue
            pair = next((p for p in getattr(node, "value", ()) if _is_pair(p) and p[0].value == step), None)
            if pair is None:
                break
            node = pair[1]
            mark = (
                pair[0].start_mark
                if key_itself or node.start_mark.line > pair[0].start_mark.line
                else node.start_mark
            )
        return UnreadableText(message, line=mark.line + 1 + self.offset, column=mark.column + 1)


def _is_pair(value: Any) -> bool:
    return isinstance(value, tuple)


def _child(node: Any, key: str) -> Any:
    return next((value for name, value in getattr(node, "value", ()) if name.value == key), None)
