"""What is put for "$cluster" in a query, so that a Prometheus of many clusters tells of one."""

import re

from inventory.models import MetricQuery, MetricSource

PLACE = "$cluster"
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,62}")
# Without a label there is nothing to put, and a comma would be left over: {a="b", $cluster} → {a="b"}.
_EMPTY = re.compile(r"\s*,\s*\$cluster\b|\$cluster\s*,\s*|\$cluster\b")


def filled_in(expression: str, *, label: str, value: str) -> str:
    """The query as it is sent."""
    if not label:
        return _EMPTY.sub("", expression)
    quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return expression.replace(PLACE, f'{label}="{quoted}"')


def sent(source: MetricSource, query: MetricQuery) -> str:
    """The same, of what is stored."""
    return filled_in(query.expression, label=source.label, value=source.label_value)
