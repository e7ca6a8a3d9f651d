"""Which device of the mirror a sample is about: by its hardware id, or by PCI address and node."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from inventory.identity import offer_of
from inventory.models import Cluster, Device

# DCGM writes eight digits of the domain, drivers four.
_PCI = re.compile(r"(?:0000)?([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])")
# A port, as in `instance`, and the domain of a host are no part of a node's name as exporters shorten it.
_PORT = re.compile(r":\d{1,5}$")


@dataclass(frozen=True)
class Devices:
    """The devices of one cluster, by what samples may call them."""

    ids: Mapping[str, str]
    # (node, PCI address) → hardware id.
    places: Mapping[tuple[str, str], str]
    # hardware id → the nodes that drivers publish it on.
    nodes: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def find(self, named: str, *, node: str = "") -> str | None:
        """The hardware id of the device that a sample calls so; None = none that the mirror has."""
        name = named.strip().casefold()
        if found := self.ids.get(name):
            return found
        if not node or not (address := _PCI.fullmatch(name)):
            return None
        place = _PORT.sub("", node.strip().casefold())
        return self.places.get((place, address[1])) or self.places.get((place.partition(".")[0], address[1]))


def devices_of(cluster: Cluster, *, places: bool = False) -> Devices:
    """Asks for addresses only where `places` are wanted: they are in JSON. One query."""
    rows = Device.objects.filter(cluster=cluster).exclude(hardware_id="")
    ids: dict[str, str] = {}
    nodes: dict[str, frozenset[str]] = {}

    def note(hardware_id: str, node: str) -> None:
        ids[hardware_id.casefold()] = hardware_id
        if node:
            nodes[hardware_id] = nodes.get(hardware_id, frozenset()) | {node}

    if not places:
        known = rows.values_list("hardware_id", "node_name").iterator(chunk_size=5_000)
        for hardware_id, node in known:
            note(hardware_id, node)
        return Devices(ids, {}, nodes)
    at: dict[tuple[str, str], str] = {}
    wanted = rows.values_list("hardware_id", "node_name", "pool__driver", "identity")
    for hardware_id, node, driver, identity in wanted.iterator(chunk_size=5_000):
        note(hardware_id, node)
        address = offer_of(identity, driver=driver, key=0, pool=0).address.casefold()
        # A partition is at the address of its parent, whose use is not its own.
        if node and (match := _PCI.fullmatch(address)) and "#" not in hardware_id:
            at[node.casefold(), match[1]] = hardware_id
            at.setdefault((node.casefold().partition(".")[0], match[1]), hardware_id)
    return Devices(ids, at, nodes)
