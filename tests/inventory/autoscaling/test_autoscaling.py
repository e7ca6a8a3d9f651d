"""What autoscalers say: read in every form, bounded, optional, and told with its source and age."""

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inventory.autoscaling import objects, reading, status
from inventory.autoscaling.groups import Group, Unreadable
from inventory.autoscaling.told import Report, report_for, reports_of
from inventory.models import AutoscalerReport, Cluster
from portal.kube.errors import Forbidden, NotFound, Unreachable

NOW = datetime(2026, 11, 10, 12, tzinfo=UTC)
State = AutoscalerReport.State

YAML = """
time: 2026-11-10 11:59:30.123456789 +0000 UTC
autoscalerStatus: Running
clusterWide: {health: {status: Healthy}}
nodeGroups:
- name: eks-gpu-a100-7ab2
  health:
    status: Healthy
    nodeCounts: {registered: {total: 2, ready: 2, unready: {total: 0}}}
    cloudProviderTarget: 3
    minSize: 0
    maxSize: 8
    lastProbeTime: "2026-11-10T11:59:30Z"
  scaleUp: {status: InProgress}
- name: spot
  health: {nodeCounts: {registered: {total: 0}}, cloudProviderTarget: 0, minSize: 0, maxSize: 4}
  scaleUp:
    status: Backoff
    backoffInfo: {errorCode: QUOTA_EXCEEDED, errorMessage: "Quota 'GPUS' exceeded"}
"""
LINES = """Cluster-autoscaler status at 2026-11-10 11:58:00.5 +0000 UTC:
Cluster-wide:
  Health:      Healthy (ready=5 unready=0 notStarted=0 longNotStarted=0 registered=5 longUnregistered=0)
               LastProbeTime:      2026-11-10 11:58:00 +0000 UTC m=+12.3
  ScaleUp:     NoActivity (ready=5 registered=5)

NodeGroups:
  Name:        https://compute.example.org/zones/b/instanceGroups/gke-gpu-l4-grp
  Health:      Healthy (ready=1 unready=0 (x=0) registered=1 cloudProviderTarget=2 (minSize=1, maxSize=10))
  ScaleUp:     NoActivity (ready=1 cloudProviderTarget=2)
  ScaleDown:   NoCandidates (candidates=0)

  Name:        spot
  Health:      Unhealthy (ready=0 registered=0 cloudProviderTarget=0 (minSize=0, maxSize=4))
  ScaleUp:     Backoff (ready=0 cloudProviderTarget=0)
"""
MACHINES = {
    "metadata": {
        "namespace": "fleet", "name": "gpu-l40",
        "annotations": {
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "0",
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "5",
            "capacity.cluster-autoscaler.kubernetes.io/gpu-type": "nvidia.com/gpu",
            "capacity.cluster-autoscaler.kubernetes.io/gpu-count": "4",
            "capacity.cluster-autoscaler.kubernetes.io/labels": "pool=l40,zone=b",
        },
    },
    "spec": {"replicas": 1}, "status": {"replicas": 1},
}  # fmt: skip
NODE_POOL = {
    "metadata": {"name": "gpu"},
    "spec": {"template": {"metadata": {"labels": {"team": "ml"}}}, "limits": {"nodes": "6", "cpu": "1k"}},
    "status": {
        "resources": {"nodes": "2"},
        "conditions": [{"type": "Ready", "status": "False", "message": "no NodeClass"}],
    },
}


def config_map(text: object) -> dict[str, Any]:
    return {"data": {"status": text}}


def test_the_status_of_today_is_read() -> None:
    (first, second), written = status.read(config_map(YAML))
    assert first == Group(name="eks-gpu-a100-7ab2", maximum=8, current=2, target=3)
    assert (first.more, second.more, second.stuck) == (5, 4, "Quota 'GPUS' exceeded")
    assert written == datetime(2026, 11, 10, 11, 59, 30, tzinfo=UTC)


def test_the_status_of_before_is_read() -> None:
    (first, second), written = status.read(config_map(LINES))
    assert (first.short_name, first.minimum, first.maximum, first.current, first.target) == (
        "gke-gpu-l4-grp", 1, 10, 1, 2,
    )  # fmt: skip
    assert (second.name, second.maximum, second.stuck) == ("spot", 4, "Backoff")
    assert written == datetime(2026, 11, 10, 11, 58, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        None, 7, "", "\0", "nodeGroups: [", "just words", "[1, 2]",
        "autoscalerStatus: Running\nnodeGroups: 7", "a: &a [x]\nautoscalerStatus: *a",
        "[" * 5_000, "x" * 1_100_000,
    ],
)  # fmt: skip
def test_what_is_no_status_is_unreadable_and_nothing_worse(text: object) -> None:
    with pytest.raises(Unreadable):
        status.read(config_map(text))


def test_odd_values_are_bounded_and_cleaned() -> None:
    groups = "".join(
        f'- {{name: "g{n}\\0\\uD800", health: {{minSize: -1, maxSize: 1e30, cloudProviderTarget: yes}}}}\n'
        for n in range(600)
    )
    found, written = status.read(config_map(f"autoscalerStatus: Running\ntime: never\nnodeGroups:\n{groups}"))
    assert (len(found), written) == (500, None)
    assert found[0] == Group(name="g0")
    assert status.read(config_map("autoscalerStatus: Running\n"))[0] == []


def test_machine_deployments_and_node_pools_are_read() -> None:
    plain = {"metadata": {"name": "fixed"}, "spec": {"replicas": 3}}
    (group,) = objects.of_machine_deployments([MACHINES, plain, {}, {"metadata": {"annotations": 7}}])
    assert group == Group(
        name="MachineDeployment/fleet/gpu-l40", maximum=5, current=1, target=1,
        labels={"pool": "l40", "zone": "b"}, resource="nvidia.com/gpu", units=4,
    )  # fmt: skip
    (pool,) = objects.of_node_pools([NODE_POOL, {}])
    assert pool == Group(
        name="gpu", maximum=6, current=2, stuck="no NodeClass",
        labels={"team": "ml", "karpenter.sh/nodepool": "gpu"},
    )  # fmt: skip


# --- reading --------------------------------------------------------------------------------------


class FakeReader:
    """Answers with what is in it, and raises what is an error."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def get(self, resource: Any, name: str, *, namespace: str = "") -> dict[str, Any]:
        self.asked.append(f"{namespace}/{resource.plural}/{name}")
        return dict(self._answer(resource))

    def list_all(self, resource: Any) -> list[dict[str, Any]]:
        self.asked.append(f"{resource.api_version}/{resource.plural}")
        return list(self._answer(resource))

    def _answer(self, resource: Any) -> Any:
        found = self.answers.get(resource.plural, not_found())
        if isinstance(found, Exception):
            raise found
        return found


def not_found() -> NotFound:
    return NotFound("gone", status=404)


@pytest.fixture
def cluster(db: None) -> Cluster:
    return Cluster.objects.create(name="main", credentials="kubeconfig", created_at=NOW)


def read(cluster: Cluster, client: FakeReader, now: datetime = NOW) -> dict[str, str]:
    reading.read(cluster=cluster, now=now, connect=lambda _cluster: nullcontext(client))
    return dict(AutoscalerReport.objects.values_list("source", "state"))


def test_each_source_is_optional_and_what_may_not_be_read_is_not_known(cluster: Cluster) -> None:
    forbidden = Forbidden("no", status=403)
    client = FakeReader(configmaps=forbidden, nodepools=[NODE_POOL])
    assert read(cluster, client) == {
        "cluster-autoscaler": State.FORBIDDEN, "cluster-api": State.ABSENT, "karpenter": State.KNOWN,
    }  # fmt: skip
    assert client.asked == [
        "kube-system/configmaps/cluster-autoscaler-status",
        "cluster.x-k8s.io/v1beta2/machinedeployments",
        "cluster.x-k8s.io/v1beta1/machinedeployments",
        "karpenter.sh/v1/nodepools",
    ]
    (report,) = reports_of(cluster)
    assert (report.group.name, report.source, report.at) == ("gpu", "Karpenter", NOW)
    assert read(cluster, FakeReader(configmaps=config_map("odd")))["cluster-autoscaler"] == State.UNREADABLE
    assert reports_of(cluster) == []


def test_a_cluster_that_does_not_answer_leaves_what_was_read_with_its_age(cluster: Cluster) -> None:
    read(cluster, FakeReader(configmaps=config_map(YAML)))
    later = NOW + timedelta(hours=1)
    read(cluster, FakeReader(configmaps=Unreachable("no route")), later)
    report = reports_of(cluster)[0]
    assert report.at == datetime(2026, 11, 10, 11, 59, 30, tzinfo=UTC), "as of when it was written"
    assert report.fresh(NOW)
    assert not report.fresh(later)


@pytest.mark.parametrize(
    ("name", "labels", "group"),
    [
        ("gke-gpu-l4-grp", {}, "https://compute.example.org/zones/b/instanceGroups/gke-gpu-l4-grp"),
        ("a100", {"eks.amazonaws.com/nodegroup": "gpu-a100"}, "eks-gpu-a100-7ab2"),
        ("k", {"karpenter.sh/nodepool": "gpu"}, "gpu"),
        ("l40s", {"pool": "l40"}, "MachineDeployment/fleet/gpu-l40"),
        ("other", {"pool": "h100"}, None),
        ("other", {}, None),
    ],
)
def test_a_pool_is_the_group_that_its_name_or_labels_tell(
    name: str, labels: dict[str, str], group: str | None
) -> None:
    groups = [
        *status.read(config_map(YAML))[0], *status.read(config_map(LINES))[0][:1],
        *objects.of_machine_deployments([MACHINES]), *objects.of_node_pools([NODE_POOL]),
    ]  # fmt: skip
    reports = [Report(group=one, source="x", at=NOW) for one in groups]
    found = report_for(name, labels, reports)
    assert (found.group.name if found else None) == group


def test_of_two_that_could_be_it_none_is() -> None:
    reports = [Report(group=Group(name=f"gpu-{zone}-x"), source="x", at=NOW) for zone in "ab"]
    assert report_for("pool", {"p": "gpu"}, reports) is None
