"""What the audit checks, and where administrators see it: conservation, capacity, what is open."""

from datetime import timedelta
from fractions import Fraction
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.urls import reverse

from claims import tasks
from claims.ledger import keeping, storage
from claims.ledger.audit import Audited, audit
from claims.ledger.conservation import Piece, add_up
from claims.models import Allocation, LedgerAudit, Request
from inventory.models import Claim, ClaimDevice, Cluster, CountedUnits, Device, Observation, Pod
from portal.accounts.models import User
from tests.claims.conftest import NOW, Cast
from tests.claims.mirror import mirror_claim, mirror_pod, observe
from tests.claims.test_ledger_units import scheduled

Kind = Observation.Kind
HOUR = 3_600_000_000
LATER = NOW + timedelta(hours=10)


@pytest.fixture
def fleet(cluster: Cluster) -> Cluster:
    """Four devices, published since NOW; one of them could not be had for two hours."""
    Cluster.objects.update(contacted_at=LATER)
    cluster.streams.update(listed_at=NOW, heard_at=LATER)
    for number, device in enumerate(Device.objects.select_related("pool").order_by("pk")):
        facts = {"driver": device.pool.driver, "pool": device.pool.name, "device": device.name}
        _seen(cluster, Kind.DEVICE_APPEARED, 0, key=f"a{number}", facts=facts | {"unavailable": ""})
        if number == 0:
            barred = facts | {"reason": "node-cordoned", "was": ""}
            _seen(cluster, Kind.DEVICE_UNAVAILABLE, 60, key="u", facts=barred)
            _seen(cluster, Kind.DEVICE_AVAILABLE, 180, key="v", facts=facts | {"was": "node-cordoned"})
    cluster.refresh_from_db()
    return cluster


def _seen(cluster: Cluster, kind: str, minutes: float, *, key: str, facts: dict[str, Any]) -> None:
    at = NOW + timedelta(minutes=minutes)
    Observation.objects.create(
        cluster=cluster, kind=kind, at=at, source="observed", observed_at=at, name="gpu", uid="", facts=facts,
        key=f"device/{key}",
    )  # fmt: skip


def lost(cluster: Cluster, start: float, end: float) -> None:
    facts = {"resource": "resourceclaims", "from": (NOW + timedelta(minutes=start)).isoformat(), "lost": True}
    _seen(cluster, Kind.GAP, end, key=f"gap{start}", facts=facts)


def checked(cluster: Cluster) -> Audited:
    storage.apply(cluster=cluster)
    return audit(cluster=cluster, now=LATER)


def hours(found: Audited) -> dict[str, Fraction]:
    names = ("existence", "allocated", "idle", "unavailable", "unknown")
    return {name: Fraction(getattr(found.sums, name), HOUR) for name in names}


def test_all_time_of_every_device_adds_up(fleet: Cluster, request_: Request) -> None:
    observe(request_, Kind.CLAIM_ALLOCATED, 120)
    observe(request_, Kind.CLAIM_RELEASED, 300)
    lost(fleet, 360, 420)
    found = checked(fleet)
    assert (found.violations, found.pieces) == ([], 4)
    assert hours(found) == {"existence": 40, "allocated": 3, "unavailable": 1, "unknown": 4, "idle": 32}


def test_what_was_seen_between_many_gaps_is_idle_and_not_unknown(fleet: Cluster) -> None:
    for number in range(40):
        lost(fleet, 10 * number, 10 * number + 3)
    assert hours(checked(fleet)) == {
        "existence": 40, "allocated": 0, "unavailable": Fraction(84, 60), "unknown": 4 * Fraction(120, 60),
        "idle": 32 - Fraction(84, 60),
    }  # fmt: skip


def test_what_is_held_while_nobody_looks_is_held(fleet: Cluster, request_: Request) -> None:
    observe(request_, Kind.CLAIM_ALLOCATED, 350)
    observe(request_, Kind.CLAIM_RELEASED, 430)
    lost(fleet, 360, 420)
    assert hours(checked(fleet))["unknown"] == 3


def test_shares_above_the_whole_are_named(fleet: Cluster, request_: Request) -> None:
    for number, amount in enumerate(("30Gi", "40Gi", "20Gi")):
        device = {
            "driver": "gpu.nvidia.com", "pool": "node-h100", "device": "gpu-0", "request": "r",
            "share_id": f"s{number}", "consumed_capacity": {"gpu.nvidia.com/memory": amount},
            "capacity": {"gpu.nvidia.com/memory": {"value": "80Gi"}},
        }  # fmt: skip
        observe(request_, Kind.CLAIM_ALLOCATED, number * 60, uid=f"c{number}", devices=[device])
        observe(request_, Kind.CLAIM_RELEASED, 240, uid=f"c{number}")
    found = checked(fleet)
    (violation,) = found.violations
    assert (violation.code, violation.where) == ("over-capacity", "gpu.nvidia.com/node-h100/gpu-0")
    assert "112% of gpu.nvidia.com/memory in use at 2026-11-10T14:00:00" in violation.detail
    # A negative idle is a defect to be shown, and not cut off.
    assert found.sums.conserved
    assert hours(found)["allocated"] == Fraction(4 * 30 + 3 * 40 + 2 * 20, 80)


def share(number: int, **more: Any) -> dict[str, Any]:
    return {
        "driver": "gpu.nvidia.com", "pool": "node-h100", "device": "gpu-0", "request": "r",
        "share_id": f"s{number}", **more,
    }  # fmt: skip


def test_a_share_of_which_nobody_tells_how_much_is_not_idle_and_exceeds_nothing(
    fleet: Cluster, request_: Request
) -> None:
    for number in range(3):
        observe(request_, Kind.CLAIM_ALLOCATED, number * 60, uid=f"c{number}", devices=[share(number)])
        observe(request_, Kind.CLAIM_RELEASED, 240, uid=f"c{number}")
    found = checked(fleet)
    assert found.violations == []
    assert hours(found)["allocated"] == 4


def test_who_has_the_whole_of_a_device_leaves_nobody_a_share_of_it(fleet: Cluster, request_: Request) -> None:
    name = "gpu.nvidia.com/memory"
    told = {"consumed_capacity": {name: "20Gi"}, "capacity": {name: {"value": "80Gi"}}}
    observe(request_, Kind.CLAIM_ALLOCATED, 0)
    observe(request_, Kind.CLAIM_ALLOCATED, 60, uid="c1", devices=[share(1, **told)])
    for uid in ("", "c1"):
        observe(request_, Kind.CLAIM_RELEASED, 120, uid=uid)
    (violation,) = checked(fleet).violations
    assert (violation.code, violation.where) == ("over-capacity", "gpu.nvidia.com/node-h100/gpu-0")
    assert "125%" in violation.detail


def test_what_a_second_holder_had_alone_is_not_idle(fleet: Cluster, request_: Request) -> None:
    observe(request_, Kind.CLAIM_ALLOCATED, 0, uid="a")
    observe(request_, Kind.CLAIM_RELEASED, 120, uid="a")
    observe(request_, Kind.CLAIM_ALLOCATED, 60, uid="b")
    observe(request_, Kind.CLAIM_RELEASED, 300, uid="b")
    found = checked(fleet)
    assert [one.code for one in found.violations] == ["overlap"]
    assert found.sums.conserved
    assert hours(found)["allocated"] == 5


def test_partitions_share_what_they_are_cut_from(fleet: Cluster, request_: Request) -> None:
    for number, used in enumerate(("10Gi", "30Gi")):
        device = {
            "driver": "gpu.nvidia.com", "pool": "node-h100", "device": f"gpu-0-mig-{number}", "request": "r",
            "counters": {"gpu-0-set/memory": {"used": used, "total": "40Gi"}},
        }  # fmt: skip
        observe(request_, Kind.CLAIM_ALLOCATED, 0, uid=f"c{number}", devices=[device])
        observe(request_, Kind.CLAIM_RELEASED, 120, uid=f"c{number}")
    found = checked(fleet)
    assert (found.violations, found.pieces) == ([], 5)
    assert hours(found)["allocated"] == 2
    whole = {
        "driver": "gpu.nvidia.com", "pool": "node-h100", "device": "gpu-0-full", "request": "r",
        "counters": {"gpu-0-set/memory": {"used": "40Gi", "total": "40Gi"}},
    }  # fmt: skip
    observe(request_, Kind.CLAIM_ALLOCATED, 60, uid="whole", devices=[whole])
    observe(request_, Kind.CLAIM_RELEASED, 120, uid="whole")
    (violation,) = checked(fleet).violations
    assert "200% of gpu-0-set/memory" in violation.detail


def test_what_the_cluster_does_not_know_or_the_ledger_lacks_is_named(
    fleet: Cluster, request_: Request
) -> None:
    scheduled(fleet)
    observe(request_, Kind.CLAIM_ALLOCATED, 0, uid="gone")
    storage.apply(cluster=fleet)
    claim = Claim.objects.create(
        cluster=fleet, namespace="n", name="c", uid="unheard", resource_version="1", spec={}, allocated=True,
        epoch=1,
    )  # fmt: skip
    ClaimDevice.objects.create(claim=claim, driver="d", pool_name="p", device_name="x", request="r")
    codes = sorted(violation.code for violation in checked(fleet).violations)
    assert codes == ["missing", "open-unknown", "open-unknown"]
    # What is observed and not folded yet is none of that.
    observe(request_, Kind.CLAIM_DELETED, 5, uid="gone")
    observe(request_, Kind.CLAIM_ALLOCATED, 5, uid="unheard")
    assert [v.code for v in audit(cluster=fleet, now=LATER).violations] == ["open-unknown"]


def test_every_device_and_every_unit_that_is_held_must_be_open(fleet: Cluster, request_: Request) -> None:
    claim = mirror_claim(request_, consumers=("w",))
    observe(request_, Kind.CLAIM_ALLOCATED, 0)
    scheduled(fleet)
    pod = mirror_pod(request_, node="node-a", uid="pod-1", extended_resources={"nvidia.com/gpu": 2})
    assert checked(fleet).violations == []
    ClaimDevice.objects.create(
        claim=claim, driver="gpu.nvidia.com", pool_name="node-h100", device_name="gpu-9", request="r"
    )
    Allocation.objects.filter(kind="units").delete()
    found = checked(fleet).violations
    assert [(one.code, one.where.split(" ")[0]) for one in found] == [
        ("missing", f"{claim.namespace}/{claim.name}"), ("missing", f"{pod.namespace}/{pod.name}"),
    ]  # fmt: skip
    # A claim serves them: then there is nothing to count.
    Pod.objects.update(extended_mapping={"container-0-request-0": "nvidia.com/gpu"})
    assert len(checked(fleet).violations) == 1


def test_more_units_than_a_node_has_are_named(fleet: Cluster) -> None:
    CountedUnits.objects.create(
        cluster=fleet,
        node_name="node-a",
        resource="nvidia.com/gpu",
        product="A100",
        capacity=1,
        allocatable=1,
    )
    scheduled(fleet, count=2)
    assert "2 units in use of 1" in [v.detail for v in checked(fleet).violations]


def test_a_check_is_kept_and_told(fleet: Cluster, request_: Request, cast: Cast) -> None:
    observe(request_, Kind.CLAIM_ALLOCATED, 0, uid="a")
    observe(request_, Kind.CLAIM_ALLOCATED, 5, uid="b")
    for _again in range(2):
        kept = keeping.check(cluster=fleet, now=LATER)
    assert LedgerAudit.objects.get() == kept
    assert {one["code"] for one in kept.violations} == {"overlap", "open-unknown"}
    html = page(cast.auditor, 200)
    assert "two holders" in html
    assert "Check now" not in html
    assert "Check now" in page(cast.admin, 200)
    told = StringIO()
    with pytest.raises(CommandError, match="3 violations"):
        call_command("ledger", "audit", stdout=told)
    assert "overlap" in told.getvalue()
    assert "device-hours" in told.getvalue()


def test_the_command_tells_and_sets_the_policy(cluster: Cluster) -> None:
    told = StringIO()
    call_command("ledger", "policy", stdout=told)
    assert "always: in favour of who pays" in told.getvalue()
    for wrong in ("2020-01-01", "soon"):
        with pytest.raises(CommandError):
            call_command("ledger", "policy", bound="operator", since=wrong, stdout=told)
    call_command("ledger", "policy", bound="operator", since="2999-01-01", stdout=told)
    assert "from 2999-01-01T00:00Z: in favour of who operates" in told.getvalue()


def test_every_ledger_is_checked_by_a_task(fleet: Cluster) -> None:
    tasks.audit_ledgers(cluster_id=fleet.pk)
    tasks.audit_ledgers(cluster_id=0)
    assert LedgerAudit.objects.get().devices == 4
    assert not Allocation.objects.exists()


@pytest.mark.parametrize("who", ["owner", "lead", "stranger", "finance"])
def test_only_who_reads_everything_sees_it(cast: Cast, who: str) -> None:
    page(getattr(cast, who), 403)


def page(user: User, status: int) -> str:
    client = Client()
    client.force_login(user)
    response = client.get(reverse("history-ledger"))
    assert response.status_code == status
    return response.content.decode()


def test_every_broken_invariant_is_named_where_it_is(
    fleet: Cluster, request_: Request, monkeypatch: pytest.MonkeyPatch
) -> None:
    observe(request_, Kind.CLAIM_ALLOCATED, 0)
    observe(request_, Kind.CLAIM_RELEASED, 60)
    storage.apply(cluster=fleet)
    assert checked(fleet).violations == []
    # The database refuses an end before its start; an uncertainty below nothing would move one there.
    Allocation.objects.update(end_uncertainty_us=-1)
    (violation,) = audit(cluster=fleet, now=LATER).violations
    assert violation.code == "negative-interval"
    assert f"uid {request_.object_uid} epoch 1" in violation.where
    Allocation.objects.update(end_uncertainty_us=0)

    def lossy(piece: Piece, blanks: Any) -> Any:
        sums, excess = add_up(piece, blanks)
        sums.idle += 1
        return sums, excess

    monkeypatch.setattr("claims.ledger.audit.add_up", lossy)
    found = audit(cluster=fleet, now=LATER)
    assert {one.code for one in found.violations} == {"not-conserved"}
    assert len(found.violations) == found.pieces
