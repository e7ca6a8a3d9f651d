"""What can go wrong between the desk and a cluster, each with a message for people.

Every function of `portal.kube` raises nothing but this family. `message` is a finished, translated
sentence that a page may show; it never contains a token, a key or a request body.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
from django.utils.translation import gettext as _


class ClusterError(Exception):
    """Something went wrong with a cluster; `message` says what, for people.

    `retry_after` is the number of seconds that the server asked us to wait, where it did.
    """

    retry_after: float | None = None

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class BadCredentials(ClusterError):
    """The kubeconfig (or service account) cannot be used: unreadable, unknown context, failing plugin."""


class ForbiddenCredentials(BadCredentials):
    """A stored kubeconfig asks for what only a file of the operator may: programs and files of this
    machine."""


class Unreachable(ClusterError):
    """No answer: connection refused, name unknown, TLS failure, timeout, or cut in mid-answer."""


class ProtocolError(ClusterError):
    """An answer that the Kubernetes API does not give: no JSON, a redirect, a line that does not parse."""


class ApiStatusError(ClusterError):
    """The API server answered with a failure. `status` is the HTTP code, `reason` and `details` as in its
    Status."""

    def __init__(
        self, message: str, *, status: int, reason: str = "", details: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.details = details or {}


class Unauthorized(ApiStatusError):
    """401: the credentials are not (or no longer) valid."""


class Forbidden(ApiStatusError):
    """403: the account may not do this, or a quota or an admission rule refuses it."""


class NotFound(ApiStatusError):
    """404: no such object, or the cluster does not serve such objects."""


class Conflict(ApiStatusError):
    """409: somebody changed the object in between, or a precondition does not hold."""


class AlreadyExists(Conflict):
    """409 AlreadyExists: an object of that name is there."""


class Gone(ApiStatusError):
    """410: the resourceVersion or the continue token is too old; list again."""


@dataclass(frozen=True)
class Cause:
    """One entry of a Status' `details.causes`: which field (path as in the API), and what is wrong with
    it."""

    field: str
    message: str


class Invalid(ApiStatusError):
    """400 or 422: the API server does not accept the object. `causes` name the fields."""

    def __init__(
        self, message: str, *, status: int, reason: str = "", details: Mapping[str, object] | None = None
    ) -> None:
        super().__init__(message, status=status, reason=reason, details=details)
        raw = self.details.get("causes")
        self.causes: Sequence[Cause] = [
            Cause(field=str(cause.get("field") or ""), message=str(cause.get("message") or ""))
            for cause in (raw if isinstance(raw, list) else [])
            if isinstance(cause, dict)
        ]


class TooManyRequests(ApiStatusError):
    """429: the server is busy; `retry_after` says for how long."""


class ServerError(ApiStatusError):
    """5xx: the API server failed."""


_BY_STATUS: dict[int, type[ApiStatusError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}


class _Status(msgspec.Struct):
    """`metav1.Status`, as far as we read it."""

    kind: str = ""
    code: int | None = None
    reason: str | None = None
    message: str | None = None
    details: dict[str, object] | None = None


def from_answer(*, status: int, body: bytes, retry_after: str | None = None) -> ClusterError:
    """The error that an answer with HTTP code `status` (≥ 400) and `body` stands for.

    A body that is no Status (a proxy's HTML page, say) still gives the error of its code.
    """
    try:
        answer = msgspec.json.decode(body, type=_Status)
    except (msgspec.DecodeError, msgspec.ValidationError):
        answer = _Status()
    return _build(status=status, answer=answer, retry_after=_seconds(retry_after))


def from_watch(raw: bytes) -> ClusterError:
    """The error that the object of a watch's ERROR event stands for."""
    try:
        answer = msgspec.json.decode(raw, type=_Status)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return ProtocolError(_("The watch reported an error that cannot be read."))
    return _build(status=answer.code or 500, answer=answer, retry_after=None)


def _build(*, status: int, answer: _Status, retry_after: float | None) -> ClusterError:
    said = (answer.message or "").strip()[:1500]
    reason = answer.reason or ""
    details = answer.details or {}
    kind: type[ApiStatusError] = _BY_STATUS.get(status, ServerError if status >= 500 else Invalid)
    if kind is Conflict and reason == "AlreadyExists":
        kind = AlreadyExists
    # Expired is what etcd's compaction looks like to a watch; some servers send it with another code.
    if reason in {"Expired", "Gone"}:
        kind = Gone
    error = kind(_sentence(kind, status, said), status=status, reason=reason, details=details)
    wait = details.get("retryAfterSeconds")
    if retry_after is None and isinstance(wait, int | float) and wait > 0:
        retry_after = float(wait)
    error.retry_after = retry_after
    return error


def _sentence(kind: type[ApiStatusError], status: int, said: str) -> str:
    quoted = said or _("no reason given (HTTP %(status)s)") % {"status": status}
    if kind is Unauthorized:
        return _("The cluster refuses the credentials: %(said)s") % {"said": quoted}
    if kind is Forbidden:
        return _("The cluster does not permit this: %(said)s") % {"said": quoted}
    if kind is TooManyRequests:
        return _("The cluster is busy: %(said)s") % {"said": quoted}
    if kind is ServerError:
        return _("The cluster failed (HTTP %(status)s): %(said)s") % {"status": status, "said": quoted}
    return _("The cluster answered: %(said)s") % {"said": quoted}


def _seconds(header: str | None) -> float | None:
    """`Retry-After` in seconds; its date form is not used by API servers and is ignored."""
    try:
        value = float(header) if header else None
    except ValueError:
        return None
    # Also drops "nan": a wait must be a number that one can sleep.
    return value if value is not None and 0 <= value < 86_400 else None
