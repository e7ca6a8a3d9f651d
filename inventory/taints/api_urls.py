"""REST of taints, maintenance and drains, under /api/v1/."""

from django.urls import path

from inventory.taints import api, api_drains, api_maintenance
from portal import paths  # noqa: F401 - the converters of Kubernetes names

urlpatterns = [
    path("taints/", api.TaintListView.as_view(), name="api-taint-list"),
    path("device-taint-effects/<slug:cluster>/", api.TaintEffectView.as_view(), name="api-taint-effect"),
    path(
        "device-taint-rules/<slug:cluster>/", api.TaintRuleCreateView.as_view(), name="api-taint-rule-create"
    ),
    path("device-taint-rules/<slug:cluster>/<k8s:name>/", api.TaintRuleView.as_view(), name="api-taint-rule"),
    path("maintenance/", api_maintenance.MaintenanceListView.as_view(), name="api-maintenance-list"),
    path(
        "maintenance/<uuid:key>/",
        api_maintenance.MaintenanceDetailView.as_view(),
        name="api-maintenance-detail",
    ),
    path(
        "maintenance/<uuid:key>/cancel/",
        api_maintenance.MaintenanceCancelView.as_view(),
        name="api-maintenance-cancel",
    ),
    path("drains/", api_drains.DrainListView.as_view(), name="api-drain-list"),
    path("drains/<uuid:key>/", api_drains.DrainDetailView.as_view(), name="api-drain-detail"),
    path("drains/<uuid:key>/ask/", api_drains.DrainAskView.as_view(), name="api-drain-ask"),
    path("drains/<uuid:key>/close/", api_drains.DrainCloseView.as_view(), name="api-drain-close"),
    path("drains/<uuid:key>/evict/", api_drains.DrainEvictView.as_view(), name="api-drain-evict"),
    path("drains/<uuid:key>/hand-over/", api_drains.DrainHandOverView.as_view(), name="api-drain-hand-over"),
    path("drains/<uuid:key>/finish/", api_drains.DrainFinishView.as_view(), name="api-drain-finish"),
    path("drain-holders/<uuid:key>/answer/", api_drains.DrainAnswerView.as_view(), name="api-drain-answer"),
]
