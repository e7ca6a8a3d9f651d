"""A booking whose time has come, on a cluster: the device is held from then on, or told to be another's."""

from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from claims.bookings import start as bookings_start
from claims.models import Booking, Flavor, Placement, Request
from claims.requests import pursuit
from claims.requests.manifests import hold_name
from inventory.models import Cluster
from portal.accounts.models import Membership, Project, User
from portal.dra.features import Features
from portal.dra.fleet import Fleet
from portal.dra.model import decode_object
from portal.kube.resources import DEVICE_CLASSES, NODES, RESOURCE_CLAIMS, RESOURCE_SLICES, Resource
from tests.contract import objects
from tests.contract.room import Room
from tests.inventory_pages.factories import bind, make_class, make_cluster, make_device, make_profile

pytestmark = pytest.mark.django_db
IMAGE = "registry.k8s.io/pause:3.10"
HOUR = timedelta(hours=1)


@pytest.fixture
def booking(room: Room) -> Booking:
    """A booking of the only device of the room that is due now."""
    now, name = timezone.now(), room.machine("gpu-0")
    cluster = make_cluster()
    profile = make_profile()
    make_device(cluster, "gpu-0", profile=profile)
    make_class(cluster, name, profiles=(profile,))
    project = Project.objects.create(slug="tides", name="Tides", created_at=now)
    user = User.objects.create(username="mina", email="mina@example.org")
    Membership.objects.create(user=user, project=project)
    bind(cluster, room.namespace, project)
    flavor = Flavor.objects.create(
        slug="gpu", name="GPU", min_duration=HOUR, default_duration=HOUR, max_duration=8 * HOUR,
        created_at=now, changed_at=now,
    )  # fmt: skip
    Placement.objects.create(flavor=flavor, cluster=cluster, device_class=name, node_selector=room.label)
    made: Booking = Booking.objects.create(
        project=project, requester=user, flavor=flavor, cluster=cluster, namespace=room.namespace, count=1,
        starts_at=now, ends_at=now + 4 * HOUR, purpose="spring tide", created_at=now, changed_at=now,
    )  # fmt: skip
    return made


def _decoded(resource: Resource, body: dict[str, Any]) -> Any:
    # Lists leave out what all of their items are.
    return decode_object({"kind": resource.kind, "apiVersion": resource.api_version, **body})


def start(booking: Booking, room: Room) -> Booking:
    """The beat goes its way, with the cluster as it is now."""

    def fleet_of(_cluster: Cluster) -> Fleet:
        slices, classes, nodes, claims = (
            [_decoded(resource, body) for body in room.client.list_all(resource)]
            for resource in (RESOURCE_SLICES, DEVICE_CLASSES, NODES, RESOURCE_CLAIMS)
        )
        return Fleet.build(
            slices=slices, classes=classes, nodes=nodes, claims=claims, features=Features.for_version("1.36")
        )

    bookings_start.start(
        booking_id=booking.pk,
        now=timezone.now(),
        connect=lambda _cluster: nullcontext(room.client),
        fleet_of=fleet_of,
    )
    return Booking.objects.get(pk=booking.pk)


def pursue(request: Request, room: Room) -> None:
    """A worker goes its way now, due or not."""
    Request.objects.filter(pk=request.pk).update(due_at=timezone.now())
    pursuit.pursue(
        request_id=request.pk,
        now=timezone.now(),
        hold_image=IMAGE,
        connect=lambda _cluster: nullcontext(room.client),
    )


def test_the_device_is_held_from_the_start_on(booking: Booking, room: Room) -> None:
    started = start(booking, room)
    request = started.request
    assert request is not None, (started.state, started.reason, started.message)
    pursue(request, room)
    pursue(request, room)

    room.until_allocated(request.object_name)
    room.until_running(hold_name(request.object_name))


def test_while_another_has_the_device_it_is_told_and_tried_again(booking: Booking, room: Room) -> None:
    room.claim("other", objects.request(booking.flavor.placements.get().device_class))
    room.pod("work", claims={"gpu": "other"})
    room.until_allocated("other")

    waiting = start(booking, room)
    assert (waiting.state, waiting.reason) == ("booked", "no-device")
    assert room.client.list_all(RESOURCE_CLAIMS, namespace=room.namespace)[0]["metadata"]["name"] == "other"
    room.delete_pod("work")
    room.until_free("other")
    room.wait_for(lambda: start(booking, room).state == "started", "the booking started")
