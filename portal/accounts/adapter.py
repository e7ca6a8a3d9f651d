"""How django-allauth behaves here."""

import time
from typing import Any

from allauth.account import app_settings
from allauth.account.adapter import DefaultAccountAdapter
from allauth.account.internal.flows.login import get_authentication_records
from allauth.account.internal.flows.reauthentication import get_reauthentication_flows
from allauth.account.internal.stagekit import clear_login
from allauth.core import context
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.models import SocialAccount
from django.contrib.auth.models import AbstractBaseUser
from django.core.exceptions import ValidationError
from django.db.models import Q
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

    def _get_login_attempts_cache_key(
        self,
        request: HttpRequest,  # noqa: ARG002 - allauth's signature
        **credentials: Any,
    ) -> str:
        """Attempts are counted by the account that is meant: not by how it was named, nor by the Host header
        that the attempt came with, of which there may be as many as one likes."""
        login = str(credentials.get("email") or credentials.get("username") or "").strip().casefold()
        meant = User.objects.filter(Q(username__iexact=login) | Q(email__iexact=login)).order_by("pk")
        found = meant.values_list("pk", flat=True).first()
        return f"person:{found}" if found is not None else f"nobody:{login}"

    def pre_login(self, request: HttpRequest, user: AbstractBaseUser, **kwargs: Any) -> HttpResponse | None:
        """Sends to the provider whose groups gave roles: a password would keep them for ever."""
        response: HttpResponse | None = super().pre_login(request, user, **kwargs)
        found = configured()
        through_it = "sociallogin" in (kwargs.get("signal_kwargs") or {})
        if response is None and found is not None and not through_it and _has_claims(user):
            clear_login(request)
            said = {
                "title": _("Please sign in through %(name)s") % {"name": found.name},
                "text": _("Your roles here come from your groups there, so the desk has to ask for them."),
                "offer_provider": True,
            }
            response = render(request, "accounts/sign_in_refused.html", said, status=403)
        return response

    def get_reauthentication_methods(self, user: Any) -> list[dict[str, Any]]:
        """Before something delicate: password or second factor; who has neither, through the provider."""
        methods: list[dict[str, Any]] = super().get_reauthentication_methods(user)
        found = configured()
        if not methods and found is not None and _is_connected(user, found.key):
            text = _("Sign in through %(name)s again") % {"name": found.name}
            methods.append({"id": "oidc", "description": text, "url": reverse("oidc-login")})
        if not methods:
            # Not a way, but a page that says so and what to do: better than being refused without a word.
            text, url = _("What you can do"), reverse("reauthentication-impossible")
            methods.append({"id": "impossible", "description": text, "url": url})
        return methods

    def is_reauthentication_required(self, *, app: str, **kwargs: Any) -> bool:
        """Who can only come through the provider has just done so, or does it again."""
        required: bool = super().is_reauthentication_required(app=app, **kwargs)
        request: HttpRequest | None = context.request
        if not required or request is None or get_reauthentication_flows(request.user):
            return required
        came = [
            record["at"]
            for record in get_authentication_records(request, request.user)
            if record["method"] == "socialaccount"
        ]
        return not came or time.time() - came[-1] > app_settings.REAUTHENTICATION_TIMEOUT


def _is_connected(user: Any, provider: str) -> bool:
    return bool(SocialAccount.objects.filter(user=user, provider=provider).exists())


def _has_claims(user: AbstractBaseUser) -> bool:
    if not isinstance(user, User):
        return False
    return bool(user.claimed_roles) or Membership.objects.filter(user=user).exclude(claimed_role="").exists()
