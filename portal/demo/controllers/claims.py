"""The ResourceClaim controller: claims from templates, reservations that end, devices that become free
again.

After the behaviour of kube-controller-manager: a claim is made for each template that a Pod names; the entry
of a Pod that is finished or gone leaves ``reservedFor``; when the last one leaves, the allocation is cleared
in the same write; a generated claim whose Pod will not run (again) is deleted.
"""

from portal.demo.records import Key
from portal.demo.store import Object
from portal.dra.model import Pod, ResourceClaim, ResourceClaimTemplate

from .loop import Controller
from .view import Delta, Index
from .world import World, controller_of, is_finished, owner_reference

MANAGER = "kube-controller-manager"
COMPONENT = "resource_claim"
MAX_CONSUMERS = 256
FINALIZER = "resource.kubernetes.io/delete-protection"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
EXTENDED_RESOURCE_CLAIM = "resource.kubernetes.io/extended-resource-claim"


def claim_names(pod: Pod) -> dict[str, str | None]:
    """The claims that a Pod uses, by its own names for them; None where the claim has not been generated yet.

    A template for which no claim was necessary (its status entry names none) is left out.
    """
    generated = {entry.name: entry.resource_claim_name for entry in pod.status.resource_claim_statuses}
    names: dict[str, str | None] = {}
    for entry in pod.spec.resource_claims:
        if entry.resource_claim_name:
            names[entry.name] = entry.resource_claim_name
        elif entry.name not in generated:
            names[entry.name] = None
        elif generated[entry.name]:
            names[entry.name] = generated[entry.name]
    return names


class ClaimsOfPods(Controller[Key]):
    """Makes the claims that Pods want from templates, and writes their names into the Pods' status."""

    name = "resourceclaim-generator"

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self._waiting: dict[Key, set[Key]] = {}
        self._by_owner = Index(world.claims, pod_owner_uids)
        world.pods.subscribe(self._pod_changed)
        world.templates.subscribe(self._template_changed)

    def sync(self, key: Key) -> float | None:
        """Generate what is missing for one Pod."""
        world = self.world
        world.pods.refresh()
        pod = world.pods.objects.get(key)
        if pod is None or pod.metadata.deletion_timestamp or is_finished(pod):
            return None
        missing = [entry for entry in pod.spec.resource_claims if entry.resource_claim_template_name]
        known = {entry.name for entry in pod.status.resource_claim_statuses}
        made = {
            entry.name: self._claim_for(pod, entry.name, entry.resource_claim_template_name or "")
            for entry in missing
            if entry.name not in known
        }
        found = {name: claim for name, claim in made.items() if claim}
        if found:
            raw = world.store.get("pods", pod.metadata.name, namespace=pod.metadata.namespace)
            statuses = raw.setdefault("status", {}).setdefault("resourceClaimStatuses", [])
            statuses += [{"name": name, "resourceClaimName": claim} for name, claim in found.items()]
            world.store.update_status("pods", raw, manager=MANAGER)
        if pod.spec.node_name:
            self._reserve_for_placed(pod)
        return None

    def _reserve_for_placed(self, pod: Pod) -> None:
        """A Pod that came with a node has passed the scheduler by: it may still join what is allocated."""
        world, namespace = self.world, pod.metadata.namespace
        for name in claim_names(pod).values():
            claim = None if name is None else world.store.find("resourceclaims", name, namespace=namespace)
            status = (claim or {}).get("status") or {}
            consumers = status.get("reservedFor", [])
            if claim is None or not status.get("allocation") or len(consumers) >= MAX_CONSUMERS:
                continue
            if all(entry.get("uid") != pod.metadata.uid for entry in consumers):
                entry = {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}
                claim["status"] = {**status, "reservedFor": [*consumers, entry]}
                world.store.update_status("resourceclaims", claim, manager=MANAGER)

    def _claim_for(self, pod: Pod, name: str, template_name: str) -> str | None:
        """The name of the Pod's claim ``name``, made now if need be; None while its template is missing."""
        world, namespace = self.world, pod.metadata.namespace
        world.claims.refresh()
        for key in self._by_owner[pod.metadata.uid]:
            if world.claims.objects[key].metadata.annotations.get(POD_CLAIM_NAME) == name:
                return key[1]  # made before a restart
        template = world.store.find("resourceclaimtemplates", template_name, namespace=namespace)
        raw_pod = world.store.get("pods", pod.metadata.name, namespace=namespace)
        if template is None:
            self._waiting.setdefault((namespace, template_name), set()).add((namespace, pod.metadata.name))
            world.event(
                raw_pod,
                kind="Pod",
                reason="FailedResourceClaimCreation",
                message=f"PodResourceClaim {name}: resource claim template "
                f'"{template_name}": resourceclaimtemplate.resource.k8s.io "{template_name}" not found',
                component=COMPONENT,
                warning=True,
            )
            return None
        metadata = template["spec"].get("metadata") or {}
        created = world.store.create(
            "resourceclaims",
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceClaim",
                "metadata": {
                    "generateName": f"{pod.metadata.name}-{name}-",
                    "namespace": namespace,
                    "labels": dict(metadata.get("labels") or {}),
                    "annotations": {**(metadata.get("annotations") or {}), POD_CLAIM_NAME: name},
                    "ownerReferences": [owner_reference(raw_pod)],
                },
                "spec": template["spec"]["spec"],
            },
            namespace=namespace,
            manager=MANAGER,
        )
        return str(created["metadata"]["name"])

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        if delta.new is not None and delta.new.spec.resource_claims:
            self.queue.add(delta.key)

    def _template_changed(self, delta: Delta[ResourceClaimTemplate]) -> None:
        if delta.new is not None:
            for key in self._waiting.pop(delta.key, ()):
                self.queue.add(key)


class Reservations(Controller[Key]):
    """Ends the reservations of Pods that are finished or gone, and frees devices that nobody reserves."""

    name = "resourceclaim-reservations"

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self._by_owner = Index(world.claims, pod_owner_uids)
        self._by_consumer = Index(
            world.claims, lambda claim: [item.uid for item in claim.status.reserved_for]
        )
        world.claims.subscribe(self._claim_changed)
        world.pods.subscribe(self._pod_changed)

    def sync(self, key: Key) -> float | None:
        """Bring one claim in line with the Pods that there are."""
        world = self.world
        world.claims.refresh()
        world.pods.refresh()
        claim = world.claims.objects.get(key)
        if claim is None:
            return None
        reserved = claim.status.reserved_for
        valid = [
            entry.uid
            for entry in reserved
            if entry.resource != "pods" or self._uses(key[0], entry.name, entry.uid)
        ]
        raw = world.store.get("resourceclaims", key[1], namespace=key[0])
        if len(valid) < len(reserved):
            raw = self._release(raw, keep=valid)
        elif not reserved and claim.metadata.deletion_timestamp and claim.status.allocation is not None:
            raw = self._release(raw, keep=[])
        status = raw.get("status") or {}
        finalizers = raw["metadata"].get("finalizers") or []
        idle = not status.get("allocation") and not status.get("reservedFor")
        if idle and FINALIZER in finalizers:
            raw["metadata"]["finalizers"] = [item for item in finalizers if item != FINALIZER]
            raw = world.store.update("resourceclaims", raw, manager=MANAGER)
        if idle and not raw["metadata"].get("deletionTimestamp") and self._owner_is_through(claim):
            world.delete("resourceclaims", key, uid=claim.metadata.uid)
        return None

    def _release(self, raw: Object, *, keep: list[str]) -> Object:
        status = raw.setdefault("status", {})
        status["reservedFor"] = [entry for entry in status.get("reservedFor", ()) if entry.get("uid") in keep]
        if not status["reservedFor"]:
            # In the same write: a claim without consumer never looks as if it held a device.
            raw["status"] = {}
        return self.world.store.update_status("resourceclaims", raw, manager=MANAGER)

    def _uses(self, namespace: str, name: str, uid: str) -> bool:
        """Whether that very Pod exists and has not come to its end."""
        pod = self.world.pods.get(namespace, name)
        if pod is None or pod.metadata.uid != uid or is_finished(pod):
            return False
        # A Pod that was deleted before it got a node never ran and never will.
        return not (pod.metadata.deletion_timestamp and not pod.spec.node_name)

    def _owner_is_through(self, claim: ResourceClaim) -> bool:
        """Whether the claim was generated for a Pod that will not use it (any more)."""
        owner = controller_of(claim.metadata)
        if owner is None or owner.kind != "Pod" or owner.api_version != "v1":
            return False
        return not self._uses(claim.metadata.namespace, owner.name, owner.uid)

    def _claim_changed(self, delta: Delta[ResourceClaim]) -> None:
        if delta.new is not None:
            self.queue.add(delta.key)

    def _pod_changed(self, delta: Delta[Pod]) -> None:
        pod = delta.new or delta.old
        if pod is None:
            return
        over = delta.new is None or is_finished(delta.new) or delta.new.metadata.deletion_timestamp
        replaced = (
            delta.old is not None
            and delta.new is not None
            and delta.old.metadata.uid != delta.new.metadata.uid
        )
        if over or replaced:
            uids = {state.metadata.uid for state in (delta.old, delta.new) if state is not None}
            for uid in uids:
                for key in self._by_consumer[uid] | self._by_owner[uid]:
                    self.queue.add(key)


def pod_owner_uids(claim: ResourceClaim) -> list[str]:
    """The uid of the Pod that a claim was generated for, in the form that an Index wants."""
    owner = controller_of(claim.metadata)
    return [owner.uid] if owner is not None and owner.kind == "Pod" else []
