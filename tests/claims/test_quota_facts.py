"""What quotas count, from the ledger, the mirror and the requests."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from claims.models import Flavor, PriceBook, Quota, Request, RequestPod
from claims.quotas.facts import gather
from inventory.models import Cluster, Observation, Pod
from portal.accounts.models import Project
from tests.claims import catalogue, quotas
from tests.claims.conftest import GIB, NOW, Cast

Kind = Quota.Kind
State = Request.State
HOUR = timedelta(hours=1)


@pytest.fixture
def flavor(cluster: Cluster) -> Flavor:
    made = catalogue.flavor("h100")
    catalogue.placement(made, cluster)
    return made


def stand(quota: Quota) -> Any:
    """Its standing; Any, since numbers are compared with whole ones."""
    return gather([quota], now=NOW).standing(quota)


def numbers(quota: Quota) -> tuple[Any, Any]:
    found = stand(quota)
    return found.used, found.asked


def test_open_intervals_are_used_and_active_requests_ask(
    cast: Cast, project: Project, other_project: Project, cluster: Cluster
) -> None:
    first = quotas.asked(project, cluster, count=2, allocated_at=NOW, expires_at=NOW + timedelta(hours=5))
    quotas.held(project, cluster, "gpu-0", first)
    # Held past the desk, over, admin access, another project's: only the first counts.
    quotas.held(project, cluster, "gpu-1")
    quotas.held(project, cluster, "gpu-2", ended_at=NOW - timedelta(hours=1))
    quotas.held(project, cluster, "gpu-3", admin_access=True)
    quotas.held(other_project, cluster, "gpu-4")
    quotas.asked(project, cluster, state=State.WAITING_FOR_APPROVAL)
    quotas.asked(project, cluster, state=State.REJECTED)
    quotas.asked(project, cluster, state=State.ENDING)
    assert numbers(quotas.quota(project)) == (2, 2)


def test_of_a_flavor_also_counts_what_describes_its_class(
    cast: Cast, project: Project, cluster: Cluster, flavor: Flavor
) -> None:
    other = catalogue.flavor("a100")
    catalogue.placement(other, cluster)
    of = quotas.asked(project, cluster, flavor=flavor)
    quotas.held(project, cluster, "gpu-0", of)
    quotas.asked(project, cluster, device_class="h100")
    quotas.asked(project, cluster, device_class="a100")
    quotas.held(project, cluster, "gpu-1", device_class="a100")
    assert numbers(quotas.quota(project, flavor=flavor)) == (1, 1)
    assert numbers(quotas.quota(project, flavor=other)) == (1, 1)
    assert numbers(quotas.quota(project)) == (2, 2)


def test_an_alternative_that_was_given_counts_for_its_own_flavor(
    cast: Cast, project: Project, cluster: Cluster, flavor: Flavor
) -> None:
    other = catalogue.flavor("a100")
    catalogue.placement(other, cluster)
    options = {
        "alternatives": [{"flavor": "a100", "count": 2}],
        "parts": [{"device_class": "h100", "count": 1}],
    }
    request = quotas.asked(project, cluster, flavor=flavor, options=options)
    # Asked: of H100 one, or two A100; and one H100 besides.
    assert numbers(quotas.quota(project, flavor=flavor)) == (0, 2)
    assert numbers(quotas.quota(project, flavor=other)) == (0, 2)
    assert numbers(quotas.quota(project)) == (0, 3)
    for device in ("gpu-0", "gpu-1"):
        quotas.held(
            project, cluster, device, request, request_name="accelerator/choice-2", device_class="a100"
        )
    quotas.held(project, cluster, "gpu-2", request, request_name="part-2")
    assert numbers(quotas.quota(project, flavor=flavor))[0] == 1
    assert numbers(quotas.quota(project, flavor=other)) == (2, 0)


def test_memory_is_what_devices_tell_and_at_most_what_the_class_has(
    cast: Cast, project: Project, cluster: Cluster
) -> None:
    quotas.held(project, cluster, "gpu-0")
    quotas.held(project, cluster, "gpu-1", share_id="s", consumed_capacity={"gpu.nvidia.com/memory": "10Gi"})
    quotas.held(project, cluster, "gpu-2", capacity={})
    quotas.asked(project, cluster, count=2, device_class="gpu")
    found = stand(quotas.quota(project, "640Gi", kind=Kind.MEMORY))
    assert (found.used, found.asked, found.unmeasured) == (90 * GIB, 160 * GIB, 1)


def test_pods_of_entitlements_use_units_before_the_ledger_knows_them(
    cast: Cast, project: Project, cluster: Cluster
) -> None:
    made = catalogue.flavor("plugin")
    catalogue.placement(made, cluster, device_class="", extended_resource="nvidia.com/gpu")
    catalogue.units(cluster)
    columns: dict[str, Any] = {"shape": "entitlement", "backend": "device-plugin", "device_class": ""}
    request = quotas.asked(
        project, cluster, count=3, flavor=made, extended_resource="nvidia.com/gpu", **columns
    )
    pod = Pod.objects.create(
        cluster=cluster, namespace="protein-folding", name="p", uid="pod-p", resource_version="1",
        phase="Running", node_name="node-h100", extended_resources={"nvidia.com/gpu": "2"},
    )  # fmt: skip
    RequestPod.objects.create(cluster=cluster, pod_uid=pod.uid, pod_name="p", request=request, seen_at=NOW)
    assert numbers(quotas.quota(project, flavor=made)) == (2, 1)
    memory = stand(quotas.quota(project, "1Ti", kind=Kind.MEMORY))
    assert (memory.used, memory.asked) == (160 * GIB, 80 * GIB)
    # Once it is in the ledger, it is not counted twice.
    quotas.held(
        project, cluster, "gpu", request, kind="units", claim_uid=pod.uid, claim_name="p", units=2,
        driver="nvidia.com", device_class="", extended_resource="nvidia.com/gpu", capacity={},
    )  # fmt: skip
    assert numbers(quotas.quota(project, flavor=made)) == (2, 1)


def test_hours_of_the_month_are_the_ledgers_up_to_now_and_unseen_ones_are_apart(
    cast: Cast, project: Project, cluster: Cluster, flavor: Flavor
) -> None:
    quotas.held(project, cluster, "gpu-0")
    quotas.held(
        project, cluster, "gpu-1", started_at=NOW - timedelta(hours=10), ended_at=NOW - timedelta(hours=4),
        end_uncertainty_us=3 * 3_600_000_000,
    )  # fmt: skip
    # Begun last month: only the part of this one counts, by UTC.
    month = NOW.replace(day=1, hour=0)
    quotas.held(
        project, cluster, "gpu-2", started_at=month - timedelta(hours=5), ended_at=month + timedelta(hours=1)
    )
    quotas.held(project, cluster, "gpu-3", device_class="a100", ended_at=NOW)
    whole = stand(quotas.quota(project, "100", kind=Kind.HOURS))
    assert (whole.used, whole.unseen) == (2 + 6 + 1 + 2, 3)
    of = stand(quotas.quota(project, "100", kind=Kind.HOURS, flavor=flavor))
    assert (of.used, of.unseen) == (2 + 6 + 1, 3)


@pytest.mark.parametrize("of_flavor", [False, True])
def test_months_begin_and_end_where_the_organisation_is(  # noqa: PLR0917 - fixtures
    cast: Cast, project: Project, cluster: Cluster, flavor: Flavor, settings: Any, of_flavor: bool
) -> None:
    """In Shanghai November begins eight hours before it does in UTC, and ends eight hours before."""
    november = datetime(2026, 11, 1, tzinfo=UTC)
    quotas.held(project, cluster, started_at=november - 10 * HOUR, ended_at=november - 6 * HOUR)
    limit = quotas.quota(project, limit="50", kind=Kind.HOURS, flavor=flavor if of_flavor else None)
    assert numbers(limit) == (0, 0)
    settings.ORGANISATION_ZONE = "Asia/Shanghai"
    assert numbers(limit) == (2, 0)

    quotas.asked(project, cluster, flavor=flavor)
    late = datetime(2026, 11, 30, 4, tzinfo=UTC)
    found = gather([limit], now=late).standing(limit)
    assert found.asked == 12, "until midnight there"
    settings.ORGANISATION_ZONE = "UTC"
    assert gather([limit], now=late).standing(limit).asked == 20


def test_nothing_observed_is_unknown_and_something_elsewhere_is_zero(
    cast: Cast, project: Project, other_project: Project, cluster: Cluster
) -> None:
    quota = quotas.quota(project, "100", kind=Kind.HOURS)
    assert stand(quota).used is None
    quotas.held(other_project, cluster)
    assert stand(quota).used == 0
    assert not Observation.objects.exists()


def test_money_is_by_the_price_books_and_what_has_no_price_is_apart(
    cast: Cast, project: Project, cluster: Cluster, flavor: Flavor, prices: PriceBook
) -> None:
    quotas.held(project, cluster, "gpu-0")
    quotas.held(project, cluster, "gpu-1", product="A100", device_class="a100")
    quotas.asked(project, cluster, flavor=flavor, duration=timedelta(hours=4))
    whole = stand(quotas.quota(project, "100", kind=Kind.MONEY, currency="EUR"))
    assert (whole.used, whole.asked, whole.unmeasured) == (5, 10, 1)
    of = stand(quotas.quota(project, "100", kind=Kind.MONEY, currency="EUR", flavor=flavor))
    assert (of.used, of.asked, of.unmeasured) == (5, 10, 0)


def test_queries_depend_neither_on_quotas_nor_on_what_they_count(  # noqa: PLR0917 - fixtures
    cast: Cast, project: Project, other_project: Project, cluster: Cluster, flavor: Flavor, prices: PriceBook
) -> None:
    def count() -> int:
        rows = list(Quota.objects.select_related("project", "flavor"))
        with CaptureQueriesContext(connection) as captured:
            gathered = gather(rows, now=NOW)
            for row in rows:
                gathered.standing(row)
        return len(captured)

    def grow(of: Project, start: int) -> None:
        for kind, limit in ((Kind.DEVICES, "8"), (Kind.MEMORY, "1Ti"), (Kind.HOURS, "9"), (Kind.MONEY, "9")):
            currency = "EUR" if kind == Kind.MONEY else ""
            quotas.quota(of, limit, kind=kind, currency=currency)
            quotas.quota(of, limit, kind=kind, currency=currency, flavor=flavor)
        for number in range(start, start + 5):
            quotas.held(of, cluster, f"gpu-{number}", quotas.asked(of, cluster, flavor=flavor))

    grow(project, 0)
    before = count()
    grow(project, 10)
    grow(other_project, 20)
    assert count() == before
