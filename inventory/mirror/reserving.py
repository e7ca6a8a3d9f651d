"""Pods that reserve claims: when they were scheduled, and which of their containers use what."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from inventory.mirror.turn import Turn
from inventory.mirror.units import EXTENDED
from inventory.models import Pod
from portal.sql import chunks

# A container, and which request of the claim it uses ("" = all of them).
Use = list[str]


@dataclass(frozen=True)
class Reserving:
    """By uid of the Pod; absent where the mirror does not have it (yet)."""

    scheduled: Mapping[str, datetime] = field(default_factory=dict)
    # By name of the claim within the Pod's namespace. A claim that the scheduler made is absent: its Pod
    # names resources instead.
    uses: Mapping[str, Mapping[str, Sequence[Use]]] = field(default_factory=dict)

    def containers(self, pod: str, claim: str) -> Sequence[Use] | None:
        """Those of a Pod that use a claim; None = not known."""
        return self.uses.get(pod, {}).get(claim)


def reserving(turn: Turn, uids: set[str]) -> Reserving:
    """One query for some hundred Pods."""
    scheduled: dict[str, datetime] = {}
    uses: dict[str, Mapping[str, Sequence[Use]]] = {}
    for some in chunks(uids):
        pods = Pod.objects.filter(cluster_id=turn.cluster_id, uid__in=some)
        for uid, at, names, told in pods.values_list("uid", "scheduled_at", "claim_names", "claim_uses"):
            if at is not None:
                scheduled[uid] = at
            uses[uid] = _by_claim(names, told)
    return Reserving(scheduled, uses)


def _by_claim(names: Mapping[str, str], told: Sequence[Mapping[str, str]]) -> Mapping[str, Sequence[Use]]:
    found: dict[str, list[Use]] = defaultdict(list)
    for entry, claim in sorted(names.items()):
        if entry != EXTENDED and claim:
            found[claim] += [[use["container"], use["request"]] for use in told if use["claim"] == entry]
    return dict(found)
