"""Plans of node pools: reading, saving and removing them, and the written reason for the way that is
chosen."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from claims.asks.reading import WHOLE, WrongValue, WrongValues, read_choice, read_text
from claims.catalogue.placement_terms import read_labels, read_resource
from claims.models import PoolPlan
from inventory.models import Cluster
from inventory.poolmoves.pool import NodePool
from portal import texts
from portal.accounts import audit
from portal.accounts.models import User

COLUMNS = (
    *("name", "labels", "canary_labels", "extended_resource", "device_class", "driver"),
    *("way", "reason"),
)
MAX_REASON = 4000
Stage = PoolPlan.Stage


class UnableToPlan(WrongValues):
    """What was wanted of a plan cannot be. `errors` maps fields (or WHOLE) to messages for people; `conflict`
    = somebody else was faster, or what was looked at has changed."""


@dataclass(frozen=True, kw_only=True)
class PlanTerms:
    """What was said, as it was read; `columns` are those of the model."""

    cluster: Cluster
    columns: Mapping[str, Any]


def pool_of(plan: PoolPlan) -> NodePool:
    """The pool that a plan is about, for those who look at the mirror."""
    return NodePool(
        cluster=plan.cluster,
        labels=plan.labels,
        canary_labels=plan.canary_labels,
        extended_resource=plan.extended_resource,
        device_class=plan.device_class,
        driver=plan.driver,
    )


def read_plan(values: Mapping[str, object], *, cluster: Cluster | None = None) -> PlanTerms:
    """The plan in `values`: "cluster" by name (unless it is given), and COLUMNS. Raises UnableToPlan with
    every error."""
    errors: dict[str, list[str]] = {}
    columns: dict[str, Any] = {}
    for name, reader in _READERS.items():
        try:
            columns[name] = reader(values)
        except WrongValue as error:
            errors[name] = [str(error)]
    if cluster is None:
        named = str(values.get("cluster") or "").replace("\0", "")
        cluster = Cluster.objects.filter(name=named[:63]).first() if named.isprintable() else None
    if cluster is None:
        errors["cluster"] = [_("Choose a cluster.")]
    if "way" in columns and "reason" in columns and bool(columns["way"]) != bool(columns["reason"]):
        name = "reason" if columns["way"] else "way"
        errors[name] = [
            _("Why this way? Write the reason of the business down.")
            if columns["way"]
            else _("For which way is this the reason?")
        ]
    if "labels" in columns and columns["labels"] == columns.get("canary_labels"):
        errors["canary_labels"] = [
            _("All nodes of the pool have these labels; name one that only the canary's nodes have.")
        ]
    if errors or cluster is None:
        raise UnableToPlan(errors)
    return PlanTerms(cluster=cluster, columns=columns)


def save(
    *,
    plan: PoolPlan | None,
    terms: PlanTerms,
    user: User,
    now: datetime,
    seen_version: int = 0,
    source_ip: str | None = None,
) -> PoolPlan:
    """Make a plan (None), or change one if it still is at `seen_version`. Raises UnableToPlan."""
    if plan is not None and plan.stage != Stage.INVENTORY and not terms.columns["reason"]:
        raise UnableToPlan({"reason": [_("From the canary on, a pool has a written reason.")]})
    before = as_dict(plan) if plan is not None else None
    columns = {**terms.columns, "cluster": terms.cluster, "changed_at": now, "changed_by": user}
    try:
        with transaction.atomic():
            if plan is None:
                plan = PoolPlan.objects.create(created_at=now, **columns)
            else:
                _claim(plan, seen_version=seen_version, **columns)
            audit.record_edit(
                kind="pool-plan",
                target=plan,
                before=before,
                after=as_dict(plan),
                actor=user,
                now=now,
                source_ip=source_ip,
            )
    except IntegrityError:
        raise UnableToPlan(
            {"name": [_("This pool of the cluster has a plan already; change it there.")]}
        ) from None
    return plan


def remove(*, plan: PoolPlan, user: User, now: datetime, source_ip: str | None = None) -> None:
    """Drop a plan with its history and drills. Raises UnableToPlan while a drill is under way."""
    with transaction.atomic():
        if plan.drills.exclude(state="finished").exists():
            raise UnableToPlan({WHOLE: [_("A drill of this pool is under way: end it first.")]})
        audit.record_edit(
            kind="pool-plan",
            target=plan,
            before=as_dict(plan),
            after=None,
            actor=user,
            now=now,
            source_ip=source_ip,
        )
        plan.delete()


def claim(plan: PoolPlan, *, seen_version: int, user: User, now: datetime, **columns: Any) -> None:
    """Compare-and-set, inside the transaction of the change; `plan` is refreshed. Raises UnableToPlan with
    `conflict`."""
    _claim(plan, seen_version=seen_version, changed_at=now, changed_by=user, **columns)


def _claim(plan: PoolPlan, *, seen_version: int, **columns: Any) -> None:
    rows = PoolPlan.objects.filter(pk=plan.pk, version=seen_version)
    if not rows.update(version=seen_version + 1, **columns):
        current = PoolPlan.objects.select_related("changed_by").filter(pk=plan.pk).first()
        who = (current.changed_by if current else None) or _("Somebody")
        raise UnableToPlan(
            {
                WHOLE: [
                    _(
                        "%(who)s changed this plan meanwhile. Nothing was done. Look at it again, and then"
                        " decide."
                    )
                    % {"who": who}
                ]
            },
            conflict=True,
        )
    plan.refresh_from_db()


def as_dict(plan: PoolPlan) -> dict[str, Any]:
    """For audit entries, forms and REST."""
    return {"cluster": plan.cluster.name} | {name: getattr(plan, name) for name in COLUMNS}


# --- one reader per field ---------------------------------------------------------------------------


def _name(values: Mapping[str, object]) -> str:
    typed = read_text(values, "name", limit=63)
    try:
        name = texts.name(typed)
    except texts.UncleanText as unclean:
        raise WrongValue(unclean.message) from None
    if not name:
        raise WrongValue(_("What is the pool called?"))
    return name


def _labels(values: Mapping[str, object]) -> dict[str, str]:
    if not (labels := read_labels(values, "labels")):
        raise WrongValue(_("By which labels are the nodes of this pool known?"))
    return labels


def _resource(values: Mapping[str, object]) -> str:
    if not (resource := read_resource(values, "extended_resource")):
        raise WrongValue(_("What does the Device Plugin call its units?"))
    return resource


def _class(values: Mapping[str, object]) -> str:
    if not (name := read_text(values, "device_class", limit=253)):
        raise WrongValue(_("By which DeviceClass does DRA offer its devices?"))
    return name


def _way(values: Mapping[str, object]) -> str:
    if values.get("way") in (None, ""):
        return PoolPlan.Way.UNDECIDED
    return read_choice(values, "way", PoolPlan.Way.values)


_READERS: Mapping[str, Callable[[Mapping[str, object]], Any]] = {
    "name": _name,
    "labels": _labels,
    "canary_labels": lambda values: read_labels(values, "canary_labels"),
    "extended_resource": _resource,
    "device_class": _class,
    "driver": lambda values: read_text(values, "driver", limit=63),
    "way": _way,
    "reason": lambda values: read_text(values, "reason", limit=MAX_REASON),
}
