"""Units of Device Plugins in the ledger: who had how many, from when to when, and who pays; and claims that
the scheduler made for extended resources, which count once."""

from collections.abc import Callable
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

import pytest

from claims.ledger import storage
from claims.ledger.fold import Event, fold
from claims.models import Allocation, Consumer, Request, RequestPod
from claims.requests import entitlements
from inventory.models import Cluster, NamespaceBinding, Observation, Pod
from portal.accounts.models import Project
from tests.claims.conftest import NOW
from tests.claims.mirror import observe

Kind = Observation.Kind
UNIT = {"resource": "nvidia.com/gpu", "product": "A100 SXM4 40GB", "replicas": 4, "sharing": "time-slicing"}
RESOURCE = "nvidia.com/gpu"


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def seen(
    cluster: Cluster, kind: str, minutes: float, *, uid: str = "pod-1", name: str = "work", **more: Any
) -> Observation:
    """An observation of a Pod, or of the claim that was made for it."""
    uncertainty = timedelta(minutes=more.pop("uncertainty", 0))
    return Observation.objects.create(
        cluster=cluster,
        kind=kind,
        at=at(minutes),
        source=Observation.Source.CONDITION,
        uncertainty_us=uncertainty // timedelta(microseconds=1),
        observed_at=at(more.pop("observed", minutes)),
        namespace="protein-folding",
        name=name,
        uid=uid,
        facts=more,
        key=f"pod/{uid}/{kind}/{minutes}",
    )


def scheduled(cluster: Cluster, minutes: float = 0, *, count: int = 2, **more: Any) -> Observation:
    facts = {"node": "node-a", "extended": {RESOURCE: count}, "units": [UNIT], **more}
    return seen(cluster, Kind.POD_SCHEDULED, minutes, **facts)


def test_a_pods_units_are_held_from_its_scheduling_until_it_finished(
    cluster: Cluster, project: Project
) -> None:
    scheduled(cluster)
    storage.apply(cluster=cluster)
    row = Allocation.objects.get()
    assert (row.kind, row.units, row.replicas, row.pieces) == ("units", 2, 4, Fraction(1, 2))
    assert (row.extended_resource, row.product, row.node_name) == (RESOURCE, "A100 SXM4 40GB", "node-a")
    assert (row.driver, row.pool_name, row.device_name) == ("nvidia.com", "node-a", "gpu")
    assert (row.started_at, row.ended_at, row.project, row.request) == (NOW, None, project, None)
    seen(cluster, Kind.POD_FINISHED, 60, node="node-a")
    storage.apply(cluster=cluster)
    assert Allocation.objects.get().ended_at == at(60)
    stay = Consumer.objects.get()
    assert (stay.name, stay.uid, stay.left_at) == ("work", "pod-1", at(60))


def test_an_end_in_a_gap_is_bracketed_and_a_clock_ahead_is_not_believed(cluster: Cluster) -> None:
    scheduled(cluster, 30, observed=10)
    seen(cluster, Kind.POD_FINISHED, 90, uncertainty=20)
    storage.apply(cluster=cluster)
    row = Allocation.objects.get()
    assert (row.started_at, row.ended_at) == (at(10), at(70))
    assert row.end_uncertainty_us == 20 * 60 * 1_000_000


def test_what_its_node_is_may_become_known_later(cluster: Cluster) -> None:
    scheduled(cluster, units=[])
    storage.apply(cluster=cluster)
    assert (Allocation.objects.get().product, Allocation.objects.get().replicas) == ("", 1)
    seen(cluster, Kind.POD_DETAILED, 1, units=[UNIT])
    storage.apply(cluster=cluster)
    assert (Allocation.objects.get().product, Allocation.objects.get().replicas) == ("A100 SXM4 40GB", 4)


def test_a_pod_that_was_recorded_for_a_request_is_paid_by_its_project(
    cluster: Cluster, request_: Request, other_project: Project
) -> None:
    """Its namespace is another project's by now, and its label says nothing."""
    NamespaceBinding.objects.filter(namespace="protein-folding").update(project=other_project)
    scheduled(cluster)
    storage.apply(cluster=cluster)
    assert Allocation.objects.get().project == other_project
    pod = Pod(uid="pod-1", name="work", namespace="protein-folding")
    entitlements.remember(cluster=cluster, requests=[request_], pods={str(request_.key): [pod]}, now=at(5))
    row = Allocation.objects.get()
    assert (row.request, row.project) == (request_, request_.project)
    assert RequestPod.objects.count() == 1


@pytest.mark.parametrize("pod_first", [True, False])
def test_a_claim_made_for_extended_resources_counts_once(
    cluster: Cluster, request_: Request, pod_first: bool
) -> None:
    facts: dict[str, Any] = {
        "pod": "pod-1",
        "claim": "claim-1",
        "resources": {"container-0-request-0": RESOURCE},
    }
    device = {"driver": "gpu.nvidia.com", "pool": "node-a", "device": "gpu-0", "product": "A100"}
    pair: list[Callable[[], object]] = [
        lambda: seen(cluster, Kind.EXTENDED_CLAIM, 1, uid="pod-1", **facts),
        lambda: seen(cluster, Kind.EXTENDED_CLAIM, 1, uid="claim-1", **facts),
    ]
    scheduled(cluster, count=1)
    observe(
        request_, Kind.CLAIM_ALLOCATED, 0, uid="claim-1",
        devices=[device | {"request": "container-0-request-0"}],
    )  # fmt: skip
    storage.apply(cluster=cluster)
    assert Allocation.objects.count() == 2
    for tell in pair if pod_first else reversed(pair):
        tell()
        storage.apply(cluster=cluster)
    row = Allocation.objects.get()
    assert (row.kind, row.claim_uid, row.extended_resource) == ("claim", "claim-1", RESOURCE)


def test_other_resources_of_such_a_pod_are_units_still(cluster: Cluster) -> None:
    scheduled(cluster, extended={RESOURCE: 1, "example.com/nic": 3})
    facts: dict[str, Any] = {"pod": "pod-1", "claim": "claim-1", "resources": {"r": RESOURCE}}
    seen(cluster, Kind.EXTENDED_CLAIM, 1, **facts)
    storage.apply(cluster=cluster)
    row = Allocation.objects.get()
    assert (row.extended_resource, row.units, row.product) == ("example.com/nic", 3, "")


@pytest.mark.parametrize(
    "facts",
    [
        {"extended": {}}, {"extended": None}, {"extended": {RESOURCE: 0}}, {"extended": {RESOURCE: -1}},
        {"extended": {RESOURCE: "two"}},
    ],
)  # fmt: skip
def test_what_asks_for_nothing_holds_nothing(cluster: Cluster, facts: dict[str, Any]) -> None:
    scheduled(cluster, **facts)
    storage.apply(cluster=cluster)
    assert not Allocation.objects.exists()


def test_resources_with_long_names_stay_apart() -> None:
    long = "x" * 200 + ".example/"
    event = Event(
        key="k", kind=Kind.POD_SCHEDULED, at=NOW, source="condition", observed_at=NOW, namespace="n",
        name="p", uid="u", facts={"node": "n", "extended": {f"{long}a": 1, f"{long}b": 1}},
    )  # fmt: skip
    found = fold([event]).intervals
    assert len({one.device for one in found}) == 2
    assert all(len(one.device.request) <= 130 and len(one.device.driver) <= 63 for one in found)
    assert {one.extended_resource for one in found} == {f"{long}a", f"{long}b"}
