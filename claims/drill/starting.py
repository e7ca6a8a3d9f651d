"""Starting a drill, answering what it asks, and calling it off: what administrators do."""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from claims.asks.reading import WHOLE, WrongValue, WrongValues, read_integer, read_many, read_text
from claims.catalogue.tolerations import read_tolerations
from claims.drill.free import free_in_pool
from claims.drill.hands import claim_of, pod_of
from claims.drill.running import Connect
from claims.drill.scene import FreeOf, Verdict
from claims.drill.steps import BY_CODE, STEPS
from claims.models import Drill, DrillStep, PoolPlan
from claims.requests import manifests, submission
from claims.requests.rehearsal import api_version
from claims.signals import drill_due
from inventory.bindings import NAMESPACE as NAMES
from inventory.clusters import client_for
from inventory.models import NamespaceBinding
from portal import access
from portal.accounts import audit
from portal.accounts.models import User
from portal.kube import errors

NAMESPACE = "claimdesk-drill"
STEP_SECONDS = (5, 3600)
ASK_HOURS = (1, 24 * 14)
PARTS = ("canary", "pool")
State = Drill.State
StepState = DrillStep.State


class UnableToDrill(WrongValues):
    """`errors` maps fields (or WHOLE) to messages for people."""


@dataclass(frozen=True, kw_only=True)
class DrillTerms:
    """What was said, as it was read. `codes` are the questions that are asked."""

    namespace: str
    part: str
    tolerations: list[dict[str, Any]]
    step_seconds: int
    ask_hours: int
    typed_name: str
    codes: tuple[str, ...]


def read_drill(values: Mapping[str, object]) -> DrillTerms:
    """The terms in `values`. Raises UnableToDrill with every error."""
    wrong: dict[str, list[str]] = {}

    def attempt(name: str, read: Any, default: Any) -> Any:
        try:
            return read()
        except WrongValue as error:
            wrong.setdefault(name, []).append(str(error))
            return default

    def number(name: str, bounds: tuple[int, int], default: int) -> int:
        found = read_integer(values, name)
        if found is None:
            return default
        if not bounds[0] <= found <= bounds[1]:
            told = {"least": bounds[0], "most": bounds[1]}
            raise WrongValue(_("A number from %(least)s to %(most)s.") % told)
        return found

    def chosen() -> tuple[str, ...]:
        asked = read_many(values, "questions")
        if strange := [code for code in asked if code not in BY_CODE]:
            raise WrongValue(_("There is no “%(name)s” (any more).") % {"name": strange[0][:63]})
        return tuple(step.code for step in STEPS if step.code in asked or not asked)

    terms = DrillTerms(
        namespace=attempt("namespace", lambda: _namespace(values), NAMESPACE),
        part=attempt("part", lambda: _part(values), ""),
        tolerations=attempt("tolerations", lambda: read_tolerations(values, "tolerations"), []),
        step_seconds=attempt("step_seconds", lambda: number("step_seconds", STEP_SECONDS, 120), 120),
        ask_hours=attempt("ask_hours", lambda: number("ask_hours", ASK_HOURS, 24), 24),
        typed_name=attempt("last_device", lambda: read_text(values, "last_device", limit=63), ""),
        codes=attempt("questions", chosen, ()),
    )
    if wrong:
        raise UnableToDrill(wrong)
    return terms


def start(
    *,
    plan: PoolPlan,
    terms: DrillTerms,
    image: str,
    command: tuple[str, ...] = (),
    user: User,
    now: datetime,
    source_ip: str | None = None,
    connect: Connect = client_for,
    free_of: FreeOf = free_in_pool,
) -> Drill:
    """Start a drill on a pool. Raises UnableToDrill; talks to the cluster, which judges a claim and a Pod on
    trial: not inside a transaction."""
    if access.only_looks():
        raise UnableToDrill({WHOLE: [access.why_only_looks()]})
    if terms.part == "canary" and not plan.canary_labels:
        raise UnableToDrill({"part": [_("The plan names no labels of canary nodes.")]})
    bound = NamespaceBinding.objects.filter(cluster=plan.cluster, namespace=terms.namespace)
    if bound.filter(Q(valid_until=None) | Q(valid_until__gt=now)).exists():
        raise UnableToDrill(
            {"namespace": [_("This namespace belongs to a project, which would pay: choose one of its own.")]}
        )
    canary = terms.part == "canary" or (not terms.part and bool(plan.canary_labels))
    drill = Drill(
        key=uuid.uuid4(),
        plan=plan,
        cluster=plan.cluster,
        namespace=terms.namespace,
        device_class=plan.device_class,
        driver=plan.driver,
        node_selector=plan.canary_labels if canary else plan.labels,
        tolerations=terms.tolerations,
        image=image,
        command=list(command),
        step_seconds=terms.step_seconds,
        ask_seconds=terms.ask_hours * 3600,
        person=user,
        created_at=now,
        due_at=now,
    )
    drill.last_device = _may_take_the_last(drill, terms, free_of(drill))
    _rehearse(drill, connect)
    try:
        with transaction.atomic():
            drill.save(force_insert=True)
            DrillStep.objects.bulk_create(
                DrillStep(drill=drill, position=position, code=code)
                for position, code in enumerate(terms.codes)
            )
            audit.record(
                now=now, actor=user, action="drill.start", target=drill, target_id=str(drill.key),
                after={"pool": plan.name, "namespace": drill.namespace, "last_device": drill.last_device},
                source_ip=source_ip,
            )  # fmt: skip
            transaction.on_commit(lambda: drill_due.send(Drill, drill_id=drill.pk))
    except IntegrityError:
        raise UnableToDrill({WHOLE: [_("A drill of this pool is under way already.")]}) from None
    return drill


def answer(
    *, drill: Drill, code: str, did: bool, user: User, now: datetime, source_ip: str | None = None
) -> None:
    """An operator did what the drill asked for, or the question is to be skipped. Raises UnableToDrill."""
    with transaction.atomic():
        known = code in BY_CODE
        step = drill.steps.select_for_update().filter(code=code).first() if known else None
        if step is None or step.state == StepState.DONE or drill.state != State.RUNNING:
            raise UnableToDrill({WHOLE: [_("This question is not open (any more).")]})
        told = {"at": now.isoformat(), "source": "operator", "what": {"person": str(user)}}
        if did:
            if step.state != StepState.ASKING:
                raise UnableToDrill({WHOLE: [_("Nothing is asked of you here at present.")]})
            step.facts = {**step.facts, "did": now.isoformat()}
            step.state, step.phase_at = StepState.RUNNING, now
            step.observed = [*step.observed, {**told, "code": "did"}]
        else:
            step.facts = {**step.facts, "tidy": now.isoformat()} if step.started_at else step.facts
            step.state, step.verdict, step.why = StepState.DONE, Verdict.SKIPPED, "by-person"
            step.ended_at = now
            step.observed = [*step.observed, {**told, "code": "skipped"}]
        step.answered_by = user
        step.save()
        # A drill that is well looks again at once by itself; one that backs off is told.
        Drill.objects.filter(pk=drill.pk, state=State.RUNNING, attempts__gt=0).update(due_at=now)
        audit.record(
            now=now, actor=user, action="drill.did" if did else "drill.skip", target=drill,
            target_id=str(drill.key), after={"question": code}, source_ip=source_ip,
        )  # fmt: skip
        transaction.on_commit(lambda: drill_due.send(Drill, drill_id=drill.pk))


def cancel(*, drill: Drill, user: User, now: datetime, source_ip: str | None = None) -> None:
    """Call it off: what is open is skipped, and all of it is removed. Harmless when it is over."""
    with transaction.atomic():
        changed = Drill.objects.filter(pk=drill.pk, state=State.RUNNING).update(
            state=State.CLEANING, cancelled=True, finished_at=now
        )
        drill.refresh_from_db()
        if not changed:
            return
        drill.steps.exclude(state=StepState.DONE).update(
            state=StepState.DONE, verdict=Verdict.SKIPPED, why="called-off", ended_at=now
        )
        audit.record(
            now=now, actor=user, action="drill.cancel", target=drill, target_id=str(drill.key),
            source_ip=source_ip,
        )  # fmt: skip
        transaction.on_commit(lambda: drill_due.send(Drill, drill_id=drill.pk))


# --- inside -----------------------------------------------------------------------------------------


def _may_take_the_last(drill: Drill, terms: DrillTerms, free: int | None) -> bool:
    """Whether somebody said so; raises where nobody did and it would."""
    if free == 0:
        raise UnableToDrill({WHOLE: [_("No device of this pool is free: there is nothing to drill with.")]})
    if free is not None and free > 1:
        return False
    if terms.typed_name == drill.plan.name:
        return True
    said = (
        _("How many devices are free is not known: the drill may take the last one.")
        if free is None
        else _("One device is free: the drill would take the last one.")
    )
    typed = _("Type the name of the pool, %(name)s, if that is meant.") % {"name": drill.plan.name}
    raise UnableToDrill({"last_device": [f"{said} {typed}"]})


def _rehearse(drill: Drill, connect: Connect) -> None:
    """Let the server judge what the drill will make: namespace, quotas, Pod security, fields."""
    version = api_version(drill.cluster)
    claim = manifests.for_version(claim_of(drill, "drill-trial"), version)
    pod = pod_of(drill, "drill-trial", reference={"resourceClaimName": "drill-trial"})
    try:
        with connect(drill.cluster) as client:
            for manifest in (claim, pod):
                answer = client.create(
                    submission.resource_of(manifest), manifest, namespace=drill.namespace, dry_run=True
                )
                if dropped := list(submission.dropped_fields(manifest, answer)):
                    raise submission.FieldsDropped(dropped)
    except errors.ClusterError as error:
        raise UnableToDrill({"namespace": [error.message]}) from error


def _namespace(values: Mapping[str, object]) -> str:
    name = read_text(values, "namespace", limit=63) or NAMESPACE
    if not NAMES.fullmatch(name):
        raise WrongValue(_("Lower-case letters, digits and hyphens, as Kubernetes names namespaces."))
    return name


def _part(values: Mapping[str, object]) -> str:
    typed = read_text(values, "part", limit=10)
    if typed and typed not in PARTS:
        raise WrongValue(_("Choose one of: %(choices)s.") % {"choices": ", ".join(PARTS)})
    return typed
