"""How one object is kept: its JSON as it goes over the wire, and what selectors and keys need of it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from portal.demo.resources import Resource
from portal.demo.selectors import field_values

Object = dict[str, Any]
Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Record:
    """One stored object: its JSON without ``kind`` and ``apiVersion``, and what selectors compare."""

    namespace: str
    name: str
    uid: str
    revision: int
    raw: bytes
    labels: Mapping[str, str]
    fields: Mapping[str, str]

    @property
    def key(self) -> Key:
        return self.namespace, self.name


def as_object(resource: Resource, record: Record) -> Object:
    """A record as the plain dict that controllers see: always a fresh copy."""
    obj: Object = {"apiVersion": resource.api_version, "kind": resource.kind}
    obj.update(msgspec.json.decode(record.raw))
    return obj


def copy_of(obj: Object) -> Object:
    """A deep copy by way of JSON, which also proves that it is JSON."""
    copied: Object = msgspec.json.decode(msgspec.json.encode(obj))
    return copied


def new_record(resource: Resource, obj: Object, revision: int) -> Record:
    """``obj``, which gets ``revision`` as its resourceVersion, in the form that is kept."""
    obj["metadata"]["resourceVersion"] = str(revision)
    body = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}
    return record_of(resource, body, msgspec.json.encode(body))


def at_revision(record: Record, revision: int) -> Record:
    """The same state under a later resourceVersion."""
    body = msgspec.json.decode(record.raw)
    body["metadata"]["resourceVersion"] = str(revision)
    return replace(record, revision=revision, raw=msgspec.json.encode(body))


def read_record(resource: Resource, raw: bytes) -> Record:
    """A record from its kept JSON."""
    return record_of(resource, msgspec.json.decode(raw), raw)


def record_of(resource: Resource, body: Object, raw: bytes) -> Record:
    """A record from both forms of the same object."""
    metadata = body["metadata"]
    return Record(
        namespace=metadata.get("namespace", ""),
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        revision=int(metadata["resourceVersion"]),
        raw=raw,
        labels=metadata.get("labels") or {},
        fields=field_values(resource, body),
    )
