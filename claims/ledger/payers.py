"""Who pays for an interval: the request that its claim or Pod belongs to by uid, else the project of its
namespace when it began, else nobody known. Labels never decide: whoever writes an object can write them."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

from claims.ledger.terms import Interval
from claims.models import DrillObject, RequestClaim, RequestPod
from inventory.models import Cluster, NamespaceBinding


@dataclass(frozen=True, kw_only=True)
class Payer:
    request_id: int | None = None
    project_id: int | None = None
    device_class: str = ""


@dataclass(frozen=True, kw_only=True)
class Payers:
    """The payers of some claims and Pods, read in four queries."""

    by_uid: dict[str, Payer]
    bindings: dict[str, list[tuple[datetime, datetime | None, int]]]

    @classmethod
    def load(cls, *, cluster: Cluster, uids: Sequence[str], namespaces: Iterable[str]) -> "Payers":
        claims = RequestClaim.objects.filter(cluster=cluster, claim_uid__in=uids)
        by_uid = {
            uid: Payer(request_id=request, project_id=project, device_class=device_class)
            for uid, request, project, device_class in claims.values_list(
                "claim_uid", "request_id", "request__project_id", "request__device_class"
            )
        }
        pods = RequestPod.objects.filter(cluster=cluster, pod_uid__in=uids)
        by_uid |= {
            uid: Payer(request_id=request, project_id=project)
            for uid, request, project in pods.values_list("pod_uid", "request_id", "request__project_id")
        }
        # What drills hold, nobody pays: not even the project of their namespace, should it have one.
        drilled = DrillObject.objects.filter(cluster=cluster, uid__in=uids)
        by_uid |= dict.fromkeys(drilled.values_list("uid", flat=True), Payer())
        bindings: dict[str, list[tuple[datetime, datetime | None, int]]] = defaultdict(list)
        rows = NamespaceBinding.objects.filter(cluster=cluster, namespace__in=set(namespaces))
        for binding in rows.order_by("valid_from"):
            bindings[binding.namespace].append((binding.valid_from, binding.valid_until, binding.project_id))
        return cls(by_uid=by_uid, bindings=bindings)

    def of(self, interval: Interval) -> Payer:
        payer = self.by_uid.get(interval.claim_uid)
        if payer is not None:
            return payer
        for valid_from, valid_until, project in self.bindings.get(interval.namespace, ()):
            if valid_from <= interval.start and (valid_until is None or interval.start < valid_until):
                return Payer(project_id=project)
        return Payer()
