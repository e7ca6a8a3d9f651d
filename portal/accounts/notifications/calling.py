"""One HTTP request to a webhook: to the address that was checked, followed nowhere, within a deadline."""

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext_noop

from portal import tracing
from portal.accounts.notifications import signing, targets
from portal.accounts.notifications.texts import Text

USER_AGENT = "claimdesk-webhooks"
# For one step, and for the whole: who sends a byte at a time is not waited for.
STEP_SECONDS = 5.0
WHOLE_SECONDS = 15.0
# Of an answer only the status counts; this much of it is shown when it is a refusal.
READ_BYTES = 300


@dataclass(frozen=True)
class Answer:
    """What came of a call: `status` is None when nobody answered; `said` tells what went wrong."""

    status: int | None
    said: Text | None = None

    @property
    def arrived(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


def body_of(payload: Mapping[str, Any]) -> bytes:
    """The very bytes that are signed and sent."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def call(
    *,
    url: str,
    secret: str,
    message_id: str,
    payload: Mapping[str, Any],
    now: datetime,
    permitted: Collection[str],
    resolve: targets.Resolve = socket.getaddrinfo,
    whole_seconds: float = WHOLE_SECONDS,
) -> Answer:
    """POST the payload. Never raises for what the other side does."""
    until = time.monotonic() + whole_seconds
    try:
        target = _looked_up(
            url, permitted=permitted, resolve=resolve, seconds=min(STEP_SECONDS, whole_seconds)
        )
    except targets.UnableToReach as unable:
        return Answer(None, unable.said)
    body = body_of(payload)
    headers = {
        "Host": target.authority,
        "User-Agent": USER_AGENT,
        "Content-Type": "application/json",
        "Accept": "*/*",
        "Connection": "close",
        **signing.headers(secret=secret, message_id=message_id, now=now, body=body),
    }
    over = threading.Event()
    try:
        told = {"http.request.method": "POST", "server.address": target.host}
        with _connected(target, over, until) as connection, tracing.step("POST", **told):
            connection.request("POST", target.path, body=body, headers=headers)
            response = connection.getresponse()
            return _answer(response)
    except ssl.SSLError as error:
        reason = error.verify_message if isinstance(error, ssl.SSLCertVerificationError) else error.reason
        return Answer(None, _timed_out() if over.is_set() else _failed(reason or str(error)))
    except TimeoutError:
        return Answer(None, _timed_out())
    except (OSError, http.client.HTTPException) as error:
        return Answer(None, _timed_out() if over.is_set() else _failed(str(error) or type(error).__name__))


def _looked_up(
    url: str, *, permitted: Collection[str], resolve: targets.Resolve, seconds: float
) -> targets.Target:
    """`targets.look_up` within `seconds`: a name server that does not answer is not waited for. Raises
    UnableToReach."""
    found: list[targets.Target | Exception] = []

    def look() -> None:
        try:
            found.append(targets.look_up(url, permitted=permitted, resolve=resolve))
        except Exception as error:  # noqa: BLE001 - told to who waits for it, below
            found.append(error)

    # It is left behind when it takes too long; the system gives up on the name in the end.
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(seconds)
    if not found:
        raise targets.UnableToReach(_timed_out())
    if isinstance(found[0], Exception):
        raise found[0]
    return found[0]


@contextlib.contextmanager
def _connected(
    target: targets.Target, over: threading.Event, until: float
) -> Iterator[http.client.HTTPConnection]:
    """A connection to the address that was checked, under the name that was asked for. No proxy of the
    environment has a say."""
    plain = _dial(target, until)
    sock: socket.socket = plain
    if target.scheme == "https":
        context = ssl.create_default_context()
        sock = context.wrap_socket(plain, server_hostname=target.host, do_handshake_on_connect=False)

    def end() -> None:
        over.set()
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(max(0.0, until - time.monotonic()), end)
    timer.daemon = True
    timer.start()
    connection = http.client.HTTPConnection(target.host, target.port)
    connection.sock = sock
    try:
        if isinstance(sock, ssl.SSLSocket):
            sock.do_handshake()
        yield connection
    finally:
        timer.cancel()
        connection.close()
        sock.close()


def _dial(target: targets.Target, until: float) -> socket.socket:
    last: OSError = OSError("no address")
    for address in target.addresses[:2]:
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        try:
            return socket.create_connection((address, target.port), timeout=min(STEP_SECONDS, left))
        except OSError as error:
            last = error
    raise last


def _answer(response: http.client.HTTPResponse) -> Answer:
    if 200 <= response.status < 300:
        return Answer(response.status)
    if 300 <= response.status < 400:
        said = Text(
            gettext_noop("It answered %(status)s and leads elsewhere; the desk does not follow."),
            status=response.status,
        )
        return Answer(response.status, said)
    told = "".join(c if c.isprintable() else " " for c in response.read(READ_BYTES).decode(errors="replace"))
    return Answer(
        response.status,
        Text(gettext_noop("It answered %(status)s: %(told)s"), status=response.status, told=told.strip()),
    )


def _timed_out() -> Text:
    return Text(gettext_noop("It did not answer in time."))


def _failed(reason: str) -> Text:
    return Text(gettext_noop("The connection failed: %(reason)s"), reason=reason)
