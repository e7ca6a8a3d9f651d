"""When the desk cannot ask once more whether it is somebody: what they can do about it."""

from allauth.account.adapter import get_adapter
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from portal import access
from portal.accounts.oidc.provider import configured


@never_cache
@require_safe
def reauthentication_impossible(request: HttpRequest) -> HttpResponse:
    """For who has no password, no second factor and no tie with the identity provider: before something
    delicate (see `AccountAdapter.get_reauthentication_methods`)."""
    user, here = access.person(request), reverse("reauthentication-impossible")
    ways = [way for way in get_adapter().get_reauthentication_methods(user) if way["url"] != here]
    if ways:
        return redirect(ways[0]["url"])
    context = {"provider": configured()}
    return render(request, "account/reauthentication_impossible.html", context)
