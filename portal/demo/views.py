"""Objects as they go over the wire."""

import msgspec

from portal.demo.conversion import outgoing
from portal.demo.records import Record
from portal.demo.resources import Resource


def single(resource: Resource, record: Record) -> bytes:
    """One object with its ``kind`` and ``apiVersion``."""
    head = f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'
    return head.encode() + _body(resource, record)[1:]


def item(resource: Resource, record: Record) -> bytes:
    """One object inside a list: only those of installed definitions say there what they are."""
    return single(resource, record) if resource.custom else _body(resource, record)


def _body(resource: Resource, record: Record) -> bytes:
    convert = outgoing(resource)
    return record.raw if convert is None else msgspec.json.encode(convert(msgspec.json.decode(record.raw)))
