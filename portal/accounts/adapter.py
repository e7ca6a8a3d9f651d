"""How django-allauth behaves here."""

from typing import Any

from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.internal.stagekit import clear_login
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _

from portal.accounts.audit import source_ip
from portal.accounts.limits import too_many
from portal.accounts.models import Membership, User
from portal.accounts.oidc.provider import configured


class AccountAdapter(DefaultAccountAdapter):  # type: ignore[misc] # allauth has no types
    def is_open_for_signup(self, request: HttpRequest) -> bool:  # noqa: ARG002 - allauth calls it with one
        """Nobody signs up alone: accounts are made by invitation, or by the identity provider."""
        return False

    def get_client_ip(self, request: HttpRequest) -> str:
        """By which attempts are counted. Who names no address that can be believed shares one count."""
        return source_ip(request) or "unknown"

    def pre_authenticate(self, request: HttpRequest, **credentials: Any) -> None:
        """Counts attempts, by address and by account; too many are answered at once, unchecked."""
        try:
            super().pre_authenticate(request, **credentials)
        except ValidationError:
            raise ImmediateHttpResponse(too_many(request)) from None

    def pre_login(self, request: HttpRequest, user: AbstractBaseUser, **kwargs: Any) -> HttpResponse | None:
        """Sends to the provider whose groups gave roles: a password would keep them for ever."""
        response: HttpResponse | None = super().pre_login(request, user, **kwargs)
        found = configured()
        through_it = "sociallogin" in (kwargs.get("signal_kwargs") or {})
        if response is None and found is not None and not through_it and _has_claims(user):
            clear_login(request)
            context = {
                "title": _("Please sign in through %(name)s") % {"name": found.name},
                "text": _("Your roles here come from your groups there, so the desk has to ask for them."),
                "offer_provider": True,
            }
            response = render(request, "accounts/sign_in_refused.html", context, status=403)
        return response

    def get_reauthentication_methods(self, user: Any) -> list[dict[str, Any]]:
        """Before something delicate: password or second factor, or once more through the provider."""
        methods: list[dict[str, Any]] = super().get_reauthentication_methods(user)
        found = configured()
        if found is not None and SocialAccount.objects.filter(user=user, provider=found.key).exists():
            text = _("Sign in through %(name)s again") % {"name": found.name}
            methods.append({"id": "oidc", "description": text, "url": reverse("oidc-login")})
        return methods


def _has_claims(user: AbstractBaseUser) -> bool:
    if not isinstance(user, User):
        return False
    return bool(user.claimed_roles) or Membership.objects.filter(user=user).exclude(claimed_role="").exists()
