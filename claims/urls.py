"""Pages of requests, history and cost."""

from django.urls import path

from claims.views import cost, history, requests

urlpatterns = [
    path("requests/", requests.request_list, name="request-list"),
    path("requests/new/", requests.request_create, name="request-create"),
    path("requests/preview/", requests.request_preview, name="request-preview"),
    path("requests/<uuid:key>/", requests.request_detail, name="request-detail"),
    path("requests/<uuid:key>/hold/", requests.request_hold, name="request-hold"),
    path("requests/<uuid:key>/release/", requests.request_release, name="request-release"),
    path("requests/<uuid:key>/cancel/", requests.request_cancel, name="request-cancel"),
    path("requests/<uuid:key>/retry/", requests.request_retry, name="request-retry"),
    path("history/", history.history, name="history"),
    path("history.csv", history.history_export, name="history-export"),
    path("cost/", cost.cost, name="cost"),
    path("cost.csv", cost.cost_export, name="cost-export"),
]
