"""REST of the desk, under /api/v1/."""

from django.urls import path

from claims.rest import allocations as api_allocations
from claims.rest import approvals as api_approvals
from claims.rest import catalogue as flavors
from claims.rest import files as api_files
from claims.rest import launches as api_launches
from claims.rest import requests as api
from claims.rest import saved as api_saved
from claims.rest import use as api_use
from claims.rest import watches as api_watches
from claims.routes import poolmoves as urls_poolmoves
from claims.routes import pools as urls_pools
from claims.routes import quotas as urls_quotas
from claims.routes import readiness as urls_readiness
from claims.routes import rest_bookings as api_urls_bookings
from claims.routes import rest_changes as api_urls_changes
from claims.routes import rest_money as api_urls_money

urlpatterns = [
    path("devices/<int:pk>/use/", api_use.DeviceUseView.as_view(), name="api-device-use"),
    path("watches/", api_watches.WatchListView.as_view(), name="api-watch-list"),
    path("watches/<int:pk>/", api_watches.WatchDetailView.as_view(), name="api-watch-detail"),
    *urls_quotas.api_urlpatterns,
    *api_urls_bookings.urlpatterns,
    *api_urls_changes.urlpatterns,
    *api_urls_money.urlpatterns,
    *urls_pools.api_urlpatterns,
    *urls_poolmoves.api_urlpatterns,
    *urls_readiness.api_urlpatterns,
    path("catalogue/", flavors.FlavorListView.as_view(), name="api-catalogue-list"),
    path("catalogue/<slug:slug>/", flavors.FlavorDetailView.as_view(), name="api-catalogue-detail"),
    path("catalogue/<slug:slug>/archive/", flavors.FlavorArchiveView.as_view(), name="api-catalogue-archive"),
    path("catalogue/<slug:slug>/restore/", flavors.FlavorRestoreView.as_view(), name="api-catalogue-restore"),
    path(
        "catalogue/<slug:slug>/placements/",
        flavors.PlacementListView.as_view(),
        name="api-catalogue-place-list",
    ),
    path(
        "catalogue/<slug:slug>/placements/<int:pk>/",
        flavors.PlacementDetailView.as_view(),
        name="api-catalogue-place-detail",
    ),
    path(
        "catalogue/<slug:slug>/placements/<int:pk>/switch/",
        flavors.PlacementSwitchView.as_view(),
        name="api-catalogue-place-switch",
    ),
    path("catalogue-proposals/", flavors.ProposalListView.as_view(), name="api-catalogue-proposals"),
    path("approvals/", api_approvals.ApprovalListView.as_view(), name="api-approval-list"),
    path(
        "requests/<uuid:key>/approve/", api_approvals.RequestApproveView.as_view(), name="api-request-approve"
    ),
    path("requests/<uuid:key>/reject/", api_approvals.RequestRejectView.as_view(), name="api-request-reject"),
    path("requests/<uuid:key>/files/", api_files.RequestFilesView.as_view(), name="api-request-files"),
    path(
        "requests/<uuid:key>/files/<str:slug>/", api_files.RequestFileView.as_view(), name="api-request-file"
    ),
    path("launch-templates/", api_launches.LaunchTemplateListView.as_view(), name="api-launch-template-list"),
    path(
        "launch-templates/<slug:slug>/",
        api_launches.LaunchTemplateDetailView.as_view(),
        name="api-launch-template-detail",
    ),
    path(
        "requests/<uuid:key>/launches/",
        api_launches.RequestLaunchesView.as_view(),
        name="api-request-launches",
    ),
    path(
        "requests/<uuid:key>/launches/<uuid:launch>/",
        api_launches.LaunchDetailView.as_view(),
        name="api-request-launch",
    ),
    path(
        "requests/<uuid:key>/launches/<uuid:launch>/stop/",
        api_launches.LaunchStopView.as_view(),
        name="api-request-launch-stop",
    ),
    path("saved-requests/", api_saved.SavedListView.as_view(), name="api-saved-list"),
    path("saved-requests/<uuid:key>/", api_saved.SavedDetailView.as_view(), name="api-saved-detail"),
    path("requests/", api.RequestListView.as_view(), name="api-request-list"),
    path("requests/<uuid:key>/", api.RequestDetailView.as_view(), name="api-request-detail"),
    path("requests/<uuid:key>/hold/", api.RequestHoldView.as_view(), name="api-request-hold"),
    path("requests/<uuid:key>/release/", api.RequestReleaseView.as_view(), name="api-request-release"),
    path("requests/<uuid:key>/cancel/", api.RequestCancelView.as_view(), name="api-request-cancel"),
    path("requests/<uuid:key>/retry/", api.RequestRetryView.as_view(), name="api-request-retry"),
    path("allocations/", api_allocations.AllocationListView.as_view(), name="api-allocation-list"),
]
