"""Which devices are one piece of hardware: names that link what several pools (or one, in several modes)
publish of it. Pure: identities in, pieces out.

One driver may publish a uuid and another only the PCI address of the same card; a third that publishes both
links the two. What is linked over any number of steps is one piece.
"""

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

# As lspci, sysfs and vendors' tools write it: domains of four or eight digits, or none.
_PCI = re.compile(r"(?:([0-9a-f]{1,8}):)?([0-9a-f]{1,2}):([0-9a-f]{1,2})\.([0-7])")


@dataclass(frozen=True)
class Offer:
    """A whole device as one pool of a node publishes it; names that it does not publish are ""."""

    key: int
    pool: Hashable
    uuid: str = ""
    address: str = ""
    serial: str = ""


def pci_address(text: str) -> str:
    """A PCI address in one way of writing it ("0000:1b:00.0"); other text in lower case."""
    low = text.strip().lower()
    found = _PCI.fullmatch(low)
    if found is None:
        return low
    domain, bus, device, function = found.groups()
    return f"{int(domain or '0', 16):04x}:{int(bus, 16):02x}:{int(device, 16):02x}.{function}"


def pieces_of(offers: Iterable[Offer]) -> list[list[Offer]]:
    """The offers of one node, piece by piece, in the order in which they came.

    Offers are linked by uuid and by PCI address; by serial where they publish neither (boards of several
    chips have one). A pool knows its own devices: a uuid that it gives to devices at several addresses, or
    an address at which it has several uuids, names no single piece and links nothing.
    """
    listed = list(offers)
    vague = _vague(listed)
    parent = list(range(len(listed)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    first: dict[tuple[str, str], int] = {}
    for index, offer in enumerate(listed):
        for name in _names(offer):
            if name in vague:
                continue
            other = first.setdefault(name, index)
            low, high = sorted((root(other), root(index)))
            # The earliest of a piece stands for it, so that pieces keep their order.
            parent[high] = low
    found: dict[int, list[Offer]] = defaultdict(list)
    for index, offer in enumerate(listed):
        found[root(index)].append(offer)
    return list(found.values())


def _names(offer: Offer) -> list[tuple[str, str]]:
    named = [("uuid", offer.uuid), ("address", pci_address(offer.address))]
    if not offer.uuid and not offer.address:
        named = [("serial", offer.serial)]
    return [(kind, name) for kind, name in named if name]


def _vague(offers: Sequence[Offer]) -> set[tuple[str, str]]:
    """Names that a pool gives to several of its devices, which it tells apart by their other name."""
    uuids: Mapping[tuple[Hashable, str], set[str]] = defaultdict(set)
    addresses: Mapping[tuple[Hashable, str], set[str]] = defaultdict(set)
    for offer in offers:
        if offer.uuid and offer.address:
            address = pci_address(offer.address)
            uuids[offer.pool, address].add(offer.uuid)
            addresses[offer.pool, offer.uuid].add(address)
    return {("address", name) for (_pool, name), told in uuids.items() if len(told) > 1} | {
        ("uuid", name) for (_pool, name), told in addresses.items() if len(told) > 1
    }
