"""Members come and go, by hand and by group; the project keeps who was there."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.accounts import memberships
from portal.accounts.memberships import find_person
from portal.accounts.models import AuditEntry, Membership, PastMembership, Project, User
from portal.accounts.projects import UnableToChangeProject, change_project, create_project
from tests.cast import NOW, Cast
from tests.pages import fleet

pytestmark = pytest.mark.django_db
LATER = NOW + timedelta(days=3)


def of(cast: Cast, who: str) -> Membership:
    return Membership.objects.select_related("user", "project").get(
        project=cast.project, user=getattr(cast, who)
    )


def test_a_member_leaves_and_the_project_keeps_that_they_were_there(client: Client, cast: Cast) -> None:
    Membership.objects.filter(user=cast.member).update(joined_at=NOW)
    client.force_login(cast.member)
    assert "Leave Tidal models" in client.get("/projects/tides/leave/").content.decode()

    response = client.post("/projects/tides/leave/")

    assert response["Location"] == "/projects/"
    assert client.get("/projects/tides/").status_code == 404
    past = PastMembership.objects.get()
    assert (past.user, past.project, past.role) == (cast.member, cast.project, "member")
    assert (past.joined_at, past.reason) == (NOW, "left")
    assert AuditEntry.objects.get().action == "member.leave"


def test_leads_and_readers_see_former_members(client: Client, cast: Cast) -> None:
    memberships.remove_member(membership=of(cast, "teammate"), actor=cast.lead, now=timezone.now())

    for who, sees in [("lead", True), ("administrator", True), ("auditor", True), ("member", False)]:
        client.force_login(getattr(cast, who))
        assert ("1 former member" in client.get("/projects/tides/").content.decode()) is sees


def test_what_somebody_did_goes_on_naming_them(client: Client, cast: Cast) -> None:
    made = fleet.request(cast, purpose="spring tide", requester=cast.teammate)
    memberships.remove_member(membership=of(cast, "teammate"), actor=cast.lead, now=timezone.now())

    client.force_login(cast.lead)
    assert "Tomas" in client.get(f"/requests/{made.key}/").content.decode()
    client.force_login(cast.teammate)
    assert client.get(f"/requests/{made.key}/").status_code == 404


@pytest.mark.parametrize(("who", "status"), [("stranger", 404), ("finance", 403), ("administrator", 404)])
def test_who_is_no_member_cannot_leave(client: Client, cast: Cast, who: str, status: int) -> None:
    client.force_login(getattr(cast, who))

    assert client.post("/projects/tides/leave/").status_code == status


def test_the_last_lead_cannot_leave(client: Client, cast: Cast) -> None:
    client.force_login(cast.lead)

    client.post("/projects/tides/leave/")

    assert of(cast, "lead")


def test_coming_back_is_a_new_membership(cast: Cast) -> None:
    memberships.remove_member(membership=of(cast, "member"), actor=cast.lead, now=NOW)
    memberships.add_member(project=cast.project, username="mina", role="lead", actor=cast.lead, now=LATER)

    assert of(cast, "member").joined_at == LATER
    assert PastMembership.objects.get().role == "member"


def test_what_a_group_gave_is_not_taken_by_hand(cast: Cast) -> None:
    memberships.claim(user=cast.stranger, project=cast.project, role="lead", now=NOW)
    membership = of(cast, "stranger")

    with pytest.raises(UnableToChangeProject, match="group of their sign-in"):
        memberships.remove_member(membership=membership, actor=cast.lead, now=NOW)
    with pytest.raises(UnableToChangeProject, match="group of their sign-in"):
        memberships.change_role(membership=membership, role="member", actor=cast.lead, now=NOW)


def test_hand_and_group_give_together_and_the_higher_holds(cast: Cast) -> None:
    memberships.claim(user=cast.stranger, project=cast.project, role="member", now=NOW)
    memberships.take_in(project=cast.project, user=cast.stranger, role="lead", actor=cast.lead, now=NOW)
    assert (of(cast, "stranger").role, of(cast, "stranger").by_hand) == ("lead", "lead")

    memberships.claim(user=cast.stranger, project=cast.project, role="", now=LATER)
    assert (of(cast, "stranger").role, of(cast, "stranger").claimed_role) == ("lead", "")
    assert not PastMembership.objects.exists()


def test_a_group_that_says_the_same_again_writes_nothing(cast: Cast) -> None:
    for _ in range(2):
        memberships.claim(user=cast.stranger, project=cast.project, role="member", now=NOW)

    assert AuditEntry.objects.count() == 1


def test_an_address_that_two_people_have_finds_nobody(cast: Cast) -> None:
    cast.stranger.email = "mina@example.org"
    cast.stranger.save()

    assert memberships.find_person("mina@example.org") is None
    assert memberships.find_person("mina") == cast.member


def test_a_user_name_does_not_draw_what_is_meant_for_an_address(cast: Cast) -> None:
    User.objects.filter(pk=cast.stranger.pk).update(username="mina@example.org")

    assert find_person("mina@example.org") is None
    assert find_person("mina") == cast.member
    User.objects.filter(pk=cast.member.pk).update(email="")
    assert find_person("mina@example.org") == cast.stranger


@pytest.mark.parametrize("act", ["create", "change"])
def test_two_who_give_a_name_at_the_same_moment(
    cast: Cast, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As it looked to the second one before the first had done it.
    monkeypatch.setattr("django.db.models.query.QuerySet.exists", lambda _self: False)
    texts: Any = {"name": "Tidal models", "description": "", "cost_centre": "", "now": NOW}
    acts: dict[str, Callable[[], object]] = {
        "create": lambda: create_project(slug="other", actor=None, **texts),
        "change": lambda: change_project(project=cast.other, actor=cast.administrator, **texts),
    }

    with pytest.raises(UnableToChangeProject, match="has this already"):
        acts[act]()

    assert Project.objects.count() == 2


def test_leads_who_leave_at_once_wait_for_each_other_at_the_project(cast: Cast) -> None:
    """On PostgreSQL a row of their own first would be a deadlock."""
    membership = of(cast, "member")

    with CaptureQueriesContext(connection) as queries:
        memberships.remove_member(membership=membership, actor=cast.lead, now=NOW)

    said = [query["sql"] for query in queries if query["sql"].startswith("SELECT")]
    assert 'FROM "accounts_project"' in said[0]
    if connection.vendor == "postgresql":
        assert said[0].endswith("FOR NO KEY UPDATE")


def test_short_names_do_not_differ_by_case_only(cast: Cast) -> None:
    with pytest.raises(UnableToChangeProject, match="has this already"):
        create_project(slug="TIDES", name="Other", actor=None, now=NOW)
