"""The stored ledger: observations in, the same rows out, whoever folds them and however often."""

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import IntegrityError, transaction

from claims.ledger import storage
from claims.ledger.audit import audit
from claims.models import Allocation, Consumer, LedgerCursor, Request, RequestClaim
from claims.requests import pursuit
from inventory.models import Cluster, NamespaceBinding, Observation
from portal.accounts.models import Project
from tests.claims.conftest import IMAGE, NOW
from tests.claims.fakes import FakeCluster
from tests.claims.mirror import mirror_claim, observe

Kind = Observation.Kind
LATER = NOW + timedelta(days=1)


@pytest.fixture
def live(request_: Request, fake: FakeCluster) -> Request:
    pursuit.pursue(request_id=request_.pk, now=NOW, hold_image=IMAGE, connect=lambda _cluster: fake)
    request_.refresh_from_db()
    return request_


def rows() -> list[dict[str, Any]]:
    return [
        {name: value for name, value in row.items() if name != "id"}
        for row in Allocation.objects.order_by("started_at", "claim_uid", "device_name").values()
    ]


def test_an_allocation_is_billed_to_its_requests_project(live: Request, cluster: Cluster) -> None:
    observe(live, Kind.CLAIM_ALLOCATED, 1)
    observe(live, Kind.CLAIM_RELEASED, 61)
    assert storage.apply(cluster=cluster) == 2
    (row,) = Allocation.objects.all()
    assert (row.request, row.project) == (live, live.project)
    assert row.ended_at is not None
    assert row.ended_at - row.started_at == timedelta(hours=1)
    assert (row.product, row.device_class, row.hardware_id) == ("H100", "h100", "GPU-H100-0")


def test_folding_again_changes_nothing(live: Request, cluster: Cluster) -> None:
    observe(live, Kind.CLAIM_ALLOCATED, 1)
    storage.apply(cluster=cluster)
    before = list(Allocation.objects.values())
    assert storage.apply(cluster=cluster) == 0
    LedgerCursor.objects.update(observation_id=0)
    storage.apply(cluster=cluster)
    assert list(Allocation.objects.values()) == before


def test_an_open_interval_is_closed_by_a_later_batch(live: Request, cluster: Cluster) -> None:
    observe(live, Kind.CLAIM_ALLOCATED, 1)
    storage.apply(cluster=cluster)
    pk = Allocation.objects.get().pk
    observe(live, Kind.CLAIM_DELETED, 5)
    storage.apply(cluster=cluster)
    row = Allocation.objects.get()
    assert (row.pk, row.ended_at) == (pk, NOW + timedelta(minutes=5))


def test_without_a_request_the_namespace_pays_as_it_was_bound_at_the_start(
    live: Request, cluster: Cluster, project: Project, other_project: Project
) -> None:
    binding = NamespaceBinding.objects.get(namespace=live.namespace)
    binding.valid_until = NOW + timedelta(minutes=10)
    binding.save()
    NamespaceBinding.objects.create(
        cluster=cluster, namespace=live.namespace, project=other_project, valid_from=binding.valid_until
    )
    for number, minutes in enumerate((5, 15)):
        observe(live, Kind.CLAIM_ALLOCATED, minutes, uid=f"foreign-{number}")
    storage.apply(cluster=cluster)
    assert [row.project for row in Allocation.objects.order_by("started_at")] == [project, other_project]


def test_a_namespace_of_nobody_is_unattributed_and_not_dropped(live: Request, cluster: Cluster) -> None:
    NamespaceBinding.objects.all().delete()
    observe(live, Kind.CLAIM_ALLOCATED, 1, uid="foreign")
    storage.apply(cluster=cluster)
    row = Allocation.objects.get()
    assert (row.project, row.request) == (None, None)


def test_a_binding_that_is_entered_later_counts_from_when_it_began_to_hold(
    live: Request, cluster: Cluster, project: Project
) -> None:
    NamespaceBinding.objects.all().delete()
    observe(live, Kind.CLAIM_ALLOCATED, 10, uid="foreign")
    storage.apply(cluster=cluster)
    binding = NamespaceBinding.objects.create(
        cluster=cluster, namespace=live.namespace, project=project, valid_from=NOW + timedelta(minutes=11)
    )
    storage.reattribute(cluster=cluster)
    assert Allocation.objects.get().project is None
    NamespaceBinding.objects.filter(pk=binding.pk).update(valid_from=NOW)
    storage.reattribute(cluster=cluster)
    assert Allocation.objects.get().project == project


def test_a_claim_that_turns_out_to_be_a_requests_is_attributed_anew(live: Request, cluster: Cluster) -> None:
    observe(live, Kind.CLAIM_ALLOCATED, 1, uid="of-a-template")
    storage.apply(cluster=cluster)
    assert Allocation.objects.get().request is None
    RequestClaim.objects.create(
        cluster=cluster, claim_uid="of-a-template", claim_name="c", request=live, seen_at=NOW
    )
    storage.refold(cluster=cluster, uids=["of-a-template"])
    assert Allocation.objects.get().request == live


def test_consumers_are_kept_for_information(live: Request, cluster: Cluster) -> None:
    observe(live, Kind.CLAIM_ALLOCATED, 1)
    consumer = {"resource": "pods", "name": "work", "uid": "w"}
    observe(live, Kind.CONSUMER_JOINED, 2, consumer=consumer)
    observe(live, Kind.CONSUMER_LEFT, 3, consumer=consumer)
    storage.apply(cluster=cluster)
    stay = Consumer.objects.get()
    assert stay.left_at is not None
    assert (stay.name, stay.left_at - stay.joined_at) == ("work", timedelta(minutes=1))


def test_a_rebuilt_ledger_is_identical(live: Request, cluster: Cluster) -> None:
    for epoch in range(1, 6):
        observe(live, Kind.CLAIM_ALLOCATED, epoch * 10, epoch=epoch)
        storage.apply(cluster=cluster)
        observe(live, Kind.CLAIM_RELEASED, epoch * 10 + 5, epoch=epoch)
    observe(live, Kind.CLAIM_ALLOCATED, 70, uid="foreign")
    storage.apply(cluster=cluster)
    before = rows()
    assert len(before) == 6
    with pytest.raises(IntegrityError), transaction.atomic():
        # Another epoch has the device after that.
        Allocation.objects.filter(epoch=2).update(ended_at=None)
    Allocation.objects.filter(epoch=2).update(ended_at=NOW + timedelta(minutes=21), product="nonsense")
    Allocation.objects.filter(epoch=3).delete()
    call_command("ledger", "rebuild", stdout=StringIO())
    assert rows() == before


def test_batches_are_folded_one_after_the_other(
    live: Request, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "BATCH", 3)
    for number in range(4):
        observe(live, Kind.CLAIM_ALLOCATED, number, uid=f"claim-{number}")
        observe(live, Kind.CLAIM_RELEASED, number + 1, uid=f"claim-{number}")
    assert storage.apply(cluster=cluster) == 8
    assert Allocation.objects.exclude(ended_at=None).count() == 4


def test_a_fold_that_breaks_moves_no_cursor(
    live: Request, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    observe(live, Kind.CLAIM_ALLOCATED, 1)

    def broken(*_args: object, **_kwargs: object) -> None:
        raise RuntimeError("the database went away")

    with monkeypatch.context() as patch:
        patch.setattr(storage, "_write_consumers", broken)
        with pytest.raises(RuntimeError):
            storage.apply(cluster=cluster)
    assert Allocation.objects.count() == 0
    storage.apply(cluster=cluster)
    assert Allocation.objects.count() == 1


# --- audit ----------------------------------------------------------------------------------------


def test_a_sound_ledger_has_no_violations(live: Request, cluster: Cluster) -> None:
    mirror_claim(live, consumers=("w",))
    observe(live, Kind.CLAIM_ALLOCATED, 1)
    storage.apply(cluster=cluster)
    assert audit(cluster=cluster, now=LATER).violations == []
    told = StringIO()
    call_command("ledger", "audit", stdout=told)
    assert "every invariant holds" in told.getvalue()


def test_overlaps_of_an_exclusive_device_are_named(live: Request, cluster: Cluster) -> None:
    observe(live, Kind.CLAIM_ALLOCATED, 1, uid="one")
    observe(live, Kind.CLAIM_RELEASED, 100, uid="one")
    observe(live, Kind.CLAIM_ALLOCATED, 2, uid="two")
    observe(live, Kind.CLAIM_RELEASED, 3, uid="two")
    observe(live, Kind.CLAIM_ALLOCATED, 50, uid="three")
    observe(live, Kind.CLAIM_RELEASED, 60, uid="three")
    storage.apply(cluster=cluster)
    assert [violation.code for violation in audit(cluster=cluster, now=LATER).violations] == [
        "overlap",
        "overlap",
    ]


def test_shares_and_admin_access_may_overlap(live: Request, cluster: Cluster) -> None:
    extras: list[dict[str, Any]] = [{"share_id": "s1"}, {"share_id": "s2"}, {"admin_access": True}]
    for number, extra in enumerate(extras):
        device = {"driver": "d", "pool": "p", "device": "g", "request": "r", **extra}
        observe(live, Kind.CLAIM_ALLOCATED, number, uid=f"c{number}", devices=[device])
        observe(live, Kind.CLAIM_RELEASED, 100, uid=f"c{number}")
    storage.apply(cluster=cluster)
    assert audit(cluster=cluster, now=LATER).violations == []


def test_an_open_interval_that_the_mirror_does_not_know_is_named(live: Request, cluster: Cluster) -> None:
    observe(live, Kind.CLAIM_ALLOCATED, 1)
    storage.apply(cluster=cluster)
    assert [violation.code for violation in audit(cluster=cluster, now=LATER).violations] == ["open-unknown"]
    with pytest.raises(CommandError, match="1 violations"):
        call_command("ledger", "audit", stdout=StringIO())


@pytest.mark.django_db
def test_an_unknown_cluster_is_named() -> None:
    with pytest.raises(CommandError, match="nowhere"):
        call_command("ledger", "audit", cluster="nowhere")
