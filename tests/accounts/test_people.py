"""The page of people: roles, locking out, and that there is always an administrator."""

from datetime import timedelta
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.test import Client
from django.utils import timezone

from portal.accounts import roles
from portal.accounts.models import AuditEntry, User
from portal.accounts.tokens import issue_token
from tests.cast import PASSWORD, Cast, person

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("role", "reads", "changes"),
    [
        ("member", 403, 403),
        ("lead", 403, 403),
        ("finance", 403, 403),
        ("auditor", 200, 403),
        ("administrator", 200, 303),
    ],
)
def test_who_reads_and_who_changes(client: Client, cast: Cast, role: str, reads: int, changes: int) -> None:
    client.force_login(getattr(cast, role))
    url = f"/people/{cast.member.pk}/"

    assert client.get("/people/").status_code == reads
    assert client.get(url).status_code == reads
    assert client.post(url, {"roles": ["finance"]}).status_code == changes
    assert client.post(f"{url}switch/").status_code == changes
    assert client.post(f"{url}reset-factor/").status_code == changes
    assert AuditEntry.objects.exists() is (changes == 303)


def test_the_list_is_searched_and_narrowed(client: Client, cast: Cast) -> None:
    client.force_login(cast.administrator)

    def names(query: str) -> set[str]:
        return {row.username for row in client.get(f"/people/{query}").context["page"].object_list}

    assert names("") == {"mina", "tomas", "lena", "stig", "fay", "anouk", "ada"}
    assert names("?q=LEN") == {"lena"}
    assert names("?role=finance&role=auditor") == {"fay", "ada"}
    assert names("?role=researcher&state=locked") == set()
    assert names("?q=nobody%00") == set()


def test_the_list_as_csv(client: Client, cast: Cast) -> None:
    client.force_login(cast.administrator)

    text = b"".join(client.get("/people/?format=csv&q=anouk")).decode("utf-8-sig")

    assert text.splitlines()[1].startswith("anouk,Anouk,,anouk@example.org,administrator,yes,0,")


def test_the_number_of_queries_does_not_grow_with_people(
    client: Client, cast: Cast, django_assert_num_queries: Any
) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client.force_login(cast.administrator)
    client.get("/people/")
    with CaptureQueriesContext(connection) as few:
        client.get("/people/")
    for n in range(20):
        person(f"guest{n}")
    with django_assert_num_queries(len(few)):
        client.get("/people/")


def test_roles_are_given_and_taken(client: Client, cast: Cast) -> None:
    client.force_login(cast.administrator)
    url = f"/people/{cast.member.pk}/"

    client.post(url, {"roles": ["finance", "administrator"]})
    client.post(url, {"roles": []})

    cast.member.refresh_from_db()
    assert roles.roles_of(cast.member) == []
    assert [(e.action, e.before, e.after) for e in AuditEntry.objects.order_by("pk")] == [
        ("person.roles", {"roles": []}, {"roles": ["administrator", "finance"]}),
        ("person.roles", {"roles": ["administrator", "finance"]}, {"roles": []}),
    ]


@pytest.mark.parametrize("wanted", [[], ["finance"], ["administrator", "auditor"]])
def test_nobody_drops_their_own_administrators_role(client: Client, cast: Cast, wanted: list[str]) -> None:
    person("second", is_administrator=True)
    client.force_login(cast.administrator)

    page = client.post(f"/people/{cast.administrator.pk}/", {"roles": wanted})

    assert page.status_code == 422
    assert "from yourself" in page.content.decode()
    assert User.objects.get(pk=cast.administrator.pk).is_administrator
    assert not AuditEntry.objects.exists()


@pytest.mark.parametrize("act", ["roles", "deactivate"])
def test_the_last_administrator_stays(cast: Cast, act: str) -> None:
    # Somebody whose own role was taken while their page was open.
    def change() -> None:
        if act == "roles":
            roles.give_roles(user=cast.administrator, roles=["finance"], actor=cast.lead, now=timezone.now())
        else:
            roles.deactivate(user=cast.administrator, actor=cast.lead, now=timezone.now())

    with pytest.raises(roles.UnableToChangePerson, match="only administrator"):
        change()

    cast.administrator.refresh_from_db()
    assert cast.administrator.is_administrator
    assert cast.administrator.is_active


def test_an_administrator_who_audits_is_none_that_counts(cast: Cast) -> None:
    person("both", is_administrator=True, is_auditor=True)

    with pytest.raises(roles.UnableToChangePerson, match="only administrator"):
        roles.deactivate(user=cast.administrator, actor=cast.lead, now=timezone.now())


def test_who_is_deactivated_is_out_at_once(client: Client, cast: Cast) -> None:
    theirs, program = Client(), Client()
    theirs.force_login(cast.member)
    _token, plain = issue_token(
        user=cast.member, name="n", scopes=["inventory"], lifetime=timedelta(days=1), now=timezone.now()
    )
    bearer = {"Authorization": f"Bearer {plain}"}
    assert program.get("/api/v1/devices/", headers=bearer).status_code == 200
    client.force_login(cast.administrator)
    url = f"/people/{cast.member.pk}/switch/"
    assert "Deactivate Mina" in client.get(url).content.decode()

    client.post(url)

    assert theirs.get("/").status_code == 302
    assert program.get("/api/v1/devices/", headers=bearer).status_code == 401
    theirs.post("/accounts/login/", {"login": "mina", "password": PASSWORD})
    assert theirs.get("/").status_code == 302

    assert "Activate Mina" in client.get(url).content.decode()
    client.post(url)
    assert User.objects.get(pk=cast.member.pk).is_active
    told = AuditEntry.objects.filter(target_kind="user").order_by("pk")
    assert list(told.values_list("action", flat=True)) == [
        "person.deactivate",
        "person.activate",
    ]


def test_nobody_locks_themselves_out(client: Client, cast: Cast) -> None:
    person("second", is_administrator=True)
    client.force_login(cast.administrator)

    client.post(f"/people/{cast.administrator.pk}/switch/")

    assert User.objects.get(pk=cast.administrator.pk).is_active


def test_a_role_by_group_is_not_taken_here(client: Client, cast: Cast) -> None:
    User.objects.filter(pk=cast.member.pk).update(is_finance=True, claimed_roles=["finance"])
    client.force_login(cast.administrator)

    page = client.post(f"/people/{cast.member.pk}/", {"roles": ["auditor"]})

    assert "because of a group of their sign-in" in page.content.decode()
    assert User.objects.get(pk=cast.member.pk).is_finance

    client.post(f"/people/{cast.member.pk}/", {"roles": ["finance", "auditor"]})
    member = User.objects.get(pk=cast.member.pk)
    assert (member.is_auditor, member.claimed_roles) == (True, ["finance"])


def test_the_own_factor_goes_where_the_password_is_asked_for_again(client: Client, cast: Cast) -> None:
    factor = Authenticator.objects.create(user=cast.administrator, type="totp", data={"secret": "sealed"})
    client.force_login(cast.administrator)

    answer = client.post(f"/people/{cast.administrator.pk}/reset-factor/")

    assert (answer.status_code, answer["Location"]) == (303, "/accounts/mfa/")
    assert Authenticator.objects.filter(pk=factor.pk).exists()
