"""REST of what a request is before it is sent, and of its changes."""

from django.urls import path

from claims.rest import changes as api_changes
from claims.rest import drafts as api_drafts

urlpatterns = [
    path("request-drafts/", api_drafts.DraftListView.as_view(), name="api-draft-list"),
    path("request-drafts/<uuid:key>/", api_drafts.DraftDetailView.as_view(), name="api-draft-detail"),
    path(
        "requests/<uuid:key>/changes/", api_changes.RequestChangesView.as_view(), name="api-request-changes"
    ),
    path("requests/<uuid:key>/offer/", api_changes.RequestOfferView.as_view(), name="api-request-offer"),
    path("changes/", api_changes.ChangeListView.as_view(), name="api-change-list"),
    path("changes/<uuid:key>/approve/", api_changes.ChangeApproveView.as_view(), name="api-change-approve"),
    path("changes/<uuid:key>/reject/", api_changes.ChangeRejectView.as_view(), name="api-change-reject"),
    path("changes/<uuid:key>/accept/", api_changes.ChangeAcceptView.as_view(), name="api-change-accept"),
    path(
        "changes/<uuid:key>/withdraw/", api_changes.ChangeWithdrawView.as_view(), name="api-change-withdraw"
    ),
]
