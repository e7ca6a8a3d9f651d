"""Objects on disk: one SQLite file in WAL mode, written in the same step as memory.

Every acknowledged write has been handed to the operating system, so it survives Ctrl-C and ``kill -9`` of the
process. ``synchronous=NORMAL``: after a power failure the file is consistent but may lack the last writes.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Protocol

_SCHEMA = """
create table if not exists object (
    resource text not null, namespace text not null, name text not null, raw blob not null,
    primary key (resource, namespace, name)
);
create table if not exists setting (name text primary key, value text not null);
"""


class DataInUse(Exception):
    """The data directory is held by another server."""


class Journal(Protocol):
    """Where a store keeps its objects between runs."""

    def objects(self) -> Iterator[tuple[str, str, str, bytes]]:
        """All kept objects: resource, namespace, name, JSON."""

    def write(
        self,
        revision: int,
        puts: Iterable[tuple[str, str, str, bytes]],
        deletes: Iterable[tuple[str, str, str]],
    ) -> None:
        """Keep one step of changes wholly or not at all."""

    def together(self) -> AbstractContextManager[None]:
        """Make all steps inside one: after a crash, all of them are kept or none."""

    def setting(self, name: str, default: str = "") -> str:
        """A kept value by name."""

    def set_setting(self, name: str, value: str) -> None:
        """Keep a value by name."""

    def close(self) -> None:
        """Let go of the data."""


class NoJournal:
    """For a cluster that is forgotten when the process ends."""

    def __init__(self) -> None:
        self._settings: dict[str, str] = {}

    def objects(self) -> Iterator[tuple[str, str, str, bytes]]:
        return iter(())

    def write(
        self,
        revision: int,
        puts: Iterable[tuple[str, str, str, bytes]],
        deletes: Iterable[tuple[str, str, str]],
    ) -> None:
        """Nothing is kept."""

    def together(self) -> AbstractContextManager[None]:
        return nullcontext()

    def setting(self, name: str, default: str = "") -> str:
        return self._settings.get(name, default)

    def set_setting(self, name: str, value: str) -> None:
        self._settings[name] = value

    def close(self) -> None:
        """Nothing is held."""


class SqliteJournal:
    """Keeps the objects in ``directory/cluster.sqlite3``."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)  # tokens are in there
        self._db = sqlite3.connect(directory / "cluster.sqlite3", isolation_level=None, timeout=0.5)
        try:
            self._db.execute("pragma locking_mode = exclusive")
            self._db.execute("pragma journal_mode = wal")
            self._db.execute("pragma synchronous = normal")
            self._db.executescript(_SCHEMA)
            self._db.execute("begin exclusive")
            self._db.execute("commit")
        except sqlite3.OperationalError as error:
            self._db.close()
            if "locked" in str(error):
                raise DataInUse(f"another embedded cluster is using {directory}") from error
            raise

    def objects(self) -> Iterator[tuple[str, str, str, bytes]]:
        yield from self._db.execute("select resource, namespace, name, raw from object")

    def write(
        self,
        revision: int,
        puts: Iterable[tuple[str, str, str, bytes]],
        deletes: Iterable[tuple[str, str, str]],
    ) -> None:
        with self.together():
            self._db.executemany("insert or replace into object values (?, ?, ?, ?)", puts)
            self._db.executemany(
                "delete from object where resource = ? and namespace = ? and name = ?", deletes
            )
            self.set_setting("revision", str(revision))

    @contextmanager
    def together(self) -> Iterator[None]:
        if self._db.in_transaction:
            yield
            return
        self._db.execute("begin")
        try:
            yield
            self._db.execute("commit")
        except BaseException:
            self._db.execute("rollback")
            raise

    def setting(self, name: str, default: str = "") -> str:
        row = self._db.execute("select value from setting where name = ?", (name,)).fetchone()
        return str(row[0]) if row else default

    def set_setting(self, name: str, value: str) -> None:
        self._db.execute("insert or replace into setting values (?, ?)", (name, value))

    def close(self) -> None:
        self._db.close()
