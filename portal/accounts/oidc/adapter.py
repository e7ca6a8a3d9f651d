"""Who may come in through the provider, and as whom."""

import logging
from typing import Any

from allauth.account.internal.userkit import filter_users_by_email
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialApp, SocialLogin
from allauth.socialaccount.providers.base.constants import AuthError, AuthProcess
from django.http import HttpRequest
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _

from portal.accounts.invitations import invited, is_invited
from portal.accounts.oidc.provider import DeskProvider, configured

log = logging.getLogger(__name__)

NAME_LENGTH = 150


class SocialAccountAdapter(DefaultSocialAccountAdapter):  # type: ignore[misc] # allauth has no types
    def list_apps(
        self,
        request: HttpRequest | None,  # noqa: ARG002 - allauth's signature
        provider: str | None = None,
        client_id: str | None = None,
    ) -> list[SocialApp]:
        """The one provider that the environment names; a row in the database adds none."""
        found = configured()
        if found is None or provider not in {None, DeskProvider.id, found.key}:
            return []
        if client_id not in {None, found.client_id}:
            return []
        app = SocialApp(
            provider=DeskProvider.id,
            provider_id=found.key,
            name=found.name,
            client_id=found.client_id,
            secret=found.client_secret,
        )
        app.settings = {
            "issuer": found.issuer,
            "server_url": found.issuer,
            "scope": list(found.scopes),
            "email_authentication": found.link_by_email,
        }
        return [app]

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Turns away who is in none of the groups that may sign in, and who would become a second person."""
        found = configured()
        groups = sociallogin.account.extra_data.get("groups", [])
        if found is None or not found.admits(groups):
            log.warning("sign-in refused: %s is in no group that may", sociallogin.account.uid)
            raise _refusal(
                request,
                _("You are not in a group that may use this desk"),
                _("Ask your organisation's administrators for the group, then sign in again."),
            )
        connecting = sociallogin.state.get("process") == AuthProcess.CONNECT
        if connecting:
            return
        taken = [
            address.email
            for address in sociallogin.email_addresses
            if filter_users_by_email(address.email, for_login=False)
        ]
        if not sociallogin.is_existing and taken:
            raise _refusal(
                request,
                _("An account with your e-mail address is here already"),
                _(
                    "Sign in to it with its password, then connect %(name)s on your profile page. "
                    "Or ask an administrator of the desk."
                )
                % {"name": found.name},
                status=409,
            )

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        found = configured()
        now = timezone.now()
        if (found is not None and found.new_people) or invited(request, now=now) is not None:
            return True
        if is_invited(verified_addresses(sociallogin), now=now):
            return True
        raise _refusal(
            request,
            _("You have no account here yet"),
            _("This desk takes in people by invitation. Ask the lead of your project for a link."),
        )

    def populate_user(self, request: HttpRequest, sociallogin: SocialLogin, data: dict[str, Any]) -> Any:
        user = super().populate_user(request, sociallogin, data)
        user.first_name, user.last_name = user.first_name[:NAME_LENGTH], user.last_name[:NAME_LENGTH]
        return user

    def get_connect_redirect_url(self, request: HttpRequest, socialaccount: Any) -> str:  # noqa: ARG002 - allauth's
        return reverse("profile")

    def on_authentication_error(
        self,
        request: HttpRequest,
        provider: Any,
        error: str | None = None,
        exception: Exception | None = None,
        extra_context: dict[str, Any] | None = None,  # noqa: ARG002 - allauth's signature
    ) -> None:
        """Says so, with the way out; the cause is for the log (it never holds a token)."""
        if error == AuthError.CANCELLED:
            raise _refusal(
                request,
                _("The sign-in was cancelled"),
                _("Nothing has happened. You can try again."),
            )
        log.warning("sign-in through %s failed: %s", provider, exception or error)
        raise _refusal(
            request,
            _("The sign-in did not work"),
            _(
                "The answer of %(name)s could not be used: it may be too old, not meant for this browser, or "
                "the service is not reachable. Try again; if it stays, tell an administrator of the desk."
            )
            % {"name": provider},
            status=401,
        )


def verified_addresses(sociallogin: SocialLogin) -> list[str]:
    """The person's addresses that the provider has confirmed."""
    return [address.email for address in sociallogin.email_addresses if address.verified]


def _refusal(request: HttpRequest, title: str, text: str, *, status: int = 403) -> ImmediateHttpResponse:
    context = {"title": title, "text": text}
    return ImmediateHttpResponse(render(request, "accounts/sign_in_refused.html", context, status=status))
