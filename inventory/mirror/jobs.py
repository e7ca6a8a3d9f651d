"""Jobs whose Pods use devices: the link from a Pod to what people submitted."""

import msgspec

from inventory.mirror.batches import Item
from inventory.mirror.decoding import decode_core
from inventory.mirror.kind import Change
from inventory.mirror.plain import Metadata, Owner, PlainKind, owner_columns
from inventory.mirror.pods import uses_devices
from inventory.mirror.turn import Turn, parse_time
from inventory.models import Job

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
FINISHED = frozenset({"Complete", "Failed"})
OWNER = ("owner_kind", "owner_name", "owner_uid")


class _JobMetadata(Metadata, rename="camel"):
    owner_references: list[Owner] | None = None


class _Condition(msgspec.Struct, rename="camel"):
    type: str = ""
    status: str = ""
    last_transition_time: str | None = None


class _Spec(msgspec.Struct):
    suspend: bool | None = None
    parallelism: int | None = None
    completions: int | None = None


class _Status(msgspec.Struct, rename="camel"):
    active: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    start_time: str | None = None
    conditions: list[_Condition] | None = None


class JobObject(msgspec.Struct):
    metadata: _JobMetadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


class _Templated(msgspec.Struct):
    template: msgspec.Raw


class _HasTemplate(msgspec.Struct):
    spec: _Templated


_template = msgspec.json.Decoder(_HasTemplate)


def pods_use_devices(raw: bytes) -> bool:
    """Whether the Pods of a Job name claims or ask for extended resources. What cannot be read is kept, to
    be reported."""
    try:
        return uses_devices(bytes(_template.decode(raw).spec.template))
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError):
        return True


class Jobs(PlainKind[Job, JobObject]):
    plural = "jobs"
    model = Job
    namespaced = True
    columns = (
        *("labels", "annotations", "created_at", *OWNER, "suspended", "parallelism", "completions", "active"),
        *("succeeded", "failed", "started_at", "finished_at", "outcome", "queue_name"),
    )

    def decode(self, item: Item) -> JobObject:
        return decode_core(item, JobObject)

    def row(self, turn: Turn, change: Change[Job, JobObject]) -> Job:
        obj = change.obj
        labels = obj.metadata.labels or {}
        status = obj.status
        end = next((c for c in status.conditions or () if c.type in FINISHED and c.status == "True"), None)
        return Job(
            **self.common(turn, change),
            **owner_columns(obj.metadata.owner_references),
            labels=labels,
            annotations=obj.metadata.annotations or {},
            created_at=parse_time(obj.metadata.creation_timestamp),
            suspended=bool(obj.spec.suspend),
            parallelism=1 if obj.spec.parallelism is None else obj.spec.parallelism,
            completions=obj.spec.completions,
            active=status.active or 0,
            succeeded=status.succeeded or 0,
            failed=status.failed or 0,
            started_at=parse_time(status.start_time),
            finished_at=parse_time(end.last_transition_time) if end else None,
            outcome=end.type if end else "",
            queue_name=labels.get(QUEUE_LABEL, "")[:253],
        )
