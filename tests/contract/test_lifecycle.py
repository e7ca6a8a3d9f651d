"""The desk's own work on a cluster: a hold that is lost is made again, what ends lets its devices go, Pods
end with a request only where its flavor says so, and what was left behind is removed."""

import uuid
from contextlib import nullcontext
from datetime import timedelta

import pytest
from django.utils import timezone

from claims.models import Request
from claims.requests import actions as requests
from claims.requests import manifests, pursuit, sweeping
from inventory.models import Claim, Cluster, NamespaceBinding, Pod
from portal.accounts.models import Project, User
from portal.kube.resources import PODS, RESOURCE_CLAIMS
from tests.contract import objects
from tests.contract.room import Room

pytestmark = pytest.mark.django_db
IMAGE = "registry.k8s.io/pause:3.10"
State = Request.State


@pytest.fixture
def request_(room: Room) -> Request:
    """A request for the only device of the room."""
    now = timezone.now()
    device_class = room.machine("gpu-0")
    project = Project.objects.create(slug="tides", name="Tides", cost_centre="4711", created_at=now)
    cluster = Cluster.objects.create(name="main", credentials="kubeconfig", created_at=now)
    NamespaceBinding.objects.create(
        cluster=cluster, namespace=room.namespace, project=project, valid_from=now - timedelta(days=1)
    )
    key = uuid.uuid4()
    wish = manifests.Wish(device_class=device_class, count=1)
    made: Request = Request.objects.create(
        key=key,
        project=project,
        requester=User.objects.create(username="mina", email="mina@example.org"),
        cluster=cluster,
        namespace=room.namespace,
        device_class=device_class,
        node_selector=room.label,
        count=1,
        shape=Request.Shape.CLAIM,
        spec=manifests.claim_spec(wish),
        duration=timedelta(hours=8),
        purpose="spring tide",
        state=State.SUBMITTED,
        created_at=now,
        changed_at=now,
        due_at=now,
        object_name=manifests.object_name(project="tides", key=str(key)),
    )
    return made


def pursue(request: Request, room: Room) -> Request:
    """A worker goes its way now, due or not."""
    Request.objects.filter(pk=request.pk, due_at=None).exclude(state__in=[State.ENDED, State.FAILED]).update(
        due_at=timezone.now()
    )
    pursuit.pursue(
        request_id=request.pk,
        now=timezone.now(),
        hold_image=IMAGE,
        connect=lambda _cluster: nullcontext(room.client),
    )
    request.refresh_from_db()
    return request


def held(request: Request, room: Room) -> Request:
    pursue(request, room)
    assert request.state == State.WAITING_FOR_POD, request.message
    requests.hold(request=request, user=request.requester, now=timezone.now())
    pursue(request, room)
    room.until_allocated(request.object_name)
    room.until_running(hold_of(request))
    return request


def hold_of(request: Request) -> str:
    return manifests.hold_name(request.object_name)


def mirror(room: Room, request: Request) -> None:
    """The mirror as it would be now."""
    Claim.objects.all().delete()
    Pod.objects.all().delete()
    for resource, model in ((RESOURCE_CLAIMS, Claim), (PODS, Pod)):
        for body in room.client.list_all(resource, namespace=room.namespace):
            metadata = body["metadata"]
            columns = {
                "cluster": request.cluster,
                "namespace": room.namespace,
                "name": metadata["name"],
                "uid": metadata["uid"],
                "resource_version": metadata["resourceVersion"],
                "labels": metadata.get("labels") or {},
                "annotations": metadata.get("annotations") or {},
            }
            if model is Claim:
                Claim.objects.create(**columns, spec=body["spec"])
            else:
                used = body["spec"].get("resourceClaims") or []
                names = {entry["name"]: entry["resourceClaimName"] for entry in used}
                Pod.objects.create(**columns, phase=body["status"]["phase"], claim_names=names)


def ended(request: Request, room: Room) -> bool:
    mirror(room, request)
    return bool(pursue(request, room).state == State.ENDED)


def test_a_hold_that_was_evicted_is_made_again(request_: Request, room: Room) -> None:
    before = held(request_, room).hold_pod_uid
    room.kubelet.finish(room.namespace, hold_of(request_), "Failed")
    room.until_free(request_.object_name)

    def again() -> bool:
        return pursue(request_, room).hold_pod_uid not in ("", before)

    room.wait_for(again, "another hold Pod")
    room.until_allocated(request_.object_name)
    assert room.get_pod(hold_of(request_))["metadata"]["uid"] == request_.hold_pod_uid


def test_a_request_that_is_released_leaves_nothing(request_: Request, room: Room) -> None:
    held(request_, room)
    requests.release(request=request_, user=request_.requester, now=timezone.now())
    room.wait_for(lambda: ended(request_, room), "the request ended")
    assert room.find(PODS, hold_of(request_)) is None
    assert room.find(RESOURCE_CLAIMS, request_.object_name) is None


def test_an_object_without_its_label_is_still_the_desks_own(request_: Request, room: Room) -> None:
    held(request_, room)
    for resource, name in ((RESOURCE_CLAIMS, request_.object_name), (PODS, hold_of(request_))):
        nothing = {manifests.REQUEST_LABEL: None}
        room.client.patch(resource, name, {"metadata": {"labels": nothing}}, namespace=room.namespace)
    requests.release(request=request_, user=request_.requester, now=timezone.now())
    room.wait_for(lambda: ended(request_, room), "the request ended")
    assert room.find(RESOURCE_CLAIMS, request_.object_name) is None


@pytest.mark.parametrize("ends_pods", [False, True])
def test_pods_of_people_end_with_a_request_only_where_its_flavor_says_so(
    request_: Request, room: Room, ends_pods: bool
) -> None:
    held(request_, room)
    room.pod("work", claims={"gpu": request_.object_name})
    room.until_running("work")
    Request.objects.update(ends_pods=ends_pods)
    mirror(room, request_)
    requests.release(request=request_, user=request_.requester, now=timezone.now())
    pursue(request_, room)
    if ends_pods:
        room.wait_for(lambda: ended(request_, room), "the request ended")
        assert room.find(PODS, "work") is None
    else:
        room.until_gone(PODS, hold_of(request_))
        assert not ended(request_, room)
        assert not room.get_pod("work")["metadata"].get("deletionTimestamp")
        room.delete_pod("work")
        room.wait_for(lambda: ended(request_, room), "the request ended")


def test_what_was_left_behind_is_removed_and_a_copy_is_not(request_: Request, room: Room) -> None:
    held(request_, room)
    copied = objects.claim("copy", [objects.request(request_.device_class)])
    copied["metadata"]["labels"] = room.get_claim(request_.object_name)["metadata"]["labels"]
    room.create(RESOURCE_CLAIMS, copied)
    # As if a worker had made it all after the request was over, and had died.
    over = timezone.now() - timedelta(hours=1)
    Request.objects.update(state=State.ENDED, ended_at=over, object_uid="", hold_pod_uid="", due_at=None)
    mirror(room, request_)
    asked = sweeping.sweep(
        cluster=request_.cluster, now=timezone.now(), connect=lambda _cluster: nullcontext(room.client)
    )
    assert asked == 2
    room.until_gone(PODS, hold_of(request_))
    room.until_gone(RESOURCE_CLAIMS, request_.object_name)
    assert room.find(RESOURCE_CLAIMS, "copy") is not None
    assert {found.name for found in sweeping.findings(request_.cluster, timezone.now())} == {"copy"}
