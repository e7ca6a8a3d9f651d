"""The roll-out of an approved proposal: rehearsed on every cluster, then applied cluster by cluster in its
order, stopped at the first error.

`advance` does one step and commits it, and may be killed between any two: the next caller goes on. A
cluster is marked before anything is sent to it; whether that arrived is then read from the cluster, so that
nothing is applied twice and nothing is taken for done that is not. One runner at a time holds the proposal; a
runner that died is followed by another when its time is over.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils.translation import gettext as _

from inventory import class_history, clusters
from inventory.models import ClassProposal, Cluster, DeviceClass, ProposalEntry, ProposalTarget
from inventory.proposals import drawing, news, signals, writing
from inventory.proposals.deciding import UnableToDecide
from inventory.proposals.trail import enter, record
from inventory.proposals.writing import Goal, Present, Refused
from portal import access
from portal.accounts import audit
from portal.accounts.models import User
from portal.kube.client import Client
from portal.kube.errors import ClusterError

State = ClassProposal.State
Step = ProposalTarget.State
Outcome = ProposalTarget.Outcome
ClientFor = Callable[[Cluster], AbstractContextManager[Client]]
# Of a proposal that may still change something.
UNDECIDED = (State.OPEN, State.OUTDATED, State.APPROVED, State.APPLYING)
# A step asks a cluster a handful of times, each bounded by the client's timeout.
LEASE = timedelta(minutes=3)


def due(*, now: datetime) -> QuerySet[ClassProposal]:
    """Proposals that wait for a runner."""
    free = Q(runs_until=None) | Q(runs_until__lt=now)
    return ClassProposal.objects.filter(free, state__in=[State.APPROVED, State.APPLYING])


def advance(
    *, proposal_id: int, runner: str, now: datetime, client_for: ClientFor = clusters.client_for
) -> bool:
    """Do the next step as `runner` (a name that nobody else has); whether there is another one."""
    proposal = _take(proposal_id, runner, now)
    if proposal is None:
        return False
    targets = list(proposal.targets.select_related("cluster"))
    waiting = next((target for target in targets if target.state == Step.WAITING), None)
    if waiting is not None:
        return _rehearse(proposal, waiting, now=now, client_for=client_for)
    # Without any, its clusters were removed from the desk meanwhile.
    if not targets or any(target.state == Step.FAILED for target in targets):
        _stop(proposal, now=now)
        return False
    left = next((target for target in targets if target.state != Step.DONE), None)
    if left is None:
        _finish(proposal, now=now)
        return False
    if _write(proposal, left, now=now, client_for=client_for):
        return True
    _stop(proposal, now=now)
    return False


# --- steps --------------------------------------------------------------------------------------------


def _take(proposal_id: int, runner: str, now: datetime) -> ClassProposal | None:
    """Hold the proposal for a step; None when there is nothing to do or somebody else does it."""
    if access.only_looks():
        return None
    mine = Q(runs_until=None) | Q(runs_until__lt=now) | Q(runner=runner)
    rows = ClassProposal.objects.filter(mine, pk=proposal_id, state__in=[State.APPROVED, State.APPLYING])
    if not rows.update(state=State.APPLYING, runner=runner, runs_until=now + LEASE):
        return None
    return ClassProposal.objects.select_related("author", "drawn_by").get(pk=proposal_id)


def _rehearse(
    proposal: ClassProposal, target: ProposalTarget, *, now: datetime, client_for: ClientFor
) -> bool:
    """Have one cluster say what it would make of it."""
    try:
        with client_for(target.cluster) as client:
            resource = writing.resource_of(client)
            present = writing.look(client, resource, proposal.name)
            if present.is_what(_goal(target)):
                answer, outcome = target.wanted, Outcome.ALREADY
            else:
                _check(proposal, target, present)
                way = writing.rehearse(
                    client,
                    resource,
                    proposal.name,
                    present=present,
                    goal=_goal(target),
                    take_over=proposal.take_over,
                )
                answer, outcome = way.answer, Outcome.NONE
    except (Refused, ClusterError) as error:
        return _keep(proposal, target, expected=Step.WAITING, **_refusal(error), rehearsed_at=now)
    return _keep(
        proposal,
        target,
        expected=Step.WAITING,
        state=Step.REHEARSED,
        outcome=outcome,
        message="",
        answer=answer,
        dropped=[],
        managers=[],
        rehearsed_at=now,
    )


def _write(proposal: ClassProposal, target: ProposalTarget, *, now: datetime, client_for: ClientFor) -> bool:
    """Make it so on one cluster; whether that is certain now."""
    sent_before = target.state == Step.WRITING
    if not sent_before and not _keep(proposal, target, expected=target.state, state=Step.WRITING):
        return False
    sent = False
    try:
        with client_for(target.cluster) as client:
            resource = writing.resource_of(client)
            present = writing.look(client, resource, proposal.name)
            if present.is_what(_goal(target)):
                # Ours if it was sent before; else somebody was faster, and nothing is to be done.
                body = present.body if sent_before else None
                return _done(proposal, target, now=now, body=body, wrote=sent_before)
            _check(proposal, target, present)
            arguments: dict[str, Any] = {"present": present, "goal": _goal(target)}
            way = writing.rehearse(client, resource, proposal.name, take_over=proposal.take_over, **arguments)
            sent = True
            made = writing.write(client, resource, proposal.name, way=way, **arguments)
    except (Refused, ClusterError) as error:
        refusal = _refusal(error)
        if (sent or sent_before) and refusal["outcome"] in (Outcome.UNREACHABLE, Outcome.ERROR):
            refusal["state"] = Step.WRITING
            refusal["message"] += " " + _("Whether it was changed is not known: resuming looks first.")
        _keep(proposal, target, expected=Step.WRITING, **refusal)
        return False
    return _done(proposal, target, now=now, body=made, wrote=True, before=present.body or None)


def _done(
    proposal: ClassProposal,
    target: ProposalTarget,
    *,
    now: datetime,
    body: Any,
    wrote: bool,
    before: Any = None,
) -> bool:
    """The cluster has it: the target, the version and the audit trail say so together."""
    with transaction.atomic():
        outcome = Outcome.NONE if wrote else Outcome.ALREADY
        if not _keep(
            proposal, target, expected=Step.WRITING, state=Step.DONE, outcome=outcome, message="", done_at=now
        ):
            return False
        if wrote:
            wanted = target.wanted
            gone = wanted is None
            class_history.note_written(
                cluster=target.cluster,
                before=before or _body(proposal, target),
                after=None if gone else body,
                actor=proposal.drawn_by,
                now=now,
                reason=proposal.reason,
                proposal=proposal,
            )
            verb = "delete" if gone else "create" if target.base is None else "update"
            audit.record(
                now=now,
                actor=proposal.drawn_by,
                action=f"device_class.{verb}",
                target=target.cluster,
                target_kind="deviceclass",
                target_id=f"{target.cluster_id}/{proposal.name}"[:64],
                target_name=f"{target.cluster.name}/{proposal.name}",
                before=target.base,
                after=None if wanted is None else {**wanted, "proposal": proposal.pk},
            )
    return True


def _stop(proposal: ClassProposal, *, now: datetime) -> None:
    """After an error: what is done stays, and people decide how to go on."""
    with transaction.atomic():
        targets = list(proposal.targets.select_related("cluster"))
        wrong = [target for target in targets if target.outcome not in (Outcome.NONE, Outcome.ALREADY)]
        begun = any(target.state in (Step.DONE, Step.WRITING) for target in targets)
        moved = [target for target in wrong if target.outcome == Outcome.CHANGED]
        text = "\n".join(f"{t.cluster.name}: {t.get_outcome_display()}. {t.message}" for t in wrong)
        state = State.PARTLY if begun else State.OUTDATED if len(moved) == len(wrong) else State.FAILED
        if _end(proposal, state, now=now):
            kind = ProposalEntry.Kind.OUTDATED if state == State.OUTDATED else ProposalEntry.Kind.STOPPED
            enter(proposal, kind, None, now=now, text=text)
            record(proposal, "stop", actor=None, now=now, after={"state": state, "message": text[:2000]})
            news.decided(proposal, by=None, now=now, text=text[:1000])


def _finish(proposal: ClassProposal, *, now: datetime) -> None:
    with transaction.atomic():
        if _end(proposal, State.APPLIED, now=now):
            enter(proposal, ProposalEntry.Kind.APPLIED, None, now=now)
            record(proposal, "apply", actor=None, now=now, after={"state": State.APPLIED})
            news.decided(proposal, by=None, now=now)


# --- what people do about a roll-out that has stopped ------------------------------------------------------


def resume(*, proposal: ClassProposal, user: User, now: datetime, source_ip: str | None = None) -> None:
    """Go on where it stopped: what is not done is rehearsed again. Raises UnableToDecide."""
    if access.only_looks():
        raise UnableToDecide(access.why_only_looks(), code="only_looks")
    with transaction.atomic():
        _demand_stopped(proposal)
        proposal.targets.filter(state__in=[Step.FAILED, Step.REHEARSED]).update(
            state=Step.WAITING, outcome="", message=""
        )
        proposal.targets.filter(state=Step.WRITING).update(outcome="", message="")
        proposal.state, proposal.changed_at, proposal.runs_until = State.APPROVED, now, None
        proposal.save(update_fields=["state", "changed_at", "runs_until"])
        enter(proposal, ProposalEntry.Kind.RESUMED, user, now=now)
        record(proposal, "resume", actor=user, now=now, source_ip=source_ip)
        transaction.on_commit(lambda: signals.approved.send(ClassProposal, proposal_id=proposal.pk))


def give_up(*, proposal: ClassProposal, user: User, now: datetime, source_ip: str | None = None) -> None:
    """Leave it as it is: what is done stays, the rest is never done. Raises UnableToDecide."""
    with transaction.atomic():
        _demand_stopped(proposal)
        proposal.given_up_at = proposal.changed_at = now
        proposal.save(update_fields=["given_up_at", "changed_at"])
        enter(proposal, ProposalEntry.Kind.GIVEN_UP, user, now=now)
        record(proposal, "give_up", actor=user, now=now, source_ip=source_ip)


def roll_back(
    *, proposal: ClassProposal, user: User, now: datetime, reason: str = "", source_ip: str | None = None
) -> ClassProposal:
    """Propose to take back what is done of it, the last cluster first: under the same rule as any change.
    The rest is given up. Raises UnableToDecide."""
    with transaction.atomic():
        proposal.refresh_from_db(from_queryset=ClassProposal.objects.select_for_update())
        if proposal.state not in (State.APPLIED, State.PARTLY):
            raise UnableToDecide(_("Nothing of it is applied, or it is still at work."))
        if proposal.undone_by.filter(state__in=UNDECIDED).exists():
            raise UnableToDecide(_("Somebody has proposed to take it back already."))
        done = [t for t in proposal.targets.select_related("cluster") if t.state == Step.DONE]
        drafts = [
            drawing.Draft(
                t.cluster,
                t.base,
                None if t.wanted_labels is None else t.base_labels,
                None if t.wanted_annotations is None else t.base_annotations,
            )
            for t in reversed(done)
            if t.outcome != Outcome.ALREADY
        ]
        if not drafts:
            raise UnableToDecide(_("Nothing of it is applied, or it is still at work."))
        if proposal.state == State.PARTLY and proposal.given_up_at is None:
            give_up(proposal=proposal, user=user, now=now, source_ip=source_ip)
        try:
            return drawing.propose(
                name=proposal.name,
                drafts=drafts,
                author=user,
                now=now,
                reason=reason,
                kind=ClassProposal.Kind.ROLL_BACK,
                # Taking back a creation deletes the class: who approves it is shown who uses it.
                confirmed=proposal.name,
                undoes=proposal,
                source_ip=source_ip,
            )
        except drawing.UnableToPropose as refused:
            raise UnableToDecide(refused.message) from refused


def is_stopped(proposal: ClassProposal) -> bool:
    """Whether it waits for somebody to resume it or to give it up."""
    return proposal.state in (State.PARTLY, State.FAILED) and proposal.given_up_at is None


# --- inside -------------------------------------------------------------------------------------------


def _demand_stopped(proposal: ClassProposal) -> None:
    proposal.refresh_from_db(from_queryset=ClassProposal.objects.select_for_update())
    if not is_stopped(proposal):
        raise UnableToDecide(_("It has not stopped, or was given up."))


def _check(proposal: ClassProposal, target: ProposalTarget, present: Present) -> None:
    """That the class is what the change was drawn from, and used by nobody else. Raises Refused."""
    if not target.cluster.enabled:
        said = _("%(cluster)s is not followed: follow it again first.") % {"cluster": target.cluster.name}
        raise Refused(Outcome.UNREACHABLE, said)
    marks = (present.labels, present.annotations)
    if drawing.differs(target, present.spec, *marks):
        raise Refused(Outcome.CHANGED, _("The class is no longer what this was drawn from."))
    if target.wanted is None:
        row = DeviceClass.objects.filter(cluster=target.cluster, name=proposal.name).first()
        new = sorted(set(drawing.users_named(row) if row else ()) - set(target.users))
        if new:
            said = _("Used by others since it was proposed: %(users)s") % {"users": ", ".join(new[:20])}
            raise Refused(Outcome.USED, said)


def _keep(proposal: ClassProposal, target: ProposalTarget, *, expected: str, **values: Any) -> bool:
    """Write down what became of a target, unless another runner has taken over."""
    held = ClassProposal.objects.filter(pk=proposal.pk, runner=proposal.runner, state=State.APPLYING)
    rows = ProposalTarget.objects.filter(pk=target.pk, state=expected, proposal__in=held.values("pk"))
    return bool(rows.update(**values))


def _end(proposal: ClassProposal, state: str, *, now: datetime) -> bool:
    held = ClassProposal.objects.filter(pk=proposal.pk, runner=proposal.runner, state=State.APPLYING)
    if not held.update(state=state, changed_at=now, runs_until=None):
        return False
    proposal.state, proposal.changed_at = state, now
    return True


def _goal(target: ProposalTarget) -> Goal:
    return Goal(target.wanted, target.wanted_labels, target.wanted_annotations)


def _refusal(error: Refused | ClusterError) -> dict[str, Any]:
    refused = error if isinstance(error, Refused) else Refused.by(error)
    return {
        "state": Step.FAILED,
        "outcome": refused.outcome,
        "message": refused.message[:1900],
        "answer": refused.answer,
        "dropped": list(refused.dropped),
        "managers": list(refused.managers),
    }


def _body(proposal: ClassProposal, target: ProposalTarget) -> dict[str, Any] | None:
    """The object that there was, as far as it is known after a crash."""
    if target.base is None:
        return None
    keys = {"name": proposal.name, "uid": target.base_uid, "resourceVersion": target.base_version}
    marks = {"labels": target.base_labels, "annotations": target.base_annotations}
    return {"metadata": {**keys, **marks}, "spec": target.base}


def done_part(targets: Sequence[ProposalTarget]) -> int:
    """On how many clusters it is done."""
    return sum(target.state == Step.DONE for target in targets)
