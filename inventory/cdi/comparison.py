"""What does not fit between a node's CDI report and the rest of the mirror. Pure.

What cannot be judged is not judged: a report that is overdue, a cluster that is not in step, files that were
not read leave the state *unknown*, never "in order".

The rules for devices. A driver *describes its devices in base specs* here when base specs of its own kind, or
of a kind that speaks of it, name single devices (`owners`).

- A device that such a driver publishes and that no valid base spec names is **missing**. When no base spec is
  left at all, the driver must have been seen to write some, and must not write claim specs, which carry
  everything by themselves.
- A base spec that names a device which the driver does not publish names a **gone** device. Names such as "0"
  or "1:0" count only where one of them is known as an index of a published device; a file that the driver did
  not write itself counts only when it names at least one published device.
- A base spec that was last written clearly before the device that it names appeared is **stale**, if the node
  was reporting then: it describes the piece that was there before.

The rules for claims. Drivers write a claim spec when they prepare a claim on the node, and delete it when it
is unprepared.

- A claim spec whose claim is gone, or no longer allocated on this node, is **stale**.
- A claim that is allocated on this node and used there by a running Pod, without its spec, **misses** it only
  when its driver was seen to write claim specs on this node before: many drivers write none.

All of this with `GRACE` in between, since files, slices and claims are seen at different times.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from inventory.cdi import owners
from inventory.cdi.runtime import RuntimeSetting, same_directory
from inventory.node_reports import patience

GRACE = timedelta(minutes=10)

BAD, WARNING, INFO = "bad", "warning", "info"

# States of a node.
IN_ORDER, DRIFT, UNKNOWN = "in-order", "drift", "unknown"

_INDEX = re.compile(r"\d+(:\d+)*")
_SPEC_ENDINGS = (".json", ".yaml")


Params = Mapping[str, str | int]


@dataclass(frozen=True)
class File:
    """A spec file as reported. `valid` is None when its text was not read."""

    directory: str
    name: str
    uid: int
    mode: int
    modified_at: datetime
    kind: str = ""
    valid: bool | None = None
    unread: str = ""
    claim_uid: str = ""
    devices: tuple[str, ...] = ()
    problems: int = 0

    @property
    def path(self) -> str:
        return f"{self.directory}/{self.name}"


@dataclass(frozen=True)
class Directory:
    path: str
    state: str
    uid: int | None = None
    mode: int | None = None


@dataclass(frozen=True)
class Published:
    """A device that a driver publishes for this node, and the names that a spec may call it by."""

    driver: str
    name: str
    aliases: frozenset[str]
    first_seen_at: datetime


@dataclass(frozen=True)
class HeldClaim:
    """A claim that is allocated on this node and used there by a running Pod."""

    uid: str
    drivers: frozenset[str]
    allocated_at: datetime | None


@dataclass(frozen=True)
class RuntimeClass:
    """As far as it matters here: the handler that the nodes of its selector have to have."""

    name: str
    handler: str
    node_selector: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    received_at: datetime
    # When the node's first report came.
    reporting_since: datetime
    interval: timedelta
    directories: Sequence[Directory] = ()
    files: Sequence[File] = ()
    files_left_out: int = 0
    setting: RuntimeSetting = field(default_factory=lambda: RuntimeSetting(None, None))
    handlers: Collection[str] | None = None
    # Sorts of specs that each driver was ever seen to write here.
    writers: Mapping[str, Collection[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Surroundings:
    """What the mirror knows around a node. Where it is not `in_step`, nothing follows from the rest."""

    in_step: bool
    published: Sequence[Published] = ()
    # Drivers that publish anything anywhere in the cluster.
    drivers: Collection[str] = ()
    # Where every claim that a file is named after is allocated now: node name, "" = on no single node;
    # None = allocated nowhere. Claims that do not exist are not in it.
    claims: Mapping[str, str | None] = field(default_factory=dict)
    held: Sequence[HeldClaim] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    # None: RuntimeClasses are not mirrored, so nothing is said about them.
    runtime_classes: Sequence[RuntimeClass] | None = None


@dataclass(frozen=True)
class Finding:
    """Something that does not fit; `words` says it. `subject` is the file, directory, device or driver that
    it is about. `claims` marks what only readers of everything may see: it names a project's claim."""

    code: str
    severity: str
    subject: str = ""
    params: Params = field(default_factory=dict)
    claims: bool = False


@dataclass(frozen=True)
class Verdict:
    """`why` is the code of the reason for an unknown state, "" otherwise."""

    state: str
    why: str
    findings: tuple[Finding, ...]


def judge(
    report: Report | None,
    around: Surroundings,
    *,
    node: str,
    expected_uids: Collection[int] = (0,),
    now: datetime,
) -> Verdict:
    """The state of a node and everything that does not fit, the worst first."""
    if report is None:
        return Verdict(UNKNOWN, "never-reported", ())
    findings = [
        *_of_runtime(report, around),
        *_of_directories(report, expected_uids),
        *_of_files(report, expected_uids),
        *_conflicts(report.files),
    ]
    if around.in_step:
        findings += [*_of_devices(report, around), *_of_claims(report, around, node=node)]
    order = (BAD, WARNING, INFO)
    findings.sort(key=lambda f: (order.index(f.severity), f.code, f.subject))
    why = _why_unknown(report, around, now=now)
    drifts = any(finding.severity != INFO for finding in findings)
    if why == "overdue" or (why and not drifts):
        state = UNKNOWN
    else:
        state, why = (DRIFT if drifts else IN_ORDER), ""
    return Verdict(state, why, tuple(findings))


def due_at(report: Report) -> datetime:
    """When the report is overdue."""
    return report.received_at + patience(report.interval)


def _why_unknown(report: Report, around: Surroundings, *, now: datetime) -> str:
    if now > due_at(report):
        return "overdue"
    if not around.in_step:
        return "not-in-step"
    if not _complete(report):
        return "incomplete"
    return "runtime-unknown" if report.setting.enabled is None else ""


def _complete(report: Report) -> bool:
    """Whether the report has all that the runtime would read."""
    return (
        not report.files_left_out
        and all(directory.state != "unreadable" for directory in report.directories)
        and all(file.valid is not None for file in report.files if file.name.endswith(_SPEC_ENDINGS))
    )


# --- what the report says by itself ------------------------------------------------------------------


def _of_runtime(report: Report, around: Surroundings) -> Iterable[Finding]:
    matters = bool(report.files) or bool(around.published)
    if report.setting.enabled is False:
        yield Finding("runtime-off", BAD if matters else INFO)
    elif report.setting.enabled is None:
        yield Finding("runtime-unknown", INFO)
    if (read := report.setting.directories) is not None:
        for path in sorted({file.directory for file in report.files}):
            if not any(same_directory(path, other) for other in read):
                yield Finding("directory-not-read", BAD, path)
    if around.in_step and around.runtime_classes is not None and report.handlers is not None:
        for found in around.runtime_classes:
            applies = found.node_selector.items() <= around.labels.items()
            if found.node_selector and applies and found.handler not in report.handlers:
                params: Params = {"class": found.name, "handler": found.handler}
                yield Finding("handler-missing", BAD, found.name, params)


def _of_directories(report: Report, expected_uids: Collection[int]) -> Iterable[Finding]:
    for directory in report.directories:
        if directory.state == "unreadable":
            yield Finding("directory-unreadable", WARNING, directory.path)
        yield from _access(directory.path, directory.uid, directory.mode, expected_uids)
    if report.files_left_out:
        yield Finding("left-out", WARNING, params={"count": report.files_left_out})


def _of_files(report: Report, expected_uids: Collection[int]) -> Iterable[Finding]:
    for file in report.files:
        claims = bool(file.claim_uid)
        for finding in _access(file.path, file.uid, file.mode, expected_uids):
            yield Finding(finding.code, finding.severity, file.path, finding.params, claims=claims)
        if not file.name.endswith(_SPEC_ENDINGS):
            yield Finding("ignored-name", WARNING, file.path, claims=claims)
        elif file.valid is None:
            yield Finding("unread", WARNING, file.path, {"why": file.unread}, claims=claims)
        elif not file.valid:
            yield Finding("invalid-spec", BAD, file.path, {"count": file.problems}, claims=claims)


def _access(
    path: str, uid: int | None, mode: int | None, expected_uids: Collection[int]
) -> Iterable[Finding]:
    """Who else could write what runs as root in every container that gets a device."""
    if mode is not None and mode & 0o022:
        yield Finding("writable", BAD, path, {"mode": f"{mode:04o}"})
    if uid is not None and uid not in expected_uids:
        yield Finding("owner", BAD, path, {"uid": uid})


def _conflicts(files: Sequence[File]) -> Iterable[Finding]:
    """Of two files of one directory that name the same device, a runtime takes neither. Between directories
    the later one wins."""
    named: dict[tuple[str, str], list[str]] = {}
    for file in _usable(files):
        for device in file.devices:
            named.setdefault((file.directory, f"{file.kind}={device}"), []).append(file.name)
    for (_directory, device), names in sorted(named.items()):
        if len(names) > 1:
            yield Finding("conflict", BAD, device, {"files": ", ".join(sorted(names))})


def _usable(files: Sequence[File]) -> list[File]:
    return [file for file in files if file.valid and file.name.endswith(_SPEC_ENDINGS)]


# --- against slices ----------------------------------------------------------------------------------


def _of_devices(report: Report, around: Surroundings) -> Iterable[Finding]:
    by_driver: dict[str, list[Published]] = {}
    for device in around.published:
        by_driver.setdefault(device.driver, []).append(device)
    base = [file for file in _usable(report.files) if not file.claim_uid]
    complete = _complete(report)
    for driver in sorted({*by_driver, *around.drivers, *_conventional(base)}):
        published = by_driver.get(driver, [])
        told = [file for file in base if owners.speaks_of(file.kind, driver)]
        names = {file.path: _comparable(file, driver, published) for file in told}
        yield from _gone(told, names, driver, published)
        yield from _stale(told, names, published, since=report.reporting_since)
        if complete:
            yield from _missing(report, driver, published, told, names)


def _conventional(base: Sequence[File]) -> set[str]:
    """Drivers that wrote base specs here by the convention ("k8s.<driver>"), though they publish nothing."""
    vendors = {file.kind.partition("/")[0] for file in base}
    return {vendor.removeprefix("k8s.") for vendor in vendors if vendor.startswith("k8s.")}


def _comparable(file: File, driver: str, published: Sequence[Published]) -> frozenset[str]:
    """The names in a file that can be held against what the driver publishes (see the module's rules)."""
    aliases = {alias for device in published for alias in device.aliases}
    names = {name.lower() for name in file.devices} - owners.GENERIC
    numbers = {name for name in names if _INDEX.fullmatch(name)}
    if not numbers & aliases:
        names -= numbers
    if not owners.written_by_driver(file.kind, driver) and not names & aliases:
        return frozenset()
    return frozenset(names)


def _gone(
    told: Sequence[File], names: Mapping[str, frozenset[str]], driver: str, published: Sequence[Published]
) -> Iterable[Finding]:
    aliases = {alias for device in published for alias in device.aliases}
    for file in told:
        if lost := sorted(names[file.path] - aliases):
            params: Params = {"devices": ", ".join(lost[:20]), "count": len(lost), "driver": driver}
            yield Finding("device-gone", BAD, file.path, params)


def _stale(
    told: Sequence[File],
    names: Mapping[str, frozenset[str]],
    published: Sequence[Published],
    *,
    since: datetime,
) -> Iterable[Finding]:
    for file in told:
        newer = [
            device.name
            for device in published
            if device.aliases & names[file.path]
            and device.first_seen_at > max(file.modified_at + GRACE, since)
        ]
        if newer:
            params: Params = {"devices": ", ".join(sorted(newer)[:20]), "count": len(newer)}
            yield Finding("spec-stale", WARNING, file.path, params)


def _missing(
    report: Report,
    driver: str,
    published: Sequence[Published],
    told: Sequence[File],
    names: Mapping[str, frozenset[str]],
) -> Iterable[Finding]:
    if not published:
        return
    sorts = report.writers.get(driver, ())
    described = frozenset().union(*names.values())
    if not described and (owners.BASE not in sorts or owners.CLAIM in sorts or told):
        if not sorts:
            yield Finding("no-specs", INFO, driver, {"count": len(published)})
        return
    lost = sorted(device.name for device in published if not device.aliases & described)
    if lost:
        params: Params = {"devices": ", ".join(lost[:20]), "count": len(lost), "driver": driver}
        yield Finding("spec-missing", BAD, driver, params)


# --- against claims ----------------------------------------------------------------------------------


def _of_claims(report: Report, around: Surroundings, *, node: str) -> Iterable[Finding]:
    there: dict[str, set[str]] = {}
    for file in report.files:
        if not file.claim_uid:
            continue
        there.setdefault(file.claim_uid, set()).add(file.kind)
        if file.modified_at > report.received_at - GRACE:
            continue
        if file.claim_uid not in around.claims:
            yield Finding("claim-gone", WARNING, file.path, {"claim": file.claim_uid}, claims=True)
        elif around.claims[file.claim_uid] not in {node, ""}:
            yield Finding("claim-elsewhere", WARNING, file.path, {"claim": file.claim_uid}, claims=True)
    if not _complete(report):
        return
    for claim in around.held:
        late = claim.allocated_at is None or claim.allocated_at > report.received_at - GRACE
        if late:
            continue
        # A file of that name which says nothing legible is invalid, not missing.
        kinds = there.get(claim.uid, set())
        for driver in sorted(claim.drivers):
            if owners.CLAIM not in report.writers.get(driver, ()):
                continue
            if any(not kind or owners.speaks_of(kind, driver) for kind in kinds):
                continue
            params: Params = {"claim": claim.uid, "driver": driver}
            yield Finding("claim-missing", BAD, driver, params, claims=True)
