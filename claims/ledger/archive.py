"""Observations of closed periods, in hashed files instead of the database.

What is archived are whole objects: claims and Pods that were last heard of before a month, whose intervals
have ended by then. Whatever still runs stays, and comes with the month in which it is over. Of each object in
a file the database keeps that it is there (`ArchivedObject`), so that a late observation is folded together
with what is archived. What charts go through (claims that were deleted, devices, gaps) stays in the database.

A file is written beside its place, read back and compared, then put in its place and recorded with its
SHA-256; only then do rows go, in the same transaction. A file that is missing or is not what was recorded is
refused by name, and nothing is folded without it.
"""

import os
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.files.storage import storages
from django.db import transaction
from django.db.models import Exists, Max, OuterRef, Q, Sum

from claims.ledger import cursor, parquet
from claims.ledger.terms import ALLOCATED, EVENT_VALUES, KINDS, Event
from claims.models import Allocation
from inventory.models import ArchivedObject, Cluster, Observation, ObservationArchive
from inventory.models.observations import CHARTED

CHUNK = 500
# Objects of one file.
MOST_OBJECTS = 200_000
UNFINISHED = ".part"
# What leaves the database; the others are in the files as well.
REMOVED = tuple(kind for kind in KINDS if kind not in CHARTED)


class ArchiveDamaged(Exception):
    """A file of the archive cannot be relied on; `message` says which and what to do."""

    def __init__(self, archive: ObservationArchive, path: Path, reason: str) -> None:
        self.file_name, self.reason = archive.file_name, reason
        self.message = (
            f"{archive.file_name} of cluster {archive.cluster.name} {reason}. "
            f"Put the original back as {path} (SHA-256 {archive.sha256}); the ledger was left as it is."
        )
        super().__init__(self.message)


@dataclass(frozen=True)
class Written:
    """What one run of `archive` has moved into a file."""

    file: ObservationArchive
    removed: int


def directory() -> Path:
    """Where the files are: the place of the storage that is called "archive"."""
    return Path(storages["archive"].path(""))


# --- reading --------------------------------------------------------------------------------------------


def events(*, cluster: Cluster, uids: Sequence[str]) -> Iterator[Event]:
    """What is archived of these objects. Raises ArchiveDamaged."""
    held: dict[int, list[str]] = defaultdict(list)
    rows = ArchivedObject.objects.filter(archive__cluster=cluster, uid__in=uids)
    for pk, uid in rows.order_by("archive_id").values_list("archive_id", "uid"):
        held[pk].append(uid)
    files = ObservationArchive.objects.filter(pk__in=held) if held else ()
    for file in files:
        path = _sound(file)
        try:
            yield from parquet.events(path, held[file.pk])
        except (OSError, ValueError):
            # Changed since it was found right, and nobody told the file system: a disk that fails.
            _sound(file, anew=True)
            raise


def uids(*, cluster: Cluster, size: int) -> Iterator[list[str]]:
    """All archived objects, file by file in the order in which they lie there."""
    for archive in ObservationArchive.objects.filter(cluster=cluster).order_by("pk"):
        chunk: list[str] = []
        rows = ArchivedObject.objects.filter(archive=archive).order_by("uid").values_list("uid", flat=True)
        for uid in rows.iterator(chunk_size=10_000):
            chunk.append(uid)
            if len(chunk) == size:
                yield chunk
                chunk = []
        if chunk:
            yield chunk


def count(*, cluster: Cluster) -> int:
    """How many observations the files hold."""
    rows = ObservationArchive.objects.filter(cluster=cluster).aggregate(total=Sum("rows"))
    return int(rows["total"] or 0)


def verify(*, cluster: Cluster) -> int:
    """Compares every file of the cluster with what is recorded of it; how many there are. Raises
    ArchiveDamaged."""
    for fault in damaged(cluster=cluster):
        raise fault
    return ObservationArchive.objects.filter(cluster=cluster).count()


def damaged(*, cluster: Cluster) -> Iterator[ArchiveDamaged]:
    """What is wrong with each file of the cluster that is not as it was written."""
    files = ObservationArchive.objects.filter(cluster=cluster).select_related("cluster").order_by("pk")
    for archive in files:
        try:
            _sound(archive, anew=True)
        except ArchiveDamaged as fault:
            yield fault


def unrecorded(*, cluster: Cluster) -> list[Path]:
    """Files of the cluster that no record names: a run that was killed left them before it had recorded
    them, or the database is older than they are. Nothing is lost by them, and nothing reads them."""
    known = set(ObservationArchive.objects.filter(cluster=cluster).values_list("file_name", flat=True))
    there = sorted((directory() / _folder(cluster)).glob("*.parquet"))
    return [path for path in there if str(path.relative_to(directory())) not in known]


# Path, size and time of change of files whose hash was found right in this process.
_seen: set[tuple[str, int, int, str]] = set()


def _sound(archive: ObservationArchive, *, anew: bool = False) -> Path:
    path = directory() / archive.file_name
    try:
        stat = path.stat()
        known = (str(path), stat.st_size, stat.st_mtime_ns, archive.sha256)
        if known in _seen and not anew:
            return path
        found = parquet.sha256_of(path)
    except OSError as error:
        raise ArchiveDamaged(archive, path, f"cannot be read ({error.strerror})") from error
    if found != archive.sha256:
        raise ArchiveDamaged(archive, path, f"was changed: its SHA-256 is {found}")
    _seen.add(known)
    return path


# --- writing --------------------------------------------------------------------------------------------


def archive(*, cluster: Cluster, before: datetime, now: datetime) -> list[Written]:
    """Move what was over before `before` (the first instant of a month, UTC) into files, one per month and
    MOST_OBJECTS. Returns what was written; nothing is half-done."""
    if (before.day, before.hour, before.minute, before.second, before.microsecond) != (1, 0, 0, 0, 0):
        raise ValueError("a month begins at its first instant")
    written: list[Written] = []
    for month in _months(cluster, before):
        while (made := _archive_part(cluster, before=before, month=month, now=now)) is not None:
            written.append(made)
    return written


def _ready(cluster: Cluster, before: datetime, folded: int) -> Any:
    """Objects with something to archive, that are over: when each was last heard of."""
    lasting = Allocation.objects.filter(Q(ended_at=None) | Q(ended_at__gte=before), cluster=cluster)
    running = lasting.filter(claim_uid=OuterRef("uid"))
    newer = Observation.objects.filter(cluster=cluster, uid=OuterRef("uid"), kind__in=KINDS).filter(
        Q(observed_at__gte=before) | Q(id__gt=folded)
    )
    return (
        Observation.objects.filter(cluster=cluster, kind__in=REMOVED, observed_at__lt=before)
        .exclude(Exists(newer))
        .exclude(Exists(running))
        .order_by()
        .values("uid")
        .annotate(last=Max("observed_at"))
    )


def _months(cluster: Cluster, before: datetime) -> list[str]:
    with transaction.atomic():
        folded = cursor.locked(cluster).observation_id
        lasts = _ready(cluster, before, folded).values_list("last", flat=True)
        return sorted({_month(last) for last in lasts.iterator()})


def _month(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m}"


def _archive_part(cluster: Cluster, *, before: datetime, month: str, now: datetime) -> Written | None:
    with transaction.atomic():
        # Nobody folds meanwhile, and all that was observed of these objects is folded.
        folded = cursor.locked(cluster).observation_id
        ready = _ready(cluster, before, folded).values_list("uid", "last")
        of_month = sorted(uid for uid, last in ready.iterator() if _month(last) == month)[:MOST_OBJECTS]
        if not of_month:
            return None
        part = ObservationArchive.objects.filter(cluster=cluster, month=month).count() + 1
        folder = _prepared(directory() / _folder(cluster))
        temporary = folder / f".{month}-{uuid.uuid4().hex}{UNFINISHED}"
        epochs: dict[str, int] = {}
        writer = parquet.Writer(temporary, cluster=cluster.name, month=month)
        try:
            for start in range(0, len(of_month), CHUNK):
                writer.write(_rows(cluster, of_month[start : start + CHUNK], epochs))
            parquet.compare(temporary, writer.rows, writer.close())
            sha256 = parquet.sha256_of(temporary)
            path = folder / f"observations-{month}-{part:03}-{sha256[:12]}.parquet"
            os.replace(temporary, path)
            _sync(folder)
        except BaseException:
            writer.abandon()
            raise
        file = ObservationArchive.objects.create(
            cluster=cluster,
            month=month,
            part=part,
            file_name=str(path.relative_to(directory())),
            size=path.stat().st_size,
            sha256=sha256,
            rows=writer.rows,
            objects_count=len(of_month),
            schema=parquet.SCHEMA_VERSION,
            written_at=now,
        )
        ArchivedObject.objects.bulk_create(
            [ArchivedObject(archive=file, uid=uid, epoch=epochs.get(uid, 0)) for uid in of_month],
            batch_size=1_000,
        )
        return Written(file, _remove(cluster, of_month))


def _prepared(folder: Path) -> Path:
    """The folder, for certain there, without what a run that was killed had begun: nobody else writes
    there."""
    if not folder.is_dir():
        folder.mkdir(parents=True)
        _sync(folder.parent)
    for begun in folder.glob(f".*{UNFINISHED}"):
        begun.unlink(missing_ok=True)
    return folder


def _folder(cluster: Cluster) -> str:
    # Names of clusters may change, and need not be fit for a file system.
    return f"cluster-{cluster.pk}"


def _rows(cluster: Cluster, chunk: Sequence[str], epochs: dict[str, int]) -> Iterator[parquet.Row]:
    rows = Observation.objects.filter(cluster=cluster, uid__in=chunk, kind__in=KINDS)
    kind, uid, facts = (EVENT_VALUES.index(name) for name in ("kind", "uid", "facts"))
    # In the order of bytes, as the file is searched; databases may have another.
    for row in sorted(rows.values_list(*EVENT_VALUES), key=lambda row: (row[uid], row[0])):
        if row[kind] == ALLOCATED:
            epochs[row[uid]] = max(int(row[facts].get("epoch", 0)), epochs.get(row[uid], 0))
        yield row


def _remove(cluster: Cluster, archived: Sequence[str]) -> int:
    removed = 0
    for start in range(0, len(archived), CHUNK):
        some = archived[start : start + CHUNK]
        rows = Observation.objects.filter(cluster=cluster, uid__in=some, kind__in=REMOVED)
        removed += rows._raw_delete(rows.db)
    return removed


def _sync(folder: Path) -> None:
    """So that the file's name outlives a crash, too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
