"""API tokens: made once, kept as a digest, revoked."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from portal.accounts.models import ApiToken, AuditEntry
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
