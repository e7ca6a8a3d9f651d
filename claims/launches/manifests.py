"""The objects that a launch makes: a Job, or a Pod that serves a notebook. Pure.

Whatever a template says, its Pods are within the "restricted" Pod security level, mount nothing but empty
volumes and claims of the namespace, and get no token of the cluster.
"""

from collections.abc import Mapping
from typing import Any

from claims.models import LaunchTemplate
from claims.requests import manifests, snippets
from claims.requests.manifests import PREFIX, ROLE_LABEL, Manifest, Owner
from claims.requests.snippets import QUEUE_LABEL, Use

LAUNCH_LABEL = f"{PREFIX}/launch"
ROLE = "launch"
PORT_NAME = "http"


def launch_name(object_name: str, key: str) -> str:
    """The deterministic name of what is launched: at most 59 characters, since Job names become labels."""
    return f"{object_name}-{key.replace('-', '')[:8].lower()}"


def build(
    template: LaunchTemplate,
    *,
    use: Use,
    owner: Owner,
    key: str,
    parameters: Mapping[str, str],
    queue: str = "",
) -> Manifest:
    """The object as it is sent; `queue` is a LocalQueue of Kueue, "" = none."""
    name = launch_name(use.object_name, key)
    metadata = manifests.metadata_of(name=name, namespace=use.namespace, owner=owner)
    metadata["labels"] |= {ROLE_LABEL: ROLE, LAUNCH_LABEL: key}
    labels = dict(metadata["labels"])
    if queue:
        metadata["labels"][QUEUE_LABEL] = queue
    pod_spec = _pod_spec(template, use=use, parameters=parameters)
    if template.kind == LaunchTemplate.Kind.NOTEBOOK:
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec}
    spec: Manifest = {
        "backoffLimit": 2,
        "template": {"metadata": {"labels": labels}, "spec": pod_spec},
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {"suspend": True, **spec} if queue else spec,
    }


def _pod_spec(template: LaunchTemplate, *, use: Use, parameters: Mapping[str, str]) -> Manifest:
    notebook = template.kind == LaunchTemplate.Kind.NOTEBOOK
    amounts = {"cpu": template.cpu, "memory": template.memory}
    resources = snippets.resources_of(use)
    limits = resources.pop("limits", {})
    container: Manifest = {"name": "main", "image": template.image}
    if template.command:
        container["command"] = list(template.command)
    if template.args:
        container["args"] = list(template.args)
    if env := _env(template, parameters):
        container["env"] = env
    if notebook and template.port:
        container["ports"] = [{"name": PORT_NAME, "containerPort": template.port}]
    container["resources"] = {"requests": amounts, "limits": amounts | limits, **resources}
    container["securityContext"] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    spec: Manifest = {
        "restartPolicy": "OnFailure" if notebook else "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": template.user_id,
            "runAsGroup": template.user_id,
            "fsGroup": template.user_id,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [container],
        **snippets.around(use),
    }
    if template.volumes:
        container["volumeMounts"] = [
            {"name": f"volume-{number}", "mountPath": volume["path"]}
            for number, volume in enumerate(template.volumes, 1)
        ]
        spec["volumes"] = [_volume(number, volume) for number, volume in enumerate(template.volumes, 1)]
    return spec


def _env(template: LaunchTemplate, parameters: Mapping[str, str]) -> list[dict[str, str]]:
    # What was filled in comes first: Kubernetes expands "$(NAME)" of what was named before. A dollar that a
    # person typed is one.
    filled = [{"name": name, "value": value.replace("$", "$$")} for name, value in parameters.items()]
    return [*filled, *({"name": name, "value": value} for name, value in template.env.items())]


def _volume(number: int, volume: Mapping[str, str]) -> dict[str, Any]:
    source: dict[str, Any] = (
        {"persistentVolumeClaim": {"claimName": volume["claim"]}}
        if volume.get("claim")
        else {"emptyDir": {"sizeLimit": volume["size"]}}
    )
    return {"name": f"volume-{number}", **source}
