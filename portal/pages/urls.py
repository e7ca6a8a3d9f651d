"""Pages composed of several rooms, and the REST API's documentation."""

from django.urls import path

from portal import paths  # noqa: F401 - the converters of Kubernetes names
from portal.pages import (
    api_docs,
    charts,
    charts_timeline,
    device,
    home,
    inside,
    notifications,
    project_archive,
    projects,
    search,
)
from portal.pages.importing.api import ImportView
from portal.pages.importing.views import import_people

urlpatterns = [
    path("", home.home, name="home"),
    path("devices/<int:pk>/", device.device_detail, name="device-detail"),
    path("pods/<slug:cluster>/<k8s:namespace>/<k8s:name>/", inside.pod_detail, name="pod-detail"),
    path("claims/<slug:cluster>/<k8s:namespace>/<k8s:name>/", inside.claim_detail, name="claim-detail"),
    path(
        "workloads/<slug:cluster>/<k8s:namespace>/<k8s:kind>/<k8spath:name>/",
        inside.workload_detail,
        name="workload-detail",
    ),
    path("namespaces/<slug:cluster>/<k8s:name>/", inside.namespace_detail, name="namespace-detail"),
    path("notifications/", notifications.notification_list, name="notification-list"),
    path("search/", search.search, name="search"),
    path("charts/", charts.occupancy_chart, name="chart-occupancy"),
    path("charts/waiting/", charts.waiting_chart, name="chart-waiting"),
    path("charts/cost/", charts.cost_chart, name="chart-cost"),
    path("charts/timeline.json", charts_timeline.timeline_bars, name="chart-timeline"),
    path("projects/", projects.project_list, name="project-list"),
    # Not below projects/: any word there is a project's short name.
    path("create-project/", projects.project_create, name="project-create"),
    path("projects/<slug:slug>/", projects.project_detail, name="project-detail"),
    path("projects/<slug:slug>/edit/", projects.project_edit, name="project-edit"),
    path("projects/<slug:slug>/archive/", project_archive.project_archive, name="project-archive"),
    path("projects/<slug:slug>/restore/", project_archive.project_restore, name="project-restore"),
    path("projects/<slug:slug>/leave/", projects.project_leave, name="project-leave"),
    path("projects/<slug:slug>/members/", projects.member_add, name="member-add"),
    path("projects/<slug:slug>/members/<int:pk>/role/", projects.member_role, name="member-role"),
    path("projects/<slug:slug>/members/<int:pk>/remove/", projects.member_remove, name="member-remove"),
    path("projects/<slug:slug>/namespaces/", projects.binding_add, name="binding-add"),
    path("projects/<slug:slug>/namespaces/<int:pk>/end/", projects.binding_end, name="binding-end"),
    path("import/", import_people, name="import-people"),
    path("api/v1/import/", ImportView.as_view(), name="api-import"),
    path("api/schema/", api_docs.SchemaView.as_view(), name="api-schema"),
    path("api/docs/", api_docs.api_docs, name="api-docs"),
]
