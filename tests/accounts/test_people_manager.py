"""The first account of an installation."""

import pytest
from django.core.management import call_command

from portal.accounts.models import User


@pytest.mark.django_db
def test_createsuperuser_makes_an_administrator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DJANGO_SUPERUSER_PASSWORD", "a long one for tests")
    call_command(
        "createsuperuser", username="first", email="first@example.org", interactive=False, verbosity=0
    )
    first = User.objects.get(username="first")
    assert first.is_administrator
    assert first.check_password("a long one for tests")


@pytest.mark.django_db
def test_other_accounts_have_no_role() -> None:
    other = User.objects.create_user("other")
    assert (other.is_administrator, other.is_finance, other.is_auditor) == (False, False, False)
