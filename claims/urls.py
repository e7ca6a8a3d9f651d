"""Pages of requests, history and cost."""

from django.urls import path

from claims import urls_bookings, urls_money, urls_pools, urls_quotas
from claims.views import approvals, catalogue, cost, flavors, history, requests, saved

urlpatterns = [
    *urls_quotas.urlpatterns,
    *urls_bookings.urlpatterns,
    *urls_money.urlpatterns,
    *urls_pools.urlpatterns,
    path("catalogue/", catalogue.catalogue, name="catalogue"),
    path("catalogue/<slug:slug>/", catalogue.flavor_detail, name="flavor-detail"),
    path("flavors/", flavors.flavor_list, name="flavor-list"),
    path("flavors/new/", flavors.flavor_create, name="flavor-create"),
    path("flavors/derive/", flavors.flavor_derive, name="flavor-derive"),
    path("flavors/<slug:slug>/edit/", flavors.flavor_edit, name="flavor-edit"),
    path("flavors/<slug:slug>/archive/", flavors.flavor_archive, name="flavor-archive"),
    path("flavors/<slug:slug>/move/", flavors.flavor_move, name="flavor-move"),
    path("flavors/<slug:slug>/places/new/", flavors.placement_create, name="placement-create"),
    path("flavors/<slug:slug>/places/<int:pk>/", flavors.placement_edit, name="placement-edit"),
    path("flavors/<slug:slug>/places/<int:pk>/remove/", flavors.placement_remove, name="placement-remove"),
    path("flavors/<slug:slug>/places/<int:pk>/switch/", flavors.placement_switch, name="placement-switch"),
    path("requests/", requests.request_list, name="request-list"),
    path("requests/new/", requests.request_create, name="request-create"),
    path("requests/saved/", saved.saved_list, name="saved-list"),
    path("requests/saved/new/", saved.saved_create, name="saved-create"),
    path("requests/saved/<uuid:key>/", saved.saved_edit, name="saved-edit"),
    path("requests/saved/<uuid:key>/delete/", saved.saved_delete, name="saved-delete"),
    path("requests/preview/", requests.request_preview, name="request-preview"),
    path("requests/<uuid:key>/", requests.request_detail, name="request-detail"),
    path("requests/<uuid:key>/approve/", approvals.request_approve, name="request-approve"),
    path("requests/<uuid:key>/reject/", approvals.request_reject, name="request-reject"),
    path("approvals/", approvals.approval_list, name="approval-list"),
    path("requests/<uuid:key>/hold/", requests.request_hold, name="request-hold"),
    path("requests/<uuid:key>/release/", requests.request_release, name="request-release"),
    path("requests/<uuid:key>/cancel/", requests.request_cancel, name="request-cancel"),
    path("requests/<uuid:key>/retry/", requests.request_retry, name="request-retry"),
    path("history/", history.history, name="history"),
    path("history.csv", history.history_export, name="history-export"),
    path("cost/", cost.cost, name="cost"),
    path("cost.csv", cost.cost_export, name="cost-export"),
]
