"""API tokens: made once, kept as a digest, revoked."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from portal.accounts.models import ApiToken, AuditEntry, User
from portal.accounts.tokens import MAX_TOKENS, UnableToIssueToken, issue_token, revoke_token
from tests.cast import Cast

pytestmark = pytest.mark.django_db
FORM = {"name": "nightly export", "scopes": ["chargeback"], "lifetime": "30"}


def test_the_plain_text_is_shown_once_and_stored_nowhere(client: Client, cast: Cast) -> None:
    client.force_login(cast.member)

    page = client.post("/tokens/", FORM)
    token = ApiToken.objects.get()
    plain = page.context["plain"]

    assert plain.startswith("cdesk_")
    assert plain in page.content.decode()
    assert plain not in client.get("/tokens/").content.decode()
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM accounts_apitoken")
        assert plain not in str(cursor.fetchall())
    assert plain not in str(list(AuditEntry.objects.values()))
    assert token.scopes == ["chargeback"]


def test_a_token_lives_as_long_as_chosen(client: Client, cast: Cast) -> None:
    client.force_login(cast.member)
    client.post("/tokens/", FORM)

    expiry = ApiToken.objects.get().expiry

    assert timedelta(days=29) < expiry - timezone.now() <= timedelta(days=30)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"name": ""}, "This field is required"),
        ({"scopes": []}, "This field is required"),
        ({"scopes": ["everything"]}, "not one of the available choices"),
        ({"lifetime": "40000"}, "not one of the available choices"),
        ({"name": "x" * 81}, "at most 80 characters"),
    ],
)
def test_bad_input_is_named_beside_its_field_and_kept(
    client: Client, cast: Cast, wrong: dict[str, object], message: str
) -> None:
    client.force_login(cast.member)

    page = client.post("/tokens/", FORM | wrong).content.decode()

    assert message in page
    assert "cd-field-error" in page
    assert not ApiToken.objects.exists()
    if "name" not in wrong:
        assert "nightly export" in page


def test_only_the_owner_revokes(client: Client, cast: Cast) -> None:
    token, _plain = issue_token(
        user=cast.member, name="n", scopes=["inventory"], lifetime=timedelta(days=1), now=timezone.now()
    )

    client.force_login(cast.teammate)
    assert client.post(f"/tokens/{token.token_key}/revoke/").status_code == 404
    client.force_login(cast.member)
    assert client.get(f"/tokens/{token.token_key}/revoke/").status_code == 200
    assert ApiToken.objects.exists()

    client.post(f"/tokens/{token.token_key}/revoke/")

    assert not ApiToken.objects.exists()
    assert AuditEntry.objects.filter(action="token.revoke", target_name="n").count() == 1


def test_revoking_twice_leaves_one_entry(cast: Cast) -> None:
    now = timezone.now()
    token, _plain = issue_token(
        user=cast.member, name="n", scopes=["inventory"], lifetime=timedelta(days=1), now=now
    )
    for _ in range(2):
        revoke_token(token=token, actor=cast.member, now=now)

    assert AuditEntry.objects.filter(action="token.revoke").count() == 1


@pytest.mark.parametrize(
    ("name", "scopes", "days", "field"),
    [
        (" ", ["inventory"], 1, "name"),
        ("n", ["root"], 1, "scopes"),
        ("n", ["inventory"], 0, "lifetime"),
        ("n", ["inventory"], 400, "lifetime"),
    ],
)
def test_the_domain_refuses_what_no_form_would_send(
    cast: Cast, name: str, scopes: list[str], days: int, field: str
) -> None:
    with pytest.raises(UnableToIssueToken) as refused:
        issue_token(
            user=cast.member, name=name, scopes=scopes, lifetime=timedelta(days=days), now=timezone.now()
        )

    assert refused.value.field == field


def test_nobody_hoards_tokens(cast: Cast) -> None:
    now = timezone.now()
    for n in range(MAX_TOKENS):
        issue_token(user=cast.member, name=f"{n}", scopes=["inventory"], lifetime=timedelta(days=1), now=now)

    with pytest.raises(UnableToIssueToken, match="Revoke one"):
        issue_token(user=cast.member, name="x", scopes=["inventory"], lifetime=timedelta(days=1), now=now)


# --- those of everybody ------------------------------------------------------------------------------


def made(user: User, name: str = "n", **fields: object) -> tuple[ApiToken, str]:
    values = {"scopes": ["inventory"], "lifetime": timedelta(days=1), "now": timezone.now()} | fields
    return issue_token(user=user, name=name, **values)  # type: ignore[arg-type] # only the defaults above


def test_administrators_see_the_tokens_of_everybody_but_not_their_text(client: Client, cast: Cast) -> None:
    _token, plain = made(cast.member, "nightly")
    client.force_login(cast.administrator)

    page = client.get("/tokens/everybody/").content.decode()

    assert "nightly" in page
    assert "Mina" in page
    assert plain not in page
    assert "nightly" in b"".join(client.get("/tokens/everybody/?format=csv")).decode()


def test_administrators_revoke_what_is_not_theirs_and_it_is_recorded(client: Client, cast: Cast) -> None:
    token, _plain = made(cast.member, "nightly")
    client.force_login(cast.administrator)
    assert "It is a token of Mina" in client.get(f"/tokens/{token.token_key}/revoke/").content.decode()

    answer = client.post(f"/tokens/{token.token_key}/revoke/")

    assert answer["Location"] == "/tokens/everybody/"
    assert not ApiToken.objects.exists()
    entry = AuditEntry.objects.get(action="token.revoke")
    assert entry.actor == cast.administrator
    assert (entry.before or {})["owner"] == "mina"


def test_auditors_see_them_and_may_not(client: Client, cast: Cast) -> None:
    token, _plain = made(cast.member)
    client.force_login(cast.auditor)

    assert "Revoke" not in client.get("/tokens/everybody/").content.decode()
    assert client.post(f"/tokens/{token.token_key}/revoke/").status_code == 403
    assert ApiToken.objects.exists()


@pytest.mark.parametrize(
    ("state", "shown"),
    [("active", {"live"}), ("expired", {"old"}), ("refused", {"gone"}), ("unused", {"live", "old", "gone"})],
)
def test_the_list_is_narrowed_by_what_tokens_are_good_for(
    client: Client, cast: Cast, state: str, shown: set[str]
) -> None:
    made(cast.member, "live")
    made(cast.teammate, "gone")
    old, _plain = made(cast.member, "old")
    ApiToken.objects.filter(pk=old.pk).update(expiry=timezone.now() - timedelta(hours=1))
    User.objects.filter(pk=cast.teammate.pk).update(is_active=False)
    client.force_login(cast.administrator)

    page = client.get(f"/tokens/everybody/?state={state}")

    assert {token.name for token in page.context["page"].object_list} == shown


def test_what_only_administrators_may_is_not_offered_to_others(client: Client, cast: Cast) -> None:
    client.force_login(cast.member)
    refused = client.post("/tokens/", FORM | {"scopes": ["administration"]}).content.decode()
    assert "not one of the available choices" in refused
    assert 'value="administration"' not in refused

    client.force_login(cast.auditor)
    assert 'value="administration"' in client.get("/tokens/").content.decode()


def test_the_token_of_a_deactivated_person_is_refused(client: Client, cast: Cast) -> None:
    _token, plain = made(cast.member)
    headers = {"Authorization": f"Bearer {plain}"}
    assert client.get("/api/v1/devices/", headers=headers).status_code == 200

    User.objects.filter(pk=cast.member.pk).update(is_active=False)
    answer = client.get("/api/v1/devices/", headers=headers)

    assert answer.status_code == 401
    assert answer.json()["code"] == "token_unknown"


def test_a_revoked_or_expired_token_is_refused_at_once(client: Client, cast: Cast) -> None:
    token, plain = made(cast.member)
    headers = {"Authorization": f"Bearer {plain}"}
    ApiToken.objects.filter(pk=token.pk).update(expiry=timezone.now() - timedelta(seconds=1))
    assert client.get("/api/v1/devices/", headers=headers).json()["code"] == "token_expired"

    revoke_token(token=token, actor=cast.member, now=timezone.now())

    assert client.get("/api/v1/devices/", headers=headers).json()["code"] == "token_unknown"
