"""ResourceClaimTemplates."""

from collections.abc import Sequence

from inventory.mirror.batches import Item
from inventory.mirror.decoding import decode_dra
from inventory.mirror.kind import Change, MirroredKind, save
from inventory.mirror.turn import Turn, parse_time
from inventory.models import ClaimTemplate
from portal.dra import model as dra
from portal.sql import chunks

_COLUMNS = ["uid", "resource_version", "labels", "annotations", "created_at", "spec"]


class ClaimTemplates(MirroredKind[ClaimTemplate, dra.ResourceClaimTemplate]):
    plural = "resourceclaimtemplates"
    model = ClaimTemplate
    namespaced = True
    has_history = False

    def decode(self, item: Item) -> dra.ResourceClaimTemplate:
        return decode_dra(item, dra.ResourceClaimTemplate)

    def store(self, turn: Turn, changes: Sequence[Change[ClaimTemplate, dra.ResourceClaimTemplate]]) -> None:
        rows = [
            ClaimTemplate(
                pk=change.row.pk if change.row else None,
                cluster_id=turn.cluster_id,
                namespace=change.item.namespace,
                name=change.item.name,
                uid=change.item.uid,
                resource_version=change.item.resource_version,
                labels=change.obj.metadata.labels,
                annotations=change.obj.metadata.annotations,
                created_at=parse_time(change.obj.metadata.creation_timestamp),
                spec=dra.encode(change.obj.spec.spec),
            )
            for change in changes
        ]
        save(rows, _COLUMNS)

    def lose(self, turn: Turn, rows: Sequence[ClaimTemplate]) -> None:
        for ids in chunks([row.pk for row in rows]):
            ClaimTemplate.objects.filter(pk__in=ids).delete()
