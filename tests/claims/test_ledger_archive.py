"""Observations of closed months in files: what is moved, that nothing is lost, and what is refused."""

import os
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from claims import tasks
from claims.ledger import archive, keeping, storage
from claims.ledger.audit import audit
from claims.models import Allocation, Consumer, Request
from inventory.models import ArchivedObject, Cluster, Observation, ObservationArchive
from tests.claims.conftest import NOW
from tests.claims.mirror import observe
from tests.claims.test_shares import new_mirror
from tests.inventory.objects import allocation, changed, claim, result

Kind = Observation.Kind
DECEMBER = datetime(2026, 12, 1, tzinfo=UTC)
LATER = DECEMBER + timedelta(days=3)
DAYS = 24 * 60


@pytest.fixture(autouse=True)
def place(tmp_path: Path, settings: Any) -> Path:
    options = {"location": str(tmp_path / "archive")}
    backend = {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": options}
    settings.STORAGES = settings.STORAGES | {"archive": backend}
    return tmp_path / "archive"


@pytest.fixture
def history(request_: Request, cluster: Cluster) -> Cluster:
    """Three claims: over in November, still held, and over in December."""
    consumer = {"resource": "pods", "name": "work", "uid": "w"}
    for number, (uid, end) in enumerate((("over", 60), ("held", None), ("december", 22 * DAYS))):
        device = {
            "driver": "gpu", "pool": "p", "device": f"gpu-{number}", "request": "r", "product": "H100 ü",
            "capacity": {"m": {"value": "80Gi"}}, "consumed_capacity": {},
        }  # fmt: skip
        observe(request_, Kind.CLAIM_ALLOCATED, 1, uid=uid, devices=[device])
        observe(request_, Kind.CONSUMER_JOINED, 2, uid=uid, consumer=consumer)
        if end is not None:
            observe(request_, Kind.CONSUMER_LEFT, end - 1, uid=uid, consumer=consumer)
            observe(request_, Kind.CLAIM_DELETED, end, uid=uid)
    storage.apply(cluster=cluster)
    return cluster


def ledger() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    return (
        [dict(row) for row in Allocation.objects.order_by("claim_uid").values()],
        [dict(row) for row in Consumer.objects.order_by("claim_uid").values()],
    )


def test_only_what_is_over_leaves_the_database(history: Cluster, place: Path) -> None:
    before = ledger()
    (made,) = archive.archive(cluster=history, before=DECEMBER, now=LATER)
    # What charts go through stays, and is in the file as well.
    assert list(Observation.objects.filter(uid="over").values_list("kind", flat=True)) == ["claim-deleted"]
    assert Observation.objects.filter(uid="held").count() == 2
    assert Observation.objects.filter(uid="december").count() == 4
    assert (made.removed, made.file.rows, made.file.objects_count, made.file.month) == (3, 4, 1, "2026-11")
    table = pq.read_table(place / made.file.file_name)
    assert set(table.column("uid").to_pylist()) == {"over"}
    assert ledger() == before
    assert archive.archive(cluster=history, before=DECEMBER, now=LATER) == []


def test_the_ledger_is_rebuilt_from_the_archive_and_is_identical(history: Cluster) -> None:
    before = ledger()
    archive.archive(cluster=history, before=DECEMBER, now=LATER)
    Allocation.objects.filter(claim_uid="over").update(product="nonsense")
    Allocation.objects.filter(claim_uid="held").delete()
    assert storage.rebuild(cluster=history) == 4 + 7
    after = ledger()
    for rows in (*before, *after):
        for row in rows:
            row.pop("id")
    assert after == before


def test_what_runs_comes_with_the_month_in_which_it_is_over(history: Cluster) -> None:
    archive.archive(cluster=history, before=DECEMBER, now=LATER)
    made = archive.archive(cluster=history, before=datetime(2027, 1, 1, tzinfo=UTC), now=LATER)
    assert [one.file.month for one in made] == ["2026-12"]
    assert set(ArchivedObject.objects.values_list("uid", flat=True)) == {"over", "december"}
    assert Observation.objects.filter(uid="held").count() == 2


def test_a_late_observation_is_folded_with_what_is_archived(history: Cluster, request_: Request) -> None:
    archive.archive(cluster=history, before=DECEMBER, now=LATER)
    observe(request_, Kind.CLAIM_RELEASED, 50, uid="over")
    storage.apply(cluster=history)
    row = Allocation.objects.get(claim_uid="over")
    assert (row.started_at, row.ended_at) == (NOW + timedelta(minutes=1), NOW + timedelta(minutes=50))
    # It is archived in its turn, into a file of its own.
    (made,) = archive.archive(cluster=history, before=DECEMBER, now=LATER)
    assert (made.file.part, made.file.rows) == (2, 2)
    assert ArchivedObject.objects.filter(uid="over").count() == 2
    before = ledger()
    storage.rebuild(cluster=history)
    assert ledger() == before


def test_what_is_not_folded_yet_is_not_archived(history: Cluster, request_: Request) -> None:
    observe(request_, Kind.CLAIM_ALLOCATED, 100, uid="over", epoch=2)
    assert archive.archive(cluster=history, before=DECEMBER, now=LATER) == []


@pytest.mark.parametrize("fault", ["missing", "changed", "cut"])
def test_a_file_that_is_not_what_was_written_is_refused_by_name(
    history: Cluster, request_: Request, place: Path, fault: str
) -> None:
    (made,) = archive.archive(cluster=history, before=DECEMBER, now=LATER)
    before = ledger()
    path = place / made.file.file_name
    whole = path.read_bytes()
    if fault == "missing":
        path.unlink()
    elif fault == "changed":
        path.write_bytes(whole.replace(b"PAR1", b"PAR2", 1))
    else:
        path.write_bytes(whole[:-10])
    for action in ("rebuild", "verify"):
        with pytest.raises(CommandError, match=made.file.file_name):
            call_command("ledger", action, stdout=StringIO())
    observe(request_, Kind.CLAIM_DELETED, 50, uid="over")
    with pytest.raises(archive.ArchiveDamaged, match=made.file.sha256):
        storage.apply(cluster=history)
    assert ledger() == before
    path.write_bytes(whole)
    storage.rebuild(cluster=history)
    assert Allocation.objects.get(claim_uid="over").ended_at == NOW + timedelta(minutes=50)


def test_what_is_wrong_with_files_is_audited_and_stops_nothing_but_the_ledger(
    history: Cluster, request_: Request, place: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for month in (DECEMBER, datetime(2027, 1, 1, tzinfo=UTC)):
        archive.archive(cluster=history, before=month, now=LATER)
    assert [one.code for one in audit(cluster=history, now=LATER).violations] == ["open-unknown"]
    names = list(ObservationArchive.objects.order_by("pk").values_list("file_name", flat=True))
    assert len(names) == 2
    (place / names[0]).unlink()
    (place / names[1]).write_bytes(b"")
    with pytest.raises(CommandError, match=f"(?s){names[0]} .*{names[1]} "):
        call_command("ledger", "verify", stdout=StringIO())
    observe(request_, Kind.CLAIM_DELETED, 50, uid="over")
    kept = keeping.check(cluster=history, now=LATER)
    damaged = [one for one in kept.violations if one["code"] == "archive-damaged"]
    assert [one["where"] for one in damaged] == names
    assert "cannot be read" in damaged[0]["detail"]
    went_on: list[Cluster] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("claims.tasks.advance.advance", lambda *, cluster, **_: went_on.append(cluster))
        tasks.catch_up(cluster_id=history.pk)
    assert went_on == [history]
    assert names[0] in caplog.text


def test_what_a_killed_run_left_is_taken_away_or_named(history: Cluster, place: Path) -> None:
    folder = place / f"cluster-{history.pk}"
    folder.mkdir(parents=True)
    (folder / ".2026-11-0123.part").write_bytes(b"PAR1 half of it")
    # Put in its place, and killed before it was recorded.
    orphan = folder / "observations-2026-10-001-0123456789ab.parquet"
    orphan.write_bytes(b"PAR1")
    (made,) = archive.archive(cluster=history, before=DECEMBER, now=LATER)
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [orphan.name, Path(made.file.file_name).name]
    )
    told = StringIO()
    call_command("ledger", "verify", stdout=told)
    assert f"no record names {orphan}" in told.getvalue()
    assert "1 files are as they were written" in told.getvalue()


def test_a_crash_leaves_rows_and_no_file(
    history: Cluster, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = Observation.objects.count()

    def full(*_args: object) -> None:
        raise OSError("no space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(archive.os, "replace", full)  # type: ignore[attr-defined]  # how it puts a file in its place
        with pytest.raises(OSError, match="no space"):
            archive.archive(cluster=history, before=DECEMBER, now=LATER)
    assert Observation.objects.count() == count
    assert not ObservationArchive.objects.exists()
    assert [path for path in place.rglob("*") if path.is_file()] == []


def test_the_command_archives_by_month_and_names_what_it_wants(history: Cluster, place: Path) -> None:
    for wrong in (None, "2026", "2026-13", "0000-01", "December"):
        with pytest.raises(CommandError, match="month"):
            call_command("ledger", "archive", before=wrong, stdout=StringIO())
    with pytest.raises(CommandError, match="not over"):
        call_command("ledger", "archive", before="2999-01", stdout=StringIO())
    told = StringIO()
    call_command("ledger", "archive", before="2026-11", stdout=told)
    assert str(place) in told.getvalue()
    assert not ObservationArchive.objects.exists()


def test_a_claim_that_comes_back_after_it_was_archived_goes_on_counting(history: Cluster) -> None:
    from inventory.mirror.beginnings import epochs
    from inventory.mirror.turn import Turn
    from portal.dra.features import Features

    archive.archive(cluster=history, before=DECEMBER, now=LATER)
    turn = Turn(cluster_id=history.pk, features=Features.for_version("1.36"))
    assert epochs(turn, {"over", "held", "unknown"}) == {"over": 1, "held": 1}


def test_what_a_backup_brings_back_did_not_last_meanwhile_though_its_end_is_archived(db: None) -> None:
    mirror = new_mirror()
    held = claim("c", allocated=allocation(result("gpu-0"), timestamp="2026-03-01T10:00:02Z"))
    mirror.see(held)
    mirror.see(changed(held, status={}))
    storage.apply(cluster=mirror.cluster)
    mirror.now = datetime(2026, 4, 2, tzinfo=UTC)
    before = datetime(2026, 4, 1, tzinfo=UTC)
    assert archive.archive(cluster=mirror.cluster, before=before, now=mirror.now)
    mirror.see(changed(held))
    storage.apply(cluster=mirror.cluster)
    row = Allocation.objects.get(epoch=2)
    assert (row.started_at, row.start_source) == (mirror.now, "observed")
    assert row.started_at - timedelta(microseconds=row.start_uncertainty_us) == before
    # What is allocated anew is no such thing.
    mirror.see(changed(held, status={}))
    mirror.see(
        changed(held, status={"allocation": allocation(result("gpu-0"), timestamp="2026-04-02T00:01Z")})
    )
    storage.apply(cluster=mirror.cluster)
    assert Allocation.objects.get(epoch=3).ended_at is None


def test_a_file_that_goes_bad_under_the_desk_is_refused_by_name_too(history: Cluster, place: Path) -> None:
    (made,) = archive.archive(cluster=history, before=DECEMBER, now=LATER)
    storage.refold(cluster=history, uids=["over"])
    path = place / made.file.file_name
    stat, told = path.stat(), bytearray(path.read_bytes())
    told[4:-8] = b"\xff" * (len(told) - 12)
    path.write_bytes(told)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(archive.ArchiveDamaged, match="was changed"):
        storage.refold(cluster=history, uids=["over"])
