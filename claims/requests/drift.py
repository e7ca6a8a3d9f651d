"""What of a request's objects differs on the cluster from what the desk sent. Only told: nothing is written
back silently, since whoever changed it may have had a reason."""

from collections.abc import Iterator, Mapping, Sequence
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
    if request.state not in THERE or request.shape == Shape.ENTITLEMENT or not request.object_uid:
        return []
    found = list(_of_object(request))
    if request.shape == Shape.CLAIM and request.hold_pod_uid:
        found += _of_hold(request)
    return found


def _of_object(request: Request) -> Iterator[Difference]:
    kind = _KINDS[Shape(request.shape)]
    model: type[Claim] | type[ClaimTemplate] = Claim if request.shape == Shape.CLAIM else ClaimTemplate
    row = model.objects.filter(
        cluster=request.cluster_id, namespace=request.namespace, name=request.object_name
    ).first()
    if row is None:
        return
    if row.uid != request.object_uid:
        yield Difference(
            kind=kind, name=row.name, path="metadata.uid", sent=request.object_uid, found=row.uid
        )
        return
    written = manifests.metadata_of(name=row.name, namespace=row.namespace, owner=owner_of(request))
    yield from _of_metadata(request, kind, written, row)
    for path, sent, there in _unlike(request.spec, row.spec, "spec"):
        yield Difference(kind=kind, name=row.name, path=path, sent=sent, found=there)


def _of_hold(request: Request) -> Iterator[Difference]:
    name = manifests.hold_name(request.object_name)
    row = Pod.objects.filter(
        cluster=request.cluster_id, namespace=request.namespace, name=name, uid=request.hold_pod_uid
    ).first()
    if row is None:
        # Made again by itself: that is told by the timeline.
        return
    written = manifests.metadata_of(name=name, namespace=row.namespace, owner=owner_of(request))
    written["labels"][manifests.ROLE_LABEL] = "hold"
    yield from _of_metadata(request, "Pod", written, row)


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


def _command(what: str, pair: str, namespace: str) -> str:
    """Quoted for a shell: the value may be what a person typed."""
    quoted = "'" + pair.replace("'", "'\\''") + "'"
    return f"kubectl -n {namespace} {what} {quoted} --overwrite"


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
