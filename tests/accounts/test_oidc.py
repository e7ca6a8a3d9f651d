"""Signing in through an identity provider, against a real one over HTTP."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import requests
from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.test import Client
from django.utils import timezone

from portal.accounts.invitations import invite
from portal.accounts.models import ApiToken, AuditEntry, Invitation, Membership, PastMembership, User
from portal.accounts.tokens import issue_token
from portal.identity import IdentityProvider
from tests.accounts.identity_provider import CLIENT_ID, CLIENT_SECRET, Faults, SmallProvider
from tests.cast import PASSWORD, Cast

pytestmark = pytest.mark.django_db
GRANTS = {
    "gpu-admins": ("administrator",),
    "controllers": ("finance",),
    "tide-leads": ("tides:lead",),
    "tide-people": ("tides:member", "nowhere:member"),
}


@pytest.fixture
def provider(settings: Any) -> Iterator[SmallProvider]:
    from django.core.cache import cache

    cache.clear()
    running = SmallProvider()
    settings.OIDC = IdentityProvider(
        issuer=running.issuer,
        client_id=CLIENT_ID,
        client_secret=CLIENT_SECRET,
        name="Harbour ID",
        grants=GRANTS,
    )
    yield running
    running.stop()


def away(client: Client, path: str = "/accounts/oidc/login/") -> str:
    """To the provider and back; where the browser is sent then."""
    there = client.get(path)
    assert there.status_code == 302
    back = requests.get(there["Location"], allow_redirects=False, timeout=30)
    return str(back.headers["Location"]).removeprefix("http://testserver")


def sign_in(client: Client, path: str = "/accounts/oidc/login/") -> Any:
    return client.get(away(client, path))


def signed_in(client: Client) -> User | None:
    pk = client.session.get("_auth_user_id")
    return User.objects.get(pk=pk) if pk else None


def test_who_comes_for_the_first_time_gets_an_account(client: Client, provider: SmallProvider) -> None:
    response = sign_in(client, "/accounts/oidc/login/?next=/tokens/")

    assert response["Location"] == "/tokens/"
    user = signed_in(client)
    assert user is not None
    assert (user.username, user.email, str(user)) == ("wren", "wren@example.org", "Wren Okafor")
    assert not user.has_usable_password()
    assert AuditEntry.objects.get(action="person.create").after == {
        "username": "wren",
        "through": "Harbour ID",
    }


def test_the_second_time_it_is_the_same_person(client: Client, provider: SmallProvider) -> None:
    sign_in(client)
    client.logout()
    provider.person["email"] = "wren.okafor@example.org"

    sign_in(client)

    assert User.objects.count() == 1
    assert signed_in(client) is not None


def test_the_same_subject_of_another_provider_is_somebody_else(
    client: Client, provider: SmallProvider, settings: Any
) -> None:
    sign_in(client)
    SocialAccount.objects.update(provider=replace(settings.OIDC, issuer="https://old.example").key)
    client.logout()
    provider.person |= {"email": "other@example.org"}

    sign_in(client)

    assert User.objects.count() == 2


def test_what_is_asked_has_state_nonce_and_a_challenge(client: Client, provider: SmallProvider) -> None:
    away(client, "/accounts/oidc/login/?scope=admin&auth_params=prompt%3Dnone")

    asked = provider.asked[0]
    assert len(asked["state"]) >= 16
    assert len(asked["nonce"]) >= 32
    assert asked["code_challenge_method"] == "S256"
    assert set(asked["scope"].split()) == {"openid", "profile", "email"}
    assert "prompt" not in asked
    assert asked["redirect_uri"] == "http://testserver/accounts/oidc/callback/"


@pytest.mark.parametrize(
    "faults",
    [
        Faults(foreign_key=True),
        Faults(algorithm="none"),
        Faults(algorithm="HS256"),
        Faults(claims={"nonce": "another"}),
        Faults(claims={"nonce": None}),
        Faults(claims={"aud": "another-application"}),
        Faults(claims={"aud": [CLIENT_ID, "another"]}),
        Faults(claims={"azp": "another"}),
        Faults(claims={"iss": "https://evil.example"}),
        Faults(claims={"exp": 1_000_000}),
        Faults(claims={"exp": None}),
        Faults(claims={"sub": None}),
        Faults(claims={"sub": "x" * 192}),
        Faults(no_id_token=True),
        Faults(userinfo={"sub": "somebody-else"}),
        Faults(broken={"keys"}),
        Faults(broken={"userinfo"}),
    ],
    ids=lambda faults: str(faults)[7:60],
)
def test_an_answer_that_proves_nothing_lets_nobody_in(
    client: Client, provider: SmallProvider, faults: Faults
) -> None:
    provider.faults = faults

    response = sign_in(client)

    assert response.status_code == 401
    assert "The sign-in did not work" in response.content.decode()
    assert signed_in(client) is None
    assert not User.objects.exists()


def test_a_state_of_another_browser_is_refused(client: Client, provider: SmallProvider) -> None:
    callback = away(Client())

    response = client.get(callback)

    assert response.status_code == 401
    assert signed_in(client) is None


def test_an_answer_works_once(client: Client, provider: SmallProvider) -> None:
    callback = away(client)
    client.get(callback)
    client.logout()

    assert client.get(callback).status_code == 401
    assert signed_in(client) is None


def test_who_cancels_reads_so(client: Client, provider: SmallProvider) -> None:
    callback = away(client)
    state = callback.partition("state=")[2]

    response = client.get(f"/accounts/oidc/callback/?error=access_denied&state={state}")

    assert "The sign-in was cancelled" in response.content.decode()


@pytest.mark.parametrize(
    "faults", [Faults(broken={"openid-configuration"}), Faults(issuer="https://x.example")]
)
def test_a_provider_that_cannot_be_used_is_said_before_one_is_sent_away(
    client: Client, provider: SmallProvider, faults: Faults
) -> None:
    provider.faults = faults

    response = client.get("/accounts/oidc/login/")

    assert response.status_code == 401
    assert "The sign-in did not work" in response.content.decode()


def test_without_a_provider_there_is_no_such_page(client: Client, db: None) -> None:
    assert client.get("/accounts/oidc/login/").status_code == 404
    assert client.get("/accounts/oidc/callback/").status_code == 404
    assert "Sign in with" not in client.get("/accounts/login/").content.decode()


def test_the_sign_in_page_offers_it(client: Client, provider: SmallProvider) -> None:
    page = client.get("/accounts/login/?next=/tokens/").content.decode()

    assert "Sign in with Harbour ID" in page
    assert "/accounts/oidc/login/?next=/tokens/" in page


@pytest.mark.parametrize("target", ["https://evil.example/", "//evil.example/"])
def test_nobody_is_sent_elsewhere_afterwards(client: Client, provider: SmallProvider, target: str) -> None:
    assert sign_in(client, f"/accounts/oidc/login/?next={target}")["Location"] == "/"


# --- groups ----------------------------------------------------------------------------------------


def test_groups_give_roles_and_take_them_back(client: Client, provider: SmallProvider, cast: Cast) -> None:
    provider.person["groups"] = ["gpu-admins", "tide-leads", "tide-people", "choir"]
    sign_in(client)
    user = User.objects.get(username="wren")
    membership = Membership.objects.get(user=user)

    assert (user.is_administrator, user.is_finance, user.claimed_roles) == (True, False, ["administrator"])
    assert (membership.role, membership.claimed_role, membership.by_hand) == ("lead", "lead", "")
    assert membership.project == cast.project

    client.logout()
    provider.person["groups"] = ["controllers", "tide-people"]
    sign_in(client)
    user.refresh_from_db()
    membership.refresh_from_db()
    assert (user.is_administrator, user.is_finance, user.claimed_roles) == (False, True, ["finance"])
    assert membership.role == "member"

    client.logout()
    provider.person["groups"] = []
    sign_in(client)
    user.refresh_from_db()
    assert (user.is_finance, user.claimed_roles) == (False, [])
    assert not Membership.objects.filter(user=user).exists()
    assert PastMembership.objects.get(user=user).reason == "group"

    told = AuditEntry.objects.filter(target_id=str(user.pk), actor=None).order_by("pk")
    assert [(entry.action, entry.before, entry.after) for entry in told] == [
        ("person.claims", {"roles": []}, {"roles": ["administrator"]}),
        ("member.claim", {"role": None, "by": "group"}, {"role": "lead", "by": "group"}),
        ("person.claims", {"roles": ["administrator"]}, {"roles": ["finance"]}),
        ("member.claim", {"role": "lead", "by": "group"}, {"role": "member", "by": "group"}),
        ("person.claims", {"roles": ["finance"]}, {"roles": []}),
        ("member.claim", {"role": "member", "by": "group"}, {"role": None, "by": "hand"}),
    ]


@pytest.mark.parametrize("groups", [None, "", 7, {"gpu-admins": True}, [7, ["gpu-admins"]]])
def test_groups_that_are_missing_or_of_another_form_give_nothing(
    client: Client, provider: SmallProvider, cast: Cast, groups: object
) -> None:
    provider.person["groups"] = groups

    sign_in(client)

    user = User.objects.get(username="wren")
    assert not user.is_administrator
    assert not Membership.objects.filter(user=user).exists()


def test_groups_may_stand_deep_inside(client: Client, provider: SmallProvider, settings: Any) -> None:
    settings.OIDC = replace(settings.OIDC, groups_claim="realm_access.roles")
    provider.person["realm_access"] = {"roles": ["controllers"]}

    sign_in(client)

    assert User.objects.get(username="wren").is_finance


def test_what_people_gave_stays_when_a_group_goes(
    client: Client, provider: SmallProvider, cast: Cast
) -> None:
    sign_in(client)
    user = User.objects.get(username="wren")
    user.is_finance = True
    user.save()
    Membership.objects.create(user=user, project=cast.project, role="member")
    for groups, role in [(["controllers", "tide-leads"], "lead"), ([], "member")]:
        client.logout()
        provider.person["groups"] = groups
        sign_in(client)

        user.refresh_from_db()
        assert user.is_finance
        assert Membership.objects.get(user=user).role == role


def test_groups_never_take_the_last_administrator(client: Client, provider: SmallProvider) -> None:
    provider.person["groups"] = ["gpu-admins"]
    sign_in(client)
    client.logout()
    provider.person["groups"] = []

    sign_in(client)

    assert User.objects.get(username="wren").is_administrator


def test_who_has_roles_by_groups_comes_through_the_provider(
    client: Client, provider: SmallProvider, cast: Cast
) -> None:
    provider.person["groups"] = ["controllers"]
    sign_in(client)
    client.logout()
    user = User.objects.get(username="wren")
    user.set_password(PASSWORD)
    user.save()

    response = client.post("/accounts/login/", {"login": "wren", "password": PASSWORD})

    assert response.status_code == 403
    assert "sign in through Harbour ID" in response.content.decode()
    assert signed_in(client) is None


def test_a_session_through_the_provider_ends_in_time_however_it_is_used(
    client: Client, provider: SmallProvider
) -> None:
    sign_in(client)
    ends = client.session.get_expiry_date()
    assert timedelta(hours=11) < ends - timezone.now() <= timedelta(hours=12)

    much_later = timezone.now() + timedelta(hours=11)

    assert client.session.get_expiry_date(modification=much_later) == ends


def test_only_those_in_a_required_group_come_in(
    client: Client, provider: SmallProvider, settings: Any
) -> None:
    settings.OIDC = replace(settings.OIDC, required_groups=("desk-users",))

    assert sign_in(client).status_code == 403
    assert not User.objects.exists()

    provider.person["groups"] = ["desk-users"]
    assert sign_in(client).status_code == 302


def test_an_archived_project_takes_nobody_in_and_puts_nobody_out(
    client: Client, provider: SmallProvider, cast: Cast
) -> None:
    provider.person["groups"] = ["tide-people"]
    sign_in(client)
    cast.project.archived_at = timezone.now()
    cast.project.save()

    for name, belongs in [("u-1001", True), ("u-2002", False)]:
        client.logout()
        provider.person |= {"sub": name, "email": f"{name}@example.org"}
        sign_in(client)
        user = signed_in(client)
        assert Membership.objects.filter(user=user).exists() is belongs


# --- invitations -----------------------------------------------------------------------------------


@pytest.mark.parametrize("verified", [True, False])
def test_an_invitation_for_a_confirmed_address_needs_no_link(
    client: Client, provider: SmallProvider, cast: Cast, settings: Any, verified: bool
) -> None:
    settings.OIDC = replace(settings.OIDC, new_people=False)
    provider.person["email_verified"] = verified
    invite(
        project=cast.project,
        role="lead",
        email="Wren@example.org",
        lifetime=timedelta(days=7),
        actor=cast.lead,
        now=timezone.now(),
    )

    response = sign_in(client)

    assert response.status_code == (302 if verified else 403)
    found = Membership.objects.filter(user__username="wren", project=cast.project, role="lead")
    assert found.exists() is verified
    assert (Invitation.objects.get().used_at is not None) is verified


def test_who_was_never_here_and_is_not_invited_stays_out_where_that_is_wanted(
    client: Client, provider: SmallProvider, settings: Any
) -> None:
    settings.OIDC = replace(settings.OIDC, new_people=False)

    assert sign_in(client).status_code == 403
    assert not User.objects.exists()


def test_a_link_opens_the_way_through_the_provider(
    client: Client, provider: SmallProvider, cast: Cast, settings: Any
) -> None:
    settings.OIDC = replace(settings.OIDC, new_people=False)
    _invitation, secret = invite(
        project=cast.project, role="member", lifetime=timedelta(days=7), actor=cast.lead, now=timezone.now()
    )
    client.get(f"/join/{secret}/")
    assert "Sign in with Harbour ID" in client.get("/join/").content.decode()

    back = sign_in(client, "/accounts/oidc/login/?next=/join/")

    assert back["Location"] == "/join/"
    client.post("/join/")
    assert Membership.objects.get(user__username="wren").project == cast.project


# --- accounts that are here already ----------------------------------------------------------------


def test_an_address_that_is_taken_links_nothing_unless_wanted(
    client: Client, provider: SmallProvider, cast: Cast
) -> None:
    provider.person["email"] = "MINA@example.org"

    response = sign_in(client)

    assert response.status_code == 409
    assert "here already" in response.content.decode()
    assert signed_in(client) is None


@pytest.mark.parametrize("verified", [True, False])
def test_only_a_verified_address_opens_the_account_that_has_it(
    client: Client, provider: SmallProvider, cast: Cast, settings: Any, verified: bool
) -> None:
    settings.OIDC = replace(settings.OIDC, link_by_email=True)
    provider.person |= {"email": "mina@example.org", "email_verified": verified}

    sign_in(client)

    assert signed_in(client) == (cast.member if verified else None)
    assert AuditEntry.objects.filter(action="person.connect").count() == int(verified)


def test_a_person_who_was_locked_out_stays_out(client: Client, provider: SmallProvider) -> None:
    sign_in(client)
    client.logout()
    User.objects.update(is_active=False)

    sign_in(client)

    assert signed_in(client) is None


def test_one_connects_on_the_profile_and_disconnects_again(
    client: Client, provider: SmallProvider, cast: Cast
) -> None:
    client.post("/accounts/login/", {"login": "mina", "password": PASSWORD})
    provider.person |= {"email": "mina@example.org", "groups": ["controllers"]}

    response = sign_in(client, "/accounts/oidc/login/?process=connect")

    assert response["Location"] == "/profile/"
    account = SocialAccount.objects.get()
    assert account.user == cast.member
    client.logout()
    sign_in(client)
    assert signed_in(client) == cast.member
    assert User.objects.get(pk=cast.member.pk).is_finance

    client.post(f"/accounts/oidc/{account.pk}/disconnect/")

    assert not SocialAccount.objects.exists()
    assert not User.objects.get(pk=cast.member.pk).is_finance
    assert list(
        AuditEntry.objects.filter(action__startswith="person.")
        .order_by("pk")
        .values_list("action", flat=True)
    ) == ["person.connect", "person.claims", "person.disconnect", "person.claims"]


def test_nobody_disconnects_somebody_elses(client: Client, provider: SmallProvider, cast: Cast) -> None:
    sign_in(client)
    account = SocialAccount.objects.get()
    client.force_login(cast.member)

    assert client.post(f"/accounts/oidc/{account.pk}/disconnect/").status_code == 404
    assert SocialAccount.objects.exists()


def test_the_only_way_in_is_not_cut(client: Client, provider: SmallProvider) -> None:
    sign_in(client)

    client.post(f"/accounts/oidc/{SocialAccount.objects.get().pk}/disconnect/")

    assert SocialAccount.objects.exists()


# --- second factor ---------------------------------------------------------------------------------


def test_who_has_no_password_sets_a_factor_up_right_after_coming_in(
    client: Client, provider: SmallProvider
) -> None:
    sign_in(client)

    assert client.get("/accounts/mfa/totp/activate/").status_code == 200

    session = client.session
    for record in session["account_authentication_methods"]:
        record["at"] -= 3600
    session.save()
    assert client.get("/accounts/mfa/totp/activate/")["Location"].startswith("/accounts/oidc/login/?next=")
    back = sign_in(client, "/accounts/oidc/login/?next=/accounts/mfa/totp/activate/")
    assert client.get(back["Location"]).status_code == 200


@pytest.mark.parametrize(("amr", "enough"), [(["pwd"], False), (["pwd", "otp"], True), ("mfa", False)])
def test_a_factor_that_the_provider_asked_for_counts(
    client: Client, provider: SmallProvider, settings: Any, amr: object, enough: bool
) -> None:
    settings.REQUIRE_MFA = True
    provider.person |= {"groups": ["gpu-admins"], "amr": amr}

    sign_in(client)

    assert (client.get("/people/").status_code == 200) is enough


@pytest.mark.parametrize("confirmed", [True, False])
def test_tokens_end_with_the_password_when_the_owner_of_an_address_comes(
    client: Client, provider: SmallProvider, cast: Cast, settings: Any, confirmed: bool
) -> None:
    """Whoever made the account with that address may have been somebody else."""
    settings.OIDC = replace(settings.OIDC, link_by_email=True)
    EmailAddress.objects.create(user=cast.member, email="mina@example.org", verified=confirmed)
    issue_token(
        user=cast.member, name="kept", scopes=["requests"], lifetime=timedelta(days=1), now=timezone.now()
    )
    provider.person["email"] = "mina@example.org"

    sign_in(client)

    assert signed_in(client) == cast.member
    assert User.objects.get(pk=cast.member.pk).has_usable_password() == confirmed
    assert ApiToken.objects.filter(user=cast.member).exists() == confirmed
    assert AuditEntry.objects.filter(action="token.revoke").exists() == (not confirmed)


@pytest.mark.parametrize(
    "odd",
    [
        {"email": ["wren@example.org"]},
        {"email": "not an address"},
        {"email": "a" * 300 + "@example.org"},
        {"name": {"first": "Wren"}, "given_name": 7, "preferred_username": ["wren"]},
        {"given_name": "Wr\x00en", "preferred_username": "wr\x00en", "amr": ["otp\x00", 5]},
        {"given_name": "Wren\u202e", "email_verified": {"a": "\x00"}, "groups": ["a\x00", "\ud800", 7]},
        {"groups": [f"group-{number}" for number in range(20_000)]},
    ],
)
def test_claims_of_another_form_neither_stop_nor_reach_a_page(
    client: Client, provider: SmallProvider, odd: dict[str, Any]
) -> None:
    provider.person |= odd

    assert sign_in(client).status_code == 302

    user = signed_in(client)
    assert user is not None
    told = json.dumps([user.username, user.email, user.first_name, SocialAccount.objects.get().extra_data])
    for unusable in ("u0000", "u202e", "ud800", "not an address"):
        assert unusable not in told
    assert client.get("/profile/").status_code == 200


def test_a_subject_that_cannot_be_kept_lets_nobody_in(client: Client, provider: SmallProvider) -> None:
    provider.person["sub"] = "u-\x00"

    assert sign_in(client).status_code == 401


def test_the_last_administrator_can_disconnect_and_still_sign_in(
    client: Client, provider: SmallProvider, cast: Cast
) -> None:
    User.objects.filter(pk=cast.administrator.pk).update(is_administrator=False)
    client.post("/accounts/login/", {"login": "mina", "password": PASSWORD})
    provider.person |= {"email": "mina@example.org", "groups": ["gpu-admins", "controllers"]}
    sign_in(client, "/accounts/oidc/login/?process=connect")
    client.logout()
    sign_in(client)
    assert User.objects.get(pk=cast.member.pk).claimed_roles == ["administrator", "finance"]

    client.post(f"/accounts/oidc/{SocialAccount.objects.get().pk}/disconnect/")
    client.logout()
    client.post("/accounts/login/", {"login": "mina", "password": PASSWORD})

    mina = signed_in(client)
    assert mina is not None
    assert (mina.is_administrator, mina.is_finance, mina.claimed_roles) == (True, False, [])
