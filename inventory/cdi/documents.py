"""Text of a CDI spec file to plain data, safe against text that was made to do harm.

Runtimes read JSON and YAML alike with a YAML parser that refuses duplicate keys. We do the same with limits:
no aliases (they multiply), a depth, a number of values. Pure; nothing here touches the database.
"""

import json
import re
from typing import Any

import yaml

MAX_DEPTH = 16
MAX_VALUES = 50_000


class Unreadable(ValueError):
    """The text is no document that we would take in; `code` and `params` say why (see `words`)."""

    def __init__(self, code: str, **params: str | int) -> None:
        super().__init__(code)
        self.code, self.params = code, params


def read(text: str) -> Any:
    """The document as dicts, lists, strings, numbers, booleans and None. Raises Unreadable.

    JSON is tried first where it looks like JSON, since YAML forbids the tabs that JSON allows.
    """
    if text.lstrip().startswith("{"):
        try:
            return _bounded(_from_json(text))
        except json.JSONDecodeError:
            pass  # flow-style YAML looks alike
    return _from_yaml(text)


# --- JSON --------------------------------------------------------------------------------------------


def _from_json(text: str) -> Any:
    try:
        return json.loads(text, object_pairs_hook=_pairs, parse_constant=_no_constant)
    except RecursionError:
        raise Unreadable("too-deep", limit=MAX_DEPTH) from None
    except json.JSONDecodeError:
        raise
    except Unreadable:
        raise
    except ValueError:  # an integer of thousands of digits
        raise Unreadable("number") from None


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        names = [name for name, _value in pairs]
        raise Unreadable("duplicate-key", name=next(n for n in names if names.count(n) > 1)[:80])
    return made


def _no_constant(name: str) -> Any:
    raise Unreadable("number", name=name)


def _bounded(document: Any) -> Any:
    """The same document, if it is neither too deep nor too large."""
    level, values = [document], 0
    for _depth in range(MAX_DEPTH):
        values += len(level)
        if values > MAX_VALUES:
            raise Unreadable("too-many-values", limit=MAX_VALUES)
        level = [inner for outer in level for inner in _inside(outer)]
        if not level:
            return document
    raise Unreadable("too-deep", limit=MAX_DEPTH)


def _inside(value: Any) -> Any:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


# --- YAML --------------------------------------------------------------------------------------------


class _Loader(yaml.CSafeLoader):
    """Scalars as the runtimes' parser takes them: no timestamps, no numbers of base 60 ("0:1" is a name)."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: FBT001, FBT002 - PyYAML's signature
        seen: set[str] = set()
        for key, _value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise Unreadable("key")
            if key.value in seen:
                raise Unreadable("duplicate-key", name=str(key.value)[:80])
            seen.add(key.value)
        made = super().construct_mapping(node, deep=deep)
        return {str(key): value for key, value in made.items()}


_INT = re.compile(r"[-+]?(0b[01_]+|0o?[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)$")
_FLOAT = re.compile(r"[-+]?([0-9][0-9_]*\.[0-9_]*([eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+|\.[0-9]+)$")
_REPLACED = {"tag:yaml.org,2002:int": _INT, "tag:yaml.org,2002:float": _FLOAT}
_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, _REPLACED.get(tag, pattern))
        for tag, pattern in resolvers
        if tag not in {"tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:merge"}
    ]
    for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def _from_yaml(text: str) -> Any:
    try:
        _survey(text)
        return yaml.load(text, Loader=_Loader)  # noqa: S506 - a safe loader of ours
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = str(getattr(error, "problem", None) or getattr(error, "reason", None) or "no YAML")
        raise Unreadable("syntax", line=getattr(mark, "line", -1) + 1, reason=reason[:200]) from None
    except Unreadable:
        raise
    except (ValueError, OverflowError):
        raise Unreadable("number") from None


def _survey(text: str) -> None:
    """Walks the text's events, which costs no more than its length, before anything is built of it."""
    depth = values = 0
    for event in yaml.parse(text, Loader=_Loader):
        if isinstance(event, yaml.AliasEvent):
            raise Unreadable("alias", line=getattr(event.start_mark, "line", -1) + 1)
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        values += isinstance(event, yaml.NodeEvent)
        if depth > MAX_DEPTH:
            raise Unreadable("too-deep", limit=MAX_DEPTH)
        if values > 2 * MAX_VALUES:  # keys are events, too
            raise Unreadable("too-many-values", limit=MAX_VALUES)
