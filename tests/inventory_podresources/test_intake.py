"""A report is kept whole or not at all; it ends what it lacks, and names the Pod where that is known."""

import json
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from inventory.models import Cluster, Pod, PodDevice, PodDeviceNode, PodDeviceToken
from inventory.node_reports import MAX_REPORT_BYTES, MAX_SKEW, UnableToAccept
from inventory.podresources import intake
from inventory.podresources.intake import accept, due_at, state_of, take_in_labels
from tests.inventory_pages.factories import make_node
from tests.inventory_podresources.conftest import (
    GPU,
    OTHER_GPU,
    Issue,
    fresh,
    mirror_pod,
    pod_devices,
    report,
    seconds,
)

NOW = timezone.now().replace(microsecond=0)


def take(token: PodDeviceToken, *pods: Any, after: float = 0, **more: Any) -> bool:
    """A report that was made and came `after` seconds."""
    moment = NOW + seconds(after)
    token = PodDeviceToken.objects.get(pk=token.pk)
    return accept(token=token, body=report(*pods, sent_at=moment, **more), now=moment).changed


def refused(token: PodDeviceToken, body: bytes, **fields: Any) -> UnableToAccept:
    with pytest.raises(UnableToAccept) as caught:
        accept(token=token, body=body, **({"now": NOW} | fields))
    return caught.value


@pytest.fixture
def pod_a(cluster: Cluster) -> Pod:
    return mirror_pod(cluster, "a", "uid-a", created_at=NOW - seconds(60))


def test_what_containers_have_is_kept_with_the_pods_uid(token: PodDeviceToken, cluster: Cluster) -> None:
    mirror_pod(cluster, "train-0", "uid-0", created_at=NOW - seconds(60))
    assert take(token, pod_devices("train-0", f"{GPU}::3", OTHER_GPU))
    shared, whole = PodDevice.objects.order_by("device_id").reverse()
    assert (shared.device_id, shared.hardware_id, shared.pod_uid) == (f"{GPU}::3", GPU, "uid-0")
    assert (whole.hardware_id, whole.container, whole.resource, whole.numa) == (
        OTHER_GPU, "main", "nvidia.com/gpu", [0],
    )  # fmt: skip
    assert (whole.earliest_at, whole.first_seen_at, whole.last_seen_at) == (None, NOW, None)
    assert fresh(token).collector == "test"


def test_a_pci_address_is_one_of_its_node(token: PodDeviceToken) -> None:
    take(token, pod_devices("train-0", "0000:0B:00.0", resource="amd.com/gpu"))
    assert PodDevice.objects.get().hardware_id == "gpu-01/0000:0b:00.0"


@pytest.mark.usefixtures("pod_a")
def test_absence_ends_within_its_bracket(token: PodDeviceToken) -> None:
    take(token, pod_devices("a", GPU))
    take(token, pod_devices("a", GPU), after=60)
    assert take(token, after=90)
    row = PodDevice.objects.get()
    assert (row.last_seen_at, row.gone_at) == (NOW + seconds(60), NOW + seconds(90))


@pytest.mark.usefixtures("pod_a")
def test_looks_that_found_the_same_narrow_the_bracket(token: PodDeviceToken) -> None:
    take(token, pod_devices("a", GPU))
    same = {"sent_at": NOW.isoformat(), "until": (NOW + seconds(285)).isoformat()}
    take(token, pod_devices("b", GPU), after=300, same=same)
    first, second = PodDevice.objects.order_by("first_seen_at")
    assert (first.last_seen_at, first.gone_at) == (NOW + seconds(285), NOW + seconds(300))
    assert second.earliest_at == NOW + seconds(285)


@pytest.mark.usefixtures("pod_a")
def test_the_desk_may_be_out_of_reach_without_a_silence_of_the_collector(token: PodDeviceToken) -> None:
    take(token, pod_devices("a", GPU))
    same = {"sent_at": NOW.isoformat(), "until": (NOW + seconds(7190)).isoformat()}
    assert not take(token, pod_devices("a", GPU), after=7200, same=same)
    assert PodDevice.objects.get().last_seen_at is None
    # Of a report that the desk does not know, it says nothing.
    other = {"sent_at": NOW.isoformat(), "until": (NOW + seconds(14000)).isoformat()}
    take(token, pod_devices("a", GPU), after=14400, same=other)
    assert PodDevice.objects.count() == 2


@pytest.mark.usefixtures("pod_a")
def test_after_a_silence_a_new_stretch_begins(token: PodDeviceToken) -> None:
    take(token, pod_devices("a", GPU))
    assert due_at(fresh(token)) == NOW + seconds(720)
    assert state_of(fresh(token), now=NOW + seconds(720)) == "current"
    assert state_of(fresh(token), now=NOW + seconds(721)) == "silent"
    take(token, pod_devices("a", GPU), after=721)
    before, after = PodDevice.objects.order_by("first_seen_at")
    assert (before.last_seen_at, before.gone_at) == (NOW, None)
    assert (after.earliest_at, after.first_seen_at) == (None, NOW + seconds(721))
    assert fresh(token).reporting_since == NOW + seconds(721)


def test_an_unchanged_report_writes_no_device(
    token: PodDeviceToken, django_assert_max_num_queries: Any
) -> None:
    take(token, pod_devices("a", GPU), pod_devices("b", OTHER_GPU))
    with django_assert_max_num_queries(9):
        # The order in which the kubelet tells its Pods means nothing.
        changed = take(token, pod_devices("b", OTHER_GPU), pod_devices("a", GPU), after=60)
    assert not changed
    assert fresh(token).changed_at == NOW


def test_a_pod_of_another_node_is_not_named(token: PodDeviceToken, cluster: Cluster) -> None:
    mirror_pod(cluster, "a", "uid-a", created_at=NOW - seconds(60), node_name="gpu-02")
    take(token, pod_devices("a", GPU, uid="uid-a"))
    assert PodDevice.objects.get().pod_uid == ""


def test_a_pod_that_the_mirror_learns_of_later_is_named_then(token: PodDeviceToken, cluster: Cluster) -> None:
    take(token, pod_devices("a", GPU))
    mirror_pod(cluster, "a", "uid-a", created_at=NOW - seconds(1))
    assert take(token, pod_devices("a", GPU), after=60)
    row = PodDevice.objects.get()
    assert (row.pod_uid, row.first_seen_at) == ("uid-a", NOW)


def test_the_next_pod_of_the_same_name_is_another_one(token: PodDeviceToken, cluster: Cluster) -> None:
    pod = mirror_pod(cluster, "a-0", "uid-1", created_at=NOW - seconds(60))
    take(token, pod_devices("a-0", GPU))
    pod.delete()
    mirror_pod(cluster, "a-0", "uid-2", created_at=NOW + seconds(30))
    take(token, pod_devices("a-0", GPU), after=60)
    first, second = PodDevice.objects.order_by("first_seen_at")
    assert (first.pod_uid, first.last_seen_at, first.gone_at) == ("uid-1", NOW, NOW + seconds(60))
    assert (second.pod_uid, second.first_seen_at) == ("uid-2", NOW + seconds(60))


# --- order and time ----------------------------------------------------------------------------------


def test_an_older_report_changes_nothing(token: PodDeviceToken) -> None:
    take(token, pod_devices("a", GPU), after=60)
    late = report(pod_devices("b", GPU), sent_at=NOW)
    error = refused(PodDeviceToken.objects.get(pk=token.pk), late, now=NOW + seconds(70))
    assert (error.code, error.status) == ("older_report", 409)
    assert PodDevice.objects.get().pod_name == "a"


def test_the_same_report_again_is_the_same(token: PodDeviceToken) -> None:
    body = report(pod_devices("a", GPU), sent_at=NOW)
    accept(token=token, body=body, now=NOW)
    again = accept(token=PodDeviceToken.objects.get(pk=token.pk), body=body, now=NOW + seconds(30))
    assert not again.changed
    # A report sent again is no sign of life.
    assert fresh(token).received_at == NOW
    assert PodDevice.objects.count() == 1


def test_a_clock_that_is_ahead_tells_of_nothing_that_has_not_been(token: PodDeviceToken) -> None:
    accept(token=token, body=report(pod_devices("a", GPU), sent_at=NOW + MAX_SKEW), now=NOW)
    assert PodDevice.objects.get().first_seen_at == NOW
    assert fresh(token).clock_skew_ms == MAX_SKEW / timedelta(milliseconds=1)


# --- what is no report -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"format": 2}, "malformed"),
        ({"cluster": "paris"}, "wrong_node"),
        ({"node": "gpu-02"}, "wrong_node"),
        ({"sent_at": (NOW + timedelta(days=1)).isoformat()}, "clock_ahead"),
        ({"sent_at": (NOW - timedelta(days=1)).isoformat()}, "clock_behind"),
        ({"sent_at": "0001-01-01T00:00:00+00:00"}, "malformed"),
        ({"sent_at": "9999-12-31T23:59:59-10:00"}, "malformed"),
        ({"sent_at": NOW.replace(tzinfo=None).isoformat()}, "malformed"),
        ({"interval_seconds": 10**30}, "malformed"),
        ({"interval_seconds": 1}, "malformed"),
        ({"same": {"sent_at": NOW.isoformat(), "until": (NOW + seconds(9)).isoformat()}}, "malformed"),
        ({"pods": [pod_devices("a", GPU), pod_devices("a", GPU)]}, "malformed"),
        ({"pods": [pod_devices("a", "GPU\x00")]}, "malformed"),
        ({"pods": [pod_devices("a", "GPU\n")]}, "malformed"),
        ({"pods": [pod_devices("a", "\ud800")]}, "malformed"),
        ({"pods": [pod_devices("a", "x" * 256)]}, "malformed"),
        ({"pods": [pod_devices("A b", GPU)]}, "malformed"),
        ({"pods": [pod_devices("a", GPU, namespace="x" * 64)]}, "malformed"),
        ({"pods": [pod_devices("a", GPU, uid="'--")]}, "malformed"),
        ({"pods": [pod_devices(f"p-{n}", GPU) for n in range(2001)]}, "malformed"),
        ({"pods": [pod_devices(f"p-{n}", *map(str, range(5001))) for n in range(2)]}, "too_large"),
        ({"pods": None}, "malformed"),
    ],
)
def test_hostile_reports_leave_nothing_behind(
    token: PodDeviceToken, change: dict[str, Any], code: str
) -> None:
    body = json.loads(report(sent_at=NOW)) | change
    assert refused(token, json.dumps(body).encode("utf-8", "surrogatepass")).code == code
    assert not PodDevice.objects.exists()
    node = fresh(token)
    assert (node.received_at, node.refusal) == (None, code)


@pytest.mark.parametrize(
    "body", [b"", b"{", b"\xff", b"[" * 100_000, b"null", b"NaN", b" " * (MAX_REPORT_BYTES + 1)]
)
def test_bytes_that_are_no_report_are_refused(token: PodDeviceToken, body: bytes) -> None:
    assert refused(token, body).status in (400, 413)


# --- labels of metrics -------------------------------------------------------------------------------


def test_devices_of_pods_that_were_never_known_are_not_kept(token: PodDeviceToken, cluster: Cluster) -> None:
    mirror_pod(cluster, "train-0", "uid-0", created_at=NOW - seconds(60))
    take(token, pod_devices("train-0", GPU), pod_devices("made-up", OTHER_GPU))
    take(token, after=60)
    assert [row.pod_uid for row in PodDevice.objects.all()] == ["uid-0"]


def test_of_a_node_that_tells_ever_new_devices_the_latest_are_kept(
    token: PodDeviceToken, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "MOST_KEPT", 4)
    mirror_pod(cluster, "train-0", "uid-0", created_at=NOW - seconds(60))
    for number in range(4):
        take(token, pod_devices("train-0", f"GPU-{number}-a", f"GPU-{number}-b"), after=60 * number)
    kept = PodDevice.objects.order_by("device_id").values_list("device_id", flat=True)
    assert list(kept) == ["GPU-2-a", "GPU-2-b", "GPU-3-a", "GPU-3-b"]


def test_of_a_pod_with_ever_new_devices_the_latest_are_kept(
    token: PodDeviceToken, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks at the Pod reads all that it had."""
    monkeypatch.setattr(intake, "MOST_OF_POD", 3)
    for name in ("a", "b"):
        mirror_pod(cluster, name, f"uid-{name}", created_at=NOW - seconds(60))
    for number in range(3):
        ids = [f"GPU-{number}-{letter}" for letter in "wxyz"]
        take(token, pod_devices("a", "GPU-stays", *ids), pod_devices("b", "GPU-0-w"), after=60 * number)
        assert PodDevice.objects.filter(pod_uid="uid-a").count() == 3
    kept = PodDevice.objects.filter(pod_uid="uid-a", last_seen_at=None).values_list("device_id", flat=True)
    assert set(kept) == {"GPU-2-w", "GPU-2-x", "GPU-2-y"}
    assert PodDevice.objects.filter(pod_uid="uid-b").count() == 1


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
def test_a_report_does_not_wait_for_another_one_of_its_node(issue: Issue) -> None:
    token = issue()[0]
    held, done = threading.Event(), threading.Event()

    def keep_locked() -> None:
        with transaction.atomic():
            PodDeviceNode.objects.select_for_update().get(pk=token.node_id)
            held.set()
            done.wait(10)
        connection.close()

    other = threading.Thread(target=keep_locked)
    other.start()
    try:
        assert held.wait(10)
        for body, code in ((report(sent_at=NOW), "too_often"), (b"{", "malformed")):
            with pytest.raises(UnableToAccept) as refused:
                accept(token=PodDeviceToken.objects.get(pk=token.pk), body=body, now=NOW)
            assert refused.value.code == code
    finally:
        done.set()
        other.join()


def labels(pod: str, uuid: str = GPU) -> dict[str, str]:
    return {"UUID": uuid, "Hostname": "gpu-01", "namespace": "team", "pod": pod, "container": "main"}


def scrape(cluster: Cluster, *series: dict[str, str], after: float = 0) -> int:
    moment = NOW + seconds(after)
    return take_in_labels(cluster=cluster, series=series, taken_at=moment, interval_seconds=60, now=moment)


def test_labels_of_metrics_come_through_the_same_door(cluster: Cluster) -> None:
    make_node(cluster, "gpu-01")
    mirror_pod(cluster, "train-0", "uid-0", created_at=NOW - seconds(60))
    assert scrape(cluster, labels("train-0"), labels("dcgm-exporter-x", OTHER_GPU)) == 1
    row = PodDevice.objects.select_related("node").get()
    assert (row.pod_uid, row.hardware_id, row.node.source) == ("uid-0", GPU, PodDeviceNode.Source.DCGM)
    idle = {"UUID": GPU, "Hostname": "gpu-01"}
    assert scrape(cluster, idle, after=60) == 1
    # An answer that is older than one that is here.
    assert scrape(cluster, labels("train-0"), after=30) == 0
    row.refresh_from_db()
    assert (row.last_seen_at, row.gone_at) == (NOW, NOW + seconds(60))


def test_metrics_of_nodes_that_the_cluster_does_not_have_are_not_kept(cluster: Cluster) -> None:
    make_node(cluster, "gpu-01")
    made_up = [labels("train-0") | {"Hostname": f"gpu-{number}"} for number in range(90, 99)]
    assert scrape(cluster, labels("train-0"), *made_up) == 1
    assert [node.name for node in PodDeviceNode.objects.all()] == ["gpu-01"]


def test_both_sources_of_a_node_stand_beside_each_other(token: PodDeviceToken, cluster: Cluster) -> None:
    mirror_pod(cluster, "train-0", "uid-0", created_at=NOW - seconds(60))
    make_node(cluster, "gpu-01")
    take(token, pod_devices("train-0", GPU))
    scrape(cluster, labels("train-0"))
    assert sorted(PodDevice.objects.values_list("node__source", flat=True)) == ["dcgm", "podresources"]
