"""Taking in what a source tells of a node: checked, and kept whole or not at all."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Count
from django.utils.translation import gettext as _

from inventory.cdi.specs import clip
from inventory.models import Cluster, Node, Pod, PodDevice, PodDeviceNode, PodDeviceToken
from inventory.node_reports import (
    UnableToAccept,
    check_clock,
    check_pause,
    check_sender,
    patience,
    too_often,
)
from inventory.podresources.dcgm import assignments_from_labels
from inventory.podresources.reports import decode, digest_of, sightings_of
from inventory.podresources.sightings import Key, PodKnown, Sighting, hardware_id_of
from inventory.podresources.turns import Before, Begun, Open, Turn, turn

STATES = ("current", "silent", "never")
# Of one node, the latest are kept: years of Pods, and an end of what a node can make up.
MOST_KEPT = 1_000_000
# The same of one Pod: whoever shows it reads all of it.
MOST_OF_POD = 1_000


@dataclass(frozen=True)
class Accepted:
    node: PodDeviceNode
    # Whether anything began, ended or got its Pod.
    changed: bool


def due_at(node: PodDeviceNode) -> datetime | None:
    """When the next report is overdue; None before the first."""
    return node.received_at + _patience(node) if node.received_at else None


def state_of(node: PodDeviceNode, *, now: datetime) -> str:
    """`current`: what it said holds. `silent`: since then nothing is known. `never`: nothing was said yet."""
    due = due_at(node)
    return "never" if due is None else "silent" if now > due else "current"


def _patience(node: PodDeviceNode) -> timedelta:
    return patience(timedelta(seconds=node.interval_seconds))


# --- reports of collectors ---------------------------------------------------------------------------


def accept(*, token: PodDeviceToken, body: bytes, now: datetime) -> Accepted:
    """Keeps what a report says of the token's node. Raises UnableToAccept; nothing is kept then but that it
    was refused, so that people see why a node that does report is silent."""
    node = token.node
    check_pause(node.received_at, now=now)
    try:
        report = decode(body)
        seen = sightings_of(report)
        check_sender((report.cluster, report.node), (node.cluster.name, node.name))
        check_clock(report.sent_at, now=now)
        return _keep(
            node,
            seen,
            sent_at=report.sent_at,
            same=(report.same.sent_at, report.same.until) if report.same else None,
            interval_seconds=report.interval_seconds,
            collector=clip(report.collector, 40),
            now=now,
        )
    except UnableToAccept as refused:
        if refused.wait is None:
            _note_refusal(node, refused.code, now=now)
        raise


@transaction.atomic
def _note_refusal(node: PodDeviceNode, code: str, *, now: datetime) -> None:
    rows = PodDeviceNode.objects.filter(pk=node.pk)
    # While a report is taken in, none waits for it.
    if rows.select_for_update(skip_locked=True).first() is not None:
        rows.update(refused_at=now, refusal=code)


# --- labels of metrics -------------------------------------------------------------------------------


def take_in_labels(
    *,
    cluster: Cluster,
    series: Iterable[Mapping[str, str]],
    taken_at: datetime,
    interval_seconds: int,
    now: datetime,
    node_label: str = "",
) -> int:
    """Keeps what the labels of a *complete* answer of the DCGM exporter's metrics say; see
    `dcgm.assignments_from_labels`. `interval_seconds` is how often they are asked for. How many nodes told.
    What is older than what is kept, is ignored; so are nodes that the mirror does not have, and Pods that it
    does not have on the node: where Prometheus puts its own labels over the exporter's, an idle GPU seems to
    be the exporter's own."""
    told = assignments_from_labels(series, node_label=node_label)
    known = Node.objects.filter(cluster=cluster).values_list("name", flat=True)
    kept = 0
    for name in sorted(told.keys() & set(known)):
        node, _new = PodDeviceNode.objects.get_or_create(
            cluster=cluster, name=name, source=PodDeviceNode.Source.DCGM, defaults={"created_at": now}
        )
        try:
            _keep(
                node,
                told[name],
                sent_at=min(taken_at, now),
                same=None,
                interval_seconds=interval_seconds,
                collector="",
                now=now,
                known_only=True,
            )
        except UnableToAccept:
            continue
        kept += 1
    return kept


# --- keeping -----------------------------------------------------------------------------------------


@transaction.atomic
def _keep(
    node: PodDeviceNode,
    seen: Sequence[Sighting],
    *,
    sent_at: datetime,
    same: tuple[datetime, datetime] | None,
    interval_seconds: int,
    collector: str,
    now: datetime,
    known_only: bool = False,
) -> Accepted:
    """Under the node's lock. While one report is taken in, another is refused and does not wait: who sends
    many at once would keep as many threads."""
    kept = PodDeviceNode.objects.select_for_update(skip_locked=True).filter(pk=node.pk).first()
    if kept is None:
        raise too_often()
    digest = digest_of(list(seen), collector)
    if kept.sent_at is not None and sent_at <= kept.sent_at:
        if sent_at == kept.sent_at and digest == kept.digest:
            return Accepted(kept, changed=False)  # the answer to the first was lost
        raise UnableToAccept("older_report", _("A report that was sent later is here already."), status=409)
    # A clock that is ahead would tell of what has not been yet.
    at = max(min(sent_at, now), kept.seen_at or now.min.replace(tzinfo=now.tzinfo))
    before = _before(kept, same, at=at)
    rows = {_key(row): row for row in kept.devices.filter(last_seen_at=None)}
    pods = _pods_on(kept)
    if known_only:
        seen = [sighting for sighting in seen if (sighting.namespace, sighting.pod) in pods]
    change = turn(
        open_now={key: Open(uid=row.pod_uid, first_seen_at=row.first_seen_at) for key, row in rows.items()},
        seen=seen,
        pods=pods,
        before=before,
        at=at,
    )
    _write(kept, rows, change, at=at)
    changed = bool(change.begun or change.ended or change.named)
    if before is None or before.silent:
        kept.reporting_since = at
    kept.received_at, kept.sent_at, kept.seen_at = now, sent_at, at
    kept.clock_skew_ms = round((sent_at - now) / timedelta(milliseconds=1))
    kept.interval_seconds, kept.collector = interval_seconds, collector
    kept.refused_at, kept.refusal = None, ""
    kept.digest = digest
    if changed:
        kept.changed_at = at
    kept.save()
    return Accepted(kept, changed=changed)


def _before(node: PodDeviceNode, same: tuple[datetime, datetime] | None, *, at: datetime) -> Before | None:
    """What is known of the time before. `same` counts only of the report that is kept: after one that got
    lost on the way the collector speaks of what the desk has never seen."""
    if node.seen_at is None:
        return None
    until = node.seen_at
    if same is not None and same[0] == node.sent_at:
        until = max(until, min(same[1], at))
    return Before(reported_at=node.seen_at, same_until=until, silent=at - until > _patience(node))


def _key(row: PodDevice) -> Key:
    return Key(row.namespace, row.pod_name, row.container, row.resource, row.device_id, row.part)


def _pods_on(node: PodDeviceNode) -> dict[tuple[str, str], PodKnown]:
    """The mirror's Pods on the node. Others are not looked at: a node tells of its own Pods only."""
    pods = Pod.objects.filter(cluster=node.cluster_id, node_name=node.name)
    return {
        (namespace, name): PodKnown(uid, created_at)
        for namespace, name, uid, created_at in pods.values_list("namespace", "name", "uid", "created_at")
    }


def _write(node: PodDeviceNode, rows: Mapping[Key, PodDevice], change: Turn, *, at: datetime) -> None:
    for key, ended in change.ended.items():
        rows[key].last_seen_at, rows[key].gone_at = ended.last_seen_at, ended.gone_at
    for key, uid in change.named.items():
        rows[key].pod_uid = uid
    # Whose Pod was never known is told to nobody: kept, a node could fill the disk with Pods that are none.
    nameless = [row.pk for key in change.ended if not (row := rows[key]).pod_uid]
    PodDevice.objects.filter(pk__in=nameless).delete()
    touched = [row for key in (*change.ended, *change.named) if (row := rows[key]).pod_uid]
    # Ends before beginnings: one row per device at a time.
    if touched:
        PodDevice.objects.bulk_update(touched, ["pod_uid", "last_seen_at", "gone_at"], batch_size=200)
    begun_rows = [
        PodDevice(
            node=node,
            cluster_id=node.cluster_id,
            namespace=begun.sighting.namespace,
            pod_name=begun.sighting.pod,
            pod_uid=begun.uid,
            container=begun.sighting.container,
            resource=begun.sighting.resource,
            device_id=begun.sighting.device_id,
            hardware_id=hardware_id_of(begun.sighting.device_id, node=node.name),
            part=begun.sighting.part,
            numa=list(begun.sighting.numa),
            earliest_at=begun.earliest_at,
            first_seen_at=at,
        )
        for begun in _bounded(rows, change)
    ]
    if begun_rows:
        PodDevice.objects.bulk_create(begun_rows, batch_size=200)
        _keep_latest(node, {row.pod_uid for row in begun_rows} - {""})


def _bounded(rows: Mapping[Key, PodDevice], change: Turn) -> list[Begun]:
    """What begins, as far as no Pod has more than it may."""
    had = Counter(row.pod_uid for key, row in rows.items() if key not in change.ended)
    found = []
    for begun in change.begun:
        had[begun.uid] += 1
        if not begun.uid or had[begun.uid] <= MOST_OF_POD:
            found.append(begun)
    return found


def _keep_latest(node: PodDeviceNode, uids: Collection[str]) -> None:
    """Drop what is oldest of what the node, and these Pods, have too much of."""
    sizes = node.devices.filter(pod_uid__in=uids).order_by().values_list("pod_uid")
    too_many = {uid: size - MOST_OF_POD for uid, size in sizes.annotate(size=Count("pk"))}
    for uid, number in [*too_many.items(), (None, node.devices.count() - MOST_KEPT)]:
        if number > 0:
            kept = node.devices.all() if uid is None else node.devices.filter(pod_uid=uid)
            ended = kept.exclude(last_seen_at=None).order_by("first_seen_at", "pk")
            PodDevice.objects.filter(pk__in=ended.values("pk")[:number]).delete()
