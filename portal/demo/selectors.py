"""Label and field selectors, as list and watch take them."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from portal.demo import errors
from portal.demo.resources import STORED, Resource

_SET_TERM = re.compile(r"^(?P<key>\S+)\s+(?P<operator>in|notin)\s*\((?P<values>[^()]*)\)$")
_COMPARISON = re.compile(r"^(?P<key>[^=!<>\s]+)\s*(?P<operator>==|=|!=|>|<)\s*(?P<value>[^=!<>\s]*)$")
_EXISTENCE = re.compile(r"^(?P<negated>!\s*)?(?P<key>[^=!<>\s(),]+)$")
_KEY = re.compile(r"^([a-z0-9A-Z.-]{1,253}/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?$")
_VALUE = re.compile(r"^([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?$")

LabelTest = Callable[[Mapping[str, str]], bool]


@dataclass(frozen=True, slots=True)
class Selector:
    """What a list or a watch asks for; an empty one selects everything."""

    namespace: str = ""
    labels: tuple[LabelTest, ...] = ()
    fields: tuple[tuple[str, str, bool], ...] = ()

    @property
    def everything(self) -> bool:
        """Whether no object of the resource can be left out."""
        return not (self.namespace or self.labels or self.fields)

    @property
    def narrowed(self) -> bool:
        """Whether labels or fields decide (then a list cannot say how many items remain)."""
        return bool(self.labels or self.fields)

    def matches(self, namespace: str, labels: Mapping[str, str], fields: Mapping[str, str]) -> bool:
        if self.namespace and namespace != self.namespace:
            return False
        if not all((fields.get(name, "") == value) is wanted for name, value, wanted in self.fields):
            return False
        return all(test(labels) for test in self.labels)


def parse(resource: Resource, *, namespace: str = "", labels: str = "", fields: str = "") -> Selector:
    """Read the two query parameters; 400 as the API server words it."""
    return Selector(namespace, _parse_labels(labels), _parse_fields(resource, fields))


def field_values(resource: Resource, obj: Mapping[str, Any]) -> dict[str, str]:
    """The values that field selectors of ``resource`` compare, as strings; absent ones are left out."""
    metadata = obj["metadata"]
    values = {"metadata.name": metadata["name"]}
    if resource.namespaced:
        values["metadata.namespace"] = metadata["namespace"]
    for name, path in resource.fields.items():
        value: Any = obj
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        if isinstance(value, bool):
            values[name] = "true" if value else "false"
        elif value is not None:
            values[name] = str(value)
        elif name in ("spec.unschedulable", "spec.hostNetwork"):
            values[name] = "false"
    return values


def _split(text: str) -> list[str]:
    """Split at commas that are outside parentheses."""
    terms, depth, start = [], 0, 0
    for index, character in enumerate(text):
        if character == "(":
            depth += 1
        elif character == ")":
            depth -= 1
        elif character == "," and depth == 0:
            terms.append(text[start:index])
            start = index + 1
    terms.append(text[start:])
    return [term.strip() for term in terms]


def _parse_labels(text: str) -> tuple[LabelTest, ...]:
    if not text.strip():
        return ()
    return tuple(_label_test(term, text) for term in _split(text))


def _label_test(term: str, text: str) -> LabelTest:
    if found := _SET_TERM.match(term):
        values = frozenset(value.strip() for value in found["values"].split(","))
        key = _checked_key(found["key"], text)
        for value in values:
            _check_value(value, text)
        if found["operator"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _COMPARISON.match(term):
        return _comparison(_checked_key(found["key"], text), found["operator"], found["value"], text)
    if found := _EXISTENCE.match(term):
        key, negated = _checked_key(found["key"], text), bool(found["negated"])
        return lambda labels: (key in labels) is not negated
    raise errors.bad_request(f"unable to parse requirement: found '{term}' in \"{text}\"")


def _comparison(key: str, operator: str, value: str, text: str) -> LabelTest:
    _check_value(value, text)
    if operator in ("=", "=="):
        return lambda labels: labels.get(key) == value
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    try:
        bound = int(value)
    except ValueError:
        raise errors.bad_request(
            f'unable to parse requirement: values: Invalid value: "{value}": '
            "for 'Gt', 'Lt' operators, the value must be an integer"
        ) from None

    def compare(labels: Mapping[str, str]) -> bool:
        try:
            actual = int(labels[key])
        except (KeyError, ValueError):
            return False
        return actual > bound if operator == ">" else actual < bound

    return compare


def _checked_key(key: str, text: str) -> str:
    if not _KEY.match(key):
        raise errors.bad_request(f'unable to parse requirement: invalid label key "{key}" in "{text}"')
    return key


def _check_value(value: str, text: str) -> None:
    if not _VALUE.match(value):
        raise errors.bad_request(f'unable to parse requirement: invalid label value "{value}" in "{text}"')


def _parse_fields(resource: Resource, text: str) -> tuple[tuple[str, str, bool], ...]:
    terms = []
    for term in text.split(","):
        if not term.strip():
            continue
        name, operator, value = _field_term(term)
        known = name == "metadata.name" or (name == "metadata.namespace" and resource.namespaced)
        if not known and name not in resource.fields:
            raise errors.bad_request(
                f'Unable to find "{resource.api_version}, Resource={resource.plural}" that match label '
                f'selector "", field selector "{text}": field label not supported: {name}'
            )
        terms.append((_stored_name(resource, name), value.strip(), operator != "!="))
    return tuple(terms)


def _stored_name(resource: Resource, name: str) -> str:
    """The name of a view's field in the resource that it shows."""
    if not resource.stored_as or name not in resource.fields:
        return name
    path = resource.fields[name]
    return next(stored for stored, other in STORED[resource.stored_as].fields.items() if other == path)


def _field_term(term: str) -> tuple[str, str, str]:
    for operator in ("!=", "==", "="):
        name, found, value = term.partition(operator)
        if found:
            return name.strip(), operator, value
    raise errors.bad_request(f"invalid field selector: {term}: can't understand '{term}'")
