"""What people set about themselves, and that it takes effect."""

import pytest
from django.test import Client

from portal.accounts.models import AuditEntry, User
from tests.cast import Cast

pytestmark = pytest.mark.django_db
FORM = {"first_name": "Mina", "last_name": "Okoye", "language": "zh-hans", "time_zone": "Asia/Shanghai"}


def test_a_profile_is_saved_and_recorded(client: Client, cast: Cast) -> None:
    client.force_login(cast.member)

    response = client.post("/profile/", FORM)

    user = User.objects.get(pk=cast.member.pk)
    assert response.status_code == 303
    assert (user.last_name, user.language, user.time_zone) == ("Okoye", "zh-hans", "Asia/Shanghai")
    entry = AuditEntry.objects.get()
    assert entry.action == "person.change"
    assert entry.after == {"last_name": "Okoye", "language": "zh-hans", "time_zone": "Asia/Shanghai"}


def test_saving_the_same_again_records_nothing(client: Client, cast: Cast) -> None:
    client.force_login(cast.member)
    for _ in range(2):
        client.post("/profile/", FORM)

    assert AuditEntry.objects.count() == 1


@pytest.mark.parametrize("wrong", [{"time_zone": "Mars/Base"}, {"language": "tlh"}, {"last_name": "x" * 151}])
def test_bad_input_changes_nothing(client: Client, cast: Cast, wrong: dict[str, str]) -> None:
    client.force_login(cast.member)

    page = client.post("/profile/", FORM | wrong)

    assert page.status_code == 200
    assert "cd-field-error" in page.content.decode()
    assert User.objects.get(pk=cast.member.pk).language == ""


def test_a_form_cannot_give_oneself_a_role(client: Client, cast: Cast) -> None:
    client.force_login(cast.member)

    client.post("/profile/", FORM | {"is_administrator": "on", "is_superuser": "on"})

    user = User.objects.get(pk=cast.member.pk)
    assert not user.is_administrator
    assert not user.is_superuser


def test_the_persons_language_beats_the_browsers(client: Client, cast: Cast) -> None:
    cast.member.language = "zh-hans"
    cast.member.save()
    client.force_login(cast.member)

    page = client.get("/profile/", headers={"Accept-Language": "en"})

    assert '<html lang="zh-hans">' in page.content.decode()


def test_without_a_choice_the_browser_decides(client: Client, cast: Cast) -> None:
    client.force_login(cast.member)

    page = client.get("/profile/", headers={"Accept-Language": "zh-CN,zh;q=0.9"})

    assert '<html lang="zh-hans">' in page.content.decode()


def test_times_are_in_the_persons_zone_with_utc_beside(client: Client, cast: Cast) -> None:
    cast.member.time_zone = "Asia/Shanghai"
    cast.member.save()
    client.force_login(cast.member)

    page = client.get("/projects/tides/").content.decode()

    assert 'title="2026-03-10 09:30:00 UTC">2026-03-10 17:30</time>' in page


def test_a_zone_that_no_longer_exists_locks_nobody_out(client: Client, cast: Cast) -> None:
    cast.member.time_zone = "Mars/Base"
    cast.member.save()
    client.force_login(cast.member)

    assert client.get("/projects/tides/").status_code == 200


def test_the_password_is_changed_by_its_own_form(client: Client, cast: Cast) -> None:
    from tests.cast import PASSWORD

    client.force_login(cast.member)
    form = {"oldpassword": PASSWORD, "password1": "another good phrase", "password2": "another good phrase"}

    client.post("/accounts/password/change/", form)

    assert User.objects.get(pk=cast.member.pk).check_password("another good phrase")
    entry = AuditEntry.objects.get()
    assert (entry.action, entry.actor, entry.before, entry.after) == (
        "person.password",
        cast.member,
        None,
        None,
    )


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"oldpassword": "not it"}, "current password"),
        ({"password2": "something else"}, "same password"),
        ({"password1": "12345678", "password2": "12345678"}, "too common"),
    ],
)
def test_a_password_that_cannot_be_changed_is_explained(
    client: Client, cast: Cast, wrong: dict[str, str], message: str
) -> None:
    from tests.cast import PASSWORD

    client.force_login(cast.member)
    form = {"oldpassword": PASSWORD, "password1": "another good phrase", "password2": "another good phrase"}

    page = client.post("/accounts/password/change/", form | wrong)

    assert message in page.content.decode()
    assert User.objects.get(pk=cast.member.pk).check_password(PASSWORD)
    assert not AuditEntry.objects.exists()


def test_without_a_choice_times_are_told_in_the_browsers_zone(client: Client, cast: Cast) -> None:
    client.force_login(cast.member)
    client.cookies["claimdesk-zone"] = "Asia/Tokyo"

    # The project began at 09:30 UTC.
    page = client.get("/projects/tides/").content.decode()
    assert 'title="2026-03-10 09:30:00 UTC">2026-03-10 18:30</time>' in page

    cast.member.time_zone = "Europe/Berlin"
    cast.member.save()
    assert ">2026-03-10 10:30</time>" in client.get("/projects/tides/").content.decode()


@pytest.mark.parametrize(
    "zone", ["Mars/Base", "../../etc/passwd", "Europe", "x" * 5000, "\x00", "/etc/localtime"]
)
def test_a_made_up_zone_is_utc(client: Client, cast: Cast, zone: str) -> None:
    client.force_login(cast.member)
    client.cookies["claimdesk-zone"] = zone

    assert ">2026-03-10 09:30</time>" in client.get("/projects/tides/").content.decode()


def test_zones_are_offered_once_and_by_the_names_of_their_places(client: Client, cast: Cast) -> None:
    cast.member.time_zone = "Asia/Calcutta"
    cast.member.save()
    client.force_login(cast.member)

    page = client.get("/profile/", headers={"Accept-Language": "zh-CN"}).content.decode()

    assert '<option value="Europe/Berlin">柏林 (UTC+0' in page
    assert '<option value="Asia/Kolkata">加尔各答 (UTC+05:30)</option>' in page
    # What somebody chose long ago stays a choice.
    assert '<option value="Asia/Calcutta" selected>' in page
