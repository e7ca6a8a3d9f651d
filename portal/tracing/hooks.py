"""Where spans come from besides requests and tasks: questions to the database and calls over HTTP.

Imported, and attached, only in a process that makes spans.
"""

import re
from collections.abc import Callable
from typing import Any

import urllib3
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from portal import tracing

_OPERATION = re.compile(
    r"\s*(?:WITH\b.*?\b)?(SELECT|INSERT|UPDATE|DELETE|SAVEPOINT|RELEASE|ROLLBACK|COPY)\b", re.S
)
_TABLE = re.compile(r'\b(?:FROM|INTO|UPDATE)\s+"?([a-z_][a-z0-9_]*)"?', re.IGNORECASE)
# What Django calls them, and what OpenTelemetry does.
SYSTEMS = {"postgresql": "postgresql", "sqlite": "sqlite"}
_urlopen = urllib3.connectionpool.HTTPConnectionPool.urlopen


def attach() -> None:
    """From now on, in this process."""
    connection_created.connect(_wrap, dispatch_uid="portal.tracing")
    for connection in connections.all(initialized_only=True):
        _wrap(connection=connection)
    urllib3.connectionpool.HTTPConnectionPool.urlopen = _traced_urlopen  # type: ignore[method-assign,assignment] # as instrumentation does


def detach() -> None:
    connection_created.disconnect(dispatch_uid="portal.tracing")
    for connection in connections.all(initialized_only=True):
        if _ask in connection.execute_wrappers:
            connection.execute_wrappers.remove(_ask)
    urllib3.connectionpool.HTTPConnectionPool.urlopen = _urlopen  # type: ignore[method-assign] # as it was


def _wrap(*, connection: BaseDatabaseWrapper, **_: Any) -> None:
    if _ask not in connection.execute_wrappers:
        connection.execute_wrappers.append(_ask)


def _ask(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: dict[str, Any]) -> Any:  # noqa: FBT001 - Django's signature
    """One statement. Its text is not told: what is built into it by hand may be what somebody typed."""
    if not tracing.has_parent():
        return execute(sql, params, many, context)
    operation, table = _OPERATION.match(sql), _TABLE.search(sql)
    words = [operation[1] if operation else "statement", *([table[1]] if table else [])]
    told = {"db.system.name": SYSTEMS.get(context["connection"].vendor, "other_sql")}
    if operation:
        told["db.operation.name"] = operation[1]
    if table:
        told["db.collection.name"] = table[1]
    with tracing.step(" ".join(words), **told):
        return execute(sql, params, many, context)


def _traced_urlopen(pool: Any, method: str, url: str, *rest: Any, **more: Any) -> Any:
    """A call to a cluster or to an identity provider. Its path may name anything, and is not told."""
    told = {"http.request.method": method, "server.address": pool.host}
    if pool.port:
        told["server.port"] = pool.port
    with tracing.step(method, **told) as span:
        response = _urlopen(pool, method, url, *rest, **more)
        if span is not None:
            span.set_attribute("http.response.status_code", response.status)
            if response.status >= 400:
                tracing.failed(span, str(response.status))
        return response
