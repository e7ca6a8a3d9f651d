"""ResourceClaims: what they hold now, and every beginning and end of holding as an observation.

One claim uid lives through several allocations; each is an *epoch*. Another set of results, or another
allocation timestamp, between two sights of a claim means that the earlier allocation ended unseen.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from inventory.identity import qualified_amounts
from inventory.mirror import beginnings, consumption, departures, units
from inventory.mirror.batches import Item
from inventory.mirror.decoding import decode_core, decode_dra
from inventory.mirror.kind import WRITE_BATCH, Change, MirroredKind, save
from inventory.mirror.reserving import Reserving, reserving
from inventory.mirror.turn import Kind, Moment, Placed, Source, Turn, parse_time
from inventory.models import Claim, ClaimDevice, Device, DeviceProfile
from portal.dra import model as dra
from portal.sql import chunks

_COLUMNS = [
    *("uid", "resource_version", "labels", "annotations", "created_at", "spec", "status", "deleted_at"),
    *("allocated", "epoch", "allocated_at", "node_name", "owner_pod_uid", "leaving", "leaving_since"),
]
DeviceKey = tuple[str, str, str]


class _ManagedFields(msgspec.Struct, rename="camel"):
    time: str | None = None
    subresource: str | None = None
    fields_v1: dict[str, Any] | None = msgspec.field(default=None, name="fieldsV1")


class _Metadata(msgspec.Struct, rename="camel"):
    managed_fields: list[_ManagedFields] | None = None


class DeviceStatus(msgspec.Struct, rename="camel"):
    """What a driver says of one allocated device."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: list[dict[str, Any]] | None = None
    network_data: dict[str, Any] | None = None
    data: dict[str, Any] | None = None

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.driver, self.pool, self.device, self.share_id or ""


class _Status(msgspec.Struct):
    devices: list[DeviceStatus] | None = None


class _Written(msgspec.Struct):
    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


@dataclass(frozen=True)
class ClaimObject:
    """A claim, and when its allocation was written as far as its managed fields tell."""

    claim: dra.ResourceClaim
    status: dict[str, Any]
    written_at: datetime | None
    devices: Sequence[DeviceStatus] = ()


@dataclass
class _Known:
    """What facts about allocated devices are taken from, read once per batch."""

    devices: Mapping[DeviceKey, Device] = field(default_factory=dict)
    epochs: Mapping[str, int] = field(default_factory=dict)
    # When the last allocation ended of claims that had one before, by uid.
    ended: Mapping[str, datetime] = field(default_factory=dict)
    reserving: Reserving = field(default_factory=Reserving)
    # What partitions draw on, by the key of their device.
    counters: Mapping[int, consumption.Counters] = field(default_factory=dict)


class Claims(MirroredKind[Claim, ClaimObject]):
    plural = "resourceclaims"
    model = Claim
    namespaced = True

    def decode(self, item: Item) -> ClaimObject:
        claim = decode_dra(item, dra.ResourceClaim)
        written = decode_core(item, _Written)
        return ClaimObject(
            claim, dra.encode(claim.status), _allocation_written_at(written), written.status.devices or ()
        )

    def store(self, turn: Turn, changes: Sequence[Change[Claim, ClaimObject]]) -> None:
        known = self._known(turn, changes)
        rows: list[Claim] = []
        results: list[tuple[Claim, ClaimObject]] = []
        for change in changes:
            row = _row(turn, change, known)
            if change.row is None:
                _note_creation(turn, change)
            if self._note_allocation(turn, change, row, known):
                results.append((row, change.obj))
            rows.append(row)
        save(rows, _COLUMNS)
        new = [row for row, change in zip(rows, changes, strict=True) if change.row is None]
        units.note_pods_of(turn, new)
        self._store_results(turn, results, known)
        written = {id(row) for row, _ in results}
        _store_statuses(
            [
                (row, change.obj.devices)
                for row, change in zip(rows, changes, strict=True)
                if row.allocated and id(row) not in written
            ]
        )

    def lose(self, turn: Turn, rows: Sequence[Claim]) -> None:
        for row in rows:
            moment = turn.observed()
            epoch = row.epoch if row.allocated else 0
            if row.allocated:
                departures.end(turn, row)
                _note_leaving(turn, row, _consumers(row.status), moment)
            turn.observe(
                Kind.CLAIM_DELETED,
                key=f"claim/{row.uid}/deleted/{row.resource_version}",
                moment=moment,
                namespace=row.namespace,
                name=row.name,
                uid=row.uid,
                facts={"epoch": epoch},
            )
        for ids in chunks([row.pk for row in rows]):
            held = ClaimDevice.objects.filter(claim_id__in=ids).exclude(device=None)
            turn.dirty_devices |= set(held.values_list("device_id", flat=True))
            Claim.objects.filter(pk__in=ids).delete()

    # --- allocations ----------------------------------------------------------------------------------

    def _note_allocation(
        self, turn: Turn, change: Change[Claim, ClaimObject], row: Claim, known: _Known
    ) -> bool:
        """Observations of what changed between the old row and the object; sets `epoch` and its kin on `row`.
        Whether the rows of its results must be written anew."""
        old, claim = change.row, change.obj.claim
        allocation = claim.status.allocation
        was = old is not None and old.allocated
        same = old is not None and was and allocation is not None and _same_allocation(old, allocation)
        if old is not None and was and not same:
            moment = turn.observed()
            departures.end(turn, old)
            _note_leaving(turn, old, _consumers(old.status), moment)
            turn.observe(
                Kind.CLAIM_RELEASED,
                key=f"claim/{old.uid}/{old.epoch}/released",
                moment=moment,
                namespace=old.namespace,
                name=old.name,
                uid=old.uid,
                facts={"epoch": old.epoch},
            )
        if allocation is not None and not same:
            row.epoch += 1
            moment = beginnings.of(
                turn,
                claim.status,
                created=row.created_at,
                written_at=change.obj.written_at,
                ended=known.ended.get(row.uid),
                scheduled=known.reserving.scheduled,
            )
            row.allocated_at = moment.at
            turn.observe(
                Kind.CLAIM_ALLOCATED,
                key=f"claim/{row.uid}/{row.epoch}/allocated",
                moment=moment,
                namespace=row.namespace,
                name=row.name,
                uid=row.uid,
                facts=_allocation_facts(row, claim, allocation, known),
            )
        if allocation is not None:
            row.node_name = _node_of(allocation, known)
            before = _consumers(old.status) if old is not None and same else {}
            after = _consumers(row.status)
            if old is not None and same:
                row.leaving, row.leaving_since = old.leaving, old.leaving_since
            departures.begin(turn, row, {uid: before[uid] for uid in before.keys() - after.keys()})
            back = departures.forget(row, after.keys())
            joining = {uid: after[uid] for uid in after.keys() - before.keys() - back}
            _note_joining(turn, row, joining, known.reserving)
        return was != (allocation is not None) or (allocation is not None and not same)

    def _store_results(self, turn: Turn, results: list[tuple[Claim, ClaimObject]], known: _Known) -> None:
        for ids in chunks([row.pk for row, _ in results]):
            stale = ClaimDevice.objects.filter(claim_id__in=ids)
            turn.dirty_devices |= set(stale.exclude(device=None).values_list("device_id", flat=True))
            stale.delete()
        rows: dict[tuple[Any, ...], ClaimDevice] = {}
        for row, obj in results:
            said = {status.key: status for status in obj.devices}
            for result in _results(obj.claim.status.allocation):
                device = known.devices.get((result.driver, result.pool, result.device))
                if device is not None:
                    turn.dirty_devices.add(device.pk)
                key = (row.pk, result.driver, result.pool, result.device, result.share_id, result.request)
                rows[key] = ClaimDevice(
                    claim=row,
                    driver=result.driver[:63],
                    pool_name=result.pool[:253],
                    device_name=result.device[:63],
                    device=device,
                    request=result.request[:130],
                    share_id=result.share_id or "",
                    admin_access=bool(result.admin_access),
                    consumed_capacity=_consumed(result),
                    identified=device is not None,
                )
                _take_status(
                    rows[key],
                    said.get((result.driver, result.pool, result.device, result.share_id or "")),
                )
        ClaimDevice.objects.bulk_create(rows.values(), batch_size=WRITE_BATCH)

    # --- what else must be known ----------------------------------------------------------------------

    def _known(self, turn: Turn, changes: Sequence[Change[Claim, ClaimObject]]) -> _Known:
        named: set[DeviceKey] = set()
        consumers: set[str] = set()
        unknown: set[str] = set()
        anew: set[str] = set()
        for change in changes:
            status = change.obj.claim.status
            named |= {(r.driver, r.pool, r.device) for r in _results(status.allocation)}
            consumers |= {consumer.uid for consumer in status.reserved_for}
            if change.row is None:
                unknown.add(change.item.uid)
            elif status.allocation is not None and change.row.epoch and not change.row.allocated:
                anew.add(change.item.uid)
        devices = _devices(turn, named)
        epochs = beginnings.epochs(turn, unknown)
        return _Known(
            devices=devices,
            counters=consumption.of(devices.values()),
            epochs=epochs,
            ended=beginnings.ended(turn, anew | {uid for uid, epoch in epochs.items() if epoch}),
            reserving=reserving(turn, consumers),
        )


def _allocation_written_at(written: _Written) -> datetime | None:
    times = [
        parse_time(entry.time)
        for entry in written.metadata.managed_fields or ()
        if entry.fields_v1 and "f:allocation" in (entry.fields_v1.get("f:status") or {})
    ]
    return max((time for time in times if time is not None), default=None)


def _results(allocation: dra.AllocationResult | None) -> Sequence[dra.DeviceRequestAllocationResult]:
    return allocation.devices.results if allocation is not None else ()


def _consumed(result: dra.DeviceRequestAllocationResult) -> dict[str, Any]:
    return qualified_amounts(result.consumed_capacity, driver=result.driver)


def _row(turn: Turn, change: Change[Claim, ClaimObject], known: _Known) -> Claim:
    claim, old = change.obj.claim, change.row
    return Claim(
        pk=old.pk if old else None,
        cluster_id=turn.cluster_id,
        namespace=change.item.namespace,
        name=change.item.name,
        uid=change.item.uid,
        resource_version=change.item.resource_version,
        labels=claim.metadata.labels,
        annotations=claim.metadata.annotations,
        created_at=parse_time(claim.metadata.creation_timestamp),
        spec=dra.encode(claim.spec),
        status=change.obj.status,
        deleted_at=parse_time(claim.metadata.deletion_timestamp),
        allocated=claim.status.allocation is not None,
        # A claim that was mirrored before (and lost, say to a restored backup) goes on counting.
        epoch=old.epoch if old else known.epochs.get(change.item.uid, 0),
        allocated_at=old.allocated_at if old else None,
        node_name="",
        owner_pod_uid=_owner_pod(claim.metadata.owner_references),
    )


def _owner_pod(references: Iterable[dra.OwnerReference]) -> str:
    return next((ref.uid[:64] for ref in references if ref.kind == "Pod" and ref.api_version == "v1"), "")


def _same_allocation(old: Claim, allocation: dra.AllocationResult) -> bool:
    before: Mapping[str, Any] = old.status.get("allocation") or {}
    stamps = before.get("allocationTimestamp"), allocation.allocation_timestamp
    # The timestamp may be written late, but it never changes within one allocation.
    if all(stamps) and parse_time(stamps[0]) != parse_time(stamps[1]):
        return False
    identity = ("driver", "pool", "device", "shareID", "request")
    earlier = {tuple(r.get(name) or "" for name in identity) for r in _raw_results(before)}
    now = {(r.driver, r.pool, r.device, r.share_id or "", r.request) for r in _results(allocation)}
    return earlier == now


def _raw_results(allocation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list((allocation.get("devices") or {}).get("results") or ())


def _consumers(status: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """uid → reference, as in `status.reservedFor`."""
    return {
        str(entry.get("uid", "")): {
            "resource": str(entry.get("resource", "")),
            "api_group": str(entry.get("apiGroup", "")),
            "name": str(entry.get("name", "")),
            "uid": str(entry.get("uid", "")),
        }
        for entry in status.get("reservedFor") or ()
    }


def _devices(turn: Turn, named: set[DeviceKey]) -> dict[DeviceKey, Device]:
    keys: dict[int, DeviceKey] = {}
    names = {name for _, _, name in named}
    for pools in chunks({pool for _, pool, _ in named}):
        # Many more than are named: every pool of these that has a device of one of these names.
        rows = Device.objects.filter(cluster_id=turn.cluster_id, pool__name__in=pools, name__in=names)
        for pk, *key in rows.values_list("pk", "pool__driver", "pool__name", "name"):
            if tuple(key) in named:
                keys[pk] = (key[0], key[1], key[2])
    found: dict[DeviceKey, Device] = {}
    for pks in chunks(keys):
        found |= {keys[device.pk]: device for device in Device.objects.filter(pk__in=pks)}
    profiles = DeviceProfile.objects.in_bulk({device.profile_id for device in found.values()})
    for device in found.values():
        device.profile = profiles[device.profile_id]
    return found


def _node_of(allocation: dra.AllocationResult, known: _Known) -> str:
    """The node that an allocation is bound to; "" where it is usable on several."""
    selector = allocation.node_selector
    for term in selector.node_selector_terms if selector else ():
        for requirement in (*term.match_fields, *term.match_expressions):
            named = requirement.key in {"metadata.name", "kubernetes.io/hostname"}
            if named and requirement.operator == "In" and len(requirement.values) == 1:
                return requirement.values[0][:253]
    nodes = {
        device.node_name
        for result in _results(allocation)
        if (device := known.devices.get((result.driver, result.pool, result.device))) is not None
    }
    return nodes.pop() if len(nodes) == 1 else ""


def _classes(claim: dra.ResourceClaim) -> dict[str, str]:
    """Name of a request (or "request/subrequest") → DeviceClass."""
    classes: dict[str, str] = {}
    for request in claim.spec.devices.requests:
        if request.exactly is not None:
            classes[request.name] = request.exactly.device_class_name
        for sub in request.first_available:
            classes[f"{request.name}/{sub.name}"] = sub.device_class_name
    return classes


def _allocation_facts(
    row: Claim, claim: dra.ResourceClaim, allocation: dra.AllocationResult, known: _Known
) -> dict[str, Any]:
    """Everything that the ledger will need, as it is at this moment."""
    classes = _classes(claim)
    devices = [
        {
            "driver": result.driver,
            "pool": result.pool,
            "device": result.device,
            "request": result.request,
            "share_id": result.share_id or "",
            "admin_access": bool(result.admin_access),
            "consumed_capacity": _consumed(result),
            "device_class": classes.get(result.request, ""),
            **_known_facts(known.devices.get((result.driver, result.pool, result.device)), known.counters),
        }
        for result in _results(allocation)
    ]
    return {
        "epoch": row.epoch,
        "node": _node_of(allocation, known),
        "devices": devices,
        "owner_pod_uid": row.owner_pod_uid,
    }


def _known_facts(device: Device | None, counters: Mapping[int, consumption.Counters]) -> dict[str, Any]:
    if device is not None:
        return hardware_facts(device, device.profile, counters.get(device.pk, {}))
    # Its slice has not come yet.
    return {"hardware_id": "", "profile": "", "product": "", "capacity": {}, "node": ""}


def hardware_facts(device: Placed, profile: DeviceProfile, counters: consumption.Counters) -> dict[str, Any]:
    """What an allocation tells of a device by itself."""
    drawn: dict[str, Any] = {"counters": counters} if counters else {}
    return drawn | {
        "hardware_id": device.hardware_id,
        "profile": profile.digest,
        "product": profile.product,
        "capacity": profile.capacity,
        "node": device.node_name,
    }


def _note_creation(turn: Turn, change: Change[Claim, ClaimObject]) -> None:
    at = parse_time(change.obj.claim.metadata.creation_timestamp)
    turn.observe(
        Kind.CLAIM_CREATED,
        key=f"claim/{change.item.uid}/created",
        moment=turn.told(at, Source.CREATION),
        namespace=change.item.namespace,
        name=change.item.name,
        uid=change.item.uid,
    )


def _take_status(row: ClaimDevice, status: DeviceStatus | None) -> bool:
    """Set what the driver says of an allocated device; whether that is new."""
    before = row.conditions, row.network_data, row.driver_data
    row.conditions = (status and status.conditions) or []
    row.network_data = (status and status.network_data) or {}
    row.driver_data = (status and status.data) or {}
    return before != (row.conditions, row.network_data, row.driver_data)


def _store_statuses(claims: Sequence[tuple[Claim, Sequence[DeviceStatus]]]) -> None:
    """What drivers say of the devices of allocations that are known already."""
    said = {(row.pk, *status.key): status for row, devices in claims for status in devices}
    changed: list[ClaimDevice] = []
    for ids in chunks([row.pk for row, _ in claims]):
        for held in ClaimDevice.objects.filter(claim_id__in=ids):
            key = (held.claim_id, held.driver, held.pool_name, held.device_name, held.share_id)
            if _take_status(held, said.get(key)):
                changed.append(held)
    if changed:
        columns = ["conditions", "network_data", "driver_data"]
        ClaimDevice.objects.bulk_update(changed, columns, batch_size=WRITE_BATCH)


def _note_joining(
    turn: Turn, row: Claim, consumers: Mapping[str, Mapping[str, str]], pods: Reserving
) -> None:
    for uid, consumer in sorted(consumers.items()):
        containers = pods.containers(uid, row.name)
        known = {} if containers is None else {"containers": containers}
        departures.note(turn, Kind.CONSUMER_JOINED, row, {**consumer, **known}, turn.observed())


def _note_leaving(turn: Turn, row: Claim, consumers: Mapping[str, Mapping[str, str]], moment: Moment) -> None:
    for _, consumer in sorted(consumers.items()):
        departures.note(turn, Kind.CONSUMER_LEFT, row, consumer, moment)
