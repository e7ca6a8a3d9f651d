"""People who have signed in, without going through the form each time."""

from collections.abc import Mapping

from allauth.account.internal.flows.login import record_authentication
from django.http import HttpRequest
from django.test import Client

from portal.accounts.models import User


def signed_in(user: User) -> Client:
    """A browser in which the person gave their password just now: some pages want that."""
    client = Client()
    client.force_login(user)
    request = HttpRequest()
    request.session = client.session
    record_authentication(request, user, method="password", reauthenticated=True)
    request.session.save()
    return client


def sessions_of(users: Mapping[str, User]) -> dict[str, str]:
    """Session keys by role."""
    return {role: signed_in(user).cookies["sessionid"].value for role, user in users.items()}
