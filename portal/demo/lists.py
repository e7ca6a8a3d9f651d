"""Lists: pages of one consistent state, and the opaque token that leads to the next."""

import base64
import json

import msgspec

from portal.demo import errors
from portal.demo.records import Key
from portal.demo.requests import Query
from portal.demo.resources import Resource
from portal.demo.selectors import Selector
from portal.demo.store import Store
from portal.demo.table import Page
from portal.demo.views import item

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new "
    "list without the continue parameter, or use the continue token in this response to retrieve the "
    "remainder of the results. Continuing with the provided token results in an inconsistent list - objects "
    "that were created, modified, or deleted between the time the first chunk was returned and now may show "
    "up in the list."
)
_LATEST = -1


def encode_token(revision: int, start: Key) -> str:
    """A continue token; ``revision`` -1 continues with whatever is stored by then."""
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": revision, "start": "/".join(start)})
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def decode_token(token: str) -> tuple[int, Key]:
    """The revision and first key of a continue token; 400 when it is not one of ours."""
    try:
        content = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        namespace, name = content["start"].split("/")
        revision = int(content["rv"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise errors.bad_request("continue key is not valid: encoded continue token is not valid") from None
    return revision, (namespace, name)


def read_page(store: Store, resource: Resource, selector: Selector, query: Query) -> Page:
    """The page that the list parameters ask for.

    400 for parameters that exclude each other, 410 when the state asked for is no longer known, 504 for a
    revision that is not reached yet.
    """
    limit = query.number("limit")
    token = query.text("continue")
    asked, match = query.revision(), query.text("resourceVersionMatch")
    plural = resource.key
    _check_match(asked, match, token)
    if token:
        if asked:
            raise errors.bad_request("specifying resource version is not allowed when using continue")
        revision, start = decode_token(token)
        try:
            return store.page(plural, selector, limit=limit, start=start, revision=max(revision, 0))
        except errors.ApiError as error:
            if error.status_code != 410:
                raise
            raise errors.expired(_TOO_OLD, continue_token=encode_token(_LATEST, start)) from None
    if asked and asked > store.revision:
        raise errors.too_large_resource_version(asked, store.revision)
    # Asked for a revision together with a limit, the server takes it as exact; rv=0 is served whole.
    exact = bool(asked) and (match == "Exact" or (not match and limit > 0))
    if asked == 0:
        limit = 0
    return store.page(plural, selector, limit=limit, start=None, revision=(asked or 0) if exact else 0)


def _check_match(asked: int | None, match: str, token: str) -> None:
    if not match:
        return
    if match not in ("Exact", "NotOlderThan"):
        text = f'Unsupported value: "{match}": supported values: "Exact", "NotOlderThan"'
        cause = errors.Cause("resourceVersionMatch", "FieldValueNotSupported", text)
    elif token:
        cause = _forbidden_match("resourceVersionMatch is forbidden when continue is provided")
    elif asked is None:
        cause = _forbidden_match("resourceVersionMatch is forbidden unless resourceVersion is provided")
    elif asked == 0 and match == "Exact":
        cause = _forbidden_match('resourceVersionMatch "exact" is forbidden for resourceVersion "0"')
    else:
        return
    raise errors.invalid("meta.k8s.io", "ListOptions", "", [cause])


def _forbidden_match(why: str) -> errors.Cause:
    return errors.Cause("resourceVersionMatch", "FieldValueForbidden", f"Forbidden: {why}")


def as_json(resource: Resource, page: Page) -> bytes:
    """The list object; items carry no ``kind`` and ``apiVersion``, as on the real server."""
    head = {"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata_of(page)}
    items = b",".join(item(resource, record) for record in page.records)
    return b"".join([msgspec.json.encode(head)[:-1], b',"items":[', items, b"]}\n"])


def metadata_of(page: Page) -> dict[str, object]:
    """The list's own metadata: its version, and the way to the rest."""
    metadata: dict[str, object] = {"resourceVersion": str(page.revision)}
    if page.next_key is not None:
        metadata["continue"] = encode_token(page.revision, page.next_key)
        if page.remaining:
            metadata["remainingItemCount"] = page.remaining
    return metadata
