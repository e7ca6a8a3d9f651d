"""What runs inside a namespace, told to its people and to nobody else: Pods, claims, work, the namespace."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from claims.models import Request, RequestClaim
from inventory.models import (
    Claim,
    ClaimDevice,
    Finding,
    Job,
    LocalQueue,
    Namespace,
    NamespaceBinding,
    Pod,
    PodEvent,
    PodGroup,
    QueuedWorkload,
    ResourceQuota,
    SchedulingWorkload,
)
from tests.inventory_pages.conftest import INSIDERS, OUTSIDERS, Cast, Fleet
from tests.inventory_pages.factories import LONG_AGO, make_project

NS = "protein-folding"
POD = f"/pods/berlin/{NS}/secret-pod/"
CLAIM = f"/claims/berlin/{NS}/secret-claim/"
SPACE = f"/namespaces/berlin/{NS}/"
WORK = f"/workloads/berlin/{NS}/Job/train/"
PAGES = (POD, CLAIM, SPACE, WORK)


def make_pod(fleet: Fleet, name: str, **fields: Any) -> Pod:
    defaults: dict[str, Any] = {
        "namespace": NS,
        "uid": f"uid-{name}",
        "resource_version": "1",
        "phase": "Pending",
        "created_at": timezone.now(),
    }
    return Pod.objects.create(cluster=fleet.cluster, name=name, **(defaults | fields))


def make_claim(fleet: Fleet, name: str, **fields: Any) -> Claim:
    defaults: dict[str, Any] = {"namespace": NS, "uid": f"uid-{name}", "resource_version": "1", "spec": {}}
    return Claim.objects.create(cluster=fleet.cluster, name=name, **(defaults | fields))


@pytest.fixture
def job(fleet: Fleet) -> Fleet:
    """The Job "train" of two Pods: one has its claim, the other waits for it."""
    Pod.objects.filter(name="secret-pod").update(owner_kind="Job", owner_name="train", owner_uid="job-1")
    make_claim(fleet, "waiting-claim")
    make_pod(
        fleet,
        "train-1",
        owner_kind="Job",
        owner_name="train",
        owner_uid="job-1",
        claim_names={"gpu": "waiting-claim"},
        unschedulable_message="0/2 nodes are available: cannot allocate all claims.",
    )
    Job.objects.create(
        cluster=fleet.cluster, namespace=NS, name="train", uid="job-1", resource_version="1", active=2
    )
    return fleet


def read(cast: Cast, role: str, url: str) -> str:
    response = cast.client(role).get(url)
    assert response.status_code == 200, url
    return response.content.decode()


# --- who sees them ----------------------------------------------------------------------------------


@pytest.mark.parametrize("url", PAGES)
@pytest.mark.parametrize("role", INSIDERS)
def test_the_people_of_the_project_see_it(job: Fleet, cast: Cast, role: str, url: str) -> None:
    assert NS in read(cast, role, url)


@pytest.mark.parametrize("url", PAGES)
@pytest.mark.parametrize("role", OUTSIDERS)
def test_to_others_it_does_not_exist(job: Fleet, cast: Cast, role: str, url: str) -> None:
    assert cast.client(role).get(url).status_code == 404


@pytest.mark.parametrize("url", PAGES)
def test_nobody_sees_it_without_signing_in(job: Fleet, cast: Cast, url: str) -> None:
    assert cast.client("anonymous").get(url).status_code == 302


@pytest.mark.parametrize(
    "url",
    [
        f"/pods/berlin/{NS}/nothing/", f"/pods/oslo/{NS}/secret-pod/", f"/claims/berlin/{NS}/nothing/",
        "/namespaces/berlin/nothing/", f"/workloads/berlin/{NS}/Job/nothing/",
        f"/workloads/berlin/{NS}/PodGroup/a/b/", f"/pods/berlin/{NS}/%00/", f"/workloads/berlin/{NS}/%00/x/",
        "/namespaces/berlin/%00/",
    ],
)  # fmt: skip
def test_what_there_is_not_is_not_found(job: Fleet, cast: Cast, url: str) -> None:
    for role in ("owner", "administrator"):
        assert cast.client(role).get(url).status_code == 404


def test_who_had_the_namespace_before_sees_nothing_of_it_now(job: Fleet, cast: Cast) -> None:
    binding = NamespaceBinding.objects.get(cluster=job.cluster, namespace=NS)
    binding.valid_until = timezone.now() - timedelta(hours=1)
    binding.save()
    for url in PAGES:
        assert cast.client("owner").get(url).status_code == 404
        assert cast.client("auditor").get(url).status_code == 200


# --- Pod -------------------------------------------------------------------------------------------


def test_a_pod_says_which_devices_it_has_and_how_they_are(job: Fleet, cast: Cast) -> None:
    pod = Pod.objects.get(name="secret-pod")
    device = f"{job.held.pool.driver}/{job.held.pool.name}/{job.held.name}"
    pod.device_health = [
        {
            "container": "main",
            "resource": "claim:gpu",
            "device": device,
            "health": "Unhealthy",
            "message": "XID 79",
        },
        {
            "container": "main",
            "resource": "nvidia.com/gpu",
            "device": "GPU-7",
            "health": "Healthy",
            "message": "",
        },
    ]
    pod.save()
    html = read(cast, "owner", POD)
    assert f'href="/devices/{job.held.pk}/"' in html
    for text in ("XID 79", "Unhealthy", "GPU-7", "1 of 1 allocated", "/nodes/berlin/gpu-01/", CLAIM, WORK):
        assert text in html


def test_a_pod_that_waits_says_why_in_words_and_in_those_of_the_cluster(job: Fleet, cast: Cast) -> None:
    PodEvent.objects.create(
        cluster=job.cluster, namespace=NS, pod_name="train-1", pod_uid="uid-train-1",
        reason="FailedScheduling", message="0/2 nodes are available", count=7, last_at=timezone.now(),
    )  # fmt: skip
    PodEvent.objects.create(
        cluster=job.cluster, namespace=NS, pod_name="train-1", pod_uid="uid-train-1", reason="OddThing",
        message="<b>odd</b>", last_at=timezone.now(),
    )  # fmt: skip
    html = read(cast, "owner", f"/pods/berlin/{NS}/train-1/")
    for text in ("cannot allocate all claims", "found no node for it", "7 times", "OddThing", "&lt;b&gt;odd"):
        assert text in html
    assert "waits for a device" in html


def test_a_claim_that_is_not_made_yet_is_told_so(fleet: Fleet, cast: Cast) -> None:
    make_pod(fleet, "early", claim_names={"gpu": "", "nic": "gone"})
    html = read(cast, "owner", f"/pods/berlin/{NS}/early/")
    assert "not made yet" in html
    assert "does not exist" in html
    assert "0 of 2 allocated" in html


def test_a_pod_of_a_device_plugin_has_counted_units(fleet: Fleet, cast: Cast) -> None:
    make_pod(fleet, "old", extended_resources={"nvidia.com/gpu": 2}, node_name="nowhere")
    html = read(cast, "owner", f"/pods/berlin/{NS}/old/")
    assert "nvidia.com/gpu × 2" in html
    assert "does not exist" in html


# --- claim -----------------------------------------------------------------------------------------


def test_a_claim_tells_its_devices_conditions_and_consumers(job: Fleet, cast: Cast) -> None:
    ClaimDevice.objects.filter(claim__name="secret-claim").update(
        conditions=[{"type": "Ready", "status": "False", "reason": "LinkDown", "message": "no carrier"}],
        network_data={"interfaceName": "net1", "ips": ["10.0.0.7/24"]},
    )
    claim = Claim.objects.get(name="secret-claim")
    claim.status["reservedFor"] += [
        {"resource": "pods", "name": "vanished", "uid": "uid-vanished"},
        {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "gang", "uid": "uid-gang"},
        {"resource": "widgets", "name": "odd", "uid": "1"},
    ]
    claim.save()
    html = read(cast, "owner", CLAIM)
    for text in (
        *("Ready: False", "LinkDown", "no carrier", "net1", "10.0.0.7/24", POD, "vanished"),
        *("does not exist any more", f"/workloads/berlin/{NS}/PodGroup/gang/", "widgets"),
        f'href="/devices/{job.held.pk}/"',
    ):
        assert text in html


def test_a_claim_leads_to_the_request_behind_it(job: Fleet, cast: Cast) -> None:
    request = Request.objects.create(
        project=NamespaceBinding.objects.get(namespace=NS).project, requester=cast.owner, cluster=job.cluster,
        namespace=NS, device_class="gpu.nvidia.com", count=1, shape="claim", duration=timedelta(hours=1),
        purpose="folding", created_at=LONG_AGO, changed_at=LONG_AGO, object_name="folding-1234",
    )  # fmt: skip
    uid = Claim.objects.get(name="secret-claim").uid
    RequestClaim.objects.create(
        request=request, cluster=job.cluster, claim_uid=uid, claim_name="secret-claim", seen_at=LONG_AGO
    )
    for url in PAGES:
        assert reverse("request-detail", args=[request.key]) in read(cast, "owner", url)


def test_a_deleted_claim_that_holds_on_says_so(job: Fleet, cast: Cast) -> None:
    Claim.objects.filter(name="secret-claim").update(deleted_at=timezone.now())
    assert "a finalizer keeps it" in read(cast, "owner", CLAIM)


# --- work ------------------------------------------------------------------------------------------


def test_work_tells_how_much_of_what_it_needs_it_has(job: Fleet, cast: Cast) -> None:
    html = read(cast, "owner", WORK)
    for text in ("1 of 2", "what it holds stands idle", "secret-pod", "train-1", "2 active"):
        assert text in html


def test_a_jobset_gathers_the_pods_of_its_jobs(job: Fleet, cast: Cast) -> None:
    Job.objects.update(owner_kind="JobSet", owner_name="big", owner_uid="set-1")
    html = read(cast, "owner", f"/workloads/berlin/{NS}/JobSet/big/")
    assert "secret-pod" in html
    assert WORK in html


def test_a_workload_of_kueue_gathers_the_pods_of_what_it_stands_for(job: Fleet, cast: Cast) -> None:
    QueuedWorkload.objects.create(
        cluster=job.cluster, namespace=NS, name="job-train", uid="w-1", resource_version="1",
        owner_kind="Job", owner_name="train", owner_uid="job-1", queue_name="batch", state="pending",
        message="quota is used up",
    )  # fmt: skip
    LocalQueue.objects.create(
        cluster=job.cluster, namespace=NS, name="batch", uid="q", resource_version="1", cluster_queue="all"
    )
    html = read(cast, "owner", f"/workloads/berlin/{NS}/Workload/job-train/")
    for text in ("secret-pod", "quota is used up", "place 1", WORK):
        assert text in html
    for url in (WORK, POD, SPACE):
        assert f"/workloads/berlin/{NS}/Workload/job-train/" in read(cast, "owner", url)


def test_a_group_says_how_many_have_to_fit_at_once(job: Fleet, cast: Cast) -> None:
    make_claim(job, "shared-claim")
    PodGroup.objects.create(
        cluster=job.cluster, namespace=NS, name="gang", uid="g-1", resource_version="1", workload_name="plan",
        min_count=2, claim_names={"fabric": "shared-claim"},
    )  # fmt: skip
    SchedulingWorkload.objects.create(
        cluster=job.cluster, namespace=NS, name="plan", uid="p-1", resource_version="1",
        controller_kind="Job", controller_name="train",
    )  # fmt: skip
    Pod.objects.update(pod_group="gang")
    html = read(cast, "owner", f"/workloads/berlin/{NS}/PodGroup/gang/")
    for text in ("at least 2 have to fit at once", "1 of 3", "shared-claim", "train-1"):
        assert text in html
    plan = read(cast, "owner", f"/workloads/berlin/{NS}/Workload/plan/")
    assert "train-1" in plan
    assert WORK in plan


def test_the_groups_of_the_first_version_live_within_their_workload(job: Fleet, cast: Cast) -> None:
    Pod.objects.update(pod_group="plan/workers")
    assert "train-1" in read(cast, "owner", f"/workloads/berlin/{NS}/PodGroup/plan/workers/")
    assert "train-1" in read(cast, "owner", f"/workloads/berlin/{NS}/Workload/plan/")


# --- namespace -------------------------------------------------------------------------------------


def test_a_namespace_tells_whose_it_is_and_was(job: Fleet, cast: Cast) -> None:
    NamespaceBinding.objects.create(
        cluster=job.cluster,
        namespace=NS,
        project=make_project("earlier-work"),
        valid_from=LONG_AGO - timedelta(days=9),
        valid_until=LONG_AGO,
    )
    Namespace.objects.create(
        cluster=job.cluster, name=NS, uid="ns", resource_version="1", admin_access=True, created_at=LONG_AGO
    )
    ResourceQuota.objects.create(
        cluster=job.cluster, namespace=NS, name="gpus", uid="rq", resource_version="1", counted=True,
        hard={"requests.nvidia.com/gpu": "8", "requests.cpu": "4"}, used={"requests.nvidia.com/gpu": "3"},
    )  # fmt: skip
    html = read(cast, "owner", SPACE)
    for text in (
        "Earlier work",
        "Protein folding",
        "3 of 8 used",
        "admitted: claims here",
        "1 of 2 allocated",
    ):
        assert text in html
    assert "requests.cpu" not in html


def test_a_namespace_of_nobody_is_for_those_who_see_everything(fleet: Fleet, cast: Cast) -> None:
    make_pod(fleet, "stray", namespace="nobody")
    url = "/namespaces/berlin/nobody/"
    assert "charged to nobody" in read(cast, "administrator", url)
    assert cast.client("owner").get(url).status_code == 404


def test_findings_are_told_to_those_who_read_them(job: Fleet, cast: Cast) -> None:
    finding = Finding.objects.create(
        cluster=job.cluster, kind="partly-allocated", subject=f"{NS}/Job/train", severity="warning",
        object_kind="workload", namespace=NS, name="train", code="partly-allocated",
        params={"owner": f"Job {NS}/train", "held": 1, "wanted": 2}, first_seen_at=timezone.now(),
        opened_at=timezone.now(), last_seen_at=timezone.now(),
    )  # fmt: skip
    link = f"/findings/{finding.pk}/"
    for url in (WORK, SPACE):
        assert link in read(cast, "auditor", url)
        assert link not in read(cast, "owner", url)


@pytest.mark.parametrize("url", [SPACE, WORK, POD, CLAIM])
def test_the_number_of_queries_does_not_grow(job: Fleet, cast: Cast, url: str) -> None:
    client = cast.client("owner")

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            client.get(url)
        return len(captured)

    queries()
    few = queries()
    for number in range(12):
        make_claim(job, f"more-{number}")
        make_pod(
            job, f"more-{number}", owner_kind="Job", owner_name="train", owner_uid="job-1",
            claim_names={"gpu": f"more-{number}"},
        )  # fmt: skip
    assert queries() <= few
