"""A report is kept whole or not at all, and only the newest of its own node."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from inventory.cdi.facts import judge_nodes
from inventory.cdi.intake import MAX_REPORT_BYTES, MAX_SKEW, MIN_GAP, UnableToAccept, accept
from inventory.models import CdiNode, CdiSpecFile, CdiToken, Cluster
from tests.inventory_cdi.conftest import CLAIM, Issue, fresh, report, spec, spec_file
from tests.inventory_pages.factories import make_device

NOW = timezone.now()
LATER = NOW + timedelta(seconds=30)


def refused(token: CdiToken, body: bytes, **fields: Any) -> UnableToAccept:
    with pytest.raises(UnableToAccept) as caught:
        accept(token=token, body=body, **({"now": NOW} | fields))
    return caught.value


def test_a_report_is_read_and_kept(token: CdiToken) -> None:
    files = [spec_file("base.yaml", spec("gpu-0", "all")), spec_file("broken.json", "{")]
    accepted = accept(token=token, body=report(*files, sent_at=NOW), now=NOW + timedelta(seconds=2))
    node = fresh(token)
    assert accepted.changed
    assert (node.sent_at, node.received_at, node.clock_skew_ms) == (NOW, NOW + timedelta(seconds=2), -2000)
    assert node.writers == {"device.k8s.gpu.nvidia.com": ["base"], "gpu.nvidia.com": ["base"]}
    base, broken = node.files.order_by("name")
    assert (base.kind, base.valid, [d["name"] for d in base.devices]) == (
        "k8s.gpu.nvidia.com/device", True, ["gpu-0", "all"],
    )  # fmt: skip
    assert (broken.valid, [p["code"] for p in broken.problems]) == (False, ["syntax"])


def test_the_next_report_replaces_the_first(token: CdiToken) -> None:
    accept(token=token, body=report(spec_file("a.json", spec("gpu-0")), sent_at=NOW), now=NOW)
    accept(token=token, body=report(spec_file("b.json", spec("gpu-0")), sent_at=LATER), now=LATER)
    assert list(fresh(token).files.values_list("name", flat=True)) == ["b.json"]


def test_an_unchanged_report_writes_no_files(token: CdiToken) -> None:
    file = spec_file("a.json", spec("gpu-0"))
    accept(token=token, body=report(file, sent_at=NOW), now=NOW)
    before = set(CdiSpecFile.objects.values_list("pk", flat=True))
    accepted = accept(token=token, body=report(file, sent_at=LATER), now=LATER)
    node = fresh(token)
    assert not accepted.changed
    assert (node.received_at, node.changed_at) == (LATER, NOW)
    assert set(CdiSpecFile.objects.values_list("pk", flat=True)) == before


def test_a_driver_that_once_wrote_claim_specs_stays_known(token: CdiToken) -> None:
    name = f"k8s.gpu.nvidia.com-claim_{CLAIM}.yaml"
    file = spec_file(name, spec(f"{CLAIM}-gpu-0", kind="k8s.gpu.nvidia.com/claim"))
    accept(token=token, body=report(file, sent_at=NOW), now=NOW)
    assert fresh(token).files.get().claim_uid == CLAIM
    accept(token=token, body=report(sent_at=LATER), now=LATER)
    assert fresh(token).writers["gpu.nvidia.com"] == ["claim"]


# --- order and time ----------------------------------------------------------------------------------


def test_an_older_report_never_replaces_a_newer_one(token: CdiToken) -> None:
    accept(token=token, body=report(spec_file("new.json", spec("a")), sent_at=LATER), now=LATER)
    error = refused(token, report(spec_file("old.json", spec("a")), sent_at=NOW), now=LATER + MIN_GAP)
    assert (error.code, error.status) == ("older_report", 409)
    assert fresh(token).files.get().name == "new.json"


def test_the_same_report_again_is_the_same(token: CdiToken) -> None:
    body = report(spec_file("a.json", spec("a")), sent_at=NOW)
    accept(token=token, body=body, now=NOW)
    token = CdiToken.objects.get(pk=token.pk)
    again = accept(token=token, body=body, now=LATER)
    assert not again.changed
    # A report sent again is no sign of life.
    assert fresh(token).received_at == NOW


def test_another_report_of_the_same_moment_is_refused(token: CdiToken) -> None:
    accept(token=token, body=report(sent_at=NOW), now=NOW)
    assert (
        refused(token, report(spec_file("a.json", spec("a")), sent_at=NOW), now=LATER).code == "older_report"
    )


@pytest.mark.parametrize(
    ("skew", "code"),
    [
        (MAX_SKEW + timedelta(seconds=1), "clock_ahead"),
        (-MAX_SKEW - timedelta(seconds=1), "clock_behind"),
        (timedelta(days=4000), "clock_ahead"),
    ],
)
def test_a_clock_that_is_minutes_off_is_told(token: CdiToken, skew: timedelta, code: str) -> None:
    assert refused(token, report(sent_at=NOW + skew)).code == code
    node = fresh(token)
    assert (node.received_at, node.refusal, node.refused_at) == (None, code, NOW)


@pytest.mark.parametrize("skew", [MAX_SKEW, -MAX_SKEW])
def test_a_clock_that_is_a_little_off_is_noted(token: CdiToken, skew: timedelta) -> None:
    accept(token=token, body=report(sent_at=NOW + skew), now=NOW)
    assert fresh(token).clock_skew_ms == skew / timedelta(milliseconds=1)


def test_a_clock_that_was_put_right_blocks_nothing_for_long(token: CdiToken) -> None:
    accept(token=token, body=report(sent_at=NOW + MAX_SKEW), now=NOW)
    soon = NOW + MAX_SKEW + timedelta(seconds=1)
    assert accept(token=token, body=report(sent_at=soon), now=soon)


def test_a_refusal_is_forgotten_with_the_next_report(token: CdiToken) -> None:
    refused(token, b"{}")
    assert fresh(token).refusal == "malformed"
    accept(token=token, body=report(sent_at=NOW), now=NOW)
    assert (fresh(token).refusal, fresh(token).refused_at) == ("", None)


def test_a_node_that_reports_without_pause_is_slowed_down(token: CdiToken) -> None:
    accept(token=token, body=report(sent_at=NOW), now=NOW)
    token = CdiToken.objects.select_related("node__cluster").get(pk=token.pk)
    error = refused(token, report(sent_at=NOW + MIN_GAP / 2), now=NOW + MIN_GAP / 2)
    assert (error.code, error.status, error.wait) == ("too_often", 429, 1.0)


# --- whose, and what ---------------------------------------------------------------------------------


@pytest.mark.parametrize("other", [{"node": "gpu-02"}, {"cluster": "paris"}, {"node": "GPU-01"}])
def test_a_token_writes_its_own_nodes_report_only(
    token: CdiToken, issue: Issue, other: dict[str, str]
) -> None:
    issue("gpu-02")
    error = refused(token, report(sent_at=NOW, **other))
    assert (error.code, error.status) == ("wrong_node", 403)
    assert not CdiNode.objects.exclude(received_at=None).exists()


MALFORMED = {
    "nothing": b"",
    "no JSON": b"\xff\xfe\x00",
    "no object": b"[]",
    "deep": b'{"a":' * 200_000,
    "deep in an unknown member": report()[:-1] + b',"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "another format": report(format=2),
    "no files": json.dumps({"format": 1}).encode(),
    "path that is not absolute": report(spec_file("a.json", "", directory="etc")),
    "name with a slash": report(spec_file("../a.json", "")),
    "name with NUL": report(spec_file("a\0.json", "")),
    "mode beyond octal 7777": report(spec_file("a.json", "", mode=0o100644)),
    "negative size": report(spec_file("a.json", "", size=-1)),
    "time without zone": report(spec_file("a.json", "", modified_at="2026-03-10T12:00:00")),
    "file of the year 1": report(spec_file("a.json", "", modified_at="0001-01-01T00:00:00+12:00")),
    "file of the year 9999": report(spec_file("a.json", "", modified_at="9999-12-31T23:59:59-12:00")),
    "interval of no length": report(interval_seconds=0),
    "file twice": report(spec_file("a.json", ""), spec_file("a.json", "")),
    "half a character": report().replace(b'"test"', b'"\\ud800"'),
    "too many directories": report(directories=[{"path": "/x", "state": "read"}] * 21),
    "unknown runtime": report(runtime={"name": "docker"}),
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_report_is_refused_with_a_reason(token: CdiToken, body: bytes) -> None:
    error = refused(token, body)
    assert (error.code, error.status) == ("malformed", 400)
    assert len(error.message) < 400
    assert fresh(token).received_at is None


def test_a_report_beyond_the_limit_is_refused(token: CdiToken) -> None:
    error = refused(token, report(spec_file("a.json", "x" * MAX_REPORT_BYTES)))
    assert (error.code, error.status) == ("too_large", 413)


def test_a_text_has_to_fit_its_checksum(token: CdiToken) -> None:
    assert refused(token, report(spec_file("a.json", "{}", sha256="0" * 64), sent_at=NOW)).code == "checksum"


def test_hostile_specs_leave_problems_and_nothing_else(token: CdiToken) -> None:
    texts = {
        "bomb.yaml": "a: &a [x]\nb: [*a]\n",
        "deep.json": '{"a":' * 10_000,
        "names.json": json.dumps(spec("a\x00b", kind="\ud800/\x00")),
        "long.json": json.dumps(spec("a" * 5_000, kind="v" * 5_000 + "/c")),
        "\u202egnp.json": "{}",
    }
    files = [spec_file(name, text) for name, text in texts.items()]
    accept(token=token, body=report(*files, sent_at=NOW), now=NOW)
    found = {file.name: file for file in fresh(token).files.all()}
    assert set(found) == set(texts)
    assert all(file.valid is False and file.problems for file in found.values())


def test_a_node_is_judged_by_what_its_cluster_publishes(token: CdiToken, cluster: Cluster) -> None:
    make_device(cluster, "gpu-0")
    make_device(cluster, "gpu-1")
    now = timezone.now()
    accept(token=token, body=report(spec_file("a.json", spec("gpu-0", "gpu-7")), sent_at=now), now=now)
    judged = judge_nodes([fresh(token)], now=now)[0]
    assert [(f.code, f.params.get("devices")) for f in judged.verdict.findings] == [
        ("device-gone", "gpu-7"),
        ("spec-missing", "gpu-1"),
    ]
