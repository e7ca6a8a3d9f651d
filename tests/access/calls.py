"""Makes the calls of the table, each in a savepoint of its own, and notes what came of them."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from django.core.cache import cache
from django.db import connection, transaction
from django.urls import reverse

from portal.accounts.models import AuditEntry
from tests.access.bodies import body_of
from tests.access.routes import Route
from tests.access.table import METHODS, ROLES, SCOPES, SIGN_IN, Row
from tests.access.world import World

HTMX = {"HX-Request": "true"}
# What is written about the call itself, not because of it.
OWN_ACCORD = ("django_session", '"last_used_at"')


@dataclass(frozen=True)
class Call:
    """One call as it was answered. `status` is as in the table; `writes` are the statements that changed
    something, `recorded` the actions of new audit entries."""

    row: Row
    who: str
    status: str
    headers: dict[str, str]
    text: str
    writes: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()

    @property
    def succeeded(self) -> bool:
        return self.status != SIGN_IN and int(self.status) < 400


def url_of(row: Row, world: World) -> str:
    """The row's address, with things of the world in the place of their names."""
    arguments = {name: world.things.get(value, value) for name, value in row.arguments.items()}
    return reverse(row.name, kwargs=arguments)


def by_role(row: Row, world: World, who: str, **headers: str) -> Call:
    """The call by somebody who has signed in with a browser, or by nobody."""
    return _call(row, world, who, cookie=True, headers=headers)


def by_token(row: Row, world: World, who: str, token: str) -> Call:
    """The call by a program with a token."""
    return _call(row, world, who, cookie=False, headers={"Authorization": f"Bearer {token}"})


def all_of(row: Row, world: World, *, is_api: bool) -> list[Call]:
    """The row's call by every role and, of REST, with every token."""
    calls = [by_role(row, world, role) for role in ROLES]
    if is_api:
        calls += [by_token(row, world, scope, world.tokens[scope]) for scope in SCOPES]
    return calls


def observed(row: Row, world: World, *, is_api: bool) -> Row:
    """The row as the portal answers it now: what to put into the table, once it is what is meant."""
    calls = all_of(row, world, is_api=is_api)
    recorded = next((call.recorded[-1] for call in calls if call.recorded), "– say why")
    return replace(
        row,
        expected={call.who: call.status for call in calls},
        records="" if row.method == "GET" else recorded,
    )


def draft(route: Route, method: str) -> Row:
    """A row for a call that has none, with the arguments that can be guessed."""
    usual = {"cluster": "berlin", "slug": "tides", "key": "live-request"}
    arguments = {name: usual.get(name, "?") for name in route.parameters}
    return Row(method, route.name, arguments, {}, "")


def exists(route: Route, row: Row, world: World) -> bool:
    """Whether the address knows the method at all, whoever calls."""
    if route.methods is not None:
        return row.method in route.methods
    if "?" in row.arguments.values():
        return row.method in ("GET", "POST")
    return by_role(row, world, "administrator").status != "405"


def _call(row: Row, world: World, who: str, *, cookie: bool, headers: dict[str, str]) -> Call:
    client = world.browser(who if cookie else "")
    body = body_of(str(row), world) if row.method != "GET" else {}
    sent: dict[str, Any] = {}
    if row.method == "POST" and not row.name.startswith("api-"):
        sent = {"data": body}
    elif row.method in METHODS[1:]:
        sent = {"data": json.dumps(body), "content_type": "application/json"}
    if row.method == "POST":
        # Attempts are counted there, and the table makes more of them than a person.
        cache.clear()
    world.answering.reset()
    with undone(), _noted() as written:
        last = AuditEntry.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        written.clear()
        response = getattr(client, row.method.lower())(url_of(row, world), headers=headers, **sent)
        text = b"".join(response) if response.streaming else response.content
        writes = tuple(written)
        recorded = AuditEntry.objects.filter(pk__gt=last).order_by("pk").values_list("action", flat=True)
        return Call(
            row=row,
            who=who,
            status=_status(response),
            headers=dict(response.headers),
            text=text.decode(errors="replace"),
            writes=writes,
            recorded=tuple(recorded),
        )


def _status(response: Any) -> str:
    if response.status_code == 302 and response["Location"].startswith("/accounts/login/"):
        return SIGN_IN
    return str(response.status_code)


@contextmanager
def undone() -> Iterator[None]:
    """Whatever happens within has not happened afterwards."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


@contextmanager
def _noted() -> Iterator[list[str]]:
    """The statements within that write."""
    written: list[str] = []

    def note(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if re.match(r"\s*(INSERT|UPDATE|DELETE|REPLACE|CREATE|DROP)\b", sql, re.IGNORECASE) and not any(
            word in sql for word in OWN_ACCORD
        ):
            written.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        yield written
