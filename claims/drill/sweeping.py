"""What drills that are over left on clusters: taken away when the mirror shows it. What carries a drill's
label that the desk does not know is told to administrators, and left alone."""

import uuid
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime

from claims.drill.hands import DRILL_LABEL, Hands
from claims.drill.running import Connect
from claims.models import Drill
from claims.requests.rehearsal import api_version
from claims.requests.sweeping import GRACE
from inventory.clusters import client_for
from inventory.findings.model import Found
from inventory.models import Claim, ClaimTemplate, Cluster, Pod, Severity


def sweep(*, cluster: Cluster, now: datetime, connect: Connect = client_for) -> int:
    """Remove what is left of drills that are over. Returns how many objects there were. Raises ClusterError;
    talks to the cluster: not inside a transaction."""
    keys = {key for _kind, _row, key in _labelled(cluster) if _is_key(key)}
    over = Drill.objects.filter(
        key__in=keys, cluster=cluster, state=Drill.State.FINISHED, clean_at__lt=now - GRACE
    )
    drills = list(over.select_related("cluster"))
    if not drills:
        return 0
    with connect(cluster) as client:
        version = api_version(cluster)
        return sum(Hands(drill, client, api_version=version).remove(by_force=True) for drill in drills)


def findings(cluster: Cluster, _now: datetime) -> Iterable[Found]:
    """Objects of drills that nobody knows, for the findings of the cluster."""
    rows = list(_labelled(cluster))
    if not rows:
        return
    keys = [key for _kind, _row, key in rows if _is_key(key)]
    known = {str(key) for key in Drill.objects.filter(key__in=keys).values_list("key", flat=True)}
    for kind, row, key in rows:
        if key not in known:
            yield Found(
                subject=row.uid,
                object_kind=kind,
                namespace=row.namespace,
                name=row.name,
                code="stray-unknown",
                severity=Severity.WARNING,
                params={"object": f"{row.namespace}/{row.name}", "request": key[:63]},
                holds_for=GRACE,
            )


def _labelled(cluster: Cluster) -> Iterable[tuple[str, Claim | ClaimTemplate | Pod, str]]:
    """What the mirror shows with a drill's label."""
    with_label = {"cluster": cluster, "labels__has_key": DRILL_LABEL}
    for claim in Claim.objects.filter(deleted_at=None, **with_label).defer("spec", "status"):
        yield "claim", claim, str(claim.labels[DRILL_LABEL])
    for template in ClaimTemplate.objects.filter(**with_label).defer("spec"):
        yield "template", template, str(template.labels[DRILL_LABEL])
    for pod in Pod.objects.filter(deleted_at=None, **with_label):
        yield "pod", pod, str(pod.labels[DRILL_LABEL])


def _is_key(text: str) -> bool:
    with suppress(ValueError):
        return str(uuid.UUID(text)) == text
    return False
