"""Every rule: on when its condition holds for long enough, off when it ends, unknown when it is not seen."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from claims.models import QuotaObject
from inventory.findings import words
from inventory.findings.registry import BY_KIND, RULES
from inventory.findings.thresholds import Thresholds
from inventory.models import (
    CdiNode,
    Claim,
    ClaimDevice,
    Cluster,
    Device,
    DeviceTaintRule,
    Finding,
    Job,
    MetricQuery,
    MetricSource,
    Namespace,
    Node,
    PlatformChange,
    PlatformContract,
    Pod,
    PodDeviceNode,
    PodDeviceToken,
    PodEvent,
    PodGroup,
    Pool,
    QueuedWorkload,
    ResourceSlice,
    RuleState,
    Twin,
)
from inventory.podresources import tokens as pod_device_tokens
from inventory.telemetry.problems import elsewhere
from portal.accounts.models import Project, User
from tests.inventory_findings.conftest import MINUTE, complete_streams, hear, look, shown
from tests.inventory_pages.factories import (
    bind,
    hold,
    make_class,
    make_cluster,
    make_device,
    make_node,
    make_pool,
    make_profile,
    make_project,
)

pytestmark = pytest.mark.django_db

Cure = Callable[[], object]
# Long enough for every threshold of minutes.
LATER = timedelta(minutes=45)


@dataclass(frozen=True)
class Case:
    """`ail` breaks something on a healthy cluster and returns what puts it right."""

    kind: str
    ail: Callable[[Cluster], Cure]
    # What the sentence must name.
    says: tuple[str, ...]
    # Immediately, or only after some minutes.
    waits: bool = True
    name: str = ""


def pod(cluster: Cluster, name: str = "train-0", **fields: Any) -> Pod:
    defaults: dict[str, Any] = {
        "namespace": "tides",
        "uid": f"uid-{name}",
        "resource_version": "1",
        "phase": "Pending",
        "created_at": timezone.now(),
        "claim_names": {"gpu": f"{name}-gpu"},
    }
    return Pod.objects.create(cluster=cluster, name=name, **(defaults | fields))


def claim(cluster: Cluster, name: str, *, allocated: bool) -> Claim:
    return Claim.objects.create(
        cluster=cluster,
        namespace="tides",
        name=name,
        uid=f"uid-{name}",
        resource_version="1",
        spec={},
        allocated=allocated,
    )


def incomplete(cluster: Cluster) -> Cure:
    pools = Pool.objects.filter(cluster=cluster, name="gpu-01")
    pools.update(complete=False, slices_expected=2)
    return lambda: pools.update(complete=True, slices_expected=1)


def invalid(cluster: Cluster) -> Cure:
    pools = Pool.objects.filter(cluster=cluster, name="gpu-01")
    pools.update(problem="device gpu-0 is published twice")
    return lambda: pools.update(problem="")


def empty(cluster: Cluster) -> Cure:
    return make_pool(cluster, "gpu-01", driver="qat.intel.com").delete


def no_slice(cluster: Cluster) -> Cure:
    return make_node(cluster, "gpu-03", labels={"nvidia.com/gpu.product": "H100"}).delete


def by_plugin(cluster: Cluster) -> Cure:
    return make_node(cluster, "gpu-03", capacity={"nvidia.com/gpu": "8"}).delete


def node_gone(cluster: Cluster) -> Cure:
    Node.objects.filter(cluster=cluster, name="gpu-02").delete()
    return lambda: ResourceSlice.objects.filter(cluster=cluster, node_name="gpu-02").delete()


def node_not_ready(cluster: Cluster) -> Cure:
    nodes = Node.objects.filter(cluster=cluster, name="gpu-02")
    nodes.update(ready=False)
    return lambda: nodes.update(ready=True)


def doubly(cluster: Cluster) -> Cure:
    nodes = Node.objects.filter(cluster=cluster, name="gpu-02")
    nodes.update(capacity={"nvidia.com/gpu": "1"})
    return lambda: nodes.update(capacity={"nvidia.com/gpu": "0"})


def held(cluster: Cluster, pod: str = "train-0") -> Claim:
    device = Device.objects.filter(cluster=cluster).order_by("pk")[0]
    bind(cluster, "tides", make_project("tides"))
    return hold(device, namespace="tides", claim="warm", pod=pod, at=timezone.now())


def deleted(cluster: Cluster) -> Cure:
    leak = held(cluster)
    Claim.objects.filter(pk=leak.pk).update(deleted_at=timezone.now())
    return leak.delete


def unused(cluster: Cluster) -> Cure:
    return held(cluster, pod="").delete


def pod_gone(cluster: Cluster) -> Cure:
    leak = held(cluster)
    Pod.objects.filter(cluster=cluster).delete()
    return leak.delete


def pod_finished(cluster: Cluster) -> Cure:
    leak = held(cluster)
    Pod.objects.filter(cluster=cluster).update(phase="Succeeded")
    return leak.delete


def overlap(cluster: Cluster) -> Cure:
    first = held(cluster)
    device = ClaimDevice.objects.get(claim=first).device
    assert device is not None
    return hold(device, namespace="tides", claim="cold", pod="train-1", at=timezone.now()).delete


def partly(cluster: Cluster) -> Cure:
    for n in range(3):
        pod(cluster, f"train-{n}", owner_kind="Job", owner_name="train", phase="Running", node_name="gpu-01")
        claim(cluster, f"train-{n}-gpu", allocated=n == 0)
    return lambda: Claim.objects.filter(cluster=cluster).update(allocated=True)


def prepare(cluster: Cluster) -> Cure:
    waiting = pod(cluster, node_name="gpu-02")
    PodEvent.objects.create(
        cluster=cluster,
        namespace="tides",
        pod_name=waiting.name,
        pod_uid=waiting.uid,
        reason="FailedPrepareDynamicResources",
        message="no CDI spec",
        last_at=timezone.now() + LATER,
    )
    return lambda: Pod.objects.filter(cluster=cluster).update(phase="Running")


def pending(cluster: Cluster) -> Cure:
    pod(cluster, unschedulable_message="0/2 nodes are available")
    return lambda: Pod.objects.filter(cluster=cluster).update(node_name="gpu-01")


def changed(cluster: Cluster) -> Cure:
    """Changes that are seen to the end of the window: nothing but time cures them."""
    ends = timezone.now() + LATER + MINUTE / 2
    for part, before, after in (
        ("kubelet", ["v1.35.1"], ["v1.36.2"]),
        ("driver:gpu.nvidia.com", ["570.1"], ["580.2"]),
    ):
        PlatformChange.objects.create(
            cluster=cluster, part=part, before=before, after=after, seen_at=ends - Thresholds().change_window
        )
    return lambda: None


def broken(cluster: Cluster) -> Cure:
    contracts(cluster, kubernetes=">=1.37")
    return lambda: PlatformContract.objects.update(kubernetes="1.36")


def contracts(cluster: Cluster, **terms: str) -> PlatformContract:
    writer, _made = User.objects.get_or_create(username="ada")
    return PlatformContract.objects.create(
        cluster=cluster, changed_at=timezone.now(), changed_by=writer, **terms
    )


def taint(effect: str = "NoExecute", *, age: timedelta = timedelta(0), key: str = "xid") -> dict[str, str]:
    at = (timezone.now() - age).isoformat()
    return {"key": f"gpu.nvidia.com/{key}", "value": "43", "effect": effect, "timeAdded": at}


def fault(cluster: Cluster) -> Cure:
    devices = Device.objects.filter(cluster=cluster, node_name="gpu-02")
    devices.update(taints=[taint()])
    return lambda: devices.update(taints=[])


def unhealthy(cluster: Cluster) -> Cure:
    bad = {"device": "gpu.nvidia.com/gpu-01/gpu-0", "health": "Unhealthy"}
    sick = pod(cluster, node_name="gpu-01", phase="Running", device_health=[bad])
    return sick.delete


def old_taint(cluster: Cluster) -> Cure:
    devices = Device.objects.filter(cluster=cluster, node_name="gpu-02")
    devices.update(taints=[taint("NoSchedule", age=timedelta(days=2), key="maintenance")])
    return lambda: devices.update(taints=[])


def old_rule(cluster: Cluster) -> Cure:
    rule = DeviceTaintRule.objects.create(
        cluster=cluster,
        name="power-cut",
        uid="rule-1",
        resource_version="1",
        selects=True,
        key="example.org/power",
        effect="NoSchedule",
        added_at=timezone.now() - timedelta(days=2),
        spec={},
    )
    return rule.delete


def class_missing(cluster: Cluster) -> Cure:
    other = make_cluster("oslo", heard_at=timezone.now() + LATER, contacted_at=timezone.now() + LATER)
    contracts(cluster, group="europe")
    contracts(other, group="europe")
    return make_class(other, "a100-80g").delete


def admin_access(cluster: Cluster) -> Cure:
    made = Namespace.objects.create(
        cluster=cluster, name="monitoring", uid="ns-1", resource_version="1", admin_access=True
    )
    return made.delete


def unbound(cluster: Cluster) -> Cure:
    pod(cluster, node_name="gpu-01", phase="Running", claim_names={}, extended_resources={"amd.com/gpu": 2})
    return lambda: bind(cluster, "tides", make_project("tides"))


def strayed(cluster: Cluster) -> Cure:
    labels = {"claimdesk.io/request": "5a1f", "claimdesk.io/role": "hold"}
    copied = pod(cluster, "copied", node_name="gpu-01", phase="Running", claim_names={}, labels=labels)
    return copied.delete


def changed_by_others(cluster: Cluster) -> Cure:
    row = QuotaObject.objects.create(
        cluster=cluster,
        project=Project.objects.create(slug="changed", name="Changed", created_at=timezone.now()),
        namespace="tides", name="claimdesk-entitled", state=QuotaObject.State.DRIFT,
        message="It was deleted.",
    )  # fmt: skip

    def mend() -> None:
        QuotaObject.objects.filter(pk=row.pk).update(state=QuotaObject.State.WRITTEN)

    return mend


def tells(cluster: Cluster, *, source: str = "podresources", **fields: Any) -> PodDeviceNode:
    """gpu-01 told three quarters of an hour ago which of its Pods has which device."""
    now = timezone.now()
    defaults = {"received_at": now - LATER, "interval_seconds": 300, "created_at": now}
    return PodDeviceNode.objects.create(cluster=cluster, name="gpu-01", source=source, **(defaults | fields))


def with_token(node: PodDeviceNode) -> PodDeviceNode:
    pod_device_tokens.issue(cluster=node.cluster, node_name=node.name, actor=None, now=timezone.now())
    return node


def fell_silent(cluster: Cluster) -> Cure:
    node = with_token(tells(cluster))
    later = timezone.now() + LATER
    return lambda: PodDeviceNode.objects.filter(pk=node.pk).update(received_at=later)


def refused(cluster: Cluster) -> Cure:
    node = with_token(tells(cluster, refused_at=timezone.now(), refusal="clock_ahead"))
    return lambda: PodDeviceNode.objects.filter(pk=node.pk).update(refused_at=None, refusal="")


def told_elsewhere(cluster: Cluster) -> Cure:
    source = MetricSource.objects.create(
        cluster=cluster, url="https://metrics.example.org", changed_at=timezone.now()
    )
    problem = elsewhere(2, name="GPU-8a10b6f7", node="gpu-01", told="gpu-02:9400")
    rows = MetricQuery.objects.filter(
        pk=MetricQuery.objects.create(
            source=source, kind=MetricQuery.Kind.USE, name="DCGM", expression="up", problem=problem.as_json()
        ).pk
    )
    return lambda: rows.update(problem=None)


CASES = (
    Case("pool-incomplete", incomplete, ("gpu-01", "1", "2")),
    Case("pool-invalid", invalid, ("published twice",), waits=False),
    Case("pool-empty", empty, ("qat.intel.com",)),
    Case("hardware-without-slice", no_slice, ("gpu-03", "NVIDIA")),
    Case("hardware-without-slice", by_plugin, ("nvidia.com/gpu: 8",), name="by-plugin"),
    Case("slice-abandoned", node_gone, ("gpu-02", "does not exist"), name="node-gone"),
    Case("slice-abandoned", node_not_ready, ("gpu-02", "not ready"), name="not-ready"),
    Case("doubly-managed", doubly, ("gpu-02", "nvidia.com/gpu: 1")),
    Case("claim-leaked", deleted, ("tides/warm", "deleted"), name="deleted"),
    Case("claim-leaked", unused, ("tides/warm", "nothing reserves"), name="unused"),
    Case("claim-leaked", pod_gone, ("tides/warm", "train-0"), name="pod-gone"),
    Case("claim-leaked", pod_finished, ("tides/warm", "finished"), name="pod-finished"),
    Case("overlap", overlap, ("tides/warm", "tides/cold"), waits=False),
    Case("partly-allocated", partly, ("Job tides/train", "1", "3")),
    Case("prepare-failed", prepare, ("gpu-02", "no CDI spec"), waits=False),
    Case("long-pending", pending, ("0/2 nodes",)),
    Case("changed-together", changed, ("kubelet", "580.2"), waits=False),
    Case("contract-broken", broken, (">=1.37", "v1.36.2")),
    Case("health-fault", fault, ("gpu.nvidia.com/xid=43:NoExecute",), waits=False),
    Case("device-unhealthy", unhealthy, ("gpu.nvidia.com/gpu-01/gpu-0", "tides/train-0"), waits=False),
    Case("taint-old", old_taint, ("maintenance",), waits=False),
    Case("taint-rule-old", old_rule, ("power-cut", "NoSchedule"), waits=False),
    Case("pod-devices-silent", fell_silent, ("gpu-01", "the kubelet")),
    Case("pod-devices-refused", refused, ("gpu-01", "clock is minutes ahead")),
    Case("metrics-elsewhere", told_elsewhere, ("DCGM", "GPU-8a10b6f7 is on gpu-01", "gpu-02:9400")),
    Case("class-missing", class_missing, ("a100-80g", "oslo")),
    Case("admin-access", admin_access, ("monitoring",), waits=False),
    Case("namespace-unbound", unbound, ("tides", "2"), waits=False),
    Case("stray-object", strayed, ("tides/copied", "5a1f")),
    Case("object-changed", changed_by_others, ("tides/claimdesk-entitled", "was deleted"), waits=False),
)


def _id(value: Any) -> str:
    return f"{value.kind}-{value.name}".strip("-") if isinstance(value, Case) else str(value)


each = pytest.mark.parametrize("case", CASES, ids=_id)


def test_every_rule_has_a_case() -> None:
    # CDI has a history of its own: see `test_cdi`.
    assert {case.kind for case in CASES} | {"cdi-drift"} == {rule.kind for rule in RULES}


def test_a_healthy_cluster_has_no_finding(healthy: Cluster) -> None:
    look(healthy)
    look(healthy, after=LATER)
    assert not Finding.objects.exists()
    assert not RuleState.objects.exclude(unknown_since=None).exists()


@each
def test_it_is_found_once_it_has_lasted(case: Case, healthy: Cluster) -> None:
    case.ail(healthy)
    look(healthy)
    assert bool(shown(case.kind)) is not case.waits
    look(healthy, after=LATER)
    (finding,) = shown(case.kind)
    said = words.in_words(finding)
    assert all(word in said for word in case.says), said
    assert "–" not in said.replace(" – ", "")  # every parameter is there
    assert finding.last_seen_at > finding.first_seen_at


@each
def test_it_is_resolved_and_kept_when_it_ends(case: Case, healthy: Cluster) -> None:
    cure = case.ail(healthy)
    look(healthy)
    look(healthy, after=LATER)
    cure()
    ended = look(healthy, after=LATER + MINUTE)
    assert shown(case.kind) == []
    assert Finding.objects.get(kind=case.kind).resolved_at == ended


@pytest.mark.parametrize("case", [case for case in CASES if case.waits], ids=_id)
def test_what_ends_before_it_counts_leaves_no_trace(case: Case, healthy: Cluster) -> None:
    cure = case.ail(healthy)
    look(healthy)
    cure()
    look(healthy, after=MINUTE)
    assert not Finding.objects.filter(kind=case.kind).exists()


SEEN = [(case, resource) for case in CASES for resource in BY_KIND[case.kind].needs]


@pytest.mark.parametrize(("case", "resource"), SEEN, ids=_id)
def test_it_is_unknown_while_not_observed(case: Case, resource: str, healthy: Cluster) -> None:
    cure = case.ail(healthy)
    look(healthy)
    found = look(healthy, after=LATER)
    healthy.streams.filter(resource=resource).update(state="not-permitted")
    cure()
    look(healthy, after=LATER + MINUTE)
    (finding,) = shown(case.kind)
    assert finding.unknown_since is not None
    assert finding.unknown_since >= found
    state = RuleState.objects.get(cluster=healthy, kind=case.kind)
    assert state.missing == resource

    healthy.streams.filter(resource=resource).update(state="watching")
    look(healthy, after=LATER + 2 * MINUTE)
    assert shown(case.kind) == []


@pytest.mark.parametrize("case", [case for case in CASES if BY_KIND[case.kind].needs], ids=_id)
def test_nothing_new_is_found_that_is_not_observed(case: Case, healthy: Cluster) -> None:
    needs = BY_KIND[case.kind].needs
    healthy.streams.filter(resource=needs[0]).update(listed_at=None)
    case.ail(healthy)
    look(healthy)
    look(healthy, after=LATER)
    assert shown(case.kind) == []


@pytest.mark.parametrize(
    "change",
    [
        {"enabled": False},
        {"state": Cluster.State.UNREACHABLE},
        {"state": Cluster.State.REFUSED},
        {"contacted_at": None},
    ],
    ids=str,
)
def test_a_cluster_that_is_not_followed_resolves_nothing(change: dict[str, Any], healthy: Cluster) -> None:
    cure = fault(healthy)
    look(healthy)
    Cluster.objects.filter(pk=healthy.pk).update(**change)
    cure()
    look(healthy, after=MINUTE, seen=False)
    (finding,) = shown("health-fault")
    assert finding.unknown_since is not None


def test_a_silent_watch_resolves_nothing(healthy: Cluster) -> None:
    cure = fault(healthy)
    look(healthy)
    cure()
    Cluster.objects.filter(pk=healthy.pk).update(contacted_at=timezone.now() + LATER)
    look(healthy, after=LATER, seen=False)
    (finding,) = shown("health-fault")
    assert finding.unknown_since is not None


def test_what_a_cluster_does_not_serve_is_not_unknown(healthy: Cluster) -> None:
    healthy.streams.filter(resource="devicetaintrules").update(state="not-served", listed_at=None)
    look(healthy)
    assert not RuleState.objects.exclude(unknown_since=None).exists()


def test_what_a_cluster_serves_no_longer_resolves_nothing(healthy: Cluster) -> None:
    old_rule(healthy)
    look(healthy)
    healthy.streams.filter(resource="devicetaintrules").update(state="not-served")
    look(healthy, after=MINUTE)
    (finding,) = shown("taint-rule-old")
    assert finding.unknown_since is not None


# --- what is no finding ------------------------------------------------------------------------------


def test_admin_access_overlaps_with_nobody(healthy: Cluster) -> None:
    first = held(healthy)
    device = ClaimDevice.objects.get(claim=first).device
    assert device is not None
    hold(device, namespace="tides", claim="probe", pod="probe", at=timezone.now(), admin_access=True)
    look(healthy)
    assert shown("overlap") == []


def test_shares_of_one_device_do_not_overlap_until_somebody_has_it_whole(healthy: Cluster) -> None:
    device = Device.objects.filter(cluster=healthy).order_by("pk")[0]
    for n in range(2):
        hold(device, namespace="tides", claim=f"part-{n}", pod=f"p-{n}", at=timezone.now(), share_id=f"s{n}")
    look(healthy)
    assert shown("overlap") == []
    hold(device, namespace="tides", claim="whole", pod="p-9", at=timezone.now())
    look(healthy, after=MINUTE)
    assert len(shown("overlap")) == 1


@pytest.mark.parametrize(
    "labels", [{"nvidia.com/gpu.present": "false"}, {"nvidia.com/gpu.deploy.dcgm": "true"}]
)
def test_labels_that_deny_hardware_are_believed(labels: dict[str, str], healthy: Cluster) -> None:
    make_node(healthy, "cpu-01", labels=labels)
    look(healthy)
    look(healthy, after=LATER)
    assert shown("hardware-without-slice") == []


def test_hardware_without_a_driver_of_its_vendor_anywhere_is_none_of_our_business(healthy: Cluster) -> None:
    make_node(healthy, "amd-01", labels={"amd.com/gpu.product-name": "Instinct_MI210"})
    look(healthy)
    look(healthy, after=LATER)
    assert shown("hardware-without-slice") == []


def test_a_channel_driver_does_not_stand_for_the_hardware(healthy: Cluster) -> None:
    make_node(healthy, "gpu-03", labels={"feature.node.kubernetes.io/pci-0302_10de.present": "true"})
    make_device(
        healthy, "channel-0", node="gpu-03", profile=make_profile("IMEX", driver="compute-domain.nvidia.com")
    )
    look(healthy)
    look(healthy, after=LATER)
    assert [finding.name for finding in shown("hardware-without-slice")] == ["gpu-03"]


def test_replicas_of_a_deployment_may_wait_for_each_other(healthy: Cluster) -> None:
    partly(healthy)
    Pod.objects.filter(cluster=healthy).update(owner_kind="ReplicaSet")
    look(healthy)
    look(healthy, after=LATER)
    assert shown("partly-allocated") == []


def twins(cluster: Cluster) -> tuple[Device, Device]:
    """The GPU of gpu-01 as a second driver publishes it."""
    first = Device.objects.get(cluster=cluster, node_name="gpu-01")
    second = make_device(
        cluster,
        "vfio-0",
        profile=make_profile("the same", driver="vfio.example.com"),
        identity=first.identity,
    )
    for device in (first, second):
        Twin.objects.create(cluster=cluster, device=device, piece=first.pk, counts=device == first)
    return first, second


def test_hardware_that_is_held_under_two_names_is_an_overlap(healthy: Cluster) -> None:
    first, second = twins(healthy)
    bind(healthy, "tides", make_project("tides"))
    hold(first, namespace="tides", claim="warm", pod="a")
    look(healthy)
    assert shown("overlap") == []

    other = hold(second, namespace="tides", claim="cold", pod="b")
    look(healthy, after=MINUTE)
    (finding,) = shown("overlap")
    said = words.in_words(finding)
    for text in ("gpu.nvidia.com/gpu-01/gpu-0", "vfio.example.com/gpu-01/vfio-0", "tides/warm", "tides/cold"):
        assert text in said
    assert finding.object_kind == "device"

    # Who only looks holds nothing.
    other.devices.update(admin_access=True)
    look(healthy, after=2 * MINUTE)
    assert shown("overlap") == []


def test_hardware_that_two_drivers_publish_is_doubly_managed(healthy: Cluster) -> None:
    twins(healthy)
    look(healthy)
    assert shown("doubly-managed") == []
    look(healthy, after=LATER)
    (finding,) = shown("doubly-managed")
    said = words.in_words(finding)
    assert "gpu.nvidia.com, vfio.example.com publish the same hardware of gpu-01 (pieces: 1)" in said

    Twin.objects.all().delete()
    look(healthy, after=LATER + MINUTE)
    assert shown("doubly-managed") == []


def test_one_driver_that_offers_hardware_in_two_modes_manages_it_once(healthy: Cluster) -> None:
    first = Device.objects.get(cluster=healthy, node_name="gpu-01")
    second = make_device(healthy, "vfio-0", pool=first.pool, profile=first.profile)
    for device in (first, second):
        Twin.objects.create(cluster=healthy, device=device, piece=first.pk, counts=device == first)
    look(healthy)
    look(healthy, after=LATER)
    assert shown("doubly-managed") == []


def test_shares_of_one_piece_under_two_names_do_not_overlap(healthy: Cluster) -> None:
    for number, device in enumerate(twins(healthy)):
        hold(device, namespace="tides", claim=f"part-{number}", pod=f"p{number}", share_id=f"share-{number}")
    look(healthy)
    assert shown("overlap") == []


def mirrored(name: str, **fields: Any) -> dict[str, Any]:
    return {"namespace": "tides", "name": name, "uid": f"uid-{name}", "resource_version": "1"} | fields


def test_pods_of_a_jobset_belong_together(healthy: Cluster) -> None:
    for n in range(2):
        Job.objects.create(
            cluster=healthy,
            **mirrored(f"part-{n}", owner_kind="JobSet", owner_name="big", owner_uid="uid-big"),
        )
        pod(healthy, f"part-{n}-0", owner_kind="Job", owner_name=f"part-{n}", owner_uid=f"uid-part-{n}")
        claim(healthy, f"part-{n}-0-gpu", allocated=n == 0)
    look(healthy)
    look(healthy, after=LATER)
    assert [found.subject for found in shown("partly-allocated")] == ["tides/JobSet/big"]
    # Pods wait for a node, too: for the same work.
    assert [found.subject for found in shown("long-pending")] == ["tides/JobSet/big"]


def test_what_kueue_admits_as_one_belongs_together(healthy: Cluster) -> None:
    partly(healthy)
    Pod.objects.filter(cluster=healthy).update(owner_uid="uid-train")
    QueuedWorkload.objects.create(
        cluster=healthy,
        **mirrored(
            "job-train", owner_kind="Job", owner_name="train", owner_uid="uid-train", state="admitted"
        ),
    )
    look(healthy)
    look(healthy, after=LATER)
    (finding,) = shown("partly-allocated")
    assert finding.subject == "tides/Workload/job-train"
    assert "Workload tides/job-train has 1 of the 3 claims" in words.in_words(finding)


def test_a_group_has_enough_once_its_least_number_of_pods_has_devices(healthy: Cluster) -> None:
    partly(healthy)
    # Whatever owns them: in a group even replicas belong together.
    Pod.objects.filter(cluster=healthy).update(pod_group="gang", owner_kind="ReplicaSet")
    PodGroup.objects.create(
        cluster=healthy, **mirrored("gang", min_count=2, claim_names={"fabric": "fabric-claim"})
    )
    claim(healthy, "fabric-claim", allocated=True)
    look(healthy)
    look(healthy, after=LATER)
    (finding,) = shown("partly-allocated")
    assert (finding.subject, finding.params["held"], finding.params["wanted"]) == (
        "tides/PodGroup/gang",
        2,
        4,
    )

    Claim.objects.filter(name="train-1-gpu").update(allocated=True)
    look(healthy, after=LATER + MINUTE)
    assert shown("partly-allocated") == []


def test_pods_of_one_job_that_wait_are_one_finding(healthy: Cluster) -> None:
    for n in range(20):
        pod(healthy, f"train-{n}", owner_kind="Job", owner_name="train")
    look(healthy, after=LATER)
    (finding,) = shown("long-pending")
    assert finding.params["pods"] == 20
    assert "no scheduler has said why" in words.in_words(finding)


def test_what_a_queue_holds_back_is_only_worth_knowing(healthy: Cluster) -> None:
    pod(healthy, unschedulable_message="Scheduling is blocked due to non-empty scheduling gates")
    look(healthy, after=LATER)
    assert [finding.severity for finding in shown("long-pending")] == ["info"]


def test_one_part_that_changes_in_steps_is_one_part(healthy: Cluster) -> None:
    for before, after in ((["v1.35.1"], ["v1.35.1", "v1.36.2"]), (["v1.35.1", "v1.36.2"], ["v1.36.2"])):
        PlatformChange.objects.create(
            cluster=healthy, part="kubelet", before=before, after=after, seen_at=timezone.now()
        )
    look(healthy)
    assert shown("changed-together") == []


def test_a_planned_taint_is_no_fault(healthy: Cluster) -> None:
    Device.objects.filter(node_name="gpu-02").update(taints=[taint("NoExecute", key="maintenance")])
    look(healthy)
    assert shown("health-fault") == []


def test_a_class_is_not_missed_after_a_cluster_that_is_not_seen(healthy: Cluster) -> None:
    class_missing(healthy)
    Cluster.objects.filter(name="oslo").update(enabled=False)
    look(healthy)
    look(healthy, after=LATER)
    assert shown("class-missing") == []


def test_namespaces_that_only_look_are_charged_nothing(healthy: Cluster) -> None:
    device = Device.objects.filter(cluster=healthy).order_by("pk")[0]
    hold(device, namespace="monitoring", claim="probe", at=timezone.now(), admin_access=True)
    look(healthy)
    assert shown("namespace-unbound") == []


# --- devices of Pods -------------------------------------------------------------------------------


def silent_nodes(cluster: Cluster) -> list[str]:
    look(cluster)
    look(cluster, after=LATER)
    return [finding.subject for finding in shown("pod-devices-silent")]


def test_a_collector_that_is_being_set_up_is_not_silent(healthy: Cluster) -> None:
    with_token(tells(healthy, received_at=None))
    assert silent_nodes(healthy) == []


def test_a_collector_whose_tokens_are_revoked_is_given_up(healthy: Cluster) -> None:
    with_token(tells(healthy, refused_at=timezone.now(), refusal="malformed"))
    PodDeviceToken.objects.update(revoked_at=timezone.now())
    assert silent_nodes(healthy) == []
    assert shown("pod-devices-refused") == []


def test_a_node_that_is_gone_is_not_silent(healthy: Cluster) -> None:
    with_token(tells(healthy))
    Node.objects.filter(name="gpu-01").delete()
    assert silent_nodes(healthy) == []


def test_what_is_refused_is_not_silent_too(healthy: Cluster) -> None:
    refused(healthy)
    assert silent_nodes(healthy) == []


def test_metrics_fall_silent_only_while_they_answer(healthy: Cluster) -> None:
    tells(healthy, source="dcgm")
    assert silent_nodes(healthy) == []
    source = MetricSource.objects.create(
        cluster=healthy, url="https://metrics.example.org", changed_at=timezone.now(), problem={"code": "x"}
    )
    MetricQuery.objects.create(source=source, kind=MetricQuery.Kind.PODS, name="Pods", expression="up")
    look(healthy, after=LATER + MINUTE)
    assert shown("pod-devices-silent") == []
    MetricSource.objects.update(problem=None)
    look(healthy, after=LATER + 2 * MINUTE)
    look(healthy, after=2 * LATER)
    (finding,) = shown("pod-devices-silent")
    assert "metrics of the DCGM exporter" in words.in_words(finding)


# --- CDI ---------------------------------------------------------------------------------------------


def test_cdi(healthy: Cluster) -> None:
    """Drift is a finding while the report is fresh, and unknown once it is overdue."""
    now = timezone.now()
    node = CdiNode.objects.create(
        cluster=healthy,
        name="gpu-01",
        created_at=now,
        received_at=now,
        sent_at=now,
        reporting_since=now,
        interval_seconds=60,
        directories=[{"path": "/etc/cdi", "state": "read", "uid": 0, "gid": 0, "mode": 0o777}],
        runtime={"name": "containerd", "version": "2.1.4", "enable_cdi": True, "spec_dirs": ["/etc/cdi"]},
    )
    look(healthy)
    (finding,) = shown("cdi-drift")
    assert "/etc/cdi" in words.in_words(finding)

    look(healthy, after=LATER)
    finding.refresh_from_db()
    assert finding.unknown_since is not None

    late = timezone.now() + LATER
    node.received_at = node.sent_at = late
    node.directories[0]["mode"] = 0o755
    node.save()
    look(healthy, after=LATER + MINUTE)
    assert shown("cdi-drift") == []


def test_rules_of_one_cluster_do_not_see_another(healthy: Cluster) -> None:
    other = make_cluster("oslo")
    complete_streams(other)
    fault(healthy)
    hear(other, timezone.now())
    look(other)
    assert shown("health-fault") == []
