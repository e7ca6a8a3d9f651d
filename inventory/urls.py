"""Pages of the inventory. The device page is composed of several rooms: see `portal.pages`."""

from django.urls import path

from inventory.views import cdi, class_admin, classes, cluster_admin, clusters, devices, nodes

urlpatterns = [
    path("devices/", devices.device_list, name="device-list"),
    path("devices/export.csv", devices.device_export, name="device-export"),
    path("nodes/", nodes.node_list, name="node-list"),
    path("nodes/<slug:cluster>/<str:name>/", nodes.node_detail, name="node-detail"),
    path("cdi/", cdi.cdi_list, name="cdi-list"),
    path("cdi/nodes/<slug:cluster>/<str:name>/", cdi.cdi_detail, name="cdi-detail"),
    path("cdi/token/", cdi.cdi_token, name="cdi-token"),
    path("cdi/tokens/<int:pk>/revoke/", cdi.cdi_token_revoke, name="cdi-token-revoke"),
    path("clusters/", clusters.cluster_list, name="cluster-list"),
    path("add-cluster/", cluster_admin.cluster_add, name="cluster-add"),
    path("clusters/<slug:name>/", clusters.cluster_detail, name="cluster-detail"),
    path("clusters/<slug:name>/check/", cluster_admin.cluster_check, name="cluster-check"),
    path("clusters/<slug:name>/switch/", cluster_admin.cluster_switch, name="cluster-switch"),
    path("clusters/<slug:name>/sync/", cluster_admin.cluster_sync, name="cluster-sync"),
    path("classes/", classes.class_list, name="class-list"),
    path("create-class/", class_admin.class_create, name="class-create"),
    path("check-expression/", class_admin.expression_check, name="expression-check"),
    path("classes/<slug:cluster>/<str:name>/", classes.class_detail, name="class-detail"),
    path("classes/<slug:cluster>/<str:name>/edit/", class_admin.class_edit, name="class-edit"),
    path("classes/<slug:cluster>/<str:name>/delete/", class_admin.class_delete, name="class-delete"),
]
