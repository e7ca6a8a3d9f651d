"""What controllers share: views of every resource, and small ways to write."""

import hashlib
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from portal.demo.errors import ApiError
from portal.demo.records import Key
from portal.demo.resources import BY_GROUP_KIND, BY_KIND, STORED
from portal.demo.store import Object, Store, timestamp
from portal.dra.model import (
    DeviceClass,
    DeviceTaintRule,
    Node,
    ObjectMeta,
    OwnerReference,
    Pod,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)

from .view import Described, Index, View, decoder

FINISHED = frozenset({"Succeeded", "Failed"})
REPEAT_EVENT_SECONDS = 30.0


class World:
    """The store, seen as structs. Resources without a struct of their own are seen by their metadata only."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.pods = View(store, "pods", decoder(Pod))
        self.nodes = View(store, "nodes", decoder(Node))
        self.claims = View(store, "resourceclaims", decoder(ResourceClaim))
        self.templates = View(store, "resourceclaimtemplates", decoder(ResourceClaimTemplate))
        self.classes = View(store, "deviceclasses", decoder(DeviceClass))
        self.slices = View(store, "resourceslices", decoder(ResourceSlice))
        self.taint_rules = View(store, "devicetaintrules", decoder(DeviceTaintRule))
        self.jobs = View(store, "jobs", decoder(Described))
        self.namespaces = View(store, "namespaces", decoder(Described))
        self.quotas = View(store, "resourcequotas", decoder(Described))
        self.accounts = View(store, "serviceaccounts", decoder(Described))
        self.pod_groups = View(store, "podgroups", decoder(Described))
        self.groupings = View(store, "workloads", decoder(Described))
        self.workloads = View(store, "workloads.kueue.x-k8s.io", decoder(Described))
        self.cluster_queues = View(store, "clusterqueues.kueue.x-k8s.io", decoder(Described))
        self.local_queues = View(store, "localqueues.kueue.x-k8s.io", decoder(Described))
        self.flavors = View(store, "resourceflavors.kueue.x-k8s.io", decoder(Described))

        self.views: dict[str, View[Any]] = {
            view.plural: view for view in vars(self).values() if isinstance(view, View)
        }
        self.pods_on = Index(self.pods, lambda pod: [pod.spec.node_name] if pod.spec.node_name else [])

    def refresh(self) -> None:
        """Catch up with everything."""
        for view in self.views.values():
            view.refresh()

    @property
    def now(self) -> datetime:
        """The cluster's clock."""
        return self.store.now()

    def stamp(self) -> str:
        """The present as the API writes it."""
        return timestamp(self.store.now())

    @staticmethod
    def parse(stamp: str) -> datetime:
        """A time that the API has written."""
        return datetime.fromisoformat(stamp)

    def event(
        self, about: Object, *, kind: str, reason: str, message: str, component: str, warning: bool = False
    ) -> None:
        """Tell people what happened to ``about``; the same thing again only counts up, and not more than
        needed."""
        metadata = about["metadata"]
        namespace = metadata.get("namespace") or "default"
        digest = hashlib.sha256(f"{metadata.get('uid')}{reason}{message}".encode()).hexdigest()[:16]
        name = f"{metadata['name'][:230]}.{digest}"
        known = self.store.find("events", name, namespace=namespace)
        stamp = self.stamp()
        if known is not None:
            last = datetime.fromisoformat(
                known.get("lastTimestamp") or known["metadata"]["creationTimestamp"]
            )
            if (self.now - last).total_seconds() >= REPEAT_EVENT_SECONDS:
                known["count"] = known.get("count", 1) + 1
                known["lastTimestamp"] = stamp
                self.store.update("events", known, namespace=namespace, manager=component)
            return
        resource = BY_KIND[about["apiVersion"], kind]
        self.store.create(
            "events",
            {
                "apiVersion": "v1",
                "kind": "Event",
                "metadata": {"name": name, "namespace": namespace},
                "involvedObject": {
                    "apiVersion": resource.api_version,
                    "kind": kind,
                    "name": metadata["name"],
                    **({"namespace": namespace} if resource.namespaced else {}),
                    "uid": metadata.get("uid", ""),
                    "resourceVersion": metadata.get("resourceVersion", ""),
                },
                "reason": reason,
                "message": message[:1024],
                "type": "Warning" if warning else "Normal",
                "source": {"component": component},
                "reportingComponent": component,
                "reportingInstance": "",
                "firstTimestamp": stamp,
                "lastTimestamp": stamp,
                "count": 1,
            },
            namespace=namespace,
            manager=component,
        )

    def delete(self, plural: str, key: Key, *, uid: str = "", **options: Any) -> bool:
        """Delete an object if it is (still) there; ``uid`` guards against a namesake. Whether it was
        there."""
        namespace, name = key
        try:
            self.store.delete(plural, name, namespace=namespace, uid=uid, **options)
        except ApiError as error:
            if error.status_code not in (404, 409):
                raise
            return False
        return True


def controller_of(metadata: ObjectMeta) -> OwnerReference | None:
    """The one owner that manages the object, if there is one."""
    return next((owner for owner in metadata.owner_references if owner.controller), None)


def owner_reference(obj: Object) -> Object:
    """A reference by which ``obj`` becomes the managing owner of another object."""
    return {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_finished(pod: Pod) -> bool:
    """Whether a Pod has come to its end and uses nothing any more."""
    return pod.status.phase in FINISHED


def set_condition(conditions: Iterable[Object], new: Object, *, now: str) -> list[Object]:
    """The conditions with ``new`` in place of the one of its type; its transition time moves only with its
    status."""
    kept = []
    moved = now
    for condition in conditions:
        if condition.get("type") != new["type"]:
            kept.append(condition)
        elif condition.get("status") == new["status"]:
            moved = condition.get("lastTransitionTime") or now
    return [*kept, {**new, "lastTransitionTime": moved}]


def plural_of(reference: OwnerReference) -> str | None:
    """The resource that an owner reference points to; None for kinds that this cluster does not have."""
    group = reference.api_version.rpartition("/")[0]  # whatever the version: the objects are the same
    resource = BY_GROUP_KIND.get((group, reference.kind))
    return None if resource is None else resource.key


__all__ = [
    "STORED",
    "World",
    "controller_of",
    "is_finished",
    "owner_reference",
    "plural_of",
    "set_condition",
]
