"""Who decides what: a second administrator, about what was looked at, never over somebody else's change."""

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.db import OperationalError, connection

from inventory.models import Claim, ClassProposal, DeviceClass, ProposalEntry
from inventory.proposals import deciding, drawing, news, rules
from portal.accounts.models import Notification, User
from portal.accounts.notifications.texts import Text
from tests.inventory_proposals.builders import AMD, NAME, NOW, NVIDIA
from tests.inventory_proposals.conftest import Desk
from tests.inventory_proposals.shelf import rules as spec

WANTED = spec(AMD)


def refused(code: str) -> Any:
    """The context in which a decision is refused for this reason."""
    return pytest.raises(deciding.UnableToDecide, check=lambda error: error.code == code)


@pytest.mark.parametrize(("rule", "author_may"), [("none", True), ("proposal", True), ("second", False)])
def test_the_author_approves_only_where_the_rule_lets_them(desk: Desk, rule: str, author_may: bool) -> None:
    proposal = desk.propose(WANTED, desk.berlin)
    if author_may:
        desk.approve(proposal, user=desk.ada, rule=rules.Rule(rule))
    else:
        with refused("own_proposal"):
            desk.approve(proposal, user=desk.ada, rule=rules.Rule(rule))
        desk.approve(proposal, rule=rules.Rule(rule))
    assert proposal.state == "approved"


def test_who_draws_it_anew_is_an_author_too(desk: Desk) -> None:
    proposal = desk.propose(WANTED, desk.berlin)
    drawing.redraw(proposal=proposal, user=desk.grace, revision=1, now=NOW)
    for user in (desk.ada, desk.grace):
        with refused("own_proposal"):
            desk.approve(proposal, user=user)
    third = User.objects.create(username="linus", is_administrator=True)
    desk.approve(proposal, user=third)


def test_an_approval_is_about_the_drawing_that_was_looked_at(desk: Desk) -> None:
    proposal = desk.propose(WANTED, desk.berlin)
    drawing.redraw(proposal=proposal, user=desk.ada, revision=1, now=NOW)
    with refused("redrawn"):
        desk.approve(proposal, revision=1)
    with refused("redrawn"):
        deciding.reject(proposal=proposal, user=desk.grace, revision=1, now=NOW, comment="no")
    desk.approve(proposal, revision=2)


def test_it_is_decided_once(desk: Desk) -> None:
    proposal = desk.propose(WANTED, desk.berlin)
    deciding.reject(proposal=proposal, user=desk.grace, revision=1, now=NOW, comment="too wide")
    with refused("decided"):
        desk.approve(proposal)
    with refused("decided"):
        deciding.withdraw(proposal=proposal, user=desk.ada, now=NOW)


def test_only_the_author_withdraws(desk: Desk) -> None:
    proposal = desk.propose(WANTED, desk.berlin)
    with refused("not_author"):
        deciding.withdraw(proposal=proposal, user=desk.grace, now=NOW)
    deciding.withdraw(proposal=proposal, user=desk.ada, now=NOW)
    assert proposal.state == "withdrawn"


@pytest.mark.parametrize("text", ["", "  ", "a\0b", "\ud800", "x" * 2001, None, 7])
def test_a_rejection_says_why_in_a_text(desk: Desk, text: Any) -> None:
    proposal = desk.propose(WANTED, desk.berlin)
    with pytest.raises(deciding.UnableToDecide) as caught:
        deciding.reject(proposal=proposal, user=desk.grace, revision=1, now=NOW, comment=text)
    assert caught.value.field == "comment"
    proposal.refresh_from_db()
    assert proposal.state == "open"


def test_a_desk_that_only_looks_approves_nothing(desk: Desk, settings: Any) -> None:
    proposal = desk.propose(WANTED, desk.berlin)
    settings.READ_ONLY = True
    with refused("only_looks"):
        desk.approve(proposal)
    with pytest.raises(drawing.UnableToPropose):
        desk.propose(WANTED, desk.paris)


# --- two administrators and one class -------------------------------------------------------------------


def test_of_two_changes_from_the_same_base_the_second_is_outdated_not_lost(desk: Desk) -> None:
    desk.berlin.make(NAME, NVIDIA, manager="claimdesk")
    first = desk.propose(spec(NVIDIA, extendedResourceName="example.com/gpu"), desk.berlin)
    second = desk.propose(WANTED, desk.berlin, author=desk.grace)
    desk.approve(first)
    assert desk.run(first) == "applied"
    desk.berlin.mirror(NAME)
    with refused("outdated"):
        desk.approve(second, user=desk.ada)
    second.refresh_from_db()
    assert second.state == "outdated"
    strands = {s.field: s for s in _strands(second)}
    assert (strands["extendedResourceName"].changed_now, strands["selectors"].changed_here) == (True, True)
    assert not any(strand.clash for strand in strands.values())
    drawing.redraw(proposal=second, user=desk.grace, revision=1, now=NOW)
    desk.approve(second, user=desk.ada, revision=2)
    assert desk.run(second) == "applied"
    assert desk.berlin.spec(NAME) == spec(AMD, extendedResourceName="example.com/gpu"), "both changes hold"


def _strands(proposal: ClassProposal) -> list[drawing.Strand]:
    target = proposal.targets.select_related("cluster").get()
    now = drawing.present_spec(target.cluster, proposal.name)
    return drawing.strands(target.base, now, target.wanted)


def test_what_both_changed_is_told_as_a_clash(desk: Desk) -> None:
    desk.berlin.make(NAME, NVIDIA)
    proposal = desk.propose(WANTED, desk.berlin)
    desk.berlin.change(NAME, "true")
    (strand,) = _strands(proposal)
    assert strand.clash
    drawing.redraw(proposal=proposal, user=desk.ada, revision=1, now=NOW)
    target = proposal.targets.get()
    assert (target.base, target.wanted) == (spec("true"), WANTED)


def test_a_class_that_vanished_or_came_meanwhile_outdates_too(desk: Desk) -> None:
    desk.berlin.make(NAME, NVIDIA)
    edit = desk.propose(WANTED, desk.berlin)
    create = desk.propose(WANTED, desk.paris)
    desk.berlin.store.delete(desk.berlin.plural, NAME)
    desk.berlin.mirror(NAME)
    desk.paris.make(NAME, NVIDIA)
    for proposal in (edit, create):
        with refused("outdated"):
            desk.approve(proposal)


def at_once(*acts: Callable[[], str]) -> list[str]:
    """What each says, begun at the same moment, each on a connection of its own."""
    start, said = threading.Barrier(len(acts), timeout=60), []

    def run(act: Callable[[], str]) -> None:
        start.wait()
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                said.append(act())
            except OperationalError:
                # SQLite in memory, where the other one holds the table: done again, alone.
                continue
            finally:
                connection.close()
            return

    threads = [threading.Thread(target=run, args=[act]) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=90)
    return sorted(said)


@pytest.mark.django_db(transaction=True)
def test_of_two_who_approve_at_the_same_moment_one_is_told_so(transactional_db: None, desk: Desk) -> None:
    proposal = desk.propose(WANTED, desk.berlin)
    third = User.objects.create(username="linus", is_administrator=True)

    def approve(user: User) -> str:
        try:
            desk.approve(ClassProposal.objects.get(pk=proposal.pk), user=user)
        except deciding.UnableToDecide as error:
            return error.code
        return "approved"

    assert at_once(partial(approve, desk.grace), partial(approve, third)) == ["approved", "decided"]
    assert ProposalEntry.objects.filter(kind="approved").count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_who_draw_anew_at_the_same_moment_one_is_told_so(transactional_db: None, desk: Desk) -> None:
    proposal = desk.propose(WANTED, desk.berlin)

    def draw(user: User) -> str:
        try:
            own = ClassProposal.objects.get(pk=proposal.pk)
            drawing.redraw(proposal=own, user=user, revision=1, now=NOW)
        except drawing.UnableToPropose:
            return "refused"
        return "drawn"

    assert at_once(partial(draw, desk.ada), partial(draw, desk.grace)) == ["drawn", "refused"]
    proposal.refresh_from_db()
    assert (proposal.revision, proposal.targets.count()) == (2, 1)


# --- proposing ------------------------------------------------------------------------------------------


def test_where_it_is_so_already_is_left_out_and_nowhere_is_an_error(desk: Desk) -> None:
    desk.berlin.make(NAME, AMD)
    proposal = desk.propose(WANTED, desk.berlin, desk.paris)
    assert [target.cluster.name for target in proposal.targets.all()] == ["paris"]
    with pytest.raises(drawing.UnableToPropose, match="so already"):
        desk.propose(WANTED, desk.berlin)


@pytest.mark.parametrize(
    ("name", "wanted", "field"),
    [
        ("Bad Name", WANTED, "name"),
        ("x" * 254, WANTED, "name"),
        (NAME, spec("device.driver =="), "spec"),
        (NAME, spec(*["true"] * 33), "spec"),
    ],
)
def test_what_no_cluster_would_take_is_not_proposed(desk: Desk, name: str, wanted: Any, field: str) -> None:
    with pytest.raises(drawing.UnableToPropose) as caught:
        drawing.propose(name=name, drafts=[drawing.Draft(desk.berlin.row, wanted)], author=desk.ada, now=NOW)
    assert caught.value.field == field
    assert ClassProposal.objects.count() == 0


def test_a_used_class_is_deleted_only_with_its_name_typed_twice(desk: Desk) -> None:
    desk.berlin.make(NAME, NVIDIA)
    _use(desk, "train")
    with pytest.raises(drawing.UnableToPropose) as caught:
        desk.propose(None, desk.berlin)
    assert caught.value.field == "confirmed"
    proposal = desk.propose(None, desk.berlin, confirmed=NAME)
    assert proposal.targets.get().users == ["ResourceClaim team/train"]
    with refused("in_use"):
        desk.approve(proposal)
    desk.approve(proposal, confirmed=NAME)
    assert desk.run(proposal) == "applied"
    assert desk.berlin.spec(NAME) is None


def test_who_began_to_use_it_meanwhile_stops_the_deletion(desk: Desk) -> None:
    desk.berlin.make(NAME, NVIDIA)
    proposal = desk.propose(None, desk.berlin)
    desk.approve(proposal)
    _use(desk, "train")
    assert desk.run(proposal) == "failed"
    target = proposal.targets.get()
    assert (target.outcome, "team/train" in target.message) == ("used", True)
    assert desk.berlin.spec(NAME) is not None


def _use(desk: Desk, name: str) -> None:
    exactly = {"deviceClassName": NAME, "allocationMode": "ExactCount", "count": 1}
    spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
    Claim.objects.create(
        cluster=desk.berlin.row,
        namespace="team",
        name=name,
        uid=name,
        resource_version="1",
        created_at=NOW,
        spec=spec,
    )


def test_administrators_hear_of_it_and_the_author_of_what_becomes_of_it(desk: Desk) -> None:
    User.objects.create(username="rhea")
    proposal = desk.propose(WANTED, desk.berlin, reason="new cards")
    assert _told() == {("grace", "ada proposes to change the device class big.example")}
    assert (news.waiting(desk.ada), news.waiting(desk.grace)) == ((1, 0), (1, 0))
    deciding.comment(proposal=proposal, user=desk.grace, text="which cards?", now=NOW + timedelta(minutes=1))
    deciding.reject(proposal=proposal, user=desk.grace, revision=1, now=NOW, comment="none")
    assert [subject for who, subject in sorted(_told()) if who == "ada"] == [
        "The proposal for the device class big.example: rejected",
        "grace wrote about the proposal for the device class big.example",
    ]


def test_one_s_own_proposal_waits_for_others_where_a_second_approves(desk: Desk, settings: Any) -> None:
    settings.CLASS_REVIEW = "second"
    desk.propose(WANTED, desk.berlin)
    assert (news.waiting(desk.ada), news.waiting(desk.grace)) == ((0, 0), (1, 0))


def _told() -> set[tuple[str, str]]:
    rows = Notification.objects.select_related("person")
    return {(row.person.username, str(Text.read(row.subject))) for row in rows}


def test_drawn_anew_labels_of_others_are_kept(desk: Desk) -> None:
    proposal = desk.propose(WANTED, desk.berlin, labels={"tier": "a"})
    DeviceClass.objects.create(
        cluster=desk.berlin.row, name=NAME, spec=spec(NVIDIA), labels={}, annotations={}, uid="u1"
    )
    drawing.redraw(proposal=proposal, user=desk.ada, revision=1, now=NOW)
    DeviceClass.objects.filter(name=NAME).update(labels={"team": "x"})
    drawing.redraw(proposal=proposal, user=desk.ada, revision=2, now=NOW)
    assert proposal.targets.get().wanted_labels == {"tier": "a", "team": "x"}
