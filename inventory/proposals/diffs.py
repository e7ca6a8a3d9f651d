"""Two versions of a class side by side, line by line."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inventory import describe


@dataclass(frozen=True)
class Row:
    """A line on the left and its counterpart on the right; None = there is none."""

    left: str | None
    right: str | None

    @property
    def changed(self) -> bool:
        return self.left != self.right


def side_by_side(
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    *,
    labels: tuple[Mapping[str, str], Mapping[str, str] | None] = ({}, None),
) -> Sequence[Row]:
    """Both as YAML; None is no class. `labels` before and after, shown where they would change too."""
    old, new = _lines(before, labels[0], labels), _lines(after, labels[1], labels)
    rows: list[Row] = []
    for kind, i, j, k, m in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        left: list[str | None] = [*old[i:j]]
        right: list[str | None] = [*new[k:m]]
        if kind != "equal":
            longer = max(len(left), len(right))
            left += [None] * (longer - len(left))
            right += [None] * (longer - len(right))
        rows += [Row(a, b) for a, b in zip(left, right, strict=True)]
    return rows


def _lines(
    spec: Mapping[str, Any] | None,
    own: Mapping[str, str] | None,
    labels: tuple[Mapping[str, str], Mapping[str, str] | None],
) -> list[str]:
    if spec is None:
        return []
    told: dict[str, Any] = {} if labels[1] is None else {"labels": dict(own or {})}
    return describe.as_yaml({**told, "spec": dict(spec)}).splitlines()
