"""REST of the desk, under /api/v1/."""

from django.urls import path

from claims import api

urlpatterns = [
    path("requests/", api.RequestListView.as_view(), name="api-request-list"),
    path("requests/<uuid:key>/", api.RequestDetailView.as_view(), name="api-request-detail"),
    path("requests/<uuid:key>/hold/", api.RequestHoldView.as_view(), name="api-request-hold"),
    path("requests/<uuid:key>/release/", api.RequestReleaseView.as_view(), name="api-request-release"),
    path("requests/<uuid:key>/cancel/", api.RequestCancelView.as_view(), name="api-request-cancel"),
    path("requests/<uuid:key>/retry/", api.RequestRetryView.as_view(), name="api-request-retry"),
    path("allocations/", api.AllocationListView.as_view(), name="api-allocation-list"),
    path("charges/", api.ChargesView.as_view(), name="api-charges"),
]
