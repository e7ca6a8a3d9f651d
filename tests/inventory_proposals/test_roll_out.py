"""The roll-out: rehearsed everywhere first, one cluster after the other, killed and resumed without harm."""

from datetime import timedelta
from typing import Any

import pytest

from inventory import clusters
from inventory.models import ClassProposal, ClassVersion, ProposalTarget
from inventory.proposals import deciding, drawing, roll_out, writing
from inventory.proposals.deciding import UnableToDecide
from portal.accounts.models import AuditEntry, Notification
from portal.dra.features import Features
from portal.kube.errors import Unreachable
from tests.inventory_proposals.builders import AMD, NAME, NOW, NVIDIA
from tests.inventory_proposals.conftest import Desk
from tests.inventory_proposals.shelf import Killed, rules

LATER = NOW + timedelta(hours=1)
WANTED = rules(AMD)


def results(proposal: ClassProposal) -> list[tuple[str, str]]:
    rows = proposal.targets.order_by("position")
    return [(row.state, row.outcome) for row in rows]


def test_every_cluster_rehearses_before_the_first_is_changed(desk: Desk) -> None:
    desk.berlin.make(NAME, NVIDIA, manager="claimdesk")
    order: list[str] = []
    desk.berlin.after = lambda verb: order.append(f"berlin {verb}")
    desk.paris.after = lambda verb: order.append(f"paris {verb}")
    proposal = desk.propose(WANTED, desk.paris, desk.berlin)
    assert order == []
    desk.approve(proposal)
    assert desk.run(proposal) == "applied"
    writes = [entry for entry in order if not entry.endswith("get")]
    assert writes == [
        "paris try apply", "berlin try apply",
        "paris try apply", "paris apply",
        "berlin try apply", "berlin apply",
    ]  # fmt: skip
    assert (desk.berlin.spec(NAME), desk.paris.spec(NAME)) == (WANTED, WANTED)
    assert results(proposal) == [("done", ""), ("done", "")]


def test_what_a_version_came_from_is_known(desk: Desk) -> None:
    proposal = desk.propose(WANTED, desk.berlin, reason="the new cards")
    desk.approve(proposal)
    desk.run(proposal)
    version = ClassVersion.objects.get()
    assert (version.proposal, version.actor, version.reason) == (proposal, desk.ada, "the new cards")
    assert proposal.approved_by == desk.grace
    actions = list(AuditEntry.objects.order_by("pk").values_list("action", "actor__username"))
    assert actions == [
        ("class_proposal.create", "ada"),
        ("class_proposal.approve", "grace"),
        ("device_class.create", "ada"),
        ("class_proposal.apply", None),
    ]
    assert set(Notification.objects.values_list("person__username", flat=True)) == {"ada", "grace"}


def test_one_cluster_that_refuses_on_trial_leaves_all_unchanged(desk: Desk) -> None:
    old = desk.world.add("old", features=Features.parse(""))
    proposal = desk.propose(rules(AMD, extendedResourceName="example.com/gpu"), desk.berlin, old)
    desk.approve(proposal)
    assert desk.run(proposal) == "failed"
    assert (desk.berlin.spec(NAME), old.spec(NAME)) == (None, None)
    assert results(proposal) == [("rehearsed", ""), ("failed", "dropped")]
    target = proposal.targets.get(cluster=old.row)
    assert target.dropped == [{"field": "extendedResourceName", "gate": "DRAExtendedResource"}]
    assert "DRAExtendedResource" in target.message


def test_it_stops_at_the_first_error_and_goes_on_from_there(desk: Desk) -> None:
    proposal = desk.propose(WANTED, desk.berlin, desk.paris)
    desk.approve(proposal)

    def broken(verb: str) -> None:
        if verb == "apply":
            raise Unreachable("no answer")

    desk.paris.before = broken
    assert desk.run(proposal) == "partly-applied"
    assert results(proposal) == [("done", ""), ("writing", "unreachable")]
    assert "not known" in proposal.targets.get(cluster=desk.paris.row).message
    desk.paris.before = lambda _verb: None
    roll_out.resume(proposal=proposal, user=desk.ada, now=NOW)
    assert desk.run(proposal) == "applied"
    assert desk.berlin.calls.count("apply") == 1, "what was done is not done again"
    assert desk.paris.spec(NAME) == WANTED


def test_a_stopped_roll_out_is_given_up_and_never_resumed(desk: Desk) -> None:
    proposal = desk.propose(rules(AMD, extendedResourceName="no domain"), desk.berlin)
    desk.approve(proposal)
    assert desk.run(proposal) == "failed"
    roll_out.give_up(proposal=proposal, user=desk.ada, now=NOW)
    with pytest.raises(UnableToDecide, match="given up"):
        roll_out.resume(proposal=proposal, user=desk.ada, now=NOW)


@pytest.mark.parametrize("verb", ["try apply", "apply"])
@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("place", [0, 1])
def test_killed_at_any_moment_it_is_applied_once(desk: Desk, verb: str, moment: str, place: int) -> None:
    shelves = [desk.berlin, desk.paris]
    proposal = desk.propose(WANTED, *shelves)
    desk.approve(proposal)

    def die(called: str) -> None:
        if called == verb:
            raise Killed

    setattr(shelves[place], moment, die)
    with pytest.raises(Killed):
        desk.run(proposal)
    setattr(shelves[place], moment, lambda _verb: None)
    assert desk.run(proposal, runner="two") != "applied", "the first runner may still be alive"
    assert desk.run(proposal, runner="two", now=LATER) == "applied"
    assert [shelf.spec(NAME) for shelf in shelves] == [WANTED, WANTED]
    assert [shelf.store.get(shelf.plural, NAME)["metadata"]["generation"] for shelf in shelves] == [1, 1]
    assert [shelf.calls.count("apply") for shelf in shelves] == [1, 1]
    assert ClassVersion.objects.count() == 2


def test_killed_between_cluster_and_database_nothing_is_lost(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.berlin.make(NAME, NVIDIA)
    proposal = desk.propose(None, desk.berlin)
    desk.approve(proposal)

    def die(**_: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr("inventory.class_history.note_written", die)
        with pytest.raises(Killed):
            desk.run(proposal)
    assert desk.berlin.spec(NAME) is None
    assert results(proposal) == [("writing", "")]
    assert desk.run(proposal, runner="two", now=LATER) == "applied"
    assert desk.berlin.calls.count("delete") == 1
    assert [(v.deleted, v.proposal) for v in ClassVersion.objects.filter(deleted=True)] == [(True, proposal)]


def test_a_runner_that_was_overtaken_writes_nothing_down(desk: Desk) -> None:
    proposal = desk.propose(WANTED, desk.berlin)
    desk.approve(proposal)

    def overtaken(verb: str) -> None:
        if verb == "apply":
            desk.berlin.after = lambda _verb: None
            assert desk.run(proposal, runner="two", now=LATER) == "applied"

    desk.berlin.after = overtaken
    desk.run(proposal)
    proposal.refresh_from_db()
    assert (proposal.state, ClassVersion.objects.count()) == ("applied", 1)
    assert AuditEntry.objects.filter(action="device_class.create").count() == 1


# --- fields of others -----------------------------------------------------------------------------------


def test_another_field_manager_is_named_and_not_overwritten(desk: Desk) -> None:
    desk.berlin.make(NAME, NVIDIA, manager="helm")
    proposal = desk.propose(WANTED, desk.berlin)
    desk.approve(proposal)
    assert desk.run(proposal) == "failed"
    target = proposal.targets.get()
    assert (target.outcome, target.managers) == ("conflict", ["helm"])
    assert desk.berlin.spec(NAME) == rules(NVIDIA)


def test_its_fields_are_taken_over_on_request(desk: Desk) -> None:
    desk.berlin.make(NAME, NVIDIA, manager="helm", extendedResourceName="example.com/gpu")
    proposal = desk.propose(WANTED, desk.berlin)
    desk.approve(proposal)
    desk.run(proposal)
    drawing.redraw(proposal=proposal, user=desk.ada, revision=1, now=NOW, take_over=True)
    desk.approve(proposal, revision=2)
    assert desk.run(proposal) == "applied"
    assert desk.berlin.spec(NAME) == WANTED, "a field that only the other had is gone, too"
    assert desk.berlin.calls[-1] == "replace"


def test_a_field_that_others_set_is_not_removed_quietly(desk: Desk) -> None:
    desk.berlin.make(NAME, NVIDIA, manager="helm", extendedResourceName="example.com/gpu")
    proposal = desk.propose(rules(NVIDIA), desk.berlin)
    desk.approve(proposal)
    assert desk.run(proposal) == "failed"
    target = proposal.targets.get()
    assert (target.outcome, target.managers) == ("conflict", ["helm"])
    assert "extendedResourceName" in target.message


def test_what_the_desk_wrote_by_other_means_is_its_own(desk: Desk) -> None:
    desk.berlin.make(NAME, NVIDIA, manager=writing.FIELD_MANAGER, extendedResourceName="example.com/gpu")
    proposal = desk.propose(WANTED, desk.berlin)
    desk.approve(proposal)
    assert desk.run(proposal) == "applied"
    assert desk.berlin.spec(NAME) == WANTED


def test_labels_are_set_and_removed_and_else_left_alone(desk: Desk) -> None:
    def labels() -> dict[str, str]:
        desk.berlin.mirror(NAME)
        return dict(desk.berlin.store.get(desk.berlin.plural, NAME)["metadata"].get("labels", {}))

    for spec, wanted, found in (
        (rules(NVIDIA), {"tier": "a", "team": "x"}, {"tier": "a", "team": "x"}),
        (rules(AMD), None, {"tier": "a", "team": "x"}),
        (rules(AMD), {"tier": "b"}, {"tier": "b"}),
    ):
        proposal = desk.propose(spec, desk.berlin, labels=wanted)
        desk.approve(proposal)
        assert desk.run(proposal) == "applied"
        assert labels() == found


# --- changed meanwhile ----------------------------------------------------------------------------------


def test_what_somebody_changed_since_is_not_overwritten(desk: Desk) -> None:
    desk.berlin.make(NAME, NVIDIA)
    proposal = desk.propose(WANTED, desk.berlin, take_over=True)
    desk.approve(proposal)
    desk.berlin.change(NAME, "true", seen=False)
    assert desk.run(proposal) == "outdated"
    assert desk.berlin.spec(NAME) == rules("true")
    assert results(proposal) == [("failed", "changed")]


def test_not_even_in_the_last_moment(desk: Desk) -> None:
    desk.berlin.make(NAME, NVIDIA)
    proposal = desk.propose(WANTED, desk.berlin, take_over=True)
    desk.approve(proposal)

    def interfere(verb: str) -> None:
        if verb == "apply":
            desk.berlin.change(NAME, "true", seen=False)

    desk.berlin.before = interfere
    desk.run(proposal)
    assert desk.berlin.spec(NAME) == rules("true")
    assert results(proposal) == [("failed", "changed")]


def test_what_is_so_already_is_not_written(desk: Desk) -> None:
    desk.berlin.make(NAME, NVIDIA)
    proposal = desk.propose(WANTED, desk.berlin)
    desk.approve(proposal)
    desk.berlin.change(NAME, AMD, seen=False)
    assert desk.run(proposal) == "applied"
    assert results(proposal) == [("done", "already")]
    assert ClassVersion.objects.count() == 0, "it was not the desk"


# --- back -----------------------------------------------------------------------------------------------


def test_what_is_applied_is_taken_back_in_reverse_by_a_proposal(desk: Desk) -> None:
    desk.berlin.make(NAME, NVIDIA, manager="claimdesk")
    proposal = desk.propose(WANTED, desk.berlin, desk.paris)
    desk.approve(proposal)
    desk.run(proposal)
    for shelf in (desk.berlin, desk.paris):
        shelf.mirror(NAME)
    back = roll_out.roll_back(proposal=proposal, user=desk.grace, now=NOW, reason="too early")
    assert (back.kind, back.undoes, back.state) == ("roll-back", proposal, "open")
    assert [target.cluster.name for target in back.targets.order_by("position")] == ["paris", "berlin"]
    desk.approve(back, user=desk.ada)
    assert desk.run(back) == "applied"
    assert (desk.berlin.spec(NAME), desk.paris.spec(NAME)) == (rules(NVIDIA), None)


def test_only_what_was_done_is_taken_back_and_the_rest_given_up(desk: Desk) -> None:
    proposal = desk.propose(WANTED, desk.berlin, desk.paris)
    desk.approve(proposal)

    def refuse(verb: str) -> None:
        if verb == "apply":
            raise Unreachable("no answer")

    desk.paris.before = refuse
    desk.run(proposal)
    desk.berlin.mirror(NAME)
    back = roll_out.roll_back(proposal=proposal, user=desk.ada, now=NOW)
    proposal.refresh_from_db()
    assert proposal.given_up_at == NOW
    assert [target.cluster.name for target in back.targets.all()] == ["berlin"]
    assert ProposalTarget.objects.filter(proposal=back).get().wanted is None


def test_it_is_taken_back_once_however_often_somebody_clicks(desk: Desk) -> None:
    proposal = desk.propose(WANTED, desk.berlin)
    desk.approve(proposal)
    desk.run(proposal)
    desk.berlin.mirror(NAME)
    back = roll_out.roll_back(proposal=proposal, user=desk.ada, now=NOW)
    with pytest.raises(UnableToDecide, match="already"):
        roll_out.roll_back(proposal=proposal, user=desk.grace, now=NOW)
    deciding.withdraw(proposal=back, user=desk.ada, now=NOW)
    assert roll_out.roll_back(proposal=proposal, user=desk.grace, now=NOW).undoes == proposal


# --- clusters that go away meanwhile --------------------------------------------------------------------


def test_a_cluster_that_is_no_longer_followed_is_not_changed(desk: Desk) -> None:
    proposal = desk.propose(WANTED, desk.berlin)
    desk.approve(proposal)
    clusters.set_enabled(cluster=desk.berlin.row, enabled=False, now=NOW)
    assert desk.run(proposal) == "failed"
    assert desk.berlin.spec(NAME) is None
    assert "follow it again" in proposal.targets.get().message


def test_without_any_cluster_left_nothing_is_called_applied(desk: Desk) -> None:
    proposal = desk.propose(WANTED, desk.berlin)
    desk.approve(proposal)
    clusters.remove(cluster=desk.berlin.row, now=NOW)
    assert desk.run(proposal) == "outdated"
