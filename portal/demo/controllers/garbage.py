"""The garbage collector: what belongs to an owner that is gone goes too."""

from portal.demo.records import Key
from portal.dra.model import ObjectMeta, OwnerReference

from .loop import Controller
from .view import Delta, Index, View
from .world import World, plural_of

MANAGER = "kube-controller-manager"
FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
Item = tuple[str, Key]


class GarbageCollector(Controller[Item]):
    """Follows owner references, by uid as the real one does: a namesake of the owner is not the owner."""

    name = "garbage"

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self._views = world.views
        self._dependents = {
            plural: Index(view, lambda obj: [owner.uid for owner in obj.metadata.owner_references])
            for plural, view in self._views.items()
        }
        for view in self._views.values():
            self._watch(view)

    def sync(self, key: Item) -> float | None:
        """Judge one object."""
        plural, (namespace, name) = key
        view = self._views[plural]
        view.refresh()
        obj = view.objects.get((namespace, name))
        if obj is None:
            return None
        metadata: ObjectMeta = obj.metadata
        if metadata.deletion_timestamp:
            return self._complete(plural, metadata)
        owners = metadata.owner_references
        if owners and not any(self._exists(owner, namespace) for owner in owners):
            self.world.delete(plural, (namespace, name), uid=metadata.uid)
        return None

    def _exists(self, owner: OwnerReference, namespace: str) -> bool:
        plural = plural_of(owner)
        if plural is None:
            return True  # a kind that this cluster does not know: not ours to judge
        store = self.world.store
        resource = store.tables[plural].resource
        found = store.find(plural, owner.name, namespace=namespace if resource.namespaced else "")
        return found is not None and found["metadata"]["uid"] == owner.uid

    def _complete(self, plural: str, metadata: ObjectMeta) -> float | None:
        """Take the collector's own finalizers off an owner that is being deleted, when its dependents allow
        it."""
        dependents = [
            (other, key) for other, index in self._dependents.items() for key in index[metadata.uid]
        ]
        if ORPHAN in metadata.finalizers:
            for other, key in dependents:
                self._disown(other, key, metadata.uid)
            self._unhold(plural, metadata, ORPHAN)
        elif FOREGROUND in metadata.finalizers:
            for other, key in dependents:
                self.world.delete(other, key)
            if dependents:
                return 0.3
            self._unhold(plural, metadata, FOREGROUND)
        return None

    def _disown(self, plural: str, key: Key, uid: str) -> None:
        raw = self.world.store.find(plural, key[1], namespace=key[0])
        if raw is not None:
            owners = raw["metadata"].get("ownerReferences", [])
            raw["metadata"]["ownerReferences"] = [owner for owner in owners if owner.get("uid") != uid]
            self.world.store.update(plural, raw, manager=MANAGER)

    def _unhold(self, plural: str, metadata: ObjectMeta, finalizer: str) -> None:
        raw = self.world.store.find(plural, metadata.name, namespace=metadata.namespace)
        if raw is not None and raw["metadata"]["uid"] == metadata.uid:
            kept = [item for item in raw["metadata"].get("finalizers", []) if item != finalizer]
            raw["metadata"]["finalizers"] = kept
            self.world.store.update(plural, raw, manager=MANAGER)

    def _watch(self, view: View[object]) -> None:
        def changed(delta: Delta[object]) -> None:
            new: ObjectMeta | None = getattr(delta.new, "metadata", None)
            old: ObjectMeta | None = getattr(delta.old, "metadata", None)
            if new is not None and (new.owner_references or new.deletion_timestamp):
                self.queue.add((view.plural, delta.key))
            if old is not None and (new is None or new.uid != old.uid):
                for other, index in self._dependents.items():
                    for key in index[old.uid]:
                        self.queue.add((other, key))

        view.subscribe(changed)
