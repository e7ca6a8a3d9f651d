"""Two versions of a class side by side, line by line."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inventory import describe
from inventory.models import ProposalTarget


@dataclass(frozen=True)
class Row:
    """A line on the left and its counterpart on the right; None = there is none."""

    left: str | None
    right: str | None

    @property
    def changed(self) -> bool:
        return self.left != self.right


def diff_of(target: ProposalTarget) -> Sequence[Row]:
    """What is before the change and after it; labels and annotations only where they would change too."""
    marks = {
        "labels": (target.base_labels, target.wanted_labels),
        "annotations": (target.base_annotations, target.wanted_annotations),
    }
    told = {kind: pair for kind, pair in marks.items() if pair[1] is not None}
    before = {kind: dict(pair[0]) for kind, pair in told.items()}
    after = {kind: dict(pair[1] or {}) for kind, pair in told.items()}
    return side_by_side(
        None if target.base is None else {**before, "spec": target.base},
        None if target.wanted is None else {**after, "spec": target.wanted},
    )


def side_by_side(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None) -> Sequence[Row]:
    """Both as YAML; None is nothing at all."""
    old, new = ([] if one is None else describe.as_yaml(dict(one)).splitlines() for one in (before, after))
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
