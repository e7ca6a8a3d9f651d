"""Reads the environment, once, for `portal.settings`.

Every setting that an operator may change is an environment variable that starts with
``CLAIMDESK_`` (``DATABASE_URL`` and ``REDIS_URL`` keep the names that hosting platforms use).
What is not set falls back to files in the data directory, so that every command run by hand finds
the same secrets and the same broker as the processes of ``make demo``.
"""

import os
import secrets
import zoneinfo
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet
from environs import Env

BASE_DIR = Path(__file__).resolve().parent.parent

env = Env(expand_vars=False)


def data_dir() -> Path:
    """Where the embedded defaults keep their files (SQLite, Valkey, the embedded cluster, secrets)."""
    directory: Path = env.path("CLAIMDESK_DATA_DIR", BASE_DIR / "var")
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    return directory


def _kept_secret(name: str, make: Callable[[], str]) -> str:
    """The secret in the file `name` of the data directory, made on first use and readable by its owner only.

    Two processes that start together agree: the one that links its file first wins.
    """
    path = data_dir() / name
    if not path.exists():
        draft = path.with_name(f".{name}.{os.getpid()}")
        draft.touch(mode=0o600)
        draft.write_text(make())
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_text()


def secret_key() -> str:
    """``CLAIMDESK_SECRET_KEY``, else a random one kept in the data directory."""
    key: str = env.str("CLAIMDESK_SECRET_KEY", "")
    return key or _kept_secret("secret-key", lambda: secrets.token_urlsafe(50))


def credential_keys() -> list[str]:
    """Fernet keys that encrypt stored kubeconfigs, newest first (several allow rotation)."""
    keys: list[str] = env.list("CLAIMDESK_CREDENTIAL_KEYS", [])
    return keys or [_kept_secret("credential-key", lambda: Fernet.generate_key().decode())]


def redis_url() -> str:
    """``REDIS_URL``, else the address that the embedded Valkey left in the data directory."""
    left = data_dir() / "redis-url"
    return env.str("REDIS_URL", "") or (
        left.read_text().strip() if left.exists() else "redis://127.0.0.1:6379/0"
    )


def organisation_zone() -> str:
    """``CLAIMDESK_ORGANISATION_ZONE``, the name of an IANA time zone; UTC unless set."""
    name: str = env.str("CLAIMDESK_ORGANISATION_ZONE", "UTC")
    if name not in zoneinfo.available_timezones():
        raise ValueError(f"CLAIMDESK_ORGANISATION_ZONE is no IANA time zone (Europe/Berlin): {name!r}")
    return name


def class_review() -> str:
    """``CLAIMDESK_CLASS_REVIEW``: how changes of device classes are reviewed; not at all unless set."""
    rule: str = env.str("CLAIMDESK_CLASS_REVIEW", "none")
    if rule not in ("none", "proposal", "second"):
        raise ValueError(f"CLAIMDESK_CLASS_REVIEW is one of none, proposal and second: {rule!r}")
    return rule


def email() -> dict[str, Any]:
    """Django's settings of mail from ``CLAIMDESK_EMAIL_URL``; without it, mail goes to the console."""
    found: dict[str, Any] = env.dj_email_url("CLAIMDESK_EMAIL_URL", "console:")
    if "EMAIL_BACKEND" not in found:
        raise ValueError(
            "CLAIMDESK_EMAIL_URL has to start with submission:// (port 587 with STARTTLS) or smtp:// (with "
            "?ssl=True for TLS from the start), such as submission://user:password@mail.example.org"
        )
    return found


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
            "init_command": (
                "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
                # KiB; with the default of 2 MB, large transactions write their pages out again and again.
                " PRAGMA cache_size=-16000;"
            ),
        }
    else:
        config["CONN_MAX_AGE"] = 60
        config["CONN_HEALTH_CHECKS"] = True
    return config
