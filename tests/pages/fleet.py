"""A little fleet and requests, straight into the mirror's tables."""

import itertools
import uuid
from datetime import timedelta
from typing import Any

from django.utils import timezone

from claims.models import Request
from inventory.models import Cluster, Device, DeviceProfile, Pool, ResourceSlice, Stream
from tests.cast import Cast

_numbers = itertools.count(1)


def cluster(name: str = "harbour", state: str = Cluster.State.SYNCED) -> Cluster:
    """A followed cluster whose watches were heard just now."""
    now = timezone.now()
    made, _new = Cluster.objects.get_or_create(
        name=name,
        defaults={"credentials": "kubeconfig", "state": state, "created_at": now, "contacted_at": now},
    )
    for resource in ("resourceslices", "resourceclaims", "nodes"):
        Stream.objects.get_or_create(
            cluster=made,
            resource=resource,
            defaults={"state": Stream.State.WATCHING, "listed_at": now, "heard_at": now},
        )
    return made


def devices(where: Cluster, **counts: int) -> list[Device]:
    """So many devices in each state, in a pool of their own."""
    number = next(_numbers)
    profile, _new = DeviceProfile.objects.get_or_create(
        digest="d",
        defaults={"driver": "gpu.example.com", "attributes": {}, "capacity": {}, "product": "Beam 9"},
    )
    pool = Pool.objects.create(
        cluster=where,
        driver="gpu.example.com",
        name=f"node-{number}",
        generation=1,
        slices_expected=1,
        slices_seen=1,
        complete=True,
    )
    piece = ResourceSlice.objects.create(
        cluster=where,
        name=f"slice-{number}",
        uid=f"{number}",
        resource_version="1",
        pool=pool,
        generation=1,
        manifest={},
    )
    states = [state for state, count in counts.items() for _ in range(count)]
    return [
        Device.objects.create(
            cluster=where,
            pool=pool,
            slice=piece,
            profile=profile,
            name=f"gpu-{position}",
            position=position,
            node_name=f"node-{number}",
            state=state,
            first_seen_at=timezone.now(),
        )
        for position, state in enumerate(states)
    ]


def request(cast: Cast, **values: Any) -> Request:
    """A request of the cast's member for their project."""
    now = timezone.now()
    return Request.objects.create(
        **{
            "project": cast.project,
            "requester": cast.member,
            "cluster": cluster(),
            "namespace": "tides",
            "device_class": "gpu.example.com",
            "count": 1,
            "shape": "claim",
            "duration": timedelta(hours=8),
            "purpose": "harmonic analysis",
            "created_at": now,
            "changed_at": now,
            "object_name": f"desk-{uuid.uuid4().hex[:8]}",
            **values,
        }
    )
