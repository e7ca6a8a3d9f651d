"""Reads the environment, once, for `portal.settings`.

Every setting that an operator may change is an environment variable that starts with
``CLAIMDESK_`` (``DATABASE_URL`` and ``REDIS_URL`` keep the names that hosting platforms use).
"""

from pathlib import Path

from environs import Env

BASE_DIR = Path(__file__).resolve().parent.parent

env = Env(expand_vars=False)


def data_dir() -> Path:
    """Where the embedded defaults keep their files (SQLite, Valkey, the embedded cluster)."""
    return env.path("CLAIMDESK_DATA_DIR", BASE_DIR / "var")


def database() -> dict[str, object]:
    """The ``default`` database: ``DATABASE_URL``, else SQLite in WAL mode in the data directory."""
    config: dict[str, object] = dict(
        env.dj_db_url("DATABASE_URL", f"sqlite:///{data_dir() / 'claimdesk.sqlite3'}")
    )
    if config["ENGINE"] == "django.db.backends.sqlite3":
        config["OPTIONS"] = {
            # Writers queue for the lock at BEGIN instead of failing in mid-transaction.
            "transaction_mode": "IMMEDIATE",
            "timeout": 30,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        }
    else:
        config["CONN_MAX_AGE"] = 60
        config["CONN_HEALTH_CHECKS"] = True
    return config
