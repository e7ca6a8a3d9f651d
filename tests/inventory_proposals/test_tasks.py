"""What wakes a roll-out, and one from end to end on a cluster that speaks HTTP."""

from collections.abc import Callable
from typing import Any

import pytest
from django.utils import timezone
from kombu.exceptions import OperationalError

from inventory import clusters
from inventory.models import ClassProposal, ClassVersion
from inventory.proposals import deciding, drawing, roll_out, rules, tasks
from portal.accounts.models import User
from portal.kube.resources import DEVICE_CLASSES
from tests.embedded import EmbeddedCluster
from tests.inventory_proposals.builders import AMD, NAME, NVIDIA
from tests.inventory_proposals.conftest import Desk
from tests.inventory_proposals.shelf import rules as spec

Capture = Callable[..., Any]


@pytest.fixture
def queued(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Proposals that were queued for a runner."""
    found: list[int] = []
    monkeypatch.setattr(
        tasks.roll_out_proposal, "apply_async", lambda kwargs, **_: found.append(kwargs["proposal_id"])
    )
    return found


def test_an_approval_wakes_the_roll_out_once_it_is_committed(
    desk: Desk, queued: list[int], django_capture_on_commit_callbacks: Capture
) -> None:
    proposal = desk.propose(spec(AMD), desk.berlin)
    with django_capture_on_commit_callbacks(execute=True):
        desk.approve(proposal)
        assert queued == []
    assert queued == [proposal.pk]


def test_a_queue_that_is_away_stops_nobody(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(**_: Any) -> None:
        raise OperationalError

    monkeypatch.setattr(tasks.roll_out_proposal, "apply_async", away)
    tasks.on_approved(proposal_id=1)


def test_beat_wakes_what_has_no_runner_and_nothing_else(desk: Desk, queued: list[int], settings: Any) -> None:
    waits, runs, over = (desk.propose(spec(AMD), desk.berlin) for _number in range(3))
    for proposal in (waits, runs):
        desk.approve(proposal)
    ClassProposal.objects.filter(pk=runs.pk).update(
        state="applying", runner="one", runs_until=timezone.now() + roll_out.LEASE
    )
    deciding.reject(proposal=over, user=desk.grace, revision=1, now=timezone.now(), comment="no")
    tasks.roll_out_due()
    assert queued == [waits.pk]
    settings.READ_ONLY = True
    tasks.roll_out_due()
    assert queued == [waits.pk]


@pytest.mark.django_db
def test_a_class_is_reviewed_and_rolled_out_on_a_cluster(embedded_cluster: EmbeddedCluster) -> None:
    ada, grace = (User.objects.create(username=name, is_administrator=True) for name in ("ada", "grace"))
    now = timezone.now()
    cluster = clusters.add(
        name="demo", kubeconfig_path=str(embedded_cluster.kubeconfig), context="admin", now=now
    )

    def change(wanted: Any) -> dict[str, Any]:
        proposal = drawing.propose(
            name=NAME, drafts=[drawing.Draft(cluster, wanted)], author=ada, now=now, reason="why"
        )
        deciding.approve(proposal=proposal, user=grace, revision=1, now=now, rule=rules.Rule.SECOND)
        tasks.roll_out_proposal(proposal.pk)
        proposal.refresh_from_db()
        assert (proposal.state, proposal.targets.get().message) == ("applied", "")
        with clusters.client_for(cluster) as client:
            found: dict[str, Any] = client.get(DEVICE_CLASSES, NAME)
            return found

    made = change(spec(NVIDIA))
    assert made["spec"] == spec(NVIDIA)
    assert [entry["manager"] for entry in made["metadata"]["managedFields"]] == ["claimdesk"]
    version = ClassVersion.objects.get()
    assert (version.reason, version.proposal) == ("why", ClassProposal.objects.get())
