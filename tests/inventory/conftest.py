"""A cluster row and a writer for it, fed with objects directly."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inventory.browse_counts import counts_of
from inventory.follow.discovery import CORE
from inventory.mirror.batches import Batch, Gap, Item, Unreadable
from inventory.mirror.decoding import item_of
from inventory.mirror.writer import Writer
from inventory.models import Cluster, Device, Observation, Stream
from portal.dra.features import Features
from portal.kube.resources import (
    CLUSTER_QUEUES,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    LOCAL_QUEUES,
    POD_GROUPS,
    QUEUED_WORKLOADS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_FLAVORS,
    RESOURCE_SLICES,
    SCHEDULING_WORKLOADS,
    Resource,
)
from tests.inventory.objects import Json

NOW = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)
KUEUE = (CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, QUEUED_WORKLOADS)
# Two groups know a Workload; here it is Kueue's unless a batch says otherwise.
RESOURCES_OF_GROUPS: dict[str, Resource] = {
    resource.kind: resource for resource in (SCHEDULING_WORKLOADS, POD_GROUPS, *KUEUE)
}
RESOURCES: dict[str, Resource] = {
    resource.kind: resource
    for resource in (
        *CORE.values(),
        *(RESOURCE_SLICES, DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES),
        DEVICE_TAINT_RULES,
    )
}


@dataclass
class Mirror:
    """Feeds objects to a writer as streams would, a second later each time."""

    cluster: Cluster
    writer: Writer
    now: datetime = NOW
    given: list[Batch] = field(default_factory=list)

    def batch(self, *objects: Json, deleted: bool = False, **more: Any) -> Batch:
        """Objects of one kind as a batch."""
        import msgspec

        resource = more.pop("resource", None) or (RESOURCES | RESOURCES_OF_GROUPS)[objects[0]["kind"]]
        if version := more.pop("version", ""):
            resource = replace(resource, api_version=f"{resource.group}/{version}")
        items: list[Item] = []
        bad: list[Unreadable] = []
        for obj in objects:
            named = item_of(msgspec.json.encode(obj), resource=resource, deleted=deleted)
            if isinstance(named, Unreadable):
                bad.append(named)
            else:
                items.append(named)
        return Batch(resource=resource, received_at=self.now, items=items, unreadable=bad, **more)

    def see(self, *objects: Json, deleted: bool = False, since: datetime | None = None, **more: Any) -> int:
        """These objects (of one kind) were added or changed, as told by a watch."""
        self.now += timedelta(seconds=1)
        checkpoint = objects[-1]["metadata"]["resourceVersion"]
        batch = self.batch(*objects, deleted=deleted, since=since, checkpoint=checkpoint, **more)
        return self.apply(batch)

    def lists(self, *objects: Json, kind: str, since: datetime | None = None, gap: Gap | None = None) -> int:
        """A completed list with exactly these objects."""
        self.now += timedelta(seconds=1)
        batch = self.batch(*objects, resource=RESOURCES[kind], since=since, checkpoint="5000", gap=gap)
        batch.present = {item.key: item.uid for item in batch.items}
        return self.apply(batch)

    def wait(self, seconds: float) -> int:
        """Nothing happens on the cluster for a while."""
        self.now += timedelta(seconds=seconds)
        appended = self.writer.settle(now=self.now)
        self.check_counts()
        return appended

    def apply(self, *batches: Batch) -> int:
        appended = self.writer.apply(batches)
        self.check_counts()
        return appended

    def check_counts(self) -> None:
        """Whatever the writer does, what is remembered of the fleet is never older than its devices."""
        cluster = Cluster.objects.get(pk=self.cluster.pk)
        counted = {(*kind, state, health): n for *kind, state, health, n in counts_of([cluster])}
        columns = ("profile_id", "cluster_id", "state", "health")
        assert counted == Counter(Device.objects.filter(cluster=cluster).values_list(*columns))

    def observed(self, *kinds: str) -> Sequence[Observation]:
        """Observations of these kinds (none: all), in order."""
        found = Observation.objects.filter(cluster=self.cluster).order_by("id")
        return list(found.filter(kind__in=kinds) if kinds else found)


@pytest.fixture
def cluster(db: None) -> Cluster:
    return Cluster.objects.create(
        name="alpha",
        credentials=Cluster.Credentials.KUBECONFIG,
        created_at=NOW,
        lease_holder="me",
        server_version="v1.36.2",
    )


@pytest.fixture
def mirror(cluster: Cluster) -> Mirror:
    writer = Writer(cluster_id=cluster.pk, holder="me", features=Features.for_version("1.36"))
    Stream.objects.bulk_create(Stream(cluster=cluster, resource=plural) for plural in writer.resources)
    return Mirror(cluster, writer)
