"""DeviceClasses for readers: what they match, how much is free, who uses them."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from inventory.class_users import users_of
from inventory.models import Claim, ClaimTemplate, Cluster, DeviceClass, Pod
from tests.inventory_pages.conftest import INSIDERS, OUTSIDERS, Cast, Fleet
from tests.inventory_pages.factories import make_class, make_cluster, make_fleet


def page(cast: Cast, role: str, path: str) -> str:
    response = cast.client(role).get(path)
    assert response.status_code == 200
    return response.content.decode()


@pytest.mark.parametrize("role", [*INSIDERS, *OUTSIDERS])
def test_everybody_reads_classes_and_only_administrators_are_offered_changes(
    role: str, cast: Cast, fleet: Fleet
) -> None:
    listed = page(cast, role, "/classes/")
    detail = page(cast, role, "/classes/berlin/gpu.nvidia.com/")
    assert "nvidia.com/gpu" in listed
    assert "NVIDIA H100 80GB HBM3" in detail
    offered = role == "administrator"
    assert ("/create-class/" in listed) == offered
    assert ("/classes/berlin/gpu.nvidia.com/edit/" in detail) == offered


def test_a_class_of_single_devices_counts_those(cast: Cast, fleet: Fleet) -> None:
    make_class(fleet.cluster, "pair", devices=(fleet.held, fleet.free), expression="…uuid…")
    html = page(cast, "owner", "/classes/?q=pair")
    assert ">2</a>" in html
    assert "/devices/?cluster=berlin&amp;class=pair" in html
    devices = page(cast, "owner", "/devices/?cluster=berlin&class=pair")
    assert "<strong>2</strong>" in devices


def test_out_of_step_nothing_is_called_free(cast: Cast, fleet: Fleet) -> None:
    Cluster.objects.update(state=Cluster.State.UNREACHABLE)
    html = page(cast, "owner", "/classes/berlin/gpu.nvidia.com/")
    assert "<dt>Free now</dt><dd>–</dd>" in html


def test_a_class_that_cannot_be_evaluated_says_why(cast: Cast, fleet: Fleet) -> None:
    make_class(fleet.cluster, "broken", problem="line 1: <b>syntax</b>")
    for path in ("/classes/", "/classes/berlin/broken/"):
        html = page(cast, "stranger", path)
        assert "line 1: &lt;b&gt;syntax" in html


@pytest.mark.parametrize(
    "spec", [{}, {"selectors": None}, {"selectors": [{}, {"cel": {}}], "config": [{"x": 1}]}]
)
def test_odd_specs_are_shown(spec: object, cast: Cast, fleet: Fleet) -> None:
    DeviceClass.objects.update(spec=spec)
    page(cast, "administrator", "/classes/")
    page(cast, "administrator", "/classes/berlin/gpu.nvidia.com/")
    page(cast, "administrator", "/classes/berlin/gpu.nvidia.com/edit/")


@pytest.mark.parametrize("query", ["page=abc", "page=999", "q=%00%25", "cluster=nowhere"])
def test_odd_lists_are_answered(query: str, cast: Cast, fleet: Fleet) -> None:
    page(cast, "owner", f"/classes/?{query}")


@pytest.mark.parametrize("role", [*INSIDERS, *OUTSIDERS])
def test_users_of_a_class_are_named_to_members(role: str, cast: Cast, fleet: Fleet) -> None:
    html = page(cast, role, "/classes/berlin/gpu.nvidia.com/")
    assert ("protein-folding/secret-claim" in html) == (role in INSIDERS)
    assert ("1 claim, template or Pod of a project" in html) == (role in OUTSIDERS)


def test_users_are_claims_templates_and_pods_that_name_it(fleet: Fleet) -> None:
    found = DeviceClass.objects.get(name="gpu.amd.com")
    common = {"cluster": fleet.cluster, "namespace": "ns", "resource_version": "1"}
    first = {"devices": {"requests": [{"name": "r", "firstAvailable": [{"deviceClassName": "gpu.amd.com"}]}]}}
    other = {"devices": {"requests": [{"name": "gpu.amd.com", "exactly": {"deviceClassName": "other"}}]}}
    Claim.objects.create(**common, name="alternative", uid="1", spec=first)
    Claim.objects.create(**common, name="only-mentions", uid="2", spec=other)
    Claim.objects.create(**common, name="empty", uid="3", spec={"devices": None})
    ClaimTemplate.objects.create(**common, name="template", uid="4", spec=first)
    implicit = {"deviceclass.resource.kubernetes.io/gpu.amd.com": "1"}
    Pod.objects.create(**common, name="pod", uid="5", phase="Running", extended_resources=implicit)
    Pod.objects.create(**common, name="done", uid="6", phase="Succeeded", extended_resources=implicit)
    assert [(user.kind, user.name) for user in users_of(found)] == [
        ("ResourceClaim", "alternative"),
        ("ResourceClaimTemplate", "template"),
        ("Pod", "pod"),
    ]


def test_the_number_of_queries_does_not_grow(cast: Cast, fleet: Fleet) -> None:
    client = cast.client("owner")

    def queries(path: str) -> int:
        with CaptureQueriesContext(connection) as captured:
            assert client.get(path).status_code == 200
        return len(captured)

    paths = ("/classes/", "/classes/berlin/gpu.nvidia.com/")
    # With a second cluster there is a choice of clusters.
    make_cluster("bern")
    small = [queries(path) for path in paths]
    for name in ("oslo", "rome"):
        make_fleet(make_cluster(name), nodes=20, kinds=9)
    assert [queries(path) for path in paths] == small
