"""Two administrators edit one class: both versions side by side, from what the second one began with."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inventory import class_history, class_text, classes
from inventory.class_history import DiffLine
from inventory.models import DeviceClass


@dataclass(frozen=True)
class Conflict:
    """`theirs` is what the class is by now, as YAML; `diff` leads from it to `mine`; saving over `version`
    means it."""

    version: str
    theirs: str
    mine: str
    diff: Sequence[DiffLine]
    # Who changed it, as far as the cluster tells, the latest first.
    managers: Sequence[str]


def conflict_of(found: DeviceClass, wanted: classes.Wanted, current: Mapping[str, Any]) -> Conflict:
    """From the object as the cluster has it, and what was typed."""
    metadata = current.get("metadata") or {}
    labels = dict(metadata.get("labels") or {})
    annotations = {
        key: text for key, text in (metadata.get("annotations") or {}).items() if key not in classes.TOOLS
    }
    theirs = classes.Wanted.of_spec(class_history.spec_of(current), labels=labels, annotations=annotations)
    mine = classes.Wanted(
        expressions=wanted.expressions,
        extended_resource_name=wanted.extended_resource_name,
        config=wanted.config,
        labels=labels if wanted.labels is None else wanted.labels,
        annotations=annotations if wanted.annotations is None else wanted.annotations,
    )
    texts = [class_text.written(found.name, one) for one in (theirs, mine)]
    entries = sorted(metadata.get("managedFields") or (), key=lambda entry: str(entry.get("time", "")))
    return Conflict(
        version=str(metadata.get("resourceVersion", "")),
        theirs=texts[0],
        mine=texts[1],
        diff=class_history.text_diff(*texts),
        managers=tuple(dict.fromkeys(str(entry.get("manager", "")) for entry in reversed(entries))),
    )
