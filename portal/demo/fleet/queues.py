"""What waits in line at the institute: Kueue's queues with a Job in each, and a group of Pods half placed."""

from collections.abc import Mapping

from .build import (
    RUN_SECONDS_ANNOTATION,
    Object,
    claim_spec,
    exact_request,
    pod,
    pod_spec,
    resource_claim_template,
)

RESEARCH, TEACHING = "research", "teaching"
LOCAL_QUEUE = "training"
ADMITTED_JOB, PENDING_JOB = ("weather-models", "downscaling"), ("language-lab", "fine-tuning")
POD_GROUP = ("particle-tracks", "detector-simulation-ranks")

_API = "kueue.x-k8s.io/v1beta2"
_SCHEDULING = "scheduling.k8s.io/v1beta1"
_AMPERE = {"node.kubernetes.io/instance-type": "hgx-a100-8"}
_A100 = "device.attributes['gpu.nvidia.com'].productName.contains('A100')"


def infrastructure() -> list[Object]:
    """Flavors and queues, as administrators set them up. Whole GPUs count as ``nvidia.com/gpu``."""
    return [
        _flavor("ampere", {"nodeLabels": _AMPERE}),
        _flavor("any-node", {}),
        _cluster_queue(RESEARCH, cpu="64", memory="512Gi", gpus="6"),
        _cluster_queue(TEACHING, cpu="16", memory="64Gi", gpus="2"),
        _local_queue("weather-models", RESEARCH),
        _local_queue("protein-folding", RESEARCH),
        _local_queue("language-lab", TEACHING),
    ]


def workloads() -> list[Object]:
    """A Job that is let in, one that asks for more than is left, and a group of which one Pod finds room."""
    return [
        *_job(*ADMITTED_JOB, gpus=2),
        *_job(*PENDING_JOB, gpus=4),
        *_group(),
    ]


def _flavor(name: str, spec: Object) -> Object:
    return {"apiVersion": _API, "kind": "ResourceFlavor", "metadata": {"name": name}, "spec": spec}


def _cluster_queue(name: str, *, cpu: str, memory: str, gpus: str) -> Object:
    def group(flavor: str, quotas: Mapping[str, str]) -> Object:
        resources = [{"name": name, "nominalQuota": amount} for name, amount in quotas.items()]
        return {"coveredResources": list(quotas), "flavors": [{"name": flavor, "resources": resources}]}

    return {
        "apiVersion": _API,
        "kind": "ClusterQueue",
        "metadata": {"name": name},
        "spec": {
            "namespaceSelector": {},
            "resourceGroups": [
                group("ampere", {"nvidia.com/gpu": gpus}),
                group("any-node", {"cpu": cpu, "memory": memory}),
            ],
        },
    }


def _local_queue(namespace: str, cluster_queue: str) -> Object:
    return {
        "apiVersion": _API,
        "kind": "LocalQueue",
        "metadata": {"name": LOCAL_QUEUE, "namespace": namespace},
        "spec": {"clusterQueue": cluster_queue},
    }


def _job(space: str, name: str, *, gpus: int) -> list[Object]:
    spec = pod_spec(templates={"gpus": name}, restart="Never")
    return [
        resource_claim_template(
            name, space, claim_spec([exact_request("gpu", "gpu.nvidia.com", _A100, count=gpus)])
        ),
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": name,
                "namespace": space,
                "labels": {"kueue.x-k8s.io/queue-name": LOCAL_QUEUE},
            },
            "spec": {
                "parallelism": 1,
                "completions": 1,
                "suspend": True,
                "template": {"metadata": {"annotations": {RUN_SECONDS_ANNOTATION: "86400"}}, "spec": spec},
            },
        },
    ]


def _group() -> list[Object]:
    """Two ranks of three cards each, of which only one finds room: the policy lets the first go ahead."""
    space, group = POD_GROUP
    workload = "detector-simulation"
    policy: Object = {"basic": {}}
    spec = pod_spec(templates={"cards": workload}, restart="Never", schedulingGroup={"podGroupName": group})
    return [
        resource_claim_template(
            workload, space, claim_spec([exact_request("card", "gaudi.intel.com", count=3)])
        ),
        {
            "apiVersion": _SCHEDULING,
            "kind": "Workload",
            "metadata": {"name": workload, "namespace": space},
            "spec": {"podGroupTemplates": [{"name": "ranks", "schedulingPolicy": policy}]},
        },
        {
            "apiVersion": _SCHEDULING,
            "kind": "PodGroup",
            "metadata": {"name": group, "namespace": space},
            "spec": {
                "workloadRef": {"workloadName": workload, "templateName": "ranks"},
                "schedulingPolicy": policy,
            },
        },
        *(pod(f"{workload}-{rank}", space, spec) for rank in range(2)),
    ]
