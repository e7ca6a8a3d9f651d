"""What administrators say of node pools that can grow: reading, saving and removing it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from claims.asks.reading import WrongValue, WrongValues, read_integer, read_quantity, read_text
from claims.catalogue.placement_terms import read_labels, read_resource
from claims.models import GrowablePool
from inventory.models import Cluster
from portal.accounts import audit
from portal.accounts.models import User

MAX_NODES = 10_000
MAX_DEVICES = 1_024
COLUMNS = (
    *("name", "labels", "max_nodes", "device_class", "extended_resource", "devices"),
    *("product", "memory", "domain", "note"),
)


class UnableToChangePool(WrongValues):
    """What was said of a pool cannot be. `errors` maps fields (or WHOLE) to messages for people."""


@dataclass(frozen=True, kw_only=True)
class PoolTerms:
    """What was said, as it was read; `columns` are those of the model."""

    cluster: Cluster
    columns: Mapping[str, Any]


def read_pool(values: Mapping[str, object]) -> PoolTerms:
    """The pool in `values`: "cluster" by name, and COLUMNS. Raises UnableToChangePool with every error."""
    errors: dict[str, list[str]] = {}
    columns: dict[str, Any] = {}
    for name, reader in _READERS.items():
        try:
            columns[name] = reader(values)
        except WrongValue as error:
            errors[name] = [str(error)]
    # No name has a NUL, and PostgreSQL fails where one is looked for.
    named = str(values.get("cluster") or "").replace("\0", "")
    cluster = Cluster.objects.filter(name=named[:63]).first()
    if cluster is None:
        errors["cluster"] = [_("Choose a cluster.")]
    ways = ("device_class", "extended_resource")
    if not any(columns.get(way) or way in errors for way in ways):
        errors["device_class"] = [
            _("Name the DeviceClass of its devices, or the resource of a Device Plugin, or both.")
        ]
    if errors or cluster is None:
        raise UnableToChangePool(errors)
    return PoolTerms(cluster=cluster, columns=columns)


def save(
    *, pool: GrowablePool | None, terms: PoolTerms, user: User, now: datetime, source_ip: str | None = None
) -> GrowablePool:
    """Say it of one more pool (None), or say it anew. Raises UnableToChangePool."""
    before = as_dict(pool) if pool is not None else None
    changed = pool if pool is not None else GrowablePool()
    changed.cluster = terms.cluster
    for name, value in terms.columns.items():
        setattr(changed, name, value)
    changed.changed_at, changed.changed_by = now, user
    try:
        with transaction.atomic():
            changed.save()
            audit.record_edit(
                kind="growable-pool",
                target=changed,
                before=before,
                after=as_dict(changed),
                actor=user,
                now=now,
                source_ip=source_ip,
            )
    except IntegrityError:
        raise UnableToChangePool(
            {"name": [_("This is said of the pool already; change it there.")]}
        ) from None
    return changed


def remove(*, pool: GrowablePool, user: User, now: datetime, source_ip: str | None = None) -> None:
    """No longer say it."""
    with transaction.atomic():
        audit.record_edit(
            kind="growable-pool",
            target=pool,
            before=as_dict(pool),
            after=None,
            actor=user,
            now=now,
            source_ip=source_ip,
        )
        pool.delete()


def as_dict(pool: GrowablePool) -> dict[str, Any]:
    """For audit entries, forms and REST."""
    return {"cluster": pool.cluster.name} | {name: getattr(pool, name) for name in COLUMNS}


# --- one reader per field ---------------------------------------------------------------------------


def _name(values: Mapping[str, object]) -> str:
    if not (name := read_text(values, "name", limit=63)):
        raise WrongValue(_("What is the pool called?"))
    return name


def _labels(values: Mapping[str, object]) -> dict[str, str]:
    if not (labels := read_labels(values, "labels")):
        raise WrongValue(_("By which labels are the nodes of this pool known?"))
    return labels


def _number(name: str, most: int) -> Callable[[Mapping[str, object]], int]:
    def read(values: Mapping[str, object]) -> int:
        number = read_integer(values, name)
        if number is None or not 1 <= number <= most:
            raise WrongValue(_("A number from 1 to %(most)s.") % {"most": most})
        return number

    return read


def _text(name: str, limit: int) -> Callable[[Mapping[str, object]], str]:
    return lambda values: read_text(values, name, limit=limit)


_READERS: Mapping[str, Callable[[Mapping[str, object]], Any]] = {
    "name": _name,
    "labels": _labels,
    "max_nodes": _number("max_nodes", MAX_NODES),
    "device_class": _text("device_class", 253),
    "extended_resource": lambda values: read_resource(values, "extended_resource"),
    "devices": _number("devices", MAX_DEVICES),
    "product": _text("product", 128),
    "memory": lambda values: read_quantity(values, "memory"),
    "domain": _text("domain", 63),
    "note": _text("note", 500),
}
