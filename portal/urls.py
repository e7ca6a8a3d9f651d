"""All URLs of the portal. Each room brings its own list."""

from django.urls import URLPattern, URLResolver, include, path

from portal.pages.metrics.views import MetricsView

urlpatterns: list[URLPattern | URLResolver] = [
    path("", include("portal.pages.urls")),
    path("", include("portal.accounts.urls")),
    path("", include("inventory.urls")),
    path("", include("claims.urls")),
    path("api/v1/", include("inventory.api_urls")),
    path("api/v1/", include("claims.api_urls")),
    path("api/v1/", include("portal.accounts.api_urls")),
    path("api/v1/metrics/", MetricsView.as_view(), name="api-metrics"),
]

handler400 = "portal.limits.bad_request"
handler404 = "portal.api.handle_not_found"
handler429 = "portal.accounts.limits.too_many"
handler500 = "portal.api.handle_server_error"
