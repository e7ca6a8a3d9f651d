"""A drill at work: each call takes it as far as the cluster allows now, and leaves in the database where it
is.

Whoever works on a drill has put its `due_at` ahead, so that nobody else does; who dies there is succeeded
when that time has come. All of it talks to the cluster: not inside a transaction.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from claims.drill.free import free_in_pool
from claims.drill.hands import DrillClient, Hands, event_time
from claims.drill.scene import End, FreeOf, Scene, Verdict
from claims.drill.steps import BY_CODE, Part, Step
from claims.ledger import storage
from claims.models import Drill, DrillStep
from claims.requests import submission
from claims.requests.rehearsal import api_version
from inventory.clusters import client_for
from inventory.models import Cluster
from portal.accounts import audit
from portal.kube import errors

Connect = Callable[[Cluster], AbstractContextManager[DrillClient]]
State = Drill.State
StepState = DrillStep.State

# How soon to look again, and how long who works on it has it for himself.
AGAIN = timedelta(seconds=2)
LEASE = timedelta(seconds=60)
MOST_WAIT = timedelta(seconds=60)
# Pods that no kubelet took up are taken away by force after so long; before that, they may still be on their
# way. And what a step leaves may take so long until the next one begins.
FORCE_AFTER = timedelta(seconds=40)
TIDY = timedelta(seconds=90)
# More than any step has: one call never goes on for ever.
MOST_PARTS = 20


def due(*, now: datetime) -> list[int]:
    """Primary keys of drills with work to do."""
    rows = Drill.objects.exclude(state=State.FINISHED).filter(due_at__lte=now).order_by("due_at", "pk")
    return list(rows.values_list("pk", flat=True))


def pursue(
    *, drill_id: int, now: datetime, connect: Connect = client_for, free_of: FreeOf = free_in_pool
) -> None:
    """Take one drill further."""
    drill = Drill.objects.select_related("cluster", "plan", "person").filter(pk=drill_id).first()
    if drill is None or drill.state == State.FINISHED or drill.due_at is None or drill.due_at > now:
        return
    mine = Drill.objects.filter(pk=drill.pk, due_at=drill.due_at).exclude(state=State.FINISHED)
    if not mine.update(due_at=now + LEASE):
        return
    drill.due_at = now + LEASE
    try:
        with connect(drill.cluster) as client:
            hands = Hands(drill, client, api_version=api_version(drill.cluster))
            if drill.state == State.CLEANING:
                _clean(drill, hands, now=now)
            else:
                _run(drill, hands, now=now, free_of=free_of)
    except errors.ClusterError as error:
        _later(drill, error, now=now)
        return
    again = Drill.objects.filter(pk=drill.pk, due_at=drill.due_at).exclude(state=State.FINISHED)
    again.update(due_at=now + AGAIN, attempts=0, message="")


def _run(drill: Drill, hands: Hands, *, now: datetime, free_of: FreeOf) -> None:
    steps = list(drill.steps.order_by("position"))
    for step in steps:
        if step.state == StepState.DONE and "tidy" not in step.facts:
            continue
        if step.state == StepState.DONE:
            if not _tidied(step, hands, now=now):
                return
            continue
        scene = Scene(drill=drill, step=step, hands=hands, now=now, free_of=free_of)
        try:
            _advance(scene)
        except errors.ClusterError as error:
            if submission.is_retryable(error):
                # What was seen so far is kept.
                _save(step)
                raise
            scene.observe("refused", source="desk", message=error.message)
            _end(scene, End(Verdict.NOT_PROVEN, "refused"))
        return
    _over(drill, now=now)


def _advance(scene: Scene) -> None:
    """As many parts of the step as are ready."""
    step, script = scene.step, BY_CODE.get(scene.step.code)
    if script is None:
        # Of an older desk: nobody knows any more how it went.
        _end(scene, End(Verdict.SKIPPED, "unknown-step"))
        return
    if step.started_at is None:
        step.started_at = step.phase_at = scene.now
        step.phase, step.state = script.parts[0].name, StepState.RUNNING
    for _turn in range(MOST_PARTS):
        at = script.part(step.phase)
        part = script.parts[at]
        _ask(scene, part)
        found = part.act(scene)
        if found is False:
            _wait(scene, part)
            return
        if isinstance(found, End):
            _end(scene, found)
            return
        if at + 1 == len(script.parts):
            _end(scene, End(Verdict.PROVEN))
            return
        step.phase, step.phase_at, step.state = script.parts[at + 1].name, scene.now, StepState.RUNNING
        scene.step.facts = {name: value for name, value in step.facts.items() if name != "did"}
        if not _save(step):
            return


def _ask(scene: Scene, part: Part) -> None:
    step = scene.step
    if part.ask and not step.facts.get("did") and step.state != StepState.ASKING:
        step.state, step.asked_at = StepState.ASKING, scene.now
        scene.observe(f"asked-{part.ask}", source="desk")


def _wait(scene: Scene, part: Part) -> None:
    """Not yet: look again later, or it comes too late."""
    step, drill = scene.step, scene.drill
    asking = step.state == StepState.ASKING
    limit = timedelta(seconds=drill.ask_seconds if asking else drill.step_seconds)
    since = step.asked_at if asking else step.phase_at
    if scene.now - (since or scene.now) >= limit:
        _end(scene, End(Verdict.SKIPPED, "nobody-answered") if asking else End(Verdict.NOT_PROVEN, part.late))
    else:
        _save(step)


def _end(scene: Scene, found: End) -> None:
    step, script = scene.step, BY_CODE.get(scene.step.code)
    if found.verdict != Verdict.SKIPPED and script is not None:
        _gather_events(scene, script)
    step.state, step.verdict, step.why = StepState.DONE, found.verdict, found.why
    step.ended_at = scene.now
    scene.remember(tidy=scene.now.isoformat())
    _save(step)


def _gather_events(scene: Scene, script: Step) -> None:
    """What the cluster itself said about the Pods of the step."""
    for suffix in script.pods:
        # Evidence besides: without the right to read events, the step is as it is.
        with suppress(errors.ClusterError):
            for event in scene.hands.events(suffix):
                scene.observe(
                    "event",
                    at=event_time(event),
                    source="event",
                    pod=scene.hands.name(suffix),
                    reason=event.get("reason", ""),
                    message=event.get("message", ""),
                )


def _save(step: DrillStep) -> bool:
    """Keep where the step is, unless somebody has ended (or answered) it meanwhile."""
    columns = (
        *("state", "verdict", "why", "phase", "observed", "started_at", "phase_at", "asked_at"),
        *("ended_at",),
    )
    with transaction.atomic():
        rows = DrillStep.objects.select_for_update().filter(pk=step.pk).exclude(state=StepState.DONE)
        stored = rows.first()
        if stored is None:
            return False
        facts = dict(step.facts)
        if stored.facts.get("did") and not facts.get("did") and stored.phase == step.phase:
            # Answered while we were looking.
            facts["did"] = stored.facts["did"]
            step.state, step.phase_at = stored.state, stored.phase_at
        step.facts = facts
        step.observed += [entry for entry in stored.observed if entry not in step.observed]
        DrillStep.objects.filter(pk=step.pk).update(
            facts=facts, **{name: getattr(step, name) for name in columns}
        )
    return True


def _tidied(step: DrillStep, hands: Hands, *, now: datetime) -> bool:
    """Whether what the step made is gone, or has had its time: the next one wants its device."""
    since = datetime.fromisoformat(step.facts["tidy"])
    left = hands.remove(by_force=now - since >= FORCE_AFTER)
    if left and now - since < TIDY:
        return False
    facts = {name: value for name, value in step.facts.items() if name != "tidy"}
    DrillStep.objects.filter(pk=step.pk).update(facts=facts)
    return True


def _over(drill: Drill, *, now: datetime) -> None:
    if Drill.objects.filter(pk=drill.pk, state=State.RUNNING).update(state=State.CLEANING, finished_at=now):
        Drill.objects.filter(pk=drill.pk).update(due_at=now)


def _clean(drill: Drill, hands: Hands, *, now: datetime) -> None:
    """Remove all that is left; the drill is finished when nothing is."""
    since = drill.finished_at or now
    if hands.remove(by_force=now - since >= FORCE_AFTER):
        return
    with transaction.atomic():
        changed = Drill.objects.filter(pk=drill.pk, state=State.CLEANING).update(
            state=State.FINISHED, clean_at=now, due_at=None, message=""
        )
        if not changed:
            return
        verdicts = list(drill.steps.order_by("position").values_list("verdict", flat=True))
        told: dict[str, Any] = {name: verdicts.count(name) for name in Verdict.values if name}
        audit.record(now=now, actor=None, action="drill.finish", target=drill, after=told,
                     target_id=str(drill.key))  # fmt: skip
    # Observed before the desk knew whose they were, they may stand with the namespace's project.
    uids = drill.objects_made.values_list("uid", flat=True)
    storage.refold(cluster=drill.cluster, uids=list(uids))


def _later(drill: Drill, error: errors.ClusterError, *, now: datetime) -> None:
    """The cluster does not answer, or refuses: tried again, ever more slowly. While a control plane is being
    restored that is as it should be, and evidence."""
    step = drill.steps.filter(state=StepState.ASKING).first()
    if step is not None:
        scene_note = {"at": now.isoformat(), "source": "desk", "code": "not-reachable", "what": {}}
        if not any(entry["code"] == "not-reachable" for entry in step.observed):
            DrillStep.objects.filter(pk=step.pk).exclude(state=StepState.DONE).update(
                observed=[*step.observed, scene_note]
            )
    wait = min(AGAIN * 2 ** min(drill.attempts, 10), MOST_WAIT)
    Drill.objects.filter(pk=drill.pk, due_at=drill.due_at).update(
        due_at=now + max(wait, timedelta(seconds=error.retry_after or 0)),
        attempts=drill.attempts + 1,
        message=error.message[:2000],
    )
