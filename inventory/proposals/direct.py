"""What was changed at once, without a review, leaves the same record as what was reviewed."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from inventory import class_history
from inventory.models import ClassProposal, Cluster, ProposalEntry, ProposalTarget
from portal.accounts.models import User

Kind = ClassProposal.Kind


def note(
    *,
    cluster: Cluster,
    before: Mapping[str, Any] | None,
    after: Mapping[str, Any] | None,
    actor: User,
    now: datetime,
    reason: str,
) -> ClassProposal:
    """The desk wrote: `before` and `after` are the objects as the cluster answered; None = there is none.
    Inside the caller's transaction."""
    body = after if after is not None else before
    assert body is not None
    proposal = ClassProposal.objects.create(
        kind=Kind.CREATE if before is None else Kind.DELETE if after is None else Kind.EDIT,
        name=str(body["metadata"]["name"]),
        state=ClassProposal.State.APPLIED,
        reason=reason[: class_history.MAX_REASON],
        author=actor,
        drawn_by=actor,
        direct=True,
        created_at=now,
        changed_at=now,
    )
    old = (before or {}).get("metadata") or {}
    ProposalTarget.objects.create(
        proposal=proposal,
        cluster=cluster,
        position=1,
        base=class_history.spec_of(before) if before is not None else None,
        base_labels=dict(old.get("labels") or {}),
        base_annotations=dict(old.get("annotations") or {}),
        base_uid=str(old.get("uid", "")),
        base_version=str(old.get("resourceVersion", "")),
        wanted=class_history.spec_of(after) if after is not None else None,
        state=ProposalTarget.State.DONE,
        done_at=now,
    )
    ProposalEntry.objects.create(
        proposal=proposal, kind=ProposalEntry.Kind.APPLIED, person=actor, revision=1, at=now
    )
    return proposal
