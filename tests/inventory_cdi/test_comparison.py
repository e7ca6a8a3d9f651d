"""What does not fit between a report and the mirror, and what is not said because it is not known."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from inventory.cdi import words
from inventory.cdi.comparison import (
    GRACE,
    Directory,
    File,
    Finding,
    HeldClaim,
    Published,
    Report,
    RuntimeClass,
    Surroundings,
    Verdict,
    due_at,
    judge,
)
from inventory.cdi.runtime import DEFAULT_DIRECTORIES, RuntimeSetting
from tests.inventory_cdi.conftest import CLAIM, OTHER_CLAIM

pytestmark = pytest.mark.nodatabase

NOW = datetime(2026, 3, 10, 12, tzinfo=UTC)
BEFORE = NOW - timedelta(days=30)
NVIDIA = "gpu.nvidia.com"
ON = RuntimeSetting(True, DEFAULT_DIRECTORIES)


def base(
    *devices: str, kind: str = "k8s.gpu.nvidia.com/device", name: str = "base.yaml", **more: object
) -> File:
    fields = {"directory": "/var/run/cdi", "uid": 0, "mode": 0o644, "modified_at": BEFORE, "valid": True}
    return File(**(fields | {"name": name, "kind": kind, "devices": devices} | more))  # type: ignore[arg-type] # a table


def of_claim(claim: str = CLAIM, **more: object) -> File:
    name = f"k8s.gpu.nvidia.com-claim_{claim}.yaml"
    fields = {"kind": "k8s.gpu.nvidia.com/claim", "name": name, "claim_uid": claim}
    return base(f"{claim}-gpu-0", **(fields | more))  # type: ignore[arg-type] # a table


def published(*names: str, driver: str = NVIDIA, seen: datetime = BEFORE, also: str = "") -> list[Published]:
    return [Published(driver, name, frozenset({name, also} - {""}), seen) for name in names]


def reported(*files: File, **more: object) -> Report:
    fields = {
        "received_at": NOW - timedelta(minutes=1),
        "reporting_since": BEFORE,
        "interval": timedelta(minutes=10),
        "files": files,
        "setting": ON,
    }
    return Report(**(fields | more))  # type: ignore[arg-type] # a table


def around(devices: Sequence[Published] = (), **more: object) -> Surroundings:
    fields = {"in_step": True, "published": devices, "drivers": {d.driver for d in devices}}
    return Surroundings(**(fields | more))  # type: ignore[arg-type] # a table


def verdict(
    report: Report | None, surroundings: Surroundings | None = None, *, now: datetime = NOW
) -> Verdict:
    return judge(report, surroundings or around(), node="gpu-01", now=now)


def codes(report: Report | None, surroundings: Surroundings | None = None) -> list[tuple[str, str]]:
    return [(found.code, found.subject) for found in verdict(report, surroundings).findings]


BASE = "/var/run/cdi/base.yaml"


# --- states ------------------------------------------------------------------------------------------


def test_specs_that_fit_are_in_order() -> None:
    found = verdict(reported(base("gpu-0", "gpu-1", "all")), around(published("gpu-0", "gpu-1")))
    assert found == Verdict("in-order", "", ())


@pytest.mark.parametrize(
    ("report", "surroundings", "why"),
    [
        (None, around(), "never-reported"),
        (reported(received_at=NOW - timedelta(minutes=23)), around(), "overdue"),
        (reported(), around(in_step=False), "not-in-step"),
        (reported(setting=RuntimeSetting(None, None)), around(), "runtime-unknown"),
    ],
)
def test_what_is_not_known_is_never_in_order(
    report: Report | None, surroundings: Surroundings, why: str
) -> None:
    found = verdict(report, surroundings)
    assert (found.state, found.why) == ("unknown", why)
    assert words.why_unknown(found)


def test_an_overdue_report_is_unknown_even_with_findings() -> None:
    report = reported(base("gpu-0", mode=0o666))
    fitting = around(published("gpu-0"))
    late = verdict(report, fitting, now=due_at(report) + timedelta(seconds=1))
    assert (late.state, late.why) == ("unknown", "overdue")
    assert [found.code for found in late.findings] == ["writable"]
    assert verdict(report, fitting, now=due_at(report)).state == "drift"


def test_what_a_file_shows_by_itself_holds_when_the_cluster_is_not_in_step() -> None:
    found = verdict(reported(base("gpu-9", mode=0o646)), around(published("gpu-0"), in_step=False))
    assert found.state == "drift"
    assert [f.code for f in found.findings] == ["writable"]


# --- files, directories, runtime ---------------------------------------------------------------------

BY_ITSELF: list[tuple[str, Report, list[tuple[str, str]]]] = [
    ("group may write", reported(base("a", mode=0o664)), [("writable", BASE)]),
    ("others may write", reported(base("a", mode=0o602)), [("writable", BASE)]),
    ("owner only", reported(base("a", mode=0o600)), []),
    ("owner", reported(base("a", uid=1000)), [("owner", BASE)]),
    ("invalid", reported(base(valid=False, problems=2)), [("invalid-spec", BASE)]),
    ("unread", reported(base(valid=None, unread="symlink")), [("unread", BASE)]),
    ("ignored", reported(base("a", name="base.yml")), [("ignored-name", "/var/run/cdi/base.yml")]),
    ("left out", reported(files_left_out=3), [("left-out", "")]),
    (
        "directory",
        reported(directories=[Directory("/etc/cdi", "read", 1000, 0o777), Directory("/run/cdi", "missing")]),
        [("owner", "/etc/cdi"), ("writable", "/etc/cdi")],
    ),
    (
        "unreadable directory",
        reported(directories=[Directory("/etc/cdi", "unreadable")]),
        [("directory-unreadable", "/etc/cdi")],
    ),
    ("switched off", reported(base("a"), setting=RuntimeSetting(False, None)), [("runtime-off", "")]),
    (
        "directory that the runtime does not read",
        reported(base("a", directory="/opt/cdi")),
        [("directory-not-read", "/opt/cdi")],
    ),
    (
        "two files of one directory",
        reported(base("a"), base("a", name="other.json")),
        [("conflict", "k8s.gpu.nvidia.com/device=a")],
    ),
    ("two directories", reported(base("a"), base("a", directory="/etc/cdi")), []),
]


@pytest.mark.parametrize(
    ("report", "expected"), [row[1:] for row in BY_ITSELF], ids=[r[0] for r in BY_ITSELF]
)
def test_what_a_report_shows_by_itself(report: Report, expected: list[tuple[str, str]]) -> None:
    assert codes(report, around(in_step=False)) == expected


def test_a_runtime_that_is_off_is_no_problem_where_nothing_needs_it() -> None:
    found = verdict(reported(setting=RuntimeSetting(False, None)))
    assert [(f.code, f.severity) for f in found.findings] == [("runtime-off", "info")]
    assert verdict(reported(setting=RuntimeSetting(False, None)), around(published("gpu-0"))).state == "drift"


def test_expected_owners_are_a_parameter() -> None:
    fitting = around(published("a"))
    found = judge(reported(base("a", uid=7)), fitting, node="gpu-01", expected_uids={0, 7}, now=NOW)
    assert found.findings == ()


def test_runtime_classes_need_their_handler_on_the_nodes_that_they_select() -> None:
    classes = [
        RuntimeClass("nvidia", "nvidia", {"gpu": "yes"}),
        RuntimeClass("kata", "kata", {"gpu": "no"}),
        RuntimeClass("anywhere", "gvisor"),
    ]
    where = around(labels={"gpu": "yes"}, runtime_classes=classes)
    assert codes(reported(handlers=["runc"]), where) == [("handler-missing", "nvidia")]
    assert codes(reported(handlers=["runc", "nvidia"]), where) == []
    # Neither classes nor handlers that are not known lead to findings.
    assert codes(reported(handlers=None), where) == []
    assert codes(reported(handlers=["runc"]), replace(where, runtime_classes=None)) == []


# --- devices -----------------------------------------------------------------------------------------

TOOLKIT = "nvidia.com/gpu"
UUID = "gpu-8a10b6f7"

DEVICES: list[tuple[str, Report, Surroundings, list[tuple[str, str]]]] = [
    (
        "a published device has no spec",
        reported(base("gpu-0")),
        around(published("gpu-0", "gpu-1")),
        [("spec-missing", NVIDIA)],
    ),
    (
        "a spec names a device that is gone",
        reported(base("gpu-0", "gpu-1")),
        around(published("gpu-0")),
        [("device-gone", BASE)],
    ),
    (
        "the driver publishes nothing here any more",
        reported(base("gpu-0")),
        around(drivers={NVIDIA}),
        [("device-gone", BASE)],
    ),
    (
        "a spec of no DRA driver",
        reported(base("x", kind="vendor.com/net")),
        around(published("gpu-0")),
        [("no-specs", NVIDIA)],
    ),
    (
        "names that stand for none",
        reported(base("all", "common")),
        around(published("gpu-0")),
        [("no-specs", NVIDIA)],
    ),
    (
        "all base specs vanished",
        reported(writers={NVIDIA: ["base"]}),
        around(published("gpu-0")),
        [("spec-missing", NVIDIA)],
    ),
    (
        "a driver that writes claim specs needs no base specs",
        reported(writers={NVIDIA: ["base", "claim"]}),
        around(published("gpu-0")),
        [],
    ),
    (
        "an invalid file describes nothing",
        reported(base("gpu-0", valid=False, problems=1), writers={NVIDIA: ["base"]}),
        around(published("gpu-0")),
        [("invalid-spec", BASE), ("spec-missing", NVIDIA)],
    ),
    (
        "what was not read may describe everything",
        reported(base(valid=None, unread="too-large"), writers={NVIDIA: ["base"]}),
        around(published("gpu-0")),
        [("unread", BASE)],
    ),
    (
        "the toolkit names devices by uuid and index",
        reported(base("0", "GPU-8A10B6F7", "all", kind=TOOLKIT)),
        around(published("gpu-0", also=UUID)),
        [],
    ),
    (
        "an index that nobody publishes is no name",
        reported(base("0", "1", "all", kind=TOOLKIT), writers={NVIDIA: ["base"]}),
        around(published("gpu-0")),
        [],
    ),
    (
        "the toolkit names a uuid that is gone",
        reported(base("GPU-8A10B6F7", "GPU-GONE", kind=TOOLKIT)),
        around(published("gpu-0", also=UUID)),
        [("device-gone", BASE)],
    ),
    (
        "a foreign file that knows none of the devices is about others",
        reported(base("GPU-OTHER", kind=TOOLKIT)),
        around(published("gpu-0", also=UUID)),
        [("no-specs", NVIDIA)],
    ),
    (
        "written before the device appeared",
        reported(base("gpu-0", modified_at=NOW - timedelta(hours=2))),
        around(published("gpu-0", seen=NOW - timedelta(hours=1))),
        [("spec-stale", BASE)],
    ),
    (
        "the device appeared before the node reported",
        reported(base("gpu-0", modified_at=BEFORE), reporting_since=NOW - timedelta(hours=1)),
        around(published("gpu-0", seen=NOW - timedelta(hours=2))),
        [],
    ),
    (
        "written while the device appeared",
        reported(base("gpu-0", modified_at=NOW - timedelta(hours=1))),
        around(published("gpu-0", seen=NOW - timedelta(hours=1) + GRACE)),
        [],
    ),
    (
        "a driver that never wrote a spec",
        reported(),
        around(published("pci-0", driver="dra.net")),
        [("no-specs", "dra.net")],
    ),
]


@pytest.mark.parametrize(
    ("report", "surroundings", "expected"), [row[1:] for row in DEVICES], ids=[row[0] for row in DEVICES]
)
def test_specs_against_slices(
    report: Report, surroundings: Surroundings, expected: list[tuple[str, str]]
) -> None:
    written = {NVIDIA: ["base"]} if any(f.kind and "gpu-0" in f.devices for f in report.files) else {}
    assert codes(replace(report, writers=report.writers or written), surroundings) == expected


def test_a_node_whose_drivers_work_without_specs_is_in_order() -> None:
    found = verdict(reported(), around(published("pci-0", driver="dra.net")))
    assert found.state == "in-order"
    assert [f.severity for f in found.findings] == ["info"]


# --- claims ------------------------------------------------------------------------------------------

PATH = f"/var/run/cdi/k8s.gpu.nvidia.com-claim_{CLAIM}.yaml"
SEEN = {NVIDIA: ["claim"]}
HELD = [HeldClaim(CLAIM, frozenset({NVIDIA}), BEFORE)]

CLAIMS: list[tuple[str, Report, Surroundings, list[tuple[str, str]]]] = [
    ("allocated here", reported(of_claim()), around(claims={CLAIM: "gpu-01"}), []),
    ("allocated on no single node", reported(of_claim()), around(claims={CLAIM: ""}), []),
    ("gone", reported(of_claim()), around(), [("claim-gone", PATH)]),
    ("given back", reported(of_claim()), around(claims={CLAIM: None}), [("claim-elsewhere", PATH)]),
    ("elsewhere", reported(of_claim()), around(claims={CLAIM: "gpu-02"}), [("claim-elsewhere", PATH)]),
    ("just written", reported(of_claim(modified_at=NOW - timedelta(minutes=2))), around(), []),
    (
        "its spec is there",
        reported(of_claim(), writers=SEEN),
        around(claims={CLAIM: "gpu-01"}, held=HELD),
        [],
    ),
    ("its spec is missing", reported(writers=SEEN), around(held=HELD), [("claim-missing", NVIDIA)]),
    (
        "the spec of another claim is there",
        reported(of_claim(OTHER_CLAIM), writers=SEEN),
        around(claims={OTHER_CLAIM: "gpu-01"}, held=HELD),
        [("claim-missing", NVIDIA)],
    ),
    ("a driver that was never seen to write claim specs", reported(), around(held=HELD), []),
    (
        "allocated a moment ago",
        reported(writers=SEEN),
        around(held=[replace(HELD[0], allocated_at=NOW - timedelta(minutes=5))]),
        [],
    ),
    ("files were left out", reported(writers=SEEN, files_left_out=1), around(held=HELD), [("left-out", "")]),
    (
        "an invalid spec is not missing",
        reported(of_claim(kind="", valid=False, problems=1), writers=SEEN),
        around(claims={CLAIM: "gpu-01"}, held=HELD),
        [("invalid-spec", PATH)],
    ),
]


@pytest.mark.parametrize(
    ("report", "surroundings", "expected"), [row[1:] for row in CLAIMS], ids=[row[0] for row in CLAIMS]
)
def test_specs_against_claims(
    report: Report, surroundings: Surroundings, expected: list[tuple[str, str]]
) -> None:
    assert codes(report, surroundings) == expected


def test_nothing_about_claims_is_for_everybody() -> None:
    bad = of_claim(mode=0o666, uid=5)
    found = verdict(reported(bad, writers=SEEN), around(held=HELD)).findings
    assert {f.code for f in found} == {"writable", "owner", "claim-gone"}
    assert all(f.claims for f in found)


def test_every_finding_can_be_said() -> None:
    tables = [(report, around()) for _name, report, _codes in BY_ITSELF]
    tables += [row[1:3] for row in [*DEVICES, *CLAIMS]]
    said: list[Finding] = [f for report, where in tables for f in verdict(report, where).findings]
    for found in said:
        sentence = words.finding(found)
        assert sentence.endswith("."), found
        assert "%(" not in sentence
    assert len({found.code for found in said}) >= 15
