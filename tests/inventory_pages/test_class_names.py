"""Classes by name across clusters: where they are, where they differ, who uses and who manages them."""

from collections.abc import Mapping
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from inventory.class_names import managed_by
from inventory.models import Claim, ClaimTemplate, DeviceClass, PlatformContract
from tests.claims.catalogue import flavor, placement
from tests.inventory_pages.conftest import INSIDERS, OUTSIDERS, Cast, Fleet
from tests.inventory_pages.factories import NVIDIA, make_class, make_cluster, make_device, make_drift

NAMES = "/class-names/"
SPEC = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": NVIDIA}}]}}


@pytest.fixture
def two(cast: Cast, fleet: Fleet) -> Client:
    """Berlin as it is; Oslo of the same group, where one class differs, one is missing and one is new."""
    oslo = make_cluster("oslo")
    for cluster in (fleet.cluster, oslo):
        PlatformContract.objects.create(
            cluster=cluster, group="science", changed_at=timezone.now(), changed_by=cast.administrator
        )
    device = make_device(oslo, "gpu-9", node="gpu-09")
    make_class(
        oslo,
        NVIDIA,
        profiles=(device.profile,),
        expression='device.driver == "gpu.nvidia.com" && true',
        extended_resource_name="nvidia.com/gpu",
        managers=["kubectl-edit"],
    )
    make_class(oslo, "mine", expression="false", managers=["claimdesk"])
    ClaimTemplate.objects.create(
        cluster=oslo, namespace="tides", name="each", uid="t", resource_version="1", spec=SPEC
    )
    for number in range(3):
        Claim.objects.create(
            cluster=oslo,
            namespace="tides",
            name=f"w{number}",
            uid=f"w{number}",
            resource_version="1",
            spec=SPEC,
        )
    placement(flavor("whole", name="Whole GPU"), oslo, device_class=NVIDIA)
    return cast.client("auditor")


def rows(client: Client, **query: Any) -> Mapping[str, Any]:
    response = client.get(NAMES, query)
    assert response.status_code == 200
    return {row.name: row for row in response.context["rows"]}


@pytest.mark.parametrize("role", sorted({*INSIDERS, *OUTSIDERS} - {"administrator", "auditor"}))
def test_only_those_who_read_everything_may(role: str, cast: Cast, fleet: Fleet) -> None:
    for path in (NAMES, f"{NAMES}{NVIDIA}/"):
        assert cast.client(role).get(path).status_code == 403


def test_a_name_is_one_row_with_all_that_is_told_of_it(two: Client) -> None:
    found = rows(two)
    row = found[NVIDIA]
    assert row.clusters == ["berlin", "oslo"]
    assert (row.matched, row.free) == (4, 2)
    assert (row.templates, row.flavors, row.resources) == (1, ["Whole GPU"], ["nvidia.com/gpu"])
    # Three that wait, and the two that hold a device in Berlin.
    assert row.claims == 3 + Claim.objects.filter(cluster__name="berlin").count()
    assert row.differing == [("berlin", "oslo")]
    assert not row.missing
    assert found["mine"].missing == ["berlin"]
    assert found["mine"].managers == ["portal"]
    assert found["gpu.amd.com"].missing == ["oslo"]


def test_clusters_of_no_common_group_need_not_agree(two: Client) -> None:
    PlatformContract.objects.filter(cluster__name="oslo").update(group="other")
    assert not any(row.differing or row.missing for row in rows(two).values())


def test_drift_is_told_by_cluster(two: Client) -> None:
    make_drift(DeviceClass.objects.get(name=NVIDIA, cluster__name="oslo"))
    found = rows(two, kind="drift")
    assert {name: row.drift for name, row in found.items()} == {NVIDIA: ["oslo"]}


def test_it_is_searched_narrowed_ordered_and_told_as_csv(two: Client) -> None:
    assert list(rows(two, q="nvidia.com/gpu")) == [NVIDIA]
    assert list(rows(two, managed="hand")) == [NVIDIA]
    assert list(rows(two, kind="differs")) == [NVIDIA]
    assert list(rows(two, kind="unmatched", cluster="oslo")) == ["mine"]
    assert next(iter(rows(two, sort="-devices"))) == NVIDIA
    assert list(rows(two, q="\x00none")) == []
    text = two.get(NAMES, {"format": "csv", "sort": "-users"}).getvalue().decode("utf-8-sig")
    head, first, *_rest = text.splitlines()
    assert head.startswith("class,clusters,missing,differing")
    assert first.startswith(f"{NVIDIA},berlin oslo,,berlin/oslo,4,2")


def test_two_clusters_are_compared_line_by_line(two: Client) -> None:
    html = two.get(f"{NAMES}{NVIDIA}/", {"a": "berlin", "b": "oslo"}).content.decode()
    assert "<ins>+ extendedResourceName" not in html  # it is no part of the stored spec here
    assert "&amp;&amp; true</ins>" in html
    assert (
        "The rules are the same on both"
        in two.get(f"{NAMES}{NVIDIA}/", {"a": "oslo", "b": "oslo"}).content.decode()
    )
    assert two.get(f"{NAMES}none/").status_code == 404
    assert two.get(f"{NAMES}{NVIDIA}/", {"a": "\x00", "b": "nowhere"}).status_code == 200


@pytest.mark.parametrize(
    ("name", "managers", "expected"),
    [
        ("big", ["claimdesk"], "portal"),
        ("big", ["kubectl-client-side-apply", "claimdesk"], "hand"),
        ("gpu.nvidia.com", ["helm"], "driver"),
        ("mig.nvidia.com", ["helm"], "driver"),
        ("vfio.gpu.nvidia.com", ["helm"], "driver"),
        ("big", ["argocd-controller"], "tool"),
        ("big", [], "unknown"),
        ("big", None, "unknown"),
    ],
)
def test_who_manages_a_class_is_told_by_its_field_managers(
    name: str, managers: list[str] | None, expected: str
) -> None:
    found = DeviceClass(name=name, cluster_id=1, managers=managers)
    assert managed_by(found, {1: {"gpu.nvidia.com"}}) == expected


@pytest.mark.django_db
def test_the_number_of_queries_is_the_same_for_any_number_of_classes(
    two: Client, django_assert_max_num_queries: Any
) -> None:
    with django_assert_max_num_queries(24):
        rows(two)
    oslo = DeviceClass.objects.get(name="mine").cluster
    for number in range(30):
        make_class(oslo, f"class-{number}")
    with django_assert_max_num_queries(24):
        assert len(rows(two)) == 33
