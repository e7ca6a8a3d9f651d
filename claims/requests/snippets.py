"""What people copy to use a request: lines for a Pod of their own, a whole Pod, a Job, a Job for Kueue, a
profile for JupyterHub. Pure.

Source of the fields: the API reference of Pods and Jobs; what Kueue admits: its documentation of Dynamic
Resource Allocation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from claims.requests.manifests import POD_CLAIM, REQUEST_LABEL, Manifest, as_yaml

QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
IMAGE = "docker.io/library/ubuntu:24.04"
ENTITLEMENT = "entitlement"
TEMPLATE = "template"


@dataclass(frozen=True, kw_only=True)
class Use:
    """How Pods use a request. `shape` is claim, template or entitlement; an entitlement asks for `count`
    units of `resource` and carries the request's key as a label, by which the desk knows its Pods."""

    object_name: str
    namespace: str
    shape: str
    key: str = ""
    resource: str = ""
    count: int = 1
    node_selector: Mapping[str, str] | None = None
    tolerations: Sequence[Mapping[str, Any]] = ()


def lines(use: Use) -> str:
    """The YAML lines that a Pod of one's own needs."""
    spec: Manifest = {"containers": [{"name": "…", "resources": resources_of(use)}], **around(use)}
    labels = _labels(use)
    return as_yaml({"metadata": {"labels": labels}, "spec": spec} if labels else {"spec": spec})


def pod(use: Use) -> Manifest:
    """An example of a Pod that uses the request, to be adapted by its reader."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(use, name=f"{use.object_name}-work"),
        "spec": _pod_spec(use),
    }


def job(use: Use) -> Manifest:
    """The same as a Job: it starts its Pod again when it fails."""
    template: Manifest = {"spec": _pod_spec(use)}
    if labels := _labels(use):
        template = {"metadata": {"labels": labels}, **template}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"{use.object_name}-job", "namespace": use.namespace},
        "spec": {"backoffLimit": 2, "template": template},
    }


def kueue_job(use: Use, *, queue: str) -> Manifest:
    """The same for Kueue: it waits, suspended, until the queue admits it."""
    made = job(use)
    made["metadata"]["labels"] = {QUEUE_LABEL: queue}
    made["spec"] = {"suspend": True, **made["spec"]}
    return made


def jupyterhub_profile(use: Use, *, title: str) -> Manifest:
    """Values for the Helm chart of JupyterHub: a profile of KubeSpawner whose servers use the request. The
    hub has to start them in the request's namespace."""
    limits = {"cpu": "2", "memory": "8Gi"}
    override: Manifest = {"extra_labels": labels} if (labels := _labels(use)) else {}
    if use.shape == ENTITLEMENT:
        override["extra_resource_limits"] = {use.resource: str(use.count)}
    else:
        # KubeSpawner writes these over the resources that it would make: CPU and memory belong here, too.
        override["extra_container_config"] = {
            "resources": {"requests": dict(limits), "limits": limits, **resources_of(use)}
        }
        override["extra_pod_config"] = {"resourceClaims": around(use)["resourceClaims"]}
    if use.node_selector:
        override["node_selector"] = dict(use.node_selector)
    if use.tolerations:
        override["tolerations"] = [dict(entry) for entry in use.tolerations]
    profile = {"display_name": title, "kubespawner_override": override}
    return {"singleuser": {"profileList": [profile]}}


def kueue_refusals(shape: str, spec: Mapping[str, Any]) -> list[str]:
    """What of a request Kueue does not admit: "claim" (claims that Pods share), "alternatives",
    "constraints", "config", "admin-access"; empty = it admits all."""
    if shape == ENTITLEMENT:
        return []
    devices = spec.get("devices") or {}
    exact = [part["exactly"] for part in devices.get("requests") or () if "exactly" in part]
    found = {
        "claim": shape != TEMPLATE,
        "alternatives": any("firstAvailable" in part for part in devices.get("requests") or ()),
        "constraints": bool(devices.get("constraints")),
        "config": bool(devices.get("config")),
        "admin-access": any(part.get("adminAccess") for part in exact),
    }
    return [name for name, there in found.items() if there]


def kueue_refuses(shape: str, spec: Mapping[str, Any]) -> str:
    """The first of what Kueue does not admit; "" = it admits all."""
    return next(iter(kueue_refusals(shape, spec)), "")


def resources_of(use: Use) -> Manifest:
    """What the container that works asks for."""
    if use.shape == ENTITLEMENT:
        # Extended resources are never overcommitted: a limit is the request, too.
        return {"limits": {use.resource: str(use.count)}}
    return {"claims": [{"name": POD_CLAIM}]}


def around(use: Use) -> Manifest:
    """What belongs into the Pod's spec beside its containers."""
    spec: Manifest = {}
    if use.shape != ENTITLEMENT:
        key = "resourceClaimTemplateName" if use.shape == TEMPLATE else "resourceClaimName"
        spec["resourceClaims"] = [{"name": POD_CLAIM, key: use.object_name}]
    if use.node_selector:
        spec["nodeSelector"] = dict(use.node_selector)
    if use.tolerations:
        spec["tolerations"] = [dict(entry) for entry in use.tolerations]
    return spec


def _pod_spec(use: Use) -> Manifest:
    container = {
        "name": "work",
        "image": IMAGE,
        "command": ["sleep", "3600"],
        "resources": resources_of(use),
    }
    return {"restartPolicy": "Never", "containers": [container], **around(use)}


def _labels(use: Use) -> dict[str, str]:
    return {REQUEST_LABEL: use.key} if use.shape == ENTITLEMENT and use.key else {}


def _metadata(use: Use, *, name: str) -> Manifest:
    labels = _labels(use)
    return {"name": name, "namespace": use.namespace, **({"labels": labels} if labels else {})}
