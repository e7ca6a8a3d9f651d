"""What a line of the log belongs to: the request that is answered, or the task that runs.

A request has an id: the one that a proxy gave it (`X-Request-ID`), else one of our own; the answer carries
it. A task that is put into the queue while a request is answered remembers the request's id, so that one
search finds everything that a click did.
"""

import logging
import re
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from celery.signals import before_task_publish, task_postrun, task_prerun
from django.http import HttpRequest, HttpResponse
from django.utils.encoding import escape_uri_path
from django.utils.functional import SimpleLazyObject

HEADER = "X-Request-ID"
# A header of Celery's messages.
PASSED_ON = "claimdesk_request_id"
ANSWERED = logging.getLogger("portal.answered")

# What proxies give: UUIDs, ULIDs, trace ids. Anything else could forge lines of the log.
_PROPER = re.compile(r"[A-Za-z0-9._-]{8,64}", re.ASCII)
_ids: ContextVar[dict[str, str] | None] = ContextVar("work_ids", default=None)


def current() -> dict[str, str]:
    """The ids of what is being done: `request_id`, `task`, `task_id`, as far as there are any."""
    return dict(_ids.get() or {})


@contextmanager
def during(**ids: str) -> Iterator[None]:
    """Lines that are logged meanwhile carry these ids."""
    token = _ids.set(ids)
    try:
        yield
    finally:
        _ids.reset(token)


class RequestIdMiddleware:
    """Gives every request its id, and logs one line for each answer (level INFO)."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        given = request.headers.get(HEADER, "")
        request_id = given if _PROPER.fullmatch(given) else uuid.uuid4().hex
        begun = time.perf_counter()
        with during(request_id=request_id):
            response = self.get_response(request)
            if ANSWERED.isEnabledFor(logging.INFO):
                self._tell(request, response, seconds=time.perf_counter() - begun)
        response[HEADER] = request_id
        return response

    @staticmethod
    def _tell(request: HttpRequest, response: HttpResponse, *, seconds: float) -> None:
        match = request.resolver_match
        told = {
            "method": request.method,
            # Without its query: people type into that. Escaped: a line break would begin a line of its own.
            "path": escape_uri_path(request.path),
            "view": (match.view_name if match else "") or "none",
            "status": response.status_code,
            "milliseconds": round(seconds * 1000, 1),
            "person": _person(request),
        }
        words = (told[name] for name in ("method", "path", "status", "milliseconds"))
        ANSWERED.info("%s %s %s in %s ms", *words, extra={"told": told})


def _person(request: HttpRequest) -> int | None:
    """The key of who asked, without a look into the database for it."""
    user = request.__dict__.get("user")
    if isinstance(user, SimpleLazyObject):
        user = getattr(request, "_cached_user", None)
    return getattr(user, "pk", None)


# --- tasks ------------------------------------------------------------------------------------------

_tokens: dict[str, Any] = {}


@before_task_publish.connect
def _pass_on(headers: dict[str, Any] | None = None, **_: Any) -> None:
    if headers is not None and "request_id" in current():
        headers[PASSED_ON] = current()["request_id"]


@task_prerun.connect
def _task_begins(task_id: str, task: Any, **_: Any) -> None:
    ids = {"task": str(task.name), "task_id": task_id}
    # Where a message's headers are depends on how the task came: over the broker, or called in place.
    called_with = task.request.headers or {}
    passed_on = str(getattr(task.request, PASSED_ON, None) or called_with.get(PASSED_ON) or "")
    if _PROPER.fullmatch(passed_on):
        ids["request_id"] = passed_on
    _tokens[task_id] = _ids.set(ids)


@task_postrun.connect
def _task_ended(task_id: str, **_: Any) -> None:
    token = _tokens.pop(task_id, None)
    if token is not None:
        _ids.reset(token)
