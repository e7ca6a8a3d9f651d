"""Rows of the mirror, made directly: a small fleet for tests, and one of any size for query counts and
load."""

from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import count
from typing import Any

from django.utils import timezone

from inventory.models import (
    Claim,
    ClaimDevice,
    ClassProfile,
    ClassVersion,
    Cluster,
    Device,
    DeviceClass,
    DeviceProfile,
    NamespaceBinding,
    Node,
    Pod,
    Pool,
    ResourceSlice,
    Stream,
)
from portal.accounts.models import Membership, Project, User

NVIDIA = "gpu.nvidia.com"
LONG_AGO = datetime(2026, 1, 1, tzinfo=UTC)
_serial = count(1)


def make_user(name: str, **fields: Any) -> User:
    # Hashing a password for each of the cast would be most of a test's time; they sign in by `force_login`.
    return User.objects.create(username=name, password="!", **fields)


def make_project(slug: str, **roles: User) -> Project:
    """A project; keyword names are roles: ``make_project("a", lead=leo, member=rhea)``."""
    project = Project.objects.create(slug=slug, name=slug.replace("-", " ").capitalize(), created_at=LONG_AGO)
    for role, user in roles.items():
        Membership.objects.create(project=project, user=user, role=role.rstrip("0123456789"))
    return project


def make_cluster(name: str = "berlin", *, heard_at: datetime | None = None, **fields: Any) -> Cluster:
    """A cluster in step; with `heard_at` in the past its streams are silent since then."""
    now = timezone.now()
    defaults: dict[str, Any] = {
        "credentials": Cluster.Credentials.KUBECONFIG,
        "state": Cluster.State.SYNCED,
        "created_at": LONG_AGO,
        "contacted_at": now,
        "server_version": "v1.36.2",
        "api_url": f"https://{name}.example.org:6443",
        "lease_holder": "worker@desk",
        "lease_expires_at": now + timedelta(seconds=20),
    }
    cluster = Cluster.objects.create(name=name, **(defaults | fields))
    for resource, version in (
        ("resourceslices", "resource.k8s.io/v1"),
        ("resourceclaims", "resource.k8s.io/v1"),
        ("deviceclasses", "resource.k8s.io/v1"),
        ("nodes", "v1"),
        ("pods", "v1"),
    ):
        Stream.objects.create(
            cluster=cluster,
            resource=resource,
            api_version=version,
            resource_version="1000",
            state=Stream.State.WATCHING,
            listed_at=heard_at or now,
            heard_at=heard_at or now,
        )
    return cluster


def make_profile(
    product: str = "NVIDIA H100 80GB HBM3",
    *,
    driver: str = NVIDIA,
    vendor: str = "NVIDIA",
    kind: str = "gpu",
    memory: str = "80Gi",
    attributes: dict[str, Any] | None = None,
    **fields: Any,
) -> DeviceProfile:
    defaults: dict[str, Any] = {
        "driver": driver,
        "vendor": vendor,
        "product": product,
        "kind": kind,
        "memory_bytes": int(memory.removesuffix("Gi")) * 2**30 if memory else None,
        "attributes": {
            f"{driver}/type": {"string": kind},
            f"{driver}/productName": {"string": product},
            **(attributes or {}),
        },
        "capacity": {f"{driver}/memory": {"value": memory}} if memory else {},
    }
    values = defaults | fields
    digest = sha256(repr(sorted(values.items())).encode()).hexdigest()
    return DeviceProfile.objects.get_or_create(digest=digest, defaults=values)[0]


def make_node(cluster: Cluster, name: str = "gpu-01", **fields: Any) -> Node:
    defaults = {"ready": True, "unschedulable": False, "uid": f"node-{name}", "resource_version": "1"}
    return Node.objects.create(cluster=cluster, name=name, **(defaults | fields))


def make_pool(cluster: Cluster, name: str = "gpu-01", *, driver: str = NVIDIA, **fields: Any) -> Pool:
    defaults = {"generation": 1, "slices_expected": 1, "slices_seen": 1, "complete": True}
    return Pool.objects.get_or_create(cluster=cluster, driver=driver, name=name, defaults=defaults | fields)[
        0
    ]


def make_device(
    cluster: Cluster,
    name: str = "gpu-0",
    *,
    node: str = "gpu-01",
    profile: DeviceProfile | None = None,
    pool: Pool | None = None,
    published: dict[str, Any] | None = None,
    **fields: Any,
) -> Device:
    """A device that its node's pool publishes; `published` is the device as in the slice."""
    profile = profile or make_profile()
    pool = pool or make_pool(cluster, node, driver=profile.driver)
    slice_name = f"{pool.name}-{pool.driver}"
    part, _made = ResourceSlice.objects.get_or_create(
        cluster=cluster,
        name=slice_name,
        defaults={
            "uid": f"slice-{slice_name}",
            "resource_version": "1",
            "pool": pool,
            "generation": pool.generation,
            "node_name": node,
            "manifest": {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": slice_name},
                "spec": {"driver": pool.driver, "nodeName": node, "devices": []},
            },
        },
    )
    number = next(_serial)
    defaults: dict[str, Any] = {
        "position": part.devices.count(),
        "identity": {f"{profile.driver}/uuid": {"string": f"GPU-{number:08x}"}},
        "hardware_id": f"GPU-{number:08x}",
        "node_name": node,
        "state": Device.State.FREE,
        "first_seen_at": LONG_AGO,
    }
    device = Device.objects.create(
        cluster=cluster, pool=pool, slice=part, profile=profile, name=name, **(defaults | fields)
    )
    entry = published or {
        "name": name,
        "attributes": {**profile.attributes, **device.identity},
        "capacity": profile.capacity,
    }
    part.manifest["spec"]["devices"].append(entry)
    part.save(update_fields=["manifest"])
    return device


def make_class(
    cluster: Cluster,
    name: str = NVIDIA,
    *,
    profiles: tuple[DeviceProfile, ...] = (),
    devices: tuple[Device, ...] = (),
    expression: str = 'device.driver == "gpu.nvidia.com"',
    **fields: Any,
) -> DeviceClass:
    defaults: dict[str, Any] = {
        "uid": f"class-{cluster.name}-{name}",
        "resource_version": "7",
        "spec": {"selectors": [{"cel": {"expression": expression}}]},
    }
    made = DeviceClass.objects.create(cluster=cluster, name=name, **(defaults | fields))
    for profile in profiles:
        ClassProfile.objects.create(device_class=made, profile=profile)
    for device in devices:
        ClassProfile.objects.create(device_class=made, profile=device.profile, device=device)
    return made


def make_drift(device_class: DeviceClass) -> tuple[ClassVersion, ClassVersion]:
    """What was agreed of a class, and what it became without the desk."""
    agreed = {"selectors": [{"cel": {"expression": 'device.driver == "was.example.org"'}}]}
    common: dict[str, Any] = {
        "cluster": device_class.cluster, "name": device_class.name, "uid": device_class.uid,
        "at": timezone.now(),
    }  # fmt: skip
    return (
        ClassVersion.objects.create(**common, resource_version="6", source="first", spec=agreed),
        ClassVersion.objects.create(**common, resource_version="7", source="seen", spec=device_class.spec),
    )


def bind(cluster: Cluster, namespace: str, project: Project) -> NamespaceBinding:
    return NamespaceBinding.objects.create(
        cluster=cluster, namespace=namespace, project=project, valid_from=LONG_AGO
    )


def hold(
    device: Device,
    *,
    namespace: str,
    claim: str = "training",
    pod: str = "",
    at: datetime = LONG_AGO,
    **fields: Any,
) -> Claim:
    """The device is allocated to a claim (and reserved for a Pod), as the mirror would store it."""
    number = next(_serial)
    uid = f"claim-{number:06d}"
    consumers = [{"resource": "pods", "name": pod, "uid": f"pod-{number:06d}"}] if pod else []
    result = {"driver": device.pool.driver, "pool": device.pool.name, "device": device.name, "request": "gpu"}
    held = Claim.objects.create(
        cluster=device.cluster,
        namespace=namespace,
        name=claim,
        uid=uid,
        resource_version="9",
        spec={"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": device.pool.driver}}]}},
        status={"allocation": {"devices": {"results": [result]}}, "reservedFor": consumers},
        created_at=at,
        allocated=True,
        epoch=1,
        allocated_at=at,
        node_name=device.node_name,
    )
    ClaimDevice.objects.create(
        claim=held,
        driver=device.pool.driver,
        pool_name=device.pool.name,
        device_name=device.name,
        device=device,
        request="gpu",
        **fields,
    )
    if pod:
        Pod.objects.create(
            cluster=device.cluster,
            namespace=namespace,
            name=pod,
            uid=f"pod-{number:06d}",
            resource_version="3",
            phase="Running",
            node_name=device.node_name,
            claim_names={"gpu": claim},
        )
    device.state = Device.State.HELD
    device.save(update_fields=["state"])
    return held


def make_fleet(cluster: Cluster, *, nodes: int, per_node: int = 8, kinds: int = 4) -> None:
    """A fleet of any size, in bulk: every node has a pool of `per_node` devices, in `kinds` products."""
    profiles = [
        make_profile(
            f"Accelerator {kind:02d}", driver=f"gpu-{kind % 3}.example.com", vendor=f"Vendor {kind % 3}"
        )
        for kind in range(kinds)
    ]
    named = [(f"node-{n:05d}", profiles[n % kinds]) for n in range(nodes)]
    Node.objects.bulk_create(
        [
            Node(cluster=cluster, name=name, uid=name, resource_version="1", ready=True, unschedulable=False)
            for name, _profile in named
        ]
    )
    pools = Pool.objects.bulk_create(
        [
            Pool(
                cluster=cluster, driver=profile.driver, name=name,
                generation=1, slices_expected=1, slices_seen=1, complete=True,
            )
            for name, profile in named
        ]
    )  # fmt: skip
    slices = ResourceSlice.objects.bulk_create(
        [
            ResourceSlice(
                cluster=cluster, name=f"{pool.name}-slice", uid=pool.name, resource_version="1",
                pool=pool, generation=1, node_name=pool.name, manifest={},
            )
            for pool in pools
        ]
    )  # fmt: skip
    states = (Device.State.HELD, Device.State.FREE, Device.State.HELD, Device.State.UNAVAILABLE)
    Device.objects.bulk_create(
        [
            Device(
                cluster=cluster, pool=pool, slice=part, profile=profile, name=f"gpu-{i}", position=i,
                identity={f"{profile.driver}/uuid": {"string": f"GPU-{pool.pk:06x}-{i}"}},
                hardware_id=f"GPU-{pool.pk:06x}-{i}", node_name=name, first_seen_at=LONG_AGO,
                state=(state := states[(pool.pk + i) % 4]),
                reason=Device.Reason.CORDONED if state == Device.State.UNAVAILABLE else "",
            )
            for pool, part, (name, profile) in zip(pools, slices, named, strict=True)
            for i in range(per_node)
        ],
        batch_size=5_000,
    )  # fmt: skip
    classes: dict[str, list[DeviceProfile]] = {profile.driver: [] for profile in profiles}
    for profile in profiles:
        classes[profile.driver].append(profile)
    for driver, matching in classes.items():
        make_class(cluster, driver, profiles=tuple(matching), expression=f'device.driver == "{driver}"')


def make_holders(cluster: Cluster, *, claims: int = 20_000) -> None:
    """Claims for the held devices of a fleet, in bulk, in a namespace of one project."""
    project = make_project("everything")
    bind(cluster, "everything", project)
    held = list(Device.objects.filter(cluster=cluster, state="held").select_related("pool")[:claims])
    made = Claim.objects.bulk_create(
        [
            Claim(
                cluster=cluster, namespace="everything", name=f"claim-{i}", uid=f"bulk-{i}",
                resource_version="1",
                spec={}, allocated=True, epoch=1, allocated_at=LONG_AGO, node_name=device.node_name,
            )
            for i, device in enumerate(held)
        ],
        batch_size=2_000,
    )  # fmt: skip
    ClaimDevice.objects.bulk_create(
        [
            ClaimDevice(
                claim=claim, driver=device.pool.driver, pool_name=device.pool.name, device_name=device.name,
                device=device, request="gpu",
            )
            for claim, device in zip(made, held, strict=True)
        ],
        batch_size=2_000,
    )  # fmt: skip
