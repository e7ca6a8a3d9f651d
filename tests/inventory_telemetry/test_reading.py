"""A round: how busy devices were, what drivers say, and what happens when the other side does not play."""

from collections.abc import Callable
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from inventory.models import DeviceUse, MetricQuery, MetricSource, Pod, PodDevice
from inventory.telemetry import reading, slots, use
from inventory.telemetry.problems import Problem
from tests.inventory_telemetry.conftest import NOW, UUIDS, Lab
from tests.inventory_telemetry.servers import PROMETHEUS, Asked, Fake, exporter, matrix, prometheus, vector

pytestmark = pytest.mark.django_db
USE, DRIVERS = MetricQuery.Kind.USE, MetricQuery.Kind.DRIVERS
# The last slot that is over at NOW (09:12:40).
SLOT = NOW.replace(minute=5, second=0)


def busy(*series: tuple[dict[str, str], Callable[[datetime], object]]) -> Callable[..., tuple[int, Any]]:
    """Answers range queries with what each series was at each minute (None = no sample)."""

    def answer(asked: Asked, _handler: BaseHTTPRequestHandler) -> tuple[int, Any]:
        if asked.path.endswith("/query"):
            return 200, vector()
        start, end = float(asked.fields["start"]), float(asked.fields["end"])
        told = []
        for labels, value in series:
            at, points = start, []
            while at <= end:
                found = value(datetime.fromtimestamp(at, tz=NOW.tzinfo))
                if found is not None:
                    points.append((at, found))
                at += float(asked.fields["step"])
            told.append((labels, points))
        return 200, matrix(*told)

    return answer


def read(source: MetricSource, now: datetime = NOW) -> None:
    assert reading.read(source_id=source.pk, now=now)
    source.refresh_from_db()


def problem_of(row: MetricSource | MetricQuery) -> str | None:
    row.refresh_from_db()
    problem = Problem.read(row.problem)
    return problem.code if problem else None


def test_one_question_tells_of_all_devices(lab: Lab, server: Fake) -> None:
    source = lab.source(server.url)
    lab.only(source, USE)
    server.answer = busy(
        ({"UUID": UUIDS[0]}, lambda at: at.minute), ({"UUID": UUIDS[1].lower()}, lambda _: 40)
    )
    read(source)
    assert [asked.path for asked in server.asked] == ["/api/v1/query_range"]
    first, second = DeviceUse.objects.order_by("hardware_id")
    # (09:05, 09:10]: 6, 7, 8, 9, 10.
    assert (first.hour, first.minutes, first.total, first.highest) == (SLOT.replace(minute=0), 5, 40.0, 10.0)
    assert slots.unpacked(first.slots) == {1: slots.Slot(5, 8.0, 10.0)}
    assert (second.hardware_id, second.total) == (UUIDS[1], 200.0)
    assert source.since == SLOT
    assert use.settled(source) == SLOT + slots.SLOT
    # The next is due when the next slot is over.
    assert source.due_at is not None
    assert timedelta() <= source.due_at - NOW.replace(minute=15, second=30) <= timedelta(seconds=20)


def test_what_a_pause_left_out_is_read_afterwards_and_what_is_not_there_stays_a_gap(
    lab: Lab, server: Fake
) -> None:
    source = lab.source(server.url)
    query = lab.only(source, USE)
    server.answer = busy(({"UUID": UUIDS[0]}, lambda at: None if at.hour == 10 else 50))
    read(source)
    read(source, NOW + timedelta(hours=2))
    hours = {row.hour.hour: row.minutes for row in DeviceUse.objects.all()}
    # At ten Prometheus had nothing; the value of 10:00 is of the minute before, that of 11:00 of 10:59.
    assert hours == {9: 54, 10: 1, 11: 10}
    query.refresh_from_db()
    assert query.read_until == NOW.replace(hour=11, minute=10, second=0)
    # Windows, and not one answer of any size.
    assert len(server.asked) == 1 + 8


def test_after_days_only_the_last_hours_are_read(lab: Lab, server: Fake) -> None:
    source = lab.source(server.url)
    lab.only(source, USE)
    server.answer = busy(({"UUID": UUIDS[0]}, lambda _: 50))
    read(source)
    read(source, NOW + timedelta(days=3))
    assert DeviceUse.objects.order_by("hour")[1].hour == NOW.replace(minute=0, second=0) + timedelta(
        days=3, hours=-6
    )


def test_the_same_window_is_never_counted_twice(lab: Lab, server: Fake) -> None:
    source = lab.source(server.url)
    query = lab.only(source, USE)
    server.answer = busy(({"UUID": UUIDS[0]}, lambda _: 50))
    read(source)
    # As if a second worker had begun before the first had written.
    MetricQuery.objects.filter(pk=query.pk).update(read_until=None)
    read(source)
    assert [row.minutes for row in DeviceUse.objects.all()] == [5]


def test_two_series_of_one_device_do_not_add_up(lab: Lab, server: Fake) -> None:
    source = lab.source(server.url)
    lab.only(source, USE)
    pods = [
        ({"UUID": UUIDS[0], "pod": name}, lambda _, value=value: value)
        for name, value in (("a", 30), ("b", 60))
    ]
    server.answer = busy(*pods)
    read(source)
    assert [(row.minutes, row.highest) for row in DeviceUse.objects.all()] == [(5, 60.0)]


@pytest.mark.parametrize("value", [0.37, 250.0, -3.0])
def test_what_is_no_percent_is_not_taken_for_one(lab: Lab, server: Fake, value: float) -> None:
    source = lab.source(server.url)
    query = lab.only(source, USE)
    server.answer = busy(({"UUID": UUIDS[0]}, lambda _: value))
    read(source)
    if value < 0 or value > 100:
        assert problem_of(query) == "no-percent"
        assert not DeviceUse.objects.exists()
        # It is about the query: the Prometheus itself is fine.
        assert problem_of(source) is None
    else:
        assert problem_of(query) is None


@pytest.mark.parametrize("value", ["1e308", "-1", "9223372036854775794"])
def test_a_device_that_tells_nonsense_costs_the_others_nothing(lab: Lab, server: Fake, value: str) -> None:
    """A node's exporter says what it likes; the devices of other nodes are measured all the same."""
    source = lab.source(server.url)
    query = lab.only(source, USE)
    server.answer = busy(
        ({"UUID": UUIDS[0]}, lambda _: 50),
        ({"UUID": UUIDS[1]}, lambda at: value if at.minute == 7 else 0),
    )
    read(source)
    assert list(DeviceUse.objects.values_list("hardware_id", "total")) == [(UUIDS[0], 250.0)]
    assert problem_of(query) == "no-percent"
    assert UUIDS[1] in str(Problem.read(query.problem).said)  # type: ignore[union-attr] # it has one
    assert query.read_until == SLOT + slots.SLOT
    server.answer = busy(({"UUID": UUIDS[0]}, lambda _: 50), ({"UUID": UUIDS[1]}, lambda _: 0))
    read(source, NOW + timedelta(minutes=5))
    assert problem_of(query) is None


def test_samples_of_no_known_device_are_named(lab: Lab, server: Fake) -> None:
    source = lab.source(server.url)
    query = lab.only(source, USE)
    server.answer = busy(({"UUID": "GPU-elsewhere"}, lambda _: 5), ({}, lambda _: 5))
    read(source)
    assert problem_of(query) == "no-device"
    assert query.strangers == ["GPU-elsewhere"]
    assert not DeviceUse.objects.exists()


def test_a_device_may_be_named_by_address_and_node(lab: Lab, server: Fake) -> None:
    source = lab.source(server.url)
    query = lab.only(source, USE)
    MetricQuery.objects.filter(pk=query.pk).update(label="pci_bus_id", node_label="Hostname")
    labels = {"pci_bus_id": "00000000:10:11.0", "Hostname": "gpu-01.cluster.example.org"}
    server.answer = busy((labels, lambda _: 70), ({**labels, "Hostname": "gpu-02"}, lambda _: 20))
    read(source)
    assert [(row.hardware_id, row.highest) for row in DeviceUse.objects.all()] == [(UUIDS[1], 70.0)]


def test_the_cluster_is_named_where_the_query_says(lab: Lab, server: Fake) -> None:
    source = lab.source(server.url, label="cluster", label_value='ber"lin')
    lab.only(source, USE)
    read(source)
    assert 'DCGM_FI_DEV_GPU_UTIL{GPU_I_ID="", cluster="ber\\"lin"}' in server.asked[0].fields["query"]


def test_what_drivers_say_is_kept_by_driver_and_no_answer_is_no_zero(lab: Lab, server: Fake) -> None:
    source = lab.source(server.url)
    query = lab.only(source, DRIVERS)
    labels = {"driver_name": "gpu.nvidia.com", "method_name": "NodePrepareResources"}
    server.answer = lambda _a, _h: (200, vector((labels, 0.25), ({"driver_name": "dra.net"}, "NaN")))
    read(source)
    query.refresh_from_db()
    assert query.values == [
        {"driver": "gpu.nvidia.com", "labels": {"method_name": "NodePrepareResources"}, "value": 0.25}
    ]
    assert query.answered_at == NOW
    server.answer = lambda _a, _h: (200, vector())
    read(source, NOW + timedelta(minutes=5))
    query.refresh_from_db()
    assert (query.values, query.samples) == ([], 0)


def test_labels_that_name_pods_are_not_shown_to_everybody(lab: Lab, server: Fake) -> None:
    source = lab.source(server.url)
    query = lab.only(source, DRIVERS)
    whose = {"exported_pod": "train-0", "namespace": "tides", "container": "c", "pod": "driver-x"}
    labels = {query.label: "gpu.nvidia.com", "method_name": "NodePrepareResources"} | whose
    server.answer = lambda _a, _h: (200, vector((labels, 2)))
    read(source)
    query.refresh_from_db()
    assert [row["labels"] for row in query.values] == [{"method_name": "NodePrepareResources"}]


def test_labels_of_pods_are_handed_on_whole_and_only_when_asked_for(lab: Lab, server: Fake) -> None:
    source = lab.source(server.url)
    query = lab.only(source, MetricQuery.Kind.PODS)
    assert not query.enabled
    MetricQuery.objects.filter(pk=query.pk).update(enabled=True)
    pod = Pod.objects.create(
        cluster=lab.cluster, name="train-0", namespace="tides", uid="pod-1", resource_version="1",
        node_name="gpu-01", phase="Running",
    )  # fmt: skip
    labels = {
        "UUID": UUIDS[0],
        "Hostname": "gpu-01",
        "pod": "train-0",
        "namespace": "tides",
        "container": "c",
    }
    server.answer = lambda _a, _h: (200, vector((labels, "NaN")))
    read(source)
    (had,) = PodDevice.objects.all()
    assert (had.pod_uid, had.hardware_id) == (pod.uid, UUIDS[0])
    # An error says nothing of what Pods have; an answer without it does.
    server.answer = lambda _a, _h: (500, b"")
    read(source, NOW + timedelta(minutes=5))
    assert PodDevice.objects.filter(gone_at=None).exists()
    server.answer = lambda _a, _h: (200, vector(({"UUID": UUIDS[0], "Hostname": "gpu-01"}, 0)))
    read(source, NOW + timedelta(minutes=10))
    assert not PodDevice.objects.filter(gone_at=None).exists()


def test_a_wrong_query_does_not_keep_the_others_from_being_asked(lab: Lab, server: Fake) -> None:
    source = lab.source(server.url)
    wrong = source.queries.filter(kind=DRIVERS).order_by("position")[1]
    told = {"status": "error", "errorType": "bad_data", "error": "parse error"}

    def answer(asked: Asked, _handler: BaseHTTPRequestHandler) -> tuple[int, Any]:
        if asked.path.endswith("range"):
            return 200, matrix()
        return (400, told) if 'status_code!="OK"' in asked.fields["query"] else (200, vector())

    server.answer = answer
    read(source)
    assert problem_of(wrong) == "rejected"
    assert source.problem is None
    assert source.failures == 0
    rest = source.queries.filter(enabled=True).exclude(pk=wrong.pk)
    assert not rest.filter(answered_at=None).exists()


def test_one_that_is_down_is_asked_once_a_round_and_less_and_less_often(lab: Lab, server: Fake) -> None:
    source = lab.source(server.url)
    server.answer = lambda _a, _h: (500, b"")
    waits = []
    for _round in range(7):
        read(source)
        assert source.due_at is not None
        waits.append((source.due_at - NOW) // timedelta(minutes=1))
    assert len(server.asked) == 7
    assert waits == [1, 2, 4, 8, 16, 30, 30]
    assert problem_of(source) == "failing"
    assert reading.due(now=NOW) == []
    server.answer = busy()
    read(source, NOW + timedelta(hours=1))
    assert (source.problem, source.failures) == (None, 0)


def test_a_fault_of_the_desk_is_not_taken_for_an_answer(
    lab: Lab, server: Fake, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = lab.source(server.url)
    lab.only(source, DRIVERS)

    def broken(*_args: object, **_kwargs: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(reading, "_read_drivers", broken)
    with pytest.raises(RuntimeError):
        reading.read(source_id=source.pk, now=NOW)
    source.refresh_from_db()
    assert (source.answered_at, source.failures, source.busy_until) == (None, 1, None)
    assert source.due_at == NOW + timedelta(minutes=1)


@pytest.mark.parametrize("url", ["http://%zz/", "http://a%00b", "http://[v1.x]:9"])
def test_an_address_that_cannot_be_asked_is_one_that_does_not_answer(lab: Lab, url: str) -> None:
    """As an earlier release may have taken it."""
    source = lab.source("http://prometheus:9090")
    MetricSource.objects.filter(pk=source.pk).update(url=url)
    read(source)
    assert problem_of(source) == "unreachable"


def test_no_two_workers_ask_at_once_and_one_that_died_keeps_nobody_out_for_long(
    lab: Lab, server: Fake
) -> None:
    source = lab.source(server.url)
    MetricSource.objects.update(busy_until=NOW + timedelta(minutes=2))
    assert reading.due(now=NOW) == []
    assert not reading.read(source_id=source.pk, now=NOW)
    assert server.asked == []
    later = NOW + timedelta(minutes=3)
    assert reading.due(now=later) == [source.pk]
    read(source, later)


def test_a_round_ends_though_there_is_more_to_ask(lab: Lab, server: Fake) -> None:
    source = lab.source(server.url)
    assert reading.read(source_id=source.pk, now=NOW, round_seconds=-1)
    assert server.asked == []
    source.refresh_from_db()
    assert source.problem is None


def test_a_token_that_no_key_opens_is_named(lab: Lab, server: Fake, settings: Any) -> None:
    source = lab.source(server.url, token="s3cret")
    settings.CREDENTIAL_KEYS = ["KNwZ1Ml6a4mXlKrjcDXNHfRh1M1oO4vN8BPTfeDDNYk="]
    read(source)
    assert problem_of(source) == "locked"
    assert server.asked == []


def test_a_cluster_that_is_not_followed_is_not_asked_about(lab: Lab, server: Fake) -> None:
    lab.source(server.url)
    lab.cluster.enabled = False
    lab.cluster.save()
    assert reading.due(now=NOW) == []


def test_old_use_is_dropped(lab: Lab, server: Fake) -> None:
    source = lab.source(server.url, keep_days=2)
    lab.only(source, USE)
    server.answer = busy(({"UUID": UUIDS[0]}, lambda _: 50))
    read(source)
    read(source, NOW + timedelta(days=2, hours=2))
    assert DeviceUse.objects.order_by("hour").first().hour > NOW + timedelta(days=1)  # type: ignore[union-attr] # there is one
    source.delete()
    reading.forget_orphans(now=NOW + timedelta(days=30))
    assert DeviceUse.objects.exists()
    reading.forget_orphans(now=NOW + timedelta(days=90))
    assert not DeviceUse.objects.exists()


def test_a_query_that_fails_keeps_the_others_back_for_half_an_hour_only(lab: Lab, server: Fake) -> None:
    source = lab.source(server.url)
    first, second = source.queries.filter(kind=USE)
    MetricQuery.objects.filter(pk=first.pk).update(read_until=NOW, enabled=True)
    MetricQuery.objects.filter(pk=second.pk).update(read_until=NOW - timedelta(minutes=10), enabled=True)
    assert use.settled(source) == NOW - timedelta(minutes=10)
    MetricQuery.objects.filter(pk=second.pk).update(read_until=NOW - timedelta(hours=5))
    assert use.settled(source) == NOW - timedelta(minutes=30)


@pytest.mark.long
@pytest.mark.skipif(PROMETHEUS is None, reason="no prometheus on this machine")
def test_a_real_prometheus_tells_what_its_exporter_told(lab: Lab, tmp_path: Path) -> None:
    metrics = "\n".join(
        [
            f'DCGM_FI_PROF_GR_ENGINE_ACTIVE{{UUID="{UUIDS[0]}",GPU_I_ID="",gpu="0"}} 0.25',
            f'DCGM_FI_DEV_GPU_UTIL{{UUID="{UUIDS[0]}",gpu="0"}} 99',
            f'DCGM_FI_DEV_GPU_UTIL{{UUID="{UUIDS[1]}",gpu="1"}} 60',
            # An instance of a partitioned GPU is not the GPU.
            f'DCGM_FI_DEV_GPU_UTIL{{UUID="{UUIDS[1]}",gpu="1",GPU_I_ID="3"}} 88',
            'dra_resource_claims_in_use{driver_name="gpu.nvidia.com"} 2',
            'dra_resource_claims_in_use{driver_name="<any>"} 2',
            'resourceclaim_controller_resource_claims{allocated="true",admin_access="false",source=""} 7',
            'workqueue_depth{name="resource_claim"} 0',
            "",
        ]
    )
    with exporter(metrics) as target, prometheus(target, tmp_path / "prometheus") as url:
        source = lab.source(url, label="cluster", label_value="berlin")
        # It scrapes since a moment ago: what is asked for lies half a minute ahead of it.
        now = timezone.now() + slots.SLOT
        read(source, slots.floor(now, slots.SLOT) + timedelta(seconds=40))
        rows = {row.hardware_id: row.total / row.minutes for row in DeviceUse.objects.all()}
        assert problem_of(source) is None
        assert not source.queries.filter(problem__isnull=False).exists()
        assert rows == {UUIDS[0]: 25.0, UUIDS[1]: 60.0}
        by_name = {query.name: query.values for query in source.queries.filter(kind=DRIVERS)}
        (in_use,) = by_name["Claims that kubelets have in use"]
        assert in_use == {"driver": "gpu.nvidia.com", "labels": {}, "value": 2}
        (known,) = by_name["Claims that the controller knows"]
        assert known["value"] == 7
        (waiting,) = by_name["Controller of claims: waiting"]
        # A zero that was told is one.
        assert waiting["value"] == 0
        assert by_name["NVIDIA's driver: could not prepare"] == []
