"""The provider as django-allauth knows providers: where it is, what it is asked, what its answer says."""

import secrets
from collections.abc import Mapping
from typing import Any

import requests
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialLogin
from allauth.socialaccount.providers.base.constants import AuthProcess
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from portal import texts
from portal.accounts.invitations import LONGEST_ADDRESS
from portal.accounts.oidc import tokens
from portal.identity import IdentityProvider

# What is kept of a person's claims.
KEPT = ("sub", "name", "email", "email_verified", "preferred_username", "amr")
WELL_KNOWN = "/.well-known/openid-configuration"


# What else is read of them, and has to be text.
TEXTS = ("name", "given_name", "family_name", "nickname", "preferred_username", "email")


def configured() -> IdentityProvider | None:
    """The provider of this desk, if it has one."""
    found = settings.OIDC
    return found if isinstance(found, IdentityProvider) else None


class ProviderAdapter(OpenIDConnectOAuth2Adapter):  # type: ignore[misc] # allauth has no types
    """Speaks with the provider."""

    # Set by the callback view, from what this browser was sent away with.
    nonce = ""

    @property
    def openid_config(self) -> Mapping[str, Any]:
        """The discovery document. Raises OAuth2Error when it cannot be had or is of another issuer."""
        if not hasattr(self, "_openid_config"):
            issuer = self.get_provider().app.settings["issuer"]
            found = self._json("GET", issuer.rstrip("/") + WELL_KNOWN)
            if found.get("issuer") != issuer:
                raise OAuth2Error(f"the discovery document is of {found.get('issuer')!r}")
            missing = {"authorization_endpoint", "token_endpoint", "jwks_uri"} - set(found)
            if missing:
                raise OAuth2Error(f"the discovery document lacks {', '.join(sorted(missing))}")
            self._openid_config = found
        return self._openid_config

    def complete_login(self, request: HttpRequest, app: Any, token: Any, **kwargs: Any) -> SocialLogin:
        """Who the provider says has signed in. Raises InvalidIdToken, or another OAuth2Error."""
        claims = tokens.verify(
            kwargs["response"].get("id_token"),
            key_set=self._json("GET", self.openid_config["jwks_uri"]),
            issuer=self.openid_config["issuer"],
            client_id=app.client_id,
            nonce=self.nonce,
        )
        more: Mapping[str, Any] = {}
        if address := self.openid_config.get("userinfo_endpoint"):
            more = self._json("GET", address, headers={"Authorization": f"Bearer {token.token}"})
            if more.get("sub") != claims["sub"]:
                raise tokens.InvalidIdToken("the provider tells of somebody else than the token does")
        return self.get_provider().sociallogin_from_response(request, usable({**claims, **more}))

    def get_callback_url(self, request: HttpRequest, app: Any) -> str:  # noqa: ARG002 - allauth's signature
        return request.build_absolute_uri(reverse("oidc-callback"))

    def _json(self, method: str, address: str, **options: Any) -> dict[str, Any]:
        try:
            with get_adapter().get_requests_session() as session:
                answer = session.request(method, address, **options)
                answer.raise_for_status()
                found = answer.json()
        except requests.RequestException as error:
            raise OAuth2Error(f"{address}: {type(error).__name__}") from error
        if not isinstance(found, dict):
            raise OAuth2Error(f"{address} answers with something else than an object")
        return found


class DeskProvider(OpenIDConnectProvider):  # type: ignore[misc] # allauth has no types
    """OpenID Connect with a nonce, and with nothing in the request that changes what is asked."""

    oauth2_adapter_class = ProviderAdapter
    pkce_enabled_default = True

    def get_login_url(self, request: HttpRequest, **kwargs: Any) -> str:  # noqa: ARG002 - allauth's signature
        return reverse("oidc-login")

    def get_callback_url(self) -> str:
        return reverse("oidc-callback")

    def get_redirect_from_request_kwargs(self, request: HttpRequest) -> dict[str, Any]:
        wanted: dict[str, Any] = super().get_redirect_from_request_kwargs(request)
        connecting = request.user.is_authenticated and wanted["process"] == AuthProcess.CONNECT
        wanted["process"] = AuthProcess.CONNECT if connecting else AuthProcess.LOGIN
        wanted["scope"], wanted["auth_params"] = self.get_scope(), {}
        return wanted

    def redirect(
        self, request: HttpRequest, process: str, next_url: str | None = None, data: Any = None, **kwargs: Any
    ) -> HttpResponse:
        nonce = secrets.token_urlsafe(24)
        auth_params = {**(kwargs.pop("auth_params", None) or {}), "nonce": nonce}
        answer: HttpResponse = super().redirect(
            request, process, next_url, data, auth_params=auth_params, nonce=nonce, **kwargs
        )
        return answer

    def extract_uid(self, data: Mapping[str, Any]) -> str:
        return str(data["sub"])

    def extract_extra_data(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """What is kept: little, and the groups."""
        provider = configured()
        groups = [group for group in provider.groups_in(data) if _is_text(group)] if provider else []
        return {name: data[name] for name in KEPT if name in data} | {"groups": groups}


def usable(claims: Mapping[str, Any]) -> dict[str, Any]:
    """The claims without those that are of another form than theirs: what a provider, or who may set their
    own profile there, sends must neither stop a sign-in nor reach a page."""
    found = {name: value for name, value in claims.items() if name not in TEXTS or _is_text(value)}
    if "email" in found:
        try:
            validate_email(found["email"])
        except ValidationError:
            del found["email"]
    if len(found.get("email", "")) > LONGEST_ADDRESS:
        del found["email"]
    if str(found.get("email_verified", "")).casefold() not in {"true", "false"}:
        found.pop("email_verified", None)
    if "amr" in found:
        methods = found["amr"] if isinstance(found["amr"], list) else []
        found["amr"] = [method for method in methods if _is_text(method)]
    return found


def _is_text(value: object) -> bool:
    """Text that a database takes and that shows what it is."""
    try:
        return isinstance(value, str) and texts.plain(value) is not None
    except texts.UncleanText:
        return False


provider_classes = [DeskProvider]
