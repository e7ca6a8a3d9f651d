"""All URLs of the portal. Each room brings its own list."""

from importlib.util import find_spec

from django.contrib.auth.decorators import login_not_required
from django.urls import URLPattern, URLResolver, include, path
from django.views.i18n import set_language

urlpatterns: list[URLPattern | URLResolver] = [
    # Only for the session or by cookie: nothing that a stranger could change for others.
    path("language/", login_not_required(set_language), name="set_language"),
    path("", include("portal.pages.urls")),
    path("", include("portal.accounts.urls")),
    path("accounts/", include("allauth.account.urls")),
]
for room in ("inventory", "claims"):
    if find_spec(f"{room}.urls"):
        urlpatterns.append(path("", include(f"{room}.urls")))
    if find_spec(f"{room}.api_urls"):
        urlpatterns.append(path("api/v1/", include(f"{room}.api_urls")))
