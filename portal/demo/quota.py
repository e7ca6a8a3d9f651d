"""ResourceQuota: admission of new objects, and the status that tells what is used."""

import asyncio
from typing import TYPE_CHECKING, Any

from portal.demo import errors, usage
from portal.demo.following import changes
from portal.demo.resources import STORED, Resource
from portal.dra.quantity import Quantity

if TYPE_CHECKING:
    from portal.demo.store import Store

Object = dict[str, Any]
_MANAGER = "kube-controller-manager"
_FOLLOWED = ("resourcequotas", "resourceclaims", "pods", "jobs", "resourceclaimtemplates")
_NOTHING = Quantity.from_int(0)


def check(store: "Store", resource: Resource, new: Object) -> None:
    """403 when a quota of the namespace has no room for a new object.

    Counted is what is there now, so that nothing slips through before the quota's first status (as it may
    on a real cluster).
    """
    namespace = new["metadata"].get("namespace", "")
    quotas = store.list("resourcequotas", namespace=namespace) if namespace else []
    if not quotas:
        return
    asked = usage.of_object(resource, new, _extended_names(store))
    for quota in quotas:
        hard = _limits(quota)
        keys = sorted(asked.keys() & hard.keys())
        if not keys:
            continue
        used = _used(store, namespace, hard)
        over = [key for key in keys if hard[key] < used[key] + asked[key]]
        if over:
            texts = (
                f"{title}: {','.join(f'{key}={amounts[key]}' for key in over)}"
                for title, amounts in (("requested", asked), ("used", used), ("limited", hard))
            )
            why = f"exceeded quota: {quota['metadata']['name']}, {', '.join(texts)}"
            raise errors.forbidden(resource.group, resource.plural, new["metadata"]["name"], why)


async def keep_quotas(store: "Store", *, settle_seconds: float = 0.1) -> None:
    """Keep the status of every quota true, for ever."""
    touched: set[str] = {quota["metadata"]["namespace"] for quota in store.list("resourcequotas")}
    woken = asyncio.Event()
    woken.set()

    async def follow(plural: str) -> None:
        async for event in changes(store, plural, since=store.revision):
            if event.type != "MODIFIED" or plural in ("pods", "resourcequotas"):
                touched.add(event.object["metadata"]["namespace"])
                woken.set()

    async with asyncio.TaskGroup() as tasks:
        for plural in _FOLLOWED:
            tasks.create_task(follow(plural))
        while True:
            await woken.wait()
            # Many changes come together: count once for all of them.
            await asyncio.sleep(settle_seconds)
            woken.clear()
            for namespace in sorted(touched):
                refresh(store, namespace)
            touched.clear()


def refresh(store: "Store", namespace: str) -> None:
    """Bring the status of a namespace's quotas up to date."""
    for quota in store.list("resourcequotas", namespace=namespace):
        hard = _limits(quota)
        used = _used(store, namespace, hard)
        status = {
            "hard": {key: str(amount) for key, amount in hard.items()},
            "used": {key: str(used[key]) for key in hard},
        }
        if quota.get("status") != status:
            store.update_status("resourcequotas", {**quota, "status": status}, manager=_MANAGER)


def _limits(quota: Object) -> usage.Usage:
    return {key: Quantity.parse(text) for key, text in quota.get("spec", {}).get("hard", {}).items()}


def _used(store: "Store", namespace: str, keys: usage.Usage) -> usage.Usage:
    """What the namespace uses of ``keys``."""
    extended = _extended_names(store)
    counted = usage.total(
        usage.of_object(resource, obj, extended)
        for resource in STORED.values()
        if resource.namespaced and _matters(resource, keys)
        for obj in store.list(resource.key, namespace=namespace)
    )
    return {key: counted.get(key, _NOTHING) for key in keys}


def _extended_names(store: "Store") -> dict[str, str]:
    """The extended resource of each DeviceClass that serves one."""
    named = (item for item in store.list("deviceclasses") if "extendedResourceName" in item.get("spec", {}))
    return {item["metadata"]["name"]: item["spec"]["extendedResourceName"] for item in named}


def _matters(resource: Resource, keys: usage.Usage) -> bool:
    """Whether objects of ``resource`` can count for one of ``keys``: spares reading the others."""
    if resource.plural in ("pods", "resourceclaims"):
        return True
    return any(key == resource.plural or key.startswith(f"count/{resource.plural}") for key in keys)
