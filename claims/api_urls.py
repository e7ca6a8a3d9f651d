"""REST of the desk, under /api/v1/."""

from django.urls import path

from claims import api, api_approvals
from claims import api_catalogue as catalogue

urlpatterns = [
    path("flavors/", catalogue.FlavorListView.as_view(), name="api-flavor-list"),
    path("flavors/<slug:slug>/", catalogue.FlavorDetailView.as_view(), name="api-flavor-detail"),
    path("flavors/<slug:slug>/archive/", catalogue.FlavorArchiveView.as_view(), name="api-flavor-archive"),
    path("flavors/<slug:slug>/restore/", catalogue.FlavorRestoreView.as_view(), name="api-flavor-restore"),
    path(
        "flavors/<slug:slug>/placements/",
        catalogue.PlacementListView.as_view(),
        name="api-placement-list",
    ),
    path(
        "flavors/<slug:slug>/placements/<int:pk>/",
        catalogue.PlacementDetailView.as_view(),
        name="api-placement-detail",
    ),
    path(
        "flavors/<slug:slug>/placements/<int:pk>/switch/",
        catalogue.PlacementSwitchView.as_view(),
        name="api-placement-switch",
    ),
    path("flavor-proposals/", catalogue.ProposalListView.as_view(), name="api-proposal-list"),
    path("approvals/", api_approvals.ApprovalListView.as_view(), name="api-approval-list"),
    path(
        "requests/<uuid:key>/approve/", api_approvals.RequestApproveView.as_view(), name="api-request-approve"
    ),
    path("requests/<uuid:key>/reject/", api_approvals.RequestRejectView.as_view(), name="api-request-reject"),
    path("requests/", api.RequestListView.as_view(), name="api-request-list"),
    path("requests/<uuid:key>/", api.RequestDetailView.as_view(), name="api-request-detail"),
    path("requests/<uuid:key>/hold/", api.RequestHoldView.as_view(), name="api-request-hold"),
    path("requests/<uuid:key>/release/", api.RequestReleaseView.as_view(), name="api-request-release"),
    path("requests/<uuid:key>/cancel/", api.RequestCancelView.as_view(), name="api-request-cancel"),
    path("requests/<uuid:key>/retry/", api.RequestRetryView.as_view(), name="api-request-retry"),
    path("allocations/", api.AllocationListView.as_view(), name="api-allocation-list"),
    path("charges/", api.ChargesView.as_view(), name="api-charges"),
]
