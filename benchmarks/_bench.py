"""What the benchmarks share: a database of their own, clocks for work and for waiting, and plain tables."""

import os
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from urllib.parse import urlsplit

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def desk() -> Iterator[str]:
    """Django on an empty database that is gone afterwards: SQLite in a temporary directory, or a new one on
    the PostgreSQL server that DATABASE_URL names (``python -m tests.postgres`` starts one). Yields the
    directory."""
    with tempfile.TemporaryDirectory(prefix="claimdesk-bench-") as directory, _database():
        os.environ.setdefault("CLAIMDESK_SECRET_KEY", "only for benchmarks")
        os.environ["CLAIMDESK_DATA_DIR"] = directory
        os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings"
        sys.path.insert(0, str(ROOT))
        import django

        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        yield directory


@contextmanager
def _database() -> Iterator[None]:
    """Has DATABASE_URL name a database that nobody else uses."""
    server = os.environ.get("DATABASE_URL", "")
    if not server.startswith("postgres"):
        yield
        return
    import psycopg
    from psycopg import sql

    name = f"claimdesk_bench_{os.getpid()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        os.environ["DATABASE_URL"] = urlsplit(server)._replace(path=f"/{name}").geturl()
        try:
            yield
        finally:
            os.environ["DATABASE_URL"] = server
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


@dataclass
class Clock:
    """Seconds that passed, and seconds of processor time that this process took of them."""

    wall: float = 0.0
    cpu: float = 0.0

    def __str__(self) -> str:
        return f"{self.wall:8.2f} s ({self.cpu:.2f} s of our processor time)"


@contextmanager
def clock() -> Iterator[Clock]:
    """Measures its block."""
    measured = Clock()
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        yield measured
    finally:
        measured.wall = time.perf_counter() - wall
        measured.cpu = time.process_time() - cpu


@contextmanager
def profiled(*, wanted: bool) -> Iterator[None]:
    """Prints where the time of its block goes, if asked to. Only of this thread; and it makes it slower."""
    if not wanted:
        yield
        return
    import cProfile
    import pstats

    with cProfile.Profile() as profiler:
        yield
    pstats.Stats(profiler).sort_stats("cumulative").print_stats(60)


def percentile(values: Sequence[float], percent: int) -> float:
    """A percentile of at least two measured values."""
    return quantiles(values, n=100, method="inclusive")[percent - 1]


def peak_mib() -> float:
    """The most memory that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def memory_mib() -> float:
    """The memory that this process holds now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() / 2**20


def load() -> str:
    """How busy the machine is with everything that runs on it."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
