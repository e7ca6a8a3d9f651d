"""Every taint there is, across clusters: on devices by drivers and by rules, and on nodes; with its owner,
its age, what it is on, and whose work is there."""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Q

from inventory.coverage import Coverage
from inventory.holders import projects_of
from inventory.mirror.turn import parse_time
from inventory.models import ClaimDevice, DeskRule, Device, DeviceTaintRule, Node
from inventory.taints import many
from inventory.taints.keeping import leftovers
from inventory.taints.many import NAMED, TAKEN, devices_in_order, most_first
from inventory.taints.rules import LABELS
from inventory.taints.selecting import Selector, any_device
from portal.accounts.models import User

DRIVER, RULE, NODE = "driver", "rule", "node"
KINDS = (DRIVER, RULE, NODE)


@dataclass(frozen=True)
class Owner:
    """Who put a taint there. `desk`: this desk did, for a person (None: as somebody had planned)."""

    name: str = ""
    desk: bool = False
    person: User | None = None
    reason: str = ""
    # What it is for; and whether that is over and the taint still there.
    maintenance: Any = None
    drain: Any = None
    left_over: bool = False


@dataclass
class TaintRow:
    """One taint: of a driver on devices of its own, of a rule, or of nodes. `since` None: not known."""

    coverage: Coverage
    kind: str
    key: str
    value: str
    effect: str
    owner: Owner
    # Of a rule: its name, and what it selects (None: nothing).
    rule: str = ""
    selector: Selector | None = None
    conditions: Sequence[Mapping[str, Any]] = ()
    since: datetime | None = None
    # Those of a driver or of nodes may differ: the first and the last, and how many have none.
    until: datetime | None = None
    undated: int = 0
    devices: list[Device] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)
    # Devices that are not in `devices`: of a rule that selects many, a few are.
    others: int = 0
    # Devices with somebody on them, and projects by how many they have ("" = of none).
    held: int = 0
    projects: list[tuple[str, int]] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.nodes) if self.kind == NODE else len(self.devices) + self.others

    @property
    def named(self) -> Sequence[Device]:
        return self.devices[:NAMED]

    @property
    def more(self) -> int:
        return max(self.count - NAMED, 0)

    @property
    def selects_many(self) -> bool:
        """Whether it is a rule about whatever is in a pool, of a driver, or in the cluster."""
        return self.selector is not None and not self.selector.device


@dataclass(frozen=True)
class TaintFilter:
    """What of them is looked for; "" = everything."""

    cluster: str = ""
    kind: str = ""
    effect: str = ""
    q: str = ""
    left_over: bool = False

    def admits(self, row: TaintRow) -> bool:
        text = f"{row.key} {row.value} {row.rule} {row.owner.name} {' '.join(row.nodes)}".lower()
        return (
            self.kind in ("", row.kind)
            and self.effect in ("", row.effect)
            and self.q.lower() in text
            and (row.owner.left_over or not self.left_over)
        )


def taint_rows(wanted: TaintFilter, *, coverage: Mapping[int, Coverage]) -> list[TaintRow]:
    """The taints of these clusters, rules first, then drivers', then nodes'; a fixed number of queries. What
    rules are on, and whose work is there, is told by `add_places` of those that are shown."""
    clusters = [pk for pk, known in coverage.items() if wanted.cluster in ("", known.cluster.name)]
    rows: list[TaintRow] = []
    for kind, read in ((RULE, _of_rules), (DRIVER, _of_drivers), (NODE, _of_nodes)):
        if wanted.kind in ("", kind):
            rows += [row for row in read(clusters, coverage) if wanted.admits(row)]
    return rows


def add_places(rows: Sequence[TaintRow], *, now: datetime) -> None:
    """Add to these rows the devices that rules select, and whose work is on the devices of each; a fixed
    number of queries. Of a rule that selects many, a few are named and the others counted."""
    _add_devices([row for row in rows if row.selector is not None and not row.selects_many])
    _add_holders([row for row in rows if row.kind != NODE and not row.selects_many], now=now)
    many.add_places([row for row in rows if row.selects_many], now=now)


# --- by rule ------------------------------------------------------------------------------------------


def _of_rules(clusters: Sequence[int], coverage: Mapping[int, Coverage]) -> list[TaintRow]:
    rules = list(DeviceTaintRule.objects.filter(cluster__in=clusters).order_by("cluster__name", "name"))
    owner_of = _owners(clusters)
    rows = []
    for rule in rules:
        selector = Selector(rule.driver, rule.pool_name, rule.device_name) if rule.selects else None
        rows.append(
            TaintRow(
                coverage=coverage[rule.cluster_id], kind=RULE, key=rule.key, value=rule.value,
                effect=rule.effect, owner=owner_of(rule), rule=rule.name, selector=selector,
                conditions=rule.conditions, since=rule.added_at,
            )
        )  # fmt: skip
    return rows


def _owners(clusters: Sequence[int]) -> Callable[[DeviceTaintRule], Owner]:
    """Finds who made a rule: a row of the desk for this very one, else who first wrote it."""
    made = DeskRule.objects.filter(cluster__in=clusters, removed_at=None)
    known = {
        (row.cluster_id, row.name, row.uid): row
        for row in made.select_related("actor", "maintenance", "drain")
    }
    over = set(leftovers().filter(cluster__in=clusters).values_list("pk", flat=True))

    def owner(rule: DeviceTaintRule) -> Owner:
        row = known.get((rule.cluster_id, rule.name, rule.uid))
        if row is not None:
            return Owner(
                desk=True, person=row.actor, reason=row.reason, maintenance=row.maintenance, drain=row.drain,
                left_over=row.pk in over,
            )  # fmt: skip
        labelled = (rule.labels or {}).items() >= LABELS.items()
        # Of a desk, but this one does not know of it: of another, or of one that was restored from a backup.
        return Owner(name=rule.made_by, desk=False, left_over=labelled)

    return owner


def _add_devices(rows: Sequence[TaintRow]) -> None:
    by_cluster: dict[int, list[TaintRow]] = defaultdict(list)
    for row in rows:
        by_cluster[row.coverage.cluster.pk].append(row)
    if not by_cluster:
        return
    wanted = Q(pk__in=[])
    for cluster, tainted in by_cluster.items():
        selectors = {row.selector for row in tainted if row.selector is not None}
        wanted |= Q(cluster=cluster) & any_device(sorted(selectors))
    for device in devices_in_order(wanted):
        for row in by_cluster[device.cluster_id]:
            assert row.selector is not None  # looked at above
            if row.selector.matches(device.pool.driver, device.pool.name, device.name):
                row.devices.append(device)


# --- by drivers and on nodes --------------------------------------------------------------------------


def _of_drivers(clusters: Sequence[int], coverage: Mapping[int, Coverage]) -> list[TaintRow]:
    rows: dict[tuple[Any, ...], TaintRow] = {}
    for device in devices_in_order(Q(cluster__in=clusters) & ~Q(taints=[])):
        for taint in device.taints:
            row = _merged(rows, coverage[device.cluster_id], DRIVER, device.pool.driver, taint)
            row.devices.append(device)
    return list(rows.values())


def _of_nodes(clusters: Sequence[int], coverage: Mapping[int, Coverage]) -> list[TaintRow]:
    rows: dict[tuple[Any, ...], TaintRow] = {}
    nodes = Node.objects.filter(cluster__in=clusters).exclude(taints=[])
    for cluster, name, taints in nodes.order_by("cluster__name", "name").values_list(
        "cluster_id", "name", "taints"
    ):
        for taint in taints:
            _merged(rows, coverage[cluster], NODE, "", taint).nodes.append(name)
    return list(rows.values())


def _merged(
    rows: dict[tuple[Any, ...], TaintRow], coverage: Coverage, kind: str, owner: str, taint: Mapping[str, Any]
) -> TaintRow:
    """The row of all taints that are alike but for their time."""
    key, value, effect = (str(taint.get(name) or "") for name in ("key", "value", "effect"))
    where = (coverage.cluster.pk, owner, key, value, effect)
    if where not in rows:
        rows[where] = TaintRow(
            coverage=coverage, kind=kind, key=key, value=value, effect=effect, owner=Owner(name=owner)
        )
    row, since = rows[where], parse_time(taint.get("timeAdded"))
    if since is None:
        row.undated += 1
    else:
        row.since = since if row.since is None else min(row.since, since)
        row.until = since if row.until is None else max(row.until, since)
    return row


# --- whose work is there ------------------------------------------------------------------------------


def _add_holders(rows: Sequence[TaintRow], *, now: datetime) -> None:
    held = {device.pk for row in rows for device in row.devices if device.state in TAKEN}
    if not held:
        return
    clusters = {row.coverage.cluster.pk for row in rows}
    holds = ClaimDevice.objects.filter(
        device__cluster__in=clusters, device__state__in=TAKEN, admin_access=False
    ).values_list("device_id", "claim__cluster_id", "claim__namespace")
    spaces: dict[int, set[tuple[int, str]]] = defaultdict(set)
    for device, cluster, namespace in holds.iterator():
        if device in held:
            spaces[device].add((cluster, namespace))
    projects = projects_of({space for found in spaces.values() for space in found}, at=now)
    for row in rows:
        taken = [device.pk for device in row.devices if device.pk in spaces]
        row.held = len(taken)
        row.projects = most_first(
            Counter(
                project.name if (project := projects.get(space)) else ""
                for device in taken
                for space in spaces[device]
            )
        )
