"""Pages and REST of the checklist of a cluster's readiness."""

from django.urls import path

from claims.rest import readiness as rest
from claims.views import readiness as views

urlpatterns = [
    path("clusters/<slug:name>/readiness/", views.readiness, name="cluster-readiness"),
    path("clusters/<slug:name>/readiness/<slug:point>/", views.readiness_sign, name="cluster-readiness-sign"),
]

api_urlpatterns = [
    path("clusters/<slug:name>/readiness/", rest.ReadinessView.as_view(), name="api-cluster-readiness"),
]
