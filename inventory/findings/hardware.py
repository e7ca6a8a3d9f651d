"""Which vendors' devices a node says that it has, in its labels and in what its Device Plugins advertise."""

from collections.abc import Mapping
from typing import Any

from inventory.plugins import vendor_of
from inventory.products import KINDS

# Labels that are there only where the hardware is. Some operators set them to "false" elsewhere.
_LABELS: Mapping[str, str] = {
    "nvidia.com/gpu.present": "NVIDIA",
    "nvidia.com/gpu.product": "NVIDIA",
    "nvidia.com/gpu.count": "NVIDIA",
    "amd.com/gpu.product-name": "AMD",
    "amd.com/gpu.device-id": "AMD",
    "beta.amd.com/gpu.product-name": "AMD",
    "beta.amd.com/gpu.device-id": "AMD",
    "gpu.intel.com/product": "Intel",
    "gpu.intel.com/device.count": "Intel",
    "intel.feature.node.kubernetes.io/gpu": "Intel",
    "intel.feature.node.kubernetes.io/gaudi": "Intel",
    "cloud.google.com/gke-tpu-accelerator": "Google",
}
# Node Feature Discovery: feature.node.kubernetes.io/pci-<class>_<vendor>.present. A vendor alone would be
# too little: network cards and bridges have one, too.
_PCI_PREFIX = "feature.node.kubernetes.io/pci-"
_PCI_DISPLAYS = ("0300", "0302", "0380", "1200")
_PCI_VENDORS: Mapping[str, str] = {"10de": "NVIDIA", "1002": "AMD", "1da3": "Intel"}
# Labels whose value begins with the name of a vendor.
_NAMING = ("cloud.google.com/gke-accelerator", "k8s.amazonaws.com/accelerator", "accelerator")
_NO = frozenset({"", "false", "0", "none"})
# What is published but is no piece of hardware of its own, or hardware that the labels do not speak of.
_OTHER_KINDS = frozenset({"channel", "nic", "cpu"})


def vendors_in_labels(labels: Mapping[str, str]) -> set[str]:
    """Vendors whose devices a node has by its labels."""
    found = {vendor for label, vendor in _LABELS.items() if labels.get(label, "").lower() not in _NO}
    for label, value in labels.items():
        if label.startswith(_PCI_PREFIX) and value.lower() not in _NO:
            found.add(_of_pci(label.removeprefix(_PCI_PREFIX).removesuffix(".present")))
        elif label in _NAMING:
            found.add(_VENDOR_WORDS.get(value.lower().partition("-")[0], ""))
    return found - {""}


_VENDOR_WORDS: Mapping[str, str] = {"nvidia": "NVIDIA", "amd": "AMD", "huawei": "Huawei", "intel": "Intel"}


def _of_pci(name: str) -> str:
    kind, _underscore, vendor = name.partition("_")
    return _PCI_VENDORS.get(vendor[:4], "") if kind in _PCI_DISPLAYS else ""


def units(capacity: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    """Vendor → extended resource → units, of vendors that are known and resources that have any."""
    found: dict[str, dict[str, int]] = {}
    for name, amount in capacity.items():
        text = str(amount)
        count = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0
        if count and (vendor := vendor_of(name)):
            found.setdefault(vendor, {})[name] = count
    return found


def vendor_of_driver(driver: str) -> str:
    """The vendor whose hardware a driver publishes; "" for one that publishes something else."""
    return "" if KINDS.get(driver) in _OTHER_KINDS else vendor_of(driver)
