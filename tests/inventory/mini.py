"""A cluster of a few dictionaries behind a real socket, for faults that a test wants at one exact moment."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.inventory.conftest import RESOURCES
from tests.inventory.objects import Json
from tests.kube.scripted import Received, Reply, ScriptedServer, line, scripted, status

KINDS = {resource.plural: resource.kind for resource in RESOURCES.values()}


@dataclass
class Mini:
    """Objects by plural and (namespace, name). Faults are used up in order: each of `lists` and `watches`
    answers the next list or watch of its resource instead of us (None = answer as usual)."""

    objects: dict[str, dict[tuple[str, str], Json]] = field(default_factory=dict)
    log: list[tuple[str, int, str, Json]] = field(default_factory=list)
    version: int = 100
    # Watches from before this version get 410.
    compacted: int = 0
    page_size: int = 500
    lists: dict[str, list[Reply | None]] = field(default_factory=dict)
    watches: dict[str, list[Reply | None]] = field(default_factory=dict)
    everything: Reply | None = None
    served_versions: tuple[str, ...] = ("v1",)
    missing: frozenset[str] = frozenset()
    changed: threading.Condition = field(default_factory=threading.Condition)
    closed: bool = False
    generation: int = 0

    # --- what happens on the cluster ------------------------------------------------------------------

    def put(self, *objects: Json, quietly: bool = False) -> None:
        """Create or replace; `quietly` writes no history (it was compacted at once)."""
        for obj in objects:
            plural = next(p for p, kind in KINDS.items() if kind == obj["kind"])
            key = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
            with self.changed:
                self.version += 1
                obj["metadata"]["resourceVersion"] = str(self.version)
                kind = "MODIFIED" if key in self.objects.get(plural, {}) else "ADDED"
                self.objects.setdefault(plural, {})[key] = json.loads(json.dumps(obj))
                if not quietly:
                    self.log.append((plural, self.version, kind, json.loads(json.dumps(obj))))
                self.changed.notify_all()

    def drop(self, obj: Json, *, quietly: bool = False) -> None:
        plural = next(p for p, kind in KINDS.items() if kind == obj["kind"])
        key = (obj["metadata"].get("namespace", ""), obj["metadata"]["name"])
        with self.changed:
            self.version += 1
            gone = self.objects[plural].pop(key)
            gone["metadata"]["resourceVersion"] = str(self.version)
            if not quietly:
                self.log.append((plural, self.version, "DELETED", gone))
            self.changed.notify_all()

    def end_watches(self) -> None:
        """The server ends all watches, in good order."""
        with self.changed:
            self.generation += 1
            self.changed.notify_all()

    # --- how it answers -------------------------------------------------------------------------------

    def __call__(self, request: Received) -> Reply:
        if self.everything is not None:
            return self.everything
        plural = request.path.rpartition("/")[2]
        if request.path == "/version":
            return Reply(body={"gitVersion": "v1.36.2"})
        if request.path.startswith("/apis/resource.k8s.io") and request.path.count("/") < 4:
            return self._discovery(request.path)
        if plural == "selfsubjectaccessreviews":
            return Reply(status=201, body={"status": {"allowed": True}})
        if plural not in KINDS:
            return Reply(status=404, body=status(404, "NotFound", "no such thing"))
        return self._planned(plural, request) or self._usual(plural, request)

    def _planned(self, plural: str, request: Received) -> Reply | None:
        if request.query.get("limit") == "1":
            return None
        planned = (self.watches if "watch" in request.query else self.lists).get(plural)
        return planned.pop(0) if planned else None

    def _usual(self, plural: str, request: Received) -> Reply:
        return self._watch(plural, request) if "watch" in request.query else self._list(plural, request)

    def _discovery(self, path: str) -> Reply:
        if path == "/apis/resource.k8s.io":
            versions = [{"groupVersion": f"resource.k8s.io/{v}"} for v in self.served_versions]
            return Reply(body={"versions": versions, "preferredVersion": versions[0]})
        resources = [
            {"name": r.plural, "kind": r.kind, "namespaced": r.namespaced}
            for r in RESOURCES.values()
            if r.group == "resource.k8s.io" and r.plural not in self.missing
        ]
        return Reply(body={"resources": resources})

    def _list(self, plural: str, request: Received) -> Reply:
        with self.changed:
            found = sorted(self.objects.get(plural, {}).items())
            start = int(request.query.get("continue") or 0)
            limit = min(self.page_size, int(request.query.get("limit") or 500))
            page = [obj for _, obj in found[start : start + limit]]
            more = str(start + limit) if start + limit < len(found) else ""
            metadata = {"resourceVersion": str(self.version), "continue": more}
            # As API servers do it: what the items are stands only in the list's own kind.
            items = [{k: v for k, v in obj.items() if k not in {"kind", "apiVersion"}} for obj in page]
            return Reply(body={"metadata": metadata, "items": items})

    def _watch(self, plural: str, request: Received) -> Reply:
        since = int(request.query["resourceVersion"])
        if since < self.compacted:
            return Reply(status=410, body=status(410, "Expired", "too old resource version"))
        return Reply(stream=self._follow(plural, since, float(request.query["timeoutSeconds"])))

    def _follow(self, plural: str, since: int, seconds: float) -> Iterator[bytes]:
        generation = self.generation
        ends_at = time.monotonic() + seconds
        position = 0
        while True:
            with self.changed:
                while not (self.closed or self.generation != generation or len(self.log) > position):
                    if not self.changed.wait(max(0.0, ends_at - time.monotonic())):
                        break
                if self.closed or self.generation != generation or time.monotonic() >= ends_at:
                    return
                news, position = self.log[position:], len(self.log)
            for kind, version, event, obj in news:
                if kind == plural and version > since:
                    yield line(event, obj)


@contextmanager
def mini_cluster() -> Iterator[tuple[Mini, ScriptedServer]]:
    mini = Mini()
    with scripted(mini) as server:
        try:
            yield mini, server
        finally:
            with mini.changed:
                mini.closed = True
                mini.changed.notify_all()
