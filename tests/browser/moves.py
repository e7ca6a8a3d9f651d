"""A node pool on its way to DRA, as pages show it: at its canary, with signatures, a history and drills."""

from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from claims.models import Drill, DrillStep, PoolPlan, PoolPlanEntry, PoolSignature
from inventory.models import Cluster, Node
from tests.cast import Cast


def make_moves(cast: Cast, cluster: Cluster, size: int) -> dict[str, Any]:
    """Names for the list of pages."""
    now = timezone.now()
    Node.objects.filter(cluster=cluster, name__startswith="old-").update(labels={"pool": "t4"})
    Node.objects.filter(cluster=cluster, name="gpu-02").update(labels={"pool": "t4-canary"})
    plan: PoolPlan = PoolPlan.objects.create(
        cluster=cluster, name="t4", labels={"pool": "t4"}, canary_labels={"pool": "t4-canary"},
        extended_resource="nvidia.com/gpu", device_class="gpu.nvidia.com", driver="gpu.nvidia.com",
        way=PoolPlan.Way.DRA, reason="Groups want to share cards by memory, and be billed for it.",
        stage=PoolPlan.Stage.CANARY, created_at=now - timedelta(days=30), changed_at=now,
        changed_by=cast.administrator,
    )  # fmt: skip
    for number in range(size):
        PoolPlanEntry.objects.create(
            plan=plan, kind=PoolPlanEntry.Kind.STAGE, at=now - timedelta(days=9, hours=number),
            person=cast.administrator, why="The canary's nodes are there.",
            facts={"from": "inventory", "to": "canary"},
        )  # fmt: skip
        PoolPlanEntry.objects.create(
            plan=plan, kind=PoolPlanEntry.Kind.SWITCH, at=now - timedelta(days=2, hours=number),
            person=cast.administrator, why="To be tried by the tide group.",
            facts={"places": [
                {"id": 1, "flavor": "h100", "pool": "t4-canary", "from": "device-plugin", "to": "dra"}
            ]},
        )  # fmt: skip
        PoolPlan.objects.create(
            cluster=cluster, name=f"spare-{number}", labels={"pool": f"spare-{number}"},
            extended_resource="amd.com/gpu", device_class="gpu.amd.com", created_at=now, changed_at=now,
        )  # fmt: skip
        PoolSignature.objects.create(
            plan=plan, item="way-back", note="Runbook 7, tried on a test cluster.", at=now,
            person=cast.administrator,
        )  # fmt: skip
    return {"plan": plan.pk, "drill": _drill(cast, plan, size).key}


def _drill(cast: Cast, plan: PoolPlan, size: int) -> Drill:
    """A drill that has proven something, found something else, and asks for the next thing."""
    now = timezone.now()
    drill: Drill = Drill.objects.create(
        plan=plan, cluster=plan.cluster, namespace="claimdesk-drill", device_class=plan.device_class,
        node_selector=plan.canary_labels, image="registry.k8s.io/pause:3.10", person=cast.administrator,
        created_at=now - timedelta(minutes=9), due_at=now,
    )  # fmt: skip
    trail = [
        _line(now, "claim-made", "object", claim="drill-0a1b2c3d-d"),
        *(_line(now, "event", "event", pod=f"drill-0a1b2c3d-d{n}", reason="Scheduled", message="Assigned.")
          for n in range(size)),
    ]  # fmt: skip
    told = (
        ("claim-created", "done", "proven", ""),
        ("devices-chosen", "done", "differs", "allocated-without-pod"),
        ("several-pods", "done", "not-proven", "pod-never-started"),
        ("driver-restart", "asking", "", ""),
        ("restored", "waiting", "", ""),
    )
    for position, (code, state, verdict, why) in enumerate(told):
        DrillStep.objects.create(
            drill=drill, position=position, code=code, state=state, verdict=verdict, why=why,
            phase="restart" if state == "asking" else "", observed=[] if state == "waiting" else trail,
            facts={"node": "gpu-02"},
        )  # fmt: skip
    return drill


def _line(at: datetime, code: str, source: str, **what: str) -> dict[str, Any]:
    return {"at": at.isoformat(), "source": source, "code": code, "what": what}
