"""ResourceSlices: pools as far as they are published, and the devices in them.

Devices are worked out per pool, since a pool's newest generation decides: while it is incomplete, devices
of the slices that it replaces are kept (the driver is in the middle of an update), once it is complete
they are gone.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from inventory import profiles
from inventory.mirror import devices, states
from inventory.mirror.batches import Item
from inventory.mirror.decoding import decode_dra
from inventory.mirror.devices import Arrival, DeviceRow, Published
from inventory.mirror.kind import Change, MirroredKind, Unusable, save
from inventory.mirror.taint_rules import Rules
from inventory.mirror.turn import Turn
from inventory.models import Device, DeviceProfile, Pool, ResourceSlice
from portal.bulk import Encoded
from portal.dra import model as dra
from portal.dra.pools import Pools, missing_gate
from portal.dra.taints import TaintRules
from portal.sql import chunks

PoolKey = tuple[str, str]

_SLICE_COLUMNS = ["uid", "resource_version", "pool", "generation", "node_name", "manifest"]
_POOL_COLUMNS = [
    "generation",
    "slices_expected",
    "slices_seen",
    "complete",
    "has_counters",
    "missing_gate",
    "problem",
]
_DEVICE_COLUMNS = ["slice", "profile", "position", "identity", "hardware_id", "node_name", "taints"]


class ResourceSlices(MirroredKind[ResourceSlice, dra.ResourceSlice]):
    plural = "resourceslices"
    model = ResourceSlice
    has_history = False

    def __init__(self) -> None:
        self._profiles = profiles.Known()
        # Pools whose slices changed in this batch, and slices that are gone but whose devices are still to
        # be judged.
        self._touched: set[int] = set()
        self._lost: set[int] = set()
        # Slices of this batch by primary key, so that they need not be read back.
        self._fresh: dict[int, dra.ResourceSlice] = {}

    def forget(self) -> None:
        self._profiles.clear()
        self._touched.clear()
        self._lost.clear()
        self._fresh.clear()

    def decode(self, item: Item) -> dra.ResourceSlice:
        decoded = decode_dra(item, dra.ResourceSlice)
        if not decoded.spec.driver or not decoded.spec.pool.name:
            raise Unusable("spec.pool.name", "a slice needs a driver and a pool")
        return decoded

    def store(self, turn: Turn, changes: Sequence[Change[ResourceSlice, dra.ResourceSlice]]) -> None:
        pools = self._pools(turn, {_pool_key(change.obj) for change in changes})
        turn.fleet_changed = True
        rows: list[ResourceSlice] = []
        for change in changes:
            pool = pools[_pool_key(change.obj)]
            self._touched.add(pool.pk)
            if change.row is not None:
                # The slice may have moved to another pool, or have come back under its name.
                self._touched.add(change.row.pool_id)
                self._lost.discard(change.row.pk)
            row = ResourceSlice(
                pk=change.row.pk if change.row else None,
                cluster_id=turn.cluster_id,
                name=change.item.name,
                uid=change.item.uid,
                resource_version=change.item.resource_version,
                pool_id=pool.pk,
                generation=change.obj.spec.pool.generation,
                node_name=change.obj.spec.node_name or "",
                manifest=Encoded(dra.encode_json(change.obj)),
            )
            rows.append(row)
        save(rows, _SLICE_COLUMNS)
        self._fresh |= {row.pk: change.obj for row, change in zip(rows, changes, strict=True)}

    def _manager(self) -> Any:
        # What a slice says is only read where its pool has to be settled anew.
        return ResourceSlice.objects.defer("manifest")

    def lose(self, turn: Turn, rows: Sequence[ResourceSlice]) -> None:
        turn.fleet_changed = True
        # Deleted in `settle`, once it is clear whether their devices have moved to another slice.
        self._touched |= {row.pool_id for row in rows}
        self._lost |= {row.pk for row in rows}

    def settle(self, turn: Turn) -> None:
        """Bring pools and devices of all touched pools up to what their slices say."""
        touched, self._touched = sorted(self._touched), set()
        for ids in chunks(touched):
            self._settle_pools(turn, list(ids))
        self._fresh.clear()
        lost, self._lost = self._lost, set()
        for ids in chunks(sorted(lost)):
            ResourceSlice.objects.filter(pk__in=ids).delete()
        for ids in chunks(touched):
            Pool.objects.filter(pk__in=ids, slices=None).delete()

    def _pools(self, turn: Turn, keys: set[PoolKey]) -> dict[PoolKey, Pool]:
        found = self._stored_pools(turn, keys)
        missing = [
            Pool(
                cluster_id=turn.cluster_id,
                driver=driver,
                name=name,
                generation=0,
                slices_expected=0,
                slices_seen=0,
                complete=False,
            )
            for driver, name in keys - found.keys()
        ]
        if missing:
            save(missing, _POOL_COLUMNS)
            found |= {(pool.driver, pool.name): pool for pool in missing}
        return found

    def _stored_pools(self, turn: Turn, keys: set[PoolKey]) -> dict[PoolKey, Pool]:
        names: dict[str, list[str]] = defaultdict(list)
        for driver, name in keys:
            names[driver].append(name)
        found: dict[PoolKey, Pool] = {}
        for driver, wanted in names.items():
            for some in chunks(wanted):
                # By all columns of the index: by the cluster alone, each lookup walks all its pools.
                for pool in Pool.objects.filter(cluster_id=turn.cluster_id, driver=driver, name__in=some):
                    found[driver, pool.name] = pool
        return found

    def _settle_pools(self, turn: Turn, ids: list[int]) -> None:
        slices = self._members(ids)
        existing: dict[int, dict[str, Device]] = defaultdict(dict)
        for device in Device.objects.filter(pool_id__in=ids):
            existing[device.pool_id][device.name] = device

        pools = Pool.objects.in_bulk(ids)
        changed_pools: list[Pool] = []
        wanted: list[tuple[Pool, Published]] = []
        gone: list[Device] = []
        for pool_id, pool in pools.items():
            members = slices.get(pool_id, [])
            if not members:
                gone += existing[pool_id].values()
                continue
            if _update_pool(pool, [item for _, item in members], turn):
                changed_pools.append(pool)
                if existing[pool_id]:
                    turn.dirty_pools.add(pool_id)
            published = {p.device.name: p for p in _published(members, complete=pool.complete)}
            wanted += [(pool, item) for item in published.values()]
            gone += [device for name, device in existing[pool_id].items() if name not in published]
        save(changed_pools, _POOL_COLUMNS)
        self._drop(turn, gone, pools)
        self._store_devices(turn, wanted, existing)

    def _members(self, ids: list[int]) -> dict[int, list[tuple[int, dra.ResourceSlice]]]:
        """Pool → its slices, read from the database unless they just came."""
        here = ResourceSlice.objects.filter(pool_id__in=ids)
        pool_of = {pk: pool_id for pk, pool_id in here.values_list("pk", "pool_id") if pk not in self._lost}
        found = {pk: self._fresh[pk] for pk in pool_of.keys() & self._fresh.keys()}
        for pks in chunks(pool_of.keys() - found.keys()):
            for pk, manifest in here.filter(pk__in=pks).values_list("pk", "manifest"):
                decoded = dra.decode_object(manifest)
                # We stored nothing else.
                assert isinstance(decoded, dra.ResourceSlice)
                found[pk] = decoded
        members: dict[int, list[tuple[int, dra.ResourceSlice]]] = defaultdict(list)
        for pk, item in found.items():
            members[pool_of[pk]].append((pk, item))
        return members

    def _store_devices(
        self, turn: Turn, wanted: list[tuple[Pool, Published]], existing: dict[int, dict[str, Device]]
    ) -> None:
        known = self._profiles.of([(item.device, pool.driver) for pool, item in wanted])
        new: list[Arrival] = []
        changed: list[DeviceRow] = []
        for (pool, item), profile in zip(wanted, known, strict=True):
            old = existing[pool.pk].get(item.device.name)
            device = devices.row_of(turn, pool=pool, item=item, profile=profile, old=old)
            if old is None:
                new.append(Arrival(device, pool, profile))
                devices.note_appearance(turn, device, pool, profile, item.draws)
            elif device.differs_from(old):
                changed.append(device)
                turn.dirty_devices.add(old.pk)
                devices.note_change(turn, device, old, pool, profile, draws=item.draws)
            else:
                continue
            turn.new_profiles.add(profile.pk)
        self._store_new(turn, new)
        save(changed, _DEVICE_COLUMNS, model=Device)
        turn.new_devices |= {device.key for device in changed}
        turn.dirty_counts |= {device.node_name for device in changed} - {""}

    def _store_new(self, turn: Turn, new: list[Arrival]) -> None:
        if not new:
            return
        rules = Rules.of(turn.cluster_id)
        waited_for = devices.waiting(turn, new)
        simple = [a for a in new if states.is_simple(a) and a.name not in waited_for]
        states.judge_new(turn, simple, rules)
        save([arrival.device for arrival in new], _DEVICE_COLUMNS, model=Device)
        stored = {device.key for device, _, _ in new}
        turn.new_devices |= stored
        turn.dirty_devices |= stored - {device.key for device, _, _ in simple}
        turn.dirty_counts |= {device.node_name for device, _, _ in new} - {""}
        devices.note_rules(turn, new, rules)
        devices.link_holders(turn, new, waited_for)

    def _drop(self, turn: Turn, gone: list[Device], pools: dict[int, Pool]) -> None:
        if not gone:
            return
        digests = dict(
            DeviceProfile.objects.filter(pk__in={d.profile_id for d in gone}).values_list("pk", "digest")
        )
        for device in gone:
            pool = pools[device.pool_id]
            turn.dirty_pools.add(pool.pk)
            turn.dirty_counts.add(device.node_name)
            devices.note_loss(turn, device, pool, digests[device.profile_id])
        for ids in chunks([device.pk for device in gone]):
            Device.objects.filter(pk__in=ids).delete()


def _pool_key(obj: dra.ResourceSlice) -> PoolKey:
    return obj.spec.driver, obj.spec.pool.name


def _update_pool(pool: Pool, members: list[dra.ResourceSlice], turn: Turn) -> bool:
    """Set the pool's columns from its slices; whether any changed."""
    before = [getattr(pool, name) for name in _POOL_COLUMNS]
    newest = max(item.spec.pool.generation for item in members)
    current = [item for item in members if item.spec.pool.generation == newest]
    pool.generation = newest
    pool.slices_seen = len(current)
    pool.slices_expected = current[0].spec.pool.resource_slice_count
    pool.missing_gate = next((gate for item in current if (gate := missing_gate(item, turn.features))), "")
    # Nothing is left of the pool where all its slices lean on a gate that is off: as good as incomplete.
    judged = next(iter(Pools(members, TaintRules(()), turn.features).all), None)
    pool.complete = judged is not None and not judged.incomplete
    pool.problem = str(judged.invalid)[:1000] if judged is not None and judged.invalid else ""
    pool.has_counters = any(
        item.spec.shared_counters or any(device.consumes_counters for device in item.spec.devices)
        for item in current
    )
    return before != [getattr(pool, name) for name in _POOL_COLUMNS]


def _published(members: Iterable[tuple[int, dra.ResourceSlice]], *, complete: bool) -> list[Published]:
    """The devices of a pool by name: of its newest generation, and while that is incomplete also of older
    ones. In a pool that names a device twice (it is invalid then) the first slice by name has it."""
    ordered = sorted(members, key=lambda m: (-m[1].spec.pool.generation, m[1].metadata.name))
    newest = ordered[0][1].spec.pool.generation
    found: dict[str, Published] = {}
    for slice_id, item in ordered:
        if complete and item.spec.pool.generation != newest:
            break
        for position, device in enumerate(item.spec.devices):
            found.setdefault(device.name, Published(device, item, slice_id, position))
    return list(found.values())
