"""What the desk writes to a cluster, as plain JSON: claims, templates, hold Pods, and snippets to copy.

Everything here is pure: the same request gives the same manifest, so a repeated submission is harmless.
Source of the fields: the API reference of ``resource.k8s.io/v1`` and of Pods.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

Manifest = dict[str, Any]

API_VERSION = "resource.k8s.io/v1"
# One prefix for everything that the desk writes on objects.
PREFIX = "claimdesk.io"
MANAGED_BY = "app.kubernetes.io/managed-by"
REQUEST_LABEL = f"{PREFIX}/request"
PROJECT_LABEL = f"{PREFIX}/project"
ROLE_LABEL = f"{PREFIX}/role"
REQUESTER_ANNOTATION = f"{PREFIX}/requester"
COST_CENTRE_ANNOTATION = f"{PREFIX}/cost-centre"
PURPOSE_ANNOTATION = f"{PREFIX}/purpose"

# The name of the one request inside the claim; CEL errors and allocation results carry it.
PART = "accelerator"
# What Pods call the claim in spec.resourceClaims.
POD_CLAIM = "accelerator"
# Object names: a DNS label, with room left for "-hold" and for the suffix of generated claim names.
NAME_LIMIT = 50


@dataclass(frozen=True, kw_only=True)
class Owner:
    """Who asked: written on every object, so that people at the cluster can find the way back."""

    key: str
    project: str
    requester: str
    cost_centre: str = ""
    purpose: str = ""


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What is asked for, in terms of Kubernetes. `memory_domains` are the domains under which the devices of
    the class publish a capacity ``memory``; empty = unknown, each device is then asked under its driver."""

    device_class: str
    count: int
    min_memory: str = ""
    memory_domains: tuple[str, ...] = ()
    # Further CEL that must hold, opaque configuration for drivers, and tolerations, as in the API.
    selectors: tuple[str, ...] = ()
    config: tuple[Manifest, ...] = ()
    tolerations: tuple[Manifest, ...] = ()
    # How much of a shared device: capacity → quantity.
    capacity: tuple[tuple[str, str], ...] = ()


def object_name(*, project: str, key: str) -> str:
    """The deterministic name of a request's object: project slug and the first eight digits of its key.
    A DNS label of at most 50 characters."""
    short = key.replace("-", "")[:8].lower()
    slug = "".join(c if c.isascii() and c.isalnum() else "-" for c in project.lower()).strip("-")
    slug = slug[: NAME_LIMIT - len(short) - 1].rstrip("-")
    if not slug or not slug[0].isalpha():
        slug = f"p-{slug}"[: NAME_LIMIT - len(short) - 1].rstrip("-")
    return f"{slug}-{short}"


def hold_name(claim_name: str) -> str:
    """The name of the hold Pod of a claim."""
    return f"{claim_name}-hold"


def memory_expression(minimum: str, domains: Iterable[str] = ()) -> str:
    """A CEL expression that is true for devices with at least `minimum` memory.

    A device that publishes no memory is left out instead of failing the whole allocation, hence the guard.
    """
    names = sorted(set(domains))
    # Without a known domain: drivers publish unqualified capacities under their own name.
    keys = [f'"{name}"' for name in names] or ["device.driver"]
    parts = [
        f'"memory" in device.capacity[{key}] && '
        f'device.capacity[{key}]["memory"].compareTo(quantity("{minimum}")) >= 0'
        for key in keys
    ]
    return parts[0] if len(parts) == 1 else " || ".join(f"({part})" for part in parts)


def claim_spec(
    wish: Wish,
    *,
    alternatives: Sequence[Wish] = (),
    parts: Sequence[Wish] = (),
    same: str = "",
    different: str = "",
) -> Manifest:
    """A ResourceClaimSpec: one exact request, or alternatives in order; further parts, all in one claim. All
    devices have the attribute `same` in common, and differ in the attribute `different`."""
    config: list[Manifest] = []

    def configured(name: str, entries: Sequence[Manifest]) -> None:
        config.extend({"requests": [name], **entry} for entry in entries)

    if alternatives:
        choices = []
        for number, choice in enumerate((wish, *alternatives), 1):
            choices.append({"name": f"choice-{number}", **exact_request(choice)})
            configured(f"{PART}/choice-{number}", choice.config)
        requests: list[Manifest] = [{"name": PART, "firstAvailable": choices}]
    else:
        requests = [{"name": PART, "exactly": exact_request(wish)}]
        configured(PART, wish.config)
    for number, part in enumerate(parts, 2):
        requests.append({"name": f"part-{number}", "exactly": exact_request(part)})
        configured(f"part-{number}", part.config)
    devices: Manifest = {"requests": requests}
    attributes = (("matchAttribute", same), ("distinctAttribute", different))
    if constraints := [{key: value} for key, value in attributes if value]:
        devices["constraints"] = constraints
    if config:
        devices["config"] = config
    return {"devices": devices}


def exact_request(wish: Wish) -> Manifest:
    """What one request of a claim asks for."""
    exactly: Manifest = {
        "deviceClassName": wish.device_class,
        "allocationMode": "ExactCount",
        "count": wish.count,
    }
    expressions = list(wish.selectors)
    if wish.min_memory:
        expressions.append(memory_expression(wish.min_memory, wish.memory_domains))
    if expressions:
        exactly["selectors"] = [{"cel": {"expression": expression}} for expression in expressions]
    if wish.tolerations:
        exactly["tolerations"] = list(wish.tolerations)
    if wish.capacity:
        exactly["capacity"] = {"requests": dict(wish.capacity)}
    return exactly


def preview_claim(spec: Manifest, *, namespace: str = "default") -> Manifest:
    """A claim that is only asked about, never sent; `spec` as of `claim_spec`."""
    owner = Owner(key="preview", project="preview", requester="")
    return claim(name="preview", namespace=namespace, owner=owner, spec=spec)


def claim(*, name: str, namespace: str, owner: Owner, spec: Manifest) -> Manifest:
    """A ResourceClaim that Pods of the namespace share; `spec` as of `claim_spec`."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceClaim",
        "metadata": metadata_of(name=name, namespace=namespace, owner=owner),
        "spec": spec,
    }


def claim_template(*, name: str, namespace: str, owner: Owner, spec: Manifest) -> Manifest:
    """A ResourceClaimTemplate: every Pod that names it gets a claim of its own, with the same labels."""
    return {
        "apiVersion": API_VERSION,
        "kind": "ResourceClaimTemplate",
        "metadata": metadata_of(name=name, namespace=namespace, owner=owner),
        "spec": {
            "metadata": {"labels": _labels(owner), "annotations": _annotations(owner)},
            "spec": spec,
        },
    }


def hold_pod(
    *,
    claim_name: str,
    namespace: str,
    owner: Owner,
    image: str,
    node_selector: Mapping[str, str] | None = None,
    tolerations: Sequence[Manifest] = (),
    pull_secret: str = "",
    priority_class: str = "",
) -> Manifest:
    """A Pod that does nothing but keep the claim allocated. Passes the "restricted" Pod security level."""
    pod = idle_pod(name=hold_name(claim_name), namespace=namespace, owner=owner, image=image, role="hold")
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": POD_CLAIM}]
    pod["spec"]["resourceClaims"] = [{"name": POD_CLAIM, "resourceClaimName": claim_name}]
    if pull_secret:
        pod["spec"]["imagePullSecrets"] = [{"name": pull_secret}]
    if priority_class:
        pod["spec"]["priorityClassName"] = priority_class
    return _bound_for(pod, node_selector, tolerations)


def probe_pod(
    *,
    name: str,
    namespace: str,
    owner: Owner,
    image: str,
    resource: str,
    count: int,
    node_selector: Mapping[str, str] | None = None,
    tolerations: Sequence[Manifest] = (),
) -> Manifest:
    """A Pod that asks for units of a Device Plugin. Only ever sent on trial, to hear of quotas and
    policies."""
    pod = idle_pod(name=name, namespace=namespace, owner=owner, image=image, role="probe")
    pod["spec"]["containers"][0]["resources"]["limits"][resource] = str(count)
    return _bound_for(pod, node_selector, tolerations)


def _bound_for(
    pod: Manifest, node_selector: Mapping[str, str] | None, tolerations: Sequence[Manifest]
) -> Manifest:
    if node_selector:
        pod["spec"]["nodeSelector"] = dict(node_selector)
    if tolerations:
        pod["spec"]["tolerations"] = list(tolerations)
    return pod


def idle_pod(*, name: str, namespace: str, owner: Owner, image: str, role: str) -> Manifest:
    """A Pod that does nothing, within the "restricted" Pod security level."""
    metadata = metadata_of(name=name, namespace=namespace, owner=owner)
    metadata["labels"][ROLE_LABEL] = role
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "restartPolicy": "Always",
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            # Not 0: that would delete the Pod before its node has let go of the device.
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65535,
                "runAsGroup": 65535,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "containers": [
                {
                    "name": role,
                    "image": image,
                    "resources": {
                        "requests": {"cpu": "1m", "memory": "8Mi"},
                        "limits": {"cpu": "10m", "memory": "16Mi"},
                    },
                    "securityContext": {
                        "allowPrivilegeEscalation": False,
                        "readOnlyRootFilesystem": True,
                        "capabilities": {"drop": ["ALL"]},
                    },
                }
            ],
        },
    }


def as_yaml(manifest: Mapping[str, Any]) -> str:
    """A manifest as YAML in the order in which it was built."""
    return yaml.safe_dump(dict(manifest), sort_keys=False, allow_unicode=True, width=100)


def metadata_of(*, name: str, namespace: str, owner: Owner) -> Manifest:
    """Name, namespace, and the labels and annotations that lead back to the request."""
    return {
        "name": name,
        "namespace": namespace,
        "labels": _labels(owner),
        "annotations": _annotations(owner),
    }


def _labels(owner: Owner) -> dict[str, str]:
    return {
        MANAGED_BY: "claimdesk",
        REQUEST_LABEL: owner.key,
        # Slugs may begin or end with what a label value may not.
        PROJECT_LABEL: owner.project.strip("-_"),
    }


def _annotations(owner: Owner) -> dict[str, str]:
    # Free text cannot be a label value.
    values = {
        REQUESTER_ANNOTATION: owner.requester,
        COST_CENTRE_ANNOTATION: owner.cost_centre,
        PURPOSE_ANNOTATION: owner.purpose,
    }
    return {key: value for key, value in values.items() if value}


def for_version(manifest: Manifest, api_version: str) -> Manifest:
    """The same claim or template for the version of ``resource.k8s.io`` that a cluster serves.

    v1beta2 has the shape of v1; v1beta1 has the fields of `exactly` in the request itself.
    """
    if not api_version.startswith("resource.k8s.io/"):
        return manifest
    converted = {**manifest, "apiVersion": api_version}
    if api_version.endswith("/v1beta1"):
        spec = manifest["spec"]
        if manifest["kind"] == "ResourceClaimTemplate":
            converted["spec"] = {**spec, "spec": _flat(spec["spec"])}
        else:
            converted["spec"] = _flat(spec)
    return converted


def _flat(spec: Manifest) -> Manifest:
    devices = spec["devices"]
    requests = [
        {"name": part["name"], **part["exactly"]} if "exactly" in part else part
        for part in devices["requests"]
    ]
    return {**spec, "devices": {**devices, "requests": requests}}
