"""Twins: devices that are one piece of hardware under several names. Settled in the transaction that changed
what a node's drivers publish, or which of its devices are in use."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from django.db.models import Q

from inventory.identity import offer_of
from inventory.linking import Offer, pieces_of
from inventory.mirror.turn import Turn
from inventory.models import Device, Twin
from inventory.products import PARTITION
from portal.sql import chunks

State = Device.State
# Which name stands for a piece: one that is in use, else one that can be had.
_RANK = {State.HELD: 0, State.PARTLY: 1, State.FREE: 2, State.UNAVAILABLE: 3}
# Parts of hardware, and what is no hardware at all.
NO_PIECES = (PARTITION, "channel")


class _Seen(NamedTuple):
    pk: int
    pool: int
    hardware_id: str


def refresh(turn: Turn) -> None:
    """Settle the twins of all nodes and devices that the turn has touched."""
    nodes = set(turn.dirty_counts)
    if turn.new_devices:
        # Devices that are not bound to one node.
        nodes.add("")
    for some in chunks(sorted(nodes)):
        _link(turn, some)
    if turn.dirty_devices or turn.dirty_pools or turn.dirty_nodes:
        _count(turn)


def _link(turn: Turn, nodes: Sequence[str]) -> None:
    here = Device.objects.filter(cluster_id=turn.cluster_id, node_name__in=nodes)
    seen: dict[str, list[_Seen]] = defaultdict(list)
    rows = here.exclude(profile__kind__in=NO_PIECES)
    for node, pk, pool, hardware_id in rows.values_list("node_name", "pk", "pool_id", "hardware_id"):
        seen[node].append(_Seen(pk, pool, hardware_id))
    suspects = {device.pk for devices in seen.values() if _may_be_twins(devices) for device in devices}
    wanted: dict[int, int] = {}
    for piece in _pieces(suspects):
        wanted |= dict.fromkeys(piece, min(piece))
    known = Twin.objects.filter(cluster_id=turn.cluster_id, device__node_name__in=nodes)
    stored = dict(known.values_list("device_id", "piece"))
    if wanted == stored:
        return
    turn.changed = True
    for pks in chunks([pk for pk in stored if wanted.get(pk) != stored[pk]]):
        Twin.objects.filter(device__in=pks).delete()
    new = {pk: piece for pk, piece in wanted.items() if stored.get(pk) != piece}
    Twin.objects.bulk_create(
        (
            Twin(cluster_id=turn.cluster_id, device_id=pk, piece=piece, counts=False)
            for pk, piece in new.items()
        ),
        batch_size=500,
    )
    _elect(turn, set(wanted.values()))


def _may_be_twins(devices: Sequence[_Seen]) -> bool:
    """Whether it is worth to look at identities: one pool that names each of its devices in one way and by
    another name has none twice."""
    ids = [device.hardware_id for device in devices]
    # A uuid has no slash; an address has its place before it.
    ways = {"/" in name for name in ids}
    return len(devices) > 1 and (
        len({device.pool for device in devices}) > 1 or len(set(ids)) < len(ids) or len(ways) > 1
    )


def _pieces(suspects: Iterable[int]) -> Iterable[list[int]]:
    """Keys of the devices of each piece that has several names; nodes do not share pieces."""
    by_node: dict[str, list[Offer]] = defaultdict(list)
    for pks in chunks(sorted(suspects)):
        rows = Device.objects.filter(pk__in=pks).order_by("pk")
        columns = ("node_name", "pk", "pool_id", "pool__driver", "identity")
        for node, pk, pool, driver, identity in rows.values_list(*columns):
            offer = offer_of(identity, driver=driver, key=pk, pool=pool)
            # An address says nothing without its node.
            by_node[node].append(offer if node else replace(offer, address=""))
    for offers in by_node.values():
        for piece in pieces_of(offers):
            if len(piece) > 1:
                yield [offer.key for offer in piece]


def _count(turn: Turn) -> None:
    """Who stands for the pieces whose devices may have changed their states."""
    here = Twin.objects.filter(cluster_id=turn.cluster_id)
    if not here.exists():
        return
    touched: set[int] = set()
    wanted: list[tuple[str, Iterable[object]]] = [
        ("device__in", turn.dirty_devices),
        ("device__pool__in", turn.dirty_pools),
        ("device__node_name__in", turn.dirty_nodes),
    ]
    for lookup, values in wanted:
        for some in chunks(values):
            touched |= set(here.filter(Q((lookup, some))).values_list("piece", flat=True))
    _elect(turn, touched)


def _elect(turn: Turn, pieces: Iterable[int]) -> None:
    for some in chunks(sorted(pieces)):
        rows = Twin.objects.filter(cluster_id=turn.cluster_id, piece__in=some)
        names: dict[int, list[tuple[int, str, str, str, int, bool]]] = defaultdict(list)
        for piece, pk, counts, state, *name in rows.values_list(
            *("piece", "pk", "counts", "device__state"),
            *("device__pool__driver", "device__pool__name", "device__name"),
        ):
            names[piece].append((_RANK[State(state)], *name, pk, counts))
        changed: dict[bool, list[int]] = {True: [], False: []}
        for candidates in names.values():
            chosen = min(candidates)
            for candidate in candidates:
                if candidate[-1] is not (candidate == chosen):
                    changed[candidate == chosen].append(candidate[-2])
        for counts, pks in changed.items():
            if pks:
                Twin.objects.filter(pk__in=pks).update(counts=counts)
                turn.changed = True
