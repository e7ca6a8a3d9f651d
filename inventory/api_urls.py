"""REST of the inventory, under /api/v1/."""

from django.urls import path

from inventory import api, api_class_history, api_clusters, api_findings, api_inside
from inventory import api_surroundings as surroundings
from inventory.cdi import api as cdi
from inventory.cdi import api_tokens as cdi_tokens
from inventory.podresources import api as pod_devices
from inventory.podresources import api_tokens as pod_device_tokens
from inventory.proposals import api as proposals
from inventory.proposals import api_classes
from inventory.taints.api_urls import urlpatterns as taints_and_maintenance
from inventory.telemetry.api_urls import urlpatterns as monitoring
from portal import paths  # noqa: F401 - the converters of Kubernetes names

urlpatterns = [
    path("devices/", api.DeviceListView.as_view(), name="api-device-list"),
    path("devices/<int:pk>/", api.DeviceDetailView.as_view(), name="api-device-detail"),
    path("counted-units/", surroundings.CountedUnitsListView.as_view(), name="api-counted-list"),
    path("namespaces/", surroundings.NamespaceListView.as_view(), name="api-namespace-list"),
    path(
        "namespaces/<slug:cluster>/<k8s:name>/",
        api_inside.NamespaceDetailView.as_view(),
        name="api-namespace-detail",
    ),
    path("pods/", api_inside.PodListView.as_view(), name="api-pod-list"),
    path(
        "pods/<slug:cluster>/<k8s:namespace>/<k8s:name>/",
        api_inside.PodDetailView.as_view(),
        name="api-pod-detail",
    ),
    path("claims/", api_inside.ClaimListView.as_view(), name="api-claim-list"),
    path(
        "claims/<slug:cluster>/<k8s:namespace>/<k8s:name>/",
        api_inside.ClaimDetailView.as_view(),
        name="api-claim-detail",
    ),
    path(
        "workloads/<slug:cluster>/<k8s:namespace>/<k8s:kind>/<k8spath:name>/",
        api_inside.WorkloadDetailView.as_view(),
        name="api-workload-detail",
    ),
    path("device-taint-rules/", surroundings.TaintRuleListView.as_view(), name="api-taint-rule-list"),
    *taints_and_maintenance,
    *monitoring,
    path("runtime-classes/", surroundings.RuntimeClassListView.as_view(), name="api-runtime-class-list"),
    path("quotas/", surroundings.QuotaListView.as_view(), name="api-quota-list"),
    path("jobs/", surroundings.JobListView.as_view(), name="api-job-list"),
    path("pod-groups/", surroundings.PodGroupListView.as_view(), name="api-pod-group-list"),
    path("resource-flavors/", surroundings.FlavorListView.as_view(), name="api-flavor-list"),
    path("cluster-queues/", surroundings.ClusterQueueListView.as_view(), name="api-cluster-queue-list"),
    path("local-queues/", surroundings.LocalQueueListView.as_view(), name="api-local-queue-list"),
    path("queued-workloads/", surroundings.QueuedWorkloadListView.as_view(), name="api-queued-workload-list"),
    path("clusters/", api.ClusterListView.as_view(), name="api-cluster-list"),
    path("clusters/<slug:name>/", api.ClusterDetailView.as_view(), name="api-cluster-detail"),
    path("clusters/<slug:name>/sync/", api_clusters.ClusterSyncView.as_view(), name="api-cluster-sync"),
    path("clusters/<slug:name>/check/", api_clusters.ClusterCheckView.as_view(), name="api-cluster-check"),
    path(
        "clusters/<slug:name>/followed/", api_clusters.ClusterSwitchView.as_view(), name="api-cluster-switch"
    ),
    path("sync-problems/", api_clusters.SyncProblemListView.as_view(), name="api-problem-list"),
    path("claim-templates/", surroundings.ClaimTemplateListView.as_view(), name="api-claim-template-list"),
    path(
        "scheduling-workloads/",
        surroundings.SchedulingWorkloadListView.as_view(),
        name="api-scheduling-workload-list",
    ),
    path("nodes/", api.NodeListView.as_view(), name="api-node-list"),
    path("nodes/<slug:cluster>/<k8s:name>/", api.NodeDetailView.as_view(), name="api-node-detail"),
    path("cdi/reports/", cdi.ReportView.as_view(), name="api-cdi-report"),
    path("cdi/tokens/", cdi_tokens.NodeTokenListView.as_view(), name="api-cdi-token-list"),
    path("cdi/tokens/<int:pk>/", cdi_tokens.NodeTokenView.as_view(), name="api-cdi-token"),
    path("cdi/nodes/", cdi.CdiNodeListView.as_view(), name="api-cdi-node-list"),
    path("cdi/nodes/<slug:cluster>/<k8s:name>/", cdi.CdiNodeDetailView.as_view(), name="api-cdi-node-detail"),
    path("pod-devices/reports/", pod_devices.PodDeviceReportView.as_view(), name="api-pod-device-report"),
    path("pod-devices/nodes/", pod_devices.PodDeviceNodeListView.as_view(), name="api-pod-device-node-list"),
    path(
        "pod-devices/tokens/",
        pod_device_tokens.PodDeviceTokenListView.as_view(),
        name="api-pod-device-token-list",
    ),
    path(
        "pod-devices/tokens/<int:pk>/",
        pod_device_tokens.PodDeviceTokenView.as_view(),
        name="api-pod-device-token",
    ),
    path("device-classes/", api_classes.ClassListView.as_view(), name="api-class-list"),
    path("device-classes/effect/", api_classes.ClassEffectView.as_view(), name="api-class-effect"),
    path("class-proposals/", proposals.ProposalListView.as_view(), name="api-class-proposal-list"),
    path(
        "class-proposals/<int:pk>/", proposals.ProposalDetailView.as_view(), name="api-class-proposal-detail"
    ),
    *(
        path(f"class-proposals/<int:pk>/{verb}/", view.as_view(), name=f"api-class-proposal-{verb}")
        for verb, view in (
            ("approve", proposals.ProposalApproveView),
            ("reject", proposals.ProposalRejectView),
            ("withdraw", proposals.ProposalWithdrawView),
            ("comments", proposals.ProposalCommentView),
            ("redraw", proposals.ProposalRedrawView),
            ("resume", proposals.ProposalResumeView),
            ("give-up", proposals.ProposalGiveUpView),
            ("roll-back", proposals.ProposalRollBackView),
        )
    ),
    path(
        "device-classes/<slug:cluster>/<k8s:name>/",
        api_classes.ClassDetailView.as_view(),
        name="api-class-detail",
    ),
    path(
        "device-classes/<slug:cluster>/<k8s:name>/versions/",
        api_class_history.ClassVersionListView.as_view(),
        name="api-class-versions",
    ),
    path(
        "device-classes/<slug:cluster>/<k8s:name>/versions/<int:version>/restore/",
        api_class_history.ClassRestoreView.as_view(),
        name="api-class-restore",
    ),
    path(
        "device-classes/<slug:cluster>/<k8s:name>/versions/<int:version>/adopt/",
        api_class_history.ClassAdoptView.as_view(),
        name="api-class-adopt",
    ),
    path("findings/", api_findings.FindingListView.as_view(), name="api-finding-list"),
    path("findings/<int:pk>/", api_findings.FindingDetailView.as_view(), name="api-finding-detail"),
    path(
        "findings/<int:pk>/acknowledge/",
        api_findings.FindingAcknowledgeView.as_view(),
        name="api-finding-acknowledge",
    ),
    path("findings/<int:pk>/snooze/", api_findings.FindingSnoozeView.as_view(), name="api-finding-snooze"),
    path("findings/<int:pk>/reopen/", api_findings.FindingReopenView.as_view(), name="api-finding-reopen"),
    path("diagnosis-tasks/", api_findings.TaskListView.as_view(), name="api-task-list"),
    path("diagnosis-tasks/<int:pk>/", api_findings.TaskDetailView.as_view(), name="api-task-detail"),
    path("clusters/<slug:name>/contract/", api_findings.ContractView.as_view(), name="api-contract"),
]
