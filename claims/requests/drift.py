"""What of a request's objects differs on the cluster from what the desk sent. Only told: nothing is written
back silently, since whoever changed it may have had a reason."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from claims.models import Request
from claims.requests import manifests
from claims.requests.rehearsal import owner_of
from claims.requests.states import LIVE
from inventory.models import Claim, ClaimTemplate, Pod

Shape = Request.Shape
# States in which the desk has objects there.
THERE = (*LIVE, Request.State.ENDING)
_KINDS = {Shape.CLAIM: "ResourceClaim", Shape.TEMPLATE: "ResourceClaimTemplate"}


@dataclass(frozen=True, kw_only=True)
class Difference:
    """One field of one object; "" = it is not there. `mend` is a command that puts it right, if one does."""

    kind: str
    name: str
    path: str
    sent: str
    found: str
    mend: str = ""


def differences(request: Request) -> list[Difference]:
    """What differs, as far as the mirror shows it. Two queries at most, none where nothing can."""
    return differences_of_all([request]).get(request.pk, [])


def differences_of_all(requests: Collection[Request]) -> Mapping[int, list[Difference]]:
    """The same of many requests of one cluster (with project and requester joined), by primary key; absent =
    nothing differs. Three queries at most, however many they are."""
    there = [one for one in requests if one.state in THERE and one.object_uid]
    claims = _rows(Claim, [one for one in there if one.shape == Shape.CLAIM])
    templates = _rows(ClaimTemplate, [one for one in there if one.shape == Shape.TEMPLATE])
    holds = _holds([one for one in there if one.shape == Shape.CLAIM and one.hold_pod_uid])
    found: dict[int, list[Difference]] = {}
    for request in there:
        place = (request.namespace, request.object_name)
        row = claims.get(place) if request.shape == Shape.CLAIM else templates.get(place)
        mine = list(_of_object(request, row)) if row is not None else []
        # Made again by itself: that is told by the timeline.
        if (pod := holds.get(request.hold_pod_uid)) is not None:
            mine += _of_hold(request, pod)
        if mine:
            found[request.pk] = mine
    return found


def _rows(model: type[Any], requests: Sequence[Request]) -> Mapping[tuple[str, str], Any]:
    if not requests:
        return {}
    rows = model.objects.filter(
        cluster=requests[0].cluster_id, name__in=[request.object_name for request in requests]
    )
    return {(row.namespace, row.name): row for row in rows}


def _holds(requests: Sequence[Request]) -> Mapping[str, Pod]:
    if not requests:
        return {}
    uids = [request.hold_pod_uid for request in requests]
    return {pod.uid: pod for pod in Pod.objects.filter(cluster=requests[0].cluster_id, uid__in=uids)}


def _of_object(request: Request, row: Claim | ClaimTemplate) -> Iterator[Difference]:
    kind = _KINDS[Shape(request.shape)]
    if row.uid != request.object_uid:
        yield Difference(
            kind=kind, name=row.name, path="metadata.uid", sent=request.object_uid, found=row.uid
        )
        return
    written = manifests.metadata_of(name=row.name, namespace=row.namespace, owner=owner_of(request))
    yield from _of_metadata(request, kind, written, row)
    for path, sent, there in _unlike(request.spec, row.spec, "spec"):
        yield Difference(kind=kind, name=row.name, path=path, sent=sent, found=there)


def _of_hold(request: Request, row: Pod) -> Iterator[Difference]:
    written = manifests.metadata_of(name=row.name, namespace=row.namespace, owner=owner_of(request))
    written["labels"][manifests.ROLE_LABEL] = "hold"
    yield from _of_metadata(request, "Pod", written, row)
    image = row.claim_uses[0].get("image", "") if row.claim_uses else ""
    if image and request.hold_pod_image and image != request.hold_pod_image:
        yield Difference(
            kind="Pod",
            name=row.name,
            path="spec.containers[0].image",
            sent=request.hold_pod_image,
            found=image,
            mend=_command(
                f"set image pod {row.name}", f"{row.claim_uses[0]['container']}={request.hold_pod_image}",
                request.namespace, overwrite=False,
            ),
        )  # fmt: skip


def _of_metadata(
    request: Request, kind: str, written: Mapping[str, Any], row: Claim | ClaimTemplate | Pod
) -> Iterator[Difference]:
    for verb, field, there in (("label", "labels", row.labels), ("annotate", "annotations", row.annotations)):
        for key, sent in written[field].items():
            found = there.get(key, "")
            # A purpose may have been changed at the desk meanwhile: only its absence is somebody else's.
            if found == sent or (key == manifests.PURPOSE_ANNOTATION and found):
                continue
            yield Difference(
                kind=kind,
                name=row.name,
                path=f"metadata.{field}[{key}]",
                sent=sent,
                found=str(found),
                mend=_command(f"{verb} {kind.lower()} {row.name}", f"{key}={sent}", request.namespace),
            )


def _command(what: str, pair: str, namespace: str, *, overwrite: bool = True) -> str:
    """Quoted for a shell: the value may be what a person typed."""
    quoted = "'" + pair.replace("'", "'\\''") + "'"
    return f"kubectl -n {namespace} {what} {quoted}{' --overwrite' if overwrite else ''}"


def _unlike(sent: Any, found: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """Fields that were sent and are not there, or are there with another value. What the server added is no
    concern."""
    if isinstance(sent, Mapping) and isinstance(found, Mapping):
        for key, value in sent.items():
            if key in found:
                yield from _unlike(value, found[key], f"{path}.{key}")
            elif value not in ("", [], {}, None, False, 0):
                yield f"{path}.{key}", _shown(value), ""
    elif isinstance(sent, Sequence) and not isinstance(sent, str) and isinstance(found, list):
        for index, value in enumerate(sent):
            if index < len(found):
                yield from _unlike(value, found[index], f"{path}[{index}]")
            else:
                yield f"{path}[{index}]", _shown(value), ""
    elif sent != found:
        yield path, _shown(sent), _shown(found)


def _shown(value: Any) -> str:
    return str(value)[:200]
