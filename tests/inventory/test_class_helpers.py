"""What helps to write a class: what devices have, guards, and examples that hold what they say."""

import pytest

from inventory import class_examples
from inventory.attribute_table import attribute_rows
from inventory.class_effect.judging import Judge
from inventory.guards import guarded
from inventory.models import Cluster
from portal.dra.cel import compile_selector
from portal.dra.features import Features
from tests.inventory.conftest import Mirror
from tests.inventory.objects import Json, gpu, resource_slice

NVIDIA, NIC = "gpu.nvidia.com", "dra.net"


def nic(index: int, **attributes: Json) -> Json:
    return {"name": f"nic-{index}", "attributes": {"dra.net/ifName": {"string": f"eth{index}"}, **attributes}}


@pytest.fixture
def mixed(mirror: Mirror) -> Cluster:
    """Two GPUs, and three interfaces of which one says whether it can RDMA."""
    mirror.see(resource_slice("gpus", [gpu(0), gpu(1)]))
    nics = [nic(0, **{"dra.net/rdma": {"bool": True}}), nic(1), nic(2)]
    mirror.see(resource_slice("nics", nics, driver=NIC))
    return Cluster.objects.get()


def test_attributes_are_listed_with_values_and_how_many_devices_have_them(mixed: Cluster) -> None:
    rows = {(row.domain, row.name): row for row in attribute_rows(mixed)}
    kind = rows[NVIDIA, "type"]
    assert (kind.devices, kind.of, kind.drivers, kind.examples) == (2, 2, [NVIDIA], ["gpu"])
    assert kind.test == f'device.attributes["{NVIDIA}"].type == "gpu"'
    rdma = rows[NIC, "rdma"]
    assert (rdma.type, rdma.devices, rdma.of) == ("bool", 1, 3)
    # What identifies the piece is a choice, too.
    assert rows[NVIDIA, "uuid"].devices == 2
    memory = rows[NVIDIA, "memory"]
    assert memory.test == f'device.capacity["{NVIDIA}"].memory.compareTo(quantity("40Gi")) >= 0'
    for row in rows.values():
        compile_selector(row.test, features=Features.for_version("1.36").gates, enforce_estimate=True)


@pytest.mark.parametrize(
    ("expression", "guard"),
    [
        (f'device.attributes["{NVIDIA}"].type == "gpu"', f'device.driver == "{NVIDIA}"'),
        (f'device.attributes["{NIC}"].rdma', f'has(device.attributes["{NIC}"].rdma)'),
        (
            f'device.capacity["{NVIDIA}"].memory.isGreaterThan(quantity("1Gi"))',
            f'device.driver == "{NVIDIA}"',
        ),
    ],
)
def test_a_guard_keeps_what_matches_and_lets_nothing_fail(
    mixed: Cluster, expression: str, guard: str
) -> None:
    judge = Judge(mixed)
    safe = guarded(mixed, expression)
    assert safe is not None
    assert safe.expression == f"{guard} && {expression}"
    assert safe.failing > 0
    assert not judge.of([safe.expression]).troubles
    assert judge.count(judge.of([safe.expression])) == judge.count(judge.of([expression])) > 0
    assert guarded(mixed, safe.expression) is None


def test_alternatives_are_guarded_as_a_whole(mixed: Cluster) -> None:
    text = f'device.attributes["{NVIDIA}"].type == "mig" || device.attributes["{NVIDIA}"].type == "gpu"'
    safe = guarded(mixed, text)
    assert safe is not None
    assert safe.expression == f'device.driver == "{NVIDIA}" && ({text})'


@pytest.mark.parametrize("expression", ["true", "device.", 'device.driver == "x"', "1 / 0 == 1"])
def test_what_fails_for_none_or_cannot_be_helped_has_no_guard(mixed: Cluster, expression: str) -> None:
    assert guarded(mixed, expression) is None


FIXTURES: dict[str, tuple[Json, Json]] = {
    "nvidia-whole": ({"type": {"string": "gpu"}}, {"type": {"string": "mig"}}),
    "nvidia-mig": (
        {"type": {"string": "mig"}, "profile": {"string": "1g.5gb"}},
        {"type": {"string": "mig"}, "profile": {"string": "2g.10gb"}},
    ),
    "nvidia-driver": ({"driverVersion": {"version": "580.126.9"}}, {"driverVersion": {"version": "570.1.0"}}),
    "amd-whole": ({"type": {"string": "amdgpu"}}, {"type": {"string": "amdgpu-partition"}}),
    "amd-partition": (
        {"type": {"string": "amdgpu-partition"}, "partitionProfile": {"string": "cpx_nps4"}},
        {"type": {"string": "amdgpu-partition"}, "partitionProfile": {"string": "spx_nps1"}},
    ),
    "intel-family": ({"family": {"string": "Data Center Flex"}}, {"family": {"string": "Max"}}),
    "google-generation": ({"tpuGen": {"string": "v4"}}, {"tpuGen": {"string": "v5e"}}),
    "nic-rdma": ({"dra.net/rdma": {"bool": True}}, {}),
    "nvidia-memory": ({"type": {"string": "gpu"}}, {"type": {"string": "gpu"}}),
}


def test_every_example_matches_what_it_says_and_fails_for_nothing_else(mirror: Mirror) -> None:
    sizes = {"nvidia-memory": ("80Gi", "40Gi")}
    for number, example in enumerate(class_examples.EXAMPLES):
        good, bad = FIXTURES[example.slug]
        large, small = sizes.get(example.slug, ("80Gi", "80Gi"))
        devices = [
            {"name": "good", "attributes": good, "capacity": {"memory": {"value": large}}},
            {"name": "bad", "attributes": bad, "capacity": {"memory": {"value": small}}},
        ]
        other = "gpu.example.com" if example.driver != "gpu.example.com" else NIC
        mirror.see(resource_slice("own", devices, driver=example.driver, generation=number + 1))
        mirror.see(resource_slice("foreign", [{"name": "plain"}], driver=other, generation=number + 1))
        judge = Judge(Cluster.objects.get())
        judged = judge.of(example.expressions)
        assert not judged.problem, example.slug
        assert not judged.troubles, example.slug
        found = judge.told(judge.without(judged, judge.of(["false"]))).first
        assert [device.name for device in found] == ["good"], example.slug
        mirror.see(resource_slice("own", devices, driver=example.driver), deleted=True)
