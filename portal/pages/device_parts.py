"""Parts of the device page: what is cut from the same hardware and who holds it, and what taints it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _
from django_stubs_ext import StrOrPromise

from inventory import describe
from inventory.browse import STATE_LABELS, UNKNOWN, product_name
from inventory.coverage import Coverage
from inventory.describe import AmountShown
from inventory.holders import Holder
from inventory.mirror.turn import parse_time
from inventory.models import Device, DeviceTaintRule, Node
from inventory.products import PARTITION

# Up to here instances that nobody holds are listed at once; more are folded, and counted by kind.
FREE_SHOWN = 8
INSTANCES_SHOWN = 200


@dataclass(frozen=True)
class Instance:
    """A device cut from the same hardware, with its holders. `here`: it is the page's own."""

    device: Device
    product: str
    state: str
    label: StrOrPromise
    holders: Sequence[Holder]
    here: bool


@dataclass(frozen=True)
class Kind:
    """Instances of one product that nobody holds."""

    product: str
    free: int
    total: int


@dataclass(frozen=True)
class Instances:
    """How a piece of hardware is cut up: the whole (where it is published, too), the instances that somebody
    holds, the others, and what is left of the counters that they share."""

    whole: Sequence[Instance]
    held: Sequence[Instance]
    others: Sequence[Instance]
    kinds: Sequence[Kind]
    counters: Sequence[AmountShown]
    more: bool

    @property
    def folded(self) -> bool:
        return len(self.others) > FREE_SHOWN


def neighbours_of(device: Device) -> Mapping[str, Device]:
    """Devices of the pool by name, if this one draws on shared counters."""
    if not describe.published(device).get("consumesCounters"):
        return {}
    others = Device.objects.filter(pool=device.pool_id).select_related("profile", "pool")
    return {other.name: other for other in others.defer("profile__attributes", "identity").order_by("pk")}


def instances_of(
    device: Device,
    neighbours: Mapping[str, Device],
    holders: Mapping[int, Sequence[Holder]],
    coverage: Coverage,
) -> Instances | None:
    """What draws on the same counters as this device; None for one that draws on none."""
    held = {name for name, other in neighbours.items() if _holds(holders.get(other.pk, ()))}
    partitioning = describe.partitioning(device, held=held) if neighbours else None
    if partitioning is None:
        return None
    whole = product_name(device.profile).partition(" MIG ")[0]
    found = [
        _instance(neighbours[name], device, holders, coverage, whole=whole)
        for name in partitioning.names
        if name in neighbours
    ]
    parts = [i for i in found if i.device.profile.kind == PARTITION]
    others = [i for i in parts if not i.holders]
    free: Counter[str] = Counter(i.product for i in others if i.state == Device.State.FREE)
    return Instances(
        whole=[i for i in found if i.device.profile.kind != PARTITION],
        held=[i for i in parts if i.holders],
        others=others[:INSTANCES_SHOWN],
        kinds=[
            Kind(product, free=free[product], total=total)
            for product, total in sorted(Counter(i.product for i in others).items())
        ],
        counters=partitioning.counters,
        more=len(others) > INSTANCES_SHOWN,
    )


def _instance(
    other: Device,
    device: Device,
    holders: Mapping[int, Sequence[Holder]],
    coverage: Coverage,
    *,
    whole: str,
) -> Instance:
    state = other.state if coverage.in_step else UNKNOWN
    return Instance(
        device=other,
        # "NVIDIA H100 80GB HBM3 MIG 1g.10gb" among its like is "MIG 1g.10gb".
        product=product_name(other.profile).removeprefix(f"{whole} "),
        state=state,
        label=STATE_LABELS[state],
        holders=[h for h in holders.get(other.pk, ()) if not h.admin_access],
        here=other.pk == device.pk,
    )


def _holds(holders: Sequence[Holder]) -> bool:
    return any(not holder.admin_access for holder in holders)


# --- taints ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TaintShown:
    """A taint, since when, and who put it there ("" = the driver)."""

    key: str
    value: str
    effect: str
    since: datetime | None
    source: str


def taints_on(device: Device, *, rules: Sequence[DeviceTaintRule], node: Node | None) -> list[TaintShown]:
    """What keeps Pods from a device: taints of the driver, of rules, of its node."""
    return [
        *(_taint(taint, "") for taint in device.taints),
        *(
            TaintShown(r.key, r.value, r.effect, r.added_at, _("by the rule %(name)s") % {"name": r.name})
            for r in rules
        ),
        *(_taint(taint, _("of its node")) for taint in (node.taints if node else ())),
    ]


def _taint(taint: Mapping[str, Any], source: str) -> TaintShown:
    return TaintShown(
        key=str(taint.get("key", "")),
        value=str(taint.get("value") or ""),
        effect=str(taint.get("effect", "")),
        since=parse_time(taint.get("timeAdded")),
        source=source,
    )
