"""What requests carry: bodies, options, and the manager in whose name they write."""

from typing import Any

import msgspec
from aiohttp import web

from portal.demo import errors
from portal.demo.patches import PatchKind
from portal.demo.requests import Query
from portal.demo.schema import FieldReport

_READABLE = (
    "application/json",
    "application/yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "application/octet-stream",  # what aiohttp reads from a request that names no type
)
PATCH_KINDS: dict[str, PatchKind] = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}


def manager(request: web.Request, query: Query) -> str:
    """Who is noted as the writer: what the client says, else the first word of its User-Agent."""
    return query.text("fieldManager") or request.headers.get("User-Agent", "unknown").split("/")[0]


def report(query: Query) -> FieldReport:
    """How unknown fields are taken: ``Warn`` is the default."""
    level = query.text("fieldValidation") or "Warn"
    if level not in ("Ignore", "Warn", "Strict"):
        text = f'Unsupported value: "{level}": supported values: "", "Ignore", "Strict", "Warn"'
        cause = errors.Cause("fieldValidation", "FieldValueNotSupported", text)
        raise errors.invalid("meta.k8s.io", "CreateOptions", "", [cause])
    return FieldReport(strict=level == "Strict", silent=level == "Ignore")


async def read_body(request: web.Request) -> Any:
    """The decoded body; 415 for a type that is not read here, 400 for text that cannot be decoded."""
    if request.content_type not in _READABLE:
        raise errors.unsupported_media_type(_READABLE[:1])
    raw = await request.read()
    if request.content_type.endswith("yaml"):
        return _yaml(raw)
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.bad_request(f"couldn't get version/kind; json parse error: {error}") from None


def _yaml(raw: bytes) -> Any:
    """YAML as clients send it in apply patches; JSON is YAML, and is tried first because it is faster."""
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return msgspec.yaml.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise errors.bad_request(f"error decoding YAML: {error}") from None


async def read_object(request: web.Request) -> dict[str, Any]:
    """As :func:`read_body`, for requests whose body has to be an object."""
    body = await read_body(request)
    if not isinstance(body, dict):
        raise errors.bad_request("couldn't get version/kind; json parse error: an object is expected")
    return body


async def delete_options(request: web.Request, query: Query) -> dict[str, Any]:
    """DeleteOptions from body and parameters, as keywords of ``Store.delete``."""
    body = await read_object(request) if request.can_read_body else {}
    preconditions = part(body, "preconditions")
    grace = body.get("gracePeriodSeconds")
    if "gracePeriodSeconds" in query.values:
        grace = query.number("gracePeriodSeconds")
    if grace is not None and (isinstance(grace, bool) or not isinstance(grace, int)):
        raise errors.bad_request("gracePeriodSeconds: a whole number is expected")
    propagation = query.text("propagationPolicy") or body.get("propagationPolicy") or ""
    if propagation not in ("", "Background", "Foreground", "Orphan"):
        text = f'Unsupported value: "{propagation}": supported values: "Background", "Foreground", "Orphan"'
        cause = errors.Cause("propagationPolicy", "FieldValueNotSupported", text)
        raise errors.invalid("meta.k8s.io", "DeleteOptions", "", [cause])
    return {
        "propagation": propagation,
        "grace_period_seconds": grace,
        "uid": preconditions.get("uid") or "",
        "resource_version": preconditions.get("resourceVersion") or "",
        "dry_run": query.dry_run() or body.get("dryRun") == ["All"],
    }


def part(body: dict[str, Any], name: str) -> dict[str, Any]:
    """An object inside a body, empty when absent; 400 when it is something else."""
    part = body.get(name)
    if part is None:
        return {}
    if not isinstance(part, dict):
        raise errors.bad_request(f"json: cannot unmarshal into {name}: an object is expected")
    return part
