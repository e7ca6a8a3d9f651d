"""Where CLAIMDESK_REQUIRE_MFA is set, administrators get nowhere without a second factor."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseBase, JsonResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django_htmx.http import HttpResponseClientRedirect

from portal.accounts.mfa import has_second_factor
from portal.accounts.models import User

# Set at a sign-in through a provider that says that it asked for more than a password itself.
ELSEWHERE = "second_factor_elsewhere"
# Authentication methods of RFC 8176 that are a second factor.
STRONG = {"mfa", "otp", "hwk", "swk"}
# The way to a second factor, and the way out.
OPEN = {
    "account_logout",
    "account_reauthenticate",
    "reauthentication-impossible",
    "account_set_password",
    "account_change_password",
    "oidc-login",
    "oidc-callback",
    "set_language",
    "profile",
}


class RequiredFactorMiddleware:
    """Comes after authentication. Tokens of the REST API are not asked: they were made by
    somebody who was."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_view(
        self,
        request: HttpRequest,
        view: Callable[..., HttpResponseBase],
        _args: Sequence[Any],
        _kwargs: Mapping[str, Any],
    ) -> HttpResponseBase | None:
        user = request.user
        if not settings.REQUIRE_MFA or not isinstance(user, User) or not user.is_administrator:
            return None
        name = request.resolver_match.url_name or "" if request.resolver_match else ""
        # Django REST framework opens its views to the middleware of sign-in, and asks itself.
        of_rest = hasattr(view, "cls")
        public = not of_rest and not getattr(view, "login_required", True)
        if name in OPEN or name.startswith("mfa_") or public:
            return None
        if request.session.get(ELSEWHERE) or has_second_factor(user):
            return None
        said = _("Administrators of this desk need a second factor. Set one up to go on.")
        if of_rest:
            document = {"type": "about:blank", "title": _("Not permitted"), "status": 403}
            document |= {"code": "second_factor_missing", "detail": said}
            return JsonResponse(document, status=403, content_type="application/problem+json")
        if request.headers.get("HX-Request") == "true":
            return HttpResponseClientRedirect(reverse("mfa_index"))
        return redirect("mfa_index")
