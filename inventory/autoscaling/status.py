"""The ConfigMap ``kube-system/cluster-autoscaler-status``: YAML from cluster-autoscaler 1.30 on, lines of
text before."""

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import yaml

from inventory.autoscaling.groups import MAX_GROUPS, Group, Unreadable, count, part, text

MAX_STATUS = 1_048_576
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)(?:\.\d+)?(?: ?\+0000 UTC|Z)")
_OLD = re.compile(r"\s*Cluster-autoscaler status at ")
_NAME = re.compile(r"^\s*Name:\s+(\S+)")
_HEALTH = re.compile(r"^\s*Health:\s+(\w+) \((.*)\)\s*$")
_SCALE_UP = re.compile(r"^\s*ScaleUp:\s+(\w+)")
_FIELD = re.compile(r"(\w+)=(\d{1,7})\b")


class _Plain(yaml.SafeLoader):
    """Without references, by which a few lines could stand for more than any memory holds."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("references are not taken")
        return super().compose_node(parent, index)


def read(config_map: Mapping[str, Any]) -> tuple[list[Group], datetime | None]:
    """The node groups, and when they were written. Raises Unreadable."""
    status = part(config_map, "data", "status")
    if not isinstance(status, str) or len(status) > MAX_STATUS:
        raise Unreadable
    if _OLD.match(status):
        return list(_bounded(_of_lines(status.splitlines()))), _moment(status[:200])
    try:
        read = yaml.load(status, _Plain)  # noqa: S506 - a safe loader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise Unreadable from error
    groups = part(read, "nodeGroups")
    if not isinstance(read, Mapping) or "autoscalerStatus" not in read or not isinstance(groups or [], list):
        raise Unreadable
    return list(_bounded(map(_of_yaml, groups or []))), _moment(read.get("time"))


def _bounded(groups: Iterable[Group]) -> Iterator[Group]:
    for number, group in enumerate(group for group in groups if group.name):
        if number == MAX_GROUPS:
            return
        yield group


def _of_yaml(group: Any) -> Group:
    health, scale_up = part(group, "health"), part(group, "scaleUp")
    stuck = ""
    if part(scale_up, "status") == "Backoff":
        stuck = text(part(scale_up, "backoffInfo", "errorMessage"), 300) or "Backoff"
    elif part(health, "status") == "Unhealthy":
        stuck = "Unhealthy"
    return Group(
        name=text(part(group, "name")),
        minimum=count(part(health, "minSize")) or 0,
        maximum=count(part(health, "maxSize")),
        current=count(part(health, "nodeCounts", "registered", "total")),
        target=count(part(health, "cloudProviderTarget")),
        stuck=stuck,
    )


def _of_lines(lines: Iterable[str]) -> Iterator[Group]:
    """Each group is a name, and a few lines below it."""
    name, facts, stuck = "", dict[str, int](), ""
    for line in [*lines, "  Name:        -"]:
        if found := _NAME.match(line):
            if name:
                yield Group(
                    name=text(name),
                    minimum=facts.get("minSize", 0),
                    maximum=facts.get("maxSize"),
                    current=facts.get("registered"),
                    target=facts.get("cloudProviderTarget"),
                    stuck=stuck,
                )
            name, facts, stuck = found.group(1), {}, ""
        elif found := _HEALTH.match(line):
            facts = {key: int(number) for key, number in _FIELD.findall(found.group(2))}
            stuck = "Unhealthy" if found.group(1) == "Unhealthy" else stuck
        elif (found := _SCALE_UP.match(line)) and found.group(1) == "Backoff":
            stuck = "Backoff"


def _moment(value: Any) -> datetime | None:
    """As Go writes a time, or as RFC 3339 has it."""
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    found = _MOMENT.search(value) if isinstance(value, str) else None
    if found is None:
        return None
    try:
        return datetime.fromisoformat(f"{found.group(1)}T{found.group(2)}+00:00")
    except ValueError:
        return None
