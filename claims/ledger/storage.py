"""The ledger's rows: applies what was observed since the cursor, in one transaction with the cursor.

A claim's rows are a function of *all* its observations, so a batch folds the claims that it touches anew and
writes the difference. Applying a batch twice, or two workers at once, therefore changes nothing.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet

from claims.ledger import archive, contests, cursor
from claims.ledger.bounds import Policies
from claims.ledger.fold import fold
from claims.ledger.payers import Payers
from claims.ledger.terms import EVENT_VALUES, KINDS, Event, Folded, Interval, Stay
from claims.models import Allocation, Consumer, DrillObject, LedgerCursor, LedgerPolicy, LedgerTouch
from claims.money.rating import source_of
from inventory.identity import qualified_amounts
from inventory.models import ArchivedObject, Cluster, DeviceProfile, NamespaceBinding, Observation
from portal import bulk
from portal.sql import chunks

# Observations of one transaction: what a claim was seen to do in quick succession is folded once.
BATCH = 10_000
# Claims that are folded together; databases bound the number of parameters of one statement.
CHUNK = 1_000

_NATURAL_KEY = (
    "claim_uid",
    "epoch",
    "driver",
    "pool_name",
    "device_name",
    "share_id",
    "request_name",
)
_ALLOCATION_VALUES = tuple(
    field.attname for field in Allocation._meta.concrete_fields if not (field.primary_key or field.generated)
)
_BY_ATTNAME = {field.attname: field.name for field in Allocation._meta.concrete_fields}
_GENERATED = [field.name for field in Allocation._meta.concrete_fields if field.generated]
Key = tuple[Any, ...]
MICROSECOND = timedelta(microseconds=1)
_CONSUMER_VALUES = (
    "cluster_id",
    "claim_uid",
    "epoch",
    "resource",
    "name",
    "uid",
    "joined_at",
    "left_at",
    "containers",
)


def apply(*, cluster: Cluster) -> int:
    """Fold everything that was observed on `cluster` since the last time. Returns how many observations."""
    total = 0
    while True:
        with transaction.atomic():
            at = cursor.locked(cluster)
            batch = list(
                Observation.objects.filter(cluster=cluster, id__gt=at.observation_id)
                .order_by("id")
                .values_list("id", "kind", "uid")[:BATCH]
            )
            if not batch:
                return total
            _refold(cluster, {uid for _, kind, uid in batch if kind in KINDS})
            at.observation_id = batch[-1][0]
            at.save(update_fields=["observation_id"])
        total += len(batch)


def refold(*, cluster: Cluster, uids: Iterable[str]) -> None:
    """Fold the claims `uids` anew from all their observations, and write what differs."""
    wanted = sorted(uids)
    if not wanted:
        return
    with transaction.atomic():
        # One writer of a cluster's ledger at a time: two would insert the same rows.
        cursor.locked(cluster)
        _refold(cluster, wanted)


def touch(*, cluster: Cluster, uids: Iterable[str]) -> None:
    """Have claims rated anew of which nothing was written: something else that decides turned out."""
    with transaction.atomic():
        cursor.locked(cluster)
        _note(cluster, uids)


def _refold(cluster: Cluster, uids: Iterable[str]) -> None:
    policies = Policies(tuple(LedgerPolicy.objects.order_by("valid_from").values_list("valid_from", "bound")))
    for chunk in chunks(sorted(uids), CHUNK):
        folded = fold(_events(cluster, chunk), policies=policies)
        wrote = _write_allocations(cluster, chunk, folded.intervals)
        if _write_consumers(cluster, chunk, folded) or wrote:
            _note(cluster, {*chunk, *(row.claim_uid for row in wrote.around)}, wrote.gone)


def _note(cluster: Cluster, uids: Iterable[str] = (), gone: Sequence[Allocation] = ()) -> None:
    """Count a change, and say of whom: for who goes by what was written (`claims.money.touched`)."""
    LedgerCursor.objects.filter(cluster=cluster).update(changes=F("changes") + 1)
    change = LedgerCursor.objects.values_list("changes", flat=True).get(cluster=cluster)
    notes = [(uid, "") for uid in uids] + [(row.claim_uid, source_of(vars(row))) for row in gone]
    bulk.append([LedgerTouch(cluster=cluster, change=change, claim_uid=u, gone=g) for u, g in notes])


def reattribute(*, cluster: Cluster) -> None:
    """Give unattributed intervals to the project whose namespace they turn out to have been in: a binding may
    be entered later than it began to hold. Bindings never overlap, so what is attributed stays."""
    covering = NamespaceBinding.objects.filter(
        Q(valid_until=None) | Q(valid_until__gt=OuterRef("started_at")),
        cluster=OuterRef("cluster"),
        namespace=OuterRef("namespace"),
        valid_from__lte=OuterRef("started_at"),
    )
    # What drills hold stays nobody's, whosever the namespace.
    drilled = DrillObject.objects.filter(cluster=OuterRef("cluster"), uid=OuterRef("claim_uid"))
    rows = Allocation.objects.filter(Exists(covering), ~Exists(drilled), cluster=cluster, project=None)
    refold(cluster=cluster, uids=set(rows.values_list("claim_uid", flat=True)))


def rebuild(*, cluster: Cluster) -> int:
    """Fold the cluster's ledger anew from the first observation on, be it archived; all or nothing. Rows that
    nothing was observed for go; those that come out the same keep their primary keys. Returns the number of
    observations. Raises `archive.ArchiveDamaged`."""
    with transaction.atomic():
        cursor.locked(cluster)
        archive.verify(cluster=cluster)
        observed = Observation.objects.filter(cluster=cluster, uid=OuterRef("claim_uid"), kind__in=KINDS)
        archived = ArchivedObject.objects.filter(archive__cluster=cluster, uid=OuterRef("claim_uid"))
        for model in (Allocation, Consumer):
            rows: QuerySet[Any] = model.objects.filter(cluster=cluster)
            if rows.exclude(Exists(observed)).exclude(Exists(archived)).delete()[0]:
                # Nobody notes of whom: whoever goes by that has to look at everything.
                _note(cluster)
        total = 0
        for uids in archive.uids(cluster=cluster, size=CHUNK):
            _refold(cluster, uids)
        total += archive.count(cluster=cluster)
        LedgerCursor.objects.filter(cluster=cluster).update(observation_id=0)
        return total + apply(cluster=cluster)


def _events(cluster: Cluster, uids: Sequence[str]) -> Iterator[Event]:
    """All that was ever observed of these claims and Pods, be it archived."""
    rows = Observation.objects.filter(cluster=cluster, uid__in=uids, kind__in=KINDS)
    for values in rows.values_list(*EVENT_VALUES).iterator(chunk_size=2_000):
        yield Event(**dict(zip(EVENT_VALUES, values, strict=True)))
    yield from archive.events(cluster=cluster, uids=uids)


@dataclass(frozen=True)
class _Wrote:
    """Whether anything was written: rows of other claims `around`, and those that are no more."""

    anything: bool
    around: Sequence[Allocation]
    gone: Sequence[Allocation]

    def __bool__(self) -> bool:
        return self.anything


def _write_allocations(cluster: Cluster, uids: Sequence[str], intervals: Sequence[Interval]) -> _Wrote:
    payers = Payers.load(cluster=cluster, uids=uids, namespaces={i.namespace for i in intervals})
    products = _products(intervals)
    wanted: dict[Key, Allocation] = {}
    for interval in intervals:
        row = _row(cluster, interval, payers, products)
        wanted[_key(row)] = row
    stored = list(Allocation.objects.filter(cluster=cluster, claim_uid__in=uids).defer(*_GENERATED))
    around = _settle(cluster, uids, wanted=wanted, stored=stored)
    old = {_key(row): row for row in stored}
    gone = [row for key, row in old.items() if key not in wanted]
    changed = []
    for key, row in old.items():
        new = wanted.get(key)
        if new is not None and any(getattr(row, n) != getattr(new, n) for n in _ALLOCATION_VALUES):
            new.pk = row.pk
            changed.append(new)
    new_rows = [row for key, row in wanted.items() if key not in old]
    if gone:
        Allocation.objects.filter(pk__in=[row.pk for row in gone]).delete()
    busy = Counter(contests.device_of(row) for row in (*changed, *around) if contests.is_exclusive(row))
    if any(count > 1 for count in busy.values()):
        # Each is right beside all others as they will be, but not as they are: meanwhile they do not count.
        Allocation.objects.filter(pk__in=[row.pk for row in (*changed, *around)]).update(contested=True)
    bulk.overwrite(changed, [_BY_ATTNAME[name] for name in _ALLOCATION_VALUES])
    for row in around:
        Allocation.objects.filter(pk=row.pk).update(
            ended_at=row.ended_at, end_cut_us=row.end_cut_us, contested=row.contested
        )
    bulk.append(new_rows)
    return _Wrote(bool(gone or changed or around or new_rows), around, gone)


def _settle(
    cluster: Cluster, uids: Sequence[str], *, wanted: Mapping[Key, Allocation], stored: Sequence[Allocation]
) -> list[Allocation]:
    """Settle what overlaps on exclusive devices: sets it on the rows that are `wanted`, and gives the rows of
    other claims that change with them."""
    new = {key: contests.as_held(row, key) for key, row in wanted.items() if contests.is_exclusive(row)}
    before = [contests.as_held(row, _key(row)) for row in stored if contests.is_exclusive(row)]
    near = contests.neighbours(cluster=cluster, intervals=[*new.values(), *before], without=uids)
    near_held = [contests.as_held(row, _key(row)) for row in near]
    # Those who overlap with the neighbours decide about them, too.
    beyond = contests.neighbours(cluster=cluster, intervals=near_held, without=uids) if near else []
    known = {_key(row): contests.as_held(row, _key(row)) for row in (*near, *beyond)}
    verdicts = contests.judge([*new.values(), *known.values()])
    for key in new:
        _apply_verdict(wanted[key], verdicts.get(key, contests.SOUND))
    return [row for row in near if _apply_verdict(row, verdicts.get(_key(row), contests.SOUND))]


def _apply_verdict(row: Allocation, verdict: contests.Verdict) -> bool:
    """Whether that changes the row."""
    was = (row.ended_at, row.end_cut_us, row.contested)
    cut_us = verdict.cut // MICROSECOND
    if row.ended_at is not None:
        row.ended_at += timedelta(microseconds=row.end_cut_us - cut_us)
    row.end_cut_us, row.contested = cut_us, verdict.contested
    return was != (row.ended_at, row.end_cut_us, row.contested)


def _write_consumers(cluster: Cluster, uids: Sequence[str], folded: Folded) -> bool:
    wanted: dict[tuple[object, ...], Any] = {
        (stay.claim_uid, stay.epoch, stay.uid): _consumer(cluster, stay) for stay in folded.stays
    }
    rows = Consumer.objects.filter(cluster=cluster, claim_uid__in=uids)
    return _write_difference(rows, wanted, ("claim_uid", "epoch", "uid"), _CONSUMER_VALUES)


def _write_difference(
    stored: QuerySet[Any], wanted: dict[tuple[object, ...], Any], key: Sequence[str], values: Sequence[str]
) -> bool:
    """Make the rows of `stored` equal to `wanted` (by their `key`), touching only what differs; whether any
    does."""
    where = [values.index(name) for name in key]
    seen: set[tuple[object, ...]] = set()
    gone, changed = [], []
    for pk, *old in stored.values_list("pk", *values):
        named = tuple(old[index] for index in where)
        row = wanted.get(named)
        if row is None:
            gone.append(pk)
            continue
        seen.add(named)
        if old != [getattr(row, name) for name in values]:
            row.pk = pk
            changed.append(row)
    if gone:
        stored.model.objects.filter(pk__in=gone).delete()
    by_attname = {field.attname: field.name for field in stored.model._meta.concrete_fields}
    bulk.overwrite(changed, [by_attname[name] for name in values])
    new = [row for named, row in wanted.items() if named not in seen]
    bulk.append(new)
    return bool(gone or changed or new)


def _key(row: Allocation) -> Key:
    return tuple(getattr(row, name) for name in _NATURAL_KEY)


def _row(cluster: Cluster, interval: Interval, payers: Payers, products: dict[str, str]) -> Allocation:
    facts = interval.facts
    payer = payers.of(interval)
    return Allocation(
        cluster=cluster,
        namespace=interval.namespace,
        claim_name=interval.claim_name,
        claim_uid=interval.claim_uid,
        epoch=interval.epoch,
        driver=interval.device.driver,
        pool_name=interval.device.pool,
        device_name=interval.device.device,
        share_id=interval.device.share_id,
        request_name=interval.device.request,
        admin_access=bool(facts.get("admin_access")),
        node_name=interval.node,
        hardware_id=facts.get("hardware_id") or "",
        device_class=facts.get("device_class") or payer.device_class,
        product=facts.get("product") or products.get(facts.get("profile") or "", ""),
        profile_digest=facts.get("profile") or "",
        # Earlier observations have the names of the slice.
        consumed_capacity=qualified_amounts(
            facts.get("consumed_capacity") or {}, driver=interval.device.driver
        ),
        capacity=facts.get("capacity") or {},
        counters=facts.get("counters") or {},
        kind=interval.kind,
        units=interval.units,
        replicas=interval.replicas,
        extended_resource=interval.extended_resource,
        bound=interval.bound,
        started_at=interval.start,
        start_source=interval.start_source,
        start_uncertainty_us=interval.start_uncertainty_us,
        ended_at=interval.end,
        end_source=interval.end_source,
        end_uncertainty_us=interval.end_uncertainty_us,
        request_id=payer.request_id,
        project_id=payer.project_id,
    )


def _consumer(cluster: Cluster, stay: Stay) -> Consumer:
    return Consumer(
        cluster=cluster,
        claim_uid=stay.claim_uid,
        epoch=stay.epoch,
        resource=stay.resource,
        name=stay.name,
        uid=stay.uid,
        joined_at=stay.joined,
        left_at=stay.left,
        containers=stay.containers,
    )


def _products(intervals: Sequence[Interval]) -> dict[str, str]:
    digests = {interval.facts.get("profile") for interval in intervals} - {None, ""}
    return dict(DeviceProfile.objects.filter(digest__in=digests).values_list("digest", "product"))
