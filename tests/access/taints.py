"""Rules, maintenance and drains of the table's world, and what its writing calls send."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.utils import timezone

from inventory.coverage import coverage_of
from inventory.models import Cluster, DeskRule, DeviceTaintRule, Drain, DrainHolder, Maintenance
from inventory.taints.blast import blast_of
from inventory.taints.history import taint_of
from inventory.taints.places import selectors_at
from inventory.taints.selecting import Selector, Taint
from portal.kube.resources import DEVICE_TAINT_RULES
from tests.cast import Cast

if TYPE_CHECKING:
    from tests.access.world import World

RULES = ("fans", "left")
SERVED = (
    *("resourceslices", "deviceclasses", "resourceclaims", "resourceclaimtemplates"),
    DEVICE_TAINT_RULES.plural,
)
_TAINT = {"key": "example.org/repair", "value": "", "effect": "NoSchedule"}
_SELECTS = {"driver": "gpu.nvidia.com", "pool": "gpu-01"}
_DEVICE = {"driver": "gpu.nvidia.com", "pool": "gpu-01", "device": "gpu-0"}
_LATER = datetime.now(tz=UTC) + timedelta(days=2)


def rule_objects() -> dict[tuple[str, str, str], dict[str, Any]]:
    """The rules as the cluster has them."""
    return {
        (DEVICE_TAINT_RULES.plural, "", name): {
            "metadata": {"name": name, "uid": name, "resourceVersion": "7"},
            "spec": {"deviceSelector": dict(_SELECTS), "taint": dict(_TAINT)},
        }
        for name in RULES
    }


def make_taints(cast: Cast, cluster: Cluster) -> dict[str, Any]:
    """A rule, one that is left over, a maintenance, and drains at the steps that calls are made from."""
    now = timezone.now()
    cluster.served = dict.fromkeys(SERVED, DEVICE_TAINT_RULES.api_version)
    cluster.save(update_fields=["served"])
    DeviceTaintRule.objects.create(
        cluster=cluster, name="fans", uid="fans", resource_version="7", selects=True, added_at=now,
        driver=_SELECTS["driver"], pool_name=_SELECTS["pool"], **_TAINT,
        spec={"deviceSelector": _SELECTS, "taint": _TAINT},
    )  # fmt: skip
    who: dict[str, Any] = {"created_by": cast.administrator, "created_at": now, "changed_at": now}
    place: dict[str, Any] = {"cluster": cluster, "scope": "node", "node_name": "gpu-01", "reason": "new fans"}
    planned = Maintenance.objects.create(
        **place, **who, starts_at=now + timedelta(days=1), ends_at=now + timedelta(days=2)
    )
    over = Maintenance.objects.create(
        **place, **who, starts_at=now - timedelta(days=2), ends_at=now - timedelta(days=1), state="ended"
    )
    DeskRule.objects.create(
        cluster=cluster, name="left", uid="left", effect="NoSchedule", made_at=now, maintenance=over
    )
    drain = Drain.objects.create(**place, **who)
    holder = DrainHolder.objects.create(
        drain=drain, namespace="tides", name="harmonics", uid="harmonics", things=["gpu-0"],
        project=cast.project,
    )  # fmt: skip
    single: dict[str, Any] = {**place, "scope": "devices", "node_name": "", "devices": [dict(_DEVICE)]}
    return {
        "planned-maintenance": planned.key,
        "drain": drain.key,
        "closed-drain": Drain.objects.create(**single, **who, state="closed").key,
        "empty-drain": Drain.objects.create(**single, **who, state="empty", empty_at=now).key,
        "drain-holder": holder.key,
    }


def _looked(world: "World", selectors: list[Selector], taint: Taint, *, instead_of: str = "") -> str:
    now = timezone.now()
    coverage = coverage_of(world.cluster, world.cluster.streams.all(), now=now)
    blast = blast_of(
        cluster=world.cluster, selectors=selectors, taint=taint, now=now, coverage=coverage,
        instead_of=instead_of,
    )  # fmt: skip
    return blast.digest


def _rule(world: "World", **more: Any) -> dict[str, Any]:
    selector = Selector(_SELECTS["driver"], _SELECTS["pool"])
    looked = _looked(world, [selector], Taint(**_TAINT), instead_of=more.pop("instead_of", ""))
    return {**_SELECTS, "device": "", **_TAINT, "reason": "fans", "looked": looked, "step": "save", **more}


def _evicting(world: "World") -> dict[str, Any]:
    drain = Drain.objects.select_related("cluster").get(key=world.things["closed-drain"])
    return {"version": 1, "looked": _looked(world, selectors_at(drain), taint_of(drain, "NoExecute"))}


def _answering(world: "World") -> dict[str, Any]:
    holder = DrainHolder.objects.get(key=world.things["drain-holder"])
    return {f"{holder.pk}-answer": "done"}


def _times(**more: Any) -> dict[str, Any]:
    local = "%Y-%m-%dT%H:%M"
    ends = (_LATER + timedelta(hours=2)).strftime(local)
    return {"starts_at": _LATER.strftime(local), "ends_at": ends, "reason": "new fans", "effect": "", **more}


def _moments(**more: Any) -> dict[str, Any]:
    ends = (_LATER + timedelta(hours=2)).isoformat()
    return {"starts_at": _LATER.isoformat(), "ends_at": ends, "reason": "new fans", **more}


_node = {"cluster": "berlin", "scope": "node", "node": "gpu-01"}
_other = {"cluster": "berlin", "scope": "devices"}
_seen = {"version": 1}
BODIES: dict[str, dict[str, Any] | Callable[["World"], dict[str, Any]]] = {
    "POST taint-rule-create": lambda world: _rule(world, cluster="berlin", name="more-fans"),
    "POST taint-rule-edit": lambda world: _rule(world, seen_version="7", instead_of="fans"),
    "POST maintenance-create": _times(**_node),
    "POST maintenance-edit": _times(**_seen),
    "POST maintenance-cancel": _seen,
    "POST drain-create": {**_other, "devices": "gpu.nvidia.com/gpu-01/gpu-1", "reason": "new fans"},
    "POST drain-ask": {**_seen, "message": "Please finish."},
    "POST drain-close": _seen,
    "POST drain-evict": _evicting,
    "POST drain-hand-over": {**_seen, "ends_at": _LATER.strftime("%Y-%m-%dT%H:%M")},
    "POST drain-finish": _seen,
    "POST drain-answer": _answering,
    "POST api-taint-effect": {**_SELECTS, **_TAINT},
    "POST api-taint-rule-create": {**_SELECTS, **_TAINT, "name": "more-fans"},
    "PUT api-taint-rule": {**_SELECTS, **_TAINT, "effect": "NoExecute", "resource_version": "7"},
    "POST api-maintenance-list": _moments(place=_node),
    "PUT api-maintenance-detail": _moments(**_seen),
    "POST api-maintenance-cancel": _seen,
    "POST api-drain-list": {
        "place": {**_other, "devices": [{**_DEVICE, "device": "gpu-1"}]},
        "reason": "new fans",
    },
    "POST api-drain-ask": {**_seen, "message": "Please finish."},
    "POST api-drain-close": _seen,
    "POST api-drain-evict": _evicting,
    "POST api-drain-hand-over": {**_seen, "ends_at": _LATER.isoformat()},
    "POST api-drain-finish": _seen,
    "POST api-drain-answer": {"answer": "done"},
}
