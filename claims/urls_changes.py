"""Pages of changes of requests."""

from django.urls import path

from claims.views import changes

urlpatterns = [
    path("requests/<uuid:key>/change/", changes.request_change, name="request-change"),
    path("requests/<uuid:key>/offer/", changes.request_offer, name="request-offer"),
    path("changes/<uuid:key>/approve/", changes.change_approve, name="change-approve"),
    path("changes/<uuid:key>/reject/", changes.change_reject, name="change-reject"),
    path("changes/<uuid:key>/accept/", changes.change_accept, name="change-accept"),
    path("changes/<uuid:key>/withdraw/", changes.change_withdraw, name="change-withdraw"),
]
