"""Asking for the same again: what a request asked for, in the words of the form. Whether it is still possible
is judged when it is asked, like anything else."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from claims.asks.judging import FIELDS
from claims.catalogue.tolerations import lines_of
from claims.models import Request

HOUR = timedelta(hours=1)


def values_of(request: Request) -> dict[str, str]:
    """The values of a form (keys of `claims.asks.judging.FIELDS`) that would ask for the same."""
    hours = max(1, request.duration // HOUR)
    in_days = hours >= 48 and hours % 24 == 0
    return {
        "project": request.project.slug,
        "flavor": request.flavor.slug if request.flavor else "",
        "cluster": request.cluster.name,
        "pool": request.pool,
        "namespace": request.namespace,
        # A flavor names its class itself, maybe another one by now.
        "device_class": "" if request.flavor else request.device_class,
        "count": str(request.count),
        "min_memory": request.min_memory,
        **options_as_text(request.options),
        "shape": request.shape,
        "duration": str(hours // 24 if in_days else hours),
        "duration_unit": "days" if in_days else "hours",
        "purpose": request.purpose,
    }


def options_as_text(options: Mapping[str, Any]) -> dict[str, str]:
    """Options as a request keeps them (`claims.asks.options.Options.as_dict`), as lines of the form."""
    pieces = (("alternatives", "flavor"), ("parts", "device_class"))
    found = {
        name: "\n".join(f"{piece['count']} × {piece[key]}" for piece in options.get(name) or ())
        for name, key in pieces
    }
    share = options.get("share") or {}
    return found | {
        "share": "\n".join(f"{name}={amount}" for name, amount in share.items()),
        "tolerations": lines_of(options.get("tolerations") or ()),
        **{name: str(options.get(name) or "") for name in ("same", "different", "expression", "queue")},
    }


def as_text(values: Mapping[str, object]) -> dict[str, str]:
    """Values of the form or of REST as the form shows them: objects become lines."""
    structured = {name: value for name, value in values.items() if isinstance(value, list | Mapping)}
    try:
        lines = options_as_text(structured)
    except (KeyError, TypeError, AttributeError):
        # No object that was ever read as one: shown as it is, with the message that belongs to it.
        lines = {}
    return {
        name: lines[name] if name in structured and name in lines else str(value)
        for name in FIELDS
        if (value := values.get(name)) not in (None, "", [], {})
    }
