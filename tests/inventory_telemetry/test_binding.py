"""What says it comes from where the device is not, is not used: a node tells of its own devices only."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.utils import translation

from inventory.models import DeviceUse, MetricQuery, Node, Pod, PodDevice
from inventory.telemetry import reading
from inventory.telemetry.binding import Nodes, nodes_of, pods_in
from inventory.telemetry.problems import Problem
from tests.inventory_pages.factories import make_node
from tests.inventory_telemetry.conftest import NOW, UUIDS, Lab
from tests.inventory_telemetry.servers import Fake, vector
from tests.inventory_telemetry.test_reading import SLOT, busy

USE, PODS = MetricQuery.Kind.USE, MetricQuery.Kind.PODS
Labels = dict[str, str]


@pytest.fixture
def two_nodes(lab: Lab) -> Lab:
    """Both devices are on gpu-01; gpu-02 is another node of the cluster."""
    make_node(lab.cluster, "gpu-02")
    return lab


def measured(lab: Lab, server: Fake, *series: tuple[Labels, float], node_label: str = "") -> Problem | None:
    """Reads a slot in which the first device was so busy, as each series says; what the query is told."""
    source = lab.source(server.url)
    query = lab.only(source, USE)
    MetricQuery.objects.filter(pk=query.pk).update(node_label=node_label)
    told: list[tuple[Labels, Callable[..., object]]] = [
        ({"UUID": UUIDS[0], **labels}, lambda _, value=value: value) for labels, value in series
    ]
    server.answer = busy(*told)
    assert reading.read(source_id=source.pk, now=NOW)
    query.refresh_from_db()
    return Problem.read(query.problem)


def highest() -> list[float]:
    return [row.highest for row in DeviceUse.objects.all()]


@pytest.mark.django_db
@pytest.mark.parametrize(
    "labels",
    [
        {"node": "gpu-02"},
        {"kubernetes_node": "GPU-02"},
        {"instance": "gpu-02:9400"},
        {"instance": "gpu-02.example.org:9400"},
        # What the exporter itself says is as it should be; what Prometheus says of its target is not.
        {"Hostname": "gpu-01", "instance": "gpu-02:9400"},
        {"Hostname": "gpu-02"},
    ],
    ids=str,
)
def test_a_sample_from_another_node_is_not_used(two_nodes: Lab, server: Fake, labels: Labels) -> None:
    problem = measured(two_nodes, server, (labels, 100.0))
    assert highest() == []
    assert problem is not None
    assert problem.code == "elsewhere"
    with translation.override("en"):
        assert f"“{UUIDS[0]}” is on gpu-01" in str(problem.said)
        assert "gpu-02" in str(problem.said).casefold()


@pytest.mark.django_db
def test_what_the_devices_own_node_says_counts_beside_it(two_nodes: Lab, server: Fake) -> None:
    """Hiding idleness was all that could be done: the busier of two counted."""
    problem = measured(two_nodes, server, ({"node": "gpu-02"}, 100.0), ({"node": "gpu-01"}, 3.0))
    assert highest() == [3.0]
    assert problem is not None


@pytest.mark.django_db
def test_what_is_no_percent_elsewhere_costs_the_device_nothing(two_nodes: Lab, server: Fake) -> None:
    measured(two_nodes, server, ({"node": "gpu-02"}, 9000.0), ({"node": "gpu-01"}, 3.0))
    assert highest() == [3.0]


@pytest.mark.django_db
@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"node": "gpu-01"},
        {"Hostname": "gpu-01.example.org", "instance": "10.0.0.2:9400"},
        # The names of exporters' Pods are no nodes.
        {"Hostname": "dcgm-exporter-x7k2p", "node": "gpu-01"},
        {"node": "of-another-cluster"},
        {"instance": "[fd00::2]:9400"},
    ],
    ids=str,
)
def test_what_names_its_node_or_none_is_used(two_nodes: Lab, server: Fake, labels: Labels) -> None:
    assert measured(two_nodes, server, (labels, 40.0)) is None
    assert highest() == [40.0]


@pytest.mark.django_db
def test_the_label_that_the_query_names_is_looked_at_too(two_nodes: Lab, server: Fake) -> None:
    assert measured(two_nodes, server, ({"rack_host": "gpu-02"}, 40.0), node_label="rack_host") is not None
    assert highest() == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("node", "age", "used"),
    [("gpu-02", 60, False), ("gpu-01", 60, True), ("gpu-02", -2, True), ("", 60, True)],
)
def test_a_pod_that_runs_on_another_node_gives_a_sample_away(
    two_nodes: Lab, server: Fake, node: str, age: int, used: bool
) -> None:
    """A Pod of the same name may have run elsewhere before: only one that was there then contradicts."""
    Pod.objects.create(
        cluster=two_nodes.cluster, namespace="tides", name="train-0", uid="u1", resource_version="1",
        phase="Running", node_name=node, created_at=SLOT - timedelta(minutes=age),
    )  # fmt: skip
    labels = {"exported_namespace": "tides", "exported_pod": "train-0", "pod": "dcgm", "namespace": "gpu"}
    problem = measured(two_nodes, server, (labels, 40.0))
    assert (highest() == [40.0]) is used
    assert (problem is None) is used


@pytest.mark.django_db
def test_a_device_that_no_node_has_is_measured_wherever_it_is_told(two_nodes: Lab, server: Fake) -> None:
    """Devices of a network are many nodes'."""
    two_nodes.cluster.devices.update(node_name="")
    assert measured(two_nodes, server, ({"node": "gpu-02"}, 40.0)) is None
    assert highest() == [40.0]


@pytest.mark.django_db
def test_it_is_asked_once_for_all_pods(
    two_nodes: Lab, server: Fake, django_assert_max_num_queries: Any
) -> None:
    series = [({"namespace": "tides", "pod": f"train-{number}"}, 40.0) for number in range(200)]
    with django_assert_max_num_queries(60):
        measured(two_nodes, server, *series)


@pytest.mark.django_db
def test_pods_devices_are_not_taken_from_another_node(two_nodes: Lab, server: Fake) -> None:
    lab = two_nodes
    for name, node in (("train-0", "gpu-01"), ("train-1", "gpu-02")):
        Pod.objects.create(
            cluster=lab.cluster, namespace="tides", name=name, uid=f"u-{name}", resource_version="1",
            phase="Running", node_name=node, created_at=NOW - timedelta(hours=1),
        )  # fmt: skip
    source = lab.source(server.url)
    query = lab.only(source, PODS)
    MetricQuery.objects.filter(pk=query.pk).update(enabled=True)
    pod = {"namespace": "tides", "container": "main"}
    told = [
        {"UUID": UUIDS[0], "Hostname": "gpu-01", "instance": "gpu-01:9400", "pod": "train-0", **pod},
        # Of a device that its driver publishes on gpu-01, by an exporter that calls itself gpu-02.
        {"UUID": UUIDS[1], "Hostname": "gpu-02", "pod": "train-1", **pod},
        # An exporter of gpu-02 that calls itself gpu-01.
        {"UUID": "GPU-of-nobody", "Hostname": "gpu-01", "instance": "gpu-02:9400", "pod": "train-0", **pod},
    ]
    server.answer = lambda _asked, _handler: (200, vector(*((labels, 1) for labels in told)))
    assert reading.read(source_id=source.pk, now=NOW)
    assert set(PodDevice.objects.values_list("pod_name", "device_id")) == {("train-0", UUIDS[0])}
    query.refresh_from_db()
    problem = Problem.read(query.problem)
    assert problem is not None
    assert problem.code == "elsewhere"


# --- names ------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_nodes_are_known_by_their_names_with_and_without_a_domain(two_nodes: Lab) -> None:
    Node.objects.filter(name="gpu-02").update(name="gpu-02.north.example.org")
    make_node(two_nodes.cluster, "gpu-02.south.example.org")
    nodes = nodes_of(two_nodes.cluster)
    both = {"gpu-02.north.example.org", "gpu-02.south.example.org"}
    assert nodes.named("gpu-02:9400") == both
    assert nodes.named("gpu-02.NORTH.example.org") == {"gpu-02.north.example.org"}
    assert nodes.named("gpu-02.east.example.org") == set()
    assert nodes.named("gpu-01.east.example.org") == {"gpu-01"}
    # Both may be meant, so neither contradicts; together with another label one is.
    assert nodes.elsewhere({"node": "gpu-02"}, frozenset({"gpu-02.north.example.org"})) == ""
    two = {"node": "gpu-02", "instance": "gpu-02.south.example.org:9400"}
    assert nodes.elsewhere(two, frozenset({"gpu-02.north.example.org"})) == "gpu-02.south.example.org:9400"
    assert nodes.elsewhere({"node": "gpu-01", "Hostname": "gpu-02"}, frozenset()) == "gpu-02"


@pytest.mark.nodatabase
@pytest.mark.parametrize(
    "text", ["", " ", "10.0.0.1", "10.0.0.1:9400", "::1", "[fd00::2]:9400", "\0", "a" * 9000]
)
def test_what_is_no_name_of_a_node_names_none(text: str) -> None:
    assert Nodes({"10": frozenset({"10"}), "fd00": frozenset({"x"})}, {}).named(text) == frozenset()


@pytest.mark.nodatabase
def test_pods_are_named_by_two_labels_together() -> None:
    assert list(pods_in({"pod": "a"})) == []
    assert list(pods_in({"namespace": "n", "pod": "a", "exported_namespace": "m", "exported_pod": "b"})) == [
        ("n", "a"), ("m", "b"),
    ]  # fmt: skip
