"""A spec of a class as programs and hidden fields send it: what Kubernetes knows, in its one form."""

import json
from collections.abc import Mapping
from typing import Any

from django.utils.translation import gettext as _

from inventory import class_history
from inventory.proposals.drawing import UnableToPropose
from portal import texts
from portal.dra import model as dra

FIELDS = ("selectors", "config", "extendedResourceName")
MAX_JSON = 256 * 1024
MAX_LABELS = 100
# Deeper nothing of ours is.
MAX_DEPTH = 32


def read_json(text: str) -> Any:
    """What a JSON text says. Raises UnableToPropose."""
    if len(text) > MAX_JSON:
        raise UnableToPropose("spec", _("It is too large for a class."))
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise UnableToPropose("spec", _("This is not JSON.")) from None


def read_spec(name: str, value: object) -> dict[str, Any]:
    """The spec of a class, normalised as the mirror keeps it. Raises UnableToPropose that names what is
    wrong."""
    if not isinstance(value, Mapping):
        raise UnableToPropose(
            "spec", _("A spec is an object with selectors, config and extendedResourceName.")
        )
    unknown = sorted(str(key) for key in value if key not in FIELDS)
    if unknown:
        said = _("A class has no field “%(field)s”.") % {"field": unknown[0][:100]}
        raise UnableToPropose("spec", said)
    _check_plain(value)
    body = {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
        "metadata": {"name": name}, "spec": dict(value),
    }  # fmt: skip
    try:
        dra.decode_object(body)
    except dra.Malformed as malformed:
        said = _("%(path)s: %(reason)s") % {"path": malformed.path, "reason": malformed.reason}
        raise UnableToPropose("spec", said) from None
    return class_history.spec_of(body)


def read_labels(value: object, field: str = "labels", *, longest: int = 63) -> dict[str, str] | None:
    """Labels, or annotations with a `longest` of their own; None = as they are. Raises UnableToPropose."""
    if value is None:
        return None
    if not isinstance(value, Mapping) or len(value) > MAX_LABELS:
        raise UnableToPropose(field, _("Labels and annotations are objects of texts."))
    _check_plain(value)
    if not all(
        isinstance(text, str) and len(key) <= 317 and len(text) <= longest for key, text in value.items()
    ):
        raise UnableToPropose(field, _("Labels and annotations are objects of texts."))
    return {str(key): str(text) for key, text in value.items()}


def read_marks(labels: object, annotations: object) -> tuple[dict[str, str] | None, dict[str, str] | None]:
    """Labels and annotations; None = as they are. Raises UnableToPropose."""
    return read_labels(labels), read_labels(annotations, "annotations", longest=MAX_JSON)


def _check_plain(value: object, depth: int = 0) -> None:
    """That every text in it is one, that it is not too deep, and its numbers can be kept."""
    if depth > MAX_DEPTH:
        raise UnableToPropose("spec", _("It is nested too deeply."))
    if isinstance(value, str):
        try:
            texts.plain(value)
        except texts.UncleanText as unclean:
            raise UnableToPropose("spec", unclean.message) from None
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            _check_plain(key, depth + 1)
            _check_plain(inner, depth + 1)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check_plain(inner, depth + 1)
    elif isinstance(value, int | float) and not -(2**63) <= value < 2**63:
        # Nor is what is no number at all.
        raise UnableToPropose("spec", _("This is not a number that Kubernetes knows."))


def _refuse_constant(name: str) -> float:
    raise ValueError(name)
