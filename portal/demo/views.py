"""Objects as they go over the wire."""

from typing import Any

import msgspec

from portal.demo.records import Record
from portal.demo.resources import Resource


def single(resource: Resource, record: Record) -> bytes:
    """One object with its ``kind`` and ``apiVersion``."""
    head = f'{{"kind":"{resource.kind}","apiVersion":"{resource.api_version}",'
    return head.encode() + item(resource, record)[1:]


def item(resource: Resource, record: Record) -> bytes:
    """One object inside a list."""
    return (
        msgspec.json.encode(_as_new_event(msgspec.json.decode(record.raw)))
        if resource.view_of
        else record.raw
    )


def _as_new_event(event: dict[str, Any]) -> dict[str, Any]:
    """A core Event in the form of ``events.k8s.io/v1``."""
    renamed = {
        "involvedObject": "regarding",
        "message": "note",
        "source": "deprecatedSource",
        "firstTimestamp": "deprecatedFirstTimestamp",
        "lastTimestamp": "deprecatedLastTimestamp",
        "count": "deprecatedCount",
        "reportingComponent": "reportingController",
    }
    return {renamed.get(name, name): value for name, value in event.items()}
