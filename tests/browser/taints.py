"""Taints, maintenance and a drain for the pages: rules that count or are left over, and plans."""

from datetime import timedelta
from typing import Any

from django.utils import timezone

from inventory.models import (
    Cluster,
    DeskRule,
    DeviceTaintRule,
    Drain,
    DrainHolder,
    Maintenance,
    Node,
    UpkeepEvent,
)
from portal.kube.resources import DEVICE_TAINT_RULES
from tests.access.taints import SERVED
from tests.cast import Cast

SAID = {
    "type": "EvictionInProgress",
    "status": "False",
    "reason": "NoEffect",
    "message": "2 published devices selected. 0 allocated devices selected. 0 pods would be evicted in 0 "
    "different namespaces if the effect was NoExecute.",
}


def spec(effect: str) -> dict[str, Any]:
    """Of the rules, as the API has it."""
    taint = {"key": "example.org/repair", "value": "fan", "effect": effect}
    return {"deviceSelector": {"driver": "gpu.amd.com", "pool": "gpu-02"}, "taint": taint}


def make_taints(cast: Cast, cluster: Cluster, request_key: Any, size: int) -> dict[str, Any]:
    """Their keys, by what the list of pages calls them."""
    now = timezone.now()
    cluster.served = dict.fromkeys(SERVED, DEVICE_TAINT_RULES.api_version)
    cluster.save(update_fields=["served"])
    since = (now - timedelta(days=2)).isoformat()
    Node.objects.filter(cluster=cluster, name="gpu-02").update(
        taints=[{"key": "example.org/rack", "value": "b", "effect": "NoSchedule", "timeAdded": since}]
    )
    who: dict[str, Any] = {"created_by": cast.administrator, "created_at": now, "changed_at": now}
    for number in range(size):
        for name, effect in ((f"fans-{number}", "None"), (f"left-{number}", "NoSchedule")):
            DeviceTaintRule.objects.create(
                cluster=cluster, name=name, uid=name, resource_version="7", selects=True,
                driver="gpu.amd.com", pool_name="gpu-02", key="example.org/repair", value="fan",
                effect=effect, added_at=now - timedelta(hours=30), spec=spec(effect), made_by="claimdesk",
                conditions=[SAID],
            )  # fmt: skip
    place: dict[str, Any] = {"cluster": cluster, "scope": "node", "node_name": "gpu-01"}
    planned = [
        Maintenance.objects.create(
            **place, **who, reason="New fans for the whole row", effect="NoExecute",
            starts_at=now + timedelta(days=3 + number), ends_at=now + timedelta(days=3 + number, hours=4),
        )
        for number in range(size)
    ]  # fmt: skip
    over = Maintenance.objects.create(
        **place, **who, reason="Firmware", starts_at=now - timedelta(days=9), ends_at=now - timedelta(days=8),
        state="ended", started_at=now - timedelta(days=9), ended_at=now - timedelta(days=8),
    )  # fmt: skip
    for number in range(size):
        DeskRule.objects.create(
            cluster=cluster, name=f"left-{number}", uid=f"left-{number}", effect="NoSchedule",
            made_at=now - timedelta(days=9), maintenance=over, actor=cast.administrator, reason="Firmware",
        )  # fmt: skip
    drain = Drain.objects.create(
        **place, **who, reason="Board swap", state="closed", wanted_by=now + timedelta(hours=30)
    )
    for number in range(size):
        DrainHolder.objects.create(
            drain=drain, namespace="tides", name=f"harmonics-{number}", uid=f"drained-{number}",
            things=["gpu-0"], pods=["harmonics-worker-0"], project=cast.project, request_key=request_key,
            held_until=now + timedelta(hours=3), told_at=now, answer="by", answered_by=cast.member,
            answer_by=now + timedelta(hours=2), answer_note="After the last epoch", answered_at=now,
        )  # fmt: skip
        event: dict[str, Any] = {"at": now, "actor": cast.administrator, "note": "Please finish."}
        UpkeepEvent.objects.create(drain=drain, what="asked", **event)
        UpkeepEvent.objects.create(maintenance=planned[0], what="planned", **event)
    return {"maintenance": planned[0].key, "drain": drain.key}
