"""The API server over HTTP: authentication, authorisation, and one method for each verb."""

import asyncio
import gzip
import json
import logging
from typing import Any

import msgspec
from aiohttp import web

from portal.demo import (
    answers,
    auth,
    bodies,
    conversion,
    discovery,
    errors,
    lists,
    openapi,
    patches,
    printing,
    selectors,
)
from portal.demo.auth import Accounts, User
from portal.demo.catalog import Catalog
from portal.demo.catalog import catalog as default_catalog
from portal.demo.faults import Faults
from portal.demo.records import Record
from portal.demo.requests import Query, Target, target
from portal.demo.schema import FieldReport
from portal.demo.store import Store
from portal.demo.views import single
from portal.demo.watching import Watch

_COMPRESSED_FROM = 128 * 1024  # as the real server
_BODY_LIMIT = 3 * 1024 * 1024
log = logging.getLogger(__name__)
FAULTS_PATH = "/claimdesk/faults"


class ApiServer:
    """Answers requests about one store."""

    def __init__(
        self,
        store: Store,
        accounts: Accounts,
        *,
        bookmark_seconds: float = 60.0,
        catalog: Catalog | None = None,
    ) -> None:
        """``catalog`` says which resources are served in which versions (default: those of 1.36)."""
        self.store = store
        self.catalog = catalog or default_catalog()
        self.accounts = accounts
        self.faults = Faults()
        self._bookmark_seconds = bookmark_seconds
        self.watches: set[asyncio.Task[Any]] = set()

    def runner(self) -> web.AppRunner:
        """What serves it; cleaning it up ends all watches.

        A handler is cancelled when its client goes: else a quiet watch would live on for an hour.
        """
        return web.AppRunner(
            self._application(), access_log=None, shutdown_timeout=1.0, handler_cancellation=True
        )

    def _application(self) -> web.Application:
        app = web.Application(client_max_size=_BODY_LIMIT)
        app.router.add_route("*", "/{path:.*}", self._handle)
        app.on_shutdown.append(self._end_watches)
        return app

    async def _end_watches(self, _app: web.Application) -> None:
        for task in list(self.watches):
            task.cancel()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        try:
            user = self.accounts.authenticate(request.headers.get("Authorization", ""))
            if request.path != FAULTS_PATH:
                await self.faults.before(request.path)
            return await self._route(request, user)
        except errors.ApiError as error:
            return answers.refusal(error)
        except web.HTTPRequestEntityTooLarge:
            message = f"Request entity too large: limit is {_BODY_LIMIT}"
            return answers.refusal(errors.ApiError(413, "RequestEntityTooLarge", message))
        except Exception as error:
            log.exception("%s %s", request.method, request.path)
            return answers.refusal(errors.internal(str(error)))

    async def _route(self, request: web.Request, user: User) -> web.StreamResponse:
        path = request.path
        verb = request.method.lower()
        where = target(path, self.catalog)
        if where is None:
            auth.demand_path(user, verb, path)
            return await self._elsewhere(request, user)
        query = Query(request.query)
        verb = _verb(request.method, where, query)
        auth.demand(
            user,
            verb,
            where.resource,
            namespace=where.namespace,
            name=where.name,
            subresource=where.subresource,
        )
        _check_served(where, verb)
        if verb == "watch":
            return await self._watch(request, where, query)
        if verb == "list":
            return await self._list(request, where, query)
        if verb == "get":
            resource = where.resource
            record = self.store.record(resource.key, where.name, namespace=where.namespace)
            if printing.wanted(request.headers.get("Accept", "")):
                return self._table(where, [record], {"resourceVersion": str(record.revision)})
            return answers.as_json(single(resource, record))
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
            self.faults.set(await bodies.read_object(request))
            return answers.as_json(b"{}")
        if path == "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews" and request.method == "POST":
            return answers.as_json(
                json.dumps(auth.review(await bodies.read_object(request), user)).encode(), status=201
            )
        document = _document(path, self.catalog)
        if document is None:
            raise errors.no_such_path()
        if request.method not in ("GET", "HEAD"):
            raise errors.method_not_allowed()
        return answers.as_json(json.dumps(document).encode())

    async def _list(self, request: web.Request, where: Target, query: Query) -> web.StreamResponse:
        page = lists.read_page(self.store, where.resource, _selector(where, query), query)
        if printing.wanted(request.headers.get("Accept", "")):
            return self._table(where, page.records, lists.metadata_of(page))
        body = lists.as_json(where.resource, page)
        if len(body) > _COMPRESSED_FROM and "gzip" in request.headers.get("Accept-Encoding", ""):
            # In a thread: compressing megabytes must not hold up the watches.
            packed = await asyncio.to_thread(gzip.compress, body, 1)
            response = answers.as_json(packed)
            response.headers["Content-Encoding"] = "gzip"
            return response
        return answers.as_json(body)

    def _table(self, where: Target, records: list[Record], metadata: dict[str, Any]) -> web.Response:
        return answers.as_json(printing.as_table(where.resource, records, metadata, now=self.store.now()))

    async def _watch(self, request: web.Request, where: Target, query: Query) -> web.StreamResponse:
        watch = Watch(
            self.store,
            where.resource,
            _selector(where, query),
            query,
            bookmark_seconds=self._bookmark_seconds,
        )
        response = web.StreamResponse(
            headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
        )
        response.enable_chunked_encoding()
        await response.prepare(request)
        task = asyncio.current_task()
        assert task is not None
        self.watches.add(task)
        try:
            await watch.stream(response, self.faults)
            await response.write_eof()
        except ConnectionResetError:
            if request.transport is not None:
                request.transport.abort()
        finally:
            self.watches.discard(task)
        return response

    async def _create(self, request: web.Request, where: Target, query: Query) -> web.StreamResponse:
        body = await bodies.read_object(request)
        manager = bodies.manager(request, query)
        if where.subresource == "binding":
            node = bodies.part(body, "target").get("name") or ""
            self.store.bind(
                where.name, node, namespace=where.namespace, manager=manager, dry_run=query.dry_run()
            )
            success = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
            return answers.as_json(msgspec.json.encode(success), status=201)
        report = bodies.report(query)
        created = self.store.create(
            where.resource.key,
            self._incoming(where, body, report),
            namespace=where.namespace,
            manager=manager,
            dry_run=query.dry_run(),
            report=report,
        )
        return answers.written(conversion.served(where.resource, created), report, status=201)

    async def _update(self, request: web.Request, where: Target, query: Query) -> web.StreamResponse:
        body = await bodies.read_object(request)
        named = bodies.part(body, "metadata").get("name") or ""
        if named != where.name:
            raise errors.bad_request(
                f"the name of the object ({named}) does not match the name on the URL ({where.name})"
                if named
                else "name must be provided"
            )
        report = bodies.report(query)
        updated = self.store.update(
            where.resource.key,
            self._incoming(where, body, report),
            namespace=where.namespace,
            subresource=where.subresource,
            manager=bodies.manager(request, query),
            dry_run=query.dry_run(),
            report=report,
        )
        return answers.written(conversion.served(where.resource, updated), report)

    async def _patch(self, request: web.Request, where: Target, query: Query) -> web.StreamResponse:
        kind = bodies.PATCH_KINDS.get(request.content_type)
        if kind is None or (kind == "strategic" and where.resource.custom):
            accepted = [name for name, known in bodies.PATCH_KINDS.items() if known != "strategic"]
            raise errors.unsupported_media_type(accepted if kind else tuple(bodies.PATCH_KINDS))
        if kind == "apply" and not query.text("fieldManager"):
            cause = errors.Cause(
                "fieldManager", "FieldValueRequired", "Required value: is required for apply patch"
            )
            raise errors.invalid("meta.k8s.io", "PatchOptions", "", [cause])
        report = bodies.report(query)
        body = await bodies.read_body(request)
        existed = self.store.exists(where.resource.key, where.name, namespace=where.namespace)
        if where.resource.stored_as and kind == "apply" and isinstance(body, dict):
            body = self._incoming(where, body, report)
        elif where.resource.stored_as and kind != "apply":
            # A patch speaks of the fields of the version that it is sent to.
            kind, body = "json", self._whole(where, body, kind, report)
        patched = self.store.patch(
            where.resource.key,
            where.name,
            body,
            namespace=where.namespace,
            kind=kind,
            subresource=where.subresource,
            manager=bodies.manager(request, query),
            force=query.flag("force"),
            dry_run=query.dry_run(),
            report=report,
        )
        shown = conversion.served(where.resource, patched)
        return answers.written(shown, report, status=200 if existed else 201)

    def _incoming(self, where: Target, body: dict[str, Any], report: FieldReport) -> dict[str, Any]:
        return conversion.incoming(where.resource, body, self.store.features, report)

    def _whole(
        self, where: Target, body: Any, kind: patches.PatchKind, report: FieldReport
    ) -> list[dict[str, Any]]:
        """A patch of another version, as a JSON patch that sets the whole stored object."""
        stored = self.store.get(where.resource.key, where.name, namespace=where.namespace)
        changed = patches.changed(conversion.served(where.resource, stored), body, kind=kind)
        return [{"op": "replace", "path": "", "value": self._incoming(where, changed, report)}]

    async def _delete(self, request: web.Request, where: Target, query: Query) -> web.StreamResponse:
        options = await bodies.delete_options(request, query)
        deletion = self.store.delete(where.resource.key, where.name, namespace=where.namespace, **options)
        if deletion.gone and not where.resource.returns_deleted:
            return answers.as_json(
                msgspec.json.encode(answers.deleted(where, deletion.object["metadata"]["uid"]))
            )
        return answers.as_json(msgspec.json.encode(conversion.served(where.resource, deletion.object)))

    async def _delete_collection(
        self, request: web.Request, where: Target, query: Query
    ) -> web.StreamResponse:
        options = await bodies.delete_options(request, query)
        page = lists.read_page(self.store, where.resource, _selector(where, query), query)
        plural = where.resource.key
        for record in page.records:
            await asyncio.sleep(0)  # let others in between; one of them may have been faster
            if self.store.exists(plural, record.name, namespace=record.namespace):
                self.store.delete(plural, record.name, namespace=record.namespace, **options)
        return answers.as_json(lists.as_json(where.resource, page))


def _selector(where: Target, query: Query) -> selectors.Selector:
    fields = query.text("fieldSelector")
    if where.name:
        fields = f"metadata.name={where.name},{fields}"
    return selectors.parse(
        where.resource, namespace=where.namespace, labels=query.text("labelSelector"), fields=fields
    )


def _verb(method: str, where: Target, query: Query) -> str:
    if method in ("GET", "HEAD"):
        if query.flag("watch") and not where.subresource:
            return "watch"
        return "get" if where.name else "list"
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
    misplaced = verb in ("update", "patch") and not where.name
    misplaced = misplaced or (verb == "create" and bool(where.name) != bool(where.subresource))
    misplaced = misplaced or (verb == "create" and resource.namespaced and not where.namespace)
    if misplaced or verb not in allowed[where.subresource]:
        raise errors.method_not_allowed()


def _document(path: str, catalog: Catalog) -> dict[str, Any] | None:
    """A discovery document, or None when there is none at this path."""
    document: dict[str, Any] | None = None
    match path.strip("/").split("/"):
        case ["version"]:
            document = discovery.version(catalog)
        case ["api"]:
            document = discovery.core_versions()
        case ["apis"]:
            document = discovery.groups(catalog)
        case ["api", version]:
            document = discovery.resources(catalog, "", version)
        case ["apis", group]:
            document = discovery.group(catalog, group)
        case ["apis", group, version]:
            document = discovery.resources(catalog, group, version)
        case ["openapi", "v3", *_]:
            document = openapi.document(path, catalog)
    return document
