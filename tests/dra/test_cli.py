"""The command line: JSON answers, exit statuses, files of every shape, and a batch that nothing stops."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from portal.dra.cli import main
from portal.dra.model import encode
from tests.dra.builders import ask, claim, device, device_class, devices, holding, node, slice_of

OBJECTS = [
    encode(item)
    for item in (
        slice_of(*devices("a", "b")),
        slice_of(*devices("c", "d", "e"), node="node-2", pool="pool-2", name="slice-2"),
        device_class(),
        claim(ask(), name="one"),
        claim(ask(count=3), name="three"),
        claim(ask(count=9), name="nine"),
        claim(ask(cls="missing"), name="wrong"),
        holding("pool-2/e"),
    )
]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "all.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": OBJECTS}))
    return tmp_path / "all.json"


def run(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    status = main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def batch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *lines: Any
) -> list[dict[str, Any]]:
    text = b"".join(
        (line if isinstance(line, bytes) else json.dumps(line).encode()) + b"\n" for line in lines
    )
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    status, out, _ = run(capsys, "allocate", "--batch")
    assert status == 0
    return [json.loads(line) for line in out.splitlines()]


def test_an_allocation_is_printed_as_it_would_stand_in_the_status(
    capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    status, out, _ = run(capsys, "allocate", "-f", files, "--claim", "team/one")
    assert status == 0
    assert json.loads(out) == {
        "outcome": "allocated",
        "node": "node-1",
        "claims": [
            {
                "name": "team/one",
                "allocation": {
                    "devices": {
                        "results": [
                            {"request": "r", "driver": "gpu.example.com", "pool": "pool-1", "device": "a"}
                        ]
                    },
                    "nodeSelector": {
                        "nodeSelectorTerms": [
                            {
                                "matchFields": [
                                    {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
                                ]
                            }
                        ]
                    },
                },
            }
        ],
    }


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (["--claim", "one"], 0, {"outcome": "allocated", "node": "node-1"}),
        (["--claim", "one", "--node", "node-2"], 0, {"outcome": "allocated", "node": "node-2"}),
        (["--claim", "one", "--claim", "team/one"], 2, {"scope": "claim", "code": "input"}),
        (["--claim", "three"], 3, {"outcome": "unschedulable"}),
        (["--claim", "nine", "--node", "node-1"], 3, {"outcome": "unschedulable"}),
        (["--claim", "wrong"], 2, {"outcome": "error", "scope": "claim"}),
        (["--claim", "nobody"], 2, {"outcome": "error", "scope": "claim", "code": "input"}),
    ],
)
def test_outcome_and_exit_status_go_together(
    capsys: pytest.CaptureFixture[str],
    files: Path,
    arguments: list[str],
    status: int,
    expected: dict[str, Any],
) -> None:
    found, out, _ = run(capsys, "allocate", "-f", files, *arguments)
    answer = json.loads(out)
    assert found == status
    assert {key: answer[key] for key in expected} == expected


def test_an_unschedulable_claim_gives_its_reasons(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    _, out, _ = run(capsys, "allocate", "-f", files, "--claim", "three")
    assert json.loads(out)["reasons"] == [
        "none of 2 nodes fits",
        "cannot allocate all claims on node node-1",
        "cannot allocate all claims on node node-2",
        "r: no node has 3 matching devices; the best is node-1 with 2",
    ]


def test_an_error_of_the_node_is_told_apart(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    objects = [encode(slice_of(device("a"), device("a"))), encode(device_class()), encode(claim(ask()))]
    (tmp_path / "x.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
    status, out, _ = run(
        capsys, "allocate", "-f", tmp_path / "x.json", "--claim", "claim", "--node", "node-1"
    )
    assert (status, json.loads(out)["scope"]) == (2, "node")


def test_the_first_node_that_takes_pods_is_chosen(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, files: Path
) -> None:
    nodes = [encode(node("node-1", spec={"unschedulable": True})), encode(node("node-2"))]
    (tmp_path / "nodes.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": nodes}))
    _, out, _ = run(capsys, "allocate", "-f", files, "-f", tmp_path / "nodes.json", "--claim", "one")
    assert json.loads(out)["node"] == "node-2"


YAML = """
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu, creationTimestamp: 2025-01-01T00:00:00Z}
spec: {}
---
# nothing here
---
apiVersion: resource.k8s.io/v1beta1
kind: ResourceClaim
metadata: {name: mine, namespace: team}
spec: {devices: {requests: [{name: r, deviceClassName: gpu}]}}
---
apiVersion: v1
kind: List
items:
- apiVersion: resource.k8s.io/v1beta1
  kind: ResourceSlice
  metadata: {name: s}
  spec:
    driver: gpu.example.com
    nodeName: node-1
    pool: {name: pool-1, generation: 1, resourceSliceCount: 1}
    devices: [{name: a, basic: {capacity: {memory: {value: 40Gi}, cores: {value: 8}}}}]
- {apiVersion: v1, kind: ConfigMap, metadata: {name: passed-over}}
"""


def test_yaml_with_several_documents_lists_and_old_versions(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "x.yaml").write_text(YAML)
    status, out, err = run(capsys, "allocate", "-f", tmp_path / "x.yaml", "--claim", "mine")
    assert (status, err) == (0, "")
    assert json.loads(out)["claims"][0]["allocation"]["devices"]["results"][0]["device"] == "a"


def test_standard_input_is_a_file_too(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(YAML))
    assert run(capsys, "allocate", "-f", "-", "--claim", "mine")[0] == 0


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("a: [", "x.yaml"),
        ("\x00", "x.yaml"),
        ("{bad json", "x.yaml"),
        (None, "No such file"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str | None, words: str
) -> None:
    if content is not None:
        (tmp_path / "x.yaml").write_text(content)
    status, out, err = run(capsys, "allocate", "-f", tmp_path / "x.yaml", "--claim", "c")
    assert (status, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_a_malformed_object_is_named_and_the_rest_is_used(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "x.yaml").write_text(
        YAML
        + "---\n{apiVersion: resource.k8s.io/v1, kind: ResourceSlice, metadata: {name: bad}, "
        + "spec: {driver: 1}}\n---\n7\n"
    )
    status, out, err = run(capsys, "allocate", "-f", tmp_path / "x.yaml", "--claim", "mine")
    assert status == 0
    assert "ResourceSlice" in err
    assert "bad: spec" in err
    assert any("expected an object, got int" in item for item in json.loads(out)["malformed"])


@pytest.mark.parametrize(
    "arguments",
    [
        ["allocate"],
        ["allocate", "--claim", "c"],
        ["explain", "-f", "x"],
        ["allocate", "-f", "x", "--claim", "c", "--features", "Nope"],
        ["allocate", "-f", "x", "--claim", "c", "--kubernetes", "new"],
        ["match", "-e", "true"],
    ],
)
def test_wrong_use_is_an_error_with_a_way_out(
    capsys: pytest.CaptureFixture[str], arguments: list[str], files: Path
) -> None:
    status, out, err = run(capsys, *(str(files) if item == "x" else item for item in arguments))
    assert (status, out) == (2, "")
    assert err.startswith("error: ")


def test_match_prints_a_line_per_device(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    found = slice_of(device("a", attrs={"n": 1}), device("b", attrs={"n": 2}), device("c"))
    (tmp_path / "x.json").write_text(json.dumps(encode(found)))
    status, out, _ = run(
        capsys,
        "match",
        "-f",
        tmp_path / "x.json",
        "--expression",
        "device.attributes['gpu.example.com'].n == 1",
    )
    lines = [line.split("\t") for line in out.splitlines()]
    assert status == 0
    assert lines[0] == ["gpu.example.com/pool-1/a", "match"]
    assert lines[1] == ["gpu.example.com/pool-1/b", "no match"]
    assert lines[2][1].startswith("error: ")


def test_an_expression_that_does_not_compile_says_where(
    capsys: pytest.CaptureFixture[str], files: Path
) -> None:
    status, out, err = run(capsys, "match", "-f", files, "-e", "1 +")
    assert (status, out) == (2, "")
    assert "line 1" in err


def test_explain_is_for_people(capsys: pytest.CaptureFixture[str], files: Path) -> None:
    status, out, _ = run(capsys, "explain", "-f", files, "--claim", "one", "--claim", "nine")
    assert status == 3
    assert "claim team/one: fits on node-1" in out
    assert "nearest: r: no node has 9 matching devices" in out


def test_gates_of_a_version_or_by_name_apply(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    objects = [encode(item) for item in (slice_of(device("a")), device_class(), claim(ask(adminAccess=True)))]
    (tmp_path / "x.json").write_text(json.dumps({"kind": "List", "apiVersion": "v1", "items": objects}))
    common: list[str | Path] = ["allocate", "-f", tmp_path / "x.json", "--claim", "claim"]
    assert run(capsys, *common, "--kubernetes", "1.34")[0] == 0
    assert run(capsys, *common, "--features", "DRAAdminAccess")[0] == 0
    assert run(capsys, *common, "--features", "DRAPrioritizedList")[0] == 2


def test_a_batch_answers_line_by_line_whatever_the_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {"objects": OBJECTS, "claims": ["team/one"], "node": "node-1", "kubernetes": "1.36"}
    answers = batch(
        monkeypatch,
        capsys,
        good,
        b"nonsense",
        b"[]",
        {"claims": 1},
        {"objects": OBJECTS, "claims": ["nobody"]},
        {**good, "features": ["Nope"]},
        b"\xff\xfe",
        b"",
        b"[" * 5000,
        {**good, "objects": [{"kind": "ResourceSlice", "apiVersion": "resource.k8s.io/v1"}, *OBJECTS]},
        {**good, "node": {"metadata": {"name": "node-2"}}},
        {**good, "node": {"metadata": 1}},
        {**good, "node": ""},
        {**good, "claims": ["wrong"]},
        good,
    )
    assert [answer["outcome"] for answer in answers] == [
        "allocated", "error", "error", "error", "error", "error", "error", "error",
        "allocated", "allocated", "error", "allocated", "error", "allocated",
    ]  # fmt: skip
    assert answers[0] == answers[-1]
    assert len(answers[8]["malformed"]) == 1
    assert answers[9]["node"] == "node-2"


def test_a_batch_scenario_without_a_node_takes_the_first_that_fits(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (answer,) = batch(monkeypatch, capsys, {"objects": OBJECTS, "claims": ["team/one"], "features": []})
    assert (answer["outcome"], answer["node"]) == ("allocated", "node-1")


@pytest.mark.parametrize(
    ("choice", "outcome"),
    [
        ({"features": ["DRAAdminAccess"]}, "allocated"),
        ({"features": {"DRAAdminAccess": True, "DRADeviceTaints": False}}, "allocated"),
        ({"features": {"DRAAdminAccess": False}}, "error"),
        ({"features": [], "kubernetes": "1.36"}, "error"),
        ({"kubernetes": "1.36"}, "allocated"),
        ({}, "allocated"),
        ({"features": None, "kubernetes": None}, "allocated"),
    ],
)
def test_a_scenario_says_which_gates_are_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], choice: Any, outcome: str
) -> None:
    objects = [encode(item) for item in (slice_of(device("a")), device_class(), claim(ask(adminAccess=True)))]
    (answer,) = batch(monkeypatch, capsys, {"objects": objects, "claims": ["claim"], **choice})
    assert answer["outcome"] == outcome


def test_a_scenario_without_gates_has_those_of_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = [encode(item) for item in (slice_of(device("a")), device_class(), claim(ask(adminAccess=True)))]
    lines = [
        {"objects": objects, "claims": ["claim"]},
        {"objects": objects, "claims": ["claim"], "kubernetes": "1.36"},
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
    _, out, _ = run(capsys, "allocate", "--batch", "--features", "DRAPrioritizedList")
    assert [json.loads(line)["outcome"] for line in out.splitlines()] == ["error", "allocated"]


def test_a_claim_without_a_namespace_is_in_the_default_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    objects = [encode(item) for item in (slice_of(device("a")), device_class(), claim(ask(), namespace=""))]
    (answer,) = batch(monkeypatch, capsys, {"objects": objects, "claims": ["default/claim"]})
    assert answer["claims"][0]["name"] == "default/claim"


def test_unexpected_trouble_with_one_scenario_does_not_end_the_batch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("portal.dra.cli.commands.answer_line", lambda _, **__: 1 / 0)
    (first, second) = batch(monkeypatch, capsys, {}, {})
    assert (
        first
        == second
        == {
            "outcome": "error",
            "scope": "claim",
            "error": "ZeroDivisionError: division by zero",
            "code": "input",
        }
    )


def test_the_module_runs_by_itself_and_stands_a_closed_pipe(files: Path) -> None:
    command = [sys.executable, "-m", "portal.dra", "allocate", "-f", str(files), "--claim", "one"]
    found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    assert (found.returncode, found.stderr) == (0, "")
    assert json.loads(found.stdout)["outcome"] == "allocated"


def test_device_semantics_load_neither_django_nor_celery_nor_the_cluster_client() -> None:
    code = (
        "import sys, importlib, pkgutil, portal.dra\n"
        "for found in pkgutil.walk_packages(portal.dra.__path__, 'portal.dra.'):\n"
        "    if not found.name.endswith('__main__'): importlib.import_module(found.name)\n"
        "loaded = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(loaded & {'django', 'celery', 'kubernetes', 'rest_framework'}))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert found.stdout.strip() == "[]"
