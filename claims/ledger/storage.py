"""The ledger's rows: applies what was observed since the cursor, in one transaction with the cursor.

A claim's rows are a function of *all* its observations, so a batch folds the claims that it touches anew and
writes the difference. Applying a batch twice, or two workers at once, therefore changes nothing.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, Q, QuerySet

from claims.ledger.fold import KINDS, Event, Folded, Interval, Stay, fold
from claims.models import Allocation, Consumer, LedgerCursor, RequestClaim
from inventory.models import Cluster, DeviceProfile, NamespaceBinding, Observation
from portal import bulk

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
_EVENT_VALUES = (
    *("key", "kind", "at", "source", "uncertainty_us", "observed_at", "namespace", "name", "uid", "facts"),
)
_CONSUMER_VALUES = ("cluster_id", "claim_uid", "epoch", "resource", "name", "uid", "joined_at", "left_at")


def apply(*, cluster: Cluster) -> int:
    """Fold everything that was observed on `cluster` since the last time. Returns how many observations."""
    total = 0
    while True:
        with transaction.atomic():
            cursor = _locked_cursor(cluster)
            batch = list(
                Observation.objects.filter(cluster=cluster, id__gt=cursor.observation_id)
                .order_by("id")
                .values_list("id", "kind", "uid")[:BATCH]
            )
            if not batch:
                return total
            _refold(cluster, {uid for _, kind, uid in batch if kind in KINDS})
            cursor.observation_id = batch[-1][0]
            cursor.save(update_fields=["observation_id"])
        total += len(batch)


def refold(*, cluster: Cluster, uids: Iterable[str]) -> None:
    """Fold the claims `uids` anew from all their observations, and write what differs."""
    wanted = sorted(uids)
    if not wanted:
        return
    with transaction.atomic():
        # One writer of a cluster's ledger at a time: two would insert the same rows.
        _locked_cursor(cluster)
        _refold(cluster, wanted)


def _refold(cluster: Cluster, uids: Iterable[str]) -> None:
    for chunk in _chunks(sorted(uids), CHUNK):
        folded = fold(_events(cluster, chunk))
        _write_allocations(cluster, chunk, folded.intervals)
        _write_consumers(cluster, chunk, folded)


def reattribute(*, cluster: Cluster) -> None:
    """Give unattributed intervals to the project whose namespace they turn out to have been in: a binding may
    be entered later than it began to hold. Bindings never overlap, so what is attributed stays."""
    covering = NamespaceBinding.objects.filter(
        Q(valid_until=None) | Q(valid_until__gt=OuterRef("started_at")),
        cluster=OuterRef("cluster"),
        namespace=OuterRef("namespace"),
        valid_from__lte=OuterRef("started_at"),
    )
    rows = Allocation.objects.filter(Exists(covering), cluster=cluster, project=None)
    refold(cluster=cluster, uids=set(rows.values_list("claim_uid", flat=True)))


def rebuild(*, cluster: Cluster) -> int:
    """Throw the cluster's ledger away and fold it from the first observation on; all or nothing.
    Returns the number of observations."""
    with transaction.atomic():
        _locked_cursor(cluster)
        Allocation.objects.filter(cluster=cluster).delete()
        Consumer.objects.filter(cluster=cluster).delete()
        LedgerCursor.objects.filter(cluster=cluster).update(observation_id=0)
        return apply(cluster=cluster)


def _locked_cursor(cluster: Cluster) -> LedgerCursor:
    LedgerCursor.objects.get_or_create(cluster=cluster)
    return LedgerCursor.objects.select_for_update().get(cluster=cluster)


def _events(cluster: Cluster, uids: Sequence[str]) -> Iterator[Event]:
    rows = Observation.objects.filter(cluster=cluster, uid__in=uids, kind__in=KINDS)
    for values in rows.values_list(*_EVENT_VALUES).iterator(chunk_size=2_000):
        yield Event(**dict(zip(_EVENT_VALUES, values, strict=True)))


def _write_allocations(cluster: Cluster, uids: Sequence[str], intervals: Sequence[Interval]) -> None:
    payers = _Payers.load(cluster=cluster, uids=uids, namespaces={i.namespace for i in intervals})
    products = _products(intervals)
    wanted: dict[tuple[object, ...], Any] = {}
    for interval in intervals:
        row = _row(cluster, interval, payers, products)
        wanted[_key(row)] = row
    rows = Allocation.objects.filter(cluster=cluster, claim_uid__in=uids)
    _write_difference(rows, wanted, _NATURAL_KEY, _ALLOCATION_VALUES)


def _write_consumers(cluster: Cluster, uids: Sequence[str], folded: Folded) -> None:
    wanted: dict[tuple[object, ...], Any] = {
        (stay.claim_uid, stay.epoch, stay.uid): _consumer(cluster, stay) for stay in folded.stays
    }
    rows = Consumer.objects.filter(cluster=cluster, claim_uid__in=uids)
    _write_difference(rows, wanted, ("claim_uid", "epoch", "uid"), _CONSUMER_VALUES)


def _write_difference(
    stored: QuerySet[Any], wanted: dict[tuple[object, ...], Any], key: Sequence[str], values: Sequence[str]
) -> None:
    """Make the rows of `stored` equal to `wanted` (by their `key`), touching only what differs."""
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
    bulk.append([row for named, row in wanted.items() if named not in seen])


def _key(row: Allocation) -> tuple[object, ...]:
    return tuple(getattr(row, name) for name in _NATURAL_KEY)


def _row(cluster: Cluster, interval: Interval, payers: "_Payers", products: dict[str, str]) -> Allocation:
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
        consumed_capacity=facts.get("consumed_capacity") or {},
        capacity=facts.get("capacity") or {},
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
    )


def _products(intervals: Sequence[Interval]) -> dict[str, str]:
    digests = {interval.facts.get("profile") for interval in intervals} - {None, ""}
    return dict(DeviceProfile.objects.filter(digest__in=digests).values_list("digest", "product"))


@dataclass(frozen=True, kw_only=True)
class _Payer:
    request_id: int | None = None
    project_id: int | None = None
    device_class: str = ""


@dataclass(frozen=True, kw_only=True)
class _Payers:
    """Who pays: the request of the claim's uid, else the namespace's binding at the start, else nobody.
    Labels never decide: whoever writes a claim can write them."""

    by_claim: dict[str, _Payer]
    bindings: dict[str, list[tuple[datetime, datetime | None, int]]]

    @classmethod
    def load(cls, *, cluster: Cluster, uids: Sequence[str], namespaces: Iterable[str]) -> "_Payers":
        links = RequestClaim.objects.filter(cluster=cluster, claim_uid__in=uids)
        by_claim = {
            uid: _Payer(request_id=request, project_id=project, device_class=device_class)
            for uid, request, project, device_class in links.values_list(
                "claim_uid", "request_id", "request__project_id", "request__device_class"
            )
        }
        bindings: dict[str, list[tuple[datetime, datetime | None, int]]] = defaultdict(list)
        rows = NamespaceBinding.objects.filter(cluster=cluster, namespace__in=set(namespaces))
        for binding in rows.order_by("valid_from"):
            bindings[binding.namespace].append((binding.valid_from, binding.valid_until, binding.project_id))
        return cls(by_claim=by_claim, bindings=bindings)

    def of(self, interval: Interval) -> _Payer:
        payer = self.by_claim.get(interval.claim_uid)
        if payer is not None:
            return payer
        for valid_from, valid_until, project in self.bindings.get(interval.namespace, ()):
            if valid_from <= interval.start and (valid_until is None or interval.start < valid_until):
                return _Payer(project_id=project)
        return _Payer()


def _chunks(items: Sequence[str], size: int) -> Iterator[list[str]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk
