"""What happens on the wire below `client`: reading an answer in time, naming what the transport raises."""

import email.utils
import ssl
import time
from datetime import UTC, datetime

import urllib3
from django.utils.translation import gettext as _

from portal.kube import errors

# No answer of an API server is near this; a page of 500 large Pods is about 20 MB.
MAX_ANSWER_BYTES = 512 * 1024 * 1024
CHUNK_BYTES = 1 << 18


class ClosedBeforeAnswer(Exception):
    """The connection ended before the head of an answer came."""

    def __init__(self, unreachable: errors.Unreachable) -> None:
        self.unreachable = unreachable


def read_whole(response: urllib3.BaseHTTPResponse, *, deadline: float, total: float, url: str) -> bytes:
    """The whole body before `deadline` (monotonic), however slowly it drips."""
    chunks: list[bytes] = []
    size = 0
    try:
        while chunk := response.read1(CHUNK_BYTES):
            chunks.append(chunk)
            size += len(chunk)
            if size > MAX_ANSWER_BYTES:
                raise errors.ProtocolError(
                    _("%(url)s sends more than an API server ever would.") % {"url": url}
                )
            if time.monotonic() > deadline:
                raise _timed_out(url, total)
    except (urllib3.exceptions.HTTPError, OSError) as error:
        response.close()
        raise _cut(error, url=url, seconds=total) from None
    except errors.ClusterError:
        response.close()
        raise
    response.release_conn()
    return b"".join(chunks)


def _timed_out(url: str, seconds: float) -> errors.Unreachable:
    return errors.Unreachable(
        _("%(url)s did not answer within %(seconds)g s.") % {"url": url, "seconds": seconds}
    )


def _cut(error: Exception, *, url: str, seconds: float) -> errors.ClusterError:
    if isinstance(error, urllib3.exceptions.TimeoutError | TimeoutError):
        return _timed_out(url, seconds)
    return errors.Unreachable(_("%(url)s broke off in the middle of an answer.") % {"url": url})


def renamed(error: Exception, *, url: str, seconds: float) -> Exception:
    """Our name for what the transport raised before an answer began."""
    cause = error.args[1] if len(error.args) > 1 else error
    renamed: Exception
    match error:
        case urllib3.exceptions.LocationParseError() | ValueError():
            renamed = errors.BadCredentials(_("“%(url)s” is not an address of an API server.") % {"url": url})
        case urllib3.exceptions.NameResolutionError():
            renamed = errors.Unreachable(_("The name in %(url)s is not known.") % {"url": url})
        # Also a TimeoutError for urllib3, so it comes first.
        case urllib3.exceptions.NewConnectionError():
            said = {"url": url, "reason": _inner(error)}
            renamed = errors.Unreachable(_("%(url)s cannot be reached: %(reason)s.") % said)
        case urllib3.exceptions.TimeoutError():
            renamed = _timed_out(url, seconds)
        case urllib3.exceptions.ProxyError():
            renamed = errors.Unreachable(
                _("%(url)s cannot be reached: the proxy in between refuses the connection.") % {"url": url}
            )
        case urllib3.exceptions.SSLError():
            said = {"url": url, "reason": _inner(error)}
            renamed = errors.Unreachable(_("No secure connection to %(url)s: %(reason)s.") % said)
        case _ if isinstance(cause, FileNotFoundError | PermissionError):
            renamed = errors.BadCredentials(_("A certificate file that the kubeconfig names cannot be read."))
        case _:
            closed = errors.Unreachable(_("%(url)s closed the connection.") % {"url": url})
            renamed = ClosedBeforeAnswer(closed)
    return renamed


def _inner(error: Exception) -> str:
    """The system's own words for a transport failure: shorter than urllib3's, and without object
    addresses."""
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
    return type(error).__name__


def date_of(response: urllib3.BaseHTTPResponse) -> datetime | None:
    """The server's clock, to the second, from the Date header."""
    try:
        return email.utils.parsedate_to_datetime(response.headers["Date"]).astimezone(UTC)
    except (KeyError, TypeError, ValueError):
        return None
