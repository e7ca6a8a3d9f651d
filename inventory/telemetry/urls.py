"""Pages about where metrics come from."""

from django.urls import path

from inventory.views import monitoring as views

urlpatterns = [
    path("clusters/<slug:name>/monitoring/", views.monitoring_detail, name="monitoring-detail"),
    path("clusters/<slug:name>/monitoring/edit/", views.monitoring_edit, name="monitoring-edit"),
    path("clusters/<slug:name>/monitoring/remove/", views.monitoring_remove, name="monitoring-remove"),
    path(
        "clusters/<slug:name>/monitoring/add-query/",
        views.monitoring_query_create,
        name="monitoring-query-create",
    ),
    path(
        "clusters/<slug:name>/monitoring/queries/<int:pk>/",
        views.monitoring_query_edit,
        name="monitoring-query-edit",
    ),
    path(
        "clusters/<slug:name>/monitoring/queries/<int:pk>/remove/",
        views.monitoring_query_remove,
        name="monitoring-query-remove",
    ),
]
