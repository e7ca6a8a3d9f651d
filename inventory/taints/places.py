"""Parts of a cluster – all of it, a pool, a node, single devices – and the devices that they are."""

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _
from django.utils.translation import gettext_noop

from inventory.models import Cluster, Device, Node, Pool
from inventory.models.taints import Place
from inventory.taints.selecting import Selector, any_device
from portal.accounts.notifications.texts import Text

Scope = Place.Scope
# Single devices of one plan; also how many rules a node may need, where its devices are in shared pools.
MOST_DEVICES = 200
# What a person writes for a device: driver/pool/device, and pools have slashes of their own.
_DEVICE = re.compile(r"(?P<driver>[^/\s]+)/(?P<pool>\S+)/(?P<device>[^/\s]+)")


class UnableToPlace(Exception):
    """`field` is "cluster", "scope", "driver", "pool", "node" or "devices"."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field
        self.message = message


@dataclass(frozen=True)
class Where:
    """A part of a cluster as somebody asks for it, with columns as `Place` has them."""

    cluster: Cluster
    scope: str
    driver: str = ""
    pool_name: str = ""
    node_name: str = ""
    devices: Sequence[Mapping[str, str]] = ()

    def columns(self) -> dict[str, Any]:
        """For a row."""
        return {
            "cluster": self.cluster,
            "scope": self.scope,
            "driver": self.driver,
            "pool_name": self.pool_name,
            "node_name": self.node_name,
            "devices": [dict(device) for device in self.devices],
        }


def read_place(
    *, cluster: Cluster, scope: str, driver: str = "", pool: str = "", node: str = "", devices: str = ""
) -> Where:
    """A part of the cluster that the mirror knows; `devices` are lines of driver/pool/device. Raises
    UnableToPlace."""
    if scope == Scope.CLUSTER:
        return Where(cluster, scope)
    if scope == Scope.POOL:
        if not Pool.objects.filter(cluster=cluster, driver=driver[:64], name=pool[:254]).exists():
            raise UnableToPlace("pool", _("No driver publishes such a pool: give its driver and its name."))
        return Where(cluster, scope, driver=driver, pool_name=pool)
    if scope == Scope.NODE:
        named = Q(cluster=cluster, name=node[:254])
        if not node or not Node.objects.filter(named).exists():
            raise UnableToPlace("node", _("The cluster has no node of this name."))
        return Where(cluster, scope, node_name=node)
    if scope == Scope.DEVICES:
        return Where(cluster, scope, devices=_read_devices(cluster, devices))
    raise UnableToPlace("scope", _("Say what it is about: the cluster, a pool, a node or devices."))


def _read_devices(cluster: Cluster, text: str) -> Sequence[Mapping[str, str]]:
    found: dict[tuple[str, str, str], Mapping[str, str]] = {}
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if not lines:
        raise UnableToPlace("devices", _("Name the devices, one a line: driver/pool/device."))
    if len(lines) > MOST_DEVICES:
        raise UnableToPlace(
            "devices", _("At most %(most)d devices: take their pool or node.") % {"most": MOST_DEVICES}
        )
    for number, line in enumerate(lines, 1):
        match = _DEVICE.fullmatch(line)
        if match is None:
            raise UnableToPlace("devices", _("Line %(line)d is not driver/pool/device.") % {"line": number})
        found[match["driver"], match["pool"], match["device"]] = match.groupdict()
    known = set(
        Device.objects.filter(any_device(Selector(*key) for key in found), cluster=cluster).values_list(
            "pool__driver", "pool__name", "name"
        )
    )
    if unknown := [key for key in found if key not in known]:
        raise UnableToPlace(
            "devices", _("No driver publishes %(device)s.") % {"device": "/".join(unknown[0])[:300]}
        )
    return list(found.values())


def devices_at(place: Place | Where) -> QuerySet[Device]:
    """The devices that the place has now."""
    devices = Device.objects.filter(cluster=place.cluster)
    if place.scope == Scope.CLUSTER:
        return devices
    if place.scope == Scope.NODE:
        return devices.filter(node_name=place.node_name)
    return devices.filter(any_device(selectors_at(place)))


def selectors_at(place: Place | Where) -> list[Selector]:
    """What rules have to select to taint the place. Of a node they follow its devices: pools that are only
    there are taken as a whole, others device by device. Raises UnableToPlace for too many."""
    if place.scope == Scope.CLUSTER:
        return [Selector()]
    if place.scope == Scope.POOL:
        return [Selector(place.driver, place.pool_name)]
    if place.scope == Scope.DEVICES:
        return [Selector(one["driver"], one["pool"], one["device"]) for one in place.devices]
    return _of_node(place)


def _of_node(place: Place | Where) -> list[Selector]:
    here: dict[int, list[tuple[str, str, str]]] = defaultdict(list)
    columns = ("pool_id", "pool__driver", "pool__name", "name")
    for pool, *names in (
        devices_at(place).order_by("pool__driver", "pool__name", "name").values_list(*columns)
    ):
        here[pool].append((names[0], names[1], names[2]))
    elsewhere = set(
        Device.objects.filter(pool__in=here)
        .exclude(node_name=place.node_name)
        .values_list("pool_id", flat=True)
    )
    found = [
        selector
        for pool, devices in here.items()
        for selector in (
            [Selector(*names) for names in devices] if pool in elsewhere else [Selector(*devices[0][:2])]
        )
    ]
    if len(found) > MOST_DEVICES:
        raise UnableToPlace(
            "node",
            _("Its devices are in pools that other nodes share: that would be %(count)d rules.")
            % {"count": len(found)},
        )
    return found


def covers(place: Place, *, cluster_id: int, driver: str, pool: str, device: str, node: str) -> bool:
    """Whether a device is at the place."""
    if place.cluster_id != cluster_id:
        return False
    if place.scope == Scope.NODE:
        return bool(node) and node == place.node_name
    if place.scope == Scope.DEVICES:
        return {"driver": driver, "pool": pool, "device": device} in place.devices
    return place.scope == Scope.CLUSTER or (driver, pool) == (place.driver, place.pool_name)


def of_node(place: Place, *, cluster_id: int, node: str, pools: Collection[tuple[str, str]]) -> bool:
    """Whether the place has something to do with a node that has devices of these (driver, pool)s."""
    if place.cluster_id != cluster_id:
        return False
    if place.scope == Scope.NODE:
        return node == place.node_name
    if place.scope == Scope.DEVICES:
        return any((one["driver"], one["pool"]) in pools for one in place.devices)
    return place.scope == Scope.CLUSTER or (place.driver, place.pool_name) in pools


def text_of(place: Place | Where) -> Text:
    """How people call it, in the language of who reads it."""
    cluster = place.cluster.name
    if place.scope == Scope.POOL:
        return Text(
            gettext_noop("the pool %(pool)s of %(driver)s on %(cluster)s"),
            pool=place.pool_name, driver=place.driver, cluster=cluster,
        )  # fmt: skip
    if place.scope == Scope.NODE:
        said = gettext_noop("the node %(node)s of %(cluster)s")
        return Text(said, node=place.node_name, cluster=cluster)
    if place.scope == Scope.DEVICES and len(place.devices) == 1:
        (one,) = place.devices
        return Text(
            gettext_noop("the device %(device)s (%(pool)s) on %(cluster)s"),
            device=one["device"], pool=one["pool"], cluster=cluster,
        )  # fmt: skip
    if place.scope == Scope.DEVICES:
        said = gettext_noop("%(count)s devices on %(cluster)s")
        return Text(said, count=len(place.devices), cluster=cluster)
    return Text(gettext_noop("the whole cluster %(cluster)s"), cluster=cluster)


def lines_of(devices: Iterable[Mapping[str, str]]) -> str:
    """Devices as `read_place` takes them."""
    return "\n".join(f"{one['driver']}/{one['pool']}/{one['device']}" for one in devices)
