"""The namespace controller: a default ServiceAccount in each, and the emptying of those that are deleted."""

import asyncio
import logging

from portal.demo import errors
from portal.demo.following import changes
from portal.demo.resources import STORED
from portal.demo.store import Store

log = logging.getLogger(__name__)
FIRST_NAMESPACES = ("default", "kube-system", "kube-public", "kube-node-lease")
_MANAGER = "kube-controller-manager"


def found_first(store: Store) -> None:
    """Create the namespaces that every cluster has."""
    for name in FIRST_NAMESPACES:
        if store.find("namespaces", name) is None:
            store.create("namespaces", {"metadata": {"name": name}}, manager="kube-apiserver")


async def keep_namespaces(store: Store, *, retry_seconds: float = 0.2) -> None:
    """Follow the namespaces for ever; emptying is tried again while objects wait for their finalizers."""
    emptying: set[str] = set()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_follow(store, emptying))
        while True:
            await asyncio.sleep(retry_seconds)
            for name in sorted(emptying):
                try:
                    if empty(store, name):
                        emptying.discard(name)
                except errors.ApiError as error:
                    log.warning("namespace %s cannot be emptied yet: %s", name, error.message)


async def _follow(store: Store, emptying: set[str]) -> None:
    async for event in changes(store, "namespaces"):
        name = event.object["metadata"]["name"]
        if event.type == "DELETED":
            continue
        if event.object["metadata"].get("deletionTimestamp"):
            emptying.add(name)
            continue
        try:
            give_service_account(store, name)
        except errors.ApiError as error:
            log.warning("namespace %s gets no ServiceAccount: %s", name, error.message)


def give_service_account(store: Store, name: str) -> None:
    """Every namespace has a ServiceAccount ``default``."""
    namespace = store.find("namespaces", name)
    if namespace is None or namespace["metadata"].get("deletionTimestamp"):
        return
    if store.find("serviceaccounts", "default", namespace=name) is None:
        store.create("serviceaccounts", {"metadata": {"name": "default"}}, namespace=name, manager=_MANAGER)


def empty(store: Store, name: str) -> bool:
    """Delete what is in a terminating namespace, then the namespace; False while something is left."""
    namespace = store.find("namespaces", name)
    if namespace is None or not namespace["metadata"].get("deletionTimestamp"):
        return True
    left = False
    for resource in STORED.values():
        if not resource.namespaced:
            continue
        for obj in store.list(resource.key, namespace=name):
            if not obj["metadata"].get("deletionTimestamp"):
                store.delete(resource.key, obj["metadata"]["name"], namespace=name, propagation="Background")
        left = left or bool(store.list(resource.key, namespace=name))
    if left:
        return False
    namespace["spec"]["finalizers"] = []
    store.update("namespaces", namespace, subresource="finalize", manager=_MANAGER)
    return True
