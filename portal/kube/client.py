"""Calls to one API server: raw JSON bytes in and out, every call with timeouts, nothing raised but our own
errors.

Building a request (`Request`) is separate from sending it (`Client.send`); the methods below it are the
verbs of the Kubernetes API. Nothing is retried here except a read on a connection that the server had
closed meanwhile, and one attempt with credentials that were read again after a 401.
"""

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlencode, urlsplit

import msgspec
import urllib3
from django.utils.translation import gettext as _

from portal.kube import errors
from portal.kube.config import Credentials, Session
from portal.kube.measures import measured
from portal.kube.resources import Resource
from portal.kube.transport import ClosedBeforeAnswer, date_of, read_whole, renamed
from portal.kube.watch import Watch

T = TypeVar("T")

USER_AGENT = "claimdesk"
PAGE_SIZE = 500
# A list whose continue token expired starts anew; a server that keeps expiring them is not worth following.
MAX_LIST_RESTARTS = 3

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
# JSON is YAML, and the media type is what asks for server-side apply.
APPLY_PATCH = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Request:
    """One call, not sent yet. `path` is below the server's address; `body` is JSON."""

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = JSON

    @property
    def target(self) -> str:
        return f"{self.path}?{urlencode(self.query)}" if self.query else self.path


@dataclass(frozen=True)
class Answer:
    """A complete answer. `date` is the server's clock when it answered, where it said so."""

    status: int
    body: bytes
    date: datetime | None

    def json(self) -> dict[str, Any]:
        """The body as a mapping. Raises ProtocolError."""
        return _decode(self.body, dict[str, Any])


class _ListMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")
    remaining_item_count: int | None = None


class _List(msgspec.Struct):
    metadata: _ListMeta
    # `null` is how Go writes an empty list.
    items: list[msgspec.Raw] | None = None


@dataclass(frozen=True)
class Page:
    """One page of a list. `items` are raw JSON objects (without kind and apiVersion, as API servers send
    them).

    `first` is True on the first page, and again when the server dropped the list in the middle (410) and
    it started anew: whatever was gathered from the pages before then does not count. `last` is True on the
    page that completes the list; `resource_version` is the version from which a watch continues.
    """

    items: list[msgspec.Raw]
    resource_version: str
    first: bool
    last: bool
    date: datetime | None


class Client:
    """Talks to one API server. Safe to share between threads; `close` ends its connections."""

    def __init__(
        self, credentials: Credentials, *, timeout: float = 10.0, list_timeout: float = 60.0
    ) -> None:
        """`timeout` bounds connecting, each wait for bytes, and a whole call (seconds); a page of a list,
        which may be many megabytes, has `list_timeout` for the whole. Raises BadCredentials."""
        self._credentials = credentials
        self._timeout = timeout
        self._list_timeout = list_timeout
        self._lock = threading.Lock()
        self._session: Session = credentials.open()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Address of the API server."""
        return self._session.url

    def close(self) -> None:
        """Close idle connections. Watches are closed by themselves."""
        self._session.rest.close()

    # --- verbs ----------------------------------------------------------------------------------------

    def get_path(self, path: str) -> dict[str, Any]:
        """GET any path, such as `/version`."""
        return self.send(Request("GET", path)).json()

    def get(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        """One object. Raises NotFound."""
        return self.send(Request("GET", resource.path(namespace=namespace, name=name))).json()

    def list_pages(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = PAGE_SIZE,
    ) -> Iterator[Page]:
        """The objects of a collection, page by page, as of one consistent version.

        An expired continue token starts the list anew (`Page.first`), at most MAX_LIST_RESTARTS times;
        then Gone.
        """
        base = _selectors(label_selector, field_selector) | {"limit": str(limit)}
        path = resource.path(namespace=namespace)
        token, first, restarts = "", True, 0
        while True:
            query = base | ({"continue": token} if token else {})
            try:
                answer = self.send(Request("GET", path, query), total=self._list_timeout)
            except errors.Gone:
                restarts += 1
                if not token or restarts > MAX_LIST_RESTARTS:
                    raise
                token, first = "", True
                continue
            listed = _decode(answer.body, _List)
            token = listed.metadata.continue_
            yield Page(
                items=listed.items or [],
                resource_version=listed.metadata.resource_version,
                first=first,
                last=not token,
                date=answer.date,
            )
            if not token:
                return
            first = False

    def list_all(
        self, resource: Resource, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> list[dict[str, Any]]:
        """All objects at once, decoded: for small collections."""
        found: list[dict[str, Any]] = []
        for page in self.list_pages(
            resource, namespace=namespace, label_selector=label_selector, field_selector=field_selector
        ):
            if page.first:
                found = []
            found += [_decode(item, dict[str, Any]) for item in page.items]
        return found

    def create(
        self, resource: Resource, body: Mapping[str, Any], *, namespace: str = "", dry_run: bool = False
    ) -> dict[str, Any]:
        """POST an object; the answer is the object as stored (or as it would be). Raises AlreadyExists,
        Invalid…"""
        request = Request(
            "POST", resource.path(namespace=namespace), _writing(dry_run=dry_run), _encode(body)
        )
        return self.send(request).json()

    def replace(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """PUT an object; with a resourceVersion in it, only if nobody changed it meanwhile (else
        Conflict)."""
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        return self.send(Request("PUT", path, _writing(dry_run=dry_run), _encode(body))).json()

    def patch(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any],
        *,
        namespace: str = "",
        subresource: str = "",
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """JSON merge patch: null removes a field, lists are replaced as a whole."""
        path = resource.path(namespace=namespace, name=name, subresource=subresource)
        request = Request("PATCH", path, _writing(dry_run=dry_run), _encode(body), MERGE_PATCH)
        return self.send(request).json()

    def apply(
        self,
        resource: Resource,
        name: str,
        body: Mapping[str, Any],
        *,
        field_manager: str,
        namespace: str = "",
        force: bool = False,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Server-side apply: create the object or take over the fields in `body`. Raises Conflict where
        another manager owns one of them, unless `force`."""
        query = (
            _writing(dry_run=dry_run) | {"fieldManager": field_manager} | ({"force": "true"} if force else {})
        )
        path = resource.path(namespace=namespace, name=name)
        return self.send(Request("PATCH", path, query, _encode(body), APPLY_PATCH)).json()

    def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        resource_version: str = "",
        grace_period_seconds: int | None = None,
        dry_run: bool = False,
    ) -> dict[str, Any]:
        """Delete an object, with `uid` only that very one (else Conflict): a namesake created since then
        stays. With `resource_version` only if nobody changed it meanwhile."""
        options: dict[str, Any] = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "propagationPolicy": "Background",
        }
        known = {"uid": uid, "resourceVersion": resource_version}
        if preconditions := {name: value for name, value in known.items() if value}:
            options["preconditions"] = preconditions
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        path = resource.path(namespace=namespace, name=name)
        return self.send(Request("DELETE", path, _writing(dry_run=dry_run), _encode(options))).json()

    def watch(
        self,
        resource: Resource,
        *,
        resource_version: str,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int = 240,
        idle_seconds: float = 90.0,
    ) -> Watch:
        """Follow a collection from `resource_version` on. The server ends the watch after
        `timeout_seconds`; silence of `idle_seconds` (bookmarks come about every minute) ends it too, since
        the peer may be gone."""
        query = _selectors(label_selector, field_selector) | {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_seconds),
        }
        request = Request("GET", resource.path(namespace=namespace), query)
        with measured(server=self.url, verb="WATCH", path=request.path):
            return self._renewed(
                lambda session: self._open_watch(session, request, idle_seconds=idle_seconds)
            )

    # --- discovery ------------------------------------------------------------------------------------

    def version(self) -> dict[str, Any]:
        """`/version`: gitVersion and its parts."""
        return self.get_path("/version")

    def served(self, group: str) -> dict[str, dict[str, Resource]]:
        """What the cluster serves of an API group: version → plural → Resource, the server's preferred
        version first. Empty where the group is not served."""
        try:
            found = self.get_path(f"/apis/{group}")
        except errors.NotFound:
            return {}
        versions = [str(entry.get("groupVersion")) for entry in _mappings(found.get("versions"))]
        preferred = str((found.get("preferredVersion") or {}).get("groupVersion", ""))
        versions.sort(key=lambda version: version != preferred)
        return {version: self._served_version(version) for version in versions}

    def _served_version(self, api_version: str) -> dict[str, Resource]:
        found = self.get_path(f"/apis/{api_version}")
        return {
            str(entry["name"]): Resource(
                api_version,
                str(entry["name"]),
                namespaced=bool(entry.get("namespaced")),
                kind=str(entry.get("kind", "")),
            )
            for entry in _mappings(found.get("resources"))
            if "/" not in str(entry.get("name", "/"))
        }

    # --- sending --------------------------------------------------------------------------------------

    def send(self, request: Request, *, total: float | None = None) -> Answer:
        """Send a request and read its whole answer within `total` seconds. Raises the ClusterError that it
        means."""
        with measured(server=self.url, verb=request.method, path=request.path):
            return self._renewed(
                lambda session: self._exchange(session, request, total=total or self._timeout)
            )

    def _renewed(self, attempt: Callable[[Session], T]) -> T:
        """Run one attempt; after a 401, once more with credentials that are read again, where that may
        help."""
        session = self._session
        try:
            return attempt(session)
        except errors.Unauthorized:
            if not self._credentials.renewable:
                raise
            with self._lock:
                # Another thread may have renewed them while we waited.
                if self._session is session:
                    self._session = self._credentials.open()
            return attempt(self._session)

    def _exchange(self, session: Session, request: Request, *, total: float) -> Answer:
        deadline = time.monotonic() + total
        try:
            response = self._start(session, request, read_timeout=self._timeout)
        except ClosedBeforeAnswer as error:
            # A kept connection that the server had closed; reading again is harmless, writing is not.
            if request.method != "GET":
                raise error.unreachable from None
            try:
                response = self._start(session, request, read_timeout=self._timeout)
            except ClosedBeforeAnswer as again:
                raise again.unreachable from None
        body = read_whole(response, deadline=deadline, total=total, url=session.url)
        if response.status >= 400:
            raise errors.from_answer(
                status=response.status, body=body, retry_after=response.headers.get("Retry-After")
            )
        return Answer(status=response.status, body=body, date=date_of(response))

    def _open_watch(self, session: Session, request: Request, *, idle_seconds: float) -> Watch:
        try:
            response = self._start(session, request, read_timeout=self._timeout)
        except ClosedBeforeAnswer as error:
            raise error.unreachable from None
        if response.status >= 400:
            body = read_whole(
                response, deadline=time.monotonic() + self._timeout, total=self._timeout, url=session.url
            )
            raise errors.from_answer(
                status=response.status, body=body, retry_after=response.headers.get("Retry-After")
            )
        sock = getattr(response.connection, "sock", None)
        if sock is not None:
            sock.settimeout(idle_seconds)
        return Watch(response, date=date_of(response))

    def _start(self, session: Session, request: Request, *, read_timeout: float) -> urllib3.BaseHTTPResponse:
        """Send, and wait for the head of the answer."""
        headers = {"Accept": JSON, "User-Agent": USER_AGENT}
        token = session.authorization()
        if token:
            headers["Authorization"] = token
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        try:
            response: urllib3.BaseHTTPResponse = session.rest.pool_manager.request(
                request.method,
                session.url + request.target,
                body=request.body,
                headers=headers,
                timeout=urllib3.Timeout(connect=self._timeout, read=read_timeout),
                preload_content=False,
                # No hidden retries; and a redirect must not carry the token elsewhere.
                retries=False,
                redirect=False,
            )
        except (urllib3.exceptions.HTTPError, OSError, ValueError) as error:
            raise renamed(error, url=session.url, seconds=read_timeout) from None
        if 300 <= response.status < 400:
            where = urlsplit(response.headers.get("Location", ""))
            response.close()
            raise errors.ProtocolError(
                _(
                    "%(url)s redirects to “%(where)s”: it is not an API server, or something stands in "
                    "between."
                )
                % {"url": session.url, "where": f"{where.scheme}://{where.netloc}{where.path}"[:200]}
            )
        return response


def _decode(raw: bytes | msgspec.Raw, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(raw, type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise errors.ProtocolError(
            _("The answer is not what an API server sends: %(reason)s.") % {"reason": str(error)[:200]}
        ) from None


def _encode(body: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(body)


def _writing(*, dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


def _selectors(label_selector: str, field_selector: str) -> dict[str, str]:
    chosen = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in chosen.items() if value}


def _mappings(value: object) -> list[Mapping[str, Any]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []
