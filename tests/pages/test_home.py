"""The first page: what is mine, what needs me, what it costs, how the clusters are."""

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from claims.models import Allocation, Price, PriceBook, Request
from inventory.models import (
    Cluster,
    Device,
    DeviceProfile,
    NamespaceBinding,
    Pool,
    ResourceQuota,
    Stream,
)
from portal.accounts.models import User
from tests.cast import Cast
from tests.pages.fleet import cluster, devices, request

pytestmark = pytest.mark.django_db


def page(client: Client, user: User) -> str:
    client.force_login(user)
    response = client.get("/")
    assert response.status_code == 200
    return response.content.decode()


def test_a_newcomer_is_told_how_to_begin(client: Client, cast: Cast) -> None:
    cast.member.memberships.all().delete()

    shown = page(client, cast.member)

    assert "You are not a member of a project yet" in shown
    assert "/requests/new/" not in shown


def test_the_one_obvious_button_is_there_for_who_may_ask(client: Client, cast: Cast) -> None:
    assert 'href="/requests/new/"' in page(client, cast.member)
    assert 'href="/requests/new/"' not in page(client, cast.auditor)


def test_only_own_running_requests_are_mine(client: Client, cast: Cast) -> None:
    request(cast, purpose="my running one", state="in-use")
    request(cast, purpose="my old one", state="ended")
    request(cast, purpose="a teammate's", requester=cast.teammate)

    shown = page(client, cast.member)

    assert "my running one" in shown
    assert "my old one" not in shown
    assert "a teammate&#x27;s" not in shown


def test_what_needs_me_is_named_with_its_reason(client: Client, cast: Cast) -> None:
    now = timezone.now()
    request(cast, state="failed", message="class b200 does not exist")
    request(cast, state="waiting-for-pod")
    request(cast, state="in-use", allocated_at=now, expires_at=now + timedelta(hours=2, minutes=1))
    request(cast, state="in-use", allocated_at=now, expires_at=now + timedelta(days=9))

    client.force_login(cast.member)
    needs = client.get("/").context["needs"]

    assert [need.why for need in needs] == ["failed", "expiring", "pod"]
    assert "class b200 does not exist" in page(client, cast.member)


@pytest.mark.parametrize(("who", "count"), [("lead", 1), ("administrator", 1), ("member", 0), ("auditor", 0)])
def test_what_waits_for_ones_decision_needs_one(client: Client, cast: Cast, who: str, count: int) -> None:
    request(cast, state="waiting-for-approval", approval="lead")

    client.force_login(getattr(cast, who))
    response = client.get("/")

    assert response.context["to_decide"] == count
    assert ("/approvals/" in response.content.decode().partition('id="home-live"')[2]) == bool(count)


def test_failures_of_long_ago_need_nobody(client: Client, cast: Cast) -> None:
    old = request(cast, state="failed")
    Request.objects.filter(pk=old.pk).update(changed_at=timezone.now() - timedelta(days=10))

    client.force_login(cast.member)

    assert client.get("/").context["needs"] == []


def test_a_cluster_in_step_tells_its_counts(client: Client, cast: Cast) -> None:
    devices(cluster(), free=3, held=2, unavailable=1)

    shown = page(client, cast.member)

    assert "3 free" in shown
    assert "2 held" in shown
    assert 'aria-label="2 held, 3 free, 1 unavailable"' in shown


def test_partitions_are_not_added_to_the_devices_that_they_are_cut_from(client: Client, cast: Cast) -> None:
    where = cluster()
    devices(where, free=2)
    whole = DeviceProfile.objects.get()
    devices(where, free=14)
    parts = DeviceProfile.objects.create(
        digest="part", driver=whole.driver, attributes={}, capacity={}, kind="partition"
    )
    Device.objects.filter(pool=Pool.objects.latest("pk")).update(profile=parts)

    shown = page(client, cast.member)

    assert "2 free" in shown
    assert "whole devices; 14 partitions not counted" in shown


def test_a_cluster_out_of_step_tells_nothing_as_present_fact(client: Client, cast: Cast) -> None:
    devices(cluster(state=Cluster.State.UNREACHABLE), free=3, held=2)

    shown = page(client, cast.member)

    assert "5 devices, state unknown" in shown
    assert "3 free" not in shown


def test_a_silent_watch_is_out_of_step_too(client: Client, cast: Cast) -> None:
    devices(cluster(), free=3)
    Stream.objects.update(
        heard_at=timezone.now() - timedelta(hours=1), listed_at=timezone.now() - timedelta(hours=1)
    )

    assert "3 devices, state unknown" in page(client, cast.member)


def test_the_month_costs_what_was_held(client: Client, cast: Cast) -> None:
    now = timezone.now()
    book = PriceBook.objects.create(name="b", currency="EUR", valid_from=now - timedelta(days=400))
    Price.objects.create(book=book, per_hour=Decimal("2.5"))
    start = timezone.localtime(now).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    Allocation.objects.create(
        cluster=cluster(),
        namespace="tides",
        claim_name="c",
        claim_uid="u",
        epoch=1,
        driver="d",
        pool_name="p",
        device_name="g",
        request_name="r",
        start_source="observed",
        started_at=start - timedelta(hours=5),
        ended_at=start,
        project=cast.project,
    )
    Allocation.objects.create(
        cluster=Cluster.objects.get(),
        namespace="tides",
        claim_name="c",
        claim_uid="u2",
        epoch=1,
        driver="d",
        pool_name="p",
        device_name="g",
        request_name="r",
        start_source="observed",
        started_at=start,
        ended_at=start + (now - start) / 2,
        project=cast.project,
    )

    client.force_login(cast.member)
    costs = client.get("/").context["costs"]

    hours = (now - start) / 2 / timedelta(hours=1)
    assert [cost.project for cost in costs] == [cast.project]
    assert float(costs[0].now.totals["EUR"]) == pytest.approx(2.5 * hours, abs=0.01)
    (bar,) = costs[0].bars
    # The five hours before belong to the month before.
    assert (bar.amount, bar.before) == (costs[0].now.totals["EUR"], Decimal("12.50"))
    assert max(bar.percent, bar.percent_before) == 100


def test_use_without_a_price_is_said_not_counted_as_zero(client: Client, cast: Cast) -> None:
    now = timezone.now()
    Allocation.objects.create(
        cluster=cluster(),
        namespace="tides",
        claim_name="c",
        claim_uid="u",
        epoch=1,
        driver="d",
        pool_name="p",
        device_name="g",
        request_name="r",
        start_source="observed",
        started_at=now - timedelta(minutes=1),
        project=cast.project,
    )

    assert "Some use has no price." in page(client, cast.member)


def test_a_request_is_shown_with_its_device_and_its_cost_so_far(client: Client, cast: Cast) -> None:
    now = timezone.now()
    book = PriceBook.objects.create(name="b", currency="EUR", valid_from=now - timedelta(days=400))
    Price.objects.create(book=book, per_hour=Decimal("2.5"))
    (device,) = devices(cluster(), held=1)
    mine = request(cast, state="in-use", created_at=now - timedelta(hours=4))
    for uid, start, end in (("u1", 4, 3), ("u2", 2, None)):
        Allocation.objects.create(
            cluster=device.cluster, namespace="tides", claim_name="c", claim_uid=uid, epoch=1,
            driver=device.pool.driver, pool_name=device.pool.name, device_name=device.name,
            request_name="r", node_name=device.node_name, start_source="observed", request=mine,
            started_at=now - timedelta(hours=start), project=cast.project,
            ended_at=None if end is None else now - timedelta(hours=end),
        )  # fmt: skip

    client.force_login(cast.member)
    (row,) = client.get("/").context["requests"]

    assert [(held.pk, held.node) for held in row.devices] == [(device.pk, device.node_name)]
    assert float(row.totals["EUR"]) == pytest.approx(7.5, abs=0.02)
    assert f'href="/devices/{device.pk}/"' in page(client, cast.member)


def quota(namespace: str = "tides", **values: Any) -> None:
    ResourceQuota.objects.create(**{
        "cluster": cluster(), "namespace": namespace, "name": "gpus", "uid": namespace,
        "resource_version": "1", "counted": True, "used": {"requests.nvidia.com/gpu": "3"},
        "hard": {"requests.nvidia.com/gpu": "4", "requests.cpu": "10"}, **values,
    })  # fmt: skip


def test_quotas_on_devices_of_ones_projects_are_bars(client: Client, cast: Cast) -> None:
    now = timezone.now()
    for name, project in (("tides", cast.project), ("ice", cast.other)):
        NamespaceBinding.objects.create(
            cluster=cluster(), namespace=name, project=project, valid_from=now - timedelta(days=1)
        )
        quota(name)

    client.force_login(cast.member)
    ((project, allowances),) = client.get("/").context["quotas"]

    assert project == cast.project
    assert [(a.quota.key, a.percent) for a in allowances] == [("requests.nvidia.com/gpu", 75.0)]
    assert "3 of 4" in page(client, cast.member)


@pytest.mark.parametrize(
    ("values", "percent", "shown"),
    [
        ({"counted": False, "used": {}}, None, "at most 4"),
        ({"used": {"requests.nvidia.com/gpu": "many"}}, None, "many of 4"),
        ({"hard": {"requests.nvidia.com/gpu": "0"}, "used": {}}, 100.0, "0 of 0"),
        ({"used": {"requests.nvidia.com/gpu": "9"}}, 100.0, "9 of 4"),
    ],
)
def test_a_quota_that_cannot_be_reckoned_has_no_bar(
    client: Client, cast: Cast, values: dict[str, Any], percent: float | None, shown: str
) -> None:
    since = timezone.now() - timedelta(days=1)
    NamespaceBinding.objects.create(
        cluster=cluster(), namespace="tides", project=cast.project, valid_from=since
    )
    quota(**values)
    client.force_login(cast.member)
    ((_project, (allowance,)),) = client.get("/").context["quotas"]
    assert allowance.percent == percent
    assert shown in page(client, cast.member)


def test_who_has_the_live_part_already_is_told_so_with_nothing(client: Client, cast: Cast) -> None:
    request(cast, state="waiting-for-pod")
    client.force_login(cast.member)
    polled = client.get("/", headers={"HX-Request": "true"})

    again = client.get("/", headers={"HX-Request": "true", "If-None-Match": polled["ETag"]})
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", polled["ETag"])

    request(cast, state="in-use", purpose="news")
    other = client.get("/", headers={"HX-Request": "true", "If-None-Match": polled["ETag"]})
    assert other.status_code == 200
    assert "news" in other.content.decode()


def test_htmx_polls_the_live_part_alone(client: Client, cast: Cast) -> None:
    client.force_login(cast.member)

    response = client.get("/", headers={"HX-Request": "true"})

    assert response.content.decode().strip().startswith('<div class="cd-columns" id="home-live"')
    assert "HX-Request" in response["Vary"]


def test_the_number_of_queries_does_not_grow(
    client: Client, cast: Cast, django_assert_num_queries: object
) -> None:
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    client.force_login(cast.member)
    counts = []
    where = cluster()
    for _ in range(2):
        request(cast, state="in-use")
        request(cast, state="failed")
        devices(where, free=2)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            client.get("/")
        counts.append(len(queries))

    assert counts[0] == counts[1]
    assert Device.objects.count() == 4
