"""The state of devices: free, held, partly held, or unavailable and why. Settled in the transaction that
changed what it hangs on, and only for the devices that this can have touched."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from inventory.mirror import complaints, reach
from inventory.mirror.devices import Arrival
from inventory.mirror.taint_rules import Rules
from inventory.mirror.turn import Turn, digest
from inventory.models import ClaimDevice, Device, DeviceProfile, Node, Observation, Pool, ResourceSlice
from inventory.products import PARTITION
from portal.dra import model as dra
from portal.dra.quantity import InvalidQuantity
from portal.dra.taints import PREVENTING
from portal.dra.units import nanos
from portal.sql import chunks

State = Device.State
Reason = Device.Reason
Health = Device.Health
# State, reason, health.
Verdict = tuple[str, str, str]


class _Device(NamedTuple):
    """What of a device decides about its state, in the order of _COLUMNS."""

    pk: int
    name: str
    pool_id: int
    slice_id: int
    node_name: str
    profile: DeviceProfile
    taints: Sequence[Mapping[str, Any]]
    state: str
    reason: str
    health: str


_COLUMNS = (
    *("pk", "name", "pool_id", "slice_id", "node_name", "profile_id"),
    *("taints", "state", "reason", "health"),
)


@dataclass(frozen=True)
class _Hold:
    """One allocated share of a device; `share_id` is "" where the whole device is held."""

    share_id: str
    consumed: Mapping[str, Any]


@dataclass(frozen=True)
class _Surroundings:
    """What decides about a group of devices, read in bulk."""

    nodes: Mapping[str, Reason]
    # Of devices that are not bound to one node.
    anywhere: Mapping[int, Reason]
    pools: Mapping[int, Pool]
    holds: Mapping[int, Sequence[_Hold]]
    rules: Rules
    # Devices ("driver/pool/name") that a kubelet calls unhealthy.
    complaints: frozenset[str]
    # Profiles (keys) that say themselves that their devices are not well.
    unwell: frozenset[int]
    # Devices that cannot be had because others have used up the counters that they share.
    starved: frozenset[int]


def refresh(turn: Turn) -> None:
    """Settle the states of all devices that the turn has touched."""
    if not (turn.dirty_pools or turn.dirty_devices or turn.dirty_nodes):
        return
    # Partitions of one piece of hardware decide about each other, so their pool is looked at as a whole.
    for ids in chunks(turn.dirty_devices):
        sharing = Pool.objects.filter(devices__in=ids, has_counters=True)
        turn.dirty_pools |= set(sharing.values_list("pk", flat=True))
    verdicts: dict[Verdict, list[int]] = defaultdict(list)
    rules = Rules.of(turn.cluster_id)
    complained = complaints.of(turn.cluster_id)
    for devices in _touched(turn):
        around = _surroundings(turn, devices, rules, complained)
        for device in devices:
            verdict = (*_judge(device, around), _health(device, around))
            if verdict != (device.state, device.reason, device.health):
                verdicts[verdict].append(device.pk)
                _note_availability(turn, device, around.pools[device.pool_id], verdict)
    for (state, reason, health), changed in verdicts.items():
        for ids in chunks(changed):
            Device.objects.filter(pk__in=ids).update(state=state, reason=reason, health=health)
    turn.changed = turn.changed or bool(verdicts)


def judge_new(turn: Turn, simple: Sequence[Arrival], rules: Rules) -> None:
    """Set the states of devices that are about to be stored, `is_simple`, and not held by anybody: to store
    them unsettled, and then to read and write all of them again, is a third of a first sync."""
    if not simple:
        return
    around = _Surroundings(
        nodes=_nodes(turn, {device.node_name for device, _, _ in simple}),
        anywhere={},
        pools={pool.pk: pool for _, pool, _ in simple},
        holds={},
        rules=rules,
        complaints=complaints.of(turn.cluster_id),
        unwell=_unwell({profile.pk: profile for _, _, profile in simple}),
        starved=frozenset(),
    )
    for device, pool, profile in simple:
        seen = _Device(
            *(0, device.name, pool.pk, device.slice_id, device.node_name, profile, device.taints),
            *(device.state, device.reason, device.health),
        )
        verdict = (*_judge(seen, around), _health(seen, around))
        device.state, device.reason, device.health = verdict
        _note_availability(turn, seen, pool, verdict)


def is_simple(arrival: Arrival) -> bool:
    """Whether one node decides about a device that nobody holds. What becomes of its pool may be in the next
    page of a list."""
    return bool(arrival.device.node_name) and arrival.pool.complete and not arrival.pool.has_counters


def _note_availability(turn: Turn, device: _Device, pool: Pool, verdict: Verdict) -> None:
    """Keep for history whether the device could be had, which nothing else tells: nodes are cordoned, pools
    become incomplete. Who held it is told by its claims."""
    was, now = _barrier(device.state, device.reason), _barrier(*verdict[:2])
    if was == now or (device.profile.kind == PARTITION and Reason.PARENT_HELD in {was, now}):
        return
    kind = Observation.Kind.DEVICE_UNAVAILABLE if now else Observation.Kind.DEVICE_AVAILABLE
    place = digest(pool.driver, pool.name, device.name)
    facts = {
        "driver": pool.driver,
        "pool": pool.name,
        "device": device.name,
        "node": device.node_name,
        "profile": device.profile.digest,
        "was": was,
    }
    turn.observe(
        kind,
        key=f"device/{place}/{now or 'available'}/{turn.now.isoformat()}",
        moment=turn.observed(),
        name=device.name,
        facts=facts | {"reason": now} if now else facts,
    )


def _barrier(state: str, reason: str) -> str:
    """Why a device that nobody holds cannot be had; "" where it can, or is held, or was not judged yet."""
    return reason if state == State.UNAVAILABLE else ""


def _touched(turn: Turn) -> Iterator[list[_Device]]:
    """Devices to look at, each once, in groups; devices of pools with counters come with their whole pool."""
    here = Device.objects.filter(cluster_id=turn.cluster_id)
    pks: set[int] = set(turn.dirty_devices)
    wanted: list[tuple[str, Iterable[Any]]] = [
        ("pool_id__in", turn.dirty_pools),
        ("node_name__in", turn.dirty_nodes),
    ]
    for lookup, values in wanted:
        for some in chunks(values):
            pks |= set(here.filter(**{lookup: some}).values_list("pk", flat=True))
    if turn.dirty_nodes:
        # Any node may be among those that a device without a node of its own can be used on.
        pks |= set(here.filter(node_name="").values_list("pk", flat=True))
    profiles: dict[int, DeviceProfile] = {}
    for ids in chunks(sorted(pks)):
        rows = list(here.filter(pk__in=ids).values_list(*_COLUMNS))
        unknown = {row[5] for row in rows} - profiles.keys()
        profiles |= DeviceProfile.objects.in_bulk(unknown)
        yield [
            _Device(pk, name, pool_id, slice_id, node, profiles[profile], *settled)
            for pk, name, pool_id, slice_id, node, profile, *settled in rows
        ]


def _surroundings(
    turn: Turn, devices: Sequence[_Device], rules: Rules, complained: frozenset[str]
) -> _Surroundings:
    pools = Pool.objects.in_bulk({device.pool_id for device in devices})
    holds: dict[int, list[_Hold]] = defaultdict(list)
    for pks in chunks([device.pk for device in devices]):
        # Administrative access looks at a device without holding it.
        rows = ClaimDevice.objects.filter(device_id__in=pks, admin_access=False)
        for pk, share_id, consumed in rows.values_list("device_id", "share_id", "consumed_capacity"):
            assert pk is not None
            holds[pk].append(_Hold(share_id, consumed))
    counted = [pk for pk, pool in pools.items() if pool.has_counters]
    anywhere = reach.obstacles(
        cluster_id=turn.cluster_id,
        devices=[(device.pk, device.slice_id, device.name) for device in devices if not device.node_name],
    )
    return _Surroundings(
        nodes=_nodes(turn, {device.node_name for device in devices} - {""}),
        anywhere=anywhere,
        pools=pools,
        holds=holds,
        rules=rules,
        complaints=complained,
        unwell=_unwell({device.profile.pk: device.profile for device in devices}),
        starved=_starved(counted),
    )


def _nodes(turn: Turn, names: Collection[str]) -> Mapping[str, Reason]:
    """What stands against each of these nodes."""
    found: dict[str, Reason] = dict.fromkeys(names, Reason.NODE_MISSING)
    for some in chunks(names):
        for node in Node.objects.filter(cluster_id=turn.cluster_id, name__in=some).only(
            "name", "ready", "unschedulable", "taints"
        ):
            found[node.name] = reach.node_reason(node)
    return found


def _unwell(profiles: Mapping[int, DeviceProfile]) -> frozenset[int]:
    return frozenset(pk for pk, profile in profiles.items() if complaints.in_attributes(profile.attributes))


def _health(device: _Device, around: _Surroundings) -> Health:
    pool = around.pools[device.pool_id]
    if device.profile.pk in around.unwell or complaints.name_of(pool, device.name) in around.complaints:
        return Health.UNHEALTHY
    return Health.TAINTED if _tainted(device, pool, around.rules) else Health.GOOD


def _judge(device: _Device, around: _Surroundings) -> tuple[str, str]:
    holds = around.holds.get(device.pk, ())
    if holds and _is_full(device, holds):
        return State.HELD, Reason.NONE
    reason = _obstacle(device, around)
    if holds:
        # What is left of it may be out of reach, and the reason says so.
        return State.PARTLY, reason
    if device.pk in around.starved:
        return State.UNAVAILABLE, Reason.PARENT_HELD
    return (State.UNAVAILABLE, reason) if reason else (State.FREE, Reason.NONE)


def _obstacle(device: _Device, around: _Surroundings) -> Reason:
    pool = around.pools[device.pool_id]
    for applies, reason in (
        (bool(pool.missing_gate), Reason.GATED),
        (not pool.complete, Reason.INCOMPLETE),
        (bool(pool.problem), Reason.INVALID),
        (_tainted(device, pool, around.rules), Reason.TAINTED),
    ):
        if applies:
            return reason
    if not device.node_name:
        return around.anywhere[device.pk]
    return around.nodes[device.node_name]


def _tainted(device: _Device, pool: Pool, rules: Rules) -> bool:
    """Whether its slice or a rule taints the device for those who tolerate nothing."""
    return any(taint.get("effect") in PREVENTING for taint in device.taints) or (
        bool(rules) and rules.prevent(driver=pool.driver, pool=pool.name, device=device.name)
    )


def _is_full(device: _Device, holds: Sequence[_Hold]) -> bool:
    """Whether nothing is left: held as a whole, or a capacity is used up."""
    if not device.profile.allow_multiple_allocations or any(not hold.share_id for hold in holds):
        return True
    used: dict[str, int] = defaultdict(int)
    for hold in holds:
        for name, amount in hold.consumed.items():
            used[name if "/" in name else f"{device.profile.driver}/{name}"] += _nanos(amount)
    return any(
        used[name] >= _nanos(capacity.get("value", "0"))
        for name, capacity in device.profile.capacity.items()
        if name in used
    )


def _nanos(amount: object) -> int:
    try:
        return nanos(str(amount))
    except InvalidQuantity:
        return 0


Counters = dict[tuple[str, str], int]


def _starved(pool_ids: Sequence[int]) -> frozenset[int]:
    """Devices of these pools that nobody holds and whose counters are no longer sufficient."""
    starved: set[int] = set()
    for ids in chunks(pool_ids, 100):
        left: dict[int, Counters] = defaultdict(dict)
        needs: dict[int, dict[str, Counters]] = defaultdict(dict)
        for pool_id, generation, newest, manifest in ResourceSlice.objects.filter(
            pool_id__in=ids
        ).values_list("pool_id", "generation", "pool__generation", "manifest"):
            if generation != newest:
                continue
            item = dra.decode_object(manifest)
            assert isinstance(item, dra.ResourceSlice)
            for counters in item.spec.shared_counters:
                for name, counter in counters.counters.items():
                    left[pool_id][counters.name, name] = _nanos(counter.value)
            for device in item.spec.devices:
                needs[pool_id][device.name] = _needs(device)
        held = set(
            ClaimDevice.objects.filter(device__pool_id__in=ids, admin_access=False).values_list(
                "device_id", flat=True
            )
        )
        devices = list(Device.objects.filter(pool_id__in=ids).values_list("pk", "pool_id", "name"))
        for pk, pool_id, name in devices:
            if pk in held:
                for drawn, amount in needs[pool_id].get(name, {}).items():
                    left[pool_id][drawn] = left[pool_id].get(drawn, 0) - amount
        starved |= {
            pk
            for pk, pool_id, name in devices
            if pk not in held
            and any(
                amount > left[pool_id].get(drawn, 0) for drawn, amount in needs[pool_id].get(name, {}).items()
            )
        }
    return frozenset(starved)


def _needs(device: dra.Device) -> Counters:
    return {
        (consumption.counter_set, name): _nanos(counter.value)
        for consumption in device.consumes_counters
        for name, counter in consumption.counters.items()
    }
