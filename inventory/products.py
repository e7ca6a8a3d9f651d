"""What people call a kind of device: vendor, product, kind, memory, read from what its driver publishes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from portal.dra.quantity import InvalidQuantity, Quantity

# The kind of a device that is cut from another.
PARTITION = "partition"

# Suffix of the driver's name → vendor.
VENDORS: Mapping[str, str] = {
    "nvidia.com": "NVIDIA",
    "amd.com": "AMD",
    "gaudi.intel.com": "Intel",
    "intel.com": "Intel",
    "google.com": "Google",
    "aws.com": "AWS",
    "amazonaws.com": "AWS",
    "huawei.com": "Huawei",
    "habana.ai": "Intel",
    "mellanox.com": "NVIDIA",
}

# What devices of a driver are, unless an attribute `type` says more.
KINDS: Mapping[str, str] = {
    "gpu.nvidia.com": "gpu",
    "gpu.amd.com": "gpu",
    "gpu.intel.com": "gpu",
    "gpu.example.com": "gpu",
    "gaudi.intel.com": "accelerator",
    "qat.intel.com": "qat",
    "tpu.google.com": "tpu",
    "neuron.aws.com": "accelerator",
    "compute-domain.nvidia.com": "channel",
    "dra.net": "nic",
    "dra.cpu": "cpu",
}

# Values of the attribute `type`, lower-case, that say which kind.
KIND_OF_TYPE: Mapping[str, str] = {
    "gpu": "gpu",
    "amdgpu": "gpu",
    "mig": PARTITION,
    "amdgpu-partition": PARTITION,
    "vfio": "vfio",
    "channel": "channel",
    "daemon": "channel",
}

# Names for people where a driver publishes no product.
FALLBACK_PRODUCT: Mapping[str, str] = {
    "qat.intel.com": "Intel QAT",
    "gaudi.intel.com": "Intel Gaudi",
    "neuron.aws.com": "AWS Neuron",
    "compute-domain.nvidia.com": "NVIDIA compute domain",
    "dra.net": "Network interface",
    "dra.cpu": "CPU",
}

_PRODUCT_NAMES = ("productname", "model", "accelerator", "tpugen", "instancetype", "pcidevice", "product")
_MEMORY_NAMES = ("memory", "addressablememory", "vram")


@dataclass(frozen=True)
class Product:
    """`memory_bytes` is None where the driver publishes none (or 0, which means unknown)."""

    vendor: str
    product: str
    kind: str
    memory_bytes: int | None


def describe(*, driver: str, attributes: Mapping[str, Any], capacity: Mapping[str, Any]) -> Product:
    """Read a profile (`DeviceProfile.attributes` and `.capacity`, fully qualified names)."""
    said = {
        name.rpartition("/")[2].lower(): str(value["string"]).strip()
        for name, value in attributes.items()
        if isinstance(value.get("string"), str)
    }
    kind = KIND_OF_TYPE.get(said.get("type", "").lower()) or KINDS.get(driver, "device")
    return Product(
        vendor=_vendor(driver, said)[:63],
        product=_product(driver, said)[:128],
        kind=kind,
        memory_bytes=_memory(capacity),
    )


def _vendor(driver: str, said: Mapping[str, str]) -> str:
    for suffix, vendor in VENDORS.items():
        if driver == suffix or driver.endswith(f".{suffix}"):
            return vendor
    return said.get("vendor") or said.get("pcivendor") or said.get("brand") or ""


def _product(driver: str, said: Mapping[str, str]) -> str:
    name = next((said[key] for key in _PRODUCT_NAMES if said.get(key)), "")
    # AMD writes underscores for spaces.
    name = name.replace("_", " ") if driver == "gpu.amd.com" else name
    if driver == "tpu.google.com" and name:
        name = f"TPU {name}"
    if driver == "neuron.aws.com" and name:
        name = f"AWS Neuron {name}"
    name = name or FALLBACK_PRODUCT.get(driver, driver)
    kind = said.get("type", "").lower()
    if kind == "mig" and said.get("profile"):
        return f"{name} MIG {said['profile']}"
    if kind == "amdgpu-partition" and said.get("partitionprofile"):
        return f"{name} {said['partitionprofile']}"
    if kind == "vfio":
        return f"{name} (VFIO)"
    return name


def _memory(capacity: Mapping[str, Any]) -> int | None:
    sizes = {name.rpartition("/")[2].lower(): value.get("value") for name, value in capacity.items()}
    for name in _MEMORY_NAMES:
        text = sizes.get(name)
        if text is None:
            continue
        try:
            size = Quantity.parse(str(text)).whole()
        except (InvalidQuantity, ArithmeticError):
            continue
        # Beyond the column is beyond any device.
        return size if 0 < size < 2**63 else None
    return None
