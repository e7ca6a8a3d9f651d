"""What a server of a given Kubernetes version serves: each resource in its own versions, best first.

After the release notes: beta APIs of a group are off by default, so that 1.34 and 1.35 serve
``resource.k8s.io`` as v1 only; the presets before are clusters whose operators switched DRA's betas on.
DeviceTaintRule is served from 1.36 on, as v1beta2 at first. ``scheduling.k8s.io`` is served in the version
that each release documents (its gate GenericWorkload counts as on), and can be left out.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from portal.demo import resources
from portal.demo.resources import Resource
from portal.dra import features as gates
from portal.dra.features import Features

DEFAULT_VERSION = "1.36"
KUEUE, POD_GROUPS = "kueue", "podgroups"
OPTIONAL = (KUEUE, POD_GROUPS)

_PATCHES = {"1.32": 11, "1.33": 7, "1.34": 4, "1.35": 3, "1.36": 2, "1.37": 0}
VERSIONS = tuple(_PATCHES)
_CORE = (
    resources.NODES, resources.NAMESPACES, resources.PODS, resources.EVENTS, resources.RESOURCE_QUOTAS,
    resources.SERVICE_ACCOUNTS, resources.JOBS, resources.LEASES, resources.EVENTS_VIEW,
    resources.RUNTIME_CLASSES,
)  # fmt: skip
_DRA = (
    resources.RESOURCE_SLICES, resources.DEVICE_CLASSES, resources.RESOURCE_CLAIMS,
    resources.RESOURCE_CLAIM_TEMPLATES,
)  # fmt: skip
_DRA_VERSIONS = {"1.32": ("v1beta1",), "1.33": ("v1beta2", "v1beta1")}
_TAINT_RULE_VERSIONS = {"1.36": ("v1beta2",), "1.37": ("v1", "v1beta2")}
_WORKLOAD_VERSIONS = {"1.35": ("v1alpha1",), "1.36": ("v1alpha2",), "1.37": ("v1beta1",)}
_POD_GROUP_VERSIONS = {"1.36": ("v1alpha2",), "1.37": ("v1beta1",)}
_QUEUES = (
    resources.CLUSTER_QUEUES, resources.LOCAL_QUEUES, resources.RESOURCE_FLAVORS, resources.QUEUED_WORKLOADS,
)  # fmt: skip
_KUEUE_VERSIONS = ("v1beta2", "v1beta1")


@dataclass(frozen=True, slots=True)
class Catalog:
    """The resources that one server serves. ``installed``: the optional parts among them."""

    version: str
    resources: tuple[Resource, ...]
    installed: frozenset[str]
    by_path: Mapping[tuple[str, str, str], Resource] = field(repr=False)

    @property
    def release(self) -> str:
        """The whole version, such as ``v1.36.2``."""
        return f"v{self.version}.{_PATCHES[self.version]}"

    @property
    def minor(self) -> str:
        return self.version.partition(".")[2]

    @property
    def features(self) -> Features:
        """The gates that are on."""
        preset = Features.for_version(self.version)
        return preset.with_gates(gates.DYNAMIC_RESOURCE_ALLOCATION)


def catalog(version: str = DEFAULT_VERSION, *, without: Collection[str] = ()) -> Catalog:
    """What a server of ``version`` (one of VERSIONS) serves, without some of the OPTIONAL parts."""
    served = [*_CORE]
    for resource in _DRA:
        served += _in_versions(resource, _DRA_VERSIONS.get(version, ("v1",)))
    served += _in_versions(resources.DEVICE_TAINT_RULES, _TAINT_RULE_VERSIONS.get(version, ()))
    if POD_GROUPS not in without:
        served += _in_versions(resources.WORKLOADS, _WORKLOAD_VERSIONS.get(version, ()))
        served += _in_versions(resources.POD_GROUPS, _POD_GROUP_VERSIONS.get(version, ()))
    if KUEUE not in without:
        for resource in _QUEUES:
            served += _in_versions(resource, _KUEUE_VERSIONS)
    return Catalog(
        version=version,
        resources=tuple(served),
        installed=frozenset(OPTIONAL) - frozenset(without),
        by_path={(item.group, item.version, item.plural): item for item in served},
    )


def _in_versions(resource: Resource, versions: tuple[str, ...]) -> list[Resource]:
    return [resource if version == resource.version else resource.in_version(version) for version in versions]
