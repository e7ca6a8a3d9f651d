"""Reading a placement: from what an administrator typed (form) or a program sent (REST) to what the model
holds. All fields are judged before anything is refused."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.forms import ValidationError
from django.utils.translation import gettext as _

from claims.asks.reading import WrongValue, read_choice, read_text
from claims.catalogue.flavor_terms import UnableToChangeFlavor
from claims.catalogue.tolerations import LABEL_VALUE, QUALIFIED, read_tolerations
from claims.models import Placement
from inventory import contract
from inventory.classes import MAX_EXPRESSION, check_expression
from inventory.forms import config_entries
from inventory.models import Cluster, DeviceClass

# Limits of resource.k8s.io/v1.
MAX_SELECTORS = 32
MAX_CONFIG = 64 * 1024


@dataclass(frozen=True, kw_only=True)
class Terms:
    """A placement as it was read; `columns` are those of the model."""

    cluster: Cluster
    columns: Mapping[str, Any]


def read_terms(values: Mapping[str, object]) -> Terms:
    """The placement in `values`: "cluster" by name and COLUMNS, lists and maps as JSON or as lines of text.
    Raises UnableToChangeFlavor with every error at once."""
    errors: dict[str, list[str]] = {}
    cluster = None
    columns: dict[str, Any] = {}
    try:
        cluster = _cluster(values)
    except WrongValue as error:
        errors["cluster"] = [str(error)]
    for name, (reader, default) in _READERS.items():
        try:
            columns[name] = reader(values, name)
        except WrongValue as error:
            errors[name] = [str(error)]
            columns[name] = default
    _together(columns, errors)
    if cluster is not None and columns["device_class"]:
        _against_mirror(cluster, columns, errors)
    if errors or cluster is None:
        raise UnableToChangeFlavor(errors)
    return Terms(cluster=cluster, columns=columns)


def _together(columns: Mapping[str, Any], errors: dict[str, list[str]]) -> None:
    """What single fields cannot tell."""

    def wrong(name: str, message: str) -> None:
        errors.setdefault(name, []).append(message)

    ways = ("device_class", "extended_resource")
    if not any(columns[way] or way in errors for way in ways):
        wrong("device_class", _("Name a DeviceClass, or below the resource of a Device Plugin, or both."))
    if not columns["device_class"]:
        for name in ("selectors", "config", "device_tolerations"):
            if columns[name]:
                wrong(name, _("This belongs to a DeviceClass; none is named."))
    if columns["driver_versions"] and not columns["driver"]:
        wrong("driver", _("Whose version? Name the driver."))
    if columns["driver"] and not columns["driver_versions"] and "driver_versions" not in errors:
        wrong("driver_versions", _("Which versions of the driver? Write for example >=580."))
    if columns["pool"] and not columns["node_selector"] and "node_selector" not in errors:
        wrong("node_selector", _("By which labels are the nodes of this pool known?"))


def _against_mirror(cluster: Cluster, columns: Mapping[str, Any], errors: dict[str, list[str]]) -> None:
    """What the mirror shows to be wrong."""
    found = DeviceClass.objects.filter(cluster=cluster, name=columns["device_class"]).first()
    if found is None:
        errors.setdefault("device_class", []).append(
            _("%(cluster)s has no DeviceClass “%(name)s”.")
            % {"cluster": cluster, "name": columns["device_class"]}
        )
    elif found.problem:
        errors.setdefault("device_class", []).append(
            _("This class cannot be used: %(problem)s") % {"problem": found.problem}
        )
    for number, expression in enumerate(columns["selectors"], 1):
        check = check_expression(cluster=cluster, expression=expression)
        if check.problem:
            errors.setdefault("selectors", []).append(
                _("Expression %(number)d, line %(line)d, column %(column)d: %(problem)s")
                % {"number": number, "line": check.line, "column": check.column, "problem": check.problem}
            )


# --- one reader per field ---------------------------------------------------------------------------


def _cluster(values: Mapping[str, object]) -> Cluster | None:
    name = read_text(values, "cluster")
    found = Cluster.objects.filter(name=name).first() if name else None
    if found is None:
        raise WrongValue(_("Choose a cluster."))
    return found


def _stage(values: Mapping[str, object], name: str) -> str:
    if values.get(name) in (None, ""):
        return Placement.Stage.AUTOMATIC
    return read_choice(values, name, Placement.Stage.values)


def read_labels(values: Mapping[str, object], name: str) -> dict[str, str]:
    """Labels of nodes: a map, or text with one name=value a line."""
    typed = values.get(name)
    if isinstance(typed, Mapping):
        pairs = [(str(key), str(value)) for key, value in typed.items()]
    else:
        pairs = []
        for line in read_text(values, name).splitlines():
            if line.strip():
                key, equals, value = (part.strip() for part in line.partition("="))
                if not equals:
                    raise WrongValue(_("Write one label a line, as name=value."))
                pairs.append((key, value))
    for key, value in pairs:
        if len(key) > 317 or not QUALIFIED.fullmatch(key) or not LABEL_VALUE.fullmatch(value):
            raise WrongValue(_("“%(label)s” is no label of a node.") % {"label": f"{key}={value}"[:80]})
    return dict(pairs)


def _selectors(values: Mapping[str, object], name: str) -> list[str]:
    """A list, or text in which an empty line separates one expression from the next."""
    typed = values.get(name)
    if isinstance(typed, list):
        found = [read_text({"x": entry}, "x") for entry in typed]
    else:
        found = [part.strip() for part in re.split(r"\n\s*\n", read_text(values, name))]
    found = [expression for expression in found if expression]
    if len(found) > MAX_SELECTORS:
        raise WrongValue(_("At most %(limit)s expressions.") % {"limit": MAX_SELECTORS})
    if any(len(expression.encode()) > MAX_EXPRESSION for expression in found):
        raise WrongValue(_("An expression has at most 10 KiB."))
    return found


def _config(values: Mapping[str, object], name: str) -> list[dict[str, Any]]:
    typed = values.get(name)
    if isinstance(typed, list):
        entries: list[Any] = typed
    else:
        try:
            entries = config_entries(read_text(values, name, limit=MAX_CONFIG))
        except ValidationError as error:
            raise WrongValue(" ".join(error.messages)) from None
    for entry in entries:
        opaque = entry.get("opaque") if isinstance(entry, Mapping) else None
        if not isinstance(opaque, Mapping) or set(entry) != {"opaque"}:
            raise WrongValue(_("Each entry has `opaque` with a driver and its parameters, and nothing else."))
        if not isinstance(opaque.get("driver"), str) or not isinstance(opaque.get("parameters"), Mapping):
            raise WrongValue(_("`opaque` names its `driver` and has `parameters`."))
    return [dict(entry) for entry in entries]


def read_resource(values: Mapping[str, object], name: str) -> str:
    """The name of an extended resource; "" when it is not there."""
    resource = read_text(values, name, limit=317)
    if resource and ("/" not in resource or not QUALIFIED.fullmatch(resource)):
        raise WrongValue(_("An extended resource is written domain/name, such as nvidia.com/gpu."))
    return resource


def _range(values: Mapping[str, object], name: str, *, named: bool = False) -> str:
    text = " ".join(read_text(values, name).split())
    if text:
        try:
            contract.parse(text, named=named)
        except contract.InvalidRange as error:
            raise WrongValue(error.message) from None
    return text


def _text(limit: int) -> "Callable[[Mapping[str, object], str], str]":
    return lambda values, name: read_text(values, name, limit=limit)


# How each column is read, and what stands in for one that cannot be.
_READERS: Mapping[str, tuple[Callable[[Mapping[str, object], str], Any], Any]] = {
    "pool": (_text(63), ""),
    "node_selector": (read_labels, {}),
    "tolerations": (read_tolerations, []),
    "device_class": (_text(253), ""),
    "selectors": (_selectors, []),
    "config": (_config, []),
    "device_tolerations": (read_tolerations, []),
    "extended_resource": (read_resource, ""),
    "stage": (_stage, Placement.Stage.AUTOMATIC),
    "kubernetes": (_range, ""),
    "driver": (_text(63), ""),
    "driver_versions": (_range, ""),
    "runtime": (partial(_range, named=True), ""),
}
# What a placement is made of, apart from its flavor and its cluster.
COLUMNS = tuple(_READERS)
