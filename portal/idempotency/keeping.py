"""The header `Idempotency-Key` (draft-ietf-httpapi-idempotency-key-header-07): one effect per key.

A key belongs to a person and an endpoint, and holds for 24 hours. Sent again with the same body it gets the
same answer, after a short wait if the first attempt still runs; 409 if that takes longer; with another body,
422.

A crash leaves no effect without its answer: the answer is written in the transaction of the effect. What an
attempt that died has left behind is a reservation without an answer, which proves that there was no effect;
the next attempt takes it over. Only what was done is kept: an attempt that was refused did nothing, and its
key is free again.
"""

import hashlib
import json
import re
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _
from rest_framework import exceptions, status
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from portal.accounts.models import User
from portal.idempotency.models import KeptAnswer

HEADER = "Idempotency-Key"
# Tells a client that it was answered before.
REPLAYED = "Idempotency-Replayed"
LIFETIME = timedelta(hours=24)
# Who sends the same twice at once waits so long for the first answer, and looks so often.
WAIT = timedelta(seconds=10)
LOOK = timedelta(milliseconds=100)
# No attempt lasts so long: a call of a cluster has a timeout of seconds, and few are made.
GIVEN_UP_AFTER = timedelta(minutes=5)

# A Structured Field String (RFC 9651); many clients send the bare characters.
_QUOTED = re.compile(r'"((?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*)"')
_BARE = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")


class KeyProblem(exceptions.APIException):
    """The key cannot be used; `code` is stable."""

    def __init__(self, message: str, *, code: str, status_code: int, wait: int | None = None) -> None:
        super().__init__(message, code)
        self.status_code = status_code
        if wait is not None:
            self.wait = wait


class Superseded(KeyProblem):
    """The attempt was given up for dead, and another one took over."""

    def __init__(self) -> None:
        super().__init__(
            _("Another attempt with this key took over."),
            code="idempotency_key_in_use",
            status_code=status.HTTP_409_CONFLICT,
        )


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """The right to do something under a key."""

    pk: int
    owner: uuid.UUID

    def keep(self, response: Response) -> None:
        """Write down what is answered; inside the transaction of the effect. Raises Superseded (so that the
        effect is undone) when another attempt has taken over meanwhile."""
        secret = "no-store" in str(response.headers.get("Cache-Control", ""))
        body = "" if secret or response.data is None else JSONRenderer().render(response.data).decode()
        kept = KeptAnswer.objects.filter(pk=self.pk, owner=self.owner, status=None).update(
            status=response.status_code, body=body, secret=secret
        )
        if not kept:
            raise Superseded

    @property
    def kept(self) -> bool:
        """Whether the answer was written down already."""
        return KeptAnswer.objects.filter(pk=self.pk, owner=self.owner, status__isnull=False).exists()

    def give_up(self) -> None:
        """Nothing was done: the key is free again."""
        KeptAnswer.objects.filter(pk=self.pk, owner=self.owner, status=None).delete()


def once(
    *,
    request: Request,
    person: User,
    act: Callable[[Attempt | None], Response],
    whole: bool,
    now: datetime | None = None,
) -> Response:
    """Do `act` at most once for the key that the request carries; without one, just do it.

    `whole`: the act only writes to the database and runs in one transaction with its record. Else it opens
    its own transaction and calls `Attempt.keep` there.
    """
    key = read_key(request.headers.get(HEADER))
    if key is None:
        return act(None)
    now = now or timezone.now()
    found = _reserve(person=person, endpoint=_endpoint(request), key=key, request=request, now=now)
    # Nothing is held meanwhile: this is outside of any transaction.
    until = time.monotonic() + WAIT.total_seconds()
    while found is None:
        if time.monotonic() >= until or transaction.get_connection().in_atomic_block:
            raise _running()
        pause(LOOK)
        found = _reserve(person=person, endpoint=_endpoint(request), key=key, request=request, now=now)
    if isinstance(found, Response):
        return found
    try:
        return _within(found, act, whole=whole)
    except BaseException:
        found.give_up()
        raise


def pause(span: timedelta) -> None:
    """Wait before the next look at an attempt that runs."""
    time.sleep(span.total_seconds())


def _within(attempt: Attempt, act: Callable[[Attempt | None], Response], *, whole: bool) -> Response:
    if whole:
        with transaction.atomic():
            response = act(attempt)
            if status.is_success(response.status_code):
                attempt.keep(response)
    else:
        response = act(attempt)
        if status.is_success(response.status_code) and not attempt.kept:
            # What is harmless when repeated needs no transaction around both.
            attempt.keep(response)
    if not status.is_success(response.status_code):
        attempt.give_up()
    return response


def read_key(header: str | None) -> str | None:
    """The key of a header; None without one. Raises KeyProblem when it is none."""
    if header is None:
        return None
    text = header.strip()
    quoted = _QUOTED.fullmatch(text)
    key = re.sub(r"\\(.)", r"\1", quoted.group(1)) if quoted else text
    if not key or len(key) > 255 or not (quoted or _BARE.fullmatch(text)):
        raise KeyProblem(
            _("The Idempotency-Key is a text of 1 to 255 visible ASCII characters, best a UUID in quotes."),
            code="idempotency_key_invalid",
            status_code=status.HTTP_400_BAD_REQUEST,
        )
    return key


def prune(*, now: datetime) -> int:
    """Forget keys that no longer hold. Returns how many."""
    return KeptAnswer.objects.filter(created_at__lte=now - LIFETIME).delete()[0]


def fingerprint(request: Request) -> str:
    """What was asked, whatever the order of its members and the blanks between them."""
    asked = [request.META.get("QUERY_STRING", ""), request.data]
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def _endpoint(request: Request) -> str:
    path = request.path
    if len(path) > 380:
        path = hashlib.sha256(path.encode()).hexdigest()
    return f"{request.method} {path}"


def _reserve(
    *, person: User, endpoint: str, key: str, request: Request, now: datetime
) -> "Attempt | Response | None":
    """The right to begin, or the answer that was given; None while another attempt runs. Raises
    KeyProblem."""
    asked = fingerprint(request)
    named = {"person": person, "endpoint": endpoint, "key": key}
    KeptAnswer.objects.filter(**named, created_at__lte=now - LIFETIME).delete()
    owner = uuid.uuid4()
    try:
        with transaction.atomic():
            made = KeptAnswer.objects.create(
                **named, fingerprint=asked, owner=owner, created_at=now, started_at=now
            )
    except IntegrityError:
        earlier = KeptAnswer.objects.filter(**named).first()
    else:
        return Attempt(pk=made.pk, owner=owner)
    if earlier is None:
        # Given up between our two looks.
        return None
    if earlier.fingerprint != asked:
        raise KeyProblem(
            _("This Idempotency-Key was used for something else; choose a new one."),
            code="idempotency_key_reused",
            status_code=status.HTTP_422_UNPROCESSABLE_ENTITY,
        )
    if earlier.status is not None:
        return _again(earlier)
    stale = KeptAnswer.objects.filter(
        pk=earlier.pk, owner=earlier.owner, status=None, started_at__lte=now - GIVEN_UP_AFTER
    )
    if stale.update(owner=owner, started_at=now):
        return Attempt(pk=earlier.pk, owner=owner)
    return None


def _running() -> KeyProblem:
    return KeyProblem(
        _("A request with this Idempotency-Key is still being worked on; ask again in a moment."),
        code="idempotency_key_in_use",
        status_code=status.HTTP_409_CONFLICT,
        wait=1,
    )


def _again(earlier: KeptAnswer) -> Response:
    if earlier.secret:
        raise KeyProblem(
            _("This was done. Its answer held a secret, which is told once and was not kept."),
            code="idempotency_answer_secret",
            status_code=status.HTTP_409_CONFLICT,
        )
    data: Any = json.loads(earlier.body) if earlier.body else None
    return Response(data, status=earlier.status, headers={REPLAYED: "true"})
