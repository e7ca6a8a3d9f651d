"""Database, schema, broker, workers, and the files that pages are made of."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from celery import current_app
from django.conf import settings
from django.contrib.staticfiles.storage import staticfiles_storage
from django.db import connection
from redis import Redis, RedisError

from portal import health
from portal.pages.doctor.results import Result, bad, good, unknown, warning

OLDEST_POSTGRESQL = 15
CLOCKS_APART = timedelta(seconds=5)
ANSWERS_WITHIN = 2.0


def service_checks(*, now: datetime, queues: tuple[str, ...]) -> Iterator[Result]:
    """What runs beside the process that asks."""
    trouble = health.database_trouble()
    if trouble:
        yield bad(
            "database",
            f"It does not answer: {_address_of_database()}.",
            "Is it running, and do DATABASE_URL and the network lead to it?",
        )
        yield unknown("schema", "It cannot be looked at without the database.")
    else:
        yield from _database(now=now)
        yield _schema()
    broker = health.broker_trouble(settings.REDIS_URL)
    if broker:
        yield bad(
            "broker",
            "Valkey or Redis does not answer: nothing is followed, created or sent.",
            "Is it running, and does REDIS_URL lead to it?",
        )
        yield unknown("workers", "They cannot be asked without the broker.")
    else:
        yield _broker()
        yield from _workers(queues)
    yield _files()


def _address_of_database() -> str:
    found = connection.settings_dict
    return f"{found.get('HOST') or 'this machine'}, {found.get('NAME')}"


def _database(*, now: datetime) -> Iterator[Result]:
    if connection.vendor != "postgresql":
        yield warning(
            "database",
            "SQLite: good for one machine, one web server and a few clusters.",
            "Set DATABASE_URL=postgresql://… for more.",
        )
        return
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('server_version_num')::int / 10000, clock_timestamp()")
        version, clock = cursor.fetchone()
    if version < OLDEST_POSTGRESQL:
        yield bad(
            "database",
            f"PostgreSQL {version} is older than what the desk is tested with.",
            f"Upgrade it to {OLDEST_POSTGRESQL} or newer.",
        )
    else:
        yield good("database", f"PostgreSQL {version}.")
    if abs(clock - now) > CLOCKS_APART:
        yield bad(
            "clock",
            f"This machine and the database are {abs(clock - now).total_seconds():.0f} s apart.",
            "Let both follow the same time server: history and bills are made of these times.",
        )
    else:
        yield good("clock", "This machine and the database agree.")


def _schema() -> Result:
    trouble = health.migrations_trouble()
    if trouble:
        return bad(
            "schema",
            f"Older than this release: migrations {trouble}.",
            "Run: python manage.py migrate",
        )
    return good("schema", "As this release needs it.")


def _broker() -> Result:
    try:
        with Redis.from_url(settings.REDIS_URL, socket_timeout=ANSWERS_WITHIN) as broker:
            told = broker.config_get("maxmemory-policy")
    except (RedisError, OSError):
        # Services in a cloud do not tell their configuration.
        return good("broker", "It answers.")
    policy = told.get("maxmemory-policy", "") if isinstance(told, dict) else ""
    if policy not in ("", "noeviction"):
        return warning(
            "broker",
            f"Under pressure it throws away what is queued (maxmemory-policy {policy}).",
            "Set its maxmemory-policy to noeviction.",
        )
    return good("broker", "It answers, and keeps what is queued.")


def _workers(queues: tuple[str, ...]) -> Iterator[Result]:
    try:
        told = current_app.control.inspect(timeout=ANSWERS_WITHIN).active_queues() or {}
    except (RedisError, OSError):
        yield unknown("workers", "They could not be asked.")
        return
    serving = {queue["name"] for of_worker in told.values() for queue in of_worker}
    for name in queues:
        if name in serving:
            yield good(f"workers of “{name}”", "At least one answers.")
        else:
            yield bad(
                f"workers of “{name}”",
                "None answers.",
                f"Run: celery -A portal.celery worker --pool threads --queues {name}",
            )


def _files() -> Result:
    try:
        staticfiles_storage.url("tabler/css/tabler.min.css")
    except ValueError:
        return bad(
            "static files",
            "They are not collected: pages have no style.",
            "Run: python -m portal.translations compile && python manage.py collectstatic --noinput",
        )
    return good("static files", "They are collected.")
