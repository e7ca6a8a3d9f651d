"""Whether claims, Pods and slices of a cluster fit together. Pure: what was listed in, contradictions out.

After a restore from a backup the control plane tells an older story than the nodes: a device may be given out
twice, a claim may be kept for a Pod that is no more, a Pod may run on a claim that nobody remembers.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

Object = Mapping[str, Any]
FINISHED = ("Succeeded", "Failed")


def problems(
    *, claims: Iterable[Object], pods: Iterable[Object], slices: Iterable[Object], drivers: Sequence[str]
) -> list[dict[str, str]]:
    """Contradictions about devices of these drivers, in a stable order: {"code", "claim" or "pod",
    "what"}."""
    claims, pods = list(claims), list(pods)
    ours = [claim for claim in claims if any(r.get("driver") in drivers for r in results(claim))]
    found = [*_held_twice(ours), *_for_nobody(ours, pods), *_without_claim(claims, pods, drivers)]
    return sorted([*found, *_not_published(ours, slices, drivers)], key=lambda told: tuple(told.values()))


def results(claim: Object) -> list[Mapping[str, Any]]:
    """What a claim holds: entries of `status.allocation.devices.results`."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    return list((allocation.get("devices") or {}).get("results") or ())


def device_names(claim: Object) -> list[str]:
    """ "driver/pool/device" of what a claim holds."""
    return [_device(result) for result in results(claim)]


def _held_twice(claims: Sequence[Object]) -> Iterator[dict[str, str]]:
    holders: dict[str, list[str]] = defaultdict(list)
    for claim in claims:
        for result in results(claim):
            if not result.get("adminAccess") and not result.get("shareID"):
                holders[_device(result)].append(_name(claim))
    for device, names in holders.items():
        if len(names) > 1:
            yield {"code": "held-twice", "claim": ", ".join(sorted(names)), "what": device}


def _for_nobody(claims: Sequence[Object], pods: Sequence[Object]) -> Iterator[dict[str, str]]:
    there = {pod["metadata"]["uid"] for pod in pods}
    for claim in claims:
        for entry in (claim.get("status") or {}).get("reservedFor") or ():
            if entry.get("resource") == "pods" and entry.get("uid") not in there:
                yield {"code": "for-nobody", "claim": _name(claim), "what": str(entry.get("name"))}


def _without_claim(
    claims: Sequence[Object], pods: Sequence[Object], drivers: Sequence[str]
) -> Iterator[dict[str, str]]:
    """Pods that run on claims that are not there, hold nothing, or do not know them."""
    by_name = {_name(claim): claim for claim in claims}
    for pod in pods:
        if (pod.get("status") or {}).get("phase") != "Running":
            continue
        for claim in _claims_of(pod):
            held = by_name.get(claim)
            if held is None:
                yield {"code": "claim-missing", "claim": claim, "what": _name(pod)}
                continue
            if not (held.get("status") or {}).get("allocation"):
                yield {"code": "holds-nothing", "claim": claim, "what": _name(pod)}
                continue
            reserved = (held.get("status") or {}).get("reservedFor") or ()
            is_ours = any(result.get("driver") in drivers for result in results(held))
            if is_ours and pod["metadata"]["uid"] not in {entry.get("uid") for entry in reserved}:
                yield {"code": "not-reserved", "claim": claim, "what": _name(pod)}


def _not_published(
    claims: Sequence[Object], slices: Iterable[Object], drivers: Sequence[str]
) -> Iterator[dict[str, str]]:
    published = {
        f"{piece['spec'].get('driver')}/{(piece['spec'].get('pool') or {}).get('name')}/{device.get('name')}"
        for piece in slices
        for device in piece["spec"].get("devices") or ()
    }
    for claim in claims:
        for result in results(claim):
            if result.get("driver") in drivers and _device(result) not in published:
                yield {"code": "not-published", "claim": _name(claim), "what": _device(result)}


def _claims_of(pod: Object) -> Iterator[str]:
    namespace = pod["metadata"].get("namespace", "")
    made = {
        status.get("name"): status.get("resourceClaimName")
        for status in (pod.get("status") or {}).get("resourceClaimStatuses") or ()
    }
    for reference in (pod.get("spec") or {}).get("resourceClaims") or ():
        name = reference.get("resourceClaimName") or made.get(reference.get("name"))
        if name:
            yield f"{namespace}/{name}"


def _device(result: Mapping[str, Any]) -> str:
    return f"{result.get('driver')}/{result.get('pool')}/{result.get('device')}"


def _name(found: Object) -> str:
    return f"{found['metadata'].get('namespace', '')}/{found['metadata']['name']}"
