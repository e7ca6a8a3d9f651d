"""Pages of the inventory. The device page is composed of several rooms: see `portal.pages`."""

from django.urls import path

from inventory.views import classes, clusters, devices, nodes

urlpatterns = [
    path("devices/", devices.device_list, name="device-list"),
    path("devices/export.csv", devices.device_export, name="device-export"),
    path("nodes/", nodes.node_list, name="node-list"),
    path("nodes/<slug:cluster>/<str:name>/", nodes.node_detail, name="node-detail"),
    path("clusters/", clusters.cluster_list, name="cluster-list"),
    path("clusters/<slug:name>/", clusters.cluster_detail, name="cluster-detail"),
    path("classes/", classes.class_list, name="class-list"),
    path("classes/<slug:cluster>/<str:name>/", classes.class_detail, name="class-detail"),
]
