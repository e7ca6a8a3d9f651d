"""What node labels say about the units that a Device Plugin advertises, vendor by vendor.

Pure reading: an extended resource's name and the labels of its node in, a description out. A plugin of a
maker that nobody knows gives a plain count under its own name.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from inventory.products import VENDORS
from portal.dra.quantity import InvalidQuantity, Quantity

PARTITION = "partition"
MEBIBYTE = 2**20


@dataclass(frozen=True)
class Unit:
    """One kind of counted unit. `sharing` is "" where a unit is whole, else how several units share a piece
    of hardware ("time-slicing", "mps", "mig", …), `replicas` how many do; `counts` is false for units that
    are parts of others which the node advertises, too."""

    vendor: str
    product: str
    kind: str
    memory_bytes: int | None = None
    sharing: str = ""
    replicas: int = 1
    # `nvidia.com/mig.strategy`: single or mixed.
    mig_strategy: str = ""
    counts: bool = True


def describe(resource: str, *, labels: Mapping[str, str], advertised: Mapping[str, str]) -> Unit:
    """What one unit of `resource` is on a node that advertises `advertised` in all."""
    domain, _, name = resource.partition("/")
    if domain == "aws.amazon.com":
        return _aws(name, labels, advertised)
    read = _READERS.get(domain)
    return read(name, labels) if read is not None else Unit(vendor_of(resource), resource, "device")


@lru_cache(maxsize=4096)
def vendor_of(domain: str) -> str:
    """The vendor behind a driver's name or an extended resource ("nvidia.com/gpu"); "" when nobody we
    know."""
    name = domain.partition("/")[0]
    if name == "aws.amazon.com":
        return "AWS"
    for suffix, vendor in VENDORS.items():
        if name == suffix or name.endswith(f".{suffix}"):
            return vendor
    return ""


def _nvidia(name: str, labels: Mapping[str, str]) -> Unit:
    product = labels.get("nvidia.com/gpu.product", "")
    # Sharing and MIG rewrite the label: A100-SXM4-40GB-MIG-1g.5gb-SHARED.
    product = product.removesuffix("-SHARED").partition("-MIG-")[0].replace("-", " ")
    product = product or "NVIDIA GPU"
    strategy = labels.get("nvidia.com/mig.strategy", "")
    shared = labels.get("nvidia.com/gpu.sharing-strategy", "none")
    replicas = _whole(labels.get(f"nvidia.com/{name.removesuffix('.shared')}.replicas", "")) or 1
    profile = name.removeprefix("mig-").removesuffix(".shared") if name.startswith("mig-") else ""
    if not profile and "-MIG-" in labels.get("nvidia.com/gpu.product", ""):
        # Strategy "single": instances go by the name of whole GPUs.
        said = labels["nvidia.com/gpu.product"].removesuffix("-SHARED").partition("-MIG-")[2]
        profile = said.replace("-SHARED", "")
    unit = Unit("NVIDIA", product, "gpu", mig_strategy=strategy, replicas=replicas)
    if profile:
        memory = profile.partition(".")[2].removesuffix("gb")
        size = _whole(memory)
        unit = replace(
            unit,
            product=f"{product} MIG {profile}",
            kind=PARTITION,
            memory_bytes=size * 1024 * MEBIBYTE if size else None,
            sharing="mig",
        )
    elif size := _whole(labels.get("nvidia.com/gpu.memory", "")):
        unit = replace(unit, memory_bytes=size * MEBIBYTE)
    if shared not in ("", "none") or replicas > 1:
        unit = replace(unit, sharing=shared if shared not in ("", "none") else "time-slicing")
    return unit


def _amd(name: str, labels: Mapping[str, str]) -> Unit:
    product = labels.get("amd.com/gpu.product-name", "").replace("_", " ") or "AMD GPU"
    memory = _size(labels.get("amd.com/gpu.vram", ""))
    if name == "gpu":
        return Unit("AMD", product, "gpu", memory_bytes=memory)
    # A mode of compute and memory partitioning, such as cpx_nps4; the label tells of the whole.
    return Unit("AMD", f"{product} {name}", PARTITION, sharing=name)


def _intel(name: str, labels: Mapping[str, str]) -> Unit:
    product = labels.get("gpu.intel.com/product", "").replace("_", " ")
    return Unit("Intel", product or f"Intel GPU ({name})", "gpu")


def _habana(_name: str, _labels: Mapping[str, str]) -> Unit:
    return Unit("Intel", "Intel Gaudi", "accelerator")


def _google(name: str, labels: Mapping[str, str]) -> Unit:
    if name != "tpu":
        return Unit("Google", f"google.com/{name}", "device")
    generation = labels.get("cloud.google.com/gke-tpu-accelerator", "")
    topology = labels.get("cloud.google.com/gke-tpu-topology", "")
    said = " ".join(part for part in ("TPU", generation.removeprefix("tpu-"), topology) if part)
    return Unit("Google", said, "tpu")


def _aws(name: str, labels: Mapping[str, str], advertised: Mapping[str, str]) -> Unit:
    core = name == "neuroncore"
    inside = core and "aws.amazon.com/neuron" in advertised
    machine = labels.get("node.kubernetes.io/instance-type", "")
    product = {"neuroncore": "AWS Neuron core", "neuron": "AWS Neuron"}.get(name, f"aws.amazon.com/{name}")
    named = f"{product} ({machine})" if machine else product
    return Unit("AWS", named, PARTITION if core else "accelerator", counts=not inside)


def _huawei(name: str, _labels: Mapping[str, str]) -> Unit:
    return Unit("Huawei", name.replace("Ascend", "Ascend ", 1), "accelerator")


_READERS: Mapping[str, Callable[[str, Mapping[str, str]], Unit]] = {
    "nvidia.com": _nvidia,
    "amd.com": _amd,
    "gpu.intel.com": _intel,
    "habana.ai": _habana,
    "google.com": _google,
    "huawei.com": _huawei,
}


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else None


def _size(text: str) -> int | None:
    """ "64G" as the labeller writes it; it means gibibytes."""
    if text.endswith(("G", "M")):
        text += "i"
    try:
        size = Quantity.parse(text).whole() if text else 0
    except (InvalidQuantity, ArithmeticError):
        return None
    return size if 0 < size < 2**63 else None
