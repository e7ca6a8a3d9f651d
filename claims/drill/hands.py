"""What a drill does on a cluster: make, look at and remove its own small objects. Every call may be repeated.

Names are deterministic and all objects carry the drill's label, so that whoever goes on after a crash (or
sweeps after the end) finds them again, and touches nothing else.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Protocol

from django.utils.translation import gettext as _

from claims.models import Drill, DrillObject
from claims.requests import manifests, submission
from claims.requests.manifests import MANAGED_BY, PREFIX, ROLE_LABEL, Manifest, Owner
from portal.kube import errors
from portal.kube.resources import (
    EVENTS,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)

DRILL_LABEL = f"{PREFIX}/drill"
ROLE = "drill"
# As many events of a Pod as evidence needs.
MOST_EVENTS = 6
Object = dict[str, Any]


class DrillClient(submission.Writer, Protocol):
    """What of `portal.kube.client.Client` is used here."""

    def list_all(
        self, resource: Resource, *, namespace: str = "", label_selector: str = "", field_selector: str = ""
    ) -> list[dict[str, Any]]: ...


class Hands:
    """The objects of one drill on its cluster. Raises ClusterError."""

    def __init__(
        self, drill: Drill, client: DrillClient, *, api_version: str = manifests.API_VERSION
    ) -> None:
        self.drill = drill
        self.client = client
        self.api_version = api_version
        self.claims = _versioned(RESOURCE_CLAIMS, api_version)
        self.templates = _versioned(RESOURCE_CLAIM_TEMPLATES, api_version)
        self.slices = _versioned(RESOURCE_SLICES, api_version)

    # --- making ---------------------------------------------------------------------------------------

    def name(self, suffix: str) -> str:
        """The name of an object of the drill: a DNS label."""
        return f"drill-{str(self.drill.key)[:8]}-{suffix}"

    def make_claim(self, suffix: str) -> Object:
        """A claim for one device of the class."""
        return self._make(claim_of(self.drill, self.name(suffix)))

    def make_template(self, suffix: str) -> Object:
        """A template for such claims; what is made from it carries the drill's label, too."""
        return self._make(template_of(self.drill, self.name(suffix)))

    def make_pod(self, suffix: str, *, claim: str = "", template: str = "", seconds: int = 0) -> Object:
        """A Pod that does nothing, on the claim or template of that suffix; `seconds` after it started it
        fails (0 = never)."""
        reference = (
            {"resourceClaimName": self.name(claim)}
            if claim
            else {"resourceClaimTemplateName": self.name(template)}
        )
        return self._make(pod_of(self.drill, self.name(suffix), reference=reference, seconds=seconds))

    # --- looking --------------------------------------------------------------------------------------

    def claim(self, suffix: str) -> Object | None:
        return self._find(self.claims, self.name(suffix))

    def pod(self, suffix: str) -> Object | None:
        return self._find(PODS, self.name(suffix))

    def node(self, name: str) -> Object | None:
        with suppress(errors.NotFound):
            return self.client.get(NODES, name)
        return None

    def own_claims(self) -> list[Object]:
        """All claims of the drill, those that were made from its templates included."""
        return self._own(self.claims)

    def claims_of_pod(self, pod: Object) -> list[Object]:
        """Claims that were made for a Pod; their uids are noted."""
        uid = pod["metadata"]["uid"]
        found = [
            claim
            for claim in self.own_claims()
            if any(owner.get("uid") == uid for owner in claim["metadata"].get("ownerReferences") or ())
        ]
        for claim in found:
            self._note(claim, "ResourceClaim")
        return found

    def events(self, suffix: str) -> list[Object]:
        """The latest events about a Pod of the drill, oldest first."""
        found = self.client.list_all(
            EVENTS,
            namespace=self.drill.namespace,
            field_selector=f"involvedObject.name={self.name(suffix)}",
        )
        return sorted(found, key=lambda event: str(event_time(event)))[-MOST_EVENTS:]

    def slices_of(self, drivers: Sequence[str], pools: Sequence[str]) -> list[Object]:
        """ResourceSlices of these drivers and pools."""
        return [
            found
            for found in self.client.list_all(self.slices)
            if found["spec"].get("driver") in drivers
            and (found["spec"].get("pool") or {}).get("name") in pools
        ]

    def everything(self) -> tuple[list[Object], list[Object], list[Object]]:
        """All claims, Pods and slices of the cluster."""
        listed = self.client.list_all
        return listed(self.claims), listed(PODS), listed(self.slices)

    # --- removing -------------------------------------------------------------------------------------

    def delete_pod(self, suffix: str) -> None:
        """As a user deletes: gracefully. Harmless when it is gone."""
        self._delete(PODS, self.pod(suffix))

    def delete_claim(self, suffix: str) -> None:
        """Harmless when it is gone."""
        self._delete(self.claims, self.claim(suffix))

    def leftovers(self) -> list[tuple[Resource, Object]]:
        """Whatever of the drill is still there."""
        return [
            (resource, found)
            for resource in (PODS, self.claims, self.templates)
            for found in self._own(resource)
        ]

    def remove(self, *, by_force: bool) -> int:
        """Ask for the deletion of all that is left; returns how much there was. `by_force` takes Pods away
        that no kubelet ever took up: nothing of them can be running."""
        found = self.leftovers()
        for resource, left in found:
            kind = {PODS.plural: "Pod", self.claims.plural: "ResourceClaim"}.get(resource.plural, "Template")
            self._note(left, kind)
            never_ran = resource is PODS and not (left.get("status") or {}).get("startTime")
            if left["metadata"].get("deletionTimestamp"):
                if by_force and never_ran:
                    self._delete(resource, left, again=True, grace_period_seconds=0)
                continue
            self._delete(resource, left)
        return len(found)

    # --- inside ---------------------------------------------------------------------------------------

    def _make(self, manifest: Manifest) -> Object:
        if manifest["kind"] != "Pod":
            manifest = manifests.for_version(manifest, self.api_version)
        resource = submission.resource_of(manifest)
        try:
            made = self.client.create(resource, manifest, namespace=self.drill.namespace)
        except errors.AlreadyExists as error:
            made = self.client.get(resource, manifest["metadata"]["name"], namespace=self.drill.namespace)
            if not self._is_ours(made):
                raise submission.NameTaken(
                    _("The cluster has a %(kind)s “%(name)s” that belongs to somebody else.")
                    % {"kind": manifest["kind"], "name": manifest["metadata"]["name"]}
                ) from error
        self._note(made, manifest["kind"])
        return made

    def _note(self, made: Object, kind: str) -> None:
        metadata = made["metadata"]
        DrillObject.objects.get_or_create(
            cluster_id=self.drill.cluster_id,
            uid=str(metadata["uid"])[:64],
            defaults={"drill": self.drill, "kind": kind[:32], "name": str(metadata["name"])[:253]},
        )

    def _find(self, resource: Resource, name: str) -> Object | None:
        with suppress(errors.NotFound):
            found = self.client.get(resource, name, namespace=self.drill.namespace)
            return found if self._is_ours(found) else None
        return None

    def _own(self, resource: Resource) -> list[Object]:
        return self.client.list_all(
            resource,
            namespace=self.drill.namespace,
            label_selector=f"{DRILL_LABEL}={self.drill.key}",
        )

    def _delete(self, resource: Resource, found: Object | None, *, again: bool = False, **more: Any) -> None:
        if found is None or (found["metadata"].get("deletionTimestamp") and not again):
            return
        metadata = found["metadata"]
        with suppress(errors.NotFound, errors.Conflict):
            self.client.delete(
                resource, metadata["name"], namespace=self.drill.namespace, uid=metadata["uid"], **more
            )

    def _is_ours(self, found: Object) -> bool:
        labels = found["metadata"].get("labels") or {}
        return bool(labels.get(DRILL_LABEL) == str(self.drill.key))


def event_time(event: Mapping[str, Any]) -> str:
    """When an event was last seen, as the API tells."""
    series = event.get("series") or {}
    told = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next(filter(None, told), "") or event["metadata"].get("creationTimestamp") or "")


# --- manifests: pure --------------------------------------------------------------------------------


def claim_of(drill: Drill, name: str) -> Manifest:
    """A claim of a drill, for `resource.k8s.io/v1`."""
    made = manifests.claim(name=name, namespace=drill.namespace, owner=_OWNER, spec=_spec(drill))
    made["metadata"] = _metadata(drill, name)
    return made


def template_of(drill: Drill, name: str) -> Manifest:
    """A template of a drill, for `resource.k8s.io/v1`."""
    made = manifests.claim_template(name=name, namespace=drill.namespace, owner=_OWNER, spec=_spec(drill))
    made["metadata"] = _metadata(drill, name)
    made["spec"]["metadata"] = {"labels": _labels(drill)}
    return made


def pod_of(drill: Drill, name: str, *, reference: Mapping[str, str], seconds: int = 0) -> Manifest:
    """A Pod of a drill, within the "restricted" Pod security level."""
    made = manifests.idle_pod(
        name=name, namespace=drill.namespace, owner=_OWNER, image=drill.image, role=ROLE
    )
    made["metadata"] = _metadata(drill, name)
    spec, container = made["spec"], made["spec"]["containers"][0]
    spec["restartPolicy"] = "Never"
    spec["resourceClaims"] = [{"name": manifests.POD_CLAIM, **reference}]
    container["resources"]["claims"] = [{"name": manifests.POD_CLAIM}]
    if drill.command:
        container["command"] = list(drill.command)
    if seconds:
        spec["activeDeadlineSeconds"] = seconds
    if drill.node_selector:
        spec["nodeSelector"] = dict(drill.node_selector)
    if drill.tolerations:
        spec["tolerations"] = list(drill.tolerations)
    return made


# Objects of drills name no request; the labels that lead back are the drill's own.
_OWNER = Owner(key="drill", project="drill", requester="")


def _spec(drill: Drill) -> Manifest:
    return manifests.claim_spec(manifests.Wish(device_class=drill.device_class, count=1))


def _metadata(drill: Drill, name: str) -> Manifest:
    return {"name": name, "namespace": drill.namespace, "labels": _labels(drill)}


def _labels(drill: Drill) -> dict[str, str]:
    return {MANAGED_BY: "claimdesk", DRILL_LABEL: str(drill.key), ROLE_LABEL: ROLE}


def _versioned(resource: Resource, api_version: str) -> Resource:
    return Resource(api_version, resource.plural, namespaced=resource.namespaced, kind=resource.kind)


def parts(reserved: Sequence[Mapping[str, Any]] | None) -> Iterator[str]:
    """UIDs in a claim's `reservedFor`."""
    for entry in reserved or ():
        yield str(entry.get("uid", ""))
