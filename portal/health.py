"""Whether this process lives, and whether it can serve: what load balancers and Kubernetes' probes ask.

Both answer before anything else looks at the request: a probe comes with the address of a Pod as its host,
over plain HTTP, and signs in as nobody. They name what is wrong and nothing that a stranger could use.
"""

from collections.abc import Callable
from functools import cache

from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations import Migration
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.http import HttpRequest, HttpResponse
from redis import Redis, RedisError

LIVE = "/healthz"
READY = "/readyz"
BROKER_SECONDS = 2


class HealthMiddleware:
    """Answers LIVE and READY; everything else goes on. Stands first."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info == LIVE:
            return _said({"process": ""})
        if request.path_info == READY:
            return _said(troubles(), fatal=("database", "migrations"))
        return self.get_response(request)


def troubles() -> dict[str, str]:
    """What the desk needs, each with what is wrong with it ("" = nothing)."""
    database = database_trouble()
    found = {"database": database}
    if not database:
        found["migrations"] = migrations_trouble()
    found["broker"] = broker_trouble(settings.REDIS_URL)
    return found


def database_trouble() -> str:
    """ "" when the database answers a query."""
    if not connection.in_atomic_block:
        # What is left of a connection that broke answers nothing; the next query opens another.
        connection.close_if_unusable_or_obsolete()
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
    except DatabaseError:
        return "unreachable"
    return ""


def migrations_trouble() -> str:
    """ "" when the schema is at least what this release needs. A newer one is fine: while a release is rolled
    out, processes of the old one serve over the schema of the new one."""
    try:
        applied = MigrationRecorder(connection).applied_migrations()
    except DatabaseError:
        return "unreadable"
    pending = [
        key
        for key, migration in _of_this_release().items()
        if key not in applied and not (migration.replaces and applied.keys() >= set(migration.replaces))
    ]
    return f"{len(pending)} not applied" if pending else ""


@cache
def _of_this_release() -> dict[tuple[str, str], Migration]:
    # Reading the modules takes longer than all else, and they do not change while a process runs.
    found: dict[tuple[str, str], Migration] = MigrationLoader(None).disk_migrations
    return found


def broker_trouble(url: str) -> str:
    """ "" when the broker answers. Pages can do without it; whatever is queued waits for its return."""
    try:
        with Redis.from_url(
            url, socket_connect_timeout=BROKER_SECONDS, socket_timeout=BROKER_SECONDS
        ) as broker:
            broker.ping()
    except (RedisError, OSError, ValueError):
        return "unreachable"
    return ""


def _said(found: dict[str, str], *, fatal: tuple[str, ...] = ()) -> HttpResponse:
    lines = "".join(f"{name}: {trouble or 'ok'}\n" for name, trouble in found.items())
    failed = any(found.get(name) for name in fatal)
    response = HttpResponse(lines, content_type="text/plain; charset=utf-8", status=503 if failed else 200)
    response["Cache-Control"] = "no-store"
    return response
