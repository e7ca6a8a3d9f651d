"""Who cannot be asked whether it is still them is told so, and what they can do."""

import pytest
from django.test import Client
from django.urls import reverse

from portal.accounts.models import User
from tests.cast import Cast

IMPOSSIBLE = "/accounts/reauthenticate/impossible/"


@pytest.fixture
def without_password(cast: Cast) -> Client:
    User.objects.filter(pk=cast.finance.pk).update(password="!")
    client = Client()
    client.force_login(User.objects.get(pk=cast.finance.pk))
    return client


@pytest.mark.parametrize("name", ["mfa_activate_totp", "mfa_add_webauthn"])
def test_without_password_and_provider_delicate_pages_lead_to_what_can_be_done(
    without_password: Client, name: str
) -> None:
    answer = without_password.get(reverse(name))

    assert answer.status_code == 302
    assert answer["Location"].startswith(IMPOSSIBLE)
    page = without_password.get(answer["Location"]).content.decode()
    assert "You have no password here" in page
    assert reverse("account_set_password") in page
    # Which asks for nothing that they do not have.
    assert without_password.get(reverse("account_set_password")).status_code == 200


def test_who_can_be_asked_is_asked(cast: Cast) -> None:
    client = Client()
    client.force_login(cast.member)

    assert client.get(IMPOSSIBLE)["Location"] == reverse("account_reauthenticate")
