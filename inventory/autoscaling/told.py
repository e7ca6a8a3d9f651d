"""What is known of node groups, and which of them a pool is that an administrator described."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from inventory.autoscaling.groups import Group
from inventory.models import AutoscalerReport, Cluster

# What is older says nothing of the present.
FRESH = timedelta(minutes=10)


@dataclass(frozen=True, kw_only=True)
class Report:
    """One group, who says so and as of when."""

    group: Group
    source: str
    at: datetime

    def fresh(self, now: datetime) -> bool:
        """Whether it tells of the present."""
        return self.at >= now - FRESH


def reports_of(cluster: Cluster) -> list[Report]:
    """All groups that are known on a cluster; one query."""
    rows = AutoscalerReport.objects.filter(cluster=cluster, state=AutoscalerReport.State.KNOWN)
    return [report for row in rows.order_by("source") for report in of_row(row)]


def of_row(row: AutoscalerReport) -> list[Report]:
    """The groups of one source."""
    at = min(row.written_at or row.read_at, row.read_at)
    source = str(AutoscalerReport.Source(row.source).label)
    return [Report(group=group, source=source, at=at) for group in msgspec.convert(row.groups, list[Group])]


def report_for(name: str, labels: Mapping[str, str], reports: Sequence[Report]) -> Report | None:
    """The group that a pool of this name, whose nodes have these labels, is; None = none, or it cannot be
    told. The surest sign first: its name, a label that names it, a label that is part of its name, labels."""
    values = {value for value in labels.values() if value}
    signs = (
        lambda group: name in (group.name, group.short_name),
        lambda group: group.name in values or group.short_name in values,
        lambda group: any(f"-{value}-" in f"-{group.short_name}-" for value in values),
        lambda group: bool(labels) and labels.items() <= group.labels.items(),
    )
    for sign in signs:
        found = [report for report in reports if sign(report.group)]
        if found:
            # Cluster API's own objects and the autoscaler's status may tell of the same one: the latest does.
            same = {report.group.short_name for report in found}
            return max(found, key=lambda report: report.at) if len(same) == 1 else None
    return None
