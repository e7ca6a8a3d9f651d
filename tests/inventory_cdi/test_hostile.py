"""Whatever a node sends, reading it ends in a reading or a reason."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.cdi import intake, words
from inventory.cdi.specs import read_spec
from tests.inventory_cdi.conftest import report, spec, spec_file

pytestmark = pytest.mark.nodatabase

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20)
NAMES = st.sampled_from(
    [
        "cdiVersion",
        "kind",
        "devices",
        "name",
        "containerEdits",
        "env",
        "deviceNodes",
        "netDevices",
        "mounts",
        "hooks",
        "additionalGids",
        "intelRdt",
        "closID",
        "path",
        "hostPath",
        "type",
        "minor",
        "permissions",
    ]
)
TREES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(NAMES | st.text(max_size=5), inner, max_size=5)
    ),
    max_leaves=30,
)


def check(text: str) -> None:
    reading = read_spec(text)
    assert reading.valid == all(problem.level != "error" for problem in reading.problems)
    for problem in reading.problems:
        assert "%(" not in words.problem(problem.as_json())
    # Every database stores it.
    problems = [problem.as_json() for problem in reading.problems]
    devices = [[device.name, dict(device.edits)] for device in reading.devices]
    stored = [reading.kind, reading.version, devices, dict(reading.edits), problems]
    raw = json.dumps(stored, ensure_ascii=False)
    assert "\\u0000" not in raw
    assert raw.encode()


@settings(deadline=None, max_examples=150)
@given(TREES)
def test_any_json(tree: Any) -> None:
    check(json.dumps(tree))


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(NAMES, TREES, max_size=5))
def test_anything_in_place_of_a_specs_fields(fields: dict[str, Any]) -> None:
    check(json.dumps(spec("gpu-0") | fields))
    check(json.dumps(spec("gpu-0") | {"devices": [{"name": "a", "containerEdits": fields}]}))


@settings(deadline=None, max_examples=100)
@given(TREES)
def test_any_yaml(tree: Any) -> None:
    check(yaml.safe_dump(tree))


@settings(deadline=None, max_examples=300)
@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    check(text)


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(st.sampled_from(sorted(json.loads(report()))), TREES, max_size=4))
def test_any_report(fields: dict[str, Any]) -> None:
    body = json.dumps(json.loads(report(spec_file("a.json", spec("gpu-0")))) | fields).encode()
    try:
        status = int(intake.decode(body).format)
    except intake.UnableToAccept as refused:
        status = refused.status
    assert status in {1, 400, 422}


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=300))
def test_any_bytes(body: bytes) -> None:
    with pytest.raises(intake.UnableToAccept):
        intake.decode(body)
