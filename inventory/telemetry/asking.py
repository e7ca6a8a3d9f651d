"""One question to a Prometheus: at the address that was given and nowhere else, within bounds of time and
size. No proxy of the environment has a say, no redirect is followed, no cookie is kept."""

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Any
from urllib.parse import urlencode, urlsplit

import urllib3

from inventory.telemetry import answers, problems

CONNECT_SECONDS = 5.0
# For one answer, however slowly it drips; Prometheus is told to give up a little before.
WHOLE_SECONDS = 15.0
MEGABYTES = 32
CHUNK = 1 << 16
USER_AGENT = "claimdesk-metrics"


@dataclass(frozen=True)
class Address:
    """Where to ask, and as whom. `token` "" = as nobody; `ca` "" = whom this machine trusts."""

    url: str
    token: str = field(default="", repr=False)
    ca: str = ""


class Prometheus:
    """To be closed after use. Every call raises nothing but `problems.UnableToAsk`."""

    def __init__(
        self, address: Address, *, whole_seconds: float = WHOLE_SECONDS, megabytes: int = MEGABYTES
    ) -> None:
        self._address, self._whole, self._megabytes = address, whole_seconds, megabytes
        context = ssl.create_default_context()
        if address.ca:
            try:
                context = ssl.create_default_context(cadata=address.ca)
            except (ssl.SSLError, ValueError):
                raise problems.bad_authority() from None
        secure = urlsplit(address.url).scheme == "https"
        options: dict[str, Any] = {"ssl_context": context} if secure else {}
        try:
            self._pool = urllib3.connection_from_url(address.url, maxsize=1, **options)
        except ValueError:
            raise problems.unreachable("no such address") from None
        self._path = urlsplit(address.url).path.rstrip("/")
        self._socket: socket.socket | None = None
        self._watch(self._pool)

    def __enter__(self) -> "Prometheus":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connection."""
        self._pool.close()

    def query(self, expression: str, *, at: datetime) -> bytes:
        """The body of the answer to an instant query."""
        return self._post("query", {"query": expression, "time": f"{at.timestamp():.3f}"})

    def query_range(self, expression: str, *, start: datetime, end: datetime, step: int) -> bytes:
        """The body of the answer about [start, end], a value every `step` seconds."""
        times = {"start": f"{start.timestamp():.3f}", "end": f"{end.timestamp():.3f}", "step": str(step)}
        return self._post("query_range", {"query": expression, **times})

    def _post(self, name: str, values: Mapping[str, str]) -> bytes:
        headers = {
            "User-Agent": USER_AGENT,
            "Accept": "application/json",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        if self._address.token:
            headers["Authorization"] = f"Bearer {self._address.token}"
        fields = {**values, "timeout": f"{max(self._whole - 1, 1):.0f}s"}
        with self._until_over() as over:
            try:
                response = self._pool.urlopen(
                    "POST",
                    f"{self._path}/api/v1/{name}",
                    body=urlencode(fields),
                    headers=headers,
                    redirect=False,
                    retries=False,
                    preload_content=False,
                    decode_content=False,
                    timeout=urllib3.Timeout(connect=min(CONNECT_SECONDS, self._whole), read=self._whole),
                )
                try:
                    if 300 <= response.status < 400:
                        raise problems.led_elsewhere(response.status)
                    body = self._whole_body(response)
                finally:
                    # What is left of it is not read, so the connection is of no further use.
                    response.close()
            except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
                raise problems.timed_out(self._whole) if over.is_set() else self._renamed(error) from None
            if over.is_set():
                raise problems.timed_out(self._whole)
        return _judged(response.status, body)

    @contextlib.contextmanager
    def _until_over(self) -> Iterator[threading.Event]:
        """Whoever sends a byte at a time, be it of the head, is cut off."""
        over = threading.Event()

        def end() -> None:
            over.set()
            if (held := self._socket) is not None:
                with contextlib.suppress(OSError):
                    held.shutdown(socket.SHUT_RDWR)

        timer = threading.Timer(self._whole, end)
        timer.daemon = True
        timer.start()
        try:
            yield over
        finally:
            timer.cancel()

    def _watch(self, pool: urllib3.HTTPConnectionPool) -> None:
        """Remember the socket of every connection that the pool makes, to be able to cut it."""
        made, asking = pool.ConnectionCls, self

        class Watched(made):  # type: ignore[valid-type, misc] # of http or of https, known only now
            def connect(self) -> None:
                super().connect()
                asking._socket = self.sock

        pool.ConnectionCls = Watched

    def _whole_body(self, response: urllib3.BaseHTTPResponse) -> bytes:
        chunks, size = [], 0
        while chunk := response.read1(CHUNK):
            size += len(chunk)
            if size > self._megabytes * 1024 * 1024:
                raise problems.too_large(self._megabytes)
            chunks.append(chunk)
        return b"".join(chunks)

    def _renamed(self, error: Exception) -> problems.UnableToAsk:
        # A NewConnectionError is a TimeoutError for urllib3, too.
        if isinstance(error, urllib3.exceptions.NameResolutionError):
            return problems.unreachable("its name is not known")
        if isinstance(error, urllib3.exceptions.NewConnectionError):
            return problems.unreachable(_system_words(error))
        if isinstance(error, urllib3.exceptions.TimeoutError | TimeoutError):
            return problems.timed_out(self._whole)
        if isinstance(error, urllib3.exceptions.SSLError | ssl.SSLError):
            return problems.insecure(_system_words(error))
        return problems.unreachable(_system_words(error))


def _judged(status: int, body: bytes) -> bytes:
    """The body of a success. Raises UnableToAsk for anything else."""
    if status == 200:
        return body
    if status in (401, 403):
        raise problems.denied(status)
    if status in (404, 405, 501):
        raise problems.not_there(status)
    if status in (400, 422) or (status == 503 and body.lstrip()[:1] == b"{"):
        raise answers.refused(body)
    if status == 413:
        raise problems.too_heavy(str(status))
    raise problems.failing(status)


def _system_words(error: BaseException) -> str:
    """The system's own words: shorter than urllib3's, and without addresses of objects."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return cause.verify_message
        if isinstance(cause, ssl.SSLError):
            return (cause.reason or str(cause)).replace("_", " ").lower()
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        nested = next((arg for arg in cause.args if isinstance(arg, BaseException)), None)
        cause = nested or cause.__cause__ or cause.__context__
    return "the connection was closed"
