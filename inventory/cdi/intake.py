"""Taking in a node's report: decoded, checked, and kept whole or not at all."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec
from django.db import transaction
from django.utils.translation import gettext as _

from inventory.cdi import owners
from inventory.cdi.specs import clip, read_spec
from inventory.models import CdiNode, CdiSpecFile, CdiToken
from inventory.node_reports import (
    MAX_REPORT_BYTES,
    MAX_SKEW,
    MIN_GAP,
    YEARS,
    UnableToAccept,
    check_clock,
    check_pause,
    check_sender,
    decoded,
)

__all__ = [
    "MAX_REPORT_BYTES",
    "MAX_SKEW",
    "MIN_GAP",
    "Accepted",
    "Report",
    "UnableToAccept",
    "accept",
    "decode",
    "digest_of",
]

MAX_WRITERS = 50
# Part of the digest: a portal with new rules reads again what nodes report unchanged.
RULES = 1


# --- what a report looks like ------------------------------------------------------------------------

Text = Annotated[str, msgspec.Meta(max_length=253)]
Path = Annotated[str, msgspec.Meta(min_length=1, max_length=1000, pattern=r"^/[^\x00]*$")]
FileName = Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern=r"^[^/\x00]+$")]
Id = Annotated[int, msgspec.Meta(ge=0, le=2**32)]
Size = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Mode = Annotated[int, msgspec.Meta(ge=0, le=0o7777)]
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
Digest = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{64})?$")]


class Directory(msgspec.Struct, kw_only=True):
    path: Path
    state: Literal["read", "missing", "unreadable"]
    uid: Id | None = None
    gid: Id | None = None
    mode: Mode | None = None


class SpecFile(msgspec.Struct, kw_only=True):
    directory: Path
    name: FileName
    uid: Id
    gid: Id
    mode: Mode
    size: Size
    modified_at: Moment
    sha256: Digest = ""
    # None when `unread` says why it was not read.
    content: str | None = None
    unread: Annotated[str, msgspec.Meta(max_length=40)] = ""


class Runtime(msgspec.Struct, kw_only=True):
    name: Literal["containerd", "cri-o", ""] = ""
    version: Text = ""
    # Of the configuration file's format: containerd reads 3 since its version 2.0.
    config_version: Annotated[int, msgspec.Meta(ge=0, le=1000)] | None = None
    enable_cdi: bool | None = None
    spec_dirs: Annotated[list[Path], msgspec.Meta(max_length=20)] | None = None
    handlers: Annotated[list[Text], msgspec.Meta(max_length=100)] | None = None
    sources: Annotated[list[Path], msgspec.Meta(max_length=50)] = []


class Report(msgspec.Struct, kw_only=True):
    """The body of a report. `format` 1 is the only one there is; unknown members are ignored."""

    format: Literal[1]
    cluster: Annotated[str, msgspec.Meta(max_length=63)]
    node: Text
    sent_at: Moment
    interval_seconds: Annotated[int, msgspec.Meta(ge=10, le=86_400)]
    collector: Annotated[str, msgspec.Meta(max_length=40)] = ""
    directories: Annotated[list[Directory], msgspec.Meta(max_length=20)]
    files: Annotated[list[SpecFile], msgspec.Meta(max_length=1000)]
    files_left_out: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)] = 0
    runtime: Runtime


_decoder = msgspec.json.Decoder(Report)


@dataclass(frozen=True)
class Accepted:
    node: CdiNode
    # Whether it said anything new.
    changed: bool


# --- taking it in ------------------------------------------------------------------------------------


def accept(*, token: CdiToken, body: bytes, now: datetime) -> Accepted:
    """Keeps a report as the latest of the token's node. Raises UnableToAccept; nothing is kept then but that
    it was refused, so that people see why a node that does report is overdue."""
    node = token.node
    check_pause(node.received_at, now=now)
    try:
        report = decode(body)
        check_sender((report.cluster, report.node), (node.cluster.name, node.name))
        check_clock(report.sent_at, now=now)
        return _keep(report, node, now=now)
    except UnableToAccept as refused:
        CdiNode.objects.filter(pk=node.pk).update(refused_at=now, refusal=refused.code)
        raise


def decode(body: bytes) -> Report:
    """A body as a report. Raises UnableToAccept for anything else; checks the files' digests."""
    report = decoded(body, _decoder)
    paths = [(file.directory, file.name) for file in report.files]
    if len(set(paths)) < len(paths):
        raise UnableToAccept("malformed", _("This is no report: it has a file twice."), status=400)
    for file in report.files:
        if not YEARS[0] <= file.modified_at.year <= YEARS[1]:
            raise UnableToAccept("malformed", _("This is no report: a file is of no time."), status=400)
        if file.content is not None and hashlib.sha256(_bytes(file.content)).hexdigest() != file.sha256:
            raise UnableToAccept(
                "checksum",
                _("The text of %(name)s is not what its checksum says.") % {"name": clip(file.name)},
            )
    return report


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@transaction.atomic
def _keep(report: Report, node: CdiNode, *, now: datetime) -> Accepted:
    """Under the node's lock: of two reports at once, the one sent later stays."""
    kept = CdiNode.objects.select_for_update().get(pk=node.pk)
    digest = digest_of(report)
    if kept.sent_at is not None and report.sent_at <= kept.sent_at:
        if report.sent_at == kept.sent_at and digest == kept.digest:
            return Accepted(kept, changed=False)  # the answer to the first was lost
        raise UnableToAccept("older_report", _("A report that was sent later is here already."), status=409)
    changed = digest != kept.digest
    kept.received_at, kept.sent_at = now, report.sent_at
    kept.reporting_since = kept.reporting_since or now
    kept.clock_skew_ms = round((report.sent_at - now) / timedelta(milliseconds=1))
    kept.interval_seconds = report.interval_seconds
    kept.refused_at, kept.refusal = None, ""
    if changed:
        kept.changed_at, kept.digest = now, digest
        kept.collector = clip(report.collector, 40)
        kept.directories = [_plain(directory) for directory in report.directories]
        kept.runtime = _plain(report.runtime)
        kept.files_left_out = report.files_left_out
        files = [_file(file, kept) for file in report.files]
        kept.writers = _writers(kept.writers, files)
        kept.files.all().delete()
        CdiSpecFile.objects.bulk_create(files, batch_size=200)
    kept.save()
    return Accepted(kept, changed=changed)


def digest_of(report: Report) -> str:
    """What a report says, without when: equal digests need no second reading."""
    said = [RULES, report.directories, report.files, report.files_left_out, report.runtime, report.collector]
    return hashlib.sha256(msgspec.json.encode(said, order="deterministic")).hexdigest()


def _plain(struct: msgspec.Struct) -> dict[str, Any]:
    """A part of a report as JSON that every database stores."""

    def clean(value: Any) -> Any:
        if isinstance(value, list):
            return [clean(item) for item in value]
        return clip(value, 1000) if isinstance(value, str) else value

    return {name: clean(value) for name, value in msgspec.structs.asdict(struct).items()}


def _file(file: SpecFile, node: CdiNode) -> CdiSpecFile:
    row = CdiSpecFile(
        node=node,
        directory=clip(file.directory, 1000),
        name=clip(file.name, 255),
        uid=file.uid,
        gid=file.gid,
        mode=file.mode,
        size=file.size,
        modified_at=file.modified_at,
        sha256=file.sha256,
        unread=clip(file.unread or ("" if file.content is not None else "not-sent"), 40),
    )
    if file.content is None or row.unread:
        return row
    reading = read_spec(file.content)
    row.version, row.kind, row.valid = clip(reading.version), clip(reading.kind), reading.valid
    row.devices = [{"name": device.name, "edits": dict(device.edits)} for device in reading.devices]
    row.edits = dict(reading.edits)
    row.problems = [problem.as_json() for problem in reading.problems]
    names = [device.name for device in reading.devices]
    row.claim_uid = owners.claim_uid_of(file_name=row.name, kind=row.kind, devices=names)
    return row


def _writers(before: dict[str, list[str]], files: Sequence[CdiSpecFile]) -> dict[str, list[str]]:
    """Which sorts of specs each driver was ever seen to write here. A base spec that names no single device
    ("common") says nothing about where the driver's devices are described."""
    seen = {driver: set(sorts) for driver, sorts in before.items()}
    for file in files:
        if file.claim_uid:
            sort = owners.CLAIM
        elif any(device["name"] not in owners.GENERIC for device in file.devices):
            sort = owners.BASE
        else:
            continue
        for driver in owners.drivers_named_by(file.kind):
            if driver in seen or len(seen) < MAX_WRITERS:
                seen.setdefault(driver, set()).add(sort)
    return {driver: sorted(sorts) for driver, sorts in sorted(seen.items())}
