"""Files of archived observations: Apache Parquet, sorted by uid, told by their SHA-256. No database here.

Schema 1, a row per observation, all columns required:

========================  ===========================================================================
key                       string; natural key of the observation within its cluster
kind, source              string; as in `inventory.models.Observation`
at, observed_at           timestamp[us, tz=UTC]
uncertainty_us            int64
namespace, name, uid      string; of the object
facts                     string; JSON with sorted keys
========================  ===========================================================================

The file's own metadata names the schema (``claimdesk.schema``), the cluster and the month.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from claims.ledger.terms import EVENT_VALUES, Event

SCHEMA_VERSION = 1
# Rows of one group: what is read at least to find a few objects.
GROUP = 20_000
_TIME = pa.timestamp("us", tz="UTC")
_TYPES = {"at": _TIME, "observed_at": _TIME, "uncertainty_us": pa.int64()}
_FIELDS = [pa.field(name, _TYPES.get(name, pa.string()), nullable=False) for name in EVENT_VALUES]
_json = msgspec.json.Encoder(order="sorted")

# Values in the order of EVENT_VALUES, with `facts` as they are.
Row = Sequence[Any]


class Writer:
    """Writes rows, which come sorted by uid, to a file that nobody else sees yet."""

    def __init__(self, path: Path, *, cluster: str, month: str) -> None:
        self.path = path
        self.rows = 0
        self._digest = hashlib.sha256()
        self._waiting: list[list[Any]] = []
        metadata = {
            "claimdesk.schema": str(SCHEMA_VERSION),
            "claimdesk.cluster": cluster,
            "claimdesk.month": month,
        }
        self._schema = pa.schema(_FIELDS, metadata=metadata)
        self._writer = pq.ParquetWriter(path, self._schema, compression="zstd")

    def write(self, rows: Iterable[Row]) -> None:
        for row in rows:
            told = [*row[:-1], _json.encode(row[-1]).decode()]
            self._waiting.append(told)
            _digest(self._digest, told)
            self.rows += 1
            if len(self._waiting) >= GROUP:
                self._flush()

    def close(self) -> str:
        """Brings everything to the disk; gives a digest of the rows, for `compare`."""
        self._flush()
        self._writer.close()
        with self.path.open("rb") as stream:
            os.fsync(stream.fileno())
        return self._digest.hexdigest()

    def abandon(self) -> None:
        """Leaves nothing behind."""
        self._writer.close()
        self.path.unlink(missing_ok=True)

    def _flush(self) -> None:
        if self._waiting:
            columns = [list(column) for column in zip(*self._waiting, strict=True)]
            self._writer.write_table(pa.table(columns, schema=self._schema))
            self._waiting.clear()


def compare(path: Path, rows: int, digest: str) -> None:
    """Reads the file back: raises OSError unless it holds just what was written."""
    found, number = hashlib.sha256(), 0
    for told in _rows(path):
        _digest(found, told)
        number += 1
    if (number, found.hexdigest()) != (rows, digest):
        raise OSError(f"{path} does not read back as it was written")


def sha256_of(path: Path) -> str:
    """Of the file as it lies there."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def events(path: Path, uids: Sequence[str]) -> Iterator[Event]:
    """The observations of some objects; reads only the groups that they can be in."""
    wanted, first, last = set(uids), min(uids), max(uids)
    column = EVENT_VALUES.index("uid")
    with pq.ParquetFile(path) as file:
        groups = [
            number
            for number in range(file.num_row_groups)
            if _may_hold(file.metadata.row_group(number).column(column).statistics, first, last)
        ]
        for batch in file.iter_batches(batch_size=GROUP, row_groups=groups) if groups else ():
            columns = [batch.column(name) for name in EVENT_VALUES]
            found = [number for number, uid in enumerate(columns[column].to_pylist()) if uid in wanted]
            if not found:
                continue
            for told in zip(*(values.take(found).to_pylist() for values in columns), strict=True):
                values = dict(zip(EVENT_VALUES, told, strict=True))
                yield Event(**values | {"facts": msgspec.json.decode(values["facts"])})


def _may_hold(statistics: Any, first: str, last: str) -> bool:
    if statistics is None or not statistics.has_min_max:
        return True
    return bool(statistics.min <= last and statistics.max >= first)


def _rows(path: Path) -> Iterator[list[Any]]:
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=GROUP):
            columns = (batch.column(name).to_pylist() for name in EVENT_VALUES)
            yield from (list(told) for told in zip(*columns, strict=True))


def _digest(digest: Any, told: Sequence[Any]) -> None:
    for value in told:
        # Times are UTC on both sides.
        text = value.isoformat() if isinstance(value, datetime) else str(value)
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
