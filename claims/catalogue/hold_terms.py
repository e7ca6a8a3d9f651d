"""What a flavor says of its hold Pods, read from the form or from REST."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from django.utils.translation import gettext as _

from claims.asks.reading import WrongValue, read_text
from claims.catalogue.tolerations import read_tolerations

# An image reference as the kubelet takes it: host, path, tag, digest; no blanks.
_IMAGE = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._/:@]*", re.ASCII)
# A DNS subdomain: what Secrets and PriorityClasses are called.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)


def read_hold(values: Mapping[str, object], wrong: Callable[[str, str], None]) -> dict[str, Any]:
    """The columns of `Flavor` about hold Pods; "" = as the desk's settings say. Every message goes to
    `wrong`, with its field."""
    found: dict[str, Any] = {}
    readers: Mapping[str, Callable[[], object]] = {
        "hold_image": lambda: _matching(values, "hold_image", 255, _IMAGE, _("This is no name of an image.")),
        "hold_pull_secret": lambda: _name(values, "hold_pull_secret"),
        "hold_priority_class": lambda: _name(values, "hold_priority_class"),
        "hold_tolerations": lambda: tuple(read_tolerations(values, "hold_tolerations")),
    }
    for field, read in readers.items():
        try:
            found[field] = read()
        except WrongValue as error:
            wrong(field, str(error))
            found[field] = () if field == "hold_tolerations" else ""
    return found


def _name(values: Mapping[str, object], field: str) -> str:
    said = _("Lower-case letters, digits, hyphens and dots, as Kubernetes names things.")
    return _matching(values, field, 253, _NAME, said)


def _matching(
    values: Mapping[str, object], field: str, limit: int, pattern: re.Pattern[str], said: str
) -> str:
    text = read_text(values, field, limit=limit)
    if text and not pattern.fullmatch(text):
        raise WrongValue(said)
    return text
