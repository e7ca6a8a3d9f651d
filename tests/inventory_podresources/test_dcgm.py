"""Labels as the exporter and Prometheus write them, and as nobody should."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.podresources.dcgm import assignments_from_labels
from inventory.podresources.sightings import hardware_id_of, replica_of

pytestmark = pytest.mark.nodatabase
GPU = "GPU-8a10b6f7-6e0c-4b53-9d3a-0d1f6f7f8a11"
BASE = {
    "__name__": "DCGM_FI_DEV_GPU_UTIL",
    "UUID": GPU,
    "Hostname": "gpu-01",
    "gpu": "0",
    "device": "nvidia0",
}


def test_a_gpu_in_use_and_an_idle_one() -> None:
    used = BASE | {"namespace": "team", "pod": "train-0", "container": "main"}
    idle = {"UUID": "GPU-idle", "Hostname": "gpu-02"}
    told = assignments_from_labels([used, idle])
    (one,) = told["gpu-01"]
    assert (one.namespace, one.pod, one.container, one.device_id) == ("team", "train-0", "main", GPU)
    assert told["gpu-02"] == []


def test_the_labels_of_the_scraped_target_are_not_taken_for_the_pods() -> None:
    told = assignments_from_labels(
        [
            BASE
            | {"namespace": "gpu-operator", "pod": "dcgm-exporter-x", "container": "exporter"}
            | {"exported_namespace": "team", "exported_pod": "train-0", "exported_container": "main"}
        ]
    )
    assert [one.pod for one in told["gpu-01"]] == ["train-0"]
    assert told["gpu-01"][0].namespace == "team"


def test_a_mig_instance_is_a_part_of_its_gpu() -> None:
    mig = BASE | {"namespace": "t", "pod": "a", "container": "c", "GPU_I_ID": "7", "GPU_I_PROFILE": "1g.5gb"}
    (one,) = assignments_from_labels([mig])["gpu-01"]
    assert (one.device_id, one.part) == (GPU, "MIG 1g.5gb #7")


def test_which_label_names_the_node() -> None:
    both = BASE | {"Hostname": "dcgm-exporter-x", "node": "gpu-07", "rack": "r1"}
    assert list(assignments_from_labels([both])) == ["gpu-07"]
    assert list(assignments_from_labels([both], node_label="rack")) == ["r1"]
    assert assignments_from_labels([both], node_label="absent") == {}


@settings(deadline=None, max_examples=150)
@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(
                [
                    "UUID",
                    "Hostname",
                    "node",
                    "pod",
                    "namespace",
                    "container",
                    "exported_pod",
                    "GPU_I_ID",
                    "pod_uid",
                ]
            ),
            st.text(max_size=8) | st.sampled_from([GPU, "gpu-01", "team", "\x00", "\ud800", "7"]),
        ),
        max_size=6,
    )
)
def test_any_labels_give_what_can_be_kept(series: list[dict[str, str]]) -> None:
    for node, found in assignments_from_labels(series).items():
        assert node.isascii()
        assert len({one.key for one in found}) == len(found)
        for one in found:
            assert "".join(one.key).isascii()
            assert "\x00" not in "".join(one.key)


@pytest.mark.parametrize(
    ("device_id", "hardware_id", "replica"),
    [
        (GPU, GPU, ""),
        (f"{GPU}::3", GPU, "3"),
        ("MIG-1a2b", "MIG-1a2b", ""),
        ("0000:0B:00.0", "gpu-01/0000:0b:00.0", ""),
        ("card0-1", "gpu-01/card0-1", ""),
    ],
)
def test_what_names_the_piece(device_id: str, hardware_id: str, replica: str) -> None:
    assert hardware_id_of(device_id, node="gpu-01") == hardware_id
    assert replica_of(device_id) == replica
