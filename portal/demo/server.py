"""The API server over HTTP: authentication, authorisation, and one method for each verb."""

import asyncio
import json
from typing import Any

import msgspec
from aiohttp import web

from portal.demo import auth, discovery, errors, lists, selectors
from portal.demo.auth import Accounts, User
from portal.demo.faults import Faults
from portal.demo.requests import Query, Target, target
from portal.demo.store import Store
from portal.demo.views import item, single
from portal.demo.watching import Watch

_BODY_LIMIT = 3 * 1024 * 1024
_PATCHES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    "application/apply-patch+yaml": "apply",
}
FAULTS_PATH = "/claimdesk/faults"


class ApiServer:
    """Answers requests about one store."""

    def __init__(self, store: Store, accounts: Accounts, *, bookmark_seconds: float = 60.0) -> None:
        self.store = store
        self.accounts = accounts
        self.faults = Faults()
        self._bookmark_seconds = bookmark_seconds
        self._watches: set[asyncio.Task[Any]] = set()

    def application(self) -> web.Application:
        """The aiohttp application; closing it ends all watches."""
        app = web.Application(client_max_size=_BODY_LIMIT)
        app.router.add_route("*", "/{path:.*}", self._handle)
        app.on_shutdown.append(self._end_watches)
        return app

    async def _end_watches(self, _app: web.Application) -> None:
        for task in list(self._watches):
            task.cancel()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            user = self.accounts.authenticate(request.headers.get("Authorization", ""))
            if request.path != FAULTS_PATH:
                await self.faults.before(request.path)
            return await self._route(request, user)
        except errors.ApiError as error:
            return _refusal(error)
        except web.HTTPRequestEntityTooLarge:
            message = f"Request entity too large: limit is {_BODY_LIMIT}"
            return _refusal(errors.ApiError(413, "RequestEntityTooLarge", message))

    async def _route(self, request: web.Request, user: User) -> web.StreamResponse:
        path = request.path
        verb = request.method.lower()
        where = target(path)
        if where is None:
            auth.demand_path(user, verb, path)
            return await self._elsewhere(request, user)
        query = Query(request.query)
        verb = _verb(request.method, where, query)
        auth.demand(
            user, verb, where.resource, namespace=where.namespace, name=where.name, subresource=where.subresource
        )
        _check_served(where, verb)
        if verb == "watch":
            return await self._watch(request, where, query)
        if verb == "list":
            return await self._list(request, where, query)
        if verb == "get":
            resource = where.resource
            record = self.store.record(resource.view_of or resource.plural, where.name, namespace=where.namespace)
            return _json(single(resource, record))
        handler = {
            "create": self._create, "update": self._update, "patch": self._patch, "delete": self._delete,
            "deletecollection": self._delete_collection,
        }[verb]  # fmt: skip
        return await handler(request, where, query)

    async def _elsewhere(self, request: web.Request, user: User) -> web.StreamResponse:
        path = request.path.rstrip("/") or "/"
        if path in ("/healthz", "/readyz", "/livez"):
            return web.Response(text="ok")
        if path == FAULTS_PATH and user.name == auth.ADMIN and request.method == "PUT":
            self.faults.set(await _body(request))
            return _json(b"{}")
        if path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" and request.method == "POST":
            return _json(json.dumps(_review(await _body(request), user)).encode(), status=201)
        document = _document(path)
        if document is None:
            raise errors.no_such_path()
        if request.method not in ("GET", "HEAD"):
            raise errors.method_not_allowed()
        return _json(json.dumps(document).encode())

    async def _list(self, request: web.Request, where: Target, query: Query) -> web.StreamResponse:
        selector = _selector(where, query)
        page = lists.read_page(self.store, where.resource, selector, query)
        items = [item(where.resource, record) for record in page.records]
        return _json(lists.as_json(where.resource, page, items))

    async def _watch(self, request: web.Request, where: Target, query: Query) -> web.StreamResponse:
        watch = Watch(
            self.store, where.resource, _selector(where, query), query, bookmark_seconds=self._bookmark_seconds
        )
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a handler always runs in a task
        self._watches.add(task)
        try:
            await watch.stream(response, self.faults)
            await response.write_eof()
        except ConnectionResetError:
            if request.transport is not None:
                request.transport.abort()
        finally:
            self._watches.discard(task)
        return response

    async def _create(self, request: web.Request, where: Target, query: Query) -> web.StreamResponse:
        body = await _object(request, where)
        manager = _manager(request, query)
        if where.subresource == "binding":
            node = (body.get("target") or {}).get("name", "")
            self.store.bind(where.name, node, namespace=where.namespace, manager=manager, dry_run=query.dry_run())
            success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
            return _json(json.dumps(success).encode(), status=201)
        created = self.store.create(
            where.resource.plural, body, namespace=where.namespace, manager=manager, dry_run=query.dry_run()
        )
        return _json(msgspec.json.encode(created), status=201)

    async def _update(self, request: web.Request, where: Target, query: Query) -> web.StreamResponse:
        body = await _object(request, where)
        change = self.store.update_status if where.subresource == "status" else self.store.update
        updated = change(
            where.resource.plural, body, namespace=where.namespace, manager=_manager(request, query),
            dry_run=query.dry_run(),
        )  # fmt: skip
        return _json(msgspec.json.encode(updated))

    async def _patch(self, request: web.Request, where: Target, query: Query) -> web.StreamResponse:
        kind = _PATCHES.get(request.content_type)
        if kind is None:
            raise errors.unsupported_media_type(tuple(_PATCHES))
        patched = self.store.patch(
            where.resource.plural, where.name, await _body(request), namespace=where.namespace, kind=kind,
            subresource=where.subresource, manager=_manager(request, query), force=query.flag("force"),
            dry_run=query.dry_run(),
        )  # fmt: skip
        return _json(msgspec.json.encode(patched))

    async def _delete(self, request: web.Request, where: Target, query: Query) -> web.StreamResponse:
        options = await _delete_options(request, query)
        deletion = self.store.delete(where.resource.plural, where.name, namespace=where.namespace, **options)
        if deletion.gone and where.resource.plural != "pods":
            success = {
                "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": {
                    "name": where.name, "group": where.resource.group, "kind": where.resource.plural,
                    "uid": deletion.object["metadata"]["uid"],
                },
            }  # fmt: skip
            return _json(json.dumps(success).encode())
        return _json(msgspec.json.encode(deletion.object))

    async def _delete_collection(self, request: web.Request, where: Target, query: Query) -> web.StreamResponse:
        options = await _delete_options(request, query)
        page = lists.read_page(self.store, where.resource, _selector(where, query), query)
        for record in page.records:
            self.store.delete(where.resource.plural, record.name, namespace=record.namespace, **options)
        return _json(lists.as_json(where.resource, page, [item(where.resource, record) for record in page.records]))


def _selector(where: Target, query: Query) -> selectors.Selector:
    return selectors.parse(
        where.resource, namespace=where.namespace, labels=query.text("labelSelector"), fields=query.text("fieldSelector")
    )


def _verb(method: str, where: Target, query: Query) -> str:
    if method in ("GET", "HEAD"):
        if where.name:
            return "get"
        return "watch" if query.flag("watch") else "list"
    if method == "DELETE":
        return "delete" if where.name else "deletecollection"
    verb = {"POST": "create", "PUT": "update", "PATCH": "patch"}.get(method)
    if verb is None:
        raise errors.method_not_allowed()
    return verb


def _check_served(where: Target, verb: str) -> None:
    """404 for a subresource that is not there, 405 for a verb that it does not have."""
    resource = where.resource
    allowed: dict[str, tuple[str, ...]] = {"": resource.verbs}
    if resource.status:
        allowed["status"] = ("get", "patch", "update")
    if resource.plural == "pods":
        allowed["binding"] = ("create",)
    if resource.plural == "namespaces":
        allowed["finalize"] = ("update",)
    if where.subresource not in allowed:
        raise errors.no_such_path()
    needs_name = verb in ("update", "patch") or bool(where.subresource)
    if verb not in allowed[where.subresource] or needs_name != bool(where.name) and verb in ("create", "update", "patch"):
        raise errors.method_not_allowed()


def _document(path: str) -> dict[str, Any] | None:
    if path == "/version":
        return discovery.version()
    if path == "/api":
        return discovery.core_versions()
    if path == "/apis":
        return discovery.groups()
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) == 2:
        return discovery.resources("", parts[1])
    if parts[0] == "apis" and len(parts) == 2:
        return discovery.group(parts[1])
    if parts[0] == "apis" and len(parts) == 3:
        return discovery.resources(parts[1], parts[2])
    return None


def _review(body: Any, user: User) -> dict[str, Any]:
    spec = body.get("spec") or {}
    attributes = spec.get("resourceAttributes") or {}
    allowed = auth.may(
        user, attributes.get("verb", ""), attributes.get("group", ""), attributes.get("resource", "")
    )
    return {
        "kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
        "metadata": {"creationTimestamp": None}, "spec": spec, "status": {"allowed": allowed},
    }  # fmt: skip


def _manager(request: web.Request, query: Query) -> str:
    return query.text("fieldManager") or request.headers.get("User-Agent", "unknown").split("/")[0]


async def _body(request: web.Request) -> Any:
    raw = await request.read()
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError as error:
        raise errors.bad_request(f"couldn't get version/kind; json parse error: {error}") from None


async def _object(request: web.Request, where: Target) -> dict[str, Any]:
    body = await _body(request)
    if not isinstance(body, dict):
        raise errors.bad_request("couldn't get version/kind; json parse error: an object is expected")
    return body


async def _delete_options(request: web.Request, query: Query) -> dict[str, Any]:
    body = await _body(request) if request.can_read_body else {}
    preconditions = body.get("preconditions") or {}
    grace = body.get("gracePeriodSeconds")
    if "gracePeriodSeconds" in query.values:
        grace = query.number("gracePeriodSeconds")
    return {
        "propagation": query.text("propagationPolicy") or body.get("propagationPolicy") or "",
        "grace_period_seconds": grace,
        "uid": preconditions.get("uid") or "",
        "resource_version": preconditions.get("resourceVersion") or "",
        "dry_run": query.dry_run() or "All" in (body.get("dryRun") or ()),
    }


def _json(body: bytes, *, status: int = 200) -> web.Response:
    return web.Response(
        body=body, status=status, content_type="application/json", headers={"Cache-Control": "no-cache, private"}
    )


def _refusal(error: errors.ApiError) -> web.Response:
    response = _json(json.dumps(error.as_status()).encode(), status=error.status_code)
    if "retryAfterSeconds" in error.details:
        response.headers["Retry-After"] = str(error.details["retryAfterSeconds"])
    return response
