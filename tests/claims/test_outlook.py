"""Who holds what and until when, who waits, and how long others waited."""

from datetime import timedelta

import pytest
from django.template.loader import render_to_string
from django.urls import reverse

from claims.models import Flavor, Request, RequestClaim
from claims.preview.outlook import Line, expected, held_by, waiting
from claims.requests.actions import submit
from inventory.models import Claim, ClaimDevice, Cluster, Device
from portal.accounts.models import Project
from tests.claims import catalogue
from tests.claims.conftest import NOW, Cast
from tests.claims.fakes import FakeCluster

HOUR = timedelta(hours=1)


@pytest.fixture
def flavor(cluster: Cluster) -> Flavor:
    made = catalogue.flavor("h100")
    catalogue.placement(made, cluster)
    return made


@pytest.fixture
def line(cluster: Cluster, flavor: Flavor) -> Line:
    return Line(cluster=cluster, flavor=flavor.pk)


def claim(cluster: Cluster, namespace: str, name: str) -> Claim:
    return Claim.objects.create(
        cluster=cluster, namespace=namespace, name=name, uid=f"uid-{name}", resource_version="1", spec={},
        labels={}, status={}, allocated=True, epoch=1,
    )  # fmt: skip


def test_holders_are_told_by_project_and_end_and_the_request_only_to_who_may_see_it(
    cast: Cast, cluster: Cluster, request_: Request, other_project: Project
) -> None:
    Request.objects.update(expires_at=NOW + HOUR)
    claim(cluster, "protein-folding", "ours")
    claim(cluster, other_project.slug, "theirs")
    claim(cluster, "nobody", "stray")
    RequestClaim.objects.create(
        cluster=cluster, claim_uid="uid-ours", claim_name="ours", request=request_, seen_at=NOW
    )
    held = [
        ("d/p/0", "protein-folding/ours"), ("d/p/1", "protein-folding/ours"),
        ("d/p/2", f"{other_project.slug}/theirs"), ("d/p/3", "nobody/stray"),
    ]  # fmt: skip
    told = held_by(held, cluster=cluster, viewer=cast.owner, now=NOW)
    assert [(one.project, one.devices, one.until, one.request) for one in told] == [
        ("Protein folding", 2, NOW + HOUR, request_.key),
        ("", 1, None, None),
        (other_project.name, 1, None, None),
    ]
    first = held_by(held, cluster=cluster, viewer=cast.stranger, now=NOW)[0]
    assert (first.project, first.until, first.request) == ("Protein folding", NOW + HOUR, None)


def test_who_may_be_asked_is_told_by_one_of_their_devices_and_nobody_asks_themselves(
    cast: Cast, cluster: Cluster, request_: Request, other_project: Project
) -> None:
    ours, theirs = claim(cluster, "protein-folding", "ours"), claim(cluster, other_project.slug, "theirs")
    RequestClaim.objects.create(
        cluster=cluster, claim_uid="uid-ours", claim_name="ours", request=request_, seen_at=NOW
    )
    device = Device.objects.order_by("pk")[0]
    for row in (ours, theirs):
        ClaimDevice.objects.create(
            claim=row, device=device, driver="d", pool_name="p", device_name="0", request="r"
        )
    held = [("d/p/0", "protein-folding/ours"), ("d/p/1", f"{other_project.slug}/theirs")]

    told = held_by(held, cluster=cluster, viewer=cast.stranger, now=NOW)
    assert [(one.project, one.device) for one in told] == [
        ("Protein folding", device.pk), (other_project.name, None),
    ], "who holds past the desk cannot be asked through it"  # fmt: skip
    (mine, _other) = held_by(held, cluster=cluster, viewer=cast.owner, now=NOW, own=request_)
    assert (mine.own, mine.device) == (True, None)
    drawn = render_to_string("claims/_holder.html", {"one": told[0]})
    assert reverse("device-ask", args=[device.pk]) in drawn


def test_few_cases_are_no_data(cast: Cast, cluster: Cluster, flavor: Flavor, line: Line) -> None:
    catalogue.waited(flavor, cast.owner, cluster, 1, 2, 3, 4)
    told = expected(line, now=NOW)
    assert (told.typical, told.most, told.cases) == (None, None, 4)


def test_the_expected_wait_has_a_middle_and_a_ninth_tenth(
    cast: Cast, cluster: Cluster, flavor: Flavor, line: Line
) -> None:
    catalogue.waited(flavor, cast.owner, cluster, *range(1, 11))
    told = expected(line, now=NOW)
    assert (told.typical, told.most, told.cases) == (timedelta(minutes=5), timedelta(minutes=9), 10)


def test_who_still_waits_is_counted_in(cast: Cast, cluster: Cluster, flavor: Flavor, line: Line) -> None:
    catalogue.waited(flavor, cast.owner, cluster, *range(1, 11))
    Request.objects.filter(object_name__in=[f"waited-h100-{n}" for n in range(5, 10)]).update(
        allocated_at=None, state=Request.State.WAITING_FOR_DEVICE
    )
    told = expected(line, now=NOW)
    # They have waited for a day: half of all is more than those who got something.
    assert (told.typical, told.most, told.cases) == (timedelta(minutes=5), None, 5)


def test_a_line_is_of_the_same_flavor_or_class_and_leaves_out_who_asks(
    cast: Cast, cluster: Cluster, flavor: Flavor, line: Line, request_: Request
) -> None:
    Request.objects.update(state=Request.State.WAITING_FOR_DEVICE, asked_at=NOW - HOUR)
    by_class = Line(cluster=cluster, device_class="h100")
    assert waiting(by_class, before=NOW) == 1
    assert waiting(by_class, before=NOW - 2 * HOUR) == 0
    assert waiting(by_class, before=NOW, besides=str(request_.key)) == 0
    assert waiting(Line(cluster=cluster, device_class="a100"), before=NOW) == 0
    assert waiting(line, before=NOW) == 0


def test_who_has_a_device_waits_no_more(
    cast: Cast, cluster: Cluster, values: dict[str, object], fake: FakeCluster
) -> None:
    submit(user=cast.owner, values=values, now=NOW, connect=lambda _cluster: fake)
    Request.objects.update(state=Request.State.ALLOCATED, asked_at=NOW - HOUR, allocated_at=NOW)
    assert waiting(Line(cluster=cluster, device_class="h100"), before=NOW) == 0
