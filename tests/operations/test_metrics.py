"""What Prometheus is told: each number moves with its cause, and what nobody knows is not told."""

import urllib.request
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from prometheus_client import REGISTRY, Metric, start_http_server
from prometheus_client.parser import text_string_to_metric_families

from inventory.models import Claim, Cluster, Device, Finding, Observation, PodEvent, Severity, Stream
from portal import measures
from portal.accounts.models import ApiToken
from portal.kube import errors
from portal.kube.measures import measured, resource_of
from portal.pages.metrics.fleet import FleetMetrics
from tests.inventory_pages.factories import make_cluster, make_fleet, make_user

pytestmark = pytest.mark.django_db

Samples = Mapping[tuple[str, tuple[str, ...]], float]


def told() -> Samples:
    """Every sample by its name and the values of its labels."""
    return {
        (sample.name, tuple(sample.labels.values())): sample.value
        for metric in FleetMetrics(now=timezone.now()).collect()
        for sample in metric.samples
    }


@pytest.fixture
def north() -> Cluster:
    cluster = make_cluster("north")
    make_fleet(cluster, nodes=2, per_node=4, kinds=1)
    Device.objects.update(state=Device.State.FREE, health=Device.Health.GOOD)
    return cluster


def token(**flags: Any) -> str:
    user = make_user("prometheus", **flags)
    _row, secret = ApiToken.objects.create(user=user, name="scrape", scopes=[ApiToken.Scope.METRICS])
    return str(secret)


def scrape(secret: str) -> Any:
    return Client().get(reverse("api-metrics"), headers={"authorization": f"Bearer {secret}"})


def test_a_prometheus_with_a_token_of_an_auditor_gets_text_that_it_can_read(north: Cluster) -> None:
    answer = scrape(token(is_auditor=True))
    assert answer.status_code == 200
    families: dict[str, Metric] = {
        family.name: family for family in text_string_to_metric_families(answer.content.decode())
    }
    free = [s for s in families["claimdesk_devices"].samples if s.labels["state"] == "free"]
    assert [(s.labels["cluster"], s.value) for s in free] == [("north", 8)]
    assert "claimdesk_http_request_seconds" in families


def test_what_a_web_server_counts_is_told_at_its_own_port_where_it_has_one(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a load balancer every question reaches another web server."""
    started = []

    def serve(port: int, addr: str) -> None:
        assert (port, addr) == (9100, "127.0.0.1")
        started.append(start_http_server(0, addr=addr))

    monkeypatch.setattr(measures, "start_http_server", serve)
    settings.METRICS_PORT, settings.METRICS_ADDRESS = 9100, "127.0.0.1"
    measures.serve_counts()
    ((server, thread),) = started
    url = f"http://127.0.0.1:{server.server_port}/metrics"
    with urllib.request.urlopen(url, timeout=10) as answer:
        counted_there = answer.read().decode()
    server.shutdown()
    server.server_close()
    thread.join(timeout=10)
    assert "claimdesk_http_request_seconds" in counted_there
    assert "claimdesk_requests{" not in counted_there
    state = scrape(token(is_auditor=True)).content.decode()
    assert "claimdesk_requests{" in state
    assert "claimdesk_http_request_seconds" not in state


def test_a_port_that_another_process_has_stops_nobody(
    settings: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def taken(*_: object, **__: object) -> None:
        raise OSError("Address already in use")

    monkeypatch.setattr(measures, "start_http_server", taken)
    settings.METRICS_PORT = 9100
    measures.serve_counts()
    assert "Address already in use" in caplog.text


def test_nobody_else_gets_any() -> None:
    assert Client().get(reverse("api-metrics")).status_code == 401
    assert scrape(token()).status_code == 403
    other = make_user("otto", is_auditor=True)
    _row, secret = ApiToken.objects.create(user=other, name="x", scopes=[ApiToken.Scope.INVENTORY])
    assert scrape(str(secret)).status_code == 403


def test_devices_move_with_their_state_and_health(north: Cluster) -> None:
    driver = "gpu-0.example.com"
    assert told()["claimdesk_devices", ("north", driver, "free")] == 8
    some = Device.objects.filter(cluster=north).values("pk")[:3]
    Device.objects.filter(pk__in=list(some.values_list("pk", flat=True))).update(
        state=Device.State.HELD, health=Device.Health.UNHEALTHY
    )
    samples = told()
    assert samples["claimdesk_devices", ("north", driver, "free")] == 5
    assert samples["claimdesk_devices", ("north", driver, "held")] == 3
    assert samples["claimdesk_device_health", ("north", driver, Device.Health.UNHEALTHY)] == 3
    assert samples["claimdesk_resource_slices", ("north", driver)] == 2


def test_a_cluster_out_of_step_has_devices_in_no_known_state(north: Cluster) -> None:
    Cluster.objects.update(state=Cluster.State.UNREACHABLE)
    samples = told()
    assert samples["claimdesk_cluster_in_step", ("north",)] == 0
    assert samples["claimdesk_devices", ("north", "gpu-0.example.com", "unknown")] == 8
    assert ("claimdesk_devices", ("north", "gpu-0.example.com", "free")) not in samples


def test_what_was_never_observed_has_no_sample() -> None:
    Cluster.objects.create(name="new", credentials=Cluster.Credentials.KUBECONFIG, created_at=timezone.now())
    names = {name for name, labels in told() if labels[:1] == ("new",)}
    assert names == {"claimdesk_cluster_info", "claimdesk_cluster_in_step"}


def test_streams_tell_their_age_lag_and_size(north: Cluster) -> None:
    Stream.objects.filter(cluster=north, resource="resourceslices").update(lag_us=250_000, object_count=17)
    samples = told()
    assert samples["claimdesk_stream_lag_seconds", ("north", "resourceslices")] == 0.25
    assert samples["claimdesk_mirrored_objects", ("north", "resourceslices")] == 17
    heard = samples["claimdesk_stream_heard_timestamp_seconds", ("north", "resourceslices")]
    assert abs(heard - timezone.now().timestamp()) < 3600


def test_pending_claims_are_counted_by_what_they_wait_for(north: Cluster) -> None:
    assert ("claimdesk_claims", ("north", "pending")) not in told()
    Claim.objects.create(
        cluster=north, namespace="team", name="train", uid="u", resource_version="1", spec={},
        created_at=timezone.now() - timedelta(minutes=2),
    )  # fmt: skip
    samples = told()
    assert samples["claimdesk_claims", ("north", "pending")] == 1
    assert samples["claimdesk_claim_pending_seconds_bucket", ("north", "no-pod", "60.0")] == 0
    assert samples["claimdesk_claim_pending_seconds_bucket", ("north", "no-pod", "300.0")] == 1


def test_failures_and_findings_are_counted_by_kind(north: Cluster) -> None:
    now = timezone.now()
    PodEvent.objects.create(
        cluster=north, namespace="team", pod_name="train", pod_uid="u1", last_at=now, count=7,
        reason="FailedPrepareDynamicResources", message="no",
    )  # fmt: skip
    Finding.objects.create(
        cluster=north, kind="pool-incomplete", subject="p", severity=Severity.WARNING, object_kind="pool",
        name="p", code="x", first_seen_at=now, opened_at=now, last_seen_at=now,
    )  # fmt: skip
    samples = told()
    assert samples["claimdesk_pod_device_failures", ("north", "FailedPrepareDynamicResources")] == 7
    assert samples["claimdesk_findings", ("north", "pool-incomplete", Severity.WARNING)] == 1
    Finding.objects.update(resolved_at=now)
    assert ("claimdesk_findings", ("north", "pool-incomplete", Severity.WARNING)) not in told()


def test_time_that_nobody_saw_is_told(north: Cluster) -> None:
    now = timezone.now()
    begun = now - timedelta(hours=5)
    Observation.objects.create(
        cluster=north, kind=Observation.Kind.NODE_UP, at=begun, observed_at=begun, name="n", uid="n",
        source=Observation.Source.OBSERVED, key="n",
    )  # fmt: skip
    before = told()["claimdesk_unobserved_seconds", ("north",)]
    Observation.objects.create(
        cluster=north, kind=Observation.Kind.GAP, at=now - timedelta(hours=1), observed_at=now, name="gap",
        uid="gap", source=Observation.Source.OBSERVED, key="gap",
        facts={"resource": "resourceclaims", "from": (now - timedelta(hours=3)).isoformat(), "lost": True},
    )  # fmt: skip
    assert told()["claimdesk_unobserved_seconds", ("north",)] - before == pytest.approx(7200, abs=5)


def test_requests_and_queues_are_told_with_their_zeros() -> None:
    samples = told()
    assert samples["claimdesk_requests", ("failed",)] == 0
    assert samples["claimdesk_queue_depth", ("default",)] >= 0
    assert ("claimdesk_queue_depth", ("follow",)) in samples


def test_without_the_broker_the_depth_of_queues_is_unknown_and_not_zero(settings: Any) -> None:
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    assert not [name for name, _labels in told() if name == "claimdesk_queue_depth"]


# --- what a process counts ------------------------------------------------------------------------


def counted(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


@pytest.fixture
def calls() -> dict[str, str]:
    return {"server": "https://api.example.org", "verb": "LIST", "resource": "resourceslices"}


def test_calls_to_api_servers_are_timed_by_resource(calls: dict[str, str]) -> None:
    before = counted("claimdesk_kube_request_seconds_count", **calls)
    with measured(server=calls["server"], verb="GET", path="/apis/resource.k8s.io/v1/resourceslices"):
        pass
    assert counted("claimdesk_kube_request_seconds_count", **calls) == before + 1


@pytest.mark.parametrize(
    ("verb", "path", "told"),
    [
        ("GET", "/apis/resource.k8s.io/v1/resourceslices/s1", "GET"),
        ("GET", "/api/v1/namespaces/team/pods", "LIST"),
        ("GET", "/api/v1/namespaces/team", "GET"),
        ("GET", "/api/v1/namespaces", "LIST"),
        ("GET", "/version", "GET"),
        ("WATCH", "/apis/resource.k8s.io/v1/resourceslices", "WATCH"),
        ("POST", "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims", "POST"),
    ],
)
def test_a_list_is_told_from_a_single_object(verb: str, path: str, told: str) -> None:
    labels = {"server": "https://api.example.org", "verb": told, "resource": resource_of(path)}
    before = counted("claimdesk_kube_request_seconds_count", **labels)
    with measured(server=labels["server"], verb=verb, path=path):
        pass
    assert counted("claimdesk_kube_request_seconds_count", **labels) == before + 1


def test_failed_calls_are_counted_by_their_error_and_go_on(calls: dict[str, str]) -> None:
    wanted = calls | {"error": "Unreachable"}
    before = counted("claimdesk_kube_request_failures_total", **wanted)
    with (
        pytest.raises(errors.Unreachable),
        measured(server=calls["server"], verb="GET", path="/apis/resource.k8s.io/v1/resourceslices"),
    ):
        raise errors.Unreachable("gone")
    assert counted("claimdesk_kube_request_failures_total", **wanted) == before + 1


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/api/v1/pods", "pods"),
        ("/api/v1/nodes/n1", "nodes"),
        ("/api/v1/namespaces/team/pods/train-0", "pods"),
        ("/api/v1/namespaces/team", "namespaces"),
        ("/api/v1/namespaces/team/pods/train-0/status", "pods/status"),
        ("/apis/resource.k8s.io/v1/namespaces/team/resourceclaims/c", "resourceclaims"),
        ("/apis/resource.k8s.io/v1", "discovery"),
        ("/version", "discovery"),
        ("", "discovery"),
    ],
)
def test_names_of_objects_are_no_labels(path: str, resource: str) -> None:
    assert resource_of(path) == resource


def test_answers_are_counted_by_the_name_of_their_address() -> None:
    labels = {"method": "GET", "view": "account_login", "status": "200"}
    before = counted("claimdesk_http_request_seconds_count", **labels)
    Client().get(reverse("account_login"))
    assert counted("claimdesk_http_request_seconds_count", **labels) == before + 1
    Client().get("/no/such/address/at/all/")
    assert counted("claimdesk_http_request_seconds_count", method="GET", view="none", status="404") >= 0


def test_tasks_are_counted_with_their_outcome() -> None:
    from inventory.tasks import ensure_followers

    labels = {"task": ensure_followers.name, "outcome": "success"}
    before = counted("claimdesk_task_seconds_count", **labels)
    ensure_followers.apply()
    assert counted("claimdesk_task_seconds_count", **labels) == before + 1
