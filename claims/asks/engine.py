"""From what the desk writes and stores to what the engine reads."""

from collections.abc import Iterable, Mapping

from claims.requests import manifests
from portal.dra.model import ResourceClaim, Toleration, decode_object


def claim_of(manifest: manifests.Manifest) -> ResourceClaim:
    """A manifest (of a template: of the claims made from it) as the engine reads it."""
    if manifest["kind"] == "ResourceClaimTemplate":
        manifest = {**manifest, "kind": "ResourceClaim", "spec": manifest["spec"]["spec"]}
    claim = decode_object(manifest, source=manifest["metadata"]["name"])
    if not isinstance(claim, ResourceClaim):
        raise TypeError("A claim's manifest decodes to a claim")
    return claim


def node_tolerations(entries: Iterable[Mapping[str, str]]) -> tuple[Toleration, ...]:
    """Tolerations of Pods as stored, which is as in the API."""
    return tuple(
        Toleration(
            key=entry.get("key", ""),
            operator=entry.get("operator", ""),
            value=entry.get("value", ""),
            effect=entry.get("effect", ""),
        )
        for entry in entries
    )
