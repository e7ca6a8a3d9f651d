"""Pages of the inventory. The device page is composed of several rooms: see `portal.pages`."""

from django.urls import path

from inventory.views import (
    cdi,
    class_admin,
    classes,
    cluster_admin,
    clusters,
    contract,
    devices,
    findings,
    nodes,
    queues,
)
from portal import paths  # noqa: F401 - the converters of Kubernetes names

urlpatterns = [
    path("devices/", devices.device_list, name="device-list"),
    path("devices/export.csv", devices.device_export, name="device-export"),
    path("nodes/", nodes.node_list, name="node-list"),
    path("nodes/<slug:cluster>/<k8s:name>/", nodes.node_detail, name="node-detail"),
    path("cdi/", cdi.cdi_list, name="cdi-list"),
    path("cdi/nodes/<slug:cluster>/<k8s:name>/", cdi.cdi_detail, name="cdi-detail"),
    path("cdi/token/", cdi.cdi_token, name="cdi-token"),
    path("cdi/tokens/<int:pk>/revoke/", cdi.cdi_token_revoke, name="cdi-token-revoke"),
    path("queues/", queues.queue_list, name="queue-list"),
    path("clusters/", clusters.cluster_list, name="cluster-list"),
    path("add-cluster/", cluster_admin.cluster_add, name="cluster-add"),
    path("clusters/<slug:name>/", clusters.cluster_detail, name="cluster-detail"),
    path("clusters/<slug:name>/check/", cluster_admin.cluster_check, name="cluster-check"),
    path("clusters/<slug:name>/switch/", cluster_admin.cluster_switch, name="cluster-switch"),
    path("clusters/<slug:name>/sync/", cluster_admin.cluster_sync, name="cluster-sync"),
    path("classes/", classes.class_list, name="class-list"),
    path("create-class/", class_admin.class_create, name="class-create"),
    path("check-expression/", class_admin.expression_check, name="expression-check"),
    path("classes/<slug:cluster>/<k8s:name>/", classes.class_detail, name="class-detail"),
    path("classes/<slug:cluster>/<k8s:name>/edit/", class_admin.class_edit, name="class-edit"),
    path("classes/<slug:cluster>/<k8s:name>/delete/", class_admin.class_delete, name="class-delete"),
    path("findings/", findings.finding_list, name="finding-list"),
    path("findings/export.csv", findings.finding_export, name="finding-export"),
    path("findings/checks/", findings.finding_checks, name="finding-checks"),
    path("findings/<int:pk>/", findings.finding_detail, name="finding-detail"),
    path("findings/<int:pk>/handle/", findings.finding_handle, name="finding-handle"),
    path("diagnosis/", findings.task_list, name="finding-task-list"),
    path("diagnosis/<int:pk>/", findings.task_detail, name="finding-task"),
    path("contracts/", contract.contract_list, name="contract-list"),
    path("clusters/<slug:name>/contract/", contract.contract_detail, name="contract-detail"),
    path("clusters/<slug:name>/contract/edit/", contract.contract_edit, name="contract-edit"),
]
