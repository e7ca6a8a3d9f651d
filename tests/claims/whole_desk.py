"""The desk and a cluster in one process: the store of the embedded cluster with its controllers on one side;
mirror, preview and submission on the other. No sockets, no clocks, no waiting."""

import asyncio
import itertools
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Self

import msgspec

from claims.asks import judging as asks
from claims.asks.values import Reading
from claims.models import Flavor, Placement, Request
from claims.money.pricing import price_list
from claims.preview.panel import Preview, preview
from claims.requests import manifests, snippets, submission
from claims.requests.actions import submit
from claims.requests.rehearsal import manifest_of, owner_of
from claims.requests.story import use_of
from inventory import expressions, snapshot
from inventory.mirror.writer import Writer, features_of
from inventory.models import Cluster, NamespaceBinding, Stream
from portal.accounts.models import Membership, Project, User
from portal.demo.catalog import DEFAULT_VERSION
from portal.demo.controllers.claims import ClaimsOfPods
from portal.demo.controllers.nodes import NodeHealth
from portal.demo.controllers.scheduling import Scheduler
from portal.demo.controllers.world import World as Views
from portal.demo.errors import ApiError
from portal.demo.store import Store
from portal.dra.features import DEVICE_TAINT_RULES
from portal.kube import errors
from portal.kube.resources import Resource
from tests.claims import random_fleets as fleets
from tests.claims.catalogue import HOUR
from tests.claims.conftest import IMAGE
from tests.inventory.conftest import NOW, RESOURCES, Mirror

SPACE = "protein-folding"
MIRRORED = {
    "Node": "nodes",
    "ResourceSlice": "resourceslices",
    "DeviceClass": "deviceclasses",
    "DeviceTaintRule": "devicetaintrules",
    "ResourceClaim": "resourceclaims",
    "Pod": "pods",
}
_clusters = itertools.count(1_000_000)


class StoreClient:
    """What the desk uses of a client, straight on a store."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        return None

    def get(self, resource: Resource, name: str, *, namespace: str = "") -> dict[str, Any]:
        try:
            return self.store.get(resource.plural, name, namespace=namespace)
        except ApiError as error:
            raise _answered(error) from error

    def create(
        self, resource: Resource, body: Mapping[str, Any], *, namespace: str = "", dry_run: bool = False
    ) -> dict[str, Any]:
        try:
            return self.store.create(resource.plural, body, namespace=namespace, dry_run=dry_run)
        except ApiError as error:
            raise _answered(error) from error

    def replace(
        self, resource: Resource, name: str, body: Mapping[str, Any], **_options: Any
    ) -> dict[str, Any]:
        raise NotImplementedError("nothing is changed here")

    def delete(self, resource: Resource, name: str, **_options: Any) -> dict[str, Any]:
        raise NotImplementedError("nothing is removed here")


def _answered(error: ApiError) -> errors.ClusterError:
    return errors.from_answer(status=error.status_code, body=msgspec.json.encode(error.as_status()))


class ControlPlane:
    """The cluster's side of a world: an API server's store, and controllers that look when they are told
    to."""

    def __init__(self, world: fleets.World) -> None:
        self.store = Store()
        # The queues of controllers ask a running event loop for the time; nothing is ever waited for.
        self._loop = asyncio.Runner()
        self._loop.run(self._begin(world))

    def close(self) -> None:
        self._loop.close()

    async def _begin(self, world: fleets.World) -> None:
        self.store.load([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}])
        self.store.load(fleets.objects(world))
        self.views = Views(self.store)
        self.views.refresh()
        health = NodeHealth(self.views)
        self.generator = ClaimsOfPods(self.views)
        self.scheduler = Scheduler(self.views, self.store.features.with_gates(DEVICE_TAINT_RULES))
        for number in range(len(world.machines)):
            health.sync(f"n{number}")
        for number, holder in enumerate(world.holders):
            self._place(self._holder(f"holder-{number}", holder))

    def _holder(self, name: str, holder: fleets.Holder) -> dict[str, Any]:
        owner = manifests.Owner(key=name, project="others", requester="")
        if holder.what == fleets.UNIT:
            return manifests.probe_pod(
                name=name, namespace=SPACE, owner=owner, image=IMAGE, resource=fleets.UNIT, count=holder.count
            )
        share = (("memory", holder.share),) if holder.share and holder.what == "shared" else ()
        wish = manifests.Wish(device_class=holder.what, count=holder.count, capacity=share)
        spec = manifests.claim_spec(wish)
        claim = manifests.claim(name=name, namespace=SPACE, owner=owner, spec=spec)
        self.store.create("resourceclaims", claim, namespace=SPACE)
        return manifests.hold_pod(claim_name=name, namespace=SPACE, owner=owner, image=IMAGE)

    def place(self, pod: dict[str, Any]) -> tuple[str, str]:
        """Creates a Pod and has the scheduler look at it once: its node ("" = none), and what is said."""

        async def work() -> tuple[str, str]:
            return self._place(pod)

        return self._loop.run(work())

    def _place(self, pod: dict[str, Any]) -> tuple[str, str]:
        name = pod["metadata"]["name"]
        self.store.create("pods", pod, namespace=SPACE)
        self.views.refresh()
        self.generator.sync((SPACE, name))
        self.scheduler.sync((SPACE, name))
        made = self.store.get("pods", name, namespace=SPACE)
        conditions = (made.get("status") or {}).get("conditions") or ()
        said = next((c.get("message", "") for c in conditions if c["type"] == "PodScheduled"), "")
        return made["spec"].get("nodeName", ""), said


class WholeDesk:
    """The desk's side: the mirror of a control plane, people, a catalogue, and what they ask for."""

    def __init__(self, cluster: ControlPlane, world: fleets.World) -> None:
        self.cluster = cluster
        self.mirror = self._mirrored(cluster.store)
        self.user, self.project = self._people()
        self.values = self._served(world)

    # --- the mirror -------------------------------------------------------------------------------

    def _mirrored(self, store: Store) -> Mirror:
        snapshot._cached.clear()
        expressions._cached.clear()
        served = {"resourceclaims": "resource.k8s.io/v1", "devicetaintrules": "resource.k8s.io/v1beta2"}
        cluster = Cluster.objects.create(
            # A number of its own: what is known of a cluster of an earlier world must not be found again.
            pk=next(_clusters),
            name="main", credentials=Cluster.Credentials.KUBECONFIG, created_at=NOW, lease_holder="me",
            server_version=f"v{DEFAULT_VERSION}.2", served=served, state=Cluster.State.SYNCED,
        )  # fmt: skip
        features = features_of(cluster.server_version, served=served)
        writer = Writer(cluster_id=cluster.pk, holder="me", features=features)
        Stream.objects.bulk_create(Stream(cluster=cluster, resource=plural) for plural in writer.resources)
        mirror = Mirror(cluster, writer)
        batches = []
        for kind, plural in MIRRORED.items():
            found = store.list(plural)
            batch = mirror.batch(*found, resource=RESOURCES[kind], checkpoint=str(store.revision))
            batch.present = {item.key: item.uid for item in batch.items}
            batches.append(batch)
        mirror.apply(*batches)
        self.now = mirror.now + timedelta(seconds=5)
        Cluster.objects.update(contacted_at=self.now)
        cluster.refresh_from_db()
        return mirror

    # --- the desk ---------------------------------------------------------------------------------

    def _people(self) -> tuple[User, Project]:
        user = User.objects.create(username="rhea")
        project = Project.objects.create(slug=SPACE, name="Protein folding", created_at=NOW)
        Membership.objects.create(user=user, project=project)
        NamespaceBinding.objects.create(
            cluster=self.mirror.cluster, namespace=SPACE, project=project, valid_from=NOW
        )
        return user, project

    def _served(self, world: fleets.World) -> dict[str, object]:
        """The catalogue, and the ask's values with what everything has."""
        served = world.flavored
        selector = {"pool": served.pool} if served and served.pool else {}
        pods = [{"key": "dedicated", "operator": "Exists"}] if served and served.tolerates else []
        devices = [{"key": fleets.BROKEN, "operator": "Exists"}] if served and served.tolerates_broken else []
        around = {"node_selector": selector, "tolerations": pods, "device_tolerations": devices}
        self._flavor("second", device_class="anything", **around)
        self._flavor("third", device_class="whole", **around)
        values: dict[str, object] = {
            "project": SPACE, "cluster": "main", "duration": "2", "duration_unit": "hours", "purpose": "x",
        }  # fmt: skip
        if served is not None:
            self._flavor(
                "first",
                device_class=served.device_class,
                extended_resource=served.resource,
                stage=served.stage,
                selectors=[served.selector] if served.selector and served.device_class else [],
                **around,
            )
            values["flavor"] = "first"
        ask = dict(world.ask)
        if served is not None and self._by_plugin():
            # The only shape, and none of the options of DRA.
            ask = {"count": ask["count"], "shape": ""}
        return values | ask

    def _flavor(self, slug: str, **columns: Any) -> None:
        made = Flavor.objects.create(
            slug=slug, name=slug, min_duration=HOUR, default_duration=HOUR, max_duration=24 * HOUR,
            created_at=NOW, changed_at=NOW,
        )  # fmt: skip
        Placement.objects.create(flavor=made, cluster=self.mirror.cluster, **columns)

    def _by_plugin(self) -> bool:
        from claims.catalogue.places import choices_of

        placement = Placement.objects.select_related("cluster", "flavor").get(flavor__slug="first")
        return choices_of([placement])[placement.pk].backend == Request.Backend.PLUGIN

    def read(self) -> Reading:
        return asks.read(self.values, user=self.user, now=self.now)

    def preview(self, reading: Reading) -> Preview:
        return preview(reading, prices=price_list(), now=self.now)

    def submitted(self) -> Request:
        """The ask as an accepted request, its claim or template created. Raises UnableToSubmit."""
        client = StoreClient(self.cluster.store)
        request = submit(user=self.user, values=self.values, now=self.now, connect=lambda _cluster: client)
        if request.shape != Request.Shape.ENTITLEMENT:
            submission.create(client, manifest_of(request))
        return request

    def started(self, request: Request) -> tuple[str, str]:
        """The Pod that is to get the devices: the desk's own hold, or the one that people copy."""
        if request.shape == Request.Shape.CLAIM:
            pod = manifests.hold_pod(
                claim_name=request.object_name,
                namespace=request.namespace,
                owner=owner_of(request),
                image=IMAGE,
                node_selector=request.node_selector,
                tolerations=request.tolerations,
            )
        else:
            pod = snippets.pod(use_of(request))
        return self.cluster.place(pod)
