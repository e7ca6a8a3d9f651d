"""One exclusive device has one holder at a time: neighbours that overlap by a moment, two holders, and the
database that refuses anything else."""

import random
from datetime import timedelta
from itertools import pairwise, permutations
from typing import Any

import pytest
from django.db import IntegrityError, transaction

from claims.ledger import keeping, storage
from claims.models import Allocation, LedgerPolicy, Request
from inventory.models import Cluster, Observation
from portal.accounts.models import AuditEntry
from tests.claims.conftest import NOW, Cast
from tests.claims.mirror import observe

Kind = Observation.Kind
SECOND = 1 / 60


def told() -> list[tuple[str, float, float | None, bool]]:
    rows = Allocation.objects.order_by("claim_uid")
    return [
        (
            row.claim_uid,
            (row.started_at - NOW) / timedelta(minutes=1),
            None if row.ended_at is None else (row.ended_at - NOW) / timedelta(minutes=1),
            row.contested,
        )
        for row in rows
    ]


def test_neighbours_that_overlap_by_a_moment_end_where_the_next_begins(
    request_: Request, cluster: Cluster
) -> None:
    observe(request_, Kind.CLAIM_ALLOCATED, 1, uid="a")
    observe(request_, Kind.CLAIM_RELEASED, 10 + 2 * SECOND, uid="a")
    observe(request_, Kind.CLAIM_ALLOCATED, 10, uid="b")
    storage.apply(cluster=cluster)
    assert told() == [("a", 1, 10, False), ("b", 10, None, False)]
    assert Allocation.objects.get(claim_uid="a").end_cut_us == 2_000_000
    # It turns out that the second one began later: the first gets back what was cut off.
    Observation.objects.filter(uid="b").delete()
    observe(request_, Kind.CLAIM_ALLOCATED, 10 + SECOND, uid="b")
    storage.refold(cluster=cluster, uids=["b"])
    assert Allocation.objects.get(claim_uid="a").end_cut_us == 1_000_000


def test_two_holders_are_both_kept_and_the_later_one_is_contested(
    request_: Request, cluster: Cluster
) -> None:
    observe(request_, Kind.CLAIM_ALLOCATED, 1, uid="a")
    observe(request_, Kind.CLAIM_ALLOCATED, 5, uid="b")
    storage.apply(cluster=cluster)
    assert told() == [("a", 1, None, False), ("b", 5, None, True)]
    # The first one's end was seen late: there never were two.
    observe(request_, Kind.CLAIM_DELETED, 4, uid="a")
    storage.apply(cluster=cluster)
    assert told() == [("a", 1, 4, False), ("b", 5, None, False)]


def test_every_order_gives_the_same_ledger(request_: Request, cluster: Cluster) -> None:
    lives = [("a", 1, 10 + SECOND), ("b", 10, 30), ("c", 20, 25), ("d", 29, None), ("e", 0, 1)]
    outcomes = set()
    for order in random.Random(7).sample(list(permutations(range(len(lives)))), 12):
        Observation.objects.all().delete()
        Allocation.objects.all().delete()
        for index in order:
            uid, start, end = lives[index]
            observe(request_, Kind.CLAIM_ALLOCATED, start, uid=uid)
            if end is not None:
                observe(request_, Kind.CLAIM_RELEASED, end, uid=uid)
            storage.apply(cluster=cluster)
        outcomes.add(tuple(told()))
    assert len(outcomes) == 1
    sound = sorted(((s, e) for _uid, s, e, contested in told() if not contested), key=lambda one: one[0])
    assert all(end is not None and end <= start for (_, end), (start, _) in pairwise(sound))
    assert [uid for uid, _s, _e, contested in told() if contested] == ["c", "d"]


def test_the_database_refuses_a_second_holder(request_: Request, cluster: Cluster) -> None:
    observe(request_, Kind.CLAIM_ALLOCATED, 1, uid="a")
    observe(request_, Kind.CLAIM_RELEASED, 10, uid="a")
    storage.apply(cluster=cluster)
    values: dict[str, Any] = dict(Allocation.objects.values().get())
    for name in ("id", "started_us", "ended_us"):
        del values[name]
    values["claim_uid"] = "b"
    with pytest.raises(IntegrityError), transaction.atomic():
        Allocation.objects.create(**values)
    allowed: list[dict[str, Any]] = [
        {"share_id": "s"}, {"admin_access": True}, {"contested": True}, {"kind": "units"},
        {"started_at": values["ended_at"], "ended_at": None}, {"device_name": "gpu-1"},
        {"ended_at": values["started_at"]},
    ]  # fmt: skip
    for number, change in enumerate(allowed):
        Allocation.objects.create(**values | change | {"claim_uid": f"c{number}"})
    with pytest.raises(IntegrityError), transaction.atomic():
        Allocation.objects.filter(contested=True).update(contested=False)


def test_a_policy_says_which_bound_is_billed_and_never_reaches_back(
    cast: Cast, request_: Request, cluster: Cluster
) -> None:
    keeping.set_policy(bound="operator", since=NOW + timedelta(minutes=30), actor=cast.admin, now=NOW)
    with pytest.raises(keeping.UnableToSetPolicy):
        keeping.set_policy(bound="operator", since=NOW - timedelta(1), actor=cast.admin, now=NOW)
    assert AuditEntry.objects.filter(action="ledger.policy").count() == LedgerPolicy.objects.count() == 1
    for uid, start in (("a", 10), ("b", 40)):
        observe(request_, Kind.CLAIM_ALLOCATED, start, uid=uid)
        observe(request_, Kind.CLAIM_RELEASED, start + 15, uid=uid)
    Observation.objects.filter(kind=Kind.CLAIM_RELEASED).delete()
    for uid, end in (("a", 25), ("b", 55)):
        seen = observe(request_, Kind.CLAIM_DELETED, end, uid=uid)
        Observation.objects.filter(pk=seen.pk).delete()
        seen.pk, seen.uncertainty_us = None, 5 * 60 * 1_000_000
        seen.save(force_insert=True)
    storage.apply(cluster=cluster)
    assert told() == [("a", 10, 20, False), ("b", 40, 55, False)]
    assert [row.bound for row in Allocation.objects.order_by("claim_uid")] == ["tenant", "operator"]
    assert {row.end_uncertainty_us for row in Allocation.objects.all()} == {5 * 60 * 1_000_000}
