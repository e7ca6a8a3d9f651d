"""What the API server answers when it refuses: Kubernetes ``Status`` objects, raised as one exception.

Wording follows the real API server, because clients (and the desk's own tests) read it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

GROUP_VERSION_OF_STATUS = "v1"


@dataclass(frozen=True, slots=True)
class Cause:
    """One field at fault, as in ``status.details.causes``.

    ``reason`` is one of ``FieldValueRequired``, ``FieldValueInvalid``, ``FieldValueNotSupported``,
    ``FieldValueDuplicate``, ``FieldValueForbidden``, ``FieldValueTooLong``, ``FieldValueTooMany``,
    ``FieldValueTypeInvalid``; ``message`` already carries the offending value as the real server prints it.
    """

    field: str
    reason: str
    message: str

    def as_json(self) -> dict[str, str]:
        return {"reason": self.reason, "message": self.message, "field": self.field}


class ApiError(Exception):
    """A refusal of the API server, with all that its ``Status`` says."""

    def __init__(
        self,
        status_code: int,
        reason: str,
        message: str,
        details: Mapping[str, Any] | None = None,
        *,
        continue_token: str = "",
    ) -> None:
        super().__init__(message)
        self.status_code = status_code
        self.reason = reason
        self.message = message
        self.details = dict(details or {})
        self._tells_details = details is not None  # clients tell {} from nothing
        self.continue_token = continue_token

    @property
    def causes(self) -> list[dict[str, str]]:
        """The ``details.causes`` entries: ``{reason, message, field}``."""
        return list(self.details.get("causes", ()))

    def as_status(self) -> dict[str, Any]:
        """The ``v1.Status`` object that goes over the wire."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": GROUP_VERSION_OF_STATUS,
            "metadata": {"continue": self.continue_token} if self.continue_token else {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
        }
        if self._tells_details or self.details:
            status["details"] = self.details
        status["code"] = self.status_code
        return status


def qualified(group: str, plural: str) -> str:
    """A resource as error texts name it: ``pods``, ``resourceclaims.resource.k8s.io``."""
    return f"{plural}.{group}" if group else plural


def _about(group: str, plural: str, name: str) -> dict[str, Any]:
    details: dict[str, Any] = {"name": name, "group": group, "kind": plural}
    return {key: value for key, value in details.items() if value}


def not_found(group: str, plural: str, name: str) -> ApiError:
    return ApiError(
        404, "NotFound", f'{qualified(group, plural)} "{name}" not found', _about(group, plural, name)
    )


def no_such_path() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource", {})


def already_exists(group: str, plural: str, name: str) -> ApiError:
    return ApiError(
        409,
        "AlreadyExists",
        f'{qualified(group, plural)} "{name}" already exists',
        _about(group, plural, name),
    )


def conflict(group: str, plural: str, name: str, why: str) -> ApiError:
    return ApiError(
        409,
        "Conflict",
        f'Operation cannot be fulfilled on {qualified(group, plural)} "{name}": {why}',
        _about(group, plural, name),
    )


def modified_meanwhile(group: str, plural: str, name: str) -> ApiError:
    return conflict(
        group,
        plural,
        name,
        "the object has been modified; please apply your changes to the latest version and try again",
    )


def invalid(group: str, kind: str, name: str, causes: Sequence[Cause]) -> ApiError:
    """422: the object breaks rules; every broken one is a cause."""
    texts = [f"{cause.field}: {cause.message}" for cause in causes]
    shown = texts[0] if len(texts) == 1 else "[" + ", ".join(texts) + "]"
    details = {**_about(group, kind, name), "causes": [cause.as_json() for cause in causes]}
    return ApiError(422, "Invalid", f'{qualified(group, kind)} "{name}" is invalid: {shown}', details)


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def forbidden(group: str, plural: str, name: str, why: str) -> ApiError:
    subject = f'{qualified(group, plural)} "{name}"' if name else qualified(group, plural)
    return ApiError(403, "Forbidden", f"{subject} is forbidden: {why}", _about(group, plural, name))


def unauthorized() -> ApiError:
    return ApiError(401, "Unauthorized", "Unauthorized")


def method_not_allowed(_method: str = "") -> ApiError:
    return ApiError(
        405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {}
    )


def unsupported_media_type(accepted: Sequence[str]) -> ApiError:
    listed = ", ".join(accepted)
    return ApiError(
        415,
        "UnsupportedMediaType",
        f"the body of the request was in an unknown format - accepted media types include: {listed}",
    )


def expired(message: str, *, continue_token: str = "") -> ApiError:
    return ApiError(410, "Expired", message, continue_token=continue_token)


def too_old(asked: int, oldest: int) -> ApiError:
    """410: a watch or an exact list from before the kept history."""
    return expired(f"too old resource version: {asked} ({oldest})")


def too_large_resource_version(asked: int, current: int) -> ApiError:
    """504: a resourceVersion that this server has not reached."""
    return ApiError(
        504,
        "Timeout",
        f"Too large resource version: {asked}, current: {current}",
        {
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    )


def too_many_requests(retry_after: int, message: str = "") -> ApiError:
    return ApiError(
        429,
        "TooManyRequests",
        message or "Too many requests, please try again later.",
        {"retryAfterSeconds": retry_after},
    )


def internal(message: str) -> ApiError:
    return ApiError(
        500,
        "InternalError",
        f"Internal error occurred: {message}",
        {"causes": [{"message": message}]},
    )
