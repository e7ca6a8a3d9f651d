"""The panel beside the form, with a small fleet in the engine."""

from fractions import Fraction
from typing import Any

import pytest

from claims.asks import judging as asks
from claims.models import PriceBook
from claims.money.pricing import price_list
from claims.preview.panel import Preview, preview
from inventory.models import Cluster, Device
from portal.dra.features import Features
from portal.dra.fleet import Fleet
from portal.dra.model import decode_object
from tests.claims.conftest import NOW, Cast

GUARD = 'device.attributes["gpu.nvidia.com"].productName == "{}"'


def build(*, held: int = 0, cordoned: bool = False, mixed: bool = False) -> Fleet:
    """Two nodes, H100 and A100, with two devices each; the first `held` H100s are taken. `mixed`: there is a
    class of both."""
    slices, nodes = [], []
    for product, memory in (("H100", "80Gi"), ("A100", "40Gi")):
        node = f"node-{product.lower()}"
        devices = [
            {
                "name": f"gpu-{number}",
                "attributes": {"productName": {"string": product}},
                "capacity": {"memory": {"value": memory}},
            }
            for number in range(2)
        ]
        slices.append(
            {
                "apiVersion": "resource.k8s.io/v1",
                "kind": "ResourceSlice",
                "metadata": {"name": f"{node}-slice", "uid": node},
                "spec": {
                    "driver": "gpu.nvidia.com",
                    "nodeName": node,
                    "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                    "devices": devices,
                },
            }
        )
        nodes.append(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": node, "labels": {"kubernetes.io/hostname": node}},
                "spec": {"unschedulable": cordoned and product == "H100"},
                "status": {"conditions": [{"type": "Ready", "status": "True"}]},
            }
        )
    classes = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        }
        for name, expression in (
            *((name, GUARD.format(name.upper())) for name in ("h100", "a100")),
            *((("gpu", "true"),) if mixed else ()),
        )
    ]
    claims = [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": f"holder-{number}", "namespace": "ns", "uid": f"holder-{number}"},
            "spec": {},
            "status": {
                "allocation": {
                    "devices": {
                        "results": [
                            {
                                "request": "r",
                                "driver": "gpu.nvidia.com",
                                "pool": "node-h100",
                                "device": f"gpu-{number}",
                            }
                        ]
                    }
                }
            },
        }
        for number in range(held)
    ]
    decoded: dict[str, list[Any]] = {
        name: [decode_object(item) for item in items]
        for name, items in (("slices", slices), ("nodes", nodes), ("classes", classes), ("claims", claims))
    }
    return Fleet.build(**decoded, features=Features.for_version("1.36"))


def told(cast: Cast, values: dict[str, Any], fleet: Fleet, **changed: Any) -> Preview:
    """The panel for the owner, or for `viewer`."""
    more = {name: changed.pop(name) for name in ("viewer", "clock") if name in changed}
    reading = asks.read(values | changed, user=cast.owner, now=NOW)
    more = {"viewer": cast.owner, "clock": lambda: 0.0, **more}
    return preview(reading, prices=price_list(), now=NOW, fleet_of=lambda _cluster: fleet, **more)


def test_what_fits_is_told_with_its_nodes_and_how_often(
    cast: Cast, values: dict[str, Any], prices: PriceBook
) -> None:
    result = told(cast, values, build())
    assert (result.matching, result.free, result.feasible) == (2, 2, True)
    assert (result.nodes_shown, result.room, result.room_exact) == (("node-h100",), 2, True)
    (line,) = result.cost
    assert (line.count, line.price, line.hours, line.amount) == (1, "2.50", Fraction(72), Fraction(180))


def test_what_does_not_fit_is_explained(cast: Cast, values: dict[str, Any]) -> None:
    result = told(cast, values, build(held=1), count="2")
    assert (result.feasible, result.room) == (False, None)
    assert any("not held" in reason for reason in result.reasons)


def test_a_cordoned_node_takes_nothing(cast: Cast, values: dict[str, Any]) -> None:
    assert told(cast, values, build(cordoned=True)).feasible is False


def test_a_minimum_of_memory_narrows_what_matches(
    cast: Cast, values: dict[str, Any], cluster: Cluster
) -> None:
    assert told(cast, values, build(), device_class="gpu", min_memory="").matching == 4
    assert told(cast, values, build(), device_class="gpu", min_memory="41Gi").matching == 2


def test_a_class_that_the_engine_does_not_know_is_a_problem_not_a_no(
    cast: Cast, values: dict[str, Any]
) -> None:
    result = told(cast, values, build(), device_class="gpu")
    assert result.feasible is None
    assert result.problem


def test_what_has_no_price_is_not_free_of_charge(
    cast: Cast, values: dict[str, Any], prices: PriceBook
) -> None:
    result = told(cast, values, build(), device_class="a100", min_memory="")
    assert [(line.per_hour, line.amount) for line in result.cost] == [(None, None)]


def test_the_cost_is_by_the_rules_that_it_will_be_rated_by(
    cast: Cast, values: dict[str, Any], prices: PriceBook
) -> None:
    plain = told(cast, values, build())
    assert plain.costs[0].amount is not None
    profile = plain.reading.profiles[0].digest
    prices.rules.create(position=0, profile=profile, per_hour="7.5", use="held", unit="device")
    prices.discounts.create(position=0, project=plain.reading.project, percent=20)
    (cost,) = told(cast, values, build()).costs
    assert cost.hourly_words == "6.00"
    assert cost.amount is not None
    assert cost.amount.single
    assert cost.amount.high == sum(line.count * line.hours * 6 for line in cost.lines)


def test_where_it_hangs_on_the_device_what_it_would_be_now_is_priced_and_named(
    cast: Cast, values: dict[str, Any], prices: PriceBook
) -> None:
    asked: dict[str, Any] = {"device_class": "gpu", "count": "2", "duration": "1", "min_memory": ""}
    either = told(cast, values, build(mixed=True), **asked)
    assert [(one.nodes, one.devices) for one in either.placed] == [
        (("node-h100",), [("H100", 2)]),
        (("node-a100",), [("A100", 2)]),
    ]
    (large, small) = (one.cost for one in either.placed)
    assert (large.amount and large.amount.high, large.unpriced) == (Fraction(120), ())
    assert (small.amount, small.unpriced) == (None, ("A100",))
    # One of the two is held: only the other node has two.
    assert [one.devices for one in told(cast, values, build(held=1, mixed=True), **asked).placed] == [
        [("A100", 2)]
    ]
    # Where all that may be costs the same, nothing is to be said.
    assert told(cast, values, build(), **asked | {"device_class": "h100"}).placed == ()


def test_a_cluster_out_of_step_has_no_present(cast: Cast, values: dict[str, Any], cluster: Cluster) -> None:
    Cluster.objects.update(state=Cluster.State.UNREACHABLE)
    result = told(cast, values, build())
    assert (result.matching, result.free, result.feasible) == (2, None, None)
    assert result.why


@pytest.mark.parametrize("state", [Device.State.HELD, Device.State.UNAVAILABLE])
def test_only_free_devices_are_free(cast: Cast, values: dict[str, Any], cluster: Cluster, state: str) -> None:
    Device.objects.filter(name="gpu-0").update(state=state)
    assert told(cast, values, build()).free == 1
