"""The tables inside the page of quotas and queues and inside a cluster's page: their columns, and their lines
of CSV, which have all of it whatever columns are shown."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from django.utils.translation import gettext_lazy as _

from inventory.counted import CountedResource
from inventory.models import ClusterQueue, DeviceTaintRule, Node, Pool, Stream, SyncProblem
from inventory.queues import DeviceQuota, WorkloadRow, shares
from portal.lists import Column
from portal.tables import Table

Line = tuple[Any, ...]
NUMBER = "cd-number"

# --- quotas and queues --------------------------------------------------------------------------------

QUEUES = Table(
    "queues-queues",
    (
        Column("queue", _("Queue"), fixed=True),
        Column("resource", _("Resource"), fixed=True),
        Column("quota", _("Quota"), css=NUMBER),
        Column("used", _("Used"), css=NUMBER),
        Column("aside", _("Set aside"), css=NUMBER),
        Column("borrowed", _("Borrowed"), css=NUMBER),
    ),
)
WORKLOADS = Table(
    "queues-workloads",
    (
        Column("workload", _("Workload"), fixed=True),
        Column("queue", _("Queue")),
        Column("place", _("Place"), css=NUMBER),
        Column("priority", _("Priority"), css=NUMBER),
        Column("state", _("State")),
        Column("since", _("Since")),
    ),
)
QUOTAS = Table(
    "queues-quotas",
    (
        Column("namespace", _("Namespace"), fixed=True),
        Column("quota", _("Quota")),
        Column("key", _("Key")),
        Column("used", _("Used"), css=NUMBER),
        Column("allowed", _("Allowed"), css=NUMBER),
    ),
)
OF_QUEUES = (QUEUES, WORKLOADS, QUOTAS)

QUEUE_HEADER = (
    *("cluster", "queue", "cohort", "active", "message", "waiting", "admitted"),
    *("flavor", "resource", "quota", "used", "set_aside", "borrowed", "borrowing_limit"),
)
WORKLOAD_HEADER = (
    *("cluster", "namespace", "workload", "owner_kind", "owner", "queue", "place", "priority"),
    *("state", "message", "since"),
)
QUOTA_HEADER = ("cluster", "namespace", "quota", "key", "used", "allowed")


def queue_lines(queues: Iterable[ClusterQueue]) -> Iterator[Line]:
    """A line per queue, flavor and resource; one for a queue without quota."""
    for queue in queues:
        of_queue = (
            *(queue.cluster.name, queue.name, queue.cohort, queue.active, queue.message),
            *(queue.pending, queue.admitted),
        )
        told = shares(queue)
        for one in told:
            yield (
                *of_queue,
                *(one.flavor, one.resource, one.nominal, one.used, one.reserved, one.borrowed),
                one.borrowing_limit,
            )
        if not told:
            yield (*of_queue, "", "", "", "", "", "", "")


def workload_lines(rows: Iterable[WorkloadRow]) -> Iterator[Line]:
    for row in rows:
        work = row.workload
        yield (
            *(work.cluster.name, work.namespace, work.name, work.owner_kind, work.owner_name),
            *(work.queue_name, row.position, work.priority, work.state, work.message),
            _utc(work.state_since or work.created_at),
        )


def quota_lines(rows: Iterable[DeviceQuota]) -> Iterator[Line]:
    for row in rows:
        used = (row.used or "0") if row.quota.counted else ""
        yield (row.quota.cluster.name, row.quota.namespace, row.quota.name, row.key, used, row.hard)


# --- a cluster ----------------------------------------------------------------------------------------

STREAMS = Table(
    "cluster-streams",
    (
        Column("resource", _("Resource"), fixed=True),
        Column("version", _("Version")),
        Column("state", _("State")),
        Column("objects", _("Objects"), css=NUMBER),
        Column("heard", _("Last heard")),
        Column("object", _("Last object")),
        Column("lag", _("Lag"), css=NUMBER),
        Column("listed", _("Last full list")),
    ),
)
PROBLEMS = Table(
    "cluster-problems",
    (
        Column("object", _("Object"), fixed=True),
        Column("where", _("Where")),
        Column("reason", _("Reason")),
        Column("seen", _("Seen")),
    ),
)
POOLS = Table(
    "cluster-pools",
    (
        Column("pool", _("Pool"), fixed=True),
        Column("driver", _("Driver")),
        Column("generation", _("Generation"), css=NUMBER),
        Column("slices", _("Slices"), css=NUMBER),
        Column("why", _("Why")),
    ),
)
TAINTS = Table(
    "cluster-taints",
    (
        Column("rule", _("Rule"), fixed=True),
        Column("devices", _("Devices")),
        Column("taint", _("Taint")),
        Column("since", _("Since")),
    ),
)
UNITS = Table(
    "cluster-units",
    (
        Column("node", _("Node"), fixed=True),
        Column("resource", _("Resource"), fixed=True),
        Column("capacity", _("Capacity"), css=NUMBER),
        Column("allocatable", _("Allocatable"), css=NUMBER),
        Column("used", _("Used by Pods"), css=NUMBER),
        Column("note", _("Note")),
    ),
)
OF_CLUSTER = (STREAMS, PROBLEMS, POOLS, TAINTS, UNITS)

STREAM_HEADER = (
    *("resource", "version", "state", "message", "objects", "heard_at", "object_at", "lag_seconds"),
    *("listed_at", "unreadable"),
)
PROBLEM_HEADER = ("resource", "object", "path", "reason", "seen_at")
POOL_HEADER = ("driver", "pool", "generation", "slices_seen", "slices_expected", "problem", "missing_gate")
TAINT_HEADER = ("rule", "driver", "pool", "device", "key", "value", "effect", "since")
UNIT_HEADER = ("node", "resource", "capacity", "allocatable", "used", "both_ways")


def stream_lines(rows: Iterable[tuple[Stream, int]], *, messages: bool) -> Iterator[Line]:
    """Streams with how many objects could not be read; what went wrong only for who may see it."""
    for stream, unreadable in rows:
        yield (
            *(stream.resource, stream.api_version, stream.state, stream.message if messages else ""),
            *(stream.object_count, _utc(stream.heard_at), _utc(stream.event_at), stream.lag_seconds),
            *(_utc(stream.listed_at), unreadable),
        )


def problem_lines(rows: Iterable[tuple[SyncProblem, str, str, str]]) -> Iterator[Line]:
    """Problems with name, path and reason as far as the reader may see them."""
    for problem, name, path, reason in rows:
        yield (problem.resource, name, path, reason, _utc(problem.seen_at))


def pool_lines(pools: Iterable[Pool]) -> Iterator[Line]:
    for pool in pools:
        yield (
            *(pool.driver, pool.name, pool.generation, pool.slices_seen, pool.slices_expected),
            *(pool.problem, pool.missing_gate),
        )


def taint_lines(rules: Iterable[DeviceTaintRule]) -> Iterator[Line]:
    for rule in rules:
        yield (
            *(rule.name, rule.driver, rule.pool_name, rule.device_name, rule.key, rule.value, rule.effect),
            _utc(rule.added_at),
        )


def unit_lines(rows: Iterable[tuple[Node, Sequence[CountedResource]]]) -> Iterator[Line]:
    for node, units in rows:
        for unit in units:
            yield (node.name, unit.name, unit.capacity, unit.allocatable, unit.used, unit.both_ways)


def _utc(at: datetime | None) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ") if at else ""
