"""Maintenance as holders see it: on pages of their requests, devices and nodes, in calendars and previews."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from inventory.models import Device, Drain, Maintenance, Node
from inventory.taints.places import Scope, covers, of_node, text_of
from portal.accounts.notifications.texts import Text

OPEN = (Maintenance.State.PLANNED, Maintenance.State.ACTIVE, Maintenance.State.ENDING)
# What is farther ahead is on the page of maintenance.
AHEAD = timedelta(days=60)
# Drains that holders know of: those that only an administrator has begun to prepare are nobody's news.
TOLD = (Drain.State.ASKED, Drain.State.CLOSED, Drain.State.EVICTING, Drain.State.EMPTY)
_COLUMNS = ("pk", "cluster_id", "pool__driver", "pool__name", "name", "node_name")


@dataclass(frozen=True)
class Notice:
    """A maintenance, or a drain, and the names of the devices in question that it is about."""

    maintenance: Maintenance | None = None
    drain: Drain | None = None
    devices: Sequence[str] = field(default_factory=tuple)

    @property
    def place(self) -> Text:
        about = self.maintenance or self.drain
        assert about is not None  # one of both
        return text_of(about)


def of_devices(keys: Collection[int], *, now: datetime) -> list[Notice]:
    """What is planned for these devices (by primary key), or goes on there; three queries at most."""
    if not keys:
        return []
    open_ones = _open(now)
    drains = _drains()
    if not open_ones and not drains:
        return []
    devices = list(Device.objects.filter(pk__in=keys).values_list(*_COLUMNS).order_by("name", "pk"))
    found = []
    everything: list[Maintenance | Drain] = [*open_ones, *drains]
    for about in everything:
        names = [
            name
            for _pk, cluster, driver, pool, name, node in devices
            if covers(about, cluster_id=cluster, driver=driver, pool=pool, device=name, node=node)
        ]
        if names:
            found.append(_notice(about, names))
    return found


def of_node_row(node: Node, *, now: datetime) -> list[Notice]:
    """The same for a node."""
    everything: list[Maintenance | Drain] = [*_open(now), *_drains()]
    about = [one for one in everything if one.cluster_id == node.cluster_id]
    if not about:
        return []
    devices = Device.objects.filter(cluster=node.cluster_id, node_name=node.name)
    pools = set(devices.values_list("pool__driver", "pool__name").distinct())
    names = set(devices.values_list("pool__driver", "pool__name", "name"))
    return [
        _notice(one, ())
        for one in about
        if of_node(one, cluster_id=node.cluster_id, node=node.name, pools=pools)
        and (one.scope != Scope.DEVICES or _names_any(one, names))
    ]


def between(cluster_id: int, *, start: datetime, end: datetime) -> list[Maintenance]:
    """What is planned on a cluster in that time, for calendars; one query."""
    rows = Maintenance.objects.filter(
        cluster=cluster_id, state__in=OPEN, starts_at__lt=end, ends_at__gt=start
    )
    return list(rows.select_related("cluster").defer("cluster__kubeconfig_encrypted").order_by("starts_at"))


def running_into(
    cluster_id: int, *, nodes: Collection[str], start: datetime, end: datetime
) -> list[tuple[Maintenance, Sequence[str]]]:
    """Maintenance that work beginning now on one of these nodes would run into until `end`, and on which of
    them; two queries at most."""
    ahead = between(cluster_id, start=start, end=end)
    if not ahead:
        return []
    pools: dict[str, set[tuple[str, str]]] = {node: set() for node in nodes}
    if any(one.scope in (Scope.POOL, Scope.DEVICES) for one in ahead):
        rows = Device.objects.filter(cluster=cluster_id, node_name__in=list(nodes)[:MOST_NODES])
        for node, driver, pool in rows.values_list("node_name", "pool__driver", "pool__name").distinct():
            pools.setdefault(node, set()).add((driver, pool))
    found: list[tuple[Maintenance, Sequence[str]]] = []
    for one in ahead:
        hit = [node for node in nodes if of_node(one, cluster_id=cluster_id, node=node, pools=pools[node])]
        if hit:
            found.append((one, hit))
    return found


# PostgreSQL takes more names, SQLite does not.
MOST_NODES = 500


def _open(now: datetime) -> list[Maintenance]:
    rows = Maintenance.objects.filter(state__in=OPEN, starts_at__lte=now + AHEAD)
    return list(rows.select_related("cluster").defer("cluster__kubeconfig_encrypted").order_by("starts_at"))


def _drains() -> list[Drain]:
    rows = Drain.objects.filter(state__in=TOLD)
    return list(rows.select_related("cluster").defer("cluster__kubeconfig_encrypted").order_by("pk"))


def _notice(about: Maintenance | Drain, names: Iterable[str]) -> Notice:
    if isinstance(about, Maintenance):
        return Notice(maintenance=about, devices=tuple(names))
    return Notice(drain=about, devices=tuple(names))


def _names_any(place: Maintenance | Drain, names: Collection[tuple[str, str, str]]) -> bool:
    return any((one["driver"], one["pool"], one["device"]) in names for one in place.devices)
