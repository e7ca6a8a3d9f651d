"""Which lists of the API are maps or sets in disguise, and by what their items are told apart."""

from typing import Any

# By the name of the field that holds the list. Everything else is replaced as a whole.
KEYS: dict[str, tuple[str, ...]] = {
    "addresses": ("type",),
    "allocatedResourcesStatus": ("name",),
    "conditions": ("type",),
    "containers": ("name",),
    "env": ("name",),
    "ephemeralContainers": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "podIPs": ("ip",),
    "ports": ("containerPort", "protocol"),
    "reservedFor": ("uid",),
    "resourceClaimStatuses": ("name",),
    "resourceClaims": ("name",),
    "secrets": ("name",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
SETS = frozenset({"finalizers"})


def keys_of(field_name: str, items: Any) -> tuple[str, ...] | None:
    """The keys by which the items of a list are told apart, or None when the list is one value.

    ``devices`` are keyed only in the status of claims, which their items show.
    """
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        return None
    if field_name == "devices" and items and all("driver" in item and "device" in item for item in items):
        return ("driver", "device", "pool", "shareID")
    return KEYS.get(field_name)


def key_of(item: dict[str, Any], keys: tuple[str, ...]) -> tuple[Any, ...]:
    """The identity of an item; a key that is left out counts as its default."""
    return tuple(item.get(key, "TCP" if key == "protocol" else None) for key in keys)
