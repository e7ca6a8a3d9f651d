"""Every number that operations asked for is scraped before and after its cause, as a Prometheus would."""

import uuid
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from prometheus_client.parser import text_string_to_metric_families
from redis import Redis

from claims.models import Request
from inventory.models import (
    CdiNode,
    CdiToken,
    Claim,
    ClaimDevice,
    Cluster,
    Device,
    DeviceClass,
    Finding,
    Observation,
    Pod,
    PodDeviceNode,
    PodDeviceToken,
    PodEvent,
    ResourceSlice,
    Severity,
    Stream,
    SyncProblem,
)
from inventory.tasks import ensure_followers
from portal.accounts.models import ApiToken
from portal.kube import errors
from portal.kube.measures import measured
from tests.inventory_pages.factories import make_cluster, make_fleet, make_project, make_user

pytestmark = pytest.mark.django_db
DRIVER = "gpu-0.example.com"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]
# When the test began: the desk tells how old what happens is, and this module may be read long before.
NOW = timezone.now()


@pytest.fixture(autouse=True)
def now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "NOW", timezone.now())


@pytest.fixture
def north(now: None) -> Cluster:
    cluster = make_cluster("north")
    make_fleet(cluster, nodes=2, per_node=4, kinds=1)
    Device.objects.update(state=Device.State.FREE, health=Device.Health.GOOD)
    begun = NOW - timedelta(hours=5)
    Observation.objects.create(
        cluster=cluster, kind=Observation.Kind.NODE_UP, at=begun, observed_at=begun, name="n", uid="n",
        source=Observation.Source.OBSERVED, key="n",
    )  # fmt: skip
    return cluster


@pytest.fixture
def scrape() -> Callable[[], Samples]:
    user = make_user("prometheus", is_auditor=True)
    _row, secret = ApiToken.objects.create(user=user, name="scrape", scopes=[ApiToken.Scope.METRICS])

    def fetch() -> Samples:
        answer = Client().get(reverse("api-metrics"), headers={"authorization": f"Bearer {secret}"})
        assert answer.status_code == 200
        return {
            (sample.name, frozenset(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(answer.content.decode())
            for sample in family.samples
        }

    return fetch


# --- causes -----------------------------------------------------------------------------------------


def fewer_slices(_north: Cluster) -> None:
    ResourceSlice.objects.order_by("pk").first().delete()  # type: ignore[union-attr] # there are two


def heard(_north: Cluster) -> None:
    Stream.objects.filter(resource="resourceslices").update(heard_at=NOW + timedelta(seconds=7))


def listed(_north: Cluster) -> None:
    Stream.objects.filter(resource="resourceslices").update(listed_at=NOW + timedelta(seconds=7))


def held(_north: Cluster) -> None:
    Device.objects.filter(pk=Device.objects.values("pk")[:1]).update(state=Device.State.HELD)


def ill(_north: Cluster) -> None:
    Device.objects.filter(pk=Device.objects.values("pk")[:1]).update(health=Device.Health.UNHEALTHY)


def another_class(north: Cluster) -> None:
    DeviceClass.objects.create(cluster=north, name="a100", uid="c", resource_version="1", spec={})


def claim(north: Cluster, **fields: Any) -> Claim:
    values: dict[str, Any] = {
        "namespace": "team", "name": "train", "uid": "u", "resource_version": "1", "spec": {},
        "created_at": NOW - timedelta(minutes=2),
    }  # fmt: skip
    return Claim.objects.create(cluster=north, **values | fields)


def waiting(north: Cluster) -> None:
    claim(north)
    Pod.objects.create(
        cluster=north, namespace="team", name="train-0", uid="p", resource_version="1", phase="Pending",
        claim_names={"gpu": "train"}, unschedulable_message="0/2 nodes are available",
    )  # fmt: skip


def shared(north: Cluster) -> None:
    ClaimDevice.objects.create(
        claim=claim(north, allocated=True), driver=DRIVER, pool_name="p", device_name="d", request="r",
        share_id="s1", consumed_capacity={"memory": "2Gi"},
    )  # fmt: skip


def event(reason: str) -> Callable[[Cluster], None]:
    def cause(north: Cluster) -> None:
        PodEvent.objects.create(
            cluster=north, namespace="team", pod_name="train", pod_uid="u1", last_at=NOW, count=7,
            reason=reason, message="no",
        )  # fmt: skip

    return cause


def leaked(north: Cluster) -> None:
    Finding.objects.create(
        cluster=north, kind="claim-leaked", subject="p", severity=Severity.WARNING, object_kind="claim",
        name="p", code="x", first_seen_at=NOW, opened_at=NOW, last_seen_at=NOW,
    )  # fmt: skip


def lagging(_north: Cluster) -> None:
    Stream.objects.filter(resource="resourceslices").update(lag_us=250_000)


def unreadable(north: Cluster) -> None:
    SyncProblem.objects.create(cluster=north, resource="pods", name="odd", seen_at=NOW, reason="no")


def called(verb: str) -> Callable[[Cluster], None]:
    def cause(_north: Cluster) -> None:
        with measured(server="https://api.example.org", verb=verb, path=SLICES):
            pass

    return cause


def failed(_north: Cluster) -> None:
    with (
        pytest.raises(errors.Unreachable),
        measured(server="https://api.example.org", verb="WATCH", path=SLICES),
    ):
        raise errors.Unreachable("gone")


def leased(_north: Cluster) -> None:
    Cluster.objects.update(lease_expires_at=NOW + timedelta(seconds=20))


def asked_for(north: Cluster) -> None:
    user = make_user("rhea")
    Request.objects.create(
        project=make_project("tides", lead=user), requester=user, cluster=north, namespace="tides",
        state=Request.State.FAILED, device_class="gpu", count=1, shape="claim", duration=timedelta(hours=1),
        purpose="x", created_at=NOW, changed_at=NOW, object_name="tides-1",
    )  # fmt: skip


def unseen(north: Cluster) -> None:
    Observation.objects.create(
        cluster=north, kind=Observation.Kind.GAP, at=NOW - timedelta(hours=1), observed_at=NOW, name="gap",
        uid="gap", source=Observation.Source.OBSERVED, key="gap",
        facts={"resource": "resourceclaims", "from": (NOW - timedelta(hours=3)).isoformat(), "lost": True},
    )  # fmt: skip


def worked(_north: Cluster) -> None:
    ensure_followers.apply()


def revoked_and_sent(north: Cluster) -> None:
    node = CdiNode.objects.create(cluster=north, name="gpu-01", created_at=NOW)
    node_token(CdiToken, node, "a", revoked_at=NOW - timedelta(minutes=9), last_used_at=NOW)
    # Used before, and never again: nothing to tell.
    node_token(CdiToken, node, "b", revoked_at=NOW, last_used_at=NOW - timedelta(minutes=9))
    node_token(CdiToken, node, "c", last_used_at=NOW)
    other = PodDeviceNode.objects.create(
        cluster=north, name="gpu-01", created_at=NOW, source=PodDeviceNode.Source.PODRESOURCES
    )
    for number in range(2):
        node_token(
            PodDeviceToken, other, str(number), expires_at=NOW - timedelta(minutes=9), last_used_at=NOW
        )


def node_token(kind: Any, node: Any, digest: str, **fields: datetime) -> None:
    values = {"created_at": NOW - timedelta(days=9), "expires_at": NOW + timedelta(days=9)} | fields
    kind.objects.create(node=node, digest=digest, prefix=digest, **values)


NORTH = {"cluster": "north"}
OF_DRIVER = NORTH | {"driver": DRIVER}
OF_SLICES = NORTH | {"resource": "resourceslices"}
CALL = {"server": "https://api.example.org", "resource": "resourceslices"}
# What moves, by how much (None: it is another number), and its cause.
Move = tuple[str, dict[str, str], float | None, Callable[[Cluster], None]]
MOVES: tuple[Move, ...] = (
    ("claimdesk_resource_slices", OF_DRIVER, -1, fewer_slices),
    ("claimdesk_stream_heard_timestamp_seconds", OF_SLICES, None, heard),
    ("claimdesk_stream_listed_timestamp_seconds", OF_SLICES, None, listed),
    ("claimdesk_devices", OF_DRIVER | {"state": "held"}, 1, held),
    ("claimdesk_device_health", OF_DRIVER | {"health": "unhealthy"}, 1, ill),
    ("claimdesk_device_classes", NORTH, 1, another_class),
    ("claimdesk_claims", NORTH | {"state": "pending"}, 1, waiting),
    ("claimdesk_claims", NORTH | {"state": "allocated"}, 1, shared),
    ("claimdesk_claim_pending_seconds_gcount", NORTH | {"reason": "unschedulable"}, 1, waiting),
    (
        "claimdesk_claim_pending_seconds_bucket", NORTH | {"reason": "unschedulable", "le": "300.0"}, 1,
        waiting,
    ),
    (
        "claimdesk_pod_device_failures", NORTH | {"reason": "FailedScheduling"}, 7,
        event("FailedScheduling"),
    ),
    (
        "claimdesk_pod_device_failures", NORTH | {"reason": "FailedPrepareDynamicResources"}, 7,
        event("FailedPrepareDynamicResources"),
    ),
    ("claimdesk_findings", NORTH | {"kind": "claim-leaked", "severity": "warning"}, 1, leaked),
    ("claimdesk_consumable_capacity_used", OF_DRIVER | {"capacity": "memory"}, 2.0 * 2**30, shared),
    ("claimdesk_stream_lag_seconds", OF_SLICES, 0.25, lagging),
    ("claimdesk_sync_problems", NORTH | {"resource": "pods"}, 1, unreadable),
    ("claimdesk_kube_request_seconds_count", CALL | {"verb": "LIST"}, 1, called("GET")),
    ("claimdesk_kube_request_seconds_count", CALL | {"verb": "WATCH"}, 1, called("WATCH")),
    ("claimdesk_kube_request_failures_total", CALL | {"verb": "WATCH", "error": "Unreachable"}, 1, failed),
    ("claimdesk_follower_lease_expires_timestamp_seconds", NORTH, None, leased),
    ("claimdesk_task_seconds_count", {"task": ensure_followers.name, "outcome": "success"}, 1, worked),
    ("claimdesk_tasks_started_total", {"task": ensure_followers.name}, 1, worked),
    ("claimdesk_requests", {"state": "failed"}, 1, asked_for),
    ("claimdesk_unobserved_seconds", NORTH, 7200, unseen),
    (
        "claimdesk_node_tokens_refused", NORTH | {"reports": "cdi", "cause": "revoked"}, 1,
        revoked_and_sent,
    ),
    (
        "claimdesk_node_tokens_refused", NORTH | {"reports": "pod-devices", "cause": "expired"}, 2,
        revoked_and_sent,
    ),
)  # fmt: skip


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move[0])
def test_it_moves_when_its_cause_happens(move: Move, north: Cluster, scrape: Callable[[], Samples]) -> None:
    name, labels, by, cause = move
    key = (name, frozenset(labels.items()))
    before = scrape().get(key, 0.0)
    cause(north)
    after = scrape()
    assert key in after, sorted(str(labels) for known, labels in after if known == name)
    if by is None:
        assert after[key] != before
    else:
        # Time goes on meanwhile.
        assert after[key] - before == pytest.approx(by, abs=5 if cause is unseen else 0.001)


def test_what_waits_for_a_worker_is_counted(
    settings: Any, north: Cluster, scrape: Callable[[], Samples]
) -> None:
    assert north.pk
    queue = f"test-{uuid.uuid4()}"
    settings.CELERY_TASK_DEFAULT_QUEUE = queue
    key = ("claimdesk_queue_depth", frozenset({("queue", queue)}))
    assert scrape()[key] == 0
    with Redis.from_url(settings.REDIS_URL) as redis:
        redis.rpush(queue, "a", "b", "c")
        try:
            assert scrape()[key] == 3
        finally:
            redis.delete(queue)


def test_labels_are_words_of_the_desk_and_never_names_of_people_or_objects(
    north: Cluster, scrape: Callable[[], Samples]
) -> None:
    """Else a tenant could make as many series as they make Pods."""
    for cause in dict.fromkeys(cause for _name, _labels, _by, cause in MOVES):
        if cause is not shared:  # its claim is that of `waiting`
            cause(north)
    words = {value for _name, labels in scrape() for _label, value in labels}
    assert "revoked" in words
    assert not {"team", "train", "train-0", "rhea", "tides", "tides-1", "odd", "gpu-01"} & words
