"""Started on an entitlement: the Job asks for units of a Device Plugin, the desk knows its Pods by their uid,
and both are gone at the end, the ResourceQuota with them."""

from contextlib import nullcontext
from datetime import timedelta

import pytest
from django.utils import timezone

from claims.launches import launching
from claims.models import Launch, LaunchTemplate, Request, RequestPod
from claims.quotas.cluster import name_of_entitlements
from claims.requests import actions as requests
from claims.requests.advance import advance
from claims.requests.manifests import REQUEST_LABEL
from claims.requests.rehearsal import Connect
from inventory.models import Pod, Stream
from portal.kube.resources import JOBS, NODES, PODS, RESOURCE_QUOTAS
from tests.contract.objects import Object
from tests.contract.room import Room
from tests.contract.test_quotas import Desk, hard

pytestmark = pytest.mark.django_db
State = Request.State
STREAMS = ("resourceslices", "resourceclaims", "resourceclaimtemplates", "nodes", "pods")


@pytest.fixture
def resource(room: Room) -> str:
    """A node with two units, as a Device Plugin announces them."""
    name, units = room.node(), f"{room.driver}/unit"
    there = room.client.get(NODES, name)["status"]
    announced = {key: {**there[key], units: "2"} for key in ("capacity", "allocatable")}
    room.client.patch(NODES, name, {"status": announced}, subresource="status")
    room.wait_for(
        lambda: room.client.get(NODES, name)["status"]["allocatable"].get(units) == "2", "two units"
    )
    return units


@pytest.fixture
def desk(room: Room, resource: str) -> Desk:
    made = Desk(room, extended_resource=resource)
    made.now = timezone.now()
    for stream in STREAMS:
        Stream.objects.create(
            cluster=made.cluster, resource=stream, state=Stream.State.WATCHING, listed_at=made.now,
            heard_at=made.now,
        )  # fmt: skip
    return made


def entitlement(desk: Desk, resource: str) -> Request:
    made = desk.request(
        count=1, backend="device-plugin", shape="entitlement", extended_resource=resource,
        node_selector=desk.room.label,
    )  # fmt: skip
    desk.pursue(made)
    assert made.state == State.WAITING_FOR_POD, made.message
    return made


def started(desk: Desk, request: Request) -> Launch:
    """A Job on the request, as the worker leaves it."""
    template = LaunchTemplate.objects.create(
        slug="train", name="Train", kind="job", image="registry.k8s.io/pause:3.10", command=["/pause"],
        cpu="100m", memory="64Mi", created_at=desk.now, changed_at=desk.now,
    )  # fmt: skip
    launch = launching.start(
        request=request, template=template, user=desk.person, values={}, now=desk.now, connect=connect(desk)
    )
    desk.room.expect(JOBS, launch.object_name)
    launching.pursue(launch_id=launch.pk, now=desk.now, connect=connect(desk))
    launch.refresh_from_db()
    assert launch.state == Launch.State.STARTED, launch.message
    return launch


def connect(desk: Desk) -> Connect:
    return lambda _cluster: nullcontext(desk.room.client)


def pods(room: Room, launch: Launch) -> list[Object]:
    wanted = f"batch.kubernetes.io/job-name={launch.object_name}"
    return room.client.list_all(PODS, namespace=room.namespace, label_selector=wanted)


def state(desk: Desk, request: Request) -> str:
    """The state by the mirror as it would be now."""
    Pod.objects.all().delete()
    for body in desk.room.client.list_all(PODS, namespace=request.namespace):
        metadata, limits = body["metadata"], body["spec"]["containers"][0]["resources"].get("limits", {})
        resource = request.extended_resource
        Pod.objects.create(
            cluster=desk.cluster, namespace=request.namespace, name=metadata["name"], uid=metadata["uid"],
            resource_version=metadata["resourceVersion"], labels=metadata.get("labels") or {},
            phase=body["status"]["phase"], node_name=body["spec"].get("nodeName", ""),
            scheduled_at=desk.now if body["spec"].get("nodeName") else None,
            extended_resources={resource: int(limits[resource])} if resource in limits else {},
        )  # fmt: skip
    advance(cluster=desk.cluster, now=desk.now)
    request.refresh_from_db()
    return str(request.state)


def test_its_job_uses_the_entitlement_and_both_end_with_the_request(
    room: Room, desk: Desk, resource: str
) -> None:
    request = entitlement(desk, resource)
    quota = name_of_entitlements(resource)
    assert hard(room, quota) == {f"requests.{resource}": "1"}
    room.wait_for(lambda: hard(room, quota, "status"), "the quota's status")
    launch = started(desk, request)

    (pod,) = room.wait_for(lambda: pods(room, launch), "the Pod of the Job")
    room.until_running(pod["metadata"]["name"])
    assert pod["metadata"]["labels"][REQUEST_LABEL] == str(request.key)
    assert pod["spec"]["containers"][0]["resources"]["limits"][resource] == "1"
    assert state(desk, request) == State.IN_USE
    assert request.allocated_at is not None
    assert RequestPod.objects.get().pod_uid == pod["metadata"]["uid"]

    def used() -> bool:
        there = room.client.get(RESOURCE_QUOTAS, quota, namespace=room.namespace)
        return bool(there["status"]["used"] == {f"requests.{resource}": "1"})

    room.wait_for(used, "one unit counted")

    desk.now += timedelta(hours=1)
    requests.release(request=request, user=desk.person, now=desk.now)
    desk.pursue(request)
    assert state(desk, request) == State.ENDING

    def gone() -> bool:
        desk.now += timedelta(minutes=1)
        launching.pursue(launch_id=launch.pk, now=desk.now, connect=connect(desk))
        launch.refresh_from_db()
        return launch.state == Launch.State.STOPPED and not pods(room, launch)

    room.wait_for(gone, "what was started is gone")
    assert room.find(JOBS, launch.object_name) is None
    assert state(desk, request) == State.ENDED
    desk.work()
    assert room.find(RESOURCE_QUOTAS, quota) is None


def test_a_job_that_ends_by_itself_leaves_the_entitlement_to_the_next(
    room: Room, desk: Desk, resource: str
) -> None:
    request = entitlement(desk, resource)
    launch = started(desk, request)
    (pod,) = room.wait_for(lambda: pods(room, launch), "the Pod of the Job")
    room.until_running(pod["metadata"]["name"])
    assert state(desk, request) == State.IN_USE
    room.kubelet.finish(room.namespace, pod["metadata"]["name"])

    room.wait_for(lambda: state(desk, request) == State.WAITING_FOR_POD, "nobody uses it any more")

    def succeeded() -> int:
        job = room.client.get(JOBS, launch.object_name, namespace=room.namespace)
        return int((job.get("status") or {}).get("succeeded") or 0)

    assert room.wait_for(succeeded, "the Job is done") == 1
