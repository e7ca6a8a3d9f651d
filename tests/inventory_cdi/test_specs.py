"""Which specs a runtime takes, and that no text can harm the portal."""

import json
from typing import Any

import pytest

from inventory.cdi.specs import MAX_PROBLEMS, Problem, clip, read_spec
from tests.inventory_cdi.conftest import spec

pytestmark = pytest.mark.nodatabase

NVIDIA_YAML = """
cdiVersion: 0.5.0
kind: nvidia.com/gpu
devices:
- name: 0
  containerEdits:
    deviceNodes:
    - path: /dev/nvidia0
      hostPath: /dev/nvidia0
      fileMode: 0660
- name: 0:1
  containerEdits:
    deviceNodes: [{path: /dev/nvidia-caps/nvidia-cap3, permissions: rw}]
- name: all
  containerEdits:
    deviceNodes: [{path: /dev/nvidia0}]
containerEdits:
  env: [NVIDIA_VISIBLE_DEVICES=void]
  hooks:
  - {hookName: createContainer, path: /usr/bin/nvidia-cdi-hook, args: [nvidia-cdi-hook, update-ldcache]}
  mounts:
  - {hostPath: /usr/lib/libcuda.so.1, containerPath: /usr/lib/libcuda.so.1, options: [ro, nosuid, bind]}
"""


def device(**edits: Any) -> dict[str, Any]:
    return spec() | {"devices": [{"name": "gpu-0", "containerEdits": edits}], "cdiVersion": "1.1.0"}


def codes(document: Any) -> list[tuple[str, str]]:
    text = document if isinstance(document, str) else json.dumps(document)
    return [(problem.code, problem.path) for problem in read_spec(text).problems]


def test_a_spec_as_the_container_toolkit_writes_it() -> None:
    reading = read_spec(NVIDIA_YAML)
    assert reading.problems == ()
    assert (reading.version, reading.vendor, reading.device_class) == ("0.5.0", "nvidia.com", "gpu")
    # Bare numbers are names, also where YAML 1.1 would see a number of base 60.
    assert [found.name for found in reading.devices] == ["0", "0:1", "all"]
    assert reading.devices[0].edits == {"device_nodes": ["/dev/nvidia0"]}
    assert reading.edits["env"] == ["NVIDIA_VISIBLE_DEVICES"]
    assert reading.edits["hooks"] == ["createContainer /usr/bin/nvidia-cdi-hook"]


def test_values_of_variables_are_not_kept() -> None:
    reading = read_spec(json.dumps(device(env=["TOKEN=geheim", "geheim"])))
    assert reading.devices[0].edits["env"] == ["TOKEN", "?"]
    assert [problem.code for problem in reading.problems] == ["env"]
    assert "geheim" not in repr(reading)


def test_json_may_be_indented_with_tabs() -> None:
    assert read_spec(json.dumps(spec("gpu-0"), indent="\t")).valid


VALID = [
    spec("gpu-0"),
    spec("0", version="0.5.0"),
    device(env=["A=1", "B="]),
    device(deviceNodes=[{"path": "/dev/a", "type": "c", "major": 1, "minor": 0, "permissions": "none"}]),
    device(netDevices=[{"hostInterfaceName": "eth1", "name": "net1"}]),
    device(additionalGids=[44, 109]),
    device(intelRdt={"closID": "gold", "schemata": ["L3:0=f"], "enableMonitoring": True}),
    device(intelRdt={"closID": "/"}),
    device(hooks=[{"hookName": "prestart", "path": "/bin/true", "timeout": 5}]),
    device(mounts=[{"hostPath": "/a", "containerPath": "/b", "type": "bind"}]),
    spec("gpu-0", annotations={"a": "b"}),
    spec("gpu-0", kind="vendor.com/class.with.dots"),
    spec("gpu-0", containerEdits=None),
]


@pytest.mark.parametrize("document", VALID, ids=range(len(VALID)))
def test_valid(document: dict[str, Any]) -> None:
    assert codes(document) == []


INVALID: list[tuple[str, Any, str, str]] = [
    ("no version", {k: v for k, v in spec("a").items() if k != "cdiVersion"}, "missing", "cdiVersion"),
    ("unknown version", spec("a", version="9.9.9"), "version", "cdiVersion"),
    ("no kind", spec("a", kind=""), "missing", "kind"),
    ("kind without class", spec("a", kind="vendor.com"), "kind", "kind"),
    ("kind with two slashes", spec("a", kind="vendor.com/a/b"), "kind", "kind"),
    ("vendor that starts with a digit", spec("a", kind="3com.com/nic"), "kind", "kind"),
    ("class with dots too early", spec("a", kind="a.com/b.c", version="0.5.0"), "needs-version", "kind"),
    ("no devices", spec(), "no-devices", "devices"),
    ("devices of another type", spec("a") | {"devices": "gpu-0"}, "type", "devices"),
    (
        "device without edits",
        spec("a") | {"devices": [{"name": "a"}]},
        "missing",
        "devices[0].containerEdits",
    ),
    ("device that changes nothing", device(env=[]), "empty-edits", "devices[0].containerEdits"),
    ("device name", spec("gpu 0"), "device-name", "devices[0].name"),
    ("device name that ends with a dash", spec("gpu-"), "device-name", "devices[0].name"),
    ("device twice", spec("a", "a"), "device-twice", "devices[1].name"),
    ("digit too early", spec("0", version="0.4.0"), "needs-version", "devices[0].name"),
    ("variable without name", device(env=["=x"]), "env", "devices[0].containerEdits.env[0]"),
    (
        "node without path",
        device(deviceNodes=[{"hostPath": "/dev/a"}]),
        "missing",
        "devices[0].containerEdits.deviceNodes[0].path",
    ),
    (
        "node type",
        device(deviceNodes=[{"path": "/dev/a", "type": "x"}]),
        "node-type",
        "devices[0].containerEdits.deviceNodes[0].type",
    ),
    (
        "negative number",
        device(deviceNodes=[{"path": "/dev/a", "minor": -1}]),
        "negative",
        "devices[0].containerEdits.deviceNodes[0].minor",
    ),
    (
        "permissions",
        device(deviceNodes=[{"path": "/dev/a", "permissions": "rwx"}]),
        "permissions",
        "devices[0].containerEdits.deviceNodes[0].permissions",
    ),
    (
        "hook name",
        device(hooks=[{"hookName": "onStart", "path": "/a"}]),
        "hook-name",
        "devices[0].containerEdits.hooks[0].hookName",
    ),
    (
        "mount without target",
        device(mounts=[{"hostPath": "/a"}]),
        "missing",
        "devices[0].containerEdits.mounts[0].containerPath",
    ),
    ("group ids", device(additionalGids=[-1]), "type", "devices[0].containerEdits.additionalGids"),
    ("resctrl", device(intelRdt={"closID": "../x"}), "clos", "devices[0].containerEdits.intelRdt.closID"),
    (
        "field that went away",
        device(intelRdt={"closID": "a", "enableCMT": True}),
        "field-removed",
        "devices[0].containerEdits.intelRdt.enableCMT",
    ),
    (
        "network devices too early",
        spec("a", version="1.0.0", containerEdits={"netDevices": [{"hostInterfaceName": "e", "name": "n"}]}),
        "needs-version",
        "containerEdits.netDevices",
    ),
    (
        "network device twice",
        device(netDevices=[{"hostInterfaceName": "e", "name": n} for n in "ab"]),
        "net-device-twice",
        "devices[0].containerEdits.netDevices",
    ),
    (
        "annotations too early",
        spec("a", version="0.5.0", annotations={"a": "b"}),
        "needs-version",
        "annotations",
    ),
    ("no object", "[1, 2]", "not-an-object", ""),
    ("empty", "", "not-an-object", ""),
    ("two documents", "a: 1\n---\nb: 2\n", "syntax", ""),
    ("broken", "{a: [", "syntax", ""),
]


@pytest.mark.parametrize(
    ("document", "code", "path"), [row[1:] for row in INVALID], ids=[r[0] for r in INVALID]
)
def test_invalid(document: Any, code: str, path: str) -> None:
    assert (code, path) in codes(document)
    text = document if isinstance(document, str) else json.dumps(document)
    assert not read_spec(text).valid


def test_an_unknown_field_is_a_warning_with_its_path() -> None:
    reading = read_spec(json.dumps(spec("a", containerRuntime=["docker"])))
    assert reading.problems == (Problem("unknown-field", "containerRuntime", "warning"),)
    assert reading.valid


HOSTILE: list[tuple[str, str, str]] = [
    ("billion laughs", "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]\n", "alias"),
    ("alias to itself", "&a [*a]", "alias"),
    ("deep JSON", '{"a":' * 50_000, "too-deep"),
    ("deep closed JSON", '{"a":' * 20 + "1" + "}" * 20, "too-deep"),
    ("deep YAML", "- " * 500 + "x", "too-deep"),
    ("deeper YAML", "[" * 100_000, "syntax"),
    ("many values", "[" + "1," * 120_000 + "1]", "too-many-values"),
    ("many values in JSON", '{"a": [' + "1," * 120_000 + "1]}", "too-many-values"),
    ("endless number", "a: " + "9" * 10_000, "number"),
    ("endless number in JSON", '{"a": ' + "9" * 10_000 + "}", "number"),
    ("not a number", '{"a": NaN}', "number"),
    ("Python object", "!!python/object/apply:os.system ['true']", "syntax"),
    ("key that is no text", "? [a]\n: b\n", "key"),
    ("member twice", '{"kind": "a/b", "kind": "c/d"}', "duplicate-key"),
    ("member twice in YAML", "kind: a/b\nkind: c/d\n", "duplicate-key"),
    ("NUL", "a: \x00", "syntax"),
]


@pytest.mark.parametrize(("text", "code"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
def test_hostile_text_is_refused_with_a_reason(text: str, code: str) -> None:
    assert [problem.code for problem in read_spec(text).problems] == [code]


def test_what_databases_refuse_is_replaced() -> None:
    reading = read_spec('{"cdiVersion": "0.6.0", "kind": "a\\u0000b/\\ud800", "devices": []}')
    assert "\x00" not in reading.kind
    reading.kind.encode()
    assert clip(16**20_000) == "…"
    twice = read_spec('{"a\\u0000\\udc00": 1, "a\\u0000\\udc00": 2}').problems[0]
    assert "\x00" not in str(twice.params["name"])
    str(twice.params["name"]).encode()
    assert "\x00" not in repr(read_spec("a: !%00%00 b").problems[0].params).replace("\\x00", "\x00")


def test_a_long_list_of_problems_is_cut() -> None:
    reading = read_spec(json.dumps(spec("a") | {f"x{i}": 1 for i in range(500)}))
    assert len(reading.problems) == MAX_PROBLEMS + 1
    assert reading.problems[-1].params == {"count": 500 - MAX_PROBLEMS}
