"""Examples for selectors, by vendor: each says in words what it is for."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext_lazy as _
from django_stubs_ext import StrOrPromise


@dataclass(frozen=True)
class Example:
    """`expressions` must all hold."""

    slug: str
    vendor: StrOrPromise
    title: StrOrPromise
    driver: str
    expressions: Sequence[str]


def _of(slug: str, vendor: StrOrPromise, title: StrOrPromise, driver: str, *more: str) -> Example:
    return Example(slug, vendor, title, driver, [" &&\n".join((f'device.driver == "{driver}"', *more))])


_NVIDIA, _AMD, _INTEL, _NET, _TPU = (
    "gpu.nvidia.com",
    "gpu.amd.com",
    "gpu.intel.com",
    "dra.net",
    "tpu.google.com",
)

EXAMPLES: Sequence[Example] = (
    _of("nvidia-whole", "NVIDIA", _("Whole GPUs, no partitions"), _NVIDIA,
        f'device.attributes["{_NVIDIA}"].type == "gpu"'),
    _of("nvidia-memory", "NVIDIA", _("GPUs with at least 80 GiB of memory"), _NVIDIA,
        f'device.attributes["{_NVIDIA}"].type == "gpu"',
        f'device.capacity["{_NVIDIA}"].memory.compareTo(quantity("80Gi")) >= 0'),
    _of("nvidia-mig", "NVIDIA", _("MIG instances of one profile"), _NVIDIA,
        f'device.attributes["{_NVIDIA}"].type == "mig"',
        f'device.attributes["{_NVIDIA}"].profile == "1g.5gb"'),
    _of("nvidia-driver", "NVIDIA", _("GPUs with a recent enough kernel driver"), _NVIDIA,
        f'device.attributes["{_NVIDIA}"].driverVersion.compareTo(semver("580.0.0")) >= 0'),
    _of("amd-whole", "AMD", _("Whole GPUs, no partitions"), _AMD,
        f'device.attributes["{_AMD}"].type == "amdgpu"'),
    _of("amd-partition", "AMD", _("Partitions of one mode"), _AMD,
        f'device.attributes["{_AMD}"].type == "amdgpu-partition"',
        f'device.attributes["{_AMD}"].partitionProfile == "cpx_nps4"'),
    _of("intel-family", "Intel", _("GPUs of one family"), _INTEL,
        f'device.attributes["{_INTEL}"].family == "Data Center Flex"'),
    _of("google-generation", "Google", _("TPUs of one generation"), _TPU,
        f'device.attributes["{_TPU}"].tpuGen == "v4"'),
    _of("nic-rdma", _("Network"), _("Interfaces that can RDMA; not every one says so"), _NET,
        f'has(device.attributes["{_NET}"].rdma)',
        f'device.attributes["{_NET}"].rdma'),
)  # fmt: skip


def examples_for(drivers: Collection[str]) -> Sequence[Example]:
    """All examples; those for drivers that there are first."""
    return sorted(EXAMPLES, key=lambda example: example.driver not in drivers)
