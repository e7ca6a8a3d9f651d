"""Proposals as rows, for tests of pages and of who may call what."""

from datetime import datetime

from inventory.models import ClassProposal, Cluster, DeviceClass, ProposalEntry, ProposalTarget
from inventory.proposals import drawing
from portal.accounts.models import User
from tests.inventory_proposals.builders import AMD
from tests.inventory_proposals.shelf import rules

Step = ProposalTarget.State


def make_proposal(
    cluster: Cluster,
    author: User,
    *,
    now: datetime,
    name: str = "spare.example.org",
    state: str = "open",
    step: str = Step.WAITING,
    outcome: str = "",
    reason: str = "The new cards are of another maker.",
) -> ClassProposal:
    """Somebody proposes that the class matches AMD's devices; then it is as far as `state` and `step` say."""
    drafts = [drawing.Draft(cluster, rules(AMD))]
    proposal = drawing.propose(name=name, drafts=drafts, author=author, now=now, reason=reason)
    proposal.targets.update(
        state=step,
        outcome=outcome,
        message="Fields belong to helm." if outcome == "conflict" else "",
        managers=["helm"] if outcome == "conflict" else [],
        done_at=now if step == Step.DONE else None,
    )
    proposal.state = state
    proposal.save(update_fields=["state"])
    ProposalEntry.objects.create(
        proposal=proposal, kind="comment", person=author, text="Who has tried it?", revision=1, at=now
    )
    if state == "applied":
        made = {"uid": f"uid-{name}", "resource_version": "9", "spec": rules(AMD), "created_at": now}
        DeviceClass.objects.update_or_create(cluster=cluster, name=name, defaults=made)
    return proposal
