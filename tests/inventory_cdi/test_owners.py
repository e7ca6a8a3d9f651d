"""To whom spec files belong, and what a runtime's setting means."""

import pytest

from inventory.cdi import owners
from inventory.cdi.runtime import RuntimeSetting, completed, same_directory, setting_of
from tests.inventory_cdi.conftest import CLAIM, OTHER_CLAIM

pytestmark = pytest.mark.nodatabase

NVIDIA = "k8s.gpu.nvidia.com/claim"


@pytest.mark.parametrize(
    ("file_name", "kind", "devices", "uid"),
    [
        (f"k8s.gpu.nvidia.com-claim_{CLAIM}.yaml", NVIDIA, [f"{CLAIM}-gpu-0"], CLAIM),
        (f"k8s.gpu.nvidia.com-claim_{CLAIM}.yaml", "", [], CLAIM),  # illegible, yet named after a claim
        (f"k8s.gpu.nvidia.com-claim_{CLAIM}-gpu-0.json", NVIDIA, [], CLAIM),
        ("any-name.json", NVIDIA, [f"{CLAIM}-gpu-0", f"{CLAIM}-gpu-1"], CLAIM),
        ("any-name.json", NVIDIA, [f"{CLAIM}-gpu-0", f"{OTHER_CLAIM}-gpu-1"], ""),
        # Hardware has uuids for names, too.
        ("vendor.json", "vendor.com/gpu", [CLAIM], ""),
        ("k8s.gpu.nvidia.com-device_base.yaml", "k8s.gpu.nvidia.com/device", ["gpu-0"], ""),
        ("k8s.gpu.example.com-gpu_common.json", "k8s.gpu.example.com/gpu", ["common"], ""),
    ],
)
def test_claim_of_a_file(file_name: str, kind: str, devices: list[str], uid: str) -> None:
    assert owners.claim_uid_of(file_name=file_name, kind=kind, devices=devices) == uid


@pytest.mark.parametrize(
    ("kind", "driver", "speaks", "wrote"),
    [
        ("k8s.gpu.nvidia.com/device", "gpu.nvidia.com", True, True),
        ("gpu.nvidia.com/device", "gpu.nvidia.com", True, True),
        ("nvidia.com/gpu", "gpu.nvidia.com", True, False),
        ("nvidia.com/gds", "gpu.nvidia.com", False, False),
        ("k8s.gpu.amd.com/device", "gpu.nvidia.com", False, False),
        ("", "gpu.nvidia.com", False, False),
    ],
)
def test_driver_of_a_kind(kind: str, driver: str, speaks: bool, wrote: bool) -> None:
    assert owners.speaks_of(kind, driver) == speaks
    assert owners.written_by_driver(kind, driver) == wrote
    assert (driver in owners.drivers_named_by(kind)) == speaks


BOTH = ("/etc/cdi", "/var/run/cdi")
SEEN = ["/etc/containerd/config.toml"]


@pytest.mark.parametrize(
    ("runtime", "setting"),
    [
        ({"name": "containerd", "version": "1.6.30", "enable_cdi": True}, RuntimeSetting(False, BOTH)),
        ({"name": "containerd", "version": "1.7.22"}, RuntimeSetting(False, BOTH)),
        ({"name": "containerd", "version": "1.7.22", "enable_cdi": True}, RuntimeSetting(True, BOTH)),
        ({"name": "containerd", "version": "2.1.4"}, RuntimeSetting(True, BOTH)),
        ({"name": "containerd", "version": "v2.1.4", "enable_cdi": False}, RuntimeSetting(False, BOTH)),
        ({"name": "containerd", "version": ""}, RuntimeSetting(None, BOTH)),
        ({"name": "containerd", "config_version": 3}, RuntimeSetting(True, BOTH)),
        ({"name": "containerd", "config_version": 2}, RuntimeSetting(None, BOTH)),
        (
            {"name": "containerd", "version": "2.0.0", "spec_dirs": ["/x"], "sources": SEEN},
            RuntimeSetting(True, ("/x",)),
        ),
        ({"name": "cri-o", "version": "1.22.0"}, RuntimeSetting(False, BOTH)),
        ({"name": "cri-o", "version": "1.36.0"}, RuntimeSetting(True, BOTH)),
        ({"name": "cri-o"}, RuntimeSetting(None, BOTH)),
        ({"name": "", "version": "2.0.0", "enable_cdi": True}, RuntimeSetting(None, None)),
        ({}, RuntimeSetting(None, None)),
    ],
)
def test_setting_of_a_runtime(runtime: dict[str, object], setting: RuntimeSetting) -> None:
    assert setting_of({"sources": SEEN} | runtime) == setting


def test_what_an_unseen_configuration_may_say_is_not_known() -> None:
    assert setting_of({"name": "containerd", "version": "2.1.4"}) == RuntimeSetting(None, None)
    assert setting_of({"name": "containerd", "version": "1.6.0"}) == RuntimeSetting(False, None)
    assert setting_of({"name": "cri-o", "version": "1.36.0"}) == RuntimeSetting(True, None)


@pytest.mark.parametrize(
    ("reported", "told", "name", "version", "enabled"),
    [
        ({"name": "containerd", "sources": SEEN}, "containerd://2.1.4", "containerd", "2.1.4", True),
        (
            {"name": "containerd", "version": "1.7.0", "sources": SEEN},
            "containerd://2.1.4",
            "containerd",
            "1.7.0",
            False,
        ),
        (
            {"name": "containerd", "enable_cdi": False, "sources": SEEN},
            "cri-o://1.36.0",
            "cri-o",
            "1.36.0",
            True,
        ),
        ({"name": ""}, "containerd://1.6.1", "containerd", "1.6.1", False),
        ({"name": ""}, "containerd://2.1.4", "containerd", "2.1.4", None),
        ({"name": "containerd", "sources": SEEN}, "", "containerd", None, None),
        ({}, "docker://27.0.1", "docker", "27.0.1", None),
    ],
)
def test_the_kubelet_completes_what_the_collector_could_not_see(
    reported: dict[str, object], told: str, name: str, version: str | None, enabled: bool | None
) -> None:
    found = completed(reported, told)
    assert (found["name"], found.get("version")) == (name, version)
    assert setting_of(found).enabled == enabled


def test_var_run_is_run() -> None:
    assert same_directory("/var/run/cdi/", "/run//cdi")
    assert not same_directory("/etc/cdi", "/run/cdi")
