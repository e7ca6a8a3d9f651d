"""What is named of Pods and devices: from when to when, by whom, and for whom to see."""

from datetime import datetime
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from claims.history.intervals import version
from claims.ledger import storage
from claims.models import Allocation
from inventory.models import Cluster, Observation, PodDevice, PodDeviceNode, PodDeviceToken
from inventory.podresources.holding import plugin_holders_of
from inventory.podresources.intake import accept, take_in_labels
from inventory.podresources.naming import devices_of_pods, of_resource, pods_that_had, until
from portal.accounts.models import Project
from tests.inventory_pages.conftest import INSIDERS, OUTSIDERS, Cast
from tests.inventory_pages.factories import bind, make_device, make_node
from tests.inventory_podresources.conftest import GPU, OTHER_GPU, mirror_pod, pod_devices, report, seconds

NOW = timezone.now().replace(microsecond=0) - seconds(3600)


def take(token: PodDeviceToken, *pods: Any, at: datetime = NOW) -> None:
    accept(token=PodDeviceToken.objects.get(pk=token.pk), body=report(*pods, sent_at=at), now=at)


@pytest.fixture
def pod(cluster: Cluster) -> Any:
    return mirror_pod(cluster, "train-0", "uid-0", created_at=NOW - seconds(600))


def test_stretches_of_one_device_are_told_as_one_with_their_gaps(
    token: PodDeviceToken, cluster: Cluster, pod: Any
) -> None:
    take(token, pod_devices("train-0", f"{GPU}::3"))
    take(token, pod_devices("train-0", f"{GPU}::3"), at=NOW + seconds(2000))
    (named,) = devices_of_pods(cluster_id=cluster.pk, pod_uids=["uid-0", "uid-unknown"])["uid-0"]
    assert (named.name, named.replica, named.seen_from, named.seen_until) == (GPU, "3", NOW, None)
    assert named.gaps == ((NOW, NOW + seconds(2000)),)
    # A kubelet may name a Pod that has finished.
    assert until(named, NOW + seconds(100)) == NOW + seconds(100)


def test_a_device_that_a_driver_publishes_too_has_its_page(
    token: PodDeviceToken, cluster: Cluster, pod: Any
) -> None:
    device = make_device(cluster, "gpu-0", hardware_id=GPU)
    make_device(cluster, "gpu-1", node="gpu-02", hardware_id=OTHER_GPU)
    take(token, pod_devices("train-0", GPU, OTHER_GPU))
    named = devices_of_pods(cluster_id=cluster.pk, pod_uids=["uid-0"])["uid-0"]
    assert {one.name: one.device_pk for one in named} == {GPU: device.pk, OTHER_GPU: None}


def test_metrics_only_repeat_what_the_kubelet_says(token: PodDeviceToken, cluster: Cluster, pod: Any) -> None:
    series = [
        {"UUID": GPU, "Hostname": "gpu-01", "namespace": "team", "pod": "train-0", "container": "main"},
    ]
    make_node(cluster, "gpu-01")
    take_in_labels(cluster=cluster, series=series, taken_at=NOW, interval_seconds=60, now=NOW)
    (named,) = devices_of_pods(cluster_id=cluster.pk, pod_uids=["uid-0"])["uid-0"]
    assert named.source == PodDeviceNode.Source.DCGM
    assert of_resource([named], "nvidia.com/gpu") == [named]
    assert of_resource([named], "amd.com/gpu") == []
    take(token, pod_devices("train-0", GPU))
    (named,) = devices_of_pods(cluster_id=cluster.pk, pod_uids=["uid-0"])["uid-0"]
    assert (named.source, named.resource) == (PodDeviceNode.Source.PODRESOURCES, "nvidia.com/gpu")


@pytest.mark.parametrize("role", [*INSIDERS, *OUTSIDERS])
@pytest.mark.usefixtures("pod")
def test_who_sees_which_pod_has_a_device(
    role: str, token: PodDeviceToken, cluster: Cluster, project: Project, cast: Cast
) -> None:
    bind(cluster, "team", project)
    device = make_device(cluster, "gpu-0", hardware_id=GPU)
    other_node = make_device(cluster, "gpu-0", node="gpu-02", hardware_id=GPU)
    take(token, pod_devices("train-0", GPU), pod_devices("unknown-0", GPU))
    viewer = getattr(cast, role)
    found = plugin_holders_of([device, other_node], viewer=viewer, now=NOW)
    assert list(found) == [device.pk]
    (holder,) = found[device.pk]
    assert (holder.project, holder.since, holder.unknown_since) == (project, NOW, None)
    assert (holder.pod is not None) == (role in INSIDERS)
    late = NOW + seconds(3600)
    (silent,) = plugin_holders_of([device], viewer=viewer, now=late)[device.pk]
    assert silent.unknown_since == NOW
    page = cast.client(role).get(f"/devices/{device.pk}/").content.decode()
    assert "Held through a Device Plugin" in page
    assert ("train-0" in page) == (role in INSIDERS)
    assert "unknown-0" not in page


def test_metrics_do_not_contradict_the_kubelet(
    token: PodDeviceToken, cluster: Cluster, pod: Any, cast: Cast
) -> None:
    """Whoever writes metrics can name any Pod and any GPU."""
    devices = [make_device(cluster, f"gpu-{n}", hardware_id=gpu) for n, gpu in enumerate((GPU, OTHER_GPU))]
    make_node(cluster, "gpu-01")
    series = [
        {"UUID": gpu, "Hostname": "gpu-01", "namespace": "team", "pod": "train-0", "container": "main"}
        for gpu in (GPU, OTHER_GPU)
    ]
    take_in_labels(cluster=cluster, series=series, taken_at=NOW, interval_seconds=60, now=NOW)
    assert len(plugin_holders_of(devices, viewer=cast.auditor, now=NOW)) == 2
    take(token, pod_devices("train-0", GPU))
    held = plugin_holders_of(devices, viewer=cast.auditor, now=NOW)
    assert {device: len(holders[0].sources) for device, holders in held.items()} == {devices[0].pk: 2}


def test_an_instance_of_a_gpu_that_the_kubelet_names_itself_contradicts_nothing(
    token: PodDeviceToken, cluster: Cluster, pod: Any, cast: Cast
) -> None:
    device = make_device(cluster, "gpu-0", hardware_id=GPU)
    make_node(cluster, "gpu-01")
    series = {"UUID": GPU, "Hostname": "gpu-01", "namespace": "team", "pod": "train-0", "container": "main"}
    series |= {"GPU_I_ID": "7", "GPU_I_PROFILE": "1g.5gb"}
    take_in_labels(cluster=cluster, series=[series], taken_at=NOW, interval_seconds=60, now=NOW)
    take(token, pod_devices("train-0", "MIG-1a2b"))
    (holder,) = plugin_holders_of([device], viewer=cast.auditor, now=NOW)[device.pk]
    assert holder.shares == ["MIG 1g.5gb #7"]


def test_a_pod_that_has_finished_holds_nothing(
    token: PodDeviceToken, cluster: Cluster, pod: Any, cast: Cast
) -> None:
    device = make_device(cluster, "gpu-0", hardware_id=GPU)
    take(token, pod_devices("train-0", GPU))
    pod.phase = "Succeeded"
    pod.save()
    assert plugin_holders_of([device], viewer=cast.auditor, now=NOW) == {}


# --- the ledger and history ---------------------------------------------------------------------------


@pytest.fixture
def units(cluster: Cluster, project: Project, pod: Any) -> Allocation:
    """The Pod's interval in the ledger: one GPU, counted."""
    make_node(cluster, "gpu-01")
    bind(cluster, "team", project)
    Observation.objects.create(
        cluster=cluster, kind="pod-scheduled", at=NOW - seconds(5), source="condition", observed_at=NOW,
        namespace="team", name="train-0", uid="uid-0", key="pod/uid-0/scheduled",
        facts={"node": "gpu-01", "claims": [], "extended": {"nvidia.com/gpu": 1}, "units": []},
    )  # fmt: skip
    storage.apply(cluster=cluster)
    return Allocation.objects.get()


def row_of(allocation: Allocation) -> dict[str, Any]:
    columns = [field.attname for field in Allocation._meta.concrete_fields if field.name != "id"]
    found: dict[str, Any] = Allocation.objects.values(*columns).get(claim_uid=allocation.claim_uid)
    return found


def test_the_ledger_is_the_same_with_and_without(
    units: Allocation, token: PodDeviceToken, cluster: Cluster
) -> None:
    before = row_of(units)
    take(token, pod_devices("train-0", GPU))
    storage.rebuild(cluster=cluster)
    assert row_of(units) == before
    PodDevice.objects.all().delete()
    storage.rebuild(cluster=cluster)
    assert row_of(units) == before


@pytest.mark.parametrize("role", ["owner", "stranger"])
def test_history_names_the_devices_by_page_csv_and_rest(
    role: str, units: Allocation, token: PodDeviceToken, cast: Cast
) -> None:
    client = cast.client(role)
    before = client.get("/history/").content.decode()
    assert GPU not in before
    known = client.get("/api/v1/allocations/")
    take(token, pod_devices("train-0", GPU))
    page = client.get("/history/").content.decode()
    assert GPU in page
    assert "as reported by the kubelet" in page
    assert f"{GPU},podresources" in b"".join(_streamed(client.get("/history.csv"))).decode()
    # Found by the hardware id, too.
    assert GPU in client.get(f"/history/?device={GPU}").content.decode()
    assert GPU not in client.get(f"/history/?device={OTHER_GPU}").content.decode()
    answer = client.get("/api/v1/allocations/")
    assert answer["ETag"] != known["ETag"]
    (told,) = answer.json()["results"]
    (named,) = told["physical_devices"]
    assert (named["hardware_id"], named["told_by"], named["seen_until"]) == (GPU, "podresources", None)
    assert (named["container"] == "main") == (role == "owner")
    assert (told["units"], told["hardware_id"]) == (1, "")


def _streamed(response: Any) -> list[bytes]:
    return list(response.streaming_content) if response.streaming else [response.content]


def test_the_pods_page_and_rest_name_them_or_say_that_nobody_did(
    units: Allocation, token: PodDeviceToken, cast: Cast
) -> None:
    client: Client = cast.client("owner")
    path = "/pods/berlin/team/train-0/"
    silent = client.get(path).content.decode()
    assert "nobody has told the desk" in silent
    take(token, pod_devices("train-0", f"{GPU}::3"))
    page = client.get(path).content.decode()
    assert GPU in page
    assert "(share 3)" in page
    assert "unknown since" in page
    told = client.get("/api/v1/pods/berlin/team/train-0/").json()
    assert [one["device_id"] for one in told["physical_devices"]] == [f"{GPU}::3"]
    assert cast.client("stranger").get(path).status_code == 404


def test_pods_that_had_a_piece_of_hardware_are_found(
    token: PodDeviceToken, cluster: Cluster, pod: Any
) -> None:
    take(token, pod_devices("train-0", GPU), pod_devices("unknown-0", OTHER_GPU))
    assert pods_that_had(GPU, most=10) == [(cluster.pk, "uid-0")]
    assert pods_that_had(OTHER_GPU, most=10) == []


def test_a_node_is_not_believed_about_devices_of_other_nodes(
    token: PodDeviceToken, cluster: Cluster, pod: Any
) -> None:
    make_device(cluster, "gpu-0", node="gpu-02", hardware_id=GPU)
    take(token, pod_devices("train-0", GPU))
    assert pods_that_had(GPU, most=10) == []
    (named,) = devices_of_pods(cluster_id=cluster.pk, pod_uids=["uid-0"])["uid-0"]
    assert named.device_pk is None


def test_the_version_of_history_adds_up_for_thousands_of_nodes(cluster: Cluster, cast: Cast) -> None:
    """What SQLite adds up has 63 bits."""
    PodDeviceNode.objects.bulk_create(
        [PodDeviceNode(cluster=cluster, name=f"n{n}", created_at=NOW, changed_at=NOW) for n in range(6000)]
    )
    before = version(cast.auditor)
    PodDeviceNode.objects.filter(name="n0").update(changed_at=NOW + seconds(1))
    assert version(cast.auditor) != before
