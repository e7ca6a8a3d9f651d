"""What responses look like: objects, refusals and deletions as JSON."""

import json
from typing import Any

import msgspec
from aiohttp import web

from portal.demo import errors
from portal.demo.requests import Target
from portal.demo.schema import FieldReport


def as_json(body: bytes, *, status: int = 200) -> web.Response:
    """A response with ready JSON."""
    return web.Response(
        body=body,
        status=status,
        content_type="application/json",
        headers={"Cache-Control": "no-cache, private"},
    )


def refusal(error: errors.ApiError) -> web.Response:
    """The Status of an error, with Retry-After where it says so."""
    response = as_json(json.dumps(error.as_status()).encode(), status=error.status_code)
    if "retryAfterSeconds" in error.details:
        response.headers["Retry-After"] = str(error.details["retryAfterSeconds"])
    return response


def written(obj: dict[str, Any], report: FieldReport, *, status: int = 200) -> web.Response:
    """An object that was written, with a warning for each field that is not known."""
    response = as_json(msgspec.json.encode(obj), status=status)
    if not report.silent:
        for path in report.unknown:
            # JSON's escapes keep whatever a client calls its fields out of the header's syntax.
            text = json.dumps(f'unknown field "{path}"')
            response.headers.add("Warning", f"299 - {text}")
    return response


def deleted(where: Target, uid: str) -> dict[str, Any]:
    """The Status of a deletion."""
    about = {"name": where.name, "group": where.resource.group, "kind": where.resource.plural, "uid": uid}
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {name: value for name, value in about.items() if value},
    }
