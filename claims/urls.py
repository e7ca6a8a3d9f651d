"""Pages of requests, history and cost."""

from django.urls import path

from claims.routes import bookings as urls_bookings
from claims.routes import changes as urls_changes
from claims.routes import ledger as urls_ledger
from claims.routes import money as urls_money
from claims.routes import news as urls_news
from claims.routes import poolmoves as urls_poolmoves
from claims.routes import pools as urls_pools
from claims.routes import quotas as urls_quotas
from claims.routes import readiness as urls_readiness
from claims.views import approvals, catalogue, cost, flavors, history, launches, manifests, requests, saved

urlpatterns = [
    *urls_news.urlpatterns,
    *urls_quotas.urlpatterns,
    *urls_bookings.urlpatterns,
    *urls_changes.urlpatterns,
    *urls_ledger.urlpatterns,
    *urls_money.urlpatterns,
    *urls_pools.urlpatterns,
    *urls_poolmoves.urlpatterns,
    *urls_readiness.urlpatterns,
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
    path("launch-templates/", launches.template_list, name="launch-template-list"),
    path("launch-templates/new/", launches.template_create, name="launch-template-create"),
    path("launch-templates/<slug:slug>/", launches.template_edit, name="launch-template-edit"),
    path("launch-templates/<slug:slug>/archive/", launches.template_archive, name="launch-template-archive"),
    path("requests/<uuid:key>/manifests/", manifests.request_manifests, name="request-manifests"),
    path("requests/<uuid:key>/manifests/<str:slug>.yaml", manifests.request_file, name="request-file"),
    path("requests/<uuid:key>/launches/", launches.request_launches, name="request-launches"),
    path("requests/<uuid:key>/launch/<slug:slug>/", launches.request_launch, name="request-launch"),
    path(
        "requests/<uuid:key>/launches/<uuid:launch>/stop/",
        launches.request_launch_stop,
        name="request-launch-stop",
    ),
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
