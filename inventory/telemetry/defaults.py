"""The queries that a new source begins with. Names of metrics change from release to release: administrators
change, switch off and add to these as their clusters need it.

Sources: metrics of Kubernetes 1.36 (kubelet, kube-controller-manager, kube-scheduler), of NVIDIA's DRA
driver, of dcgm-exporter and of AMD's device-metrics-exporter, each as documented.
"""

from dataclasses import dataclass

from django.utils.translation import gettext_lazy as _
from django_stubs_ext import StrOrPromise

from inventory.models import MetricQuery

Kind, Unit = MetricQuery.Kind, MetricQuery.Unit


@dataclass(frozen=True, kw_only=True)
class DefaultQuery:
    name: StrOrPromise
    expression: str
    kind: str = Kind.DRIVERS
    unit: str = Unit.NUMBER
    label: str = ""
    node_label: str = ""
    enabled: bool = True


def _slow(metric: str, by: str) -> str:
    rate = f"sum by (le, {by}) (rate({metric}_bucket{{$cluster}}[15m]))"
    return f"histogram_quantile(0.99, {rate})"


def _failed(metric: str, by: str) -> str:
    return f"3600 * sum by ({by}) (rate({metric}[1h]))"


DEFAULTS: tuple[DefaultQuery, ...] = (
    DefaultQuery(
        kind=Kind.USE,
        name=_("NVIDIA, by dcgm-exporter"),
        # Where profiling is not collected, the coarser gauge. Instances of a partitioned GPU are left out:
        # they carry the uuid of the whole.
        expression='(100 * DCGM_FI_PROF_GR_ENGINE_ACTIVE{GPU_I_ID="", $cluster}) '
        'or on (UUID) DCGM_FI_DEV_GPU_UTIL{GPU_I_ID="", $cluster}',
        unit=Unit.PERCENT,
        label="UUID",
    ),
    DefaultQuery(
        kind=Kind.USE,
        name=_("AMD, by device-metrics-exporter"),
        # With its labels: they tell whether it comes from the device's own node.
        expression="gpu_gfx_activity{$cluster}",
        unit=Unit.PERCENT,
        label="gpu_uuid",
        enabled=False,
    ),
    DefaultQuery(
        kind=Kind.PODS,
        name=_("Pods of NVIDIA's Device Plugin, by dcgm-exporter"),
        # Only where the exporter maps devices to Pods (DCGM_EXPORTER_KUBERNETES): else all would seem unused.
        expression="DCGM_FI_DEV_FB_USED{$cluster}",
        enabled=False,
    ),
    DefaultQuery(
        name=_("Kubelet calls the driver: 99th percentile"),
        expression=_slow("dra_grpc_operations_duration_seconds", "driver_name, method_name"),
        unit=Unit.SECONDS,
        label="driver_name",
    ),
    DefaultQuery(
        name=_("Kubelet calls the driver: failed"),
        expression=_failed(
            'dra_grpc_operations_duration_seconds_count{grpc_status_code!="OK", $cluster}',
            "driver_name, method_name, grpc_status_code",
        ),
        unit=Unit.PER_HOUR,
        label="driver_name",
    ),
    DefaultQuery(
        name=_("Claims that kubelets have in use"),
        expression='sum by (driver_name) (dra_resource_claims_in_use{driver_name!="<any>", $cluster})',
        label="driver_name",
    ),
    DefaultQuery(
        name=_("Kubelet prepares and frees claims: 99th percentile"),
        expression=_slow("dra_operations_duration_seconds", "operation_name"),
        unit=Unit.SECONDS,
    ),
    DefaultQuery(
        name=_("Kubelet prepares and frees claims: failed"),
        expression=_failed(
            'dra_operations_duration_seconds_count{is_error="true", $cluster}', "operation_name"
        ),
        unit=Unit.PER_HOUR,
    ),
    DefaultQuery(
        name=_("Claims made from templates: failed"),
        expression=_failed('resourceclaim_controller_creates_total{status!="success", $cluster}', "status"),
        unit=Unit.PER_HOUR,
    ),
    DefaultQuery(
        name=_("Claims that the controller knows"),
        expression="sum by (allocated, source) (resourceclaim_controller_resource_claims{$cluster})",
    ),
    DefaultQuery(
        name=_("Claims made for extended resources"),
        expression="3600 * sum by (status) (rate(scheduler_resourceclaim_creates_total{$cluster}[1h]))",
        unit=Unit.PER_HOUR,
    ),
    DefaultQuery(
        name=_("Controller of claims: waiting"),
        expression='sum by (name) (workqueue_depth{name="resource_claim", $cluster})',
    ),
    DefaultQuery(
        name=_("Controller of claims: retried"),
        expression=_failed('workqueue_retries_total{name="resource_claim", $cluster}', "name"),
        unit=Unit.PER_HOUR,
    ),
    DefaultQuery(
        name=_("NVIDIA's driver: 99th percentile"),
        expression=_slow("nvidia_dra_request_duration_seconds", "driver, operation"),
        unit=Unit.SECONDS,
        label="driver",
    ),
    DefaultQuery(
        name=_("NVIDIA's driver: could not prepare"),
        expression=_failed("nvidia_dra_node_prepare_errors_total{$cluster}", "driver, error_type"),
        unit=Unit.PER_HOUR,
        label="driver",
    ),
    DefaultQuery(
        name=_("NVIDIA's driver: could not free"),
        expression=_failed("nvidia_dra_node_unprepare_errors_total{$cluster}", "driver, error_type"),
        unit=Unit.PER_HOUR,
        label="driver",
    ),
    DefaultQuery(
        name=_("NVIDIA's driver: prepared devices"),
        expression="sum by (driver, device_type) (nvidia_dra_prepared_devices{$cluster})",
        label="driver",
    ),
)
