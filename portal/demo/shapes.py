"""Types that the official client has no models for, in the notation of its models.

Kueue's are those of v1beta2 (and the fields by which v1beta1 differs), after its API reference; the two older
versions of ``scheduling.k8s.io`` are those of Kubernetes 1.35 and 1.36. ``quantity`` is an integer or a
string that stays as it was written, as in all objects of installed definitions.
"""

from collections.abc import Mapping

Fields = Mapping[str, str]


def _object(spec: str, status: str = "") -> Fields:
    head = {"apiVersion": "str", "kind": "str", "metadata": "V1ObjectMeta", "spec": spec}
    return {**head, "status": status} if status else head


_QUEUE_SPEC = {
    "resourceGroups": "List[KueueResourceGroup]",
    "queueingStrategy": "str",
    "namespaceSelector": "V1LabelSelector",
    "flavorFungibility": "Dict[str, str]",
    "preemption": "KueuePreemption",
    "admissionChecksStrategy": "object",
    "stopPolicy": "str",
    "fairSharing": "object",
    "admissionScope": "object",
}
_COUNTS = {
    "conditions": "List[V1Condition]",
    "flavorsReservation": "List[KueueFlavorUsage]",
    "pendingWorkloads": "int",
    "reservingWorkloads": "int",
    "admittedWorkloads": "int",
    "fairSharing": "object",
}
_LOCAL_SPEC = {"clusterQueue": "str", "stopPolicy": "str", "fairSharing": "object"}
_WORKLOAD_SPEC = {
    "podSets": "List[KueuePodSet]",
    "queueName": "str",
    "priority": "int",
    "active": "bool",
    "maximumExecutionTimeSeconds": "int",
}
_WORKLOAD_STATUS = {
    "conditions": "List[V1Condition]",
    "admission": "KueueAdmission",
    "requeueState": "object",
    "reclaimablePods": "List[object]",
    "admissionChecks": "List[object]",
    "resourceRequests": "List[KueuePodSetRequest]",
    "schedulingStats": "object",
    "nominatedClusterNames": "List[str]",
    "clusterName": "str",
    "unhealthyNodes": "List[object]",
}
_POLICY = "V1beta1PodGroupSchedulingPolicy"
_ALPHA_TEMPLATE = {
    "disruptionMode": "str",
    "priority": "int",
    "priorityClassName": "str",
    "resourceClaims": "List[V1beta1PodGroupResourceClaim]",
    "schedulingConstraints": "V1beta1PodGroupSchedulingConstraints",
    "schedulingPolicy": _POLICY,
}

SHAPES: Mapping[str, Fields] = {
    "KueueV1beta2ClusterQueue": _object("KueueV1beta2ClusterQueueSpec", "KueueV1beta2ClusterQueueStatus"),
    "KueueV1beta2ClusterQueueSpec": {
        **_QUEUE_SPEC,
        "cohortName": "str",
        "concurrentAdmissionPolicy": "object",
    },
    "KueueV1beta2ClusterQueueStatus": {**_COUNTS, "flavorsUsage": "List[KueueFlavorUsage]"},
    "KueueV1beta1ClusterQueue": _object("KueueV1beta1ClusterQueueSpec", "KueueV1beta2ClusterQueueStatus"),
    "KueueV1beta1ClusterQueueSpec": {**_QUEUE_SPEC, "cohort": "str"},
    "KueueResourceGroup": {"coveredResources": "List[str]", "flavors": "List[KueueFlavorQuotas]"},
    "KueueFlavorQuotas": {"name": "str", "resources": "List[KueueResourceQuota]"},
    "KueueResourceQuota": {
        "name": "str",
        "nominalQuota": "quantity",
        "borrowingLimit": "quantity",
        "lendingLimit": "quantity",
    },
    "KueuePreemption": {
        "reclaimWithinCohort": "str",
        "withinClusterQueue": "str",
        "borrowWithinCohort": "KueueBorrowing",
    },
    "KueueBorrowing": {"policy": "str", "maxPriorityThreshold": "int"},
    "KueueFlavorUsage": {"name": "str", "resources": "List[KueueResourceUsage]"},
    "KueueResourceUsage": {"name": "str", "total": "quantity", "borrowed": "quantity"},
    "KueueV1beta2LocalQueue": _object("KueueV1beta2LocalQueueSpec", "KueueV1beta2LocalQueueStatus"),
    "KueueV1beta2LocalQueueSpec": {**_LOCAL_SPEC, "wallTimePolicy": "object"},
    "KueueV1beta2LocalQueueStatus": {**_COUNTS, "flavorsUsage": "List[KueueFlavorUsage]"},
    "KueueV1beta1LocalQueue": _object("KueueV1beta1LocalQueueSpec", "KueueV1beta1LocalQueueStatus"),
    "KueueV1beta1LocalQueueSpec": _LOCAL_SPEC,
    "KueueV1beta1LocalQueueStatus": {
        **_COUNTS,
        "flavorUsage": "List[KueueFlavorUsage]",
        "flavors": "List[object]",
    },
    "KueueV1beta2ResourceFlavor": _object("KueueResourceFlavorSpec"),
    "KueueV1beta1ResourceFlavor": _object("KueueResourceFlavorSpec"),
    "KueueResourceFlavorSpec": {
        "nodeLabels": "Dict[str, str]",
        "nodeTaints": "List[V1Taint]",
        "tolerations": "List[V1Toleration]",
        "topologyName": "str",
    },
    "KueueV1beta2Workload": _object("KueueV1beta2WorkloadSpec", "KueueV1beta2WorkloadStatus"),
    "KueueV1beta2WorkloadSpec": {**_WORKLOAD_SPEC, "priorityClassRef": "KueuePriorityClassRef"},
    "KueueV1beta2WorkloadStatus": {**_WORKLOAD_STATUS, "accumulatedPastExecutionTimeSeconds": "int"},
    "KueueV1beta1Workload": _object("KueueV1beta1WorkloadSpec", "KueueV1beta1WorkloadStatus"),
    "KueueV1beta1WorkloadSpec": {
        **_WORKLOAD_SPEC,
        "priorityClassName": "str",
        "priorityClassSource": "str",
    },
    "KueueV1beta1WorkloadStatus": _WORKLOAD_STATUS,
    "KueuePriorityClassRef": {"group": "str", "kind": "str", "name": "str"},
    "KueuePodSet": {
        "name": "str",
        "template": "V1PodTemplateSpec",
        "count": "int",
        "minCount": "int",
        "topologyRequest": "object",
    },
    "KueuePodSetRequest": {"name": "str", "resources": "Dict[str, quantity]"},
    "KueueAdmission": {"clusterQueue": "str", "podSetAssignments": "List[KueuePodSetAssignment]"},
    "KueuePodSetAssignment": {
        "name": "str",
        "flavors": "Dict[str, str]",
        "resourceUsage": "Dict[str, quantity]",
        "count": "int",
        "topologyAssignment": "object",
        "delayedTopologyRequest": "str",
    },
    "V1alpha2PodGroup": _object("V1alpha2PodGroupSpec", "V1beta1PodGroupStatus"),
    "V1alpha2PodGroupSpec": {**_ALPHA_TEMPLATE, "podGroupTemplateRef": "V1alpha2PodGroupTemplateReference"},
    "V1alpha2PodGroupTemplateReference": {"workload": "V1alpha2WorkloadPodGroupTemplateReference"},
    "V1alpha2WorkloadPodGroupTemplateReference": {"workloadName": "str", "podGroupTemplateName": "str"},
    "V1alpha2Workload": _object("V1alpha2WorkloadSpec"),
    "V1alpha2WorkloadSpec": {
        "controllerRef": "V1beta1TypedLocalObjectReference",
        "podGroupTemplates": "List[V1alpha2PodGroupTemplate]",
    },
    "V1alpha2PodGroupTemplate": {**_ALPHA_TEMPLATE, "name": "str"},
    "V1alpha1Workload": _object("V1alpha1WorkloadSpec"),
    "V1alpha1WorkloadSpec": {
        "controllerRef": "V1beta1TypedLocalObjectReference",
        "podGroups": "List[V1alpha1PodGroup]",
    },
    "V1alpha1PodGroup": {"name": "str", "policy": _POLICY},
}
