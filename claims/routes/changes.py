"""Pages of what a request is before it is sent, and of its changes."""

from django.urls import path

from claims.views import changes, drafts

urlpatterns = [
    path("requests/drafts/", drafts.draft_list, name="draft-list"),
    path("requests/drafts/keep/", drafts.draft_keep, name="draft-keep"),
    path("requests/drafts/<uuid:key>/delete/", drafts.draft_delete, name="draft-delete"),
    path("requests/<uuid:key>/change/", changes.request_change, name="request-change"),
    path("requests/<uuid:key>/offer/", changes.request_offer, name="request-offer"),
    path("changes/<uuid:key>/approve/", changes.change_approve, name="change-approve"),
    path("changes/<uuid:key>/reject/", changes.change_reject, name="change-reject"),
    path("changes/<uuid:key>/accept/", changes.change_accept, name="change-accept"),
    path("changes/<uuid:key>/withdraw/", changes.change_withdraw, name="change-withdraw"),
]
