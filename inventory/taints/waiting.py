"""Claims that wait for a device, and would wait in vain (or longer) under another taint."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from inventory import snapshot
from inventory.models import Claim, Cluster
from inventory.taints.concerned import Concern, concerns_of
from inventory.taints.selecting import Selector, Taint, as_rules
from portal.dra import model as dra
from portal.dra.cluster import feasible_nodes
from portal.dra.fleet import Fleet

MOST_CLAIMS = 500
# What judging them may take, in seconds of processor time.
SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A claim without devices. `now`: it could have some now, and then no more; else it waits already, and
    nothing would do even if it was free."""

    namespace: str
    name: str
    uid: str
    now: bool
    concern: Concern = field(default_factory=Concern)


def would_wait(
    *,
    cluster: Cluster,
    selectors: Sequence[Selector],
    taint: Taint,
    now: datetime,
    instead_of: str = "",
    clock: Callable[[], float] = time.thread_time,
) -> tuple[list[Waiting], int]:
    """The claims that the taint would block, and how many were not examined. The taint is judged as if its
    effect was NoSchedule."""
    rows = Claim.objects.filter(cluster=cluster, allocated=False, deleted_at=None)
    columns = ("namespace", "name", "uid", "spec")
    found = list(rows.order_by("created_at", "pk").values_list(*columns)[: MOST_CLAIMS + 1])
    if not found:
        return [], 0
    unexamined = rows.count() - MOST_CLAIMS if len(found) > MOST_CLAIMS else 0
    before = snapshot.fleet(cluster)
    preventing = Taint(taint.key, taint.value, "NoSchedule")
    kept = [rule for rule in snapshot.taint_rules(cluster) if rule.metadata.name != instead_of]
    judge = _Judge(before, before.under([*kept, *as_rules(selectors, preventing)]))
    end = clock() + SECONDS
    blocked: list[tuple[str, str, str, bool]] = []
    for position, (namespace, name, uid, spec) in enumerate(found[:MOST_CLAIMS]):
        if clock() > end:
            unexamined += len(found[:MOST_CLAIMS]) - position
            break
        verdict = judge.of(spec)
        if verdict is not None:
            blocked.append((namespace, name, uid, verdict))
    concerns = concerns_of(cluster.pk, [(space, uid) for space, _n, uid, _v in blocked], now=now)
    waiting = [
        Waiting(namespace=space, name=name, uid=uid, now=fits, concern=concerns[uid])
        for space, name, uid, fits in blocked
    ]
    return waiting, unexamined


class _Judge:
    """Compares two fleets for claims, each form of a claim once."""

    def __init__(self, before: Fleet, after: Fleet) -> None:
        self._now = (before, after)
        self._emptied = (before.with_claims(()), after.with_claims(()))
        self._known: dict[str, bool | None] = {}

    def of(self, spec: Mapping[str, Any]) -> bool | None:
        """True: it fits now and would not; False: it could fit one day and would not; None: the same."""
        form = json.dumps(spec, sort_keys=True)
        if form not in self._known:
            self._known[form] = self._judge(spec)
        return self._known[form]

    def _judge(self, spec: Mapping[str, Any]) -> bool | None:
        try:
            claim = dra.decode_object(
                {
                    "apiVersion": "resource.k8s.io/v1",
                    "kind": "ResourceClaim",
                    "metadata": {"name": "waiting", "namespace": "waiting"},
                    "spec": dict(spec),
                }
            )
        except dra.Malformed:
            return None
        assert isinstance(claim, dra.ResourceClaim)  # the kind says so
        for fits_now, (before, after) in ((True, self._now), (False, self._emptied)):
            if _fits(before, claim) and not _fits(after, claim):
                return fits_now
        return None


def _fits(fleet: Fleet, claim: dra.ResourceClaim) -> bool:
    return bool(feasible_nodes(fleet, [claim]).nodes)
