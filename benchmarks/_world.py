"""A month of a made-up research computing centre, straight into the tables: what charts are drawn from.

python -m benchmarks._world          fills the database that CLAIMDESK_DATA_DIR or DATABASE_URL names
"""

import random
import sys
import uuid
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import count
from typing import Any

DAY = timedelta(days=1)
# Product, class, driver, devices per node, nodes, how busy.
FLEET = (
    ("Beam 9 80GB", "beam-80gb", "gpu.example.com", 8, 6, 0.86),
    ("Beam 7 40GB", "beam-40gb", "gpu.example.com", 4, 8, 0.62),
    ("Wave 3 Training", "wave", "tpu.example.org", 4, 4, 0.35),
    ("Lathe X2 NIC", "rdma-nic", "nic.example.net", 2, 6, 0.2),
)
PROJECTS = (
    ("protein-folding", "Protein folding", "BIO-114"),
    ("weather-models", "Weather models", "GEO-20"),
    ("glacier-flow", "Glacier flow", "GEO-23"),
    ("speech", "Speech for small languages", "LING-7"),
    ("dark-matter", "Dark matter maps", "PHY-41"),
    ("crop-vision", "Crop disease vision", "AGR-3"),
)
CHUNK = 2_000


def fill(*, now: datetime, intervals: int, scale: int = 1, seed: int = 7) -> None:
    """Two clusters with `scale` times the fleet above and about so many intervals in the last month, on an
    empty database. People: rhea (member), leo (lead), ada (administrator), finn (finance); password = their
    name."""
    from django.contrib.auth.hashers import make_password

    from claims.models import Price, PriceBook
    from inventory.models import NamespaceBinding
    from portal.accounts.models import Membership, Project, User

    chance = random.Random(seed)
    since = now - 27 * DAY
    people = {
        name: User.objects.create(
            username=name, first_name=first, last_name=last, password=make_password(name), **roles
        )
        for name, first, last, roles in (
            ("rhea", "Rhea", "Okafor", {}),
            ("leo", "Leo", "Lindqvist", {}),
            ("ada", "Ada", "Moreau", {"is_administrator": True}),
            ("finn", "Finn", "Castellano", {"is_finance": True}),
        )
    }
    projects = [
        Project.objects.create(slug=slug, name=name, cost_centre=centre, created_at=since)
        for slug, name, centre in PROJECTS
    ]
    for user, role, its in (("rhea", "member", projects[:2]), ("leo", "lead", projects[:1])):
        for project in its:
            Membership.objects.create(user=people[user], project=project, role=role)
    book = PriceBook.objects.create(name="2026", currency="EUR", valid_from=since - 300 * DAY)
    for _product, device_class, *_rest, busy in FLEET[:3]:
        Price.objects.create(book=book, device_class=device_class, per_hour=str(round(0.5 + 3 * busy, 2)))
    for number, name in enumerate(("harbour", "lakeside")):
        cluster = _cluster(name, now=now, since=since)
        for project in projects:
            NamespaceBinding.objects.create(
                cluster=cluster, namespace=project.slug, project=project, valid_from=since - DAY
            )
        share = int(intervals * (0.7, 0.3)[number])
        _fleet(cluster, projects, chance, now=now, since=since, intervals=share, scale=scale)
    _requests(people["rhea"], projects[:2], now=now)


def _cluster(name: str, *, now: datetime, since: datetime) -> Any:
    from inventory.models import Cluster, Stream

    cluster = Cluster.objects.create(
        name=name,
        credentials="kubeconfig",
        state="synced",
        created_at=since,
        contacted_at=now + DAY,
        server_version="v1.36.2",
    )
    for resource in ("resourceslices", "resourceclaims", "nodes"):
        Stream.objects.create(
            cluster=cluster, resource=resource, state="watching", listed_at=now, heard_at=now + DAY
        )
    return cluster


def _fleet(
    cluster: Any,
    projects: Sequence[Any],
    chance: random.Random,
    *,
    now: datetime,
    since: datetime,
    intervals: int,
    scale: int,
) -> None:
    from claims.models import Allocation
    from inventory.models import (
        Device,
        DeviceClass,
        DeviceProfile,
        Node,
        Observation,
        Pool,
        ResourceSlice,
    )

    numbers = count()
    total = sum(per * nodes * scale for _p, _c, _d, per, nodes, _b in FLEET)
    each = max(intervals / total, 1)
    observed: list[Observation] = []
    held: list[Allocation] = []

    def observe(kind: str, at: datetime, name: str, uid: str = "", **facts: Any) -> None:
        observed.append(
            Observation(
                cluster=cluster,
                kind=kind,
                at=at,
                source="observed",
                observed_at=at,
                name=name,
                uid=uid,
                facts=facts,
                key=f"{kind}/{next(numbers)}",
            )
        )

    for product, device_class, driver, per_node, nodes, busy in FLEET:
        profile, _new = DeviceProfile.objects.get_or_create(
            digest=product,
            defaults={
                "driver": driver,
                "attributes": {},
                "capacity": {},
                "product": product,
                "kind": "gpu",
                "vendor": "Example",
            },
        )
        DeviceClass.objects.create(
            cluster=cluster, name=device_class, uid=device_class, resource_version="1", spec={}
        )
        for node_number in range(nodes * scale):
            node = f"{device_class}-{node_number + 1:02d}"
            Node.objects.create(
                cluster=cluster,
                name=node,
                uid=node,
                resource_version="1",
                ready=True,
                unschedulable=False,
            )
            pool = Pool.objects.create(
                cluster=cluster,
                driver=driver,
                name=node,
                generation=1,
                slices_expected=1,
                slices_seen=1,
                complete=True,
            )
            piece = ResourceSlice.objects.create(
                cluster=cluster,
                name=node,
                uid=f"s-{node}",
                resource_version="1",
                pool=pool,
                generation=1,
                manifest={},
            )
            down = since + chance.random() * 20 * DAY if chance.random() < 0.4 else None
            back = down + chance.uniform(0.1, 3) * DAY if down else None
            for number in range(per_node):
                name = f"gpu-{number}"
                observe("device-appeared", since, name, profile=product, unavailable="")
                if down and back:
                    observe("device-unavailable", down, name, profile=product, reason="node-cordoned", was="")
                    observe("device-available", back, name, profile=product, was="node-cordoned")
                at, state = since + chance.random() * DAY, "free"
                while at < now:
                    lasting = timedelta(days=26 * busy / each * chance.expovariate(1))
                    end = at + max(lasting, timedelta(minutes=1))
                    project = chance.choices(projects, weights=range(len(projects), 0, -1))[0]
                    uid = uuid.UUID(int=chance.getrandbits(128)).hex
                    if not (down and back and at < back and end > down):
                        held.append(
                            Allocation(
                                cluster=cluster,
                                namespace=project.slug,
                                claim_name=f"train-{uid[:6]}",
                                claim_uid=uid,
                                epoch=1,
                                driver=driver,
                                pool_name=node,
                                device_name=name,
                                request_name="gpu",
                                node_name=node,
                                hardware_id=f"{node}-{number}",
                                device_class=device_class,
                                product=product,
                                profile_digest=product,
                                started_at=at,
                                start_source="allocationTimestamp",
                                ended_at=end if end < now else None,
                                end_source="observed",
                                project=project,
                            )
                        )
                        waited = timedelta(seconds=chance.lognormvariate(3.2 + 4 * busy, 1.6))
                        observe("claim-created", max(at - waited, since), f"train-{uid[:6]}", uid)
                        state = "held" if end >= now else "free"
                    at = end + timedelta(days=26 * (1 - busy) / each * chance.expovariate(1))
                Device.objects.create(
                    cluster=cluster,
                    pool=pool,
                    slice=piece,
                    profile=profile,
                    name=name,
                    position=number,
                    node_name=node,
                    state=state,
                    first_seen_at=since,
                )
        for number in range(3):
            at, uid = now - chance.random() * 2 * DAY, f"waits-{device_class}-{number}"
            observe("claim-created", at, uid, uid)
            _pending(cluster, uid, at, device_class)
    Observation.objects.bulk_create(sorted(observed, key=lambda row: row.at), batch_size=CHUNK)
    Allocation.objects.bulk_create(held, batch_size=CHUNK)
    _gap(cluster, now - 11.3 * DAY)


def _gap(cluster: Any, until: datetime) -> None:
    """Nine hours in which nobody watched claims, and after which history could not be caught up with."""
    from inventory.models import Observation

    Observation.objects.create(
        cluster=cluster,
        kind="gap",
        at=until,
        source="observed",
        observed_at=until,
        name="resourceclaims",
        facts={"resource": "resourceclaims", "from": (until - timedelta(hours=9)).isoformat(), "lost": True},
        key="gap/claims",
    )


def _pending(cluster: Any, uid: str, at: datetime, device_class: str) -> None:
    from inventory.models import Claim

    requests = [{"name": "gpu", "exactly": {"deviceClassName": device_class}}]
    Claim.objects.create(
        cluster=cluster,
        name=uid,
        uid=uid,
        resource_version="1",
        namespace="protein-folding",
        spec={"devices": {"requests": requests}},
        created_at=at,
    )


def _requests(user: Any, projects: Sequence[Any], *, now: datetime) -> None:
    from claims.models import Request
    from inventory.models import Cluster

    cluster = Cluster.objects.get(name="harbour")
    for number, (state, age, left, purpose) in enumerate(
        (
            ("in-use", 1.2, 1.8, "fold the remaining 4,000 membrane proteins"),
            ("allocated", 0.1, 0.4, "interactive debugging of the attention kernel"),
            ("waiting-for-device", 0.02, 2, "sweep over learning rates"),
            ("waiting-for-pod", 0.3, 0.7, "notebook for the group meeting"),
            ("failed", 0.4, 0, "benchmark of the new compiler"),
        )
    ):
        at = now - age * DAY
        Request.objects.create(
            project=projects[number % 2],
            requester=user,
            cluster=cluster,
            namespace="protein-folding",
            device_class=FLEET[number % 2][1],
            count=1 + number % 2,
            shape="claim",
            duration=3 * DAY,
            purpose=purpose,
            state=state,
            created_at=at,
            changed_at=at,
            object_name=f"desk-{number}",
            message="DeviceClass beam-80gb does not exist" if state == "failed" else "",
            allocated_at=at if state in ("in-use", "allocated") else None,
            expires_at=now + left * DAY if left else None,
        )


if __name__ == "__main__":
    import django

    django.setup()
    from django.utils import timezone

    fill(now=timezone.now(), intervals=int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
