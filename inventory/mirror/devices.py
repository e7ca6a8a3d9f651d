"""Devices as their slices publish them: their rows, and what history must know of their coming and going."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from inventory import identity, profiles
from inventory.mirror import consumption
from inventory.mirror.claims import hardware_facts
from inventory.mirror.kind import WRITE_BATCH
from inventory.mirror.taint_rules import Rules
from inventory.mirror.taint_rules import note as note_rule
from inventory.mirror.turn import Kind, Turn, digest
from inventory.models import ClaimDevice, Device, DeviceProfile, Pool
from portal.dra import model as dra

DeviceName = tuple[str, str, str]
_COMPARED = ("slice_id", "profile_id", "position", "identity", "hardware_id", "node_name", "taints")


# Set of counters → counter → how much of it.
Draws = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Published:
    """One device as a slice publishes it now."""

    device: dra.Device
    source: dra.ResourceSlice
    slice_id: int
    position: int

    @property
    def draws(self) -> Draws:
        """The sets of counters that it draws on, and how much of each counter."""
        return {
            drawn.counter_set: {name: str(counter.value) for name, counter in drawn.counters.items()}
            for drawn in self.device.consumes_counters
        }


class DeviceRow(msgspec.Struct, gc=False):
    """A row of `Device` that is to be written, by its columns: a first sync has many of them, and a model
    takes ten times as long to make."""

    id: int | None
    cluster_id: int
    pool_id: int
    slice_id: int
    profile_id: int
    name: str
    position: int
    identity: dict[str, Any]
    hardware_id: str
    node_name: str
    taints: list[dict[str, Any]]
    first_seen_at: datetime
    # Settled before it is stored, or before the commit, see `states`.
    state: str = Device.State.UNAVAILABLE.value
    reason: str = Device.Reason.NONE.value
    health: str = Device.Health.GOOD.value

    @property
    def pk(self) -> int | None:
        return self.id

    @property
    def key(self) -> int:
        """Its primary key, once it is stored."""
        assert self.id is not None
        return self.id

    def differs_from(self, stored: Device) -> bool:
        """Whether its slice says something new of it."""
        return any(getattr(self, name) != getattr(stored, name) for name in _COMPARED)


class Arrival(NamedTuple):
    """A device that was not there before, with what it belongs to."""

    device: DeviceRow
    pool: Pool
    profile: DeviceProfile

    @property
    def name(self) -> DeviceName:
        return self.pool.driver, self.pool.name, self.device.name


def row_of(
    turn: Turn, *, pool: Pool, item: Published, profile: DeviceProfile, old: Device | None
) -> DeviceRow:
    """The row of a published device, which replaces `old`."""
    spec, device = item.source.spec, item.device
    node = (device.node_name if spec.per_device_node_selection else spec.node_name) or ""
    pieces = profiles.identity_of(device, driver=pool.driver)
    row = DeviceRow(
        id=old.pk if old is not None else None,
        cluster_id=turn.cluster_id,
        pool_id=pool.pk,
        slice_id=item.slice_id,
        profile_id=profile.pk,
        name=device.name,
        position=item.position,
        identity=pieces,
        hardware_id=identity.hardware_id(
            pieces, driver=pool.driver, device=device.name, place=node or pool.name
        ),
        node_name=node,
        taints=[msgspec.to_builtins(taint) for taint in device.taints],
        first_seen_at=turn.now,
    )
    if old is not None:
        row.first_seen_at = old.first_seen_at
        row.state, row.reason, row.health = old.state, old.reason, old.health
    return row


def _facts(device: DeviceRow | Device, pool: Pool, profile_digest: str) -> dict[str, Any]:
    return {
        "driver": pool.driver,
        "pool": pool.name,
        "device": device.name,
        "node": device.node_name,
        "hardware_id": device.hardware_id,
        "profile": profile_digest,
    }


def _device_key(device: DeviceRow | Device, pool: Pool, what: str, turn: Turn) -> str:
    name = digest(pool.driver, pool.name, device.name)
    return f"device/{name}/{what}/{digest(device.hardware_id, turn.now.isoformat())}"


def note_appearance(
    turn: Turn, device: DeviceRow | Device, pool: Pool, profile: DeviceProfile, draws: Draws
) -> None:
    turn.observe(
        Kind.DEVICE_APPEARED,
        key=_device_key(device, pool, "appeared", turn),
        moment=turn.observed(),
        name=device.name,
        facts={
            **_facts(device, pool, profile.digest),
            "product": profile.product,
            "unavailable": _barrier(device),
            # What partitions are cut from: to be known when they are gone.
            **({"draws": draws} if draws else {}),
        },
    )
    for taint in device.taints:
        _note_taint(turn, Kind.DEVICE_TAINTED, device, pool, digest_of=profile.digest, taint=taint)


def note_loss(turn: Turn, device: DeviceRow | Device, pool: Pool, profile_digest: str) -> None:
    turn.observe(
        Kind.DEVICE_GONE,
        key=_device_key(device, pool, "gone", turn),
        moment=turn.observed(),
        name=device.name,
        facts={**_facts(device, pool, profile_digest), "unavailable": _barrier(device)},
    )


def _barrier(device: DeviceRow | Device) -> str:
    """Why the device cannot be had, as far as it was judged: that comes and goes with it."""
    return device.reason if device.state == Device.State.UNAVAILABLE else ""


def note_change(
    turn: Turn,
    device: DeviceRow,
    old: Device,
    pool: Pool,
    profile: DeviceProfile,
    *,
    draws: Draws,
) -> None:
    if device.hardware_id != old.hardware_id:
        # Another piece under the same name: after a reboot, a repair, a change of mode.
        digests = dict(DeviceProfile.objects.filter(pk=old.profile_id).values_list("pk", "digest"))
        note_loss(turn, old, pool, digests.get(old.profile_id, ""))
        note_appearance(turn, device, pool, profile, draws)
        return
    before = {(t["key"], t.get("value", ""), t["effect"]): t for t in old.taints}
    after = {(t["key"], t.get("value", ""), t["effect"]): t for t in device.taints}
    for key in after.keys() - before.keys():
        _note_taint(turn, Kind.DEVICE_TAINTED, device, pool, digest_of=profile.digest, taint=after[key])
    for key in before.keys() - after.keys():
        _note_taint(turn, Kind.DEVICE_UNTAINTED, device, pool, digest_of=profile.digest, taint=before[key])


def _note_taint(
    turn: Turn, kind: Kind, device: DeviceRow | Device, pool: Pool, *, digest_of: str, taint: dict[str, Any]
) -> None:
    named = digest(taint["key"], taint.get("value", ""), taint["effect"])
    turn.observe(
        kind,
        key=_device_key(device, pool, f"{'' if kind == Kind.DEVICE_TAINTED else 'un'}tainted/{named}", turn),
        moment=turn.observed(),
        name=device.name,
        facts={**_facts(device, pool, digest_of), "taint": taint},
    )


def note_rules(turn: Turn, new: Sequence[Arrival], rules: Rules) -> None:
    """Rules taint devices that come under them, too."""
    for device, pool, _profile in new if rules else ():
        for rule in rules.on(driver=pool.driver, pool=pool.name, device=device.name):
            note_rule(turn, Kind.DEVICE_TAINTED, rule, device, pool, again=turn.now.isoformat())


def waiting(turn: Turn, new: Sequence[Arrival]) -> Mapping[DeviceName, Sequence[ClaimDevice]]:
    """Results of allocations that named these devices before they were (or were again) published."""
    if not new:
        return {}
    dangling = (
        ClaimDevice.objects.filter(claim__cluster_id=turn.cluster_id, device=None)
        .select_related("claim")
        .only(
            *("driver", "pool_name", "device_name", "share_id", "request", "identified"),
            *("claim__uid", "claim__epoch", "claim__namespace", "claim__name"),
        )
    )
    found: dict[DeviceName, list[ClaimDevice]] = defaultdict(list)
    for result in dangling:
        found[result.driver, result.pool_name, result.device_name].append(result)
    return {arrival.name: found[arrival.name] for arrival in new if arrival.name in found} if found else {}


def link_holders(
    turn: Turn, new: Sequence[Arrival], waiting: Mapping[DeviceName, Sequence[ClaimDevice]]
) -> None:
    """Tell those results which devices they mean; the devices are stored by now."""
    linked = []
    named = [arrival for arrival in new if arrival.name in waiting]
    counters = consumption.of(arrival.device for arrival in named)
    for arrival in named:
        for result in waiting[arrival.name]:
            result.device_id = arrival.device.key
            if not result.identified:
                result.identified = True
                _note_details(turn, result, arrival, counters.get(arrival.device.key, {}))
            linked.append(result)
    if linked:
        ClaimDevice.objects.bulk_update(linked, ["device", "identified"], batch_size=WRITE_BATCH)


def _note_details(turn: Turn, result: ClaimDevice, arrival: Arrival, counters: consumption.Counters) -> None:
    """Complete what the observation of an allocation says of a device whose slice came later than the
    claim."""
    claim = result.claim
    named = (result.driver, result.pool_name, result.device_name, result.share_id, result.request)
    driver, pool, name, share_id, request = named
    turn.observe(
        Kind.ALLOCATION_DETAILED,
        key=f"claim/{claim.uid}/{claim.epoch}/detailed/{digest(*named)}",
        moment=turn.observed(),
        namespace=claim.namespace,
        name=claim.name,
        uid=claim.uid,
        facts={
            "epoch": claim.epoch,
            "device": {
                "driver": driver,
                "pool": pool,
                "device": name,
                "share_id": share_id,
                "request": request,
                **hardware_facts(arrival.device, arrival.profile, counters),
            },
        },
    )
