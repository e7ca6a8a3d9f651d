"""Free, busy, a pool can grow, out of service, impossible: told apart; and what would fit instead."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from django.template.loader import render_to_string
from django.urls import reverse

from claims.models import GrowablePool
from claims.preview.panel import Preview
from claims.preview.verdicts import Verdict
from inventory.models import AutoscalerReport, Cluster, DeviceClass, Node
from portal.dra import model as dra
from portal.dra.fleet import Fleet
from portal.dra.model import Taint, decode_object
from tests.claims import catalogue
from tests.claims.conftest import NOW, Cast
from tests.claims.test_preview import build, told
from tests.claims.test_request_views import page, signed_in


@pytest.fixture
def values(values: dict[str, Any]) -> dict[str, Any]:
    return values | {"min_memory": ""}


def growable(cluster: Cluster, **columns: Any) -> GrowablePool:
    default: dict[str, Any] = {
        "name": "burst", "labels": {"pool": "burst"}, "max_nodes": 2, "device_class": "h100", "devices": 4,
        "memory": "80Gi", "changed_at": NOW,
    }  # fmt: skip
    return GrowablePool.objects.create(cluster=cluster, **default | columns)


def with_classes(fleet: Fleet, **expressions: str) -> Fleet:
    """The fleet with further classes, each by its expression."""
    for name, expression in expressions.items():
        made = decode_object(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "DeviceClass",
                "metadata": {"name": name},
                "spec": {"selectors": [{"cel": {"expression": expression}}]},
            }
        )
        assert isinstance(made, dra.DeviceClass)
        fleet.classes[name] = made
    return fleet


def words(result: Preview, code: str) -> list[str]:
    return [one.words for one in result.suggestions if one.code == code]


def test_what_can_be_had_is_free(cast: Cast, values: dict[str, Any]) -> None:
    result = told(cast, values, build())
    assert (result.verdict, result.suggestions, result.waiting) == (Verdict.FREE, (), None)


def test_what_others_hold_is_busy(cast: Cast, values: dict[str, Any]) -> None:
    result = told(cast, values, build(held=2))
    assert result.verdict == Verdict.BUSY
    assert (result.waiting, result.expected is not None) == (0, True)
    assert result.held[0].devices == 2
    # Whose claims they are is not for everybody.
    assert not any("holder-" in reason for reason in result.reasons)


def test_what_stands_on_a_cordoned_node_is_out_of_service(cast: Cast, values: dict[str, Any]) -> None:
    assert told(cast, values, build(cordoned=True)).verdict == Verdict.OUT


def test_more_than_any_node_has_is_impossible(cast: Cast, values: dict[str, Any]) -> None:
    result = told(cast, values, build(), count="3")
    assert result.verdict == Verdict.IMPOSSIBLE
    assert words(result, "fewer") == ["2 instead of 3 would fit now."]
    assert next(one.change for one in result.suggestions if one.code == "fewer") == {"count": "2"}


def test_a_pool_that_can_grow_is_told_where_nothing_there_would_do(
    cast: Cast, values: dict[str, Any], cluster: Cluster
) -> None:
    growable(cluster)
    result = told(cast, values, build(), count="3")
    assert result.verdict == Verdict.GROW
    assert [(one.pool.name, one.nodes, one.more) for one in result.growth] == [("burst", 0, 2)]
    # What others hold is busy, whatever may come besides.
    busy = told(cast, values, build(held=2))
    assert (busy.verdict, len(busy.growth)) == (Verdict.BUSY, 1)


@pytest.mark.parametrize(
    ("columns", "asked"),
    [
        ({"device_class": "a100"}, {}),
        ({"devices": 2}, {}),
        ({"memory": "40Gi"}, {"min_memory": "80Gi"}),
        ({"memory": ""}, {"min_memory": "80Gi"}),
    ],
)
def test_a_pool_that_would_not_bring_it_is_no_way_out(
    cast: Cast, values: dict[str, Any], cluster: Cluster, columns: dict[str, Any], asked: dict[str, Any]
) -> None:
    growable(cluster, **columns)
    assert told(cast, values, build(), count="3", **asked).verdict == Verdict.IMPOSSIBLE


def test_a_pool_with_all_its_nodes_cannot_grow(cast: Cast, values: dict[str, Any], cluster: Cluster) -> None:
    growable(cluster, max_nodes=1)
    Node.objects.filter(name="node-a100").update(labels={"pool": "burst"})
    assert told(cast, values, build(), count="3").verdict == Verdict.IMPOSSIBLE


def autoscaler(cluster: Cluster, *groups: dict[str, Any], age: timedelta = timedelta(minutes=1)) -> None:
    AutoscalerReport.objects.update_or_create(
        cluster=cluster, source="cluster-autoscaler",
        defaults={"state": "known", "groups": list(groups), "read_at": NOW, "written_at": NOW - age},
    )  # fmt: skip


def test_what_an_autoscaler_reports_of_a_pool_goes_before_what_was_said_of_it(
    cast: Cast, values: dict[str, Any], cluster: Cluster
) -> None:
    growable(cluster, max_nodes=1)
    group = {"name": "asg/burst", "minimum": 0, "maximum": 6, "current": 2, "target": 3}
    autoscaler(cluster, group, {"name": "other", "maximum": 9})
    (growth,) = told(cast, values, build(), count="3").growth
    assert growth.report is not None
    assert (growth.more, growth.report.group.current, growth.report.source) == (3, 2, "cluster-autoscaler")
    drawn = render_to_string("claims/_autoscaler_says.html", {"report": growth.report})
    assert "cluster-autoscaler reports: at least 0 nodes, at most 6, 2 now" in drawn

    autoscaler(cluster, group | {"current": 6})
    assert told(cast, values, build(), count="3").verdict == Verdict.IMPOSSIBLE, "it is at its most"
    # What is old says nothing of the present.
    autoscaler(cluster, group | {"current": 6}, age=timedelta(minutes=11))
    (growth,) = told(cast, values, build(), count="3").growth
    assert (growth.report, growth.more) == (None, 1)


def test_a_group_that_tells_its_units_needs_no_administrator(
    cast: Cast, values: dict[str, Any], cluster: Cluster
) -> None:
    catalogue.placement(
        catalogue.flavor("units", max_count=8), cluster, device_class="", extended_resource="nvidia.com/gpu",
        node_selector={"pool": "l40"},
    )  # fmt: skip
    asked = {"flavor": "units", "device_class": "", "shape": "", "duration": "2", "duration_unit": "hours"}
    group = {
        "name": "MachineDeployment/fleet/l40", "maximum": 2, "current": 0, "labels": {"pool": "l40"},
        "resource": "nvidia.com/gpu", "units": 4,
    }  # fmt: skip
    autoscaler(cluster, group)
    result = told(cast, values | asked, build(), count="4")
    assert result.verdict == Verdict.GROW
    assert [(one.pool.name, one.more, one.said) for one in result.growth] == [("l40", 2, False)]
    assert told(cast, values | asked, build(), count="5").verdict == Verdict.IMPOSSIBLE
    autoscaler(cluster, group | {"labels": {"pool": "other"}})
    assert told(cast, values | asked, build(), count="4").verdict == Verdict.IMPOSSIBLE
    growable(cluster, name="l40", device_class="", extended_resource="nvidia.com/gpu", labels={"pool": "l40"})
    autoscaler(cluster, group)
    assert [one.said for one in told(cast, values | asked, build(), count="4").growth] == [True], "told once"


def test_the_page_of_pools_tells_what_is_known_and_what_is_not(cast: Cast, cluster: Cluster) -> None:
    autoscaler(cluster, {"name": "asg/gpu", "maximum": 6, "current": 1, "stuck": "Quota <exceeded>"})
    AutoscalerReport.objects.create(cluster=cluster, source="karpenter", state="forbidden", read_at=NOW)
    html = page(signed_in(cast.admin), reverse("growable-pool-list"))
    assert "asg/gpu" in html
    assert "Quota &lt;exceeded&gt;" in html
    assert "not known: the desk may not read it" in html


def test_a_class_without_any_device_is_impossible_or_growing_and_never_refused(
    cast: Cast, values: dict[str, Any], cluster: Cluster
) -> None:
    fleet = with_classes(build(), none="false")
    result = told(cast, values, fleet, device_class="none")
    assert (result.verdict, result.matching, list(result.remarks)) == (Verdict.IMPOSSIBLE, 0, [])
    assert "No device of the cluster" in result.warnings[0]
    growable(cluster, device_class="none")
    assert told(cast, values, fleet, device_class="none").verdict == Verdict.GROW


def test_less_memory_is_suggested_where_it_would_fit(
    cast: Cast, values: dict[str, Any], cluster: Cluster
) -> None:
    DeviceClass.objects.filter(name="gpu").update(name="any")
    asked = {"device_class": "any", "min_memory": "60Gi"}
    result = told(cast, values, with_classes(build(held=2), any="true"), **asked)
    assert result.verdict == Verdict.BUSY
    assert words(result, "memory") == ["With at least 40Gi of memory each, it would fit now."]


def test_a_taint_of_nodes_is_named_with_who_can_tolerate_it(cast: Cast, values: dict[str, Any]) -> None:
    fleet = build()
    taint = Taint(key="dedicated", value="night", effect="NoSchedule")
    node = fleet.nodes["node-h100"]
    spec = msgspec.structs.replace(node.spec, taints=(taint,))
    fleet.nodes["node-h100"] = msgspec.structs.replace(node, spec=spec)
    result = told(cast, values, fleet)
    assert result.verdict == Verdict.OUT
    (said,) = words(result, "node-taint")
    assert "dedicated=night:NoSchedule" in said
    assert "administrator" in said


def test_another_flavor_is_suggested_that_would_fit(
    cast: Cast, values: dict[str, Any], cluster: Cluster
) -> None:
    for slug in ("h100", "a100"):
        catalogue.placement(catalogue.flavor(slug), cluster)
    asked = {"flavor": "h100", "device_class": "", "duration": "2", "duration_unit": "hours"}
    result = told(cast, values | asked, build(held=2))
    assert result.verdict == Verdict.BUSY
    assert words(result, "flavor") == ["A100 on main would fit now."]
    # A stranger to the project is not offered what they may not ask for.
    assert not words(told(cast, values | asked, build(held=2), viewer=None), "flavor")


def test_the_search_ends_when_its_time_is_over(cast: Cast, values: dict[str, Any]) -> None:
    seconds = iter([0.0, 0.0, 0.01, *range(10, 1_000)])
    result = told(cast, values, build(), count="3", clock=lambda: next(seconds))
    assert len(result.suggestions) == 1


def test_what_a_hold_s_priority_means_is_said(cast: Cast, values: dict[str, Any], cluster: Cluster) -> None:
    catalogue.placement(catalogue.flavor("h100", hold_priority_class="urgent"), cluster)
    asked = {"flavor": "h100", "device_class": "", "duration": "2", "duration_unit": "hours"}
    assert "frees no device" in told(cast, values | asked, build(held=2)).priority_words
    assert timedelta(hours=2) == told(cast, values | asked, build()).reading.duration


def test_a_class_stands_in_for_units_where_no_plugin_serves(
    cast: Cast, values: dict[str, Any], cluster: Cluster
) -> None:
    """KEP-5004: the scheduler makes a claim for Pods that ask for the resource."""
    made = catalogue.flavor("units")
    catalogue.placement(made, cluster, device_class="", extended_resource="nvidia.com/gpu")
    asked = {"flavor": "units", "device_class": "", "shape": "", "duration": "2", "duration_unit": "hours"}
    fleet = build()
    assert told(cast, values | asked, fleet).verdict == Verdict.IMPOSSIBLE
    found = fleet.classes["h100"]
    spec = msgspec.structs.replace(found.spec, extended_resource_name="nvidia.com/gpu")
    fleet.classes["h100"] = msgspec.structs.replace(found, spec=spec)
    result = told(cast, values | asked, fleet)
    assert (result.verdict, result.nodes, result.free, result.room) == (Verdict.FREE, ["node-h100"], 2, 2)


def test_units_that_are_used_are_busy_and_a_pool_may_bring_more(
    cast: Cast, values: dict[str, Any], cluster: Cluster
) -> None:
    catalogue.placement(
        catalogue.flavor("units", max_count=8), cluster, device_class="", extended_resource="nvidia.com/gpu"
    )
    catalogue.units(cluster, used=3)
    asked = {"flavor": "units", "device_class": "", "shape": "", "duration": "2", "duration_unit": "hours"}
    assert told(cast, values | asked, build()).verdict == Verdict.FREE
    assert told(cast, values | asked, build(), count="2").verdict == Verdict.BUSY
    assert told(cast, values | asked, build(), count="5").verdict == Verdict.IMPOSSIBLE
    growable(cluster, device_class="", extended_resource="nvidia.com/gpu", devices=8)
    assert told(cast, values | asked, build(), count="5").verdict == Verdict.GROW
    assert told(cast, values | asked, build(cordoned=True), count="4").verdict == Verdict.GROW
