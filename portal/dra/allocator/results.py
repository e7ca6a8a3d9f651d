"""From the devices found to `status.allocation`: results, configuration, node selector."""

from collections.abc import Callable, Iterator, Sequence

from portal.dra import features as gates
from portal.dra import nodeselector
from portal.dra.allocator.requests import Ask, Wish
from portal.dra.allocator.state import Taken
from portal.dra.errors import ClaimError
from portal.dra.features import Features
from portal.dra.model import (
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceClass,
    DeviceRequestAllocationResult,
    NodeSelector,
    ResourceClaim,
)

FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"


def allocation_of(
    ask: Ask,
    taken: Sequence[Taken],
    chosen: Sequence[Wish],
    *,
    node: str,
    features: Features,
    share_id: Callable[[], str],
) -> AllocationResult:
    """The allocation of one claim; `chosen` is the alternative taken for each request, in order."""
    return AllocationResult(
        devices=DeviceAllocationResult(
            results=tuple(_result(item, features, share_id) for item in taken),
            config=tuple(_configuration(ask.claim, chosen, features)),
        ),
        node_selector=_node_selector(taken, node, features),
    )


def _result(taken: Taken, features: Features, share_id: Callable[[], str]) -> DeviceRequestAllocationResult:
    driver, pool, name = taken.item.id
    device = taken.item.device
    binding = features.enabled(gates.DEVICE_BINDING_CONDITIONS)
    share = taken.share
    return DeviceRequestAllocationResult(
        request=taken.wish.name,
        driver=driver,
        pool=pool,
        device=name,
        admin_access=True if taken.wish.admin else None,
        tolerations=taken.wish.tolerations if features.enabled(gates.DEVICE_TAINTS) else (),
        binding_conditions=device.binding_conditions if binding else (),
        binding_failure_conditions=device.binding_failure_conditions if binding else (),
        share_id=share_id() if share is not None else None,
        consumed_capacity={key: str(amount) for key, amount in share.items()} if share is not None else {},
        skip_node_operations=taken.item.source.spec.skip_node_operations,
    )


def _configuration(
    claim: ResourceClaim, chosen: Sequence[Wish], features: Features
) -> Iterator[DeviceAllocationConfiguration]:
    """That of the classes used, each once, then that of the claim as far as it concerns the choice."""
    classes: dict[str, tuple[DeviceClass, list[str]]] = {}
    for wish in chosen:
        _, names = classes.setdefault(wish.device_class.metadata.name, (wish.device_class, []))
        names.append(wish.parent)
    for device_class, names in classes.values():
        for config in device_class.spec.config:
            yield DeviceAllocationConfiguration(
                source=FROM_CLASS, requests=_shortened(tuple(names), chosen, features), opaque=config.opaque
            )
    for item in claim.spec.devices.config:
        if item.requests and not any(_names(item.requests, wish) for wish in chosen):
            continue
        yield DeviceAllocationConfiguration(
            source=FROM_CLAIM, requests=_shortened(item.requests, chosen, features), opaque=item.opaque
        )


def _names(requests: Sequence[str], wish: Wish) -> bool:
    return wish.parent in requests or wish.name in requests


def _shortened(requests: tuple[str, ...], chosen: Sequence[Wish], features: Features) -> tuple[str, ...]:
    """Since 1.37 a list that names every request is left empty, which means the same."""
    if features.at_least(1, 37) and all(_names(requests, wish) for wish in chosen):
        return ()
    return requests


def _node_selector(taken: Sequence[Taken], node: str, features: Features) -> NodeSelector | None:
    """Where the allocation can be used: on one node if any device says so, else where all selectors agree."""
    binding = features.enabled(gates.DEVICE_BINDING_CONDITIONS)
    selectors = []
    for entry in taken:
        item = entry.item
        if binding and item.device.binds_to_node:
            return nodeselector.only(node)
        if item.node_name is not None:
            return nodeselector.only(item.node_name)
        if item.node_selector is not None:
            selectors.append(item.node_selector)
    try:
        return nodeselector.merge(selectors)
    except nodeselector.UnusableSelector as error:
        raise ClaimError("bad-node-selector", message=str(error)) from None
