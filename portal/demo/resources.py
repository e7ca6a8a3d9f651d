"""The table of what the embedded cluster stores: group, version, names, scope and selectable fields.

In which versions it is served is another matter: :mod:`portal.demo.catalog`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
READ_VERBS = ("get", "list", "watch")


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """One resource type.

    ``fields`` maps the field selectors that the API server supports (besides ``metadata.name`` and
    ``metadata.namespace``) to paths inside the object. ``generation`` says whether ``metadata.generation``
    counts changes of the spec. ``returns_deleted``: a delete answers with the object instead of a Status.
    ``stored_as`` is the key of the resource whose objects this one shows in another version or form (see
    :mod:`portal.demo.conversion`). ``custom``: it comes with an installed CustomResourceDefinition.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    status: bool = False
    generation: bool = False
    short_names: tuple[str, ...] = ()
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    verbs: tuple[str, ...] = ALL_VERBS
    returns_deleted: bool = False
    stored_as: str = ""
    custom: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def key(self) -> str:
        """By what the store knows its objects; the plural alone is taken twice (``workloads``)."""
        return self.stored_as or (f"{self.plural}.{self.group}" if self.custom else self.plural)

    def in_version(self, version: str) -> "Resource":
        """The same objects, served in another version of the group."""
        return replace(self, version=version, stored_as=self.key)


_DRA = "resource.k8s.io"
_EVENT_FIELDS: dict[str, tuple[str, ...]] = {
    **{
        f"involvedObject.{name}": ("involvedObject", name)
        for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
    },
    "reason": ("reason",),
    "reportingComponent": ("reportingComponent",),
    "source": ("source", "component"),
    "type": ("type",),
}

NODES = Resource(
    "", "v1", "nodes", "Node", namespaced=False, status=True, short_names=("no",),
    fields={"spec.unschedulable": ("spec", "unschedulable")},
)  # fmt: skip
NAMESPACES = Resource(
    "", "v1", "namespaces", "Namespace", namespaced=False, status=True, short_names=("ns",),
    fields={"status.phase": ("status", "phase")},
)  # fmt: skip
PODS = Resource(
    "", "v1", "pods", "Pod", namespaced=True, status=True, generation=True, returns_deleted=True,
    short_names=("po",),
    fields={
        "spec.nodeName": ("spec", "nodeName"),
        "spec.restartPolicy": ("spec", "restartPolicy"),
        "spec.schedulerName": ("spec", "schedulerName"),
        "spec.serviceAccountName": ("spec", "serviceAccountName"),
        "spec.hostNetwork": ("spec", "hostNetwork"),
        "status.phase": ("status", "phase"),
        "status.podIP": ("status", "podIP"),
        "status.nominatedNodeName": ("status", "nominatedNodeName"),
    },
)  # fmt: skip
EVENTS = Resource("", "v1", "events", "Event", namespaced=True, short_names=("ev",), fields=_EVENT_FIELDS)
RESOURCE_QUOTAS = Resource(
    "",
    "v1",
    "resourcequotas",
    "ResourceQuota",
    namespaced=True,
    returns_deleted=True,
    status=True,
    short_names=("quota",),
)
SERVICE_ACCOUNTS = Resource(
    "", "v1", "serviceaccounts", "ServiceAccount", namespaced=True, returns_deleted=True, short_names=("sa",)
)
JOBS = Resource(
    "batch", "v1", "jobs", "Job", namespaced=True, status=True, generation=True,
    fields={"status.successful": ("status", "succeeded")},
)  # fmt: skip
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
EVENTS_VIEW = Resource(
    "events.k8s.io", "v1", "events", "Event", namespaced=True, short_names=("ev",), verbs=READ_VERBS,
    fields={
        **{f"regarding.{name.split('.')[1]}": path for name, path in _EVENT_FIELDS.items() if "." in name},
        "reason": ("reason",),
        "type": ("type",),
        "reportingController": ("reportingComponent",),
    },
    stored_as="events",
)  # fmt: skip
RESOURCE_SLICES = Resource(
    _DRA, "v1", "resourceslices", "ResourceSlice", namespaced=False, returns_deleted=True, generation=True,
    fields={"spec.driver": ("spec", "driver"), "spec.nodeName": ("spec", "nodeName")},
)  # fmt: skip
DEVICE_CLASSES = Resource(
    _DRA, "v1", "deviceclasses", "DeviceClass", namespaced=False, returns_deleted=True, generation=True
)
RESOURCE_CLAIMS = Resource(
    _DRA, "v1", "resourceclaims", "ResourceClaim", namespaced=True, returns_deleted=True, status=True
)
RESOURCE_CLAIM_TEMPLATES = Resource(
    _DRA, "v1", "resourceclaimtemplates", "ResourceClaimTemplate", namespaced=True, returns_deleted=True
)
DEVICE_TAINT_RULES = Resource(
    _DRA,
    "v1beta2",
    "devicetaintrules",
    "DeviceTaintRule",
    namespaced=False,
    returns_deleted=True,
    status=True,
    generation=True,
)
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
POD_GROUPS = Resource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", namespaced=True, status=True)
WORKLOADS = Resource("scheduling.k8s.io", "v1beta1", "workloads", "Workload", namespaced=True)

_KUEUE = "kueue.x-k8s.io"
CLUSTER_QUEUES = Resource(
    _KUEUE, "v1beta2", "clusterqueues", "ClusterQueue", namespaced=False, status=True, generation=True,
    short_names=("cq",), custom=True,
)  # fmt: skip
LOCAL_QUEUES = Resource(
    _KUEUE, "v1beta2", "localqueues", "LocalQueue", namespaced=True, status=True, generation=True,
    short_names=("queue", "queues", "lq"), custom=True,
)  # fmt: skip
RESOURCE_FLAVORS = Resource(
    _KUEUE, "v1beta2", "resourceflavors", "ResourceFlavor", namespaced=False, generation=True,
    short_names=("flavor", "flavors", "rf"), custom=True,
)  # fmt: skip
QUEUED_WORKLOADS = Resource(
    _KUEUE, "v1beta2", "workloads", "Workload", namespaced=True, status=True, generation=True,
    short_names=("wl",), custom=True,
)  # fmt: skip

_ALL: tuple[Resource, ...] = (
    NODES, NAMESPACES, PODS, EVENTS, RESOURCE_QUOTAS, SERVICE_ACCOUNTS, JOBS, LEASES,
    RESOURCE_SLICES, DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, DEVICE_TAINT_RULES,
    RUNTIME_CLASSES, POD_GROUPS, WORKLOADS, CLUSTER_QUEUES, LOCAL_QUEUES, RESOURCE_FLAVORS, QUEUED_WORKLOADS,
)  # fmt: skip
STORED: Mapping[str, Resource] = {item.key: item for item in _ALL}
BY_KIND: Mapping[tuple[str, str], Resource] = {(item.api_version, item.kind): item for item in _ALL}
BY_GROUP_KIND: Mapping[tuple[str, str], Resource] = {(item.group, item.kind): item for item in _ALL}
