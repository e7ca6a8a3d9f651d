"""Classes as YAML: what is written is read again, and every mistake has its line."""

import pytest

from inventory import class_text
from inventory.class_text import UnreadableText, read_all, read_one, written
from inventory.classes import Wanted

WANTED = Wanted(
    expressions=['device.driver == "gpu.nvidia.com"', "true ||\n  false"],
    extended_resource_name="example.com/gpu",
    config=[{"opaque": {"driver": "gpu.nvidia.com", "parameters": {"kind": "GpuConfig", "n": 1}}}],
    labels={"example.org/team": "physics"},
    annotations={"example.org/note": "a: b"},
)
HEAD = "apiVersion: resource.k8s.io/v1\nkind: DeviceClass\nmetadata:\n  name: big\n"


def test_what_is_written_is_read_again() -> None:
    found = read_one(written("big", WANTED))
    assert (found.name, found.wanted, found.notes) == ("big", WANTED, ())


def test_older_versions_are_read_with_a_note_of_what_changed() -> None:
    text = (
        "apiVersion: resource.k8s.io/v1beta1\nkind: DeviceClass\n"
        "metadata:\n  name: big\n  uid: x\n  annotations:\n"
        "    kubectl.kubernetes.io/last-applied-configuration: '{}'\n"
        "spec:\n  selectors:\n  - cel:\n      expression: 'true'\n  suitableNodes: {}\n"
    )
    found = read_one(text)
    assert found.wanted == Wanted(expressions=["true"], labels={}, annotations={})
    assert [note.split(" ")[0] for note in found.notes] == [
        "resource.k8s.io/v1beta1",
        "metadata.uid",
        "spec.suitableNodes",
        "kubectl.kubernetes.io/last-applied-configuration",
    ]


def test_several_documents_and_lists_are_read_in_order() -> None:
    item = "- apiVersion: resource.k8s.io/v1\n  kind: DeviceClass\n  metadata: {name: c}\n"
    found = read_all(
        f"{HEAD}---\n\n{HEAD.replace('big', 'b')}---\nkind: List\napiVersion: v1\nitems:\n{item}"
    )
    assert [(one.name, one.line) for one in found] == [("big", 1), ("b", 7), ("c", 15)]
    with pytest.raises(UnreadableText, match="several documents") as wrong:
        read_one(f"{HEAD}---\n{HEAD}")
    assert wrong.value.line == 6


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("", 1, "no class"),
        ("just text", 1, "not an object"),
        ("\n\n[1, 2", 3, "not YAML"),
        ("kind: Pod\napiVersion: v1\n", 1, "not a DeviceClass"),
        (HEAD.replace("/v1\n", "/v2\n"), 1, "apiVersion is not"),
        (HEAD.replace("  name: big", "  nome: big"), 3, "metadata.name is missing"),
        (HEAD + "spec:\n  selektors: []\n", 6, "no field “spec.selektors”"),
        (HEAD + "spec:\n  selectors:\n  - cel:\n      expression: 3\n", 8, "selectors"),
        (HEAD + "spec:\n  config: 7\n", 6, "config"),
        (HEAD + "  labels:\n    a: 1\n", 6, "not a text"),
        (HEAD + "  name: other\n", 5, "given twice"),
        (HEAD + "spec: &a {}\nstatus: *a\n", 6, "aliases"),
        (HEAD + "spec:\n\tselectors: []\n", 6, "not YAML"),
        ("[" * 200, 0, "nested too deeply"),
        (HEAD + "spec: {config: [{opaque: {parameters: .nan}}]}\n", 0, "JSON cannot say"),
        (HEAD + "spec: 2024-01-01\n", 0, "JSON cannot say"),
        (HEAD + "# \x00\n", 0, "control character"),
        ("x" * (class_text.MAX_TEXT + 1), 0, "too long"),
    ],
)
def test_every_mistake_is_said_with_its_line(text: str, line: int, message: str) -> None:
    with pytest.raises(UnreadableText, match=message) as wrong:
        read_one(text)
    assert wrong.value.line == line
    assert (f"Line {line}," in wrong.value.told) == bool(line)
