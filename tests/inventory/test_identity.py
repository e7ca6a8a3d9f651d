"""What identifies a single piece, for the drivers that we know."""

from typing import Any

import pytest

from inventory import identity, products, profiles
from portal.dra import model


@pytest.mark.parametrize(
    ("driver", "name", "expected"),
    [
        ("gpu.nvidia.com", "uuid", True),
        ("gpu.nvidia.com", "parentUUID", True),
        ("gpu.nvidia.com", "resource.kubernetes.io/pciBusID", True),
        ("gpu.nvidia.com", "resource.kubernetes.io/pcieRoot", True),
        ("gpu.nvidia.com", "productName", False),
        ("gpu.nvidia.com", "deviceID", False),
        ("gpu.amd.com", "deviceID", False),
        ("neuron.aws.com", "deviceId", True),
        ("neuron.aws.com", "topology_x", True),
        ("compute-domain.nvidia.com", "id", True),
        ("gpu.example.com", "id", False),
        ("dra.net", "dra.net/mac", True),
        ("dra.net", "dra.net/ifName", True),
        ("dra.net", "dra.net/pciVendor", False),
        ("gaudi.intel.com", "serial", True),
        ("tpu.google.com", "index", True),
        ("dra.cpu", "numaNode", False),
    ],
)
def test_identity_attributes_are_told_by_driver_and_name(driver: str, name: str, expected: bool) -> None:
    assert identity.is_identity(name, driver=driver) is expected


def pieces(**values: str) -> dict[str, dict[str, Any]]:
    return {f"x.example/{name}": {"string": value} for name, value in values.items()}


@pytest.mark.parametrize(
    ("driver", "attributes", "expected"),
    [
        ("gpu.nvidia.com", pieces(uuid="GPU-1", pciBusID="0000:10:00.0"), "GPU-1"),
        ("gpu.nvidia.com", pieces(parentUUID="GPU-1"), "GPU-1#dev"),
        # One uuid for all chips of a node says nothing about the chip.
        ("tpu.google.com", pieces(uuid="shared"), ""),
        # PCI addresses repeat from node to node.
        ("dra.net", pieces(pciAddress="0000:10:00.0"), "node-1/0000:10:00.0"),
        ("gaudi.intel.com", pieces(serial="AM123"), "AM123"),
        ("gaudi.intel.com", pieces(serial=""), ""),
        ("x.example", pieces(uuid="u" * 200), "u" * 128),
        ("x.example", {"x.example/uuid": {"int": 5}}, ""),
    ],
)
def test_the_hardware_id_is_the_best_that_a_driver_gives(
    driver: str, attributes: dict[str, Any], expected: str
) -> None:
    assert identity.hardware_id(attributes, driver=driver, device="dev", place="node-1") == expected


def device(**parts: Any) -> model.Device:
    slice_ = model.decode_object(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": "s"},
            "spec": {"driver": "d", "pool": {"name": "p"}, "devices": [{"name": "x", **parts}]},
        }
    )
    assert isinstance(slice_, model.ResourceSlice)
    return slice_.spec.devices[0]


def test_two_pieces_of_a_kind_share_their_profile() -> None:
    splits = [
        profiles.split(
            device(attributes={"type": {"string": "gpu"}, "uuid": {"string": f"GPU-{n}"}}),
            driver="gpu.nvidia.com",
        )
        for n in (1, 2)
    ]
    assert splits[0].digest == splits[1].digest
    assert splits[0].attributes == {"gpu.nvidia.com/type": {"string": "gpu"}}
    assert [s.identity["gpu.nvidia.com/uuid"]["string"] for s in splits] == ["GPU-1", "GPU-2"]


@pytest.mark.parametrize(
    "other",
    [
        {"attributes": {"a": {"string": "1"}}},
        {"attributes": {"a": {"int": 2}}},
        {"attributes": {"a": {"int": 1}}, "capacity": {"memory": {"value": "1Gi"}}},
        {"attributes": {"a": {"int": 1}}, "allowMultipleAllocations": True},
    ],
)
def test_whatever_else_differs_is_another_kind(other: dict[str, Any]) -> None:
    one = profiles.split(device(attributes={"a": {"int": 1}}), driver="x.example")
    assert profiles.split(device(**other), driver="x.example").digest != one.digest


def test_the_order_of_attributes_does_not_matter() -> None:
    one = device(attributes={"a": {"int": 1}, "b": {"bool": True}})
    two = device(attributes={"b": {"bool": True}, "a": {"int": 1}})
    assert profiles.split(one, driver="x").digest == profiles.split(two, driver="x").digest


@pytest.mark.parametrize(
    ("driver", "attributes", "capacity", "expected"),
    [
        (
            "gpu.nvidia.com",
            {"type": "mig", "productName": "NVIDIA H100 80GB HBM3", "profile": "1g.10gb"},
            {"memory": "9856Mi"},
            ("NVIDIA", "NVIDIA H100 80GB HBM3 MIG 1g.10gb", "partition", 9856 * 2**20),
        ),
        (
            "gpu.amd.com",
            {"type": "amdgpu", "productName": "AMD_Instinct_MI300X_OAM"},
            {"memory": "0"},
            ("AMD", "AMD Instinct MI300X OAM", "gpu", None),
        ),
        ("gaudi.intel.com", {"model": "Gaudi2"}, {}, ("Intel", "Gaudi2", "accelerator", None)),
        ("tpu.google.com", {"tpuGen": "v4"}, {}, ("Google", "TPU v4", "tpu", None)),
        (
            "gpu.example.com",
            {"model": "LATEST-GPU-MODEL"},
            {"memory": "80Gi"},
            ("", "LATEST-GPU-MODEL", "gpu", 80 * 2**30),
        ),
        ("dra.cpu", {}, {"cpu": "64"}, ("", "CPU", "cpu", None)),
        ("unheard.of", {}, {"memory": "nonsense"}, ("", "unheard.of", "device", None)),
        ("gpu.nvidia.com", {"type": "vfio"}, {}, ("NVIDIA", "gpu.nvidia.com (VFIO)", "vfio", None)),
    ],
)
def test_a_kind_has_a_name_for_people(
    driver: str, attributes: dict[str, str], capacity: dict[str, str], expected: tuple[Any, ...]
) -> None:
    found = products.describe(
        driver=driver,
        attributes={f"{driver}/{name}": {"string": value} for name, value in attributes.items()},
        capacity={f"{driver}/{name}": {"value": value} for name, value in capacity.items()},
    )
    assert (found.vendor, found.product, found.kind, found.memory_bytes) == expected


@pytest.mark.django_db
def test_known_profiles_are_those_that_splitting_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(profiles.Known, "_MOST", 2)
    devices = [
        (device(attributes={"a": {"int": 1}, "uuid": {"string": "GPU-1"}}), "x.example"),
        # Another piece, and the same kind with its attributes in another order.
        (device(attributes={"uuid": {"string": "GPU-2"}, "a": {"int": 1}}), "x.example"),
        (device(attributes={"a": {"bool": True}}), "x.example"),
        (device(attributes={"a": {"int": 1}}, allowMultipleAllocations=True), "x.example"),
        (device(attributes={"a": {"int": 1}}), "y.example"),
    ]
    known = profiles.Known()
    # Also when it has forgotten what it knew, for there was too much of it.
    for _time in range(2):
        found = known.of(devices)
        assert [p.digest for p in found] == [profiles.split(d, driver=of).digest for d, of in devices]
    assert found[0] == found[1]
    assert len({profile.pk for profile in found}) == 4


def test_a_piece_is_told_by_the_attributes_that_a_split_leaves_out() -> None:
    one = device(
        attributes={"a": {"int": 1}, "uuid": {"string": "GPU-1"}, "other.example/serial": {"int": 7}}
    )
    assert profiles.identity_of(one, driver="x.example") == profiles.split(one, driver="x.example").identity
