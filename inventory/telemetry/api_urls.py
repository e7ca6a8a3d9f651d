"""REST of monitoring, under /api/v1/."""

from django.urls import path

from inventory.telemetry import api

urlpatterns = [
    path("clusters/<slug:name>/monitoring/", api.MonitoringView.as_view(), name="api-monitoring"),
    path("clusters/<slug:name>/monitoring/try/", api.MonitoringTryView.as_view(), name="api-monitoring-try"),
    path(
        "clusters/<slug:name>/monitoring/queries/",
        api.MonitoringQueriesView.as_view(),
        name="api-monitoring-query-list",
    ),
    path(
        "clusters/<slug:name>/monitoring/queries/<int:pk>/",
        api.MonitoringQueryView.as_view(),
        name="api-monitoring-query",
    ),
    path("clusters/<slug:name>/driver-metrics/", api.DriverMetricsView.as_view(), name="api-driver-metrics"),
]
