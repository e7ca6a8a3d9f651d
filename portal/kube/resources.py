"""Which collection of the API a call is about, and the path that addresses it."""

from dataclasses import dataclass
from urllib.parse import quote

# Whose resources go by their full names.
AMBIGUOUS_GROUPS = frozenset({"kueue.x-k8s.io", "scheduling.k8s.io"})


@dataclass(frozen=True)
class Resource:
    """A collection as the API serves it: `Resource("resource.k8s.io/v1", "resourceslices",
    namespaced=False)`."""

    api_version: str
    plural: str
    namespaced: bool
    # What its objects are; items of a list do not say it themselves.
    kind: str = ""

    @property
    def group(self) -> str:
        """The API group; "" for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def stream(self) -> str:
        """A name that no other resource has: several groups know a `workloads`."""
        return f"{self.plural}.{self.group}" if self.group in AMBIGUOUS_GROUPS else self.plural

    def path(self, *, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """URL path below the server's address. Without `namespace`, a namespaced collection means all of
        them."""
        root = f"/apis/{self.api_version}" if "/" in self.api_version else f"/api/{self.api_version}"
        parts = [root]
        if namespace and self.namespaced:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        parts += [quote(part, safe="") for part in (name, subresource) if part]
        return "/".join(parts)


NODES = Resource("v1", "nodes", namespaced=False, kind="Node")
NAMESPACES = Resource("v1", "namespaces", namespaced=False, kind="Namespace")
PODS = Resource("v1", "pods", namespaced=True, kind="Pod")
EVENTS = Resource("v1", "events", namespaced=True, kind="Event")
JOBS = Resource("batch/v1", "jobs", namespaced=True, kind="Job")
RESOURCE_QUOTAS = Resource("v1", "resourcequotas", namespaced=True, kind="ResourceQuota")
RESOURCE_SLICES = Resource("resource.k8s.io/v1", "resourceslices", namespaced=False, kind="ResourceSlice")
DEVICE_CLASSES = Resource("resource.k8s.io/v1", "deviceclasses", namespaced=False, kind="DeviceClass")
RESOURCE_CLAIMS = Resource("resource.k8s.io/v1", "resourceclaims", namespaced=True, kind="ResourceClaim")
RESOURCE_CLAIM_TEMPLATES = Resource(
    "resource.k8s.io/v1", "resourceclaimtemplates", namespaced=True, kind="ResourceClaimTemplate"
)
DEVICE_TAINT_RULES = Resource(
    "resource.k8s.io/v1", "devicetaintrules", namespaced=False, kind="DeviceTaintRule"
)
RUNTIME_CLASSES = Resource("node.k8s.io/v1", "runtimeclasses", namespaced=False, kind="RuntimeClass")
CLUSTER_QUEUES = Resource("kueue.x-k8s.io/v1beta2", "clusterqueues", namespaced=False, kind="ClusterQueue")
LOCAL_QUEUES = Resource("kueue.x-k8s.io/v1beta2", "localqueues", namespaced=True, kind="LocalQueue")
RESOURCE_FLAVORS = Resource(
    "kueue.x-k8s.io/v1beta2", "resourceflavors", namespaced=False, kind="ResourceFlavor"
)
QUEUED_WORKLOADS = Resource("kueue.x-k8s.io/v1beta2", "workloads", namespaced=True, kind="Workload")
POD_GROUPS = Resource("scheduling.k8s.io/v1beta1", "podgroups", namespaced=True, kind="PodGroup")
SCHEDULING_WORKLOADS = Resource("scheduling.k8s.io/v1beta1", "workloads", namespaced=True, kind="Workload")
ACCESS_REVIEWS = Resource(
    "authorization.k8s.io/v1", "selfsubjectaccessreviews", namespaced=False, kind="SelfSubjectAccessReview"
)

# What autoscalers say; read only where it is there and may be read.
CONFIG_MAPS = Resource("v1", "configmaps", namespaced=True, kind="ConfigMap")
MACHINE_DEPLOYMENTS = Resource(
    "cluster.x-k8s.io/v1beta2", "machinedeployments", namespaced=True, kind="MachineDeployment"
)
OLDER_MACHINE_DEPLOYMENTS = Resource(
    "cluster.x-k8s.io/v1beta1", "machinedeployments", namespaced=True, kind="MachineDeployment"
)
NODE_POOLS = Resource("karpenter.sh/v1", "nodepools", namespaced=False, kind="NodePool")
