"""The pages of proposals: from the editor to the roll-out, with what is outdated shown three ways."""

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from inventory.models import ClassProposal, ClassVersion, DeviceClass
from portal.accounts.models import User
from tests.inventory_pages.conftest import Cast, Fleet
from tests.inventory_proposals.builders import AMD
from tests.inventory_proposals.rows import make_proposal
from tests.inventory_proposals.shelf import rules

PROPOSE, LIST = "/propose-class/", "/class-proposals/"
NAME = "gpu.nvidia.com"
TRUE = '{"selectors": [{"cel": {"expression": "true"}}]}'


@pytest.fixture
def ada(cast: Cast, fleet: Fleet) -> Client:
    return cast.client("administrator")


@pytest.fixture
def proposal(cast: Cast, fleet: Fleet) -> ClassProposal:
    other = User.objects.create(username="grace", is_administrator=True)
    return make_proposal(fleet.cluster, other, now=timezone.now(), name=NAME)


def html(response: Any, status: int = 200) -> str:
    assert response.status_code == status
    return str(response.content.decode())


def test_the_editor_leads_to_a_proposal_with_the_effect_on_each_cluster(ada: Client, fleet: Fleet) -> None:
    typed = {
        "cluster": "berlin",
        "expression": [AMD],
        "extended_resource_name": "",
        "config": "",
        "reason": "<b>new</b>",
        "from_editor": "1",
    }
    page = html(ada.post(f"{PROPOSE}?class={NAME}", typed))
    assert "gpu.amd.com" in page
    assert "Matching devices: 3 now" in page
    assert "&lt;b&gt;new&lt;/b&gt;" in page
    assert ClassProposal.objects.count() == 0, "nothing is proposed before its effect was seen"
    sent = {
        "name": NAME,
        "kind": "edit",
        "spec": '{"selectors": [{"cel": {"expression": "true"}}]}',
        "cluster": "berlin",
        "order-berlin": "1",
        "reason": "all of them",
        "propose": "1",
    }
    response = ada.post(PROPOSE, sent)
    assert response.status_code == 303
    made = ClassProposal.objects.get()
    assert (made.kind, made.reason, made.targets.get().wanted) == ("edit", "all of them", rules("true"))
    assert response["Location"] == f"{LIST}{made.pk}/"


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"reason": ""}, "required"),
        ({"spec": "{"}, "not JSON"),
        ({"spec": '{"selectors": NaN}'}, "not JSON"),
        ({"spec": "[]"}, "A spec is an object"),
        ({"spec": '{"nodes": 1}'}, "no field"),
        ({"spec": '{"selectors": [{"cel": {"expression": "device.driver =="}}]}'}, "Expression 1"),
        ({"spec": '{"selectors": [{"cel": {"expression": "a\\u0000"}}]}'}, "control character"),
        ({"spec": '{"selectors": [{"cel": {"expression": "\\ud800"}}]}'}, "half a character"),
        ({"spec": '{"config": ' + "[" * 40 + "]" * 40 + "}"}, "nested"),
        ({"spec": '{"config": [{"opaque": {"driver": "a.b", "parameters": {"n": 1e400}}}]}'}, "number"),
        ({"spec": ""}, "begin at the class"),
        ({"cluster": "nowhere"}, "at least one cluster"),
        ({"labels": '{"tier": 1}'}, "objects of texts"),
        ({"name": "Bad Name"}, "Lower-case"),
    ],
)
def test_what_cannot_be_proposed_is_said_and_nothing_is_kept(
    ada: Client, fields: dict[str, str], said: str
) -> None:
    usual = {"name": NAME, "kind": "edit", "spec": TRUE, "cluster": "berlin", "reason": "x", "propose": "1"}
    assert said in html(ada.post(PROPOSE, {**usual, **fields}), 422)
    assert ClassProposal.objects.count() == 0


def test_a_version_and_a_deletion_are_where_a_proposal_begins(ada: Client, fleet: Fleet) -> None:
    found = DeviceClass.objects.get(name=NAME)
    version = ClassVersion.objects.create(
        cluster=found.cluster, name=NAME, uid="u", resource_version="1", at=timezone.now(), source="desk",
        spec=rules("true"),
    )  # fmt: skip
    assert 'name="kind" value="roll-back"' in html(ada.get(f"{PROPOSE}?version={version.pk}"))
    page = html(ada.get(f"{PROPOSE}?class={NAME}&cluster=berlin"))
    assert f"Propose to delete {NAME}" in page
    assert 'name="kind" value="delete"' in page
    for query in ("?version=99999999", "?version=x", f"?class={NAME}", "?class=none&cluster=berlin"):
        assert ada.get(PROPOSE + query).status_code == 404
    html(ada.get(f"{PROPOSE}?class=%00"))


def test_it_is_approved_commented_and_rejected(ada: Client, proposal: ClassProposal) -> None:
    at = f"{LIST}{proposal.pk}/"
    page = html(ada.get(at))
    assert "The new cards are of another maker." in page
    assert "Approve and apply" in page
    assert ada.post(f"{at}comment/", {"comment": "which cards?"}).status_code == 303
    assert "which cards?" in html(ada.get(at))
    assert "Say why" in html(ada.post(f"{at}reject/", {"revision": "1", "comment": ""}), 422)
    assert "drawn anew meanwhile" in html(ada.post(f"{at}approve/", {"revision": "7", "comment": "ok"}), 422)
    kept = html(ada.post(f"{at}approve/", {"revision": "²", "comment": "typed"}), 422)
    assert ">typed</textarea>" in kept
    assert ada.get(f"{at}approve/").status_code == 405
    assert ada.post(f"{at}approve/", {"revision": "1"}).status_code == 303
    proposal.refresh_from_db()
    assert proposal.state == "approved"
    assert 'hx-trigger="every 2s"' in html(ada.get(at))


def test_what_is_outdated_is_shown_three_ways_and_drawn_anew(ada: Client, proposal: ClassProposal) -> None:
    at = f"{LIST}{proposal.pk}/"
    DeviceClass.objects.filter(name=NAME).update(
        spec=rules("device.allowMultipleAllocations", extendedResourceName="example.com/gpu")
    )
    page = html(ada.get(at))
    assert "no longer what this was drawn from" in page
    assert "Approve and apply" not in page
    assert "changed by both" in page
    assert "changed by others: kept" in page
    assert "Draw it anew" in html(ada.post(f"{at}approve/", {"revision": "1"}), 422)
    proposal.refresh_from_db()
    assert proposal.state == "outdated"
    assert ada.post(f"{at}redraw/", {"revision": "1"}).status_code == 303
    target = proposal.targets.get()
    assert target.wanted == rules(AMD, extendedResourceName="example.com/gpu")


def test_where_a_second_approves_nobody_approves_their_own(
    ada: Client, cast: Cast, fleet: Fleet, settings: Any
) -> None:
    settings.CLASS_REVIEW = "second"
    own = make_proposal(fleet.cluster, cast.administrator, now=timezone.now(), name=NAME)
    at = f"{LIST}{own.pk}/"
    assert "Approve and apply" not in html(ada.get(at))
    assert "A second administrator" in html(ada.post(f"{at}approve/", {"revision": "1"}), 422)
    edit = html(ada.get(f"/classes/berlin/{NAME}/edit/"))
    assert 'name="save"' not in edit
    assert "Propose for review" in edit


def test_where_changes_are_reviewed_nothing_is_changed_at_once(
    ada: Client, fleet: Fleet, settings: Any
) -> None:
    settings.CLASS_REVIEW = "proposal"
    typed = {"expression": [AMD], "extended_resource_name": "", "config": "", "seen_version": ""}
    page = html(ada.post(f"/classes/berlin/{NAME}/edit/", typed), 422)
    assert "propose it instead" in page


def test_the_list_is_searched_filtered_and_told_as_csv(
    ada: Client, proposal: ClassProposal, fleet: Fleet
) -> None:
    assert NAME in html(ada.get(f"{LIST}?q=maker&state=open"))
    assert "None matches these filters" in html(ada.get(f"{LIST}?state=rejected"))
    answer: Any = ada.get(f"{LIST}?format=csv")
    lines = b"".join(answer.streaming_content).decode().splitlines()
    assert lines[0].lstrip("\ufeff").startswith("id,class,change,state,clusters,done,author")
    assert f",{NAME},edit,open,berlin,0,grace,grace," in lines[1]


def test_home_names_what_waits_and_what_has_stopped(ada: Client, proposal: ClassProposal, cast: Cast) -> None:
    make_proposal(
        proposal.targets.get().cluster, proposal.author, now=timezone.now(), name="x.example", state="failed",
        step="failed", outcome="conflict",
    )  # fmt: skip
    page = html(ada.get("/"))
    assert "1 proposal for a device class waits for approval" in page
    assert "1 change of a device class has stopped" in page
    assert "device class" not in html(cast.client("teammate").get("/"))


def test_a_stopped_one_is_resumed_or_given_up(ada: Client, cast: Cast, fleet: Fleet) -> None:
    stopped = make_proposal(
        fleet.cluster,
        cast.administrator,
        now=timezone.now(),
        state="failed",
        step="failed",
        outcome="conflict",
    )
    at = f"{LIST}{stopped.pk}/"
    page = html(ada.get(at))
    assert "Fields belong to helm." in page
    assert ada.post(f"{at}give-up/").status_code == 303
    assert "given up" in html(ada.post(f"{at}resume/"), 422)


def test_a_name_that_no_database_could_hold_is_an_error_of_the_form(ada: Client) -> None:
    response = ada.post(PROPOSE, {"name": "a\x00b", "kind": "edit", "spec": TRUE, "cluster": "berlin"})
    assert response.status_code == 422
