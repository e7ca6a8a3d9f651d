"""Away to the provider, back from it, and cutting the tie."""

from typing import Any

from allauth.socialaccount.helpers import render_authentication_error
from allauth.socialaccount.internal.flows.connect import disconnect, validate_disconnect
from allauth.socialaccount.models import SocialAccount
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from portal import access, htmx
from portal.accounts.oidc.provider import DeskProvider, ProviderAdapter, configured


def _adapter(request: HttpRequest) -> ProviderAdapter:
    found = configured()
    if found is None:
        raise Http404
    return ProviderAdapter(request, found.key)


@never_cache
@login_not_required
@require_safe
def oidc_login(request: HttpRequest) -> HttpResponse:
    """To the provider. By a link: a form would not be let away from our own origin (form-action)."""
    provider: DeskProvider = _adapter(request).get_provider()
    try:
        response: HttpResponse = provider.redirect_from_request(request)
    except OAuth2Error as error:
        response = render_authentication_error(request, provider, exception=error)
    return response


class _Callback(OAuth2CallbackView):  # type: ignore[misc] # allauth has no types
    def _get_state(self, request: HttpRequest, provider: Any) -> tuple[Any, Any]:
        state, response = super()._get_state(request, provider)
        if state is not None:
            self.adapter.nonce = state.get("nonce", "")
        return state, response


@never_cache
@login_not_required
@require_safe
def oidc_callback(request: HttpRequest) -> HttpResponse:
    """Back from the provider."""
    response: HttpResponse = _Callback.adapter_view(_adapter(request))(request)
    return response


@require_http_methods(["GET", "HEAD", "POST"])
def oidc_disconnect(request: HttpRequest, pk: int) -> HttpResponse:
    """Asks, then unties one of the own connections; what its groups gave goes with it."""
    user = access.person(request)
    account = get_object_or_404(SocialAccount, user=user, pk=pk)
    found = configured()
    name = found.name if found is not None and found.key == account.provider else account.provider
    try:
        validate_disconnect(request, account)
    except ValidationError:
        messages.error(request, _("This is your only way to sign in. Set a password first."))
        return htmx.redirect(request, "profile")
    if request.method == "POST":
        disconnect(request, account)
        return htmx.redirect(request, "profile")
    context = {
        "title": _("Disconnect %(name)s") % {"name": name},
        "text": _("You then sign in with your password only. Roles that your groups gave you end."),
        "submit_label": _("Disconnect"),
        "cancel_url": reverse("profile"),
    }
    return htmx.render(request, "components/confirm.html", context)
