"""What the mirror holds: clusters and their streams, devices, workloads, observations, bindings."""

from inventory.models.archive import ArchivedObject, ObservationArchive
from inventory.models.autoscaling import AutoscalerReport
from inventory.models.bindings import NamespaceBinding
from inventory.models.cdi import CdiNode, CdiSpecFile, CdiToken
from inventory.models.class_versions import ClassVersion
from inventory.models.clusters import Cluster, Stream, SyncProblem
from inventory.models.contract import PlatformChange, PlatformContract
from inventory.models.counted import CountedUnits
from inventory.models.devices import (
    ClassProfile,
    Device,
    DeviceClass,
    DeviceProfile,
    Node,
    Pool,
    ResourceSlice,
)
from inventory.models.findings import DiagnosisTask, Finding, RuleState, Severity
from inventory.models.observations import Observation
from inventory.models.pod_devices import PodDevice, PodDeviceNode, PodDeviceToken
from inventory.models.policies import DeviceTaintRule, Namespace, RuntimeClass
from inventory.models.proposals import ClassProposal, ProposalEntry, ProposalTarget
from inventory.models.queues import (
    ClusterQueue,
    Job,
    LocalQueue,
    PodGroup,
    QueuedWorkload,
    ResourceFlavor,
    ResourceQuota,
    SchedulingWorkload,
)
from inventory.models.taints import DeskRule, Drain, DrainHolder, Effect, Maintenance, UpkeepEvent
from inventory.models.telemetry import DeviceUse, MetricQuery, MetricSource
from inventory.models.twins import Twin
from inventory.models.workloads import Claim, ClaimDevice, ClaimTemplate, Pod, PodEvent

__all__ = [
    "ArchivedObject",
    "AutoscalerReport",
    "CdiNode",
    "CdiSpecFile",
    "CdiToken",
    "Claim",
    "ClaimDevice",
    "ClaimTemplate",
    "ClassProfile",
    "ClassProposal",
    "ClassVersion",
    "Cluster",
    "ClusterQueue",
    "CountedUnits",
    "DeskRule",
    "Device",
    "DeviceClass",
    "DeviceProfile",
    "DeviceTaintRule",
    "DeviceUse",
    "DiagnosisTask",
    "Drain",
    "DrainHolder",
    "Effect",
    "Finding",
    "Job",
    "LocalQueue",
    "Maintenance",
    "MetricQuery",
    "MetricSource",
    "Namespace",
    "NamespaceBinding",
    "Node",
    "Observation",
    "ObservationArchive",
    "PlatformChange",
    "PlatformContract",
    "Pod",
    "PodDevice",
    "PodDeviceNode",
    "PodDeviceToken",
    "PodEvent",
    "PodGroup",
    "Pool",
    "ProposalEntry",
    "ProposalTarget",
    "QueuedWorkload",
    "ResourceFlavor",
    "ResourceQuota",
    "ResourceSlice",
    "RuleState",
    "RuntimeClass",
    "SchedulingWorkload",
    "Severity",
    "Stream",
    "SyncProblem",
    "Twin",
    "UpkeepEvent",
]
