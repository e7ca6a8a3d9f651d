"""What a taint would do before it is there: devices, Pods that have to leave and when, claims that wait.

Who has to leave is decided as Kubernetes' eviction controller does: by the tolerations that the allocation
carries, which must name the effect NoExecute; of several with seconds the shortest counts; Pods without a
node and Pods that are being deleted are left alone. Taints that are there already are not looked at. The
mirror is read as it is; the coverage says how old that is.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import msgspec
from django.db.models import Count
from django_stubs_ext import StrOrPromise

from inventory.browse import STATE_LABELS
from inventory.coverage import Coverage
from inventory.models import Claim, ClaimDevice, Cluster, Device, Pod
from inventory.taints.concerned import Concern, concerns_of, people_of
from inventory.taints.selecting import Selector, Taint, any_device, any_hold
from inventory.taints.waiting import Waiting, would_wait
from portal.accounts.models import User
from portal.dra import model as dra
from portal.dra.taints import tolerates
from portal.sql import chunks

NODES_SHOWN = 50


@dataclass(frozen=True, kw_only=True)
class Struck:
    """A Pod on tainted devices: when after the taint it has to leave (None = never: it tolerates it)."""

    namespace: str
    name: str
    uid: str
    node: str
    claims: Sequence[str]
    devices: Sequence[str]
    after: timedelta | None
    concern: Concern = field(default_factory=Concern)


@dataclass(frozen=True, kw_only=True)
class Blast:
    """What one taint does. `evicted` and `staying` are as if its effect was NoExecute, `waiting` as if it was
    NoSchedule: which of it comes true says the effect."""

    coverage: Coverage
    taint: Taint
    selectors: Sequence[Selector]
    # Published devices by their state now, by node and by product.
    states: Mapping[str, int]
    nodes: Sequence[tuple[str, int]]
    products: Sequence[tuple[str, int]]
    # Results of allocations on them, as the cluster counts: a shared device once for each.
    allocated: int
    evicted: Sequence[Struck]
    staying: Sequence[Struck]
    # Claims that hold devices without a Pod that could be evicted: "namespace/name".
    unused: Sequence[str]
    waiting: Sequence[Waiting]
    # Claims that wait and were not looked at: there are too many.
    unexamined: int

    @property
    def devices(self) -> int:
        return sum(self.states.values())

    @property
    def told_states(self) -> Sequence[tuple[str, StrOrPromise, int]]:
        """The states of its devices with their words."""
        return [
            (state, STATE_LABELS[state], self.states[state]) for state in STATE_LABELS if state in self.states
        ]

    @property
    def evicts(self) -> bool:
        return self.taint.effect == "NoExecute" and bool(self.evicted)

    @property
    def selects_all(self) -> bool:
        """A rule without any condition: every device that there is and that will come."""
        return any(selector.selects_all for selector in self.selectors)

    @property
    def namespaces(self) -> int:
        return len({pod.namespace for pod in self.evicted})

    @property
    def at_once(self) -> int:
        return sum(not pod.after for pod in self.evicted)

    @property
    def concerns(self) -> Sequence[Concern]:
        """Requests of the desk whose Pods leave or whose claims wait, each once."""
        found = [pod.concern for pod in self.evicted] + [claim.concern for claim in self.waiting]
        return list({concern.key: concern for concern in found if concern.key is not None}.values())

    @property
    def people(self) -> Sequence[User]:
        return people_of([*(pod.concern for pod in self.evicted), *(claim.concern for claim in self.waiting)])

    @property
    def digest(self) -> str:
        """Changes when what was shown is no longer what would happen."""
        told = [
            str(self.taint),
            sorted(map(str, self.selectors)),
            self.devices,
            sorted((pod.uid, str(pod.after)) for pod in self.evicted),
            sorted(claim.uid for claim in self.waiting),
        ]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:20]


def blast_of(
    *,
    cluster: Cluster,
    selectors: Sequence[Selector],
    taint: Taint,
    coverage: Coverage,
    now: datetime,
    instead_of: str = "",
) -> Blast:
    """What these selectors with this taint mean on the cluster. `instead_of` is the name of a rule that the
    taint replaces."""
    devices = Device.objects.filter(any_device(selectors), cluster=cluster)
    nodes = devices.values_list("node_name").annotate(n=Count("pk")).order_by("-n", "node_name")
    products = devices.values_list("profile__product").annotate(n=Count("pk")).order_by("-n")
    held = _held(cluster, selectors)
    pods, unused = _pods(cluster, held, taint)
    wait, unexamined = would_wait(
        cluster=cluster, selectors=selectors, taint=taint, now=now, instead_of=instead_of
    )
    behind = concerns_of(cluster.pk, [(claim.namespace, claim.uid) for claim in held], now=now)
    struck = [_with_concern(pod, held, behind) for pod in pods]
    return Blast(
        coverage=coverage,
        taint=taint,
        selectors=selectors,
        states=dict(devices.values_list("state").annotate(n=Count("pk")).order_by()),
        nodes=[(name, count) for name, count in nodes[:NODES_SHOWN] if name],
        products=[(str(name), count) for name, count in products[:NODES_SHOWN]],
        allocated=sum(len(claim.hit) for claim in held),
        evicted=[pod for pod in struck if pod.after is not None],
        staying=[pod for pod in struck if pod.after is None],
        unused=unused,
        waiting=wait,
        unexamined=unexamined,
    )


# --- who has to leave ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Held:
    """A claim with results on tainted devices, and the tolerations of each."""

    namespace: str
    name: str
    uid: str
    consumers: Sequence[Mapping[str, Any]]
    hit: Sequence[tuple[str, Sequence[dra.DeviceToleration]]]

    def leaves_after(self, taint: Taint) -> timedelta | None:
        """The earliest moment at which one of its devices has to be left; None = it may stay."""
        stays = [leaves_after(tolerations, taint) for _device, tolerations in self.hit]
        return min((stay for stay in stays if stay is not None), default=None)


def leaves_after(tolerations: Iterable[dra.DeviceToleration], taint: Taint) -> timedelta | None:
    """How long after a NoExecute taint was added a device may be kept; None = for ever."""
    executing = dra.DeviceTaint(key=taint.key, value=taint.value, effect="NoExecute")
    shortest: int | None = None
    for toleration in tolerations:
        if toleration.effect != "NoExecute" or not tolerates(toleration, executing):
            continue
        if toleration.toleration_seconds is None:
            return None
        seconds = max(0, toleration.toleration_seconds)
        shortest = seconds if shortest is None else min(shortest, seconds)
    # As long as a timedelta can say; nobody waits for the end of that.
    return timedelta(seconds=min(shortest or 0, 10**11))


def _held(cluster: Cluster, selectors: Sequence[Selector]) -> list[_Held]:
    on_them = ClaimDevice.objects.filter(
        any_hold(selectors), claim__cluster=cluster, claim__allocated=True
    ).values("claim")
    rows = Claim.objects.filter(pk__in=on_them).order_by("namespace", "name")
    found = []
    for namespace, name, uid, status in rows.values_list("namespace", "name", "uid", "status").iterator():
        allocation = status.get("allocation") or {}
        results = (allocation.get("devices") or {}).get("results") or []
        hit = [
            (str(result["device"]), _tolerations(result))
            for result in results
            if any(one.matches(*(str(result.get(key)) for key in _NAMES)) for one in selectors)
        ]
        if hit:
            found.append(_Held(namespace, name, uid, status.get("reservedFor") or [], hit))
    return found


_NAMES = ("driver", "pool", "device")


def _tolerations(result: Mapping[str, Any]) -> list[dra.DeviceToleration]:
    return msgspec.convert(result.get("tolerations") or [], list[dra.DeviceToleration])


def _pods(cluster: Cluster, held: Sequence[_Held], taint: Taint) -> tuple[list[Struck], list[str]]:
    """Pods on the tainted devices, and claims that hold some without a Pod that could leave."""
    known = _known_pods(cluster, held)
    by_pod: dict[str, list[_Held]] = {}
    unused = []
    for claim in held:
        uids = [uid for uid in _pod_uids(claim) if uid in known]
        if not uids:
            unused.append(f"{claim.namespace}/{claim.name}")
        for uid in uids:
            by_pod.setdefault(uid, []).append(claim)
    struck = []
    for uid, claims in by_pod.items():
        moments = [after for claim in claims if (after := claim.leaves_after(taint)) is not None]
        pod = known[uid]
        struck.append(
            Struck(
                namespace=pod.namespace,
                name=pod.name,
                uid=uid,
                node=pod.node_name,
                claims=[claim.name for claim in claims],
                devices=sorted({device for claim in claims for device, _tolerations in claim.hit}),
                after=min(moments, default=None),
            )
        )
    return sorted(struck, key=lambda pod: (pod.namespace, pod.name)), unused


def _known_pods(cluster: Cluster, held: Sequence[_Held]) -> Mapping[str, Pod]:
    """Pods that reserve one of the claims and could be evicted, by uid."""
    wanted = sorted({uid for claim in held for uid in _pod_uids(claim)})
    found: dict[str, Pod] = {}
    for uids in chunks(wanted):
        rows = Pod.objects.filter(cluster=cluster, uid__in=uids, deleted_at=None).exclude(node_name="")
        found |= {pod.uid: pod for pod in rows.only("namespace", "name", "uid", "node_name")}
    return found


def _pod_uids(claim: _Held) -> Iterator[str]:
    for consumer in claim.consumers:
        if consumer.get("resource") == "pods" and not consumer.get("apiGroup"):
            yield str(consumer.get("uid", ""))


def _with_concern(pod: Struck, held: Sequence[_Held], behind: Mapping[str, Concern]) -> Struck:
    uids = {(claim.namespace, claim.name): claim.uid for claim in held}
    found = [behind[uids[pod.namespace, name]] for name in pod.claims]
    best = next((concern for concern in found if concern.key is not None), found[0])
    return Struck(**{name: getattr(pod, name) for name in pod.__dataclass_fields__} | {"concern": best})


def tally(pods: Iterable[Struck]) -> Sequence[tuple[str, int]]:
    """Pods by project ("" = of none), the most first."""
    counted = Counter(pod.concern.project.name if pod.concern.project else "" for pod in pods)
    return counted.most_common()
