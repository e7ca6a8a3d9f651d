"""Nodes and Pods, as far as devices and their users need them."""

from msgspec import field

from portal.dra.model.base import Base, ObjectMeta, settle_quantities
from portal.dra.model.claims import Condition


class Taint(Base, frozen=True, kw_only=True):
    key: str
    effect: str
    value: str = ""
    time_added: str | None = None


class Toleration(Base, frozen=True, kw_only=True):
    key: str = ""
    operator: str = ""  # means Equal
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class NodeSpec(Base, frozen=True, kw_only=True):
    unschedulable: bool | None = None
    taints: tuple[Taint, ...] = ()


class NodeStatus(Base, frozen=True, kw_only=True):
    capacity: dict[str, str | int | float] = field(default_factory=dict)
    allocatable: dict[str, str | int | float] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()

    def __post_init__(self) -> None:
        settle_quantities(self, "capacity")
        settle_quantities(self, "allocatable")


class Node(Base, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class ContainerClaim(Base, frozen=True, kw_only=True):
    name: str
    request: str | None = None


class ContainerResources(Base, frozen=True, kw_only=True):
    requests: dict[str, str | int | float] = field(default_factory=dict)
    limits: dict[str, str | int | float] = field(default_factory=dict)
    claims: tuple[ContainerClaim, ...] = ()

    def __post_init__(self) -> None:
        settle_quantities(self, "requests")
        settle_quantities(self, "limits")


class Container(Base, frozen=True, kw_only=True):
    name: str = ""
    resources: ContainerResources = ContainerResources()
    restart_policy: str | None = None


class PodResourceClaim(Base, frozen=True, kw_only=True):
    name: str
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Base, frozen=True, kw_only=True):
    node_name: str = ""
    scheduler_name: str = ""
    service_account_name: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    node_selector: dict[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] = ()
    priority: int | None = None


class PodResourceClaimStatus(Base, frozen=True, kw_only=True):
    name: str
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(Base, frozen=True, kw_only=True):
    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class PodExtendedResourceClaimStatus(Base, frozen=True, kw_only=True):
    resource_claim_name: str = ""
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()


class PodStatus(Base, frozen=True, kw_only=True):
    phase: str = ""
    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: PodExtendedResourceClaimStatus | None = None
    start_time: str | None = None


class Pod(Base, frozen=True, kw_only=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()
