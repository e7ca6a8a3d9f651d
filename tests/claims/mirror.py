"""Mirror rows as the follower would write them after a request's objects changed."""

from datetime import timedelta
from typing import Any

from claims.models import Request
from claims.requests.manifests import REQUEST_LABEL, hold_name
from inventory.models import Claim, ClaimDevice, ClaimTemplate, Device, Observation, Pod, PodEvent
from tests.claims.conftest import NOW


def mirror_claim(request: Request, *, consumers: tuple[str, ...] = (), **columns: Any) -> Claim:
    """The shared claim of a request; with consumers it is allocated."""
    values: dict[str, Any] = {
        "resource_version": "1",
        "spec": request.spec,
        "labels": {REQUEST_LABEL: str(request.key)},
        "allocated": bool(consumers),
        "epoch": 1 if consumers else 0,
        "status": {
            "reservedFor": [
                {"resource": "pods", "name": uid.removeprefix("pod-"), "uid": uid} for uid in consumers
            ]
        },
        **columns,
    }
    claim, _new = Claim.objects.update_or_create(
        cluster=request.cluster,
        namespace=request.namespace,
        name=columns.pop("name", request.object_name),
        defaults={"uid": request.object_uid, **values},
    )
    ClaimDevice.objects.filter(claim=claim).delete()
    if claim.allocated:
        device = Device.objects.select_related("pool").order_by("pk")[0]
        ClaimDevice.objects.create(
            claim=claim, driver=device.pool.driver, pool_name=device.pool.name, device_name=device.name,
            device=device, request="accelerator",
        )  # fmt: skip
    return claim


def mirror_template(request: Request) -> ClaimTemplate:
    return ClaimTemplate.objects.create(
        cluster=request.cluster,
        namespace=request.namespace,
        name=request.object_name,
        uid=request.object_uid,
        resource_version="1",
        spec={},
    )


def mirror_template_claim(request: Request, pod: Pod, **columns: Any) -> Claim:
    """A claim that the controller made from the request's template for `pod`."""
    name = f"{pod.name}-accelerator"
    Pod.objects.filter(pk=pod.pk).update(claim_names={"accelerator": name})
    return mirror_claim(request, name=name, uid=f"claim-of-{pod.name}", owner_pod_uid=pod.uid, **columns)


def mirror_pod(request: Request, name: str = "work", *, node: str = "", **columns: Any) -> Pod:
    """A Pod that names the request's claim; `name` "hold" is the desk's own."""
    name = hold_name(request.object_name) if name == "hold" else name
    pod, _new = Pod.objects.update_or_create(
        cluster=request.cluster,
        namespace=request.namespace,
        name=name,
        defaults={
            "uid": f"pod-{name}",
            "resource_version": "1",
            "phase": "Running" if node else "Pending",
            "node_name": node,
            "claim_names": {"accelerator": request.object_name},
            **columns,
        },
    )
    return pod


def mirror_event(pod: Pod, message: str) -> None:
    PodEvent.objects.create(
        cluster=pod.cluster,
        namespace=pod.namespace,
        pod_name=pod.name,
        pod_uid=pod.uid,
        reason="FailedScheduling",
        message=message,
        last_at=NOW,
    )


def observe(
    request: Request, kind: str, minutes: float, *, epoch: int = 1, uid: str = "", **facts: Any
) -> Observation:
    """An observation of the request's claim, `minutes` after NOW."""
    at = NOW + timedelta(minutes=minutes)
    uid = uid or request.object_uid
    found: dict[str, Any] = {"epoch": epoch, **facts}
    if kind == Observation.Kind.CLAIM_ALLOCATED:
        device = {
            "driver": "gpu.nvidia.com", "pool": "node-h100", "device": "gpu-0", "request": "accelerator",
            "share_id": "", "admin_access": False, "consumed_capacity": {}, "hardware_id": "GPU-H100-0",
            "profile": "digest-H100", "product": "H100", "device_class": "h100", "capacity": {},
        }  # fmt: skip
        found = {"node": "node-h100", "devices": [device]} | found
    return Observation.objects.create(
        cluster=request.cluster,
        kind=kind,
        at=at,
        source=Observation.Source.OBSERVED,
        observed_at=at,
        namespace=request.namespace,
        name=request.object_name,
        uid=uid,
        facts=found,
        key=f"{uid}/{epoch}/{kind}/{facts.get('consumer', {}).get('uid', '')}/{minutes}",
    )
