"""An API server of the embedded cluster in a thread of the test, and a small client over a real socket."""

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import urllib3
from aiohttp import web

from portal.demo.auth import Accounts
from portal.demo.catalog import Catalog, catalog
from portal.demo.journal import SqliteJournal
from portal.demo.namespaces import found_first, keep_namespaces
from portal.demo.server import ApiServer
from portal.demo.store import Store

T = TypeVar("T")
TOKENS = {"admin": "token-of-admin", "portal": "token-of-portal", "reader": "token-of-reader"}
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/lab/resourceclaims"
PODS = "/api/v1/namespaces/lab/pods"
Object = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    """A response: its code, its JSON, its headers."""

    code: int
    body: Any
    headers: Any
    raw: bytes = b""


@dataclass
class Api:
    """A running server. ``call`` speaks HTTP to it; ``run`` does something to its store, inside its loop."""

    url: str
    server: ApiServer
    loop: asyncio.AbstractEventLoop
    pool: urllib3.PoolManager = field(default_factory=lambda: urllib3.PoolManager(retries=False, timeout=10))

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        user: str = "admin",
        content_type: str = "application/json",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """One request. ``body`` is sent as JSON unless it is bytes."""
        sent = {"User-Agent": "tester/1.0", **(headers or {})}
        if user:
            sent["Authorization"] = f"Bearer {TOKENS.get(user, user)}"
        if body is not None:
            sent["Content-Type"] = content_type
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        response = self.pool.request(method, self.url + path, body=data, headers=sent)
        is_json = response.headers.get("Content-Type", "").startswith("application/json")
        content = json.loads(response.data) if is_json and response.data else response.data
        return Answer(response.status, content, response.headers, response.data)

    def ok(self, method: str, path: str, body: Any = None, **rest: Any) -> Any:
        """As ``call``, for requests that have to succeed; gives the JSON."""
        answer = self.call(method, path, body, **rest)
        assert answer.code < 400, answer.body
        return answer.body

    @contextmanager
    def watch(self, path: str, *, user: str = "admin") -> Iterator[Iterator[Object]]:
        """The events of a watch, as they come."""
        response = self.pool.request(
            "GET",
            self.url + path,
            headers={"Authorization": f"Bearer {TOKENS[user]}"},
            preload_content=False,
        )
        assert response.status == 200, response.data
        try:
            yield _lines(response)
        finally:
            response.close()

    def run(self, action: Callable[[Store], T]) -> T:
        """Do something to the store, where it is safe, and give what it gives."""

        async def act() -> T:
            return action(self.server.store)

        return asyncio.run_coroutine_threadsafe(act(), self.loop).result(timeout=30)


def _lines(response: Any) -> Iterator[Object]:
    rest = b""
    for part in response.stream(65536):
        *complete, rest = (rest + part).split(b"\n")
        for text in complete:
            yield json.loads(text)
    assert not rest, f"the watch broke off within a line: {rest!r}"


@contextmanager
def serving(data: Path | None = None, **settings: Any) -> Iterator[Api]:
    """Serve a store with the namespace ``lab``; kept in ``data`` if given."""
    bookmark_seconds = settings.pop("bookmark_seconds", 60.0)
    served: Catalog = settings.pop("catalog", None) or catalog()
    settings = {"features": served.features, "installed": served.installed, **settings}
    ready = threading.Event()
    found: dict[str, Any] = {}

    async def main() -> None:
        store = Store(journal=SqliteJournal(data) if data else None, **settings)
        found_first(store)
        if not store.exists("namespaces", "lab"):
            store.create("namespaces", {"metadata": {"name": "lab"}})
        server = ApiServer(store, Accounts(TOKENS), bookmark_seconds=bookmark_seconds, catalog=served)
        runner = server.runner()
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        stop = asyncio.Event()
        namespaces = asyncio.create_task(keep_namespaces(store, retry_seconds=0.01))
        port = runner.addresses[0][1]
        found.update(api=Api(f"http://127.0.0.1:{port}", server, asyncio.get_running_loop()), stop=stop)
        ready.set()
        await stop.wait()
        namespaces.cancel()
        await asyncio.gather(namespaces, return_exceptions=True)
        await runner.cleanup()
        store.close()

    thread = threading.Thread(target=asyncio.run, args=(main(),), daemon=True)
    thread.start()
    assert ready.wait(10), "the server did not start"
    api: Api = found["api"]
    try:
        yield api
    finally:
        api.pool.clear()
        api.loop.call_soon_threadsafe(found["stop"].set)
        thread.join(10)


def claim(name: str = "one", **metadata: Any) -> Object:
    """A ResourceClaim for one device of a class."""
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, **metadata},
        "spec": {"devices": {"requests": [request]}},
    }


def pod(name: str = "one", **spec: Any) -> Object:
    """A Pod with one container."""
    container = {"name": "main", "image": "registry.example/worker:1"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [container], **spec},
    }


def fields(answer: Answer) -> set[str]:
    """The fields that a 422 names."""
    return {cause["field"] for cause in answer.body["details"]["causes"]}
