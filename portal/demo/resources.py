"""The table of what the embedded cluster serves: group, version, names, scope and selectable fields."""

from collections.abc import Mapping
from dataclasses import dataclass, field

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
READ_VERBS = ("get", "list", "watch")


@dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """One resource type.

    ``fields`` maps the field selectors that the API server supports (besides ``metadata.name`` and
    ``metadata.namespace``) to paths inside the object. ``generation`` says whether ``metadata.generation``
    counts changes of the spec. ``view_of`` names the resource whose objects this one shows in another form.
    ``returns_deleted``: a delete answers with the object instead of a Status.
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
    view_of: str = ""
    returns_deleted: bool = False

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def singular(self) -> str:
        return self.kind.lower()


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
    view_of="events",
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

RESOURCES: tuple[Resource, ...] = (
    NODES, NAMESPACES, PODS, EVENTS, RESOURCE_QUOTAS, SERVICE_ACCOUNTS, JOBS, LEASES, EVENTS_VIEW,
    RESOURCE_SLICES, DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES, DEVICE_TAINT_RULES,
)  # fmt: skip
STORED: Mapping[str, Resource] = {item.plural: item for item in RESOURCES if not item.view_of}
BY_KIND: Mapping[tuple[str, str], Resource] = {
    (item.api_version, item.kind): item for item in RESOURCES if not item.view_of
}
BY_PATH: Mapping[tuple[str, str, str], Resource] = {
    (item.group, item.version, item.plural): item for item in RESOURCES
}
