"""A cluster in a dictionary, for everything between a request and the API server."""

import copy
import itertools
from collections.abc import Mapping
from typing import Any, Self

from portal.kube import errors
from portal.kube.resources import Resource


class FakeCluster:
    """Objects by (plural, namespace, name). `fail` is raised by calls of a verb until it is cleared."""

    def __init__(self, *classes: str) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.fail: dict[str, errors.ClusterError] = {}
        # Fields that the server drops silently, as one does whose gate is off.
        self.drops: set[str] = set()
        self.calls: list[tuple[str, str, str, bool]] = []
        # Finalizers: a deletion only marks these.
        self.keeps: set[str] = set()
        self._uids = (f"uid-{n}" for n in itertools.count(1))
        for name in classes:
            self.objects["deviceclasses", "", name] = {"metadata": {"name": name}}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def get(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        self._call("get", resource, name)
        try:
            return copy.deepcopy(self.objects[resource.plural, namespace, name])
        except KeyError:
            raise errors.NotFound(f"{resource.plural} {name!r} not found", status=404) from None

    def create(
        self, resource: Resource, body: Mapping[str, Any], *, namespace: str = "", dry_run: bool = False
    ) -> dict[str, Any]:
        name = body["metadata"]["name"]
        self._call("create", resource, name, dry_run=dry_run)
        key = (resource.plural, namespace, name)
        if key in self.objects:
            raise errors.AlreadyExists(f"{resource.plural} {name!r} already exists", status=409)
        stored = _without(copy.deepcopy(dict(body)), self.drops)
        stored["metadata"]["uid"] = next(self._uids)
        if not dry_run:
            self.objects[key] = stored
        return copy.deepcopy(stored)

    def replace(
        self, resource: Resource, name: str, body: Mapping[str, Any], *, namespace: str = ""
    ) -> dict[str, Any]:
        self._call("replace", resource, name)
        key = (resource.plural, namespace, name)
        if key not in self.objects:
            raise errors.NotFound(f"{resource.plural} {name!r} not found", status=404)
        self.objects[key] = copy.deepcopy(dict(body))
        return copy.deepcopy(self.objects[key])

    def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        uid: str = "",
        grace_period_seconds: int | None = None,  # noqa: ARG002 - as the client has it
        dry_run: bool = False,
    ) -> dict[str, Any]:
        self._call("delete", resource, name, dry_run=dry_run)
        key = (resource.plural, namespace, name)
        if key not in self.objects:
            raise errors.NotFound(f"{resource.plural} {name!r} not found", status=404)
        if uid and self.objects[key]["metadata"]["uid"] != uid:
            raise errors.Conflict("the uid differs", status=409)
        if name in self.keeps:
            self.objects[key]["metadata"]["deletionTimestamp"] = "2026-11-01T12:00:00Z"
            return {}
        return self.objects.pop(key)

    def names(self, plural: str) -> list[str]:
        return sorted(name for kind, _namespace, name in self.objects if kind == plural)

    def _call(self, verb: str, resource: Resource, name: str, *, dry_run: bool = False) -> None:
        self.calls.append((verb, resource.plural, name, dry_run))
        error = self.fail.get(f"{verb} {resource.plural}") or self.fail.get(verb)
        if error is not None:
            raise error


def _without(value: Any, names: set[str]) -> Any:
    if isinstance(value, dict):
        return {key: _without(below, names) for key, below in value.items() if key not in names}
    if isinstance(value, list):
        return [_without(below, names) for below in value]
    return value
