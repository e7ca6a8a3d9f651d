"""Clusters without sockets: the embedded server's store behind the client's verbs, with faults on demand."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from inventory.models import Cluster, DeviceClass
from portal.demo.errors import ApiError
from portal.demo.namespaces import found_first
from portal.demo.store import Store
from portal.dra.features import Features
from portal.kube import errors
from portal.kube.resources import DEVICE_CLASSES, Resource
from tests.inventory_proposals.builders import NOW

Json = dict[str, Any]
KEY = "deviceclasses.resource.k8s.io"


class Killed(BaseException):
    """The process ends here: nothing of ours catches it."""


@dataclass
class Shelf:
    """One cluster. `before` and `after` are called around every call with (verb, dry run)."""

    row: Cluster
    store: Store
    plural: str
    calls: list[str] = field(default_factory=list)
    before: Callable[[str], None] = lambda _verb: None
    after: Callable[[str], None] = lambda _verb: None

    # --- the verbs of `portal.kube.client.Client` -----------------------------------------------------

    def served(self, _group: str) -> dict[str, dict[str, Resource]]:
        return {"resource.k8s.io/v1": {"deviceclasses": DEVICE_CLASSES}}

    def get(self, _resource: Resource, name: str) -> Json:
        return self._do("get", lambda: self.store.get(self.plural, name))

    def apply(
        self, _resource: Resource, name: str, body: Mapping[str, Any], *, field_manager: str, force: bool,
        dry_run: bool,
    ) -> Json:  # fmt: skip
        return self._do(
            "try apply" if dry_run else "apply",
            lambda: self.store.patch(
                self.plural,
                name,
                dict(body),
                kind="apply",
                manager=field_manager,
                force=force,
                dry_run=dry_run,
            ),
        )

    def replace(
        self, _resource: Resource, _name: str, body: Mapping[str, Any], *, dry_run: bool = False
    ) -> Json:
        return self._do(
            "try replace" if dry_run else "replace",
            lambda: self.store.update(self.plural, dict(body), manager="claimdesk", dry_run=dry_run),
        )

    def delete(
        self, _resource: Resource, name: str, *, uid: str, resource_version: str, dry_run: bool = False
    ) -> Json:
        return self._do(
            "try delete" if dry_run else "delete",
            lambda: (
                self.store.delete(
                    self.plural, name, uid=uid, resource_version=resource_version, dry_run=dry_run
                ).object
            ),
        )

    def _do(self, verb: str, act: Callable[[], Json]) -> Json:
        self.before(verb)
        self.calls.append(verb)
        try:
            answer = act()
        except ApiError as error:
            body = msgspec.json.encode(error.as_status())
            raise errors.from_answer(status=error.status_code, body=body) from None
        self.after(verb)
        return msgspec.json.decode(msgspec.json.encode(answer), type=dict[str, Any])

    # --- what others do there ---------------------------------------------------------------------------

    def make(self, name: str, *expressions: str, manager: str = "helm", **spec: Any) -> None:
        """Somebody else makes a class; the mirror sees it."""
        body = {
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name},
            "spec": rules(*expressions, **spec),
        }  # fmt: skip
        self.store.create(self.plural, body, manager=manager)
        self.mirror(name)

    def change(
        self, name: str, *expressions: str, manager: str = "helm", seen: bool = True, **spec: Any
    ) -> None:
        """Somebody else changes it."""
        body = self.store.get(self.plural, name) | {"spec": rules(*expressions, **spec)}
        self.store.update(self.plural, body, manager=manager)
        if seen:
            self.mirror(name)

    def spec(self, name: str) -> Json | None:
        found = self.store.find(self.plural, name)
        return found["spec"] if found else None

    def mirror(self, name: str) -> None:
        """The mirror sees what there is."""
        found = self.store.find(self.plural, name)
        if found is None:
            DeviceClass.objects.filter(cluster=self.row, name=name).delete()
            return
        metadata = found["metadata"]
        DeviceClass.objects.update_or_create(
            cluster=self.row,
            name=name,
            defaults={
                "uid": metadata["uid"],
                "resource_version": metadata["resourceVersion"],
                "spec": found["spec"],
                "labels": metadata.get("labels", {}),
                "created_at": NOW,
                "extended_resource_name": found["spec"].get("extendedResourceName", ""),
            },
        )


@dataclass
class World:
    """Several clusters by name, and `client_for` for the roll-out."""

    shelves: dict[str, Shelf] = field(default_factory=dict)

    def add(self, name: str, *, features: Features | None = None) -> Shelf:
        row = Cluster.objects.create(
            name=name, credentials=Cluster.Credentials.KUBECONFIG, created_at=NOW, server_version="v1.36.2"
        )
        store = Store(features=features)
        found_first(store)
        plural = next(key for key in store.tables if key.partition(".")[0] == "deviceclasses")
        self.shelves[name] = Shelf(row, store, plural)
        return self.shelves[name]

    @contextmanager
    def client_for(self, cluster: Cluster) -> Iterator[Any]:
        yield self.shelves[cluster.name]


def rules(*expressions: str, **more: Any) -> Json:
    """A spec."""
    return {"selectors": [{"cel": {"expression": text}} for text in expressions], **more}
