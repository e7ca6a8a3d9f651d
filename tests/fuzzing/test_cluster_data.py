"""Whatever a cluster, a node or a Prometheus sends, reading it ends in what it says or in a named refusal."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from inventory.node_reports import UnableToAccept
from inventory.podresources import reports
from inventory.telemetry import answers
from inventory.telemetry.problems import UnableToAsk
from portal.dra.model.decode import Malformed, decode_object, encode
from portal.kube import errors
from portal.kube.config import Credentials, context_names, parse_kubeconfig
from portal.kube.watch import _parse
from tests.fuzzing.garbage import MANY, SOME, TEXTS, TREES, damaged, told, trying

pytestmark = pytest.mark.nodatabase

BUDGETS = [SOME, pytest.param(MANY, marks=pytest.mark.long)]
META = {"name": "one", "namespace": "team", "uid": "u-1", "resourceVersion": "7", "creationTimestamp": None}
OBJECTS: list[dict[str, Any]] = [
    {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": META,
        "spec": {
            "driver": "gpu.example.com", "nodeName": "node-1",
            "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
            "sharedCounters": [{"name": "gpu-0", "counters": {"memory": {"value": "80Gi"}}}],
            "devices": [
                {
                    "name": "gpu-0", "allowMultipleAllocations": True,
                    "attributes": {"cores": {"int": 8}, "sw": {"version": "1.2.3"}},
                    "capacity": {"memory": {"value": "24Gi", "requestPolicy": {"default": "1Gi"}}},
                    "consumesCounters": [{"counterSet": "gpu-0", "counters": {"memory": {"value": "24Gi"}}}],
                    "taints": [{"key": "ill", "effect": "NoSchedule", "timeAdded": "2026-03-01T00:00:00Z"}],
                }
            ],
        },
    },
    {
        "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": META,
        "spec": {
            "devices": {
                "requests": [
                    {
                        "name": "gpu",
                        "exactly": {
                            "deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 2,
                            "selectors": [{"cel": {"expression": "true"}}],
                            "tolerations": [{"key": "ill", "operator": "Exists"}],
                        },
                    }
                ],
                "constraints": [{"requests": ["gpu"], "matchAttribute": "example.com/numa"}],
            }
        },
        "status": {
            "allocation": {
                "allocationTimestamp": "2026-03-01T00:00:00Z",
                "devices": {
                    "results": [{"request": "gpu", "driver": "x.org", "pool": "n", "device": "gpu-0"}]
                },
            },
            "reservedFor": [{"resource": "pods", "name": "pod", "uid": "p-1"}],
        },
    },
    {
        "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": META,
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'x'"}}], "extendedResourceName": "a"},
    },
    {
        "apiVersion": "v1", "kind": "Node", "metadata": {**META, "labels": {"zone": "a"}},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}], "unschedulable": False},
        "status": {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": ""}]},
    },
    {
        "apiVersion": "v1", "kind": "Pod", "metadata": META,
        "spec": {
            "nodeName": "node-1", "resourceClaims": [{"name": "gpu", "resourceClaimName": "claim"}],
            "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        },
        "status": {"phase": "Running", "startTime": "2026-03-01T00:00:00Z"},
    },
]  # fmt: skip
KUBECONFIG = {
    "apiVersion": "v1", "kind": "Config", "current-context": "desk",
    "clusters": [{"name": "c", "cluster": {"server": "https://cluster.example.org:6443"}}],
    "users": [{"name": "u", "user": {"token": "a-secret-of-the-test"}}],
    "contexts": [{"name": "desk", "context": {"cluster": "c", "user": "u"}}],
}  # fmt: skip
REPORT = {
    "format": 1, "cluster": "berlin", "node": "gpu-01", "sent_at": "2026-03-01T00:00:00Z",
    "interval_seconds": 300, "collector": "test",
    "pods": [
        {
            "namespace": "team", "name": "pod",
            "containers": [
                {"name": "main", "devices": [{"resource": "nvidia.com/gpu", "ids": ["GPU-1"], "numa": [0]}]}
            ],
        }
    ],
}  # fmt: skip
ANSWER = {
    "status": "success",
    "data": {
        "resultType": "vector",
        "result": [{"metric": {"uuid": "GPU-1"}, "value": [1770000000.5, "12.5"], "values": [[1, "2"]]}],
    },
}


@pytest.mark.parametrize("examples", BUDGETS)
@pytest.mark.parametrize("good", OBJECTS, ids=[str(one["kind"]) for one in OBJECTS])
def test_an_object_is_understood_or_called_malformed_with_the_field(
    good: dict[str, Any], examples: int
) -> None:
    assert decode_object(json.dumps(good).encode())

    @trying(examples)
    @given(tree=damaged(good))
    def read(tree: Any) -> None:
        try:
            decoded = decode_object(json.dumps(tree).encode())
        except Malformed as malformed:
            told(malformed, malformed.reason)
        else:
            # What was understood can be written again, and is the same then.
            assert decode_object(encode(decoded)) == decoded

    read()


@pytest.mark.parametrize("examples", BUDGETS)
def test_a_line_of_a_watch_is_an_event_or_a_named_error(examples: int) -> None:
    good = {"type": "ADDED", "object": {"kind": "Node", "metadata": {"resourceVersion": "7"}, "code": 410}}

    @trying(examples)
    @given(line=damaged(good).map(lambda tree: json.dumps(tree).encode()) | st.binary(max_size=60))
    def read(line: bytes) -> None:
        try:
            assert _parse(line)
        except errors.ClusterError as error:
            told(error.message)

    read()


@pytest.mark.parametrize("examples", BUDGETS)
def test_a_kubeconfig_is_used_or_refused_and_its_secret_never_quoted(examples: int) -> None:
    said: list[str] = []

    @trying(examples)
    @given(text=damaged(KUBECONFIG).map(yaml.safe_dump) | TEXTS | st.text(max_size=200))
    def read(text: str) -> None:
        try:
            context_names(parse_kubeconfig(text))
            Credentials.from_text(text).open().rest.close()
        except errors.ClusterError as error:
            told(error.message)
            said.append(error.message)

    read()
    assert said
    assert not [message for message in said if "a-secret-of-the-test" in message]


@pytest.mark.parametrize("examples", BUDGETS)
def test_a_nodes_report_is_taken_or_refused(examples: int) -> None:
    assert reports.sightings_of(reports.decode(json.dumps(REPORT).encode()))

    @trying(examples)
    @given(body=damaged(REPORT).map(lambda tree: json.dumps(tree).encode()) | st.binary(max_size=60))
    def read(body: bytes) -> None:
        try:
            reports.sightings_of(reports.decode(body))
        except UnableToAccept as unable:
            told(unable.message)

    read()


@pytest.mark.parametrize("examples", BUDGETS)
@pytest.mark.parametrize("kind", ["vector", "matrix", "scalar"])
def test_an_answer_of_prometheus_is_numbers_or_a_named_problem(kind: str, examples: int) -> None:
    whole = {**ANSWER, "data": {**ANSWER["data"], "resultType": kind}}  # type: ignore[dict-item] # a dict it is

    @trying(examples)
    @given(
        body=damaged(whole).map(lambda tree: json.dumps(tree).encode())
        | TREES.map(lambda t: json.dumps(t).encode())
    )
    def read(body: bytes) -> None:
        for reader in (answers.instant, lambda raw: list(answers.over_time(raw)), answers.refused):
            try:
                reader(body)
            except UnableToAsk as unable:
                told(unable)

    read()
