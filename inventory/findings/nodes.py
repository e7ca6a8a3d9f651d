"""Nodes whose hardware and whose slices do not fit together."""

from collections import defaultdict
from collections.abc import Iterable

from inventory.findings import hardware
from inventory.findings.facts import Facts
from inventory.findings.model import Found
from inventory.models import Severity


def without_slice(facts: Facts) -> Iterable[Found]:
    """A node has a vendor's hardware and no slice of any driver of that vendor, though the cluster has such
    a driver elsewhere. Where a Device Plugin hands the hardware out, that is only worth knowing."""
    drivers: dict[str, set[str]] = defaultdict(set)
    for of_node in facts.drivers_of_nodes.values():
        for driver in of_node:
            if vendor := hardware.vendor_of_driver(driver):
                drivers[vendor].add(driver)
    for node in facts.nodes.values():
        published = {hardware.vendor_of_driver(d) for d in facts.drivers_of_nodes.get(node.name, ())}
        plugin = hardware.units(node.capacity)
        said = hardware.vendors_in_labels(node.labels) | plugin.keys()
        for vendor in sorted((said & drivers.keys()) - published):
            params = {"node": node.name, "vendor": vendor, "drivers": sorted(drivers[vendor])}
            served = plugin.get(vendor)
            yield Found(
                subject=f"{node.name}/{vendor}",
                object_kind="node",
                name=node.name,
                code="hardware-by-plugin" if served else "hardware-without-slice",
                severity=Severity.INFO if served else Severity.BAD,
                params=params | ({"resources": _told(served)} if served else {}),
                holds_for=facts.thresholds.hardware_without_slice,
            )


def abandoned_slices(facts: Facts) -> Iterable[Found]:
    """Slices whose driver cannot be at work any more, for its node is gone or has not been ready for
    long. Pods that get such devices hang."""
    for name, drivers in facts.drivers_of_nodes.items():
        node = facts.nodes.get(name)
        if node is not None and node.ready:
            continue
        gone = node is None
        for driver, count in sorted(drivers.items()):
            yield Found(
                subject=f"{name}/{driver}",
                object_kind="node",
                name=name,
                code="slice-node-gone" if gone else "slice-node-not-ready",
                severity=Severity.BAD if gone else Severity.WARNING,
                params={"node": name, "driver": driver, "slices": count},
                holds_for=facts.thresholds.node_gone if gone else facts.thresholds.node_not_ready,
            )


def doubly_managed(facts: Facts) -> Iterable[Found]:
    """Hardware with two books: of a Device Plugin and of a DRA driver, or of two DRA drivers."""
    yield from _by_plugin_and_driver(facts)
    yield from _by_several_drivers(facts)


def _by_plugin_and_driver(facts: Facts) -> Iterable[Found]:
    """A Device Plugin advertises units and a DRA driver publishes devices of one vendor on one node: two
    books that may hand out the same piece twice."""
    for name, drivers in facts.drivers_of_nodes.items():
        node = facts.nodes.get(name)
        if node is None:
            continue
        for vendor, resources in sorted(hardware.units(node.capacity).items()):
            same = sorted(d for d in drivers if hardware.vendor_of_driver(d) == vendor)
            if same:
                yield Found(
                    subject=f"{name}/{vendor}",
                    object_kind="node",
                    name=name,
                    code="doubly-managed",
                    severity=Severity.BAD,
                    params={"node": name, "resources": _told(resources), "drivers": same},
                    holds_for=facts.thresholds.doubly_managed,
                )


def _by_several_drivers(facts: Facts) -> Iterable[Found]:
    """Several drivers publish the same pieces of hardware, by uuid or PCI address. One driver that offers a
    piece in several modes knows what it does."""
    for node, drivers, count in facts.published_by_several:
        yield Found(
            subject=f"{node}/{'+'.join(drivers)}",
            object_kind="node",
            name=node,
            code="doubly-published",
            severity=Severity.BAD,
            params={"node": node, "drivers": list(drivers), "pieces": count},
            holds_for=facts.thresholds.doubly_managed,
        )


def _told(resources: dict[str, int]) -> list[str]:
    return [f"{name}: {count}" for name, count in sorted(resources.items())]
