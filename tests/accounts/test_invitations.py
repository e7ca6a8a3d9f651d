"""Invitations: a link that takes one person into a project, once."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.core import mail
from django.db import connection
from django.test import Client
from django.utils import timezone

from portal.accounts import invitations
from portal.accounts.models import AuditEntry, Invitation, Membership, User
from tests.cast import PASSWORD, Cast

pytestmark = pytest.mark.django_db
LIST = "/projects/tides/invitations/"
WEEK = timedelta(days=7)
NEW = {
    "username": "wren",
    "first_name": "Wren",
    "last_name": "Okafor",
    "email": "wren@example.org",
    "password": "a tern over grey water",
    "again": "a tern over grey water",
}


@pytest.fixture(autouse=True)
def fresh_limits() -> None:
    from django.core.cache import cache

    cache.clear()


def link(cast: Cast, **wanted: Any) -> str:
    options: Any = {"role": "member", "lifetime": WEEK, "now": timezone.now()} | wanted
    _invitation, secret = invitations.invite(project=cast.project, actor=cast.lead, **options)
    return f"/join/{secret}/"


def opened(client: Client, path: str) -> Any:
    response = client.get(path)
    assert response.status_code == 303
    assert response["Location"] == "/join/"
    return client.get("/join/")


def test_the_link_is_shown_once_and_stored_nowhere(client: Client, cast: Cast) -> None:
    client.force_login(cast.lead)

    page = client.post(LIST, {"role": "member", "email": "", "lifetime": "7"})
    shown = page.context["link"]
    secret = shown.rstrip("/").rpartition("/")[2]

    assert shown.startswith("http://testserver/join/")
    assert shown in page.content.decode()
    assert secret not in client.get(LIST).content.decode()
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM accounts_invitation")
        assert secret not in str(cursor.fetchall())
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.project, entry.actor) == ("invitation.create", cast.project, cast.lead)
    assert secret not in str(entry.after)


@pytest.mark.parametrize(
    ("role", "status"),
    [("member", 403), ("finance", 403), ("auditor", 403), ("stranger", 404), ("administrator", 200)],
)
def test_leads_and_administrators_invite(client: Client, cast: Cast, role: str, status: int) -> None:
    client.force_login(getattr(cast, role))

    assert client.get(LIST).status_code == status
    assert client.post(LIST, {"role": "lead", "email": "", "lifetime": "7"}).status_code == status
    assert Invitation.objects.count() == int(status == 200)


@pytest.mark.parametrize(
    "wrong", [{"role": "emperor"}, {"lifetime": "365"}, {"email": "not an address"}, {"role": ""}]
)
def test_bad_input_is_named_beside_its_field(client: Client, cast: Cast, wrong: dict[str, str]) -> None:
    client.force_login(cast.lead)

    response = client.post(LIST, {"role": "member", "email": "a@example.org", "lifetime": "7"} | wrong)

    assert response.status_code == 422
    assert "cd-field-error" in response.content.decode()
    assert not Invitation.objects.exists()


def test_who_is_signed_in_accepts(client: Client, cast: Cast) -> None:
    client.force_login(cast.stranger)
    page = opened(client, link(cast, role="lead"))

    assert "invites you to Tidal models as project lead" in page.content.decode()
    assert not Membership.objects.filter(user=cast.stranger, project=cast.project).exists()

    response = client.post("/join/")

    assert response["Location"] == "/projects/tides/"
    assert Membership.objects.get(user=cast.stranger, project=cast.project).role == "lead"
    used = Invitation.objects.get()
    assert used.used_by == cast.stranger
    assert list(AuditEntry.objects.order_by("pk").values_list("action", flat=True)) == [
        "invitation.create",
        "member.add",
        "invitation.accept",
    ]


def test_who_has_an_account_signs_in_on_the_way(client: Client, cast: Cast) -> None:
    opened(client, link(cast))

    back = client.post(
        "/accounts/login/?next=/join/", {"login": "stig", "password": PASSWORD, "next": "/join/"}
    )

    assert back["Location"] == "/join/"
    client.post("/join/")
    assert Membership.objects.filter(user=cast.stranger, project=cast.project).exists()


def test_a_new_person_makes_an_account_and_is_in(client: Client, cast: Cast) -> None:
    opened(client, link(cast))

    response = client.post("/join/", NEW)

    assert response["Location"] == "/projects/tides/"
    user = User.objects.get(username="wren")
    assert client.session["_auth_user_id"] == str(user.pk)
    assert user.check_password(NEW["password"])
    assert Membership.objects.get(user=user).project == cast.project
    assert client.get("/projects/tides/").status_code == 200


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"username": "mina"}, "Somebody here has this user name"),
        ({"username": "MINA"}, "Somebody here has this user name"),
        ({"username": "not a name!"}, "valid username"),
        ({"email": "Mina@example.org"}, "Somebody here has this address"),
        ({"password": "short", "again": "short"}, "too short"),
        ({"password": "wren@example.org", "again": "wren@example.org"}, "too similar"),
        ({"again": "another"}, "The two passwords differ"),
        ({"first_name": "x" * 151}, "at most 150 characters"),
    ],
)
def test_an_account_that_cannot_be_made_is_explained_and_nothing_typed_is_lost(
    client: Client, cast: Cast, wrong: dict[str, str], message: str
) -> None:
    opened(client, link(cast))

    page = client.post("/join/", NEW | wrong)

    assert message in page.content.decode()
    assert (NEW | wrong)["username"] in page.content.decode()
    assert NEW["password"] not in page.content.decode()
    assert not User.objects.filter(username=NEW["username"]).exists()
    assert Invitation.objects.get().used_at is None


def test_a_link_works_once(client: Client, cast: Cast) -> None:
    path = link(cast)
    opened(client, path)
    client.post("/join/", NEW)

    late = Client()
    page = opened(late, path)

    assert page.status_code == 410
    assert "has been used already" in page.content.decode()
    assert late.post("/join/", NEW | {"username": "second", "email": "s@example.org"}).status_code == 410
    assert not User.objects.filter(username="second").exists()


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"expires_at": timezone.now() - WEEK}, 410, "has expired"),
        ({"revoked_at": timezone.now()}, 410, "was taken back"),
    ],
)
def test_what_is_over_says_why(
    client: Client, cast: Cast, change: dict[str, Any], status: int, message: str
) -> None:
    path = link(cast)
    Invitation.objects.update(**change)

    page = opened(client, path)

    assert page.status_code == status
    assert message in page.content.decode()


def test_a_link_that_never_was_leads_nowhere(client: Client, cast: Cast) -> None:
    assert opened(client, "/join/nonsense/").status_code == 404
    assert Client().get("/join/").status_code == 404


def test_an_archived_project_takes_nobody_in(client: Client, cast: Cast) -> None:
    path = link(cast)
    cast.project.archived_at = timezone.now()
    cast.project.save()

    assert opened(client, path).status_code == 410
    with pytest.raises(invitations.UnableToInvite, match="archived"):
        link(cast)


def test_an_invitation_for_an_address_is_for_nobody_else(client: Client, cast: Cast) -> None:
    path = link(cast, email="Wren@example.org")
    client.force_login(cast.stranger)
    opened(client, path)

    page = client.post("/join/")

    assert page.status_code == 403
    assert "for Wren@example.org" in page.content.decode()
    client.logout()
    opened(client, path)
    assert (
        "This invitation is for" in client.post("/join/", NEW | {"email": "x@example.org"}).content.decode()
    )
    client.post("/join/", NEW)
    assert Membership.objects.filter(user__username="wren").exists()


def test_a_member_is_made_a_lead_but_never_less(client: Client, cast: Cast) -> None:
    client.force_login(cast.member)
    opened(client, link(cast, role="lead"))
    client.post("/join/")
    assert Membership.objects.get(user=cast.member).role == "lead"

    opened(client, link(cast, role="member"))
    page = client.post("/join/")

    assert page.status_code == 409
    assert "a member of Tidal models already" in page.content.decode()
    assert Membership.objects.get(user=cast.member).role == "lead"
    assert Invitation.objects.filter(used_at=None).count() == 1


def test_taking_back_ends_the_link(client: Client, cast: Cast) -> None:
    path = link(cast)
    pk = Invitation.objects.get().pk
    client.force_login(cast.stranger)
    assert client.post(f"{LIST}{pk}/revoke/").status_code == 404

    client.force_login(cast.lead)
    for _ in range(2):
        client.post(f"{LIST}{pk}/revoke/")

    assert AuditEntry.objects.filter(action="invitation.revoke").count() == 1
    assert opened(Client(), path).status_code == 410


@pytest.mark.parametrize("fate", ["removed", "demoted", "deactivated", "auditor"])
def test_an_invitation_holds_no_longer_than_the_right_of_who_made_it(
    client: Client, cast: Cast, fate: str
) -> None:
    path = link(cast, role="lead")
    _one, _secret = invitations.invite(
        project=cast.project, actor=cast.lead, role="lead", email="stig@example.org", lifetime=WEEK,
        now=timezone.now(),
    )  # fmt: skip
    lead = Membership.objects.filter(project=cast.project, user=cast.lead)
    if fate == "removed":
        lead.delete()
    elif fate == "demoted":
        lead.update(role="member")
    else:
        User.objects.filter(pk=cast.lead.pk).update(
            is_active=fate != "deactivated", is_auditor=fate == "auditor"
        )
    # Whoever was removed has kept a link of their own.
    comes_back = cast.lead if fate in {"removed", "demoted"} else cast.stranger
    client.force_login(comes_back)

    page = opened(client, path)
    posted = client.post("/join/")

    assert (page.status_code, posted.status_code) == (410, 410)
    assert "may no longer take anybody in" in page.content.decode()
    assert not Membership.objects.filter(project=cast.project, user=comes_back, role="lead").exists()
    assert not invitations.is_invited(["stig@example.org"], now=timezone.now())
    assert not invitations.open_invitations(cast.project, now=timezone.now()).exists()
    client.force_login(cast.administrator)
    assert {state for _item, state in client.get(LIST).context["rows"]} == {"lapsed"}


def test_the_mail_carries_the_link_where_there_is_mail(client: Client, cast: Cast, settings: Any) -> None:
    settings.MAIL_OFFERED = True
    client.force_login(cast.lead)

    page = client.post(LIST, {"role": "member", "email": "wren@example.org", "lifetime": "7"})

    assert mail.outbox[0].to == ["wren@example.org"]
    assert page.context["link"] in mail.outbox[0].body
    assert "It was sent to wren@example.org" in page.content.decode()


def test_a_mail_that_is_not_taken_leaves_the_link(client: Client, cast: Cast, settings: Any) -> None:
    settings.MAIL_OFFERED = True
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", 1
    client.force_login(cast.lead)

    page = client.post(LIST, {"role": "member", "email": "wren@example.org", "lifetime": "7"})

    assert "Nothing was sent" in page.content.decode()
    assert page.context["link"]


def test_open_invitations_are_bounded(cast: Cast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(invitations, "MOST_OPEN", 1)
    link(cast)

    with pytest.raises(invitations.UnableToInvite, match="too many"):
        link(cast)


def test_nobody_takes_anothers_address_for_a_user_name(client: Client, cast: Cast) -> None:
    opened(client, link(cast))

    page = client.post("/join/", NEW | {"username": "noor@example.org"})

    assert "has to be your own" in page.content.decode()
    assert not User.objects.filter(username="noor@example.org").exists()
    assert client.post("/join/", NEW | {"username": NEW["email"]}).status_code == 303


def test_a_link_that_never_was_leaves_no_session(client: Client, cast: Cast) -> None:
    assert opened(client, "/join/made-up/").status_code == 404
    assert not Session.objects.exists()

    assert opened(client, link(cast)).status_code == 200
    assert opened(client, "/join/made-up/").status_code == 404


def test_a_user_name_of_other_letters_of_the_same_look_is_the_same(client: Client, cast: Cast) -> None:
    opened(client, link(cast))

    page = client.post("/join/", NEW | {"username": "\uff4cena"})

    assert "Somebody here has this user name" in page.content.decode()


def test_an_address_that_no_column_takes_is_refused_wherever_it_is_typed(client: Client, cast: Cast) -> None:
    # Well-formed, as Django sees it, and longer than what is kept.
    long = "wren@" + ".".join(["a" * 60] * 4) + ".example.org"
    opened(client, link(cast))

    assert "at most 254 characters" in client.post("/join/", NEW | {"email": long}).content.decode()
    with pytest.raises(invitations.UnableToInvite, match="longer than 254") as refused:
        link(cast, email=long)
    assert refused.value.field == "email"
    client.force_login(cast.lead)
    page = client.post(LIST, {"role": "member", "email": long, "lifetime": "7"})
    assert (page.status_code, Invitation.objects.count()) == (422, 1)
