"""Tolerations of taints, of nodes and of devices, as lines that people type and as the API has them."""

import re
from collections.abc import Mapping, Sequence

from django.utils.translation import gettext as _

from claims.asks.reading import WrongValue, read_text

# A limit of resource.k8s.io/v1.
MAX_TOLERATIONS = 16
EFFECTS = ("", "NoSchedule", "PreferNoSchedule", "NoExecute", "None")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", re.ASCII)
QUALIFIED = re.compile(
    r"([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?",
    re.ASCII,
)


def read_tolerations(values: Mapping[str, object], name: str) -> list[dict[str, str]]:
    """As in the API; as text one a line: key=value:Effect, key:Effect, key=value or key."""
    typed = values.get(name)
    found = []
    if isinstance(typed, list):
        for entry in typed:
            if not isinstance(entry, Mapping):
                raise WrongValue(_("A toleration is an object with key, operator, value and effect."))
            parts = {part: str(entry.get(part) or "") for part in ("key", "operator", "value", "effect")}
            if parts["operator"] not in ("", "Equal", "Exists"):
                raise WrongValue(_("The operator of a toleration is Equal or Exists."))
            found.append({part: text for part, text in parts.items() if text})
    else:
        for line in filter(None, map(str.strip, read_text(values, name).splitlines())):
            left, _colon, effect = line.rpartition(":") if ":" in line else (line, "", "")
            key, equals, value = left.partition("=")
            entry = {"key": key.strip(), "operator": "Equal" if equals else "Exists"}
            entry |= {"value": value.strip()} if equals else {}
            found.append(entry | ({"effect": effect.strip()} if effect.strip() else {}))
    for entry in found:
        key = entry.get("key", "")
        if not key or len(key) > 317 or not QUALIFIED.fullmatch(key):
            raise WrongValue(_("“%(key)s” is no key of a taint.") % {"key": key[:80]})
        if not LABEL_VALUE.fullmatch(entry.get("value", "")):
            raise WrongValue(_("“%(value)s” is no value of a taint.") % {"value": entry["value"][:80]})
        if entry.get("effect", "") not in EFFECTS:
            raise WrongValue(_("The effect of a taint is NoSchedule or NoExecute."))
    if len(found) > MAX_TOLERATIONS:
        raise WrongValue(_("At most %(limit)s tolerations.") % {"limit": MAX_TOLERATIONS})
    return found


def lines_of(tolerations: Sequence[Mapping[str, str]]) -> str:
    """Tolerations as the lines that `read_terms` reads."""
    return "\n".join(
        entry.get("key", "")
        + (f"={entry.get('value', '')}" if entry.get("operator", "Equal") != "Exists" else "")
        + (f":{entry['effect']}" if entry.get("effect") else "")
        for entry in tolerations
    )
