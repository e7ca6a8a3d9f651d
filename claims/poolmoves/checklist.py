"""What has to be settled before a node pool goes on: each point with the evidence that the mirror gives, or
with the word of somebody who signed for it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django_stubs_ext import StrOrPromise

from claims.models import Drill, DrillStep, PoolPlan, PoolSignature, Request
from claims.poolmoves.billing import Use
from claims.poolmoves.plans import UnableToPlan
from claims.poolmoves.switching import PlaceEffect
from inventory.coverage import Coverage
from inventory.models import DeviceClass
from inventory.poolmoves.dependents import Dependents
from inventory.poolmoves.pods import PodFates
from inventory.poolmoves.pool import CANARY, OLD, Members
from inventory.poolmoves.sightings import Comparison
from portal.accounts import audit
from portal.accounts.models import User

Stage = PoolPlan.Stage
HOLDS, FAILS, UNKNOWN, OPEN, SIGNED = "holds", "fails", "unknown", "open", "signed"
MAX_NOTE = 1000


@dataclass(frozen=True)
class Item:
    """A point of the list: the stage that it has to be settled before, and whether a person may sign for
    it."""

    key: str
    before: str
    title: StrOrPromise
    signable: bool = True


ITEMS: Sequence[Item] = (
    Item("reason", Stage.CANARY, gettext_lazy("The reason of the business is written"), signable=False),
    Item("in-step", Stage.CANARY, gettext_lazy("The desk is in step with the cluster")),
    Item("class-usable", Stage.CANARY, gettext_lazy("The DeviceClass is there and can be used")),
    Item("canary-chosen", Stage.CANARY, gettext_lazy("The canary has nodes")),
    Item("way-back", Stage.CANARY, gettext_lazy("It is written down how the canary is rolled back")),
    Item("one-manager", Stage.DUAL, gettext_lazy("No node's hardware has two managers")),
    Item("canary-publishes", Stage.DUAL, gettext_lazy("Every node of the canary publishes its devices")),
    Item("counts-agree", Stage.DUAL, gettext_lazy("Both inventories agree on the canary")),
    Item("pods-run", Stage.DUAL, gettext_lazy("Pods run on the canary, and none failed")),
    Item("billing", Stage.DUAL, gettext_lazy("Use of the canary and of the other nodes is billed")),
    Item("drill", Stage.DUAL, gettext_lazy("A lifecycle drill of this pool showed what was expected")),
    Item("nothing-depends", Stage.MIGRATED, gettext_lazy("No workload asks for the extended resource")),
    Item("quotas", Stage.MIGRATED, gettext_lazy("Quotas of the resource are carried over to the class")),
    Item("queues", Stage.MIGRATED, gettext_lazy("Queues no longer count the extended resource")),
    Item("flavors", Stage.MIGRATED, gettext_lazy("All flavors of the pool are served by DRA")),
    Item("plugin-gone", Stage.MIGRATED, gettext_lazy("No node advertises the extended resource any more")),
    Item("restore", Stage.MIGRATED, gettext_lazy("Restoring the control plane from a backup was rehearsed")),
)
BY_KEY: Mapping[str, Item] = {item.key: item for item in ITEMS}


@dataclass(frozen=True, kw_only=True)
class Point:
    """A point as it stands. `evidence` is what the mirror says of it; `signature` the latest that counts."""

    key: str
    before: str
    title: str
    signable: bool
    verdict: str
    evidence: str
    signature: PoolSignature | None = None

    @property
    def settled(self) -> bool:
        return self.verdict in (HOLDS, SIGNED)


@dataclass(frozen=True, kw_only=True)
class Facts:
    """All that points are judged by."""

    plan: PoolPlan
    coverage: Coverage
    members: Members
    comparison: Comparison
    dependents: Dependents
    fates: Mapping[str, PodFates]
    use: Mapping[str, Use]
    places: Sequence[PlaceEffect]
    device_class: DeviceClass | None
    # The latest drill that is over, with its steps.
    drill: Drill | None


def points_of(facts: Facts) -> list[Point]:
    """Every point in its order. One query."""
    signatures = facts.plan.signatures.select_related("person").order_by("at", "pk")
    latest = {signature.item: signature for signature in signatures}
    found = []
    for item in ITEMS:
        verdict, evidence = _JUDGES[item.key](facts)
        signature = latest.get(item.key)
        signed = signature is not None and signature.settled and item.signable
        found.append(
            Point(
                key=item.key,
                before=item.before,
                title=str(item.title),
                signable=item.signable,
                verdict=SIGNED if signed and verdict != HOLDS else verdict,
                evidence=evidence,
                signature=signature if signed else None,
            )
        )
    return found


def sign(
    *,
    plan: PoolPlan,
    item: str,
    note: str,
    settled: bool,
    user: User,
    now: datetime,
    source_ip: str | None = None,
) -> PoolSignature:
    """Somebody's word for a point, or that it no longer holds. Raises UnableToPlan."""
    known = BY_KEY.get(item)
    if known is None or not known.signable:
        raise UnableToPlan({"item": [_("Nobody can sign for this.")]})
    if not note:
        raise UnableToPlan({"note": [_("Say what was looked at, and what was found.")]})
    with transaction.atomic():
        made = PoolSignature.objects.create(
            plan=plan, item=item, settled=settled, note=note, person=user, at=now
        )
        audit.record(
            now=now, actor=user, action="pool-plan.sign" if settled else "pool-plan.unsign", target=plan,
            after={"item": item, "note": note}, source_ip=source_ip,
        )  # fmt: skip
    return made


# --- one judge per point ----------------------------------------------------------------------------

Judged = tuple[str, str]


def _reason(facts: Facts) -> Judged:
    if facts.plan.reason and facts.plan.way:
        return HOLDS, _("For %(way)s: it is written with the plan.") % {"way": facts.plan.get_way_display()}
    return OPEN, _("Nobody has written it yet.")


def _in_step(facts: Facts) -> Judged:
    if facts.coverage.in_step:
        return HOLDS, _("All that the desk reads of it is up to date.")
    return FAILS, str(facts.coverage.why)


def _class_usable(facts: Facts) -> Judged:
    found, name = facts.device_class, facts.plan.device_class
    if found is None:
        return FAILS, _("The cluster has no DeviceClass “%(name)s”.") % {"name": name}
    if found.problem:
        return FAILS, _("This class cannot be used: %(problem)s") % {"problem": found.problem}
    return HOLDS, _("The cluster has it, and its expressions can be evaluated.")


def _canary_chosen(facts: Facts) -> Judged:
    count = len(facts.members.canary)
    if not facts.plan.canary_labels:
        return OPEN, _("The plan names no labels of canary nodes.")
    if not count:
        return FAILS, _("No node has the canary's labels at present.")
    return HOLDS, _("Nodes with the canary's labels: %(count)s.") % {"count": count}


def _by_word(_facts: Facts) -> Judged:
    return OPEN, _("The desk cannot see this: somebody has to sign for it.")


def _one_manager(facts: Facts) -> Judged:
    if dangers := facts.comparison.dangers:
        return FAILS, _("Two managers on: %(nodes)s.") % {"nodes": _some(dangers)}
    if not facts.comparison.rows:
        return UNKNOWN, _("No node of the pool is seen.")
    return HOLDS, _("On each node either the plugin or the driver tells of devices.")


def _canary_publishes(facts: Facts) -> Judged:
    rows = [row for row in facts.comparison.rows if row.part == CANARY]
    if not rows:
        return UNKNOWN, _("No node of the canary is seen.")
    if silent := [row.node for row in rows if not (row.devices or row.partitions)]:
        return FAILS, _("The driver publishes nothing on: %(nodes)s.") % {"nodes": _some(silent)}
    if broken := [name for name in facts.comparison.broken_pools if name in facts.members.canary]:
        return FAILS, _("The scheduler does not use these pools: %(pools)s.") % {"pools": _some(broken)}
    told = {"devices": sum(row.devices for row in rows), "nodes": len(rows)}
    return HOLDS, _("%(devices)s devices on %(nodes)s nodes.") % told


def _counts_agree(facts: Facts) -> Judged:
    rows = [row for row in facts.comparison.rows if row.part == CANARY]
    if not rows:
        return UNKNOWN, _("No node of the canary is seen.")
    differing = [row.node for row in rows if set(row.differences) - {"not-ready", "twins"}]
    if differing:
        return FAILS, _("There are differences on: %(nodes)s.") % {"nodes": _some(differing)}
    if any(row.labelled is None for row in rows):
        return UNKNOWN, _("Nothing says how many devices each node should have: compare by hand and sign.")
    return HOLDS, _("Each node publishes as many devices as its labels speak of.")


def _pods_run(facts: Facts) -> Judged:
    fates = facts.fates[CANARY]
    ran = fates.finished + fates.phases.get("Running", 0) + fates.phases.get("Succeeded", 0)
    if not ran and not fates.phases.get("Failed", 0):
        return UNKNOWN, _("No data: no Pod with devices has run there in this period.")
    if failed := max(fates.failed, fates.phases.get("Failed", 0)):
        return FAILS, _("%(count)s Pods failed there in this period.") % {"count": failed}
    return HOLDS, _("%(count)s Pods run or finished there, and none failed.") % {"count": ran}


def _billing(facts: Facts) -> Judged:
    missing = [part for part in (CANARY, OLD) if not facts.use[part].seen]
    if missing:
        return UNKNOWN, _("No data of this period for one of the two sides.")
    if any(facts.use[part].unpriced for part in (CANARY, OLD)):
        return FAILS, _("Some of the use has no price, or is not rated yet.")
    return HOLDS, _("Both sides have device-hours with a price in this period.")


def _drill(facts: Facts) -> Judged:
    drill = facts.drill
    if drill is None:
        return OPEN, _("No drill of this pool has been finished.")
    verdicts = [step.verdict for step in drill.steps.all()]
    told = {
        "at": f"{drill.finished_at or drill.created_at:%Y-%m-%d}",
        "proven": verdicts.count(DrillStep.Verdict.PROVEN),
        "all": len(verdicts),
    }
    if drill.cancelled or DrillStep.Verdict.PROVEN not in verdicts:
        return FAILS, _("The latest drill (%(at)s) proved nothing to its end.") % told
    if set(verdicts) - {DrillStep.Verdict.PROVEN, DrillStep.Verdict.SKIPPED}:
        return FAILS, _("The latest drill (%(at)s) proved %(proven)s of %(all)s questions.") % told
    return HOLDS, _("The latest drill (%(at)s) proved %(proven)s of %(all)s, and found nothing else.") % told


def _nothing_depends(facts: Facts) -> Judged:
    found = facts.dependents
    if found.workloads is None:
        return UNKNOWN, _("The desk does not see the Pods of this cluster.")
    if not found.workloads:
        return HOLDS, _("No Pod that has not finished asks for it.")
    told = {"count": len(found.workloads) + found.more, "classes": _some(found.classes)}
    if found.classes:
        words = _("%(count)s workloads ask for it by its old name, which %(classes)s serves by DRA.")
        return HOLDS, words % told
    return FAILS, _("%(count)s workloads still ask for it.") % told


def _quotas(facts: Facts) -> Judged:
    rows = facts.dependents.quotas
    if rows is None:
        return UNKNOWN, _("The desk does not see the quotas of this cluster.")
    if missing := sorted({row.namespace for row in rows if not row.carried_over}):
        return FAILS, _("No quota of the class in: %(names)s.") % {"names": _some(missing)}
    return HOLDS, _("Every namespace with a quota of the resource has one of the class.")


def _queues(facts: Facts) -> Judged:
    rows = facts.dependents.queues
    if rows is None:
        return UNKNOWN, _("The desk sees no queues on this cluster.")
    if rows:
        return FAILS, _("Queues that count it: %(names)s.") % {"names": _some([row.queue for row in rows])}
    return HOLDS, _("No queue counts it.")


def _flavors(facts: Facts) -> Judged:
    if not facts.places:
        return UNKNOWN, _("No flavor of the catalogue is served by this pool.")
    behind = [
        place.placement.flavor.name for place in facts.places if place.choice.backend != Request.Backend.DRA
    ]
    if behind:
        return FAILS, _("Still by the Device Plugin: %(names)s.") % {"names": _some(behind)}
    return HOLDS, _("New requests of all of them become claims.")


def _plugin_gone(facts: Facts) -> Judged:
    rows = facts.comparison.rows
    if not rows:
        return UNKNOWN, _("No node of the pool is seen.")
    if still := [row.node for row in rows if row.units is not None]:
        return FAILS, _("Still advertised on: %(nodes)s.") % {"nodes": _some(still)}
    return HOLDS, _("None of %(count)s nodes advertises it.") % {"count": len(rows)}


def _restore(facts: Facts) -> Judged:
    steps = facts.drill.steps.all() if facts.drill else ()
    if any(s.code == "restored" and s.verdict == DrillStep.Verdict.PROVEN for s in steps):
        return HOLDS, _("The latest drill proved that the state is consistent afterwards.")
    return OPEN, _("No drill has proven it; somebody may sign for it.")


def _some(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(names[:most])
    if len(names) <= most:
        return shown
    return _("%(names)s and %(count)s more") % {"names": shown, "count": len(names) - most}


_JUDGES = {
    "reason": _reason,
    "in-step": _in_step,
    "class-usable": _class_usable,
    "canary-chosen": _canary_chosen,
    "way-back": _by_word,
    "one-manager": _one_manager,
    "canary-publishes": _canary_publishes,
    "counts-agree": _counts_agree,
    "pods-run": _pods_run,
    "billing": _billing,
    "drill": _drill,
    "nothing-depends": _nothing_depends,
    "quotas": _quotas,
    "queues": _queues,
    "flavors": _flavors,
    "plugin-gone": _plugin_gone,
    "restore": _restore,
}
