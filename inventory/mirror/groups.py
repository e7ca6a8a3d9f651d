"""Workloads and PodGroups of scheduling.k8s.io, in the versions from v1alpha1 on."""

from typing import Any

import msgspec

from inventory.mirror.batches import Item
from inventory.mirror.decoding import decode_core
from inventory.mirror.kind import Change
from inventory.mirror.plain import Metadata, Owner, PlainKind, owner_columns
from inventory.mirror.turn import Turn, parse_time
from inventory.models import PodGroup, SchedulingWorkload
from portal.kube import resources

_OWNED = ("labels", "annotations", "created_at", "owner_kind", "owner_name", "owner_uid")


class _OwnedMetadata(Metadata, rename="camel"):
    owner_references: list[Owner] | None = None


class _Gang(msgspec.Struct, rename="camel"):
    min_count: int | None = None


class _Policy(msgspec.Struct):
    gang: _Gang | None = None


class _Claim(msgspec.Struct, rename="camel"):
    name: str = ""
    resource_claim_name: str | None = None


class _Reference(msgspec.Struct, rename="camel"):
    workload_name: str = ""
    template_name: str = ""
    pod_group_template_name: str = ""


class _OlderReference(msgspec.Struct):
    workload: _Reference | None = None


class _GroupSpec(msgspec.Struct, rename="camel"):
    scheduling_policy: _Policy = msgspec.field(default_factory=_Policy)
    workload_ref: _Reference | None = None
    # v1alpha2.
    pod_group_template_ref: _OlderReference | None = None
    resource_claims: list[_Claim] | None = None


class _GroupStatus(msgspec.Struct, rename="camel"):
    conditions: list[dict[str, Any]] | None = None
    resource_claim_statuses: list[_Claim] | None = None


class GroupObject(msgspec.Struct):
    metadata: _OwnedMetadata
    spec: _GroupSpec = msgspec.field(default_factory=_GroupSpec)
    status: _GroupStatus = msgspec.field(default_factory=_GroupStatus)


class PodGroups(PlainKind[PodGroup, GroupObject]):
    plural = resources.POD_GROUPS.stream
    model = PodGroup
    namespaced = True
    columns = (*_OWNED, "workload_name", "template_name", "min_count", "claim_names", "conditions")

    def decode(self, item: Item) -> GroupObject:
        return decode_core(item, GroupObject)

    def row(self, turn: Turn, change: Change[PodGroup, GroupObject]) -> PodGroup:
        obj = change.obj
        older = obj.spec.pod_group_template_ref
        reference = obj.spec.workload_ref or (older and older.workload) or _Reference()
        gang = obj.spec.scheduling_policy.gang
        made = {
            status.name: status.resource_claim_name for status in obj.status.resource_claim_statuses or ()
        }
        return PodGroup(
            **self.common(turn, change),
            **_owned(obj.metadata),
            workload_name=reference.workload_name[:253],
            template_name=(reference.template_name or reference.pod_group_template_name)[:253],
            min_count=gang.min_count if gang else None,
            claim_names={
                claim.name: claim.resource_claim_name or made.get(claim.name) or ""
                for claim in obj.spec.resource_claims or ()
            },
            conditions=obj.status.conditions or [],
        )


class _Controller(msgspec.Struct):
    kind: str = ""
    name: str = ""


class _Template(msgspec.Struct, rename="camel"):
    name: str = ""
    scheduling_policy: _Policy | None = None
    # v1alpha1.
    policy: _Policy | None = None


class _WorkloadSpec(msgspec.Struct, rename="camel"):
    controller_ref: _Controller | None = None
    pod_group_templates: list[_Template] | None = None
    # v1alpha1.
    pod_groups: list[_Template] | None = None


class WorkloadObject(msgspec.Struct):
    metadata: _OwnedMetadata
    spec: _WorkloadSpec = msgspec.field(default_factory=_WorkloadSpec)


class SchedulingWorkloads(PlainKind[SchedulingWorkload, WorkloadObject]):
    plural = resources.SCHEDULING_WORKLOADS.stream
    model = SchedulingWorkload
    namespaced = True
    columns = (*_OWNED, "controller_kind", "controller_name", "groups")

    def decode(self, item: Item) -> WorkloadObject:
        return decode_core(item, WorkloadObject)

    def row(self, turn: Turn, change: Change[SchedulingWorkload, WorkloadObject]) -> SchedulingWorkload:
        spec = change.obj.spec
        controller = spec.controller_ref or _Controller()
        return SchedulingWorkload(
            **self.common(turn, change),
            **_owned(change.obj.metadata),
            controller_kind=controller.kind[:63],
            controller_name=controller.name[:253],
            groups=[
                {"name": template.name, "min_count": _min_count(template)}
                for template in spec.pod_group_templates or spec.pod_groups or ()
            ],
        )


def _min_count(template: _Template) -> int | None:
    policy = template.scheduling_policy or template.policy
    return policy.gang.min_count if policy is not None and policy.gang is not None else None


def _owned(metadata: _OwnedMetadata) -> dict[str, Any]:
    return {
        **owner_columns(metadata.owner_references),
        "labels": metadata.labels or {},
        "annotations": metadata.annotations or {},
        "created_at": parse_time(metadata.creation_timestamp),
    }
