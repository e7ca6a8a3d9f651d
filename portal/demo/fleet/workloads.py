"""What already runs at the institute when the portal is first looked at.

Only wishes are written here (claims, templates, Pods): the cluster's controllers decide who gets what.
"""

from .build import (
    RUN_SECONDS_ANNOTATION,
    Object,
    claim_spec,
    exact_request,
    pod,
    pod_spec,
    resource_claim,
    resource_claim_template,
)

_A100 = "device.attributes['gpu.nvidia.com'].productName.contains('A100')"
_H100 = "device.attributes['gpu.nvidia.com'].productName.contains('H100')"
_PCIE_ROOT = "resource.kubernetes.io/pcieRoot"


def workloads() -> list[Object]:
    """Claims, templates, Pods, a Job and a quota of four groups."""
    return [*_protein_folding(), *_weather_models(), *_language_lab(), *_particle_tracks()]


def _protein_folding() -> list[Object]:
    space = "protein-folding"
    pair = claim_spec([exact_request("gpu", "gpu.nvidia.com", _A100, count=2)])
    mig = claim_spec(
        [exact_request("mig", "mig.nvidia.com", "device.attributes['gpu.nvidia.com'].profile == '1g.10gb'")]
    )
    return [
        resource_claim("fold-server-gpus", space, pair),
        resource_claim_template("notebook-mig", space, mig),
        # Two Pods share one claim: the second joins what the first was given.
        pod("fold-server-0", space, pod_spec(claims={"gpus": "fold-server-gpus"})),
        pod("fold-server-1", space, pod_spec(claims={"gpus": "fold-server-gpus"})),
        pod("notebook-ines", space, pod_spec(templates={"mig": "notebook-mig"})),
        pod("notebook-okoro", space, pod_spec(templates={"mig": "notebook-mig"})),
        # Nobody has named this claim in a Pod yet, so nothing is held for it.
        resource_claim(
            "spring-campaign", space, claim_spec([exact_request("gpu", "gpu.nvidia.com", _H100, count=4)])
        ),
    ]


def _weather_models() -> list[Object]:
    space = "weather-models"
    near = claim_spec(
        [exact_request("gpu", "gpu.nvidia.com", _H100), exact_request("nic", "rdma-nic")],
        match_attribute=_PCIE_ROOT,
    )
    ensemble = claim_spec([exact_request("gpu", "gpu.amd.com", count=2)])
    return [
        resource_claim_template("gpu-with-nic", space, near),
        pod("nowcast-rank-0", space, pod_spec(templates={"link": "gpu-with-nic"})),
        pod("nowcast-rank-1", space, pod_spec(templates={"link": "gpu-with-nic"})),
        resource_claim_template("ensemble-gpus", space, ensemble),
        _ensemble_job(space),
        # The old pool is asked by extended resource, and the label says which machines are meant.
        pod(
            "archive-reader",
            space,
            pod_spec(
                limits={"nvidia.com/gpu": "1"},
                node_selector={"nvidia.com/gpu.product": "Tesla-V100-SXM2-32GB"},
            ),
        ),
    ]


def _ensemble_job(space: str) -> Object:
    spec = pod_spec(templates={"gpus": "ensemble-gpus"}, restart="Never")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "ensemble-members", "namespace": space},
        "spec": {
            "parallelism": 2,
            "completions": 6,
            "backoffLimit": 4,
            "template": {"metadata": {"annotations": {RUN_SECONDS_ANNOTATION: "900"}}, "spec": spec},
        },
    }


def _language_lab() -> list[Object]:
    space = "language-lab"

    def share(memory: str) -> Object:
        return claim_spec([exact_request("share", "shared-gpu", capacity_requests={"memory": memory})])

    return [
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "accelerators", "namespace": space},
            "spec": {"hard": {"gpu.nvidia.com.deviceclass.resource.k8s.io/devices": "40"}},
        },
        resource_claim("dialect-probe", space, share("12Gi")),
        pod("dialect-probe", space, pod_spec(claims={"share": "dialect-probe"})),
        resource_claim("tokenizer", space, share("6Gi")),
        pod("tokenizer", space, pod_spec(claims={"share": "tokenizer"})),
        # More than any machine has: it waits, and the Pod's events say why.
        resource_claim(
            "giant-pretraining", space, claim_spec([exact_request("gpu", "gpu.nvidia.com", _H100, count=16)])
        ),
        pod("giant-pretraining", space, pod_spec(claims={"gpus": "giant-pretraining"}, restart="Never")),
    ]


def _particle_tracks() -> list[Object]:
    space = "particle-tracks"
    return [
        resource_claim(
            "track-finder", space, claim_spec([exact_request("card", "gaudi.intel.com", count=4)])
        ),
        pod("track-finder", space, pod_spec(claims={"cards": "track-finder"})),
    ]
